//! The timer: what is unused for `inactive` is released, bounds are kept, roots are resolved anew. Everything here blocks.

use std::sync::Arc;
use std::time::Duration;

use super::DescriptorCache;
use super::counters::increment;
use super::root::RootGeneration;
use super::settings::Settings;
use crate::clock::Tick;

impl DescriptorCache {
    /// To be called once a second, off the workers, without waiting for an earlier call that is still running: a root
    /// on a file system that hangs holds up the call that asks it, while others go on.
    pub fn tick(&self) {
        let settings = self.settings.load_full();
        if let Some(mut last) = self.last_expiry.try_lock() {
            let now = self.clock.now();
            // Often enough for `inactive`, and not so often that large tables cost an idle server anything.
            if now.since(*last) >= (settings.inactive / 8).min(LONGEST_PAUSE) {
                *last = now;
                self.expire(&settings, now);
            }
            self.keep_bound(
                &self.descriptors,
                &self.counters.events.descriptors_given_up,
                now,
            );
            self.keep_bound(&self.content, &self.counters.events.contents_given_up, now);
        }
        for ended in self.roots.resolve(&self.opener) {
            self.end_generation(&ended);
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

    fn expire(&self, settings: &Settings, now: Tick) {
        self.store.expire(settings, now, |record| {
            increment(&self.counters.events.released);
            record.release();
        });
    }
}

const LONGEST_PAUSE: Duration = Duration::from_secs(10);
