//! How many descriptors and bytes may be held, and whose turn it is to give them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::key::Key;
use super::record::Held;
use crate::clock::Tick;

/// How the process' limit of open descriptors is shared out.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DescriptorBudget {
    /// Descriptors that the cache may hold.
    pub cached: usize,
    /// Connections that may be accepted at a time.
    pub connections: usize,
}

impl DescriptorBudget {
    /// Sets aside 32 descriptors and two for each FastCGI slot; half of the rest, at least 16, may be cached, the other
    /// half is for accepted connections.
    pub fn from_limit(limit: usize, fastcgi_slots: usize) -> Self {
        let aside = SET_ASIDE.saturating_add(fastcgi_slots.saturating_mul(2));
        let rest = limit.saturating_sub(aside);
        let cached = (rest / 2).max(LEAST_CACHED);
        Self {
            cached,
            connections: rest.saturating_sub(cached).max(1),
        }
    }

    /// The budget by the process' present limit.
    pub fn current(fastcgi_slots: usize) -> Self {
        let limit = getrlimit(Resource::Nofile)
            .current
            .unwrap_or(UNLIMITED)
            .min(UNLIMITED);
        Self::from_limit(usize::try_from(limit).unwrap_or(usize::MAX), fastcgi_slots)
    }
}

/// Entries that hold something, least recently taken first, and the bound on what they hold.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
    holders: Mutex<LruCache<u64, Holder>>,
    next_ticket: AtomicU64,
}

impl Budget {
    /// A budget of `limit` descriptors or bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            holders: Mutex::new(LruCache::unbounded()),
            next_ticket: AtomicU64::new(1),
        })
    }

    /// Sets another bound; what is held beyond it is given up by the caller.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The bound.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// What is held.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is held than the bound allows.
    pub fn is_exceeded(&self) -> bool {
        self.used() > self.limit()
    }

    /// Counts `amount` as held for as long as the answer lives.
    pub fn charge(self: &Arc<Self>, amount: u64) -> Charge {
        self.used.fetch_add(amount, Ordering::Relaxed);
        Charge {
            budget: Arc::clone(self),
            amount,
        }
    }

    /// Notes that the entry of `key` holds something, until the answer is dropped.
    pub fn hold(self: &Arc<Self>, key: Key, now: Tick) -> Hold {
        let ticket = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        self.holders.lock().put(ticket, Holder { key, placed: now });
        Hold {
            budget: Arc::clone(self),
            ticket,
        }
    }

    /// The holder whose turn it is; it goes to the end of the line. `placed` is when it last did.
    pub fn next_holder(&self, now: Tick) -> Option<Turn> {
        let mut holders = self.holders.lock();
        let (&ticket, _) = holders.peek_lru()?;
        let holder = holders.get_mut(&ticket)?;
        let turn = Turn {
            ticket,
            key: holder.key.clone(),
            placed: holder.placed,
        };
        holder.placed = now;
        Some(turn)
    }

    /// The holder of a ticket, whoever's turn it is.
    pub fn turn(&self, ticket: u64) -> Option<Turn> {
        let holders = self.holders.lock();
        let holder = holders.peek(&ticket)?;
        Some(Turn {
            ticket,
            key: holder.key.clone(),
            placed: holder.placed,
        })
    }

    /// Number of holders.
    pub fn holders(&self) -> usize {
        self.holders.lock().len()
    }
}

/// The entry whose turn it is to give up what it holds.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The hold.
    pub ticket: u64,
    /// The entry.
    pub key: Key,
    /// When it was last at the end of the line.
    pub placed: Tick,
}

/// Why something is to be given up.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Another entry wants it: what is in use stays.
    Displacement,
    /// The process has run out: only what a transfer uses stays.
    Exhaustion,
    /// The bound was lowered: nothing stays.
    Bound,
}

/// What became of it.
#[derive(Debug)]
pub enum GivenUp {
    /// Here it is.
    Taken(Held),
    /// It is in use.
    Kept,
    /// The entry holds something else now, or is gone.
    Gone,
}

/// An amount that counts as held.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// A place in the line of holders.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    ticket: u64,
}

impl Hold {
    /// The number of the place.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let left = self.budget.holders.lock().pop(&self.ticket);
        drop(left);
    }
}

#[derive(Debug)]
struct Holder {
    key: Key,
    placed: Tick,
}

const SET_ASIDE: usize = 32;
const LEAST_CACHED: usize = 16;
/// What an unlimited process is taken to have: the kernel's usual hard limit.
const UNLIMITED: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_shared_between_cache_and_connections() {
        let budget = DescriptorBudget::from_limit(1024, 20);
        assert_eq!(
            budget,
            DescriptorBudget {
                cached: 476,
                connections: 476
            }
        );
        assert_eq!(
            DescriptorBudget::from_limit(80, 0),
            DescriptorBudget {
                cached: 24,
                connections: 24
            }
        );
        assert_eq!(
            DescriptorBudget::from_limit(10, 500),
            DescriptorBudget {
                cached: 16,
                connections: 1
            }
        );
        assert!(DescriptorBudget::current(0).cached >= 16);
    }
}
