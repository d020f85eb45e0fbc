//! One mistake of a settings file: where it stands, what is wrong and what is expected.

use std::fmt;

/// A mistake, shown as `nostat.yaml:12:7: sites[0].php.wait: "5 sec" is not a duration; expected
/// e.g. 5s, 200ms, 1m`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as the user named it.
    pub file: String,
    /// The key's path, e.g. `sites[1].php.wait`; empty when the mistake belongs to no key.
    pub path: String,
    /// Line, counted from 1; 0 when the mistake belongs to no line.
    pub line: usize,
    /// Column in characters, counted from 1; 0 when the mistake belongs to no line.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What is expected, or what to do; may be empty.
    pub expected: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.expected.is_empty() {
            write!(f, "; {}", self.expected)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistake {}

/// A place in the text of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, counted from 1; 0 is no place.
    pub line: usize,
    /// Column in characters, counted from 1; 0 is no place.
    pub column: usize,
}

/// What is wrong with a value that does not know its own place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub message: String,
    /// What is expected, or what to do; may be empty.
    pub expected: String,
}

impl Wrong {
    /// States what is wrong and what is expected instead.
    pub fn new(message: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            expected: expected.into(),
        }
    }
}

/// The user's text in quotes, control characters escaped and cut when long: a mistake is one line.
pub fn quoted(text: &str) -> String {
    if text.chars().count() <= QUOTED_CHARS {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(QUOTED_CHARS).collect();
    format!("{head:?}…")
}

/// Characters of the user's text that a mistake repeats.
const QUOTED_CHARS: usize = 60;
