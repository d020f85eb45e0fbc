//! What the cache did: its lookups by outcome, and every file system call it made by kind.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::per_thread::PerThread;

/// Counters of one cache. They only rise; reading them is exact when nothing is running.
#[derive(Debug, Default)]
pub struct Counters {
    /// Lookups answered by a file or directory in the table.
    pub hits: Striped,
    /// Lookups answered by a remembered error.
    pub negatives: Striped,
    /// File system calls by kind.
    pub calls: Calls,
    /// Everything else by kind.
    pub events: Events,
}

/// All counters at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersSnapshot {
    /// Lookups answered by a file or directory in the table.
    pub hits: u64,
    /// Lookups answered by a remembered error.
    pub negatives: u64,
    /// File system calls by kind.
    pub calls: CallsSnapshot,
    /// Everything else by kind.
    pub events: EventsSnapshot,
}

impl Counters {
    /// All counters now.
    pub fn snapshot(&self) -> CountersSnapshot {
        CountersSnapshot {
            hits: self.hits.sum(),
            negatives: self.negatives.sum(),
            calls: self.calls.snapshot(),
            events: self.events.snapshot(),
        }
    }
}

impl CountersSnapshot {
    /// Lookups by outcome.
    pub fn lookups(&self) -> [(&'static str, u64); 8] {
        let events = &self.events;
        [
            ("hit", self.hits),
            ("negative", self.negatives),
            ("miss", events.misses),
            ("retested", events.retests),
            ("replaced", events.replaced),
            ("waited", events.waited),
            ("unavailable", events.unavailable),
            ("error", events.errors),
        ]
    }

    /// Calls that lookups would have made without the cache: open, fstat and close for what is there, open for what is not.
    pub fn avoided(&self) -> u64 {
        self.hits * 3 + self.negatives
    }
}

impl CallsSnapshot {
    /// Calls by kind.
    pub fn by_kind(&self) -> [(&'static str, u64); 6] {
        [
            ("open", self.opens),
            ("fstat", self.fstats),
            ("close", self.closes),
            ("read", self.reads),
            ("readdir", self.readdirs),
            ("readlink", self.readlinks),
        ]
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident, $snapshot:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name { $($(#[$field_doc])* pub $field: AtomicU64,)* }

        $(#[$doc])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct $snapshot { $($(#[$field_doc])* pub $field: u64,)* }

        impl $name {
            fn snapshot(&self) -> $snapshot {
                $snapshot { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// File system calls, by kind.
    Calls, CallsSnapshot {
        /// `openat2` and `openat`, those of directories and failed ones included.
        opens,
        /// `fstat`.
        fstats,
        /// `close`.
        closes,
        /// `pread` and `preadv2`.
        reads,
        /// Directories listed.
        readdirs,
        /// `readlinkat`.
        readlinks,
    }
}

counters! {
    /// Lookups that took work, and what was given up.
    Events, EventsSnapshot {
        /// Lookups for which a file was opened and nothing was known, or its descriptor had been given up.
        misses,
        /// Lookups that found a known file unchanged by another look.
        retests,
        /// Lookups that found a known file changed or gone.
        replaced,
        /// Lookups that shared the look of another one.
        waited,
        /// Lookups refused because a file system did not answer, or descriptors or memory ran out.
        unavailable,
        /// Lookups that failed otherwise.
        errors,
        /// Files and directories displaced by others.
        evictions,
        /// Remembered errors displaced by others.
        negative_evictions,
        /// Entries released because they were unused for `inactive`.
        released,
        /// Descriptors given up while their entry stayed.
        descriptors_given_up,
        /// Bytes of files given up while their entry stayed.
        contents_given_up,
        /// Links refused.
        links_refused,
        /// Generations begun by document roots.
        generations,
        /// Events of the kernel taken in.
        watch_events,
        /// Times that the kernel dropped events, so that all was looked at again.
        overflows,
        /// Devices whose events are not believed any more, since a change went untold.
        demotions,
        /// Directories that could not be watched for lack of watches, at each try.
        watch_fallbacks,
    }
}

/// A counter that many threads raise at once: each writes a cache line of its own.
#[derive(Debug, Default)]
pub struct Striped(PerThread<AtomicU64>);

impl Striped {
    /// Adds one.
    pub fn increment(&self) {
        self.0.mine().fetch_add(1, Ordering::Relaxed);
    }

    /// What all threads have counted.
    pub fn sum(&self) -> u64 {
        let counts = self.0.all();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_count_every_increment() {
        let counter = Striped::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.sum(), 4000);
    }
}
