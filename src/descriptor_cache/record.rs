//! What the table keeps for one path, and the stamps by which uses are noted without a lock for writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::budget::{Charge, Hold};
use super::entry::FileEntry;
use super::epochs::Mark;
use super::file::OpenFile;
use super::found::{FileFound, Found, LookupError, Source};
use super::freshness::{Brevity, Moment, Trust};
use super::settings::Settings;
use crate::clock::Tick;

/// A file or directory that was found.
#[derive(Debug)]
pub struct Record {
    /// What was found.
    pub kind: Kind,
    /// What tells a change of it.
    pub trust: Trust,
    looked: AtomicU64,
    used: AtomicU64,
    uses: AtomicU32,
    /// When it was last moved to the end of its shard's list.
    pub placed: Tick,
}

/// What was found at a path.
#[derive(Debug)]
pub enum Kind {
    /// A regular file, and what is held of it.
    File(Arc<FileEntry>, Held),
    /// A directory.
    Directory,
}

/// What is held of a file beside its facts.
#[derive(Debug)]
pub enum Held {
    /// Nothing: it is opened when its content is wanted.
    Nothing,
    /// Its descriptor.
    Descriptor(Arc<OpenFile>, Hold, Charge, Option<Mark>),
    /// Its content.
    Memory(Bytes, Hold),
}

impl Held {
    /// What a request gets of it.
    pub fn source(&self) -> Source {
        match self {
            Self::Nothing => Source::None,
            Self::Descriptor(file, ..) => Source::Descriptor(Arc::clone(file)),
            Self::Memory(bytes, _) => Source::Memory(bytes.clone()),
        }
    }

    /// Its place in the line of holders.
    pub fn ticket(&self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Descriptor(_, hold, ..) | Self::Memory(_, hold) => Some(hold.ticket()),
        }
    }

    /// Whether no transfer uses it.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Descriptor(file, ..) => Arc::strong_count(file) == 1,
            Self::Nothing | Self::Memory(..) => true,
        }
    }

    /// Has events about the file's name tell of its descriptor.
    pub fn mark(&mut self, trust: &Trust) {
        if let Self::Descriptor(_, hold, _, mark) = self {
            // The old one first: it may stand for the same ticket.
            *mark = None;
            *mark = match trust {
                Trust::Watched(voucher) | Trust::Local(Some(voucher)) => {
                    Some(voucher.mark(hold.ticket()))
                }
                Trust::Local(None) | Trust::Remote => None,
            };
        }
    }

    /// Lets go of it here and now, where blocking is allowed.
    pub fn release(self) {
        if let Self::Descriptor(file, ..) = self
            && let Some(file) = Arc::into_inner(file)
        {
            file.close();
        }
    }
}

impl Record {
    /// The record of a first use.
    pub fn new(kind: Kind, trust: Trust, looked: Tick, now: Tick) -> Self {
        Self {
            kind,
            trust,
            looked: AtomicU64::new(looked.0),
            used: AtomicU64::new(now.0),
            uses: AtomicU32::new(1),
            placed: now,
        }
    }

    /// Takes over the uses of the record it replaces.
    #[must_use]
    pub fn with_uses_of(self, old: &Self) -> Self {
        self.used
            .store(old.used.load(Ordering::Relaxed), Ordering::Relaxed);
        self.uses
            .store(old.uses.load(Ordering::Relaxed), Ordering::Relaxed);
        self
    }

    /// When the look began that this is known from.
    pub fn looked(&self) -> Tick {
        Tick(self.looked.load(Ordering::Relaxed))
    }

    /// When it was last used, to the second.
    pub fn used(&self) -> Tick {
        Tick(self.used.load(Ordering::Relaxed))
    }

    /// Uses counted, up to what an entry needs to hold something.
    pub fn uses(&self) -> u32 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Notes a use. Writes nothing for a path in steady use but once a second, so that threads that use the same path
    /// do not contend for it.
    pub fn touch(&self, settings: &Settings, now: Tick) {
        let idle = now.since(self.used());
        let uses = self.uses.load(Ordering::Relaxed);
        if idle > settings.inactive {
            self.uses.store(1, Ordering::Relaxed);
        } else if uses < settings.min_uses {
            self.uses.fetch_add(1, Ordering::Relaxed);
        }
        if idle >= STAMP_INTERVAL {
            self.used.store(now.0, Ordering::Relaxed);
        }
    }

    /// Whether it was used often enough to hold a descriptor or bytes.
    pub fn is_admitted(&self, settings: &Settings) -> bool {
        self.uses.load(Ordering::Relaxed) >= settings.min_uses
    }

    /// Whether it was used since `placed`, as far as stamps to the second tell.
    pub fn is_used_since(&self, placed: Tick, now: Tick) -> bool {
        self.used() > placed || now.since(self.used()) <= STAMP_INTERVAL
    }

    /// What a request gets of it.
    pub fn found(&self) -> Found {
        match &self.kind {
            Kind::File(entry, held) => Found::File(FileFound {
                entry: Arc::clone(entry),
                source: held.source(),
            }),
            Kind::Directory => Found::Directory,
        }
    }

    /// Lets go of what it holds, where blocking is allowed.
    pub fn release(self) {
        if let Kind::File(_, held) = self.kind {
            held.release();
        }
    }
}

/// A lookup that failed and is remembered.
#[derive(Debug)]
pub struct Missed {
    /// `None`: nothing is there.
    pub error: Option<LookupError>,
    /// When the look began.
    pub looked: Tick,
    /// What tells a change of it.
    pub trust: Trust,
    used: AtomicU64,
}

impl Missed {
    /// A failed lookup; `error` is `None` when nothing is there.
    pub fn new(error: Option<LookupError>, trust: Trust, looked: Tick) -> Self {
        Self {
            error,
            looked,
            trust,
            used: AtomicU64::new(looked.0),
        }
    }

    /// Notes a use, once a second.
    pub fn touch(&self, now: Tick) {
        if now.since(Tick(self.used.load(Ordering::Relaxed))) >= STAMP_INTERVAL {
            self.used.store(now.0, Ordering::Relaxed);
        }
    }

    /// Whether it may go: what no watch vouches for counts for `errors_valid` only, the rest while it is used.
    pub fn is_over(&self, moment: &Moment<'_>) -> bool {
        let settings = moment.settings;
        match &self.trust {
            Trust::Watched(_) if self.trust.current(moment).is_some() => {
                let used = Tick(self.used.load(Ordering::Relaxed));
                moment.now.since(used) >= settings.inactive
            }
            _ => moment.now.since(self.looked) >= settings.errors_valid,
        }
    }

    /// How long it counts.
    pub fn brevity(&self) -> Brevity {
        if self.error.is_some() {
            Brevity::Brief
        } else {
            Brevity::Usual
        }
    }
}

const STAMP_INTERVAL: Duration = Duration::from_secs(1);
