//! Where every part leaves its mistakes, by the path of the key they belong to.

use std::cell::RefCell;

use super::mistake::{Mistake, Place, Wrong};
use super::positions::Positions;

/// The mistakes of one file while its parts are read.
#[derive(Debug)]
pub struct Report {
    file: String,
    positions: Positions,
    mistakes: RefCell<Vec<Mistake>>,
}

impl Report {
    /// A report on `file`, which already has these mistakes.
    pub fn new(file: &str, positions: Positions, mistakes: Vec<Mistake>) -> Self {
        Self {
            file: file.to_owned(),
            positions,
            mistakes: RefCell::new(mistakes),
        }
    }

    /// The value at `path` is wrong.
    pub fn value(&self, path: &str, wrong: Wrong) {
        self.add(self.positions.value(path), path, wrong);
    }

    /// The key at `path` is wrong, whatever its value.
    pub fn key(&self, path: &str, wrong: Wrong) {
        self.add(self.positions.key(path), path, wrong);
    }

    /// A value that is right, or nothing and a mistake.
    pub fn accept<T>(&self, path: &str, result: Result<T, Wrong>) -> Option<T> {
        result.map_err(|wrong| self.value(path, wrong)).ok()
    }

    /// All mistakes in the order of the file.
    pub fn finish(self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        mistakes
    }

    fn add(&self, place: Place, path: &str, wrong: Wrong) {
        self.mistakes.borrow_mut().push(Mistake {
            file: self.file.clone(),
            path: path.to_owned(),
            line: place.line,
            column: place.column,
            message: wrong.message,
            expected: wrong.expected,
        });
    }
}
