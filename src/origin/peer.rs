//! One address of an origin: whether it answers, as requests and checks have found, and what is counted of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Tick;

/// An address, shared by all pools that have it.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    /// The tick before which no request tries it; 0: it is in. Once that has passed, one request at a time tries.
    out_until: AtomicU64,
    /// Its checks fail.
    is_sick: AtomicBool,
    requests: AtomicU64,
    retries: AtomicU64,
    errors: [AtomicU64; Fault::ALL.len()],
}

/// How a request has failed at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It could not be connected to.
    Connect,
    /// The connection ended before the head of an answer.
    Reset,
    /// A kept connection had been closed when the request was sent on it.
    Stale,
    /// It was silent for too long.
    Timeout,
    /// What came is no HTTP, or broke off.
    Answer,
}

impl Fault {
    const ALL: [Fault; 5] = [
        Fault::Connect,
        Fault::Reset,
        Fault::Stale,
        Fault::Timeout,
        Fault::Answer,
    ];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Connect => "connect",
            Fault::Reset => "reset",
            Fault::Stale => "stale",
            Fault::Timeout => "timeout",
            Fault::Answer => "answer",
        }
    }

    /// Whether it says that the peer is not there, rather than that it was slow or wrong about one request.
    fn means_gone(self) -> bool {
        matches!(self, Fault::Connect | Fault::Reset)
    }
}

impl Peer {
    fn new(address: SocketAddr) -> Peer {
        Peer {
            address,
            out_until: AtomicU64::new(0),
            is_sick: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            errors: Default::default(),
        }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a request may be sent to it. For a peer that is out this is true once in [`OUT`]: whoever is told so is
    /// the one that tries.
    pub fn may_try(&self, now: Tick) -> bool {
        let until = self.out_until.load(Ordering::Relaxed);
        until == 0
            || (now >= Tick(until)
                && self
                    .out_until
                    .compare_exchange(until, now.plus(OUT).0, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok())
    }

    /// Whether it is known to answer.
    pub fn is_healthy(&self) -> bool {
        self.out_until.load(Ordering::Relaxed) == 0 && !self.is_sick.load(Ordering::Relaxed)
    }

    /// A request is sent to it.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is sent to another peer after it has failed here.
    pub fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has failed here. `why` is for the log.
    pub fn failed(&self, fault: Fault, now: Tick, why: &dyn Fn() -> String) {
        if let Some(counter) = self.errors.get(fault as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if !fault.means_gone() {
            return;
        }
        let was_healthy = self.is_healthy();
        let until = now.plus(OUT).0.max(1);
        if self.out_until.swap(until, Ordering::Relaxed) == 0 && was_healthy {
            tracing::warn!("origin {}: out: {}", self.address, why());
        }
    }

    /// It has answered.
    pub fn answered(&self) {
        // Nearly always it was in: a load leaves the line shared among processors.
        if self.out_until.load(Ordering::Relaxed) != 0
            && self.out_until.swap(0, Ordering::Relaxed) != 0
            && self.is_healthy()
        {
            tracing::info!("origin {}: back", self.address);
        }
    }

    /// Its checks have begun to fail, or to pass again.
    pub fn checked(&self, is_sick: bool) {
        let was_healthy = self.is_healthy();
        self.is_sick.store(is_sick, Ordering::Relaxed);
        if was_healthy && is_sick {
            tracing::warn!("origin {}: out: its health checks fail", self.address);
        } else if !was_healthy && self.is_healthy() {
            tracing::info!("origin {}: back", self.address);
        }
    }

    /// Requests sent to it.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests that went to another peer after this one had failed.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Failures by the name of their kind.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Fault::ALL
            .iter()
            .zip(&self.errors)
            .map(|(fault, counter)| (fault.as_str(), counter.load(Ordering::Relaxed)))
    }
}

/// All addresses in use, so that what is known of one outlives a reload and is shared by all pools.
#[derive(Debug, Default)]
pub struct Peers(Mutex<BTreeMap<SocketAddr, Weak<Peer>>>);

impl Peers {
    /// The peer at this address.
    pub fn at(&self, address: SocketAddr) -> Arc<Peer> {
        let mut peers = self.0.lock();
        if let Some(peer) = peers.get(&address).and_then(Weak::upgrade) {
            return peer;
        }
        // Addresses of a name come and go: those gone leave nothing behind.
        peers.retain(|_, peer| peer.strong_count() > 0);
        let peer = Arc::new(Peer::new(address));
        peers.insert(address, Arc::downgrade(&peer));
        peer
    }

    /// All of them in order.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        let peers = self.0.lock();
        peers.values().filter_map(Weak::upgrade).collect()
    }
}

/// How long a peer that could not be reached is left alone before one request tries it again.
pub const OUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick(1_000);

    fn peer() -> Arc<Peer> {
        Peers::default().at(SocketAddr::from(([10, 0, 0, 1], 80)))
    }

    #[test]
    fn a_peer_that_is_gone_is_tried_once_in_a_while() {
        let peer = peer();
        assert!(peer.may_try(NOW) && peer.may_try(NOW));
        peer.failed(Fault::Connect, NOW, &String::new);
        assert!(!peer.is_healthy());
        assert!(!peer.may_try(NOW));
        let later = NOW.plus(OUT);
        assert!(peer.may_try(later), "the one that tries");
        assert!(!peer.may_try(later), "a second one");
        assert!(peer.may_try(later.plus(OUT)), "the first was lost");
        peer.answered();
        assert!(peer.is_healthy() && peer.may_try(NOW) && peer.may_try(NOW));
    }

    #[test]
    fn a_slow_or_a_wrong_answer_takes_no_peer_out() {
        let peer = peer();
        peer.failed(Fault::Timeout, NOW, &String::new);
        peer.failed(Fault::Answer, NOW, &String::new);
        assert!(peer.may_try(NOW));
        let errors: Vec<_> = peer.errors().collect();
        assert_eq!(
            errors,
            [
                ("connect", 0),
                ("reset", 0),
                ("stale", 0),
                ("timeout", 1),
                ("answer", 1)
            ]
        );
    }

    #[test]
    fn it_is_healthy_when_requests_and_checks_say_so() {
        let peer = peer();
        peer.checked(true);
        peer.failed(Fault::Reset, NOW, &String::new);
        peer.answered();
        assert!(!peer.is_healthy(), "its checks fail");
        peer.checked(false);
        assert!(peer.is_healthy());
    }

    #[test]
    fn an_address_is_one_peer_as_long_as_anybody_has_it() {
        let peers = Peers::default();
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let first = peers.at(address);
        first.count_request();
        assert_eq!(peers.at(address).requests(), 1);
        drop(first);
        assert!(peers.all().is_empty());
        assert_eq!(peers.at(address).requests(), 0);
    }
}
