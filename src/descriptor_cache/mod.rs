//! The descriptor cache: what stands at the paths of document roots, remembered so that a warm request makes no system
//! call.
//!
//! A [`lookup`](DescriptorCache::lookup) answers from the table ([`store`]) what is still valid ([`freshness`]), else
//! shares a [`look`] that a task of its own makes ([`lookup`](mod@lookup), [`flight`]). The rooms, in the order of a look:
//!
//! - [`root`]: document roots, their generations; [`names`]: the names in a root
//! - [`key`]: what an entry is found by; [`store`]: the table; [`record`]: what it keeps
//! - [`look`]: one look at one path; [`open`]: its system calls, and no others in the program; [`walk`], [`links`]:
//!   symbolic links; [`gate`]: the bound on blocking work
//! - [`vouch`]: what vouches for what a look finds; [`watch`], [`events`]: by [`inotify`] and a [`listener`];
//!   [`tree`]: the watched directories; [`epochs`]: the numbers that hits compare; [`filesystem`], [`mounts`]: where
//!   events can be believed; [`trail`], [`sign`]: the way to a root; [`audit`]: whether a watch was right
//! - [`judge`]: what a look means for the table; [`finding`]: what passes between the two
//! - [`entry`]: facts of a file and heads prepared from them; [`mod@file`]: its descriptor; [`content`]: its bytes
//! - [`budget`], [`holding`]: how many descriptors and bytes are held, and who gives way; [`release`]: the timer
//! - [`settings`], [`counters`], [`found`]: knobs, numbers, answers

pub mod audit;
pub mod budget;
pub mod children;
pub mod coded_forms;
pub mod content;
pub mod counters;
pub mod entry;
pub mod epochs;
pub mod events;
pub mod file;
pub mod filesystem;
pub mod finding;
pub mod flight;
pub mod found;
pub mod freshness;
pub mod gate;
pub mod holding;
pub mod inotify;
pub mod inspect;
pub mod judge;
pub mod key;
pub mod links;
pub mod listener;
pub mod look;
pub mod lookup;
pub mod mounts;
pub mod names;
pub mod open;
pub mod record;
pub mod release;
pub mod root;
pub mod settings;
pub mod siblings;
pub mod sign;
pub mod store;
pub mod trail;
pub mod tree;
pub mod vouch;
pub mod walk;
pub mod watch;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use budget::DescriptorBudget;
pub use children::Child;
pub use counters::{Counters, CountersSnapshot};
pub use entry::{FileEntry, HeadPair, HeadRulesId, Identity, PreparedHeads};
pub use epochs::Voucher;
pub use file::OpenFile;
pub use found::{FileFound, Found, Looked, LookupError, Outcome, Source, Want};
pub use links::{LinkPolicy, LinkTargets, Symlinks};
pub use names::{NameList, RootNames};
pub use root::{DocumentRoot, RootError, RootGeneration};
pub use settings::{Settings, Watch};
pub use siblings::Siblings;

use self::budget::Budget;
use self::flight::Flights;
use self::gate::Gate;
use self::key::{Hashing, Key};
use self::listener::Listener;
use self::lookup::Told;
use self::open::Opener;
use self::root::{Ground, Roots};
use self::store::Store;
use self::watch::Watching;
use crate::clock::{Clock, Tick};

/// One cache for the whole process; see the [module](self).
#[derive(Debug)]
pub struct DescriptorCache {
    settings: ArcSwap<Settings>,
    clock: Clock,
    counters: Arc<Counters>,
    opener: Opener,
    hashing: Hashing,
    store: Store,
    flights: Arc<Flights<Key, Told>>,
    name_flights: Arc<Flights<u64, RootNames>>,
    descriptors: Arc<Budget>,
    content: Arc<Budget>,
    roots: Roots,
    watching: Arc<Watching>,
    listener: Mutex<Option<Listener>>,
    me: Weak<Self>,
    last_expiry: Mutex<Tick>,
    patience: Duration,
}

impl DescriptorCache {
    /// An empty cache. `settings.descriptors: None` takes what the process' limit leaves without FastCGI slots.
    pub fn new(settings: Settings, clock: Clock) -> Arc<Self> {
        Self::with_patience(settings, clock, gate::PATIENCE)
    }

