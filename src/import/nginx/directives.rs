//! Directives: a name, words, and a block for some; with the line each stands on.

use std::rc::Rc;

use super::tokens::{Kind, Tokens, Wrong};
use super::{Place, Unreadable};

/// One directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its first word.
    pub name: String,
    /// The words after it.
    pub args: Vec<String>,
    /// Where it stands.
    pub place: Place,
    /// What it holds in braces; none: it ends with a semicolon.
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// A word after the name, the first being 0; empty where there is none.
    #[must_use]
    pub fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// What it holds; nothing where it has no block.
    #[must_use]
    pub fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Name and words, cut where they are long.
    #[must_use]
    pub fn shown(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args);
        let line = words.map(String::as_str).collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
            None => line,
        }
    }
}

/// The directives of one file; `include` is one like any other.
///
/// # Errors
/// The first thing that nginx would not read either.
pub fn parse(file: &Rc<str>, bytes: &[u8]) -> Result<Vec<Directive>, Unreadable> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut tokens = Tokens::new(bytes);
    block(file, &mut tokens, 0).map_err(|wrong| Unreadable {
        place: Place {
            file: file.clone(),
            line: wrong.line,
        },
        reason: wrong.reason,
    })
}

/// Up to the brace that closes this block, or the end of the file at depth 0.
fn block(file: &Rc<str>, tokens: &mut Tokens<'_>, depth: usize) -> Result<Vec<Directive>, Wrong> {
    let mut found = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begin = 0;
    loop {
        let Some(token) = tokens.token()? else {
            return match (words.is_empty(), depth) {
                (true, 0) => Ok(found),
                (true, _) => Err(wrong(
                    tokens.line(),
                    "the file ends within a block, \"}\" is missing",
                )),
                (false, _) => Err(wrong(
                    begin,
                    "a directive that does not end, \";\" or \"}\" is missing",
                )),
            };
        };
        let line = token.line;
        let opens = match token.kind {
            Kind::Word(word) => {
                if words.is_empty() {
                    begin = line;
                }
                words.push(word);
                if words.len() > MOST {
                    return Err(wrong(
                        begin,
                        "a directive of more words than can be imported",
                    ));
                }
                continue;
            }
            Kind::Close if words.is_empty() && depth > 0 => return Ok(found),
            Kind::Close => return Err(wrong(line, "unexpected \"}\"")),
            Kind::End => false,
            Kind::Open => true,
        };
        let mut rest = std::mem::take(&mut words).into_iter();
        let Some(name) = rest.next() else {
            let mark = if opens { '{' } else { ';' };
            return Err(wrong(line, &format!("unexpected \"{mark}\"")));
        };
        let place = Place {
            file: file.clone(),
            line: begin,
        };
        let block = match opens {
            false => None,
            true if name.ends_with("_by_lua_block") => {
                tokens.skip_block();
                Some(Vec::new())
            }
            true if depth == MAX_DEPTH => return Err(wrong(line, "blocks are nested too deep")),
            true => Some(block(file, tokens, depth + 1)?),
        };
        found.push(Directive {
            name,
            args: rest.collect(),
            place,
            block,
        });
        if found.len() > MOST {
            return Err(wrong(
                line,
                "more directives in a block than can be imported",
            ));
        }
    }
}

fn wrong(line: usize, reason: &str) -> Wrong {
    Wrong {
        line,
        reason: reason.to_owned(),
    }
}

/// Far more than a configuration has, and little for the stack.
const MAX_DEPTH: usize = 64;
/// Words of a directive, and directives of a block: far more than are written by hand.
const MOST: usize = 10_000;
const SHOWN_CHARS: usize = 90;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Directive>, String> {
        parse(&Rc::from("n.conf"), text.as_bytes()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn blocks_hold_directives() {
        let tree = read("user a;\nhttp {\n  server { listen 80; }\n}\n").unwrap();
        assert_eq!(tree[0].shown(), "user a");
        let server = &tree[1].children()[0];
        assert_eq!((server.name.as_str(), server.place.line), ("server", 3));
        assert_eq!(server.children()[0].arg(0), "80");
        assert_eq!(server.children()[0].arg(1), "");
    }

    #[test]
    fn lua_is_passed_over() {
        let tree =
            read("content_by_lua_block { if a == \"b\" then x = {1}; end }\nroot /a;").unwrap();
        assert_eq!(tree[1].shown(), "root /a");
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, said) in [
            ("a {\n b;\n", "n.conf:3: the file ends within a block"),
            ("a;\n}\n", "n.conf:2: unexpected \"}\""),
            ("a\nb", "n.conf:1: a directive that does not end"),
            ("\n;", "n.conf:2: unexpected \";\""),
            ("\n\n{", "n.conf:3: unexpected \"{\""),
            ("a {\n b 'c\n}", "n.conf:2: a quote that is not closed"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.starts_with(said), "{text:?}: {wrong}");
        }
        assert!(
            read(&"a {".repeat(100_000))
                .unwrap_err()
                .contains("too deep")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&Rc::from("n.conf"), &bytes);
        }
    }

    #[test]
    fn what_nobody_writes_by_hand_is_refused() {
        let file = Rc::from("n.conf");
        let many = "a;".repeat(MOST + 1);
        assert!(parse(&file, many.as_bytes()).is_err());
        let long = format!("a{};", " b".repeat(MOST + 1));
        assert!(parse(&file, long.as_bytes()).is_err());
        assert!(parse(&file, "a;".repeat(MOST).as_bytes()).is_ok());
    }
}
