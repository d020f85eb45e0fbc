//! The sign by which events tell that a document root's path may lead elsewhere now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set by events, one for each root.
#[derive(Debug)]
pub struct Sign {
    marks: AtomicU64,
    seen: AtomicU64,
    all: Arc<AtomicU64>,
}

impl Sign {
    /// A sign without mark; `all` counts the marks of all signs.
    pub fn new(all: Arc<AtomicU64>) -> Self {
        Self {
            marks: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            all,
        }
    }

    /// Something happened on the root's way.
    pub fn mark(&self) {
        self.marks.fetch_add(1, Ordering::AcqRel);
        self.all.fetch_add(1, Ordering::AcqRel);
    }

    /// The marks, if there are some that no resolution has [`seen`](Self::see); to be taken before it.
    pub fn unseen(&self) -> Option<u64> {
        let marks = self.marks.load(Ordering::Acquire);
        (marks != self.seen.load(Ordering::Acquire)).then_some(marks)
    }

    /// A resolution that began when there were so many marks has ended.
    pub fn see(&self, marks: u64) {
        self.seen.fetch_max(marks, Ordering::AcqRel);
    }
}