    /// Takes over other settings; entries stay. The number of shards stays, and bounds count from the next entry or
    /// timer on.
    pub fn reconfigure(&self, settings: Settings) {
        self.descriptors.set_limit(descriptor_limit(&settings));
        self.content.set_limit(settings.content);
        self.store.reconfigure(&settings);
        self.watching.reconfigure(settings.watch);
        self.listen();
        self.settings.store(Arc::new(settings));
    }

    /// Uses that a file needs to hold a descriptor or bytes.
    pub fn min_uses(&self) -> u32 {
        self.settings.load().min_uses
    }

    /// What the cache did.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The document root of this path and policy: the same one for the same two, also after a reload, which has its path
    /// and link targets looked at anew. Blocks.
    ///
    /// # Errors
    /// When it is not in use yet and its path cannot be opened as a directory.
    pub fn root(&self, path: &Path, policy: LinkPolicy) -> Result<Arc<DocumentRoot>, RootError> {
        let (root, ended) =
            self.roots
                .open(self.ground(), path, &policy, Gate::new(self.patience))?;
        if let Some(ended) = ended {
            self.end_generation(&ended);
        }
        Ok(root)
    }

    /// Forgets every entry. Looks that are under way serve those who wait for them and are not remembered. Blocks.
    pub fn purge(&self) {
        for record in self.store.purge() {
            record.release();
        }
    }

    /// What is in the table and held now.
    pub fn usage(&self) -> Usage {
        let (entries, errors) = self.store.len();
        Usage {
            entries,
            errors,
            descriptors: self.descriptors.used(),
            content: self.content.used(),
            watches: self.watching.watches(),
            looks: self.flights.under_way() + self.name_flights.under_way(),
        }
    }

    /// What may be in the table and held.
    pub fn bounds(&self) -> Bounds {
        let settings = self.settings.load();
        Bounds {
            entries: settings.max,
            errors: settings.errors_max,
            descriptors: self.descriptors.limit(),
            content: self.content.limit(),
            watches: self.watching.budget(),
        }
    }

    fn with_patience(settings: Settings, clock: Clock, patience: Duration) -> Arc<Self> {
        let counters = Arc::new(Counters::default());
        let cache = Arc::new_cyclic(|me| Self {
            watching: Watching::new(settings.watch, Arc::clone(&counters)),
            listener: Mutex::new(None),
            me: Weak::clone(me),
            opener: Opener::new(Arc::clone(&counters)),
            counters,
            hashing: Hashing::default(),
            store: Store::new(&settings),
            flights: Arc::default(),
            name_flights: Arc::default(),
            descriptors: Budget::new(descriptor_limit(&settings)),
            content: Budget::new(settings.content),
            roots: Roots::default(),
            last_expiry: Mutex::new(clock.now()),
            patience,
            settings: ArcSwap::from_pointee(settings),
            clock,
        });
        cache.listen();
        cache
    }

    /// Starts the thread that takes events in, once there can be some.
    fn listen(&self) {
        let mut listener = self.listener.lock();
        if listener.is_none() {
            *listener = Listener::start(&self.watching, Weak::clone(&self.me));
        }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            opener: &self.opener,
            watching: &self.watching,
        }
    }
}

/// What a cache holds at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files and directories in the table.
    pub entries: usize,
    /// Remembered errors.
    pub errors: usize,
    /// Descriptors held for entries.
    pub descriptors: u64,
    /// Bytes of small files, those of running transfers included.
    pub content: u64,
    /// Directories watched.
    pub watches: usize,
    /// Looks under way.
    pub looks: usize,
}

/// What a cache may hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Files and directories in the table.
    pub entries: usize,
    /// Remembered errors.
    pub errors: usize,
    /// Descriptors held for entries.
    pub descriptors: u64,
    /// Bytes of small files.
    pub content: u64,
    /// Directories watched.
    pub watches: usize,
}

fn descriptor_limit(settings: &Settings) -> u64 {
    let limit = settings
        .descriptors
        .unwrap_or_else(|| DescriptorBudget::current(0).cached);
    u64::try_from(limit).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
