//! How an entry knows, by comparing numbers, that nothing has happened at its name since it was looked at.
//!
//! Each watched directory has [`Epochs`]: counters that an event raises, one for each of a few groups of names. A look
//! notes the counter of its name before it opens anything ([`Voucher`]); while the counter is what it was, nothing has
//! changed since. A counter of the whole watch, raised when the kernel dropped events, is part of each sum.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// The counters of one directory.
#[derive(Debug, Default)]
pub struct Epochs {
    stripes: [AtomicU64; STRIPES],
    /// Raised when a name comes or goes, whatever it is.
    names: AtomicU64,
    /// Descriptors held for files of the directory, by their tickets, with the stripe of the file's name.
    held: Mutex<HashMap<u64, Stripe>>,
}

impl Epochs {
    /// Notes the counter of a name, to be called before anything is opened.
    pub fn vouch(self: &Arc<Self>, name: &[u8], overflows: u64) -> Voucher {
        let stripe = Stripe::of(name);
        Voucher {
            noted: self.at(stripe).wrapping_add(overflows),
            epochs: Arc::clone(self),
            stripe,
        }
    }

    /// Notes the counter of names that come and go, to be called before the directory is listed.
    pub fn vouch_for_names(self: &Arc<Self>, overflows: u64) -> NamesVoucher {
        NamesVoucher {
            noted: self.names.load(Ordering::Acquire).wrapping_add(overflows),
            epochs: Arc::clone(self),
        }
    }

    /// Something happened at a name.
    pub fn raise(&self, name: &[u8]) {
        if let Some(counter) = self.stripes.get(Stripe::of(name).index()) {
            counter.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A name came or went.
    pub fn raise_names(&self) {
        self.names.fetch_add(1, Ordering::AcqRel);
    }

    /// Something happened that may concern every name.
    pub fn raise_all(&self) {
        for counter in &self.stripes {
            counter.fetch_add(1, Ordering::AcqRel);
        }
        self.raise_names();
    }

    /// Descriptors held for files of this name, and of others that share its counter.
    pub fn held_for(&self, name: &[u8]) -> Vec<u64> {
        let stripe = Stripe::of(name);
        self.tickets(|of| of == stripe)
    }

    /// All descriptors held.
    pub fn held(&self) -> Vec<u64> {
        self.tickets(|_| true)
    }

    fn tickets(&self, concerned: impl Fn(Stripe) -> bool) -> Vec<u64> {
        let held = self.held.lock();
        let concerned = held.iter().filter(|(_, stripe)| concerned(**stripe));
        concerned.map(|(ticket, _)| *ticket).collect()
    }

    fn at(&self, stripe: Stripe) -> u64 {
        self.stripes
            .get(stripe.index())
            .map_or(0, |counter| counter.load(Ordering::Acquire))
    }
}

/// Vouches for what was seen at one name of one directory.
#[derive(Clone, Debug)]
pub struct Voucher {
    epochs: Arc<Epochs>,
    noted: u64,
    stripe: Stripe,
}

impl Voucher {
    /// Whether nothing has happened since. `overflows` is the present count of the watch.
    ///
    /// Both counters only rise, so their sum stays only while both do.
    pub fn is_current(&self, overflows: u64) -> bool {
        self.epochs.at(self.stripe).wrapping_add(overflows) == self.noted
    }

    /// Notes that a descriptor is held for the file, until the answer is dropped.
    pub fn mark(&self, ticket: u64) -> Mark {
        self.epochs.held.lock().insert(ticket, self.stripe);
        Mark {
            epochs: Arc::clone(&self.epochs),
            ticket,
        }
    }
}

/// Vouches for the names of one directory.
#[derive(Clone, Debug)]
pub struct NamesVoucher {
    epochs: Arc<Epochs>,
    noted: u64,
}

impl NamesVoucher {
    /// Whether no name has come or gone since.
    pub fn is_current(&self, overflows: u64) -> bool {
        let names = self.epochs.names.load(Ordering::Acquire);
        names.wrapping_add(overflows) == self.noted
    }
}

/// A descriptor held for a file of a watched directory.
#[derive(Debug)]
pub struct Mark {
    epochs: Arc<Epochs>,
    ticket: u64,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.epochs.held.lock().remove(&self.ticket);
    }
}

/// The group of names that share a counter.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Stripe(u8);

impl Stripe {
    fn of(name: &[u8]) -> Self {
        Self(u8::try_from(xxh3_64(name) % STRIPES as u64).unwrap_or(0))
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

const STRIPES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voucher_is_current_until_its_name_or_everything_is_raised() {
        let epochs = Arc::new(Epochs::default());
        let voucher = epochs.vouch(b"a", 3);
        let names = epochs.vouch_for_names(3);
        assert!(voucher.is_current(3) && names.is_current(3));
        assert!(!voucher.is_current(4) && !names.is_current(4));
        epochs.raise(b"a");
        assert!(!voucher.is_current(3) && !voucher.is_current(4));
        assert!(
            names.is_current(3),
            "a change of content is no change of names"
        );
        let voucher = epochs.vouch(b"a", 3);
        epochs.raise_all();
        assert!(!voucher.is_current(3) && !names.is_current(3));
    }

    #[test]
    fn another_name_is_left_alone_but_for_its_group() {
        let epochs = Arc::new(Epochs::default());
        let names: Vec<String> = (0..100).map(|number| format!("name{number}")).collect();
        let vouchers: Vec<_> = names
            .iter()
            .map(|name| epochs.vouch(name.as_bytes(), 0))
            .collect();
        epochs.raise(b"name7");
        let stale = vouchers.iter().filter(|one| !one.is_current(0)).count();
        assert!(!vouchers[7].is_current(0));
        assert!(stale < 30, "{stale} of 100 were touched by one name");
    }

    #[test]
    fn the_descriptors_held_for_a_name_are_known_while_they_are_held() {
        let epochs = Arc::new(Epochs::default());
        let mark = epochs.vouch(b"a", 0).mark(5);
        assert_eq!(epochs.held_for(b"a"), [5]);
        assert_eq!(epochs.held(), [5]);
        drop(mark);
        assert!(epochs.held_for(b"a").is_empty());
    }
}
