//! The coded forms of a file's content that were made here, kept with the state of the file that they were made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;

use super::entry::FileEntry;
use super::found::{FileFound, Source};
use crate::request::accept_encoding::Coding;

/// The forms of one content, each found as if it were a file of its own.
pub struct CodedForms {
    forms: Vec<(Coding, FileFound)>,
    /// Given back with the last who holds them.
    _room: Option<Room>,
}

impl CodedForms {
    /// No form is worth having.
    pub fn none() -> CodedForms {
        CodedForms {
            forms: Vec::new(),
            _room: None,
        }
    }

    /// These forms of the content of `original`, in this room.
    pub fn of(original: &FileEntry, forms: Vec<(Coding, Bytes)>, room: Room) -> CodedForms {
        let found = |(coding, bytes): (Coding, Bytes)| {
            let mut identity = original.identity;
            identity.size = bytes.len() as u64;
            let found = FileFound {
                entry: Arc::new(FileEntry::new(identity, false)),
                source: Source::Memory(bytes),
            };
            (coding, found)
        };
        CodedForms {
            forms: forms.into_iter().map(found).collect(),
            _room: Some(room),
        }
    }

    /// The form in this coding.
    pub fn in_coding(&self, coding: Coding) -> Option<&FileFound> {
        let form = self.forms.iter().find(|(known, _)| *known == coding);
        form.map(|(_, found)| found)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }
}

/// Bytes of a budget, given back when dropped.
pub struct Room {
    budget: Arc<AtomicUsize>,
    bytes: usize,
}

impl Room {
    /// So many bytes; none: they would make more than `most`.
    pub fn take(budget: &Arc<AtomicUsize>, bytes: usize, most: usize) -> Option<Room> {
        let taken = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            now.checked_add(bytes).filter(|sum| *sum <= most)
        });
        taken.is_ok().then(|| Room {
            budget: budget.clone(),
            bytes,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An entry's forms, and how often they were wished for before there were any.
#[derive(Default)]
pub struct Making {
    forms: ArcSwapOption<CodedForms>,
    wishes: AtomicU8,
}

impl Making {
    /// The forms, once they are made.
    pub fn get(&self) -> Guard<Option<Arc<CodedForms>>> {
        self.forms.load()
    }

    /// Keeps them.
    pub fn set(&self, forms: CodedForms) {
        self.forms.store(Some(Arc::new(forms)));
    }

    /// Counts a wish. True for the one that makes it `enough`: then they are to be made.
    pub fn is_wished(&self, enough: u8) -> bool {
        let counted = self
            .wishes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                (now < enough).then(|| now + 1)
            });
        counted.is_ok_and(|before| before + 1 == enough)
    }

    /// They could not be made now: wishes are counted anew.
    pub fn wish_again(&self) {
        self.wishes.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_enough_wishes_is_told_once() {
        let making = Making::default();
        assert!(!making.is_wished(2));
        assert!(making.is_wished(2));
        assert!(!making.is_wished(2));
        making.wish_again();
        assert!(!making.is_wished(2));
        assert!(making.is_wished(2));
    }

    #[test]
    fn room_is_given_back() {
        let budget = Arc::new(AtomicUsize::new(0));
        let room = Room::take(&budget, 60, 100).expect("room");
        assert!(Room::take(&budget, 60, 100).is_none());
        drop(room);
        assert!(Room::take(&budget, 60, 100).is_some());
    }
}
