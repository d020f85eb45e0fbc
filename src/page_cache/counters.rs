//! What is counted of pages, for each site.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page_cache::site_pages::Bypass;
use crate::page_cache::storable::Refusal;
use crate::per_thread::PerThread;

/// What the page cache had to do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// A fresh page.
    Hit,
    /// An old page, while a new one is fetched aside.
    Stale,
    /// An old page, as the application failed.
    StaleIfError,
    /// The page that another request was fetching already.
    Waited,
    /// The application was asked, and has confirmed the page that was kept.
    Revalidated,
    /// The application was asked.
    Miss,
    /// The page cache was passed by.
    Bypass,
}

impl PageOutcome {
    /// All of them.
    pub const ALL: [PageOutcome; 7] = [
        PageOutcome::Hit,
        PageOutcome::Stale,
        PageOutcome::StaleIfError,
        PageOutcome::Waited,
        PageOutcome::Revalidated,
        PageOutcome::Miss,
        PageOutcome::Bypass,
    ];

    /// The word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PageOutcome::Hit => "hit",
            PageOutcome::Stale => "stale",
            PageOutcome::StaleIfError => "stale_if_error",
            PageOutcome::Waited => "waited",
            PageOutcome::Revalidated => "revalidated",
            PageOutcome::Miss => "miss",
            PageOutcome::Bypass => "bypass",
        }
    }

    /// The word for the access log, where files have words of their own.
    #[must_use]
    pub fn logged(self) -> &'static str {
        match self {
            PageOutcome::Hit => "page_hit",
            PageOutcome::Stale => "page_stale",
            PageOutcome::StaleIfError => "page_stale_if_error",
            PageOutcome::Waited => "page_waited",
            PageOutcome::Revalidated => "page_revalidated",
            PageOutcome::Miss => "page_miss",
            PageOutcome::Bypass => "page_bypass",
        }
    }
}

/// The counters of one site.
#[derive(Debug, Default)]
pub struct PageCounters {
    hot: PerThread<Row>,
    refusals: [AtomicU64; Refusal::ALL.len()],
    refreshed: AtomicU64,
    failed_refreshes: AtomicU64,
}

#[derive(Debug, Default)]
struct Row {
    outcomes: [AtomicU64; PageOutcome::ALL.len()],
    bypasses: [AtomicU64; Bypass::ALL.len()],
}

impl PageCounters {
    /// Counts a request.
    pub fn outcome(&self, outcome: PageOutcome) {
        add(self.hot.mine().outcomes.get(outcome as usize));
    }

    /// Counts a request that passed by, and why.
    pub fn bypass(&self, why: Bypass) {
        self.outcome(PageOutcome::Bypass);
        add(self.hot.mine().bypasses.get(why as usize));
    }

    /// Counts an answer that may not be kept.
    pub fn refusal(&self, why: Refusal) {
        add(self.refusals.get(why as usize));
    }

    /// Counts a page fetched aside.
    pub fn refresh(&self, done: bool) {
        add(Some(if done {
            &self.refreshed
        } else {
            &self.failed_refreshes
        }));
    }

    /// Requests by outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        PageOutcome::ALL.into_iter().map(|outcome| {
            let of_rows = self
                .hot
                .all()
                .filter_map(|row| row.outcomes.get(outcome as usize));
            (outcome.as_str(), of_rows.map(read).sum())
        })
    }

    /// Requests that passed by, by reason.
    pub fn bypasses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Bypass::ALL.into_iter().map(|why| {
            let of_rows = self
                .hot
                .all()
                .filter_map(|row| row.bypasses.get(why as usize));
            (why.as_str(), of_rows.map(read).sum())
        })
    }

    /// Answers that were not kept, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counters = Refusal::ALL.into_iter().zip(&self.refusals);
        counters.map(|(why, counter)| (why.as_str(), read(counter)))
    }

    /// Pages fetched aside, by result.
    pub fn refreshes(&self) -> [(&'static str, u64); 2] {
        [
            ("done", read(&self.refreshed)),
            ("failed", read(&self.failed_refreshes)),
        ]
    }
}

fn add(counter: Option<&AtomicU64>) {
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
