//! A word that lets whoever says it do something: read from a file, compared without telling how much of it is right.

use std::fmt;
use std::io;
use std::path::Path;

/// The word.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

impl Token {
    /// The token of a file: its first line.
    ///
    /// # Errors
    /// The file cannot be read, or its first line is no word of at least [`SHORTEST`] visible characters.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the settings, read once when they are loaded"
    )]
    pub fn read(path: &Path) -> io::Result<Token> {
        let text = std::fs::read(path)?;
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let word = line.trim_ascii();
        match word.len() >= SHORTEST && word.iter().all(u8::is_ascii_graphic) {
            true => Ok(Token(word.into())),
            false => Err(io::Error::other(format!(
                "its first line is no word of at least {SHORTEST} visible characters"
            ))),
        }
    }

    /// Whether this is the word. Takes the same time whatever of it is right.
    #[must_use]
    pub fn is(&self, word: &[u8]) -> bool {
        let differences = word
            .iter()
            .zip(&self.0)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        word.len() == self.0.len() && differences == 0
    }

    /// Whether this value of Authorization says the word as a bearer's (RFC 6750 §2.1).
    #[must_use]
    pub fn is_borne_by(&self, authorization: &[u8]) -> bool {
        let scheme = authorization.split_at_checked(7);
        scheme.is_some_and(|(scheme, word)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && self.is(word.trim_ascii())
        })
    }
}

/// Not for logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Characters of the shortest word: what can be guessed is no token.
pub const SHORTEST: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "tests fail by panicking and make their files"
    )]

    use super::*;

    fn of(text: &str) -> io::Result<Token> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn the_first_line_is_the_word() {
        let token = of("  0123456789abcdef \nmore\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for other in [
            "",
            "0123456789abcde",
            "0123456789abcdeX",
            "0123456789abcdef0",
        ] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert!(token.is_borne_by(b"Bearer 0123456789abcdef"));
        assert!(token.is_borne_by(b"bearer  0123456789abcdef"));
        assert!(!token.is_borne_by(b"Basic 0123456789abcdef") && !token.is_borne_by(b"Bearer"));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn what_can_be_guessed_is_refused() {
        for text in [
            "",
            "\n0123456789abcdef",
            "short",
            "two words of some length",
            "0123456789abcdeé",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(Token::read(Path::new("/nonexistent/token")).is_err());
    }
}
