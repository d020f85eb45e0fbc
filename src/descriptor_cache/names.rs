//! The names in a root directory: what is not among them cannot exist below the root, which spares WordPress'
//! permalinks a lookup each.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use super::entry::Identity;
use super::epochs::NamesVoucher;
use super::freshness::{Moment, SAFETY, is_racy};
use super::open::Opener;
use super::root::RootGeneration;
use super::watch::Watching;
use crate::clock::{Clock, Tick};

/// What is known of the names in a root directory.
#[derive(Clone, Debug)]
pub enum RootNames {
    /// All of them; see [`root_names`](super::DescriptorCache::root_names).
    Known(Arc<NameList>),
    /// They cannot be listed, or are more than 10,000.
    Unknown,
}

impl RootNames {
    /// Whether nothing in the root has this name; false when that is not known.
    pub fn exclude(&self, name: &[u8]) -> bool {
        match self {
            Self::Known(list) => !list.contains(name),
            Self::Unknown => false,
        }
    }
}

/// The names of one directory at one moment.
#[derive(Debug)]
pub struct NameList {
    names: HashSet<Box<[u8]>>,
}

impl NameList {
    /// Whether the name is among them, byte for byte.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the directory is empty.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Where a generation keeps them.
#[derive(Debug, Default)]
pub struct NamesSlot(ArcSwapOption<Listing>);

impl NamesSlot {
    /// The names when they are vouched for, or were looked at within `errors_valid`; no system call.
    pub fn recall(&self, moment: &Moment<'_>) -> Option<RootNames> {
        let listing = self.0.load();
        let listing = listing.as_ref()?;
        let settings = moment.settings;
        let limit = match listing.voucher.load().as_deref() {
            Some(voucher) if !voucher.is_current(moment.overflows) => return None,
            Some(_) => (settings.valid * SAFETY).max(settings.errors_valid),
            None => settings.errors_valid,
        };
        (moment.now.since(listing.looked()) < limit).then(|| listing.names.clone())
    }

    /// Whether names have come or gone since the last look.
    pub fn is_stale(&self, overflows: u64) -> bool {
        self.0.load().as_ref().is_some_and(|listing| {
            let voucher = listing.voucher.load();
            voucher
                .as_ref()
                .is_some_and(|voucher| !voucher.is_current(overflows))
        })
    }

    /// Looks at the directory and lists it when it has changed; blocks.
    pub fn look(
        &self,
        opener: &Opener,
        watching: &Watching,
        clock: &Clock,
        root: &RootGeneration,
    ) -> RootNames {
        // All before the look, so that ages are never taken for shorter than they are.
        let (started, unix) = (clock.now(), clock.unix_precise());
        let voucher = watching
            .vouch_for_names(opener, root, started)
            .map(Arc::new);
        let directory = &root.anchors().root.directory;
        let Ok(facts) = opener.facts(directory) else {
            return RootNames::Unknown;
        };
        if let Some(known) = self.0.load_full()
            && known.identity == facts.identity
            && !known.racy
        {
            known.voucher.store(voucher);
            known.looked.store(started.0, Ordering::Relaxed);
            return known.names.clone();
        }
        let names = match opener.names(directory, MAX_NAMES) {
            Ok(Some(names)) => {
                let names = names.into_iter().map(|name| name.bytes).collect();
                RootNames::Known(Arc::new(NameList { names }))
            }
            Ok(None) => RootNames::Unknown,
            // Not remembered: descriptors may have run out just now.
            Err(_) => return RootNames::Unknown,
        };
        // The facts are older than the list: a change between the two shows at the next look.
        let racy = is_racy(&facts.identity, unix);
        let listing = Listing {
            names: names.clone(),
            identity: facts.identity,
            racy,
            voucher: ArcSwapOption::new(voucher),
            looked: AtomicU64::new(started.0),
        };
        self.0.store(Some(Arc::new(listing)));
        names
    }
}

#[derive(Debug)]
struct Listing {
    names: RootNames,
    identity: Identity,
    racy: bool,
    voucher: ArcSwapOption<NamesVoucher>,
    looked: AtomicU64,
}

impl Listing {
    fn looked(&self) -> Tick {
        Tick(self.looked.load(Ordering::Relaxed))
    }
}

const MAX_NAMES: usize = 10_000;
