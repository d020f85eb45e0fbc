//! The heaviest of very many paths in little memory: the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005).
//!
//! There are `SLOTS` places. A path that has none takes that of the lightest one, and its weight with it as a possible
//! error. So whatever has more than a `SLOTS`th of the whole weight is certainly among them, a scan of paths that are
//! asked for once each ranks nowhere, as all its weight is possible error, and memory is bounded whatever is asked for.
//!
//! Every `HALF_LIFE` all weights are halved: what counts is the last minutes.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::sighting::Sighting;
use crate::clock::Tick;
use crate::metrics::Kind;

/// What one thread has seen.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    slots: Vec<Slot>,
    total: u64,
    halved: Tick,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    /// The host, then the path.
    text: Vec<u8>,
    host: usize,
    weight: u64,
    /// So much of the weight may be another's.
    error: u64,
    kind: Kind,
    status: u16,
}

/// A ranking, the heaviest first.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// The weight of all, of those too that are not in it.
    pub total: u64,
    /// What is certain of each.
    pub lines: Vec<Line>,
}

/// A path in a ranking.
#[derive(Clone, Debug)]
pub struct Line {
    /// The host.
    pub host: Vec<u8>,
    /// The path as sent.
    pub path: Vec<u8>,
    /// Its weight, at least.
    pub weight: u64,
    /// Who answered last.
    pub kind: Kind,
    /// The last status.
    pub status: u16,
}

impl Sketch {
    /// Adds to the weight of a path.
    pub(super) fn count(&mut self, seen: &Sighting<'_>, weight: u64, now: Tick) {
        self.age(now);
        self.total = self.total.saturating_add(weight);
        let hash = xxh3_64(seen.path) ^ xxh3_64(seen.host).rotate_left(1);
        let is_seen = |slot: &&mut Slot| {
            slot.hash == hash && slot.host() == seen.host && slot.path() == seen.path
        };
        if let Some(slot) = self.slots.iter_mut().find(is_seen) {
            slot.weight = slot.weight.saturating_add(weight);
            (slot.kind, slot.status) = (seen.kind, seen.status);
            return;
        }
        if self.slots.len() < SLOTS {
            let mut slot = Slot::empty();
            slot.take(hash, seen, weight);
            self.slots.push(slot);
        } else if let Some(lightest) = self.slots.iter_mut().min_by_key(|slot| slot.weight) {
            lightest.take(hash, seen, weight);
        }
    }

    /// What is certain of all paths in it, in no order.
    pub(super) fn ranking(&mut self, now: Tick) -> Ranking {
        self.age(now);
        let lines = self.slots.iter().map(|slot| Line {
            host: slot.host().to_vec(),
            path: slot.path().to_vec(),
            weight: slot.weight - slot.error,
            kind: slot.kind,
            status: slot.status,
        });
        Ranking {
            total: self.total,
            lines: lines.filter(|line| line.weight > 0).collect(),
        }
    }

    fn age(&mut self, now: Tick) {
        if self.slots.is_empty() {
            self.halved = now;
            return;
        }
        let times = now.since(self.halved).as_secs() / HALF_LIFE.as_secs();
        if times == 0 {
            return;
        }
        let halve = |weight: u64| {
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            weight.checked_shr(times).unwrap_or(0)
        };
        self.halved = now;
        self.total = halve(self.total);
        for slot in &mut self.slots {
            // The error is part of the weight and is rounded as it is.
            let certain = halve(slot.weight - slot.error);
            slot.error = halve(slot.error);
            slot.weight = slot.error + certain;
        }
        self.slots.retain(|slot| slot.weight > 0);
    }
}

impl Slot {
    fn empty() -> Slot {
        Slot {
            hash: 0,
            text: Vec::new(),
            host: 0,
            weight: 0,
            error: 0,
            kind: Kind::Refused,
            status: 0,
        }
    }

