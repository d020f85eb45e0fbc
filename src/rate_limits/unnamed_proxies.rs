//! Peers that speak for many clients, and are not among `trusted_proxies`.
//!
//! A proxy in front that nobody has named would have all visitors share the limits of one address. It gives itself away by
//! the many values of X-Forwarded-For that it brings. They are not believed, as anybody can make them up; but the limits of
//! such a peer are wider, and the log says what to add.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

use crate::request::fields::Fields;

/// What the peers of limited requests have brought.
pub struct UnnamedProxies {
    hasher: RandomState,
    /// Hashes of the different values, up to one more than a single client may have.
    peers: Mutex<LruCache<IpAddr, Vec<u64>>>,
}

impl Default for UnnamedProxies {
    fn default() -> UnnamedProxies {
        UnnamedProxies {
            hasher: RandomState::new(),
            peers: Mutex::new(LruCache::new(MOST_PEERS)),
        }
    }
}

impl UnnamedProxies {
    /// Notes what a peer that is not trusted brings; whether it speaks for many.
    pub fn sees<F: Fields + ?Sized>(&self, peer: IpAddr, fields: &F) -> bool {
        let Some(value) = fields.lines("x-forwarded-for").next() else {
            return self.knows(peer);
        };
        let value = self.hasher.hash_one(value);
        let mut peers = self.peers.lock();
        let values = peers.get_or_insert_mut(peer, Vec::new);
        if values.len() > MOST_VALUES {
            return true;
        }
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() <= MOST_VALUES {
            return false;
        }
        tracing::warn!(
            "{peer} brings many different X-Forwarded-For, which are not believed: if it is your proxy, add \"{peer}\" to \
             trusted_proxies; rate limits are wider for it meanwhile"
        );
        true
    }

    /// Whether the peer is known to speak for many.
    pub fn knows(&self, peer: IpAddr) -> bool {
        let peers = self.peers.lock();
        peers
            .peek(&peer)
            .is_some_and(|values| values.len() > MOST_VALUES)
    }
}

/// Different values that one client may bring.
const MOST_VALUES: usize = 20;
/// Peers remembered at a time.
const MOST_PEERS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
