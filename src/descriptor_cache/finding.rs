//! What passes between a look and the table.

use std::sync::Arc;

use super::entry::{FileEntry, Identity};
use super::epochs::Voucher;
use super::found::{Found, LookupError, Source};
use super::freshness::Trust;
use super::record::{Held, Kind, Missed, Record};
use super::root::RootGeneration;
use super::settings::Settings;
use super::vouch::Vouched;
use crate::clock::Tick;

/// A hit.
#[derive(Debug)]
pub enum Recalled {
    /// A file or directory.
    Found(Found),
    /// A remembered error; `None`: nothing is there.
    Missed(Option<LookupError>),
}

/// What is known of a path that needs another look.
#[derive(Debug)]
pub struct Known {
    /// The file; `None` for a directory.
    pub file: Option<(Arc<FileEntry>, Source)>,
    /// Whether it is used often enough to hold something.
    pub is_admitted: bool,
    /// Whether the last look was recent enough, so that only its content was lacking.
    pub is_valid: bool,
}

/// What a look found, to be entered.
#[derive(Debug)]
pub enum Finding {
    /// A file in a state that was known; what is held of it stays.
    Unchanged(Arc<FileEntry>),
    /// A file.
    File(Arc<FileEntry>, Held),
    /// A directory.
    Directory,
    /// An error to be remembered.
    Missed(Missed),
    /// An error not to be remembered.
    Nothing,
}

impl Finding {
    /// The record of it; none of an error.
    pub fn into_record(self, trust: Trust, look: &Look<'_>) -> Option<Record> {
        let kind = match self {
            Self::Unchanged(entry) => Kind::File(entry, Held::Nothing),
            Self::File(entry, held) => Kind::File(entry, held),
            Self::Directory => Kind::Directory,
            Self::Missed(_) | Self::Nothing => return None,
        };
        Some(Record::new(kind, trust, look.started, look.started))
    }
}

/// The circumstances of a look.
#[derive(Debug)]
pub struct Look<'a> {
    /// The generation it was made in.
    pub root: &'a RootGeneration,
    /// The settings it was made by.
    pub settings: &'a Settings,
    /// When it began.
    pub started: Tick,
    /// The table's epoch when it began.
    pub epoch: u64,
    /// What may vouch for what it finds, noted before it.
    pub vouched: Option<Vouched>,
}

/// What a watch vouches for, and what is looked at all the same now, to see whether the watch was right.
#[derive(Debug)]
pub struct Overdue {
    /// The voucher, which is current.
    pub voucher: Voucher,
    /// The state that it vouches for; `None`: nothing is there.
    pub identity: Option<Identity>,
}

/// What had to make room; to be dropped outside of any lock.
#[derive(Debug, Default)]
#[must_use]
pub struct Displaced {
    /// Records taken out or not entered.
    pub records: Vec<Record>,
    /// How many of them made room for others.
    pub evictions: u64,
    /// Errors that made room for others.
    pub negatives: u64,
}
