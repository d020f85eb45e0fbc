//! What is counted of requests and reloads.
//!
//! Each thread counts by itself; the counts are summed when somebody asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::UnixTime;
use crate::per_thread::PerThread;

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, or what is answered about one: 304, 404, 405.
    Static,
    /// A page that a cache plugin has written, or of the page cache.
    Page,
    /// PHP.
    Php,
    /// The HTTP origin.
    Origin,
    /// Nobody: the request was refused.
    Refused,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Static,
        Kind::Page,
        Kind::Php,
        Kind::Origin,
        Kind::Refused,
    ];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Static => "static",
            Kind::Page => "page",
            Kind::Php => "php",
            Kind::Origin => "origin",
            Kind::Refused => "refused",
        }
    }
}

/// The requests of one site, by kind and status.
#[derive(Debug, Default)]
pub struct Requests(PerThread<Row>);

/// The counters of a thread: by kind, then by status.
#[derive(Debug)]
struct Row([[AtomicU64; STATUSES.len() + 1]; Kind::ALL.len()]);

impl Default for Row {
    fn default() -> Self {
        Row([const { [const { AtomicU64::new(0) }; STATUSES.len() + 1] }; Kind::ALL.len()])
    }
}

impl Requests {
    /// Counts an answer.
    pub fn count(&self, kind: Kind, status: u16) {
        let place = STATUSES.binary_search(&status).unwrap_or(STATUSES.len());
        let of_kind = self.0.mine().0.get(kind as usize);
        if let Some(counter) = of_kind.and_then(|of_kind| of_kind.get(place)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has been counted and is not nothing: kind, status, number. Status 0 stands for any that is not known by itself.
    pub fn counted(&self) -> impl Iterator<Item = (Kind, u16, u64)> + '_ {
        let statuses = STATUSES.iter().copied().chain([0]).enumerate();
        Kind::ALL.into_iter().flat_map(move |kind| {
            statuses.clone().filter_map(move |(place, status)| {
                let of_rows = self.0.all().filter_map(|row| {
                    let counter = row.0.get(kind as usize)?.get(place)?;
                    Some(counter.load(Ordering::Relaxed))
                });
                let sum = of_rows.sum();
                (sum > 0).then_some((kind, status, sum))
            })
        })
    }
}

/// Counters of all sites by the sites' names; outlive reloads.
#[derive(Debug, Default)]
pub struct BySite<T>(Mutex<BTreeMap<String, Arc<T>>>);

impl<T: Default> BySite<T> {
    /// The counters of the site of this name, made when they are new.
    pub fn of(&self, site: &str) -> Arc<T> {
        let mut sites = self.0.lock();
        sites.entry(site.to_owned()).or_default().clone()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(String, Arc<T>)> {
        let sites = self.0.lock();
        sites
            .iter()
            .map(|(name, counters)| (name.clone(), counters.clone()))
            .collect()
    }
}

/// How long requests took, by who answered.
#[derive(Debug, Default)]
pub struct Durations(PerThread<DurationRow>);

#[derive(Debug)]
struct DurationRow {
    buckets: [[AtomicU64; BUCKETS.len() + 1]; Kind::ALL.len()],
    /// Milliseconds of all of them.
    sums: [AtomicU64; Kind::ALL.len()],
}

impl Default for DurationRow {
    fn default() -> Self {
        DurationRow {
            buckets: [const { [const { AtomicU64::new(0) }; BUCKETS.len() + 1] }; Kind::ALL.len()],
            sums: [const { AtomicU64::new(0) }; Kind::ALL.len()],
        }
    }
}

/// The durations of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Requests that took at most so many milliseconds, by [`BUCKETS`]; the last one: any.
    pub at_most: Vec<u64>,
    /// Milliseconds of all of them.
    pub sum: u64,
}

impl Durations {
    /// Counts a request that took this long. What is shorter than the timer's tick, 1 to 10 ms, may count as nothing.
    pub fn count(&self, kind: Kind, took: Duration) {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|most| *most < milliseconds);
        let row = self.0.mine();
        let counter = row
            .buckets
            .get(kind as usize)
            .and_then(|buckets| buckets.get(bucket));
        if let (Some(counter), Some(sum)) = (counter, row.sums.get(kind as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
            if milliseconds > 0 {
                sum.fetch_add(milliseconds, Ordering::Relaxed);
            }
        }
    }