    /// Becomes this path's, with the weight of whose it was as a possible error.
    fn take(&mut self, hash: u64, seen: &Sighting<'_>, weight: u64) {
        self.hash = hash;
        self.text.clear();
        self.text.extend_from_slice(seen.host);
        self.text.extend_from_slice(seen.path);
        self.host = seen.host.len();
        self.error = self.weight;
        self.weight = self.weight.saturating_add(weight);
        (self.kind, self.status) = (seen.kind, seen.status);
    }

    fn host(&self) -> &[u8] {
        self.text.get(..self.host).unwrap_or_default()
    }

    fn path(&self) -> &[u8] {
        self.text.get(self.host..).unwrap_or_default()
    }
}

/// Paths told apart: some 30 KiB of a thread, 80 KiB if all of them are long.
const SLOTS: usize = 256;
/// After this time a request counts half.
const HALF_LIFE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn see(sketch: &mut Sketch, path: &str, times: u64, now: Tick) {
        let seen = Sighting::of_target(b"h", path.as_bytes(), Kind::Static, 200);
        for _ in 0..times {
            sketch.count(&seen, 1, now);
        }
    }

    fn top(sketch: &mut Sketch, now: Tick, most: usize) -> Vec<(String, u64)> {
        let mut lines = sketch.ranking(now).lines;
        lines.sort_by(|one, other| {
            let by_weight = other.weight.cmp(&one.weight);
            by_weight.then_with(|| one.path.cmp(&other.path))
        });
        let lines = lines.into_iter().take(most);
        lines
            .map(|line| {
                let path = String::from_utf8_lossy(&line.path).into_owned();
                (path, line.weight)
            })
            .collect()
    }

    #[test]
    fn the_heaviest_of_a_skewed_input_are_found_among_many_that_are_asked_for_once() {
        let mut sketch = Sketch::default();
        let now = Tick(1);
        for round in 0..1000 {
            see(&mut sketch, "/a.css", 4, now);
            see(&mut sketch, "/b.css", 2, now);
            see(&mut sketch, "/c.css", 1, now);
            for scan in 0..20 {
                see(&mut sketch, &format!("/scan/{round}/{scan}"), 1, now);
            }
        }
        let found = top(&mut sketch, now, 3);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/a.css", "/b.css", "/c.css"]);
        assert!(
            found
                .iter()
                .all(|(path, weight)| *weight <= 4000 && (path != "/a.css" || *weight > 3800)),
            "{found:?}"
        );
        let fourth = top(&mut sketch, now, 4).pop();
        assert!(
            fourth.as_ref().is_some_and(|(_, weight)| *weight <= 1),
            "a scan ranks nowhere: {fourth:?}"
        );
    }

    #[test]
    fn memory_is_bounded_whatever_is_asked_for() {
        let mut sketch = Sketch::default();
        for number in 0..20_000 {
            let path = format!("/{number}/{}", "x".repeat(5000));
            see(&mut sketch, &path, 1, Tick(1));
        }
        assert_eq!(sketch.slots.len(), SLOTS);
        let bytes: usize = sketch.slots.iter().map(|slot| slot.text.capacity()).sum();
        assert!(bytes <= SLOTS * 512, "{bytes}");
    }

    #[test]
    fn what_was_hot_once_is_forgotten() {
        let mut sketch = Sketch::default();
        see(&mut sketch, "/old.css", 100, Tick(0));
        see(&mut sketch, "/new.css", 60, Tick(60_000));
        assert_eq!(
            top(&mut sketch, Tick(60_000), 9),
            [("/new.css".to_owned(), 60), ("/old.css".to_owned(), 50)]
        );
        assert_eq!(sketch.ranking(Tick(60_000)).total, 110);
        assert!(top(&mut sketch, Tick(3_600_000), 9).is_empty());
        assert!(top(&mut sketch, Tick(u64::MAX), 9).is_empty());
    }

    #[test]
    fn hosts_are_told_apart() {
        let mut sketch = Sketch::default();
        for (host, path) in [(&b"a"[..], &b"b/"[..]), (b"ab", b"/")] {
            sketch.count(&Sighting::of_target(host, path, Kind::Php, 200), 1, Tick(1));
        }
        assert_eq!(sketch.slots.len(), 2);
    }
}
