//! A deadline that is moved at every request and costs nothing until it is near.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::{Clock, Tick};

/// One timer for a connection's whole life. Moving the deadline later does not touch the runtime's timer wheel: the
/// timer fires at its old time, finds that it was moved, and is armed again. So a busy connection arms it once in
/// [`keep_alive`](crate::edge::Limits::keep_alive), not twice per request.
///
/// It relies on being polled from one task only, whose waker stays the same.
#[derive(Default)]
pub struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    armed_for: Tick,
}

impl Deadline {
    /// Whether `at` has passed; if not, the task is woken when it does.
    pub fn poll_passed(&mut self, cx: &mut Context<'_>, clock: &Clock, at: Tick) -> bool {
        let now = clock.now();
        if now >= at {
            return true;
        }
        if self.sleep.is_some() && self.armed_for <= at && now < self.armed_for {
            return false;
        }
        // The coarse clock is up to one tick behind; a wake-up too early finds the deadline not passed and sleeps again.
        let wait = at.since(now) + COARSENESS;
        let until = Instant::now() + wait;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        sleep.as_mut().reset(until);
        self.armed_for = now.plus(wait);
        // Polled only to leave the task's waker there: it has just been set later than now.
        let _ = sleep.as_mut().poll(cx);
        false
    }
}

const COARSENESS: Duration = Duration::from_millis(5);
