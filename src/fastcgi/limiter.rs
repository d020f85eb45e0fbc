//! Slots: how many requests may be with one responder at once, and who waits for the next one.
//!
//! PHP-FPM takes as many connections as its socket's backlog holds and lets them wait for a worker,
//! in no order and without telling; so the waiting is done here, first come, first served, with a
//! bound on its length and its time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::failure::ExchangeError;
use super::idle::IdleConnections;
use super::settings::Address;

/// The process's limiters, by address. Requests in flight are counted across reloads.
#[derive(Debug, Default)]
pub struct Limiters {
    by_address: Mutex<HashMap<Address, Arc<Limiter>>>,
}

impl Limiters {
    /// With no address known yet.
    pub fn new() -> Self {
        Limiters::default()
    }

    /// The limiter of `address`, set to `limit` requests at once; `None`: no limit.
    pub fn for_address(&self, address: &Address, limit: Option<usize>) -> Arc<Limiter> {
        let mut by_address = self.by_address.lock();
        if let Some(limiter) = by_address.get(address) {
            limiter.reconfigure(limit);
            return Arc::clone(limiter);
        }
        let limiter = Limiter::new(limit);
        by_address.insert(address.clone(), Arc::clone(&limiter));
        limiter
    }

    /// Closes idle connections, so that no PHP worker is held by a process about to end.
    pub fn close_idle(&self) {
        for limiter in self.by_address.lock().values() {
            limiter.idle.shrink(0);
        }
    }

    /// All limiters, by the responder's address as it is written in settings.
    pub fn all(&self) -> Vec<(String, Arc<Limiter>)> {
        let by_address = self.by_address.lock();
        let mut all: Vec<_> = by_address
            .iter()
            .map(|(address, limiter)| (address.to_string(), Arc::clone(limiter)))
            .collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Requests with a responder and requests waiting for a slot, over all addresses.
    pub fn in_flight_and_waiting(&self) -> (usize, usize) {
        let by_address = self.by_address.lock();
        by_address
            .values()
            .fold((0, 0), |(in_flight, waiting), limiter| {
                (in_flight + limiter.in_flight(), waiting + limiter.waiting())
            })
    }
}

/// The slots of one address.
#[derive(Debug)]
pub struct Limiter {
    /// First come, first served; without a limit it has as many permits as it can.
    permits: Arc<Semaphore>,
    limit: Mutex<Limit>,
    in_flight: AtomicUsize,
    waiting: AtomicUsize,
    waits: AtomicU64,
    errors: [AtomicU64; ExchangeError::KINDS.len()],
    idle: Arc<IdleConnections>,
}

#[derive(Debug)]
struct Limit {
    limit: Option<usize>,
    /// Slots to be taken out of use when they come back, after the limit was lowered.
    surplus: usize,
}

impl Limiter {
    /// With every slot free.
    pub fn new(limit: Option<usize>) -> Arc<Limiter> {
        Arc::new(Limiter {
            permits: Arc::new(Semaphore::new(slots(limit))),
            limit: Mutex::new(Limit { limit, surplus: 0 }),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            errors: [const { AtomicU64::new(0) }; ExchangeError::KINDS.len()],
            idle: Arc::new(IdleConnections::default()),
        })
    }

    /// Takes a slot, waiting for it at most `wait` behind at most `queue` others. A request that
    /// is no longer wanted leaves the queue by dropping the future.
    ///
    /// # Errors
    /// When the queue is full, or the time is over.
    pub async fn acquire(self: &Arc<Self>, wait: Duration, queue: usize) -> Result<Slot, Busy> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(Slot::new(self, permit));
        }
        let waiting = self.join_queue(queue)?;
        let permit = timeout(wait, Arc::clone(&self.permits).acquire_owned()).await;
        drop(waiting);
        match permit {
            Ok(Ok(permit)) => Ok(Slot::new(self, permit)),
            Ok(Err(_)) | Err(_) => Err(Busy::TimedOut),
        }
    }

    /// Counts as waiting until the place is dropped: for a slot, or for room in the backlog.
    ///
    /// # Errors
    /// When `queue` others are waiting.
    pub fn join_queue(self: &Arc<Self>, queue: usize) -> Result<Place, Busy> {
        let joined = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < queue).then_some(waiting + 1)
            });
        match joined {
            Ok(_) => {
                self.waits.fetch_add(1, Ordering::Relaxed);
                Ok(Place(Arc::clone(self)))
            }
            Err(_) => Err(Busy::QueueFull),
        }
    }

    /// Changes the limit. Requests in flight go on; a lower limit is reached as they end.
    pub fn reconfigure(&self, limit: Option<usize>) {
        let mut state = self.limit.lock();
        let (before, after) = (slots(state.limit), slots(limit));
        state.limit = limit;
        if after >= before {
            let added = after - before;
            let settled = added.min(state.surplus);
            state.surplus -= settled;
            self.permits.add_permits(added - settled);
        } else {
            let removed = before - after;
            state.surplus += removed - self.permits.forget_permits(removed);
        }
        drop(state);
        if let Some(limit) = limit {
            self.idle.shrink(limit.saturating_sub(self.in_flight()));
        }
    }

    /// The limit; `None`: there is none.
    pub fn limit(&self) -> Option<usize> {
        self.limit.lock().limit
    }

    /// Requests that hold a slot.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Requests that wait for a slot or for room in the backlog.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Requests that have waited so far.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Counts a request that failed.
    pub fn count_error(&self, error: &ExchangeError) {
        if let Some(counter) = error.kind().and_then(|kind| self.errors.get(kind)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests that failed so far, by kind.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self
            .errors
            .iter()
            .map(|counter| counter.load(Ordering::Relaxed));
        ExchangeError::KINDS.into_iter().zip(counts)
    }

    /// The kept connections of this address.
    pub fn idle(&self) -> &Arc<IdleConnections> {
        &self.idle
    }

    /// Closes idle connections that would, with those in flight, be more than the limit: before
    /// a holder of a slot opens a fresh one. Without a limit none is kept at all, as it cannot be
    /// known whom they would keep waiting.
    pub fn make_room(&self) {
        let limit = self.limit().unwrap_or(0);
        self.idle.shrink(limit.saturating_sub(self.in_flight()));
    }
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// As many as may are waiting already.
    #[error("too many requests wait for the responder")]
    QueueFull,
    /// No slot became free in time.
    #[error("no slot became free in time")]
    TimedOut,
}

/// The right to be with the responder; dropping it gives it to the next in the queue.
#[derive(Debug)]
pub struct Slot {
    limiter: Arc<Limiter>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Slot {
    fn new(limiter: &Arc<Limiter>, permit: OwnedSemaphorePermit) -> Slot {
        limiter.in_flight.fetch_add(1, Ordering::Relaxed);
        Slot {
            limiter: Arc::clone(limiter),
            permit: Some(permit),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The permit goes back under the lock, so that a lowered limit sees it here or there.
        let mut state = self.limiter.limit.lock();
        self.limiter.in_flight.fetch_sub(1, Ordering::Relaxed);
        let permit = self.permit.take();
        if let Some(surplus) = state.surplus.checked_sub(1)
            && let Some(permit) = permit
        {
            state.surplus = surplus;
            permit.forget();
        }
    }
}

/// A place in the queue.
#[derive(Debug)]
pub struct Place(Arc<Limiter>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn slots(limit: Option<usize>) -> usize {
    limit.map_or(Semaphore::MAX_PERMITS, |limit| {
        limit.min(Semaphore::MAX_PERMITS)
    })
}

#[cfg(test)]
mod tests;
