//! How long a client may keep us waiting for one request body, or with one answer.
//!
//! Silence alone is no measure: a client that moves a byte now and then is never silent for long and never done. So
//! there is a pace, too, judged by the time spent waiting for the client and by nothing else: an application that
//! thinks, or an event stream that has nothing to say, costs the client nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::limited::Limit;

/// What a client may take of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest silence.
    pub silence: Duration,
    /// Bytes a second that must move on the whole, beyond one `silence`; 0: any pace will do.
    pub rate: u64,
}

/// What a client has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Nothing moved for `silence`.
    Silent,
    /// Less moved than `rate` asks for.
    Slow,
}

impl Exceeded {
    /// The limit that a client has met which does not take its answer.
    pub fn by_answer(self) -> Limit {
        match self {
            Exceeded::Silent => Limit::Send,
            Exceeded::Slow => Limit::SendRate,
        }
    }
}

/// How the bytes of one body or one answer have moved so far.
pub struct Pace {
    patience: Patience,
    /// Time waited for the client, up to the last byte.
    waited: Duration,
    moved: u64,
    /// Since when it is waited for.
    since: Option<Instant>,
    /// Made at the first stall only: a client that keeps up costs no timer.
    silence: Option<Pin<Box<Sleep>>>,
    exceeded: Option<Exceeded>,
}

impl Pace {
    /// Nothing has moved yet.
    pub fn new(patience: Patience) -> Pace {
        Pace {
            patience,
            waited: Duration::ZERO,
            moved: 0,
            since: None,
            silence: None,
            exceeded: None,
        }
    }

    /// What has been exceeded, if anything.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// The client is waited for from now on, and somebody else sees when it is silent.
    pub fn waits(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The client is waited for; ready when it has been silent for too long.
    pub fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<Exceeded> {
        self.waits();
        let silence = self.patience.silence;
        let sleep = self
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(silence)));
        ready!(sleep.as_mut().poll(cx));
        self.exceeded = Some(Exceeded::Silent);
        Poll::Ready(Exceeded::Silent)
    }

    /// So many bytes have moved.
    ///
    /// # Errors
    /// They took too long, on the whole.
    pub fn moved(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.moved = self.moved.saturating_add(bytes as u64);
        let Some(since) = self.since.take() else {
            return Ok(());
        };
        self.silence = None;
        self.waited += since.elapsed();
        if self.waited > self.allowed() {
            self.exceeded = Some(Exceeded::Slow);
            return Err(Exceeded::Slow);
        }
        Ok(())
    }

    /// The time that the bytes so far may have taken.
    fn allowed(&self) -> Duration {
        match self.moved.checked_div(self.patience.rate) {
            Some(seconds) => self
                .patience
                .silence
                .saturating_add(Duration::from_secs(seconds)),
            None => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        silence: Duration::from_secs(30),
        rate: 500,
    };

    /// Moves `bytes` after each wait of `seconds`, `times` times; how often until it was too slow.
    async fn dripped(patience: Patience, bytes: usize, seconds: u64, times: u32) -> Option<u32> {
        let mut pace = Pace::new(patience);
        for time in 0..times {
            pace.waits();
            tokio::time::advance(Duration::from_secs(seconds)).await;
            if pace.moved(bytes).is_err() {
                assert_eq!(pace.exceeded(), Some(Exceeded::Slow));
                return Some(time);
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_is_too_slow() {
        assert_eq!(dripped(PATIENCE, 1, 10, 100).await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_that_is_asked_for_is_enough() {
        assert_eq!(dripped(PATIENCE, 5000, 10, 10_000).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_only_silence_counts() {
        let patience = Patience {
            rate: 0,
            ..PATIENCE
        };
        assert_eq!(dripped(patience, 1, 29, 10_000).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_client_is_not_waited_for_is_not_its_own() {
        let mut pace = Pace::new(PATIENCE);
        for _ in 0..1000 {
            assert_eq!(pace.moved(1), Ok(()));
            tokio::time::advance(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_seen_by_itself_and_begins_anew_with_each_byte() {
        let mut pace = Pace::new(PATIENCE);
        let silent = std::future::poll_fn(|cx| pace.poll_silent(cx));
        assert!(
            tokio::time::timeout(Duration::from_secs(29), silent)
                .await
                .is_err()
        );
        assert_eq!(pace.moved(100_000), Ok(()));
        let silent = std::future::poll_fn(|cx| pace.poll_silent(cx));
        let seen = tokio::time::timeout(Duration::from_secs(31), silent).await;
        assert_eq!(seen, Ok(Exceeded::Silent));
    }
}
