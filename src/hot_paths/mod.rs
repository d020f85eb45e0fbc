//! Which paths are asked for most, which keep PHP busy, and which took long: for the status page.
//!
//! The descriptor cache counts uses only until a file is settled, so that a hit writes nothing; who is hottest is told
//! by a sample instead. Of the answers made here one in `GAP` on average is looked at, at random distances, so that no
//! rhythm of requests hides from it; the others cost a decrement of a number of the thread's own. What PHP or an origin
//! has answered took so much longer that all of it is counted, by the time it took.
//!
//! Nobody waits: a thread that finds its sketch in use, because it is being read, goes on without.

mod sighting;
mod sketch;
mod slow;

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

pub use sighting::Sighting;
pub use sketch::{Line, Ranking};
pub use slow::SlowPath;

use self::sketch::Sketch;
use self::slow::SlowPaths;
use crate::clock::Tick;
use crate::per_thread::PerThread;

/// The hottest and the slowest paths of the process.
#[derive(Debug, Default)]
pub struct HotPaths {
    here: PerThread<Mutex<Sketch>>,
    behind: PerThread<Mutex<Sketch>>,
    slow_here: SlowPaths<SLOW_HERE>,
    slow_behind: SlowPaths<SLOW_BEHIND>,
}

impl HotPaths {
    /// Notes an answer that was made here. `sighting` is asked only when it is this one's turn, or when it took long.
    #[inline]
    pub fn answered_here<'a>(
        &self,
        took: Duration,
        now: Tick,
        sighting: impl FnOnce() -> Option<Sighting<'a>>,
    ) {
        let is_due = is_due();
        if (is_due || took >= SLOW)
            && let Some(sighting) = sighting()
        {
            self.look_at(&sighting, is_due, took, now);
        }
    }

    /// Notes an answer of PHP or of an origin, and how long it took them.
    pub fn answered_behind(&self, took: Duration, now: Tick, sighting: &Sighting<'_>) {
        if let Some(mut sketch) = self.behind.mine().try_lock() {
            let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            sketch.count(sighting, milliseconds.clamp(1, LONGEST), now);
        }
        if took >= SLOW {
            self.slow_behind.note(sighting, took, now);
        }
    }

    #[cold]
    fn look_at(&self, sighting: &Sighting<'_>, is_due: bool, took: Duration, now: Tick) {
        if is_due && let Some(mut sketch) = self.here.mine().try_lock() {
            sketch.count(sighting, 1, now);
        }
        if took >= SLOW {
            self.slow_here.note(sighting, took, now);
        }
    }

    /// The paths asked for most of those that are answered here, by their share of the sample.
    pub fn hottest_here(&self, now: Tick, most: usize) -> Ranking {
        ranking(&self.here, now, most)
    }

    /// The paths that took most of the time of PHP and of origins, by their share of it.
    pub fn hottest_behind(&self, now: Tick, most: usize) -> Ranking {
        ranking(&self.behind, now, most)
    }

    /// The paths that took longest of late, the slowest first.
    pub fn slowest(&self, now: Tick) -> Vec<SlowPath> {
        let mut all = self.slow_here.all(now);
        all.extend(self.slow_behind.all(now));
        all.sort_by_key(|path| std::cmp::Reverse(path.took));
        all
    }
}

/// One ranking of what the threads have seen each for itself.
fn ranking(sketches: &PerThread<Mutex<Sketch>>, now: Tick, most: usize) -> Ranking {
    let mut total = 0;
    let mut merged: HashMap<(Vec<u8>, Vec<u8>), Line> = HashMap::new();
    for sketch in sketches.all() {
        let part = sketch.lock().ranking(now);
        total += part.total;
        for line in part.lines {
            let key = (line.host.clone(), line.path.clone());
            match merged.get_mut(&key) {
                Some(known) => known.weight += line.weight,
                None => drop(merged.insert(key, line)),
            }
        }
    }
    let mut lines: Vec<Line> = merged.into_values().collect();
    lines.sort_by(|one, other| {
        let by_weight = other.weight.cmp(&one.weight);
        by_weight.then_with(|| (&one.path, &one.host).cmp(&(&other.path, &other.host)))
    });
    lines.truncate(most);
    Ranking { total, lines }
}