    /// What was counted, by kind.
    pub fn counted(&self) -> impl Iterator<Item = (Kind, Histogram)> + '_ {
        Kind::ALL.into_iter().map(|kind| {
            let of = |bucket: usize| {
                let counters = self
                    .0
                    .all()
                    .filter_map(|row| row.buckets.get(kind as usize)?.get(bucket));
                counters
                    .map(|counter| counter.load(Ordering::Relaxed))
                    .sum::<u64>()
            };
            let mut so_far = 0;
            let at_most = (0..=BUCKETS.len()).map(|bucket| {
                so_far += of(bucket);
                so_far
            });
            let at_most = at_most.collect();
            let sums = self.0.all().filter_map(|row| row.sums.get(kind as usize));
            let sum = sums.map(|sum| sum.load(Ordering::Relaxed)).sum();
            (kind, Histogram { at_most, sum })
        })
    }
}

/// Reloads by result.
#[derive(Debug, Default)]
pub struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    last: Mutex<Option<LastReload>>,
}

/// What came of the last reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReload {
    /// When it was.
    pub when: UnixTime,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

impl Reloads {
    /// Counts one, and keeps what came of it.
    pub fn count(&self, result: &Result<(), String>, when: UnixTime) {
        let counter = match result {
            Ok(()) => &self.done,
            Err(_) => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(LastReload {
            when,
            refused: result.clone().err(),
        });
    }

    /// What came of the last one.
    pub fn last(&self) -> Option<LastReload> {
        self.last.lock().clone()
    }

    /// Their numbers, by the result's name.
    pub fn counted(&self) -> [(&'static str, u64); 2] {
        [
            ("done", self.done.load(Ordering::Relaxed)),
            ("refused", self.refused.load(Ordering::Relaxed)),
        ]
    }
}

/// The statuses that are counted each by itself, in order.
const STATUSES: [u16; 35] = [
    101, 200, 201, 202, 204, 205, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408,
    409, 410, 412, 413, 414, 416, 421, 422, 429, 431, 499, 500, 501, 502, 503, 504,
];

/// Bounds of the durations that are told apart, in milliseconds.
pub const BUCKETS: [u64; 13] = [
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_each_bound() {
        let durations = Durations::default();
        for milliseconds in [0, 5, 6, 60_000, 60_001] {
            durations.count(Kind::Php, Duration::from_millis(milliseconds));
        }
        let counted: Vec<_> = durations.counted().collect();
        let php = counted
            .iter()
            .find(|(kind, _)| *kind == Kind::Php)
            .map(|(_, histogram)| histogram);
        let histogram = php.expect("all kinds are told");
        assert_eq!(
            histogram.at_most,
            [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5]
        );
        assert_eq!(histogram.sum, 120_012);
    }

    #[test]
    fn every_thread_counts_and_the_sum_is_exact() {
        let requests = Requests::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        requests.count(Kind::Static, 304);
                        requests.count(Kind::Php, 200);
                    }
                });
            }
        });
        requests.count(Kind::Php, 299);
        let counted: Vec<_> = requests.counted().collect();
        assert_eq!(
            counted,
            [
                (Kind::Static, 304, 4000),
                (Kind::Php, 200, 4000),
                (Kind::Php, 0, 1)
            ]
        );
    }

    #[test]
    fn statuses_are_in_order_as_they_are_searched_by_halves() {
        assert!(STATUSES.is_sorted());
    }
}
