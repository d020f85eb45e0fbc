//! What the table holds of a file beside its facts, and who gives way when the budgets are spent. Everything here blocks.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;

use super::DescriptorCache;
use super::budget::{Budget, GivenUp, Pressure};
use super::counters::increment;
use super::file::OpenFile;
use super::finding::Look;
use super::found::Source;
use super::freshness::Trust;
use super::key::Key;
use super::record::Held;
use crate::clock::Tick;

impl DescriptorCache {
    /// What a request is served from, and what the table holds of it: the bytes of a small file if they fit the budget,
    /// else the descriptor if that fits.
    pub(super) fn hold(
        &self,
        look: &Look<'_>,
        key: &Key,
        file: OpenFile,
        bytes: Option<Bytes>,
        admitted: bool,
        trust: &Trust,
    ) -> (Source, Held) {
        if let Some(bytes) = bytes {
            let source = Source::Memory(bytes.clone());
            if admitted && self.make_room(&self.content, &self.counters.events.contents_given_up) {
                file.close();
                let hold = self.content.hold(key.clone(), look.started);
                return (source, Held::Memory(bytes, hold));
            }
            if !admitted {
                file.close();
                return (source, Held::Nothing);
            }
            return (
                source,
                self.hold_descriptor(look, key, Arc::new(file), trust),
            );
        }
        let file = Arc::new(file);
        let source = Source::Descriptor(Arc::clone(&file));
        let held = if admitted {
            self.hold_descriptor(look, key, file, trust)
        } else {
            Held::Nothing
        };
        (source, held)
    }

    fn hold_descriptor(
        &self,
        look: &Look<'_>,
        key: &Key,
        file: Arc<OpenFile>,
        trust: &Trust,
    ) -> Held {
        // An idle descriptor would keep others from removing the file.
        if matches!(trust, Trust::Remote) {
            return Held::Nothing;
        }
        let charge = self.descriptors.charge(1);
        if self.make_room(
            &self.descriptors,
            &self.counters.events.descriptors_given_up,
        ) {
            let hold = self.descriptors.hold(key.clone(), look.started);
            let mut held = Held::Descriptor(file, hold, charge, None);
            held.mark(trust);
            held
        } else {
            Held::Nothing
        }
    }

    /// Makes others give up what is not in use until the budget is kept, a bounded number of times; whether it is.
    fn make_room(&self, budget: &Arc<Budget>, counter: &AtomicU64) -> bool {
        let now = self.clock.now();
        for _ in 0..TURNS {
            if !budget.is_exceeded() {
                return true;
            }
            let Some(turn) = budget.next_holder(now) else {
                break;
            };
            if let GivenUp::Taken(held) = self.store.give_up(&turn, Pressure::Displacement, now) {
                increment(counter);
                held.release();
            }
        }
        !budget.is_exceeded()
    }

    /// Closes idle descriptors because the process has run out of them.
    pub(super) fn relieve(&self) {
        let now = self.clock.now();
        let mut closed = 0;
        for _ in 0..self.descriptors.holders().min(RELIEF_TURNS) {
            let Some(turn) = self.descriptors.next_holder(now) else {
                return;
            };
            if let GivenUp::Taken(held) = self.store.give_up(&turn, Pressure::Exhaustion, now) {
                increment(&self.counters.events.descriptors_given_up);
                held.release();
                closed += 1;
            }
            if closed == RELIEF {
                return;
            }
        }
    }

    /// Keeps the budget after a reload with a lower bound.
    pub(super) fn keep_bound(&self, budget: &Arc<Budget>, counter: &AtomicU64, now: Tick) {
        for _ in 0..budget.holders() {
            if !budget.is_exceeded() {
                return;
            }
            let Some(turn) = budget.next_holder(now) else {
                return;
            };
            if let GivenUp::Taken(held) = self.store.give_up(&turn, Pressure::Bound, now) {
                increment(counter);
                held.release();
            }
        }
    }
}

/// Holders asked to make room for one.
const TURNS: usize = 8;
/// Descriptors closed at a time when the process has run out, and holders asked for them.
const RELIEF: usize = 16;
const RELIEF_TURNS: usize = 256;