/// Whether this thread's next answer is one of the sample.
#[inline]
fn is_due() -> bool {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(fewer) => {
            left.set(fewer);
            false
        }
        None => {
            left.set(next_gap());
            true
        }
    })
}

/// Answers to pass over: any number below `2 * GAP - 1`, so that on average one in `GAP` is looked at (xorshift32).
fn next_gap() -> u32 {
    DICE.with(|dice| {
        let mut state = dice.get();
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        dice.set(state);
        state % (2 * GAP - 1)
    })
}

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(0) };
    static DICE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// One answer in so many is looked at.
const GAP: u32 = 64;
/// What takes at least so long is slow.
const SLOW: Duration = Duration::from_millis(100);
/// More than this of one request says nothing more: one that hung for long must not be all there is.
const LONGEST: u64 = 60_000;
/// What is slow here is mostly a slow client with a large file: fewer of these.
const SLOW_HERE: usize = 8;
const SLOW_BEHIND: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Kind;

    fn sighting(path: &str) -> Sighting<'_> {
        Sighting {
            host: b"example.com",
            path: path.as_bytes(),
            kind: Kind::Static,
            status: 200,
        }
    }

    #[test]
    fn about_one_answer_in_64_is_looked_at_and_shares_come_out_right() {
        let hot = HotPaths::default();
        let mut looked = 0_u64;
        for number in 0..640_000_u32 {
            // A rhythm that a fixed distance would follow.
            let path = match number % 64 {
                0..32 => "/hot.css",
                32..48 => "/warm.css",
                _ => "/cold.css",
            };
            hot.answered_here(Duration::ZERO, Tick(1000), || {
                looked += 1;
                Some(sighting(path))
            });
        }
        assert!((9_000..11_000).contains(&looked), "{looked}");
        let ranking = hot.hottest_here(Tick(1000), 10);
        let paths: Vec<&[u8]> = ranking.lines.iter().map(|line| &line.path[..]).collect();
        assert_eq!(paths.first(), Some(&&b"/hot.css"[..]));
        let share = ranking.lines.first().map(|line| line.weight * 100 / looked);
        assert!(share.is_some_and(|share| (46..=54).contains(&share)));
        assert_eq!(ranking.total, looked);
    }

    #[test]
    fn what_threads_have_seen_is_put_together() {
        let hot = HotPaths::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let took = Duration::from_millis(50);
                        hot.answered_behind(took, Tick(5), &sighting("/shop/"));
                    }
                    hot.answered_behind(Duration::ZERO, Tick(5), &sighting("/fast/"));
                });
            }
        });
        let ranking = hot.hottest_behind(Tick(5), 1);
        let lines: Vec<_> = ranking
            .lines
            .iter()
            .map(|line| (&line.path[..], line.weight))
            .collect();
        assert_eq!(lines, [(&b"/shop/"[..], 2000)]);
        assert_eq!(ranking.total, 2004);
    }

    #[test]
    fn only_what_is_slow_is_kept_as_slow() {
        let hot = HotPaths::default();
        let now = Tick(1_000_000);
        hot.answered_behind(Duration::from_millis(99), now, &sighting("/fast/"));
        hot.answered_behind(Duration::from_millis(100), now, &sighting("/slow/"));
        hot.answered_here(Duration::from_secs(3), now, || Some(sighting("/big.zip")));
        let slowest = hot.slowest(now);
        let paths: Vec<&[u8]> = slowest.iter().map(|path| &path.path[..]).collect();
        assert_eq!(paths, [&b"/big.zip"[..], b"/slow/"]);
    }
}
