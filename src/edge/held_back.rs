//! Room for answers that are held back for slow clients while others wait for the page that is made of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The room of all connections.
#[derive(Debug)]
pub struct HeldBack {
    bytes: AtomicU64,
    most: AtomicU64,
}

impl HeldBack {
    /// Room for this many bytes.
    #[must_use]
    pub fn new(most: u64) -> HeldBack {
        HeldBack {
            bytes: AtomicU64::new(0),
            most: AtomicU64::new(most),
        }
    }

    /// Takes on another bound; what is held stays.
    pub fn reconfigure(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// One connection's share of it, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    room: Arc<HeldBack>,
    most: u64,
    taken: u64,
    /// False when nobody waits for the answer to become a page any more.
    is_waited_for: Arc<AtomicBool>,
}

impl Share {
    /// A share of at most `most` bytes.
    #[must_use]
    pub fn new(room: Arc<HeldBack>, most: u64, is_waited_for: Arc<AtomicBool>) -> Share {
        Share {
            room,
            most,
            taken: 0,
            is_waited_for,
        }
    }

    /// Whether so many bytes more may be held; they are counted then.
    pub fn take(&mut self, more: usize) -> bool {
        let more = more as u64;
        if !self.is_waited_for.load(Ordering::Relaxed) || self.taken + more > self.most {
            return false;
        }
        let most = self.room.most.load(Ordering::Relaxed);
        let has_room = |held: u64| (held + more <= most).then_some(held + more);
        let taken = self
            .room
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room);
        if taken.is_ok() {
            self.taken += more;
        }
        taken.is_ok()
    }

    /// Only so many bytes are held any more.
    pub fn leave(&mut self, held: usize) {
        let less = self.taken.saturating_sub(held as u64);
        self.taken -= less;
        self.room.bytes.fetch_sub(less, Ordering::Relaxed);
    }

    /// Whether more may be held at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_waited_for.load(Ordering::Relaxed)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.leave(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_bounded_and_given_back() {
        let room = Arc::new(HeldBack::new(100));
        let share = || Share::new(room.clone(), 80, Arc::new(AtomicBool::new(true)));
        let (mut one, mut two) = (share(), share());
        assert!(one.take(80) && !one.take(1), "its own bound");
        assert!(two.take(20) && !two.take(1), "that of all");
        one.leave(30);
        assert_eq!(room.bytes(), 50);
        assert!(two.take(50));
        drop(two);
        assert_eq!(room.bytes(), 30);
        drop(one);
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn what_nobody_waits_for_is_not_held() {
        let room = Arc::new(HeldBack::new(100));
        let is_waited_for = Arc::new(AtomicBool::new(true));
        let mut share = Share::new(room, 80, is_waited_for.clone());
        assert!(share.take(1));
        is_waited_for.store(false, Ordering::Relaxed);
        assert!(!share.take(1) && !share.is_open());
    }
}
