//! nginx's language: files in, a tree of directives with their places out. What a directive means is not known here.

pub mod directives;
pub mod files;
pub mod glob;
pub mod tokens;

use std::fmt;
use std::rc::Rc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it is shown.
    pub file: Rc<str>,
    /// Its line, counted from 1; 0 where the whole file is meant.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// Why there is no tree: a file that cannot be read, or is not nginx's language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Unreadable {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub reason: String,
}
