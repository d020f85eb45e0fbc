//! Words and marks of an nginx configuration, by the rules of nginx's own reader (`ngx_conf_read_token`).
//!
//! A word ends at white space, `;` or `{`, or at the quote it began with; `#` begins a comment where a word could
//! begin, and `}` closes a block only there. `${` belongs to the word. A backslash takes the next byte along; it is
//! dropped before a quote or a backslash, makes `\t`, `\r` and `\n`, and stays before anything else, which is how
//! regular expressions need no second one.

use crate::import::yaml::is_text;

/// One word or mark, and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its line, counted from 1.
    pub line: usize,
}

/// A word, or one of the marks between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word without its quotes. What is no visible text is replaced by U+FFFD: it could stand in no settings file.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// What no token can begin or end with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The line.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// Reads tokens from the bytes of a file.
#[derive(Debug)]
pub struct Tokens<'b> {
    bytes: &'b [u8],
    at: usize,
    line: usize,
    /// Right behind a closing quote, where only white space or a mark may follow.
    after_quote: bool,
}

impl<'b> Tokens<'b> {
    /// Begins at the first byte.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Tokens<'b> {
        Tokens {
            bytes,
            at: 0,
            line: 1,
            after_quote: false,
        }
    }

    /// The line reached.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The next token; none at the end.
    ///
    /// # Errors
    /// A quote that is not closed, or is followed by something else than white space.
    pub fn token(&mut self) -> Result<Option<Token>, Wrong> {
        self.skip_space()?;
        let line = self.line;
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        let mark = match first {
            b';' => Some(Kind::End),
            b'{' => Some(Kind::Open),
            b'}' => Some(Kind::Close),
            _ => None,
        };
        let kind = match mark {
            Some(mark) => {
                self.take();
                mark
            }
            None if matches!(first, b'"' | b'\'') => {
                self.take();
                Kind::Word(self.quoted(first, line)?)
            }
            None => Kind::Word(self.bare()),
        };
        Ok(Some(Token { kind, line }))
    }

    /// Passes over a block of another language, such as Lua, up to and with the brace that closes it.
    pub fn skip_block(&mut self) {
        let mut open = 1_usize;
        while open > 0 {
            match self.take() {
                Some(b'{') => open += 1,
                Some(b'}') => open -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn skip_space(&mut self) -> Result<(), Wrong> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.after_quote = false,
                // nginx takes `if ("$a" = "b")`: a bracket may close behind a quote.
                b';' | b'{' | b')' => {
                    self.after_quote = false;
                    return Ok(());
                }
                _ if self.after_quote => {
                    return Err(Wrong {
                        line: self.line,
                        reason: format!(
                            "unexpected \"{}\" after a closing quote",
                            byte.escape_ascii()
                        ),
                    });
                }
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.take();
                    }
                    continue;
                }
                _ => return Ok(()),
            }
            self.take();
        }
        Ok(())
    }

    fn quoted(&mut self, quote: u8, line: usize) -> Result<String, Wrong> {
        let mut word = Vec::new();
        loop {
            match self.take() {
                Some(byte) if byte == quote => break,
                Some(b'\\') => self.escaped(&mut word),
                Some(byte) => word.push(byte),
                None => {
                    return Err(Wrong {
                        line,
                        reason: "a quote that is not closed".to_owned(),
                    });
                }
            }
        }
        self.after_quote = true;
        Ok(text(&word))
    }

    fn bare(&mut self) -> String {
        let mut word = Vec::new();
        let mut dollar = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                b'{' if !dollar => break,
                _ => {}
            }
            self.take();
            dollar = byte == b'$';
            match byte {
                b'\\' => self.escaped(&mut word),
                _ => word.push(byte),
            }
        }
        text(&word)
    }

    /// What a backslash and the byte behind it stand for.
    fn escaped(&mut self, word: &mut Vec<u8>) {
        match self.take() {
            Some(byte @ (b'"' | b'\'' | b'\\')) => word.push(byte),
            Some(b't') => word.push(b'\t'),
            Some(b'r') => word.push(b'\r'),
            Some(b'n') => word.push(b'\n'),
            Some(byte) => word.extend([b'\\', byte]),
            None => word.push(b'\\'),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }
}

fn text(word: &[u8]) -> String {
    let visible = |character| match is_text(character) {
        true => character,
        false => char::REPLACEMENT_CHARACTER,
    };
    String::from_utf8_lossy(word).chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut tokens = Tokens::new(text.as_bytes());
        std::iter::from_fn(|| tokens.token().unwrap())
            .map(|token| token.kind)
            .collect()
    }

    fn words(text: &str) -> Vec<String> {
        let word = |kind| match kind {
            Kind::Word(word) => Some(word),
            _ => None,
        };
        kinds(text).into_iter().filter_map(word).collect()
    }

    #[test]
    fn words_end_at_space_and_marks() {
        let word = |text: &str| Kind::Word(text.to_owned());
        assert_eq!(
            kinds("a b{c d;}"),
            [
                word("a"),
                word("b"),
                Kind::Open,
                word("c"),
                word("d"),
                Kind::End,
                Kind::Close
            ]
        );
        assert_eq!(words("a#b # c\n d"), ["a#b", "d"]);
        assert_eq!(words("x${y}z {"), ["x${y}z"]);
        assert_eq!(words("a}b;"), ["a}b"]);
    }

    #[test]
    fn quotes_and_backslashes() {
        assert_eq!(
            words(r#""a b" 'c;{' "d\"e" 'f"g' """#),
            ["a b", "c;{", "d\"e", "f\"g", ""]
        );
        assert_eq!(
            words(r"~ \.php$ a\ b a\;b \\x"),
            ["~", r"\.php$", r"a\ b", r"a\;b", r"\x"]
        );
        assert_eq!(
            words(r#"if ("$a" = "b") {"#),
            ["if", "(\"$a\"", "=", "b", ")"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let wrong = |text: &str| {
            let mut tokens = Tokens::new(text.as_bytes());
            loop {
                match tokens.token() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{text} was read"),
                    Err(wrong) => return wrong,
                }
            }
        };
        assert_eq!(wrong("a\nb \"c\nd").line, 2);
        assert_eq!(wrong("a;\n\"b\"c;").line, 2);
    }

    #[test]
    fn lines_are_those_where_a_word_begins() {
        let mut tokens = Tokens::new(b"a\n\"b\nc\" d");
        let mut line = || tokens.token().unwrap().unwrap().line;
        assert_eq!([line(), line(), line()], [1, 2, 3]);
    }
}
