//! The timer: what is unused for `inactive` is released, bounds are kept, roots are resolved anew. Everything here blocks.

use std::sync::Arc;
use std::time::Duration;

use super::DescriptorCache;
use super::budget::{GivenUp, Pressure};
use super::counters::increment;
use super::freshness::Moment;
use super::root::RootGeneration;
use crate::clock::Tick;

impl DescriptorCache {
    /// To be called once a second, off the workers, without waiting for an earlier call that is still running: a root
    /// on a file system that hangs holds up the call that asks it, while others go on.
    pub fn tick(&self) {
        let settings = self.settings.load_full();
        self.watching.take_in();
        self.resolve_marked();
        self.close_deleted();
        if let Some(mut last) = self.last_expiry.try_lock() {
            let now = self.clock.now();
            // Often enough for `inactive`, and not so often that large tables cost an idle server anything.
            if now.since(*last) >= (settings.inactive / 8).min(LONGEST_PAUSE) {
                *last = now;
                self.expire(&self.moment(&settings));
                // Watches are cheaper to keep than to make.
                let long = settings.inactive * WATCHES_KEPT;
                self.watching
                    .sweep(Tick(now.0.saturating_sub(millis(long))));
            }
            self.keep_bound(
                &self.descriptors,
                &self.counters.events.descriptors_given_up,
                now,
            );
            self.keep_bound(&self.content, &self.counters.events.contents_given_up, now);
        }
        for ended in self.roots.resolve(self.ground()) {
            self.end_generation(&ended);
        }
    }

    /// Resolves the roots that events have marked.
    pub(super) fn resolve_marked(&self) {
        for ended in self.roots.resolve_marked(self.ground()) {
            self.end_generation(&ended);
        }
    }

    /// Closes idle descriptors of files whose last name is gone, among those that events were about: they keep the
    /// file's blocks.
    fn close_deleted(&self) {
        for ticket in self.watching.suspects() {
            let Some(turn) = self.descriptors.turn(ticket) else {
                continue;
            };
            let Some(file) = self.store.held_file(&turn) else {
                continue;
            };
            let deleted = file.facts().is_ok_and(|facts| facts.identity.links == 0);
            drop(file);
            if deleted
                && let GivenUp::Taken(held) =
                    self.store.give_up(&turn, Pressure::Bound, self.clock.now())
            {
                increment(&self.counters.events.descriptors_given_up);
                held.release();
            }
        }
    }

    /// Releases the entries of a generation that its root has left.
    pub(super) fn end_generation(&self, ended: &Arc<RootGeneration>) {
        increment(&self.counters.events.generations);
        self.store.forget_generation(ended.id(), |record| {
            increment(&self.counters.events.released);
            record.release();
        });
    }

    fn expire(&self, moment: &Moment<'_>) {
        self.store.expire(moment, |record| {
            increment(&self.counters.events.released);
            record.release();
        });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Watches that no entry needs are kept for so many times `inactive`.
const WATCHES_KEPT: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
