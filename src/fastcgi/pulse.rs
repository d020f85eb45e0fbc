//! When the responder last showed a sign of life, in either direction.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::connection::Connection;

/// The time of the last sign of life.
#[derive(Debug)]
pub struct Pulse {
    start: Instant,
    last_micros: AtomicU64,
}

impl Pulse {
    /// Now.
    pub fn new() -> Self {
        Pulse {
            start: Instant::now(),
            last_micros: AtomicU64::new(0),
        }
    }

    /// A sign of life was seen.
    pub fn beat(&self) {
        let micros = self.start.elapsed().as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        self.last_micros.store(micros, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.start + Duration::from_micros(self.last_micros.load(Ordering::Relaxed))
    }

    /// Waits for something to read; `None` when neither side moved for `limit`.
    ///
    /// # Errors
    /// Those of the runtime's reactor.
    pub async fn readable(
        &self,
        connection: &Connection,
        limit: Duration,
    ) -> Option<io::Result<()>> {
        loop {
            let deadline = self.last() + limit;
            match timeout_at(deadline, connection.readable()).await {
                Ok(readable) => return Some(readable),
                // STDIN moved on meanwhile.
                Err(_) if self.last() + limit > deadline => {}
                Err(_) => return None,
            }
        }
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Pulse::new()
    }
}
