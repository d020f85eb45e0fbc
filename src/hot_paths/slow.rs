//! The paths that took longest of late, one line for each.

use std::time::Duration;

use parking_lot::Mutex;

use super::sighting::Sighting;
use crate::clock::Tick;
use crate::metrics::Kind;

/// `MOST` paths at most. Its lock is only taken for what was slow.
#[derive(Debug)]
pub(super) struct SlowPaths<const MOST: usize>(Mutex<Vec<SlowPath>>);

impl<const MOST: usize> Default for SlowPaths<MOST> {
    fn default() -> Self {
        SlowPaths(Mutex::default())
    }
}

/// A path that took long.
#[derive(Clone, Debug)]
pub struct SlowPath {
    /// The host.
    pub host: Vec<u8>,
    /// The path as sent.
    pub path: Vec<u8>,
    /// Who answered the slowest request.
    pub kind: Kind,
    /// Its status.
    pub status: u16,
    /// The time it took.
    pub took: Duration,
    /// How many requests of this path were slow.
    pub times: u64,
    /// When the last of them was.
    pub when: Tick,
}

impl<const MOST: usize> SlowPaths<MOST> {
    /// Notes a slow request.
    pub(super) fn note(&self, seen: &Sighting<'_>, took: Duration, now: Tick) {
        let mut paths = self.0.lock();
        paths.retain(|path| path.is_of_late(now));
        let known = paths
            .iter_mut()
            .find(|path| path.path == seen.path && path.host == seen.host);
        if let Some(known) = known {
            known.times += 1;
            known.when = now;
            if took >= known.took {
                (known.took, known.kind, known.status) = (took, seen.kind, seen.status);
            }
            return;
        }
        if paths.len() >= MOST {
            let fastest = paths.iter().enumerate().min_by_key(|(_, path)| path.took);
            match fastest.map(|(place, path)| (place, path.took)) {
                Some((place, fastest)) if fastest < took => drop(paths.swap_remove(place)),
                _ => return,
            }
        }
        paths.push(SlowPath {
            host: seen.host.to_vec(),
            path: seen.path.to_vec(),
            kind: seen.kind,
            status: seen.status,
            took,
            times: 1,
            when: now,
        });
    }

    /// All of them, in no order.
    pub(super) fn all(&self, now: Tick) -> Vec<SlowPath> {
        let mut paths = self.0.lock();
        paths.retain(|path| path.is_of_late(now));
        paths.clone()
    }
}

impl SlowPath {
    fn is_of_late(&self, now: Tick) -> bool {
        now.since(self.when) < REMEMBERED
    }
}

/// A path that was not slow for so long is forgotten.
const REMEMBERED: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn note(paths: &SlowPaths<3>, path: &str, seconds: u64, now: Tick) {
        let seen = Sighting::of_target(b"h", path.as_bytes(), Kind::Php, 200);
        paths.note(&seen, Duration::from_secs(seconds), now);
    }

    fn kept(paths: &SlowPaths<3>, now: Tick) -> Vec<(String, u64, u64)> {
        let all = paths.all(now).into_iter();
        let mut kept: Vec<_> = all
            .map(|path| {
                let text = String::from_utf8_lossy(&path.path).into_owned();
                (text, path.took.as_secs(), path.times)
            })
            .collect();
        kept.sort();
        kept
    }

    #[test]
    fn the_slowest_stay_each_path_once() {
        let paths = SlowPaths::default();
        for (path, seconds) in [("/a", 3), ("/b", 1), ("/a", 5), ("/c", 2), ("/a", 1)] {
            note(&paths, path, seconds, Tick(0));
        }
        // Displaces the fastest; one that is no slower displaces nobody.
        note(&paths, "/d", 4, Tick(0));
        note(&paths, "/e", 2, Tick(0));
        let expected = [("/a", 5, 3), ("/c", 2, 1), ("/d", 4, 1)];
        let expected = expected.map(|(path, seconds, times)| (path.to_owned(), seconds, times));
        assert_eq!(kept(&paths, Tick(0)), expected);
    }

    #[test]
    fn what_was_slow_long_ago_is_forgotten() {
        let paths = SlowPaths::default();
        note(&paths, "/a", 9, Tick(0));
        note(&paths, "/b", 1, Tick(1_800_000));
        assert_eq!(kept(&paths, Tick(3_599_999)).len(), 2);
        assert_eq!(kept(&paths, Tick(3_600_000)), [("/b".to_owned(), 1, 1)]);
    }
}
