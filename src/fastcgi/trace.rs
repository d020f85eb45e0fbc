//! What one exchange did, for the access log and the metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Counters and times of one exchange, shared between its task and the log.
#[derive(Debug, Default)]
pub struct Trace {
    sent: AtomicU64,
    received: AtomicU64,
    stderr: AtomicU64,
    waited: Micros,
    connected: Micros,
    first_byte: Micros,
    ended: Micros,
    reused: AtomicBool,
    retried: AtomicBool,
}

impl Trace {
    /// Bytes written to the responder, records included.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes of STDOUT, head included.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes of STDERR.
    pub fn stderr(&self) -> u64 {
        self.stderr.load(Ordering::Relaxed)
    }

    /// Time from the start until there was a slot.
    pub fn waited(&self) -> Option<Duration> {
        self.waited.value()
    }

    /// Time the connect took; `None` also on a kept connection.
    pub fn connected(&self) -> Option<Duration> {
        self.connected.value()
    }

    /// Time from the start to the first byte of STDOUT.
    pub fn first_byte(&self) -> Option<Duration> {
        self.first_byte.value()
    }

    /// Time from the start to END_REQUEST.
    pub fn ended(&self) -> Option<Duration> {
        self.ended.value()
    }

    /// Whether the request went out on a kept connection.
    pub fn is_reused(&self) -> bool {
        self.reused.load(Ordering::Relaxed)
    }

    /// Whether it was sent again, because a kept connection had gone.
    pub fn is_retried(&self) -> bool {
        self.retried.load(Ordering::Relaxed)
    }

    /// Counts bytes written.
    pub fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of STDOUT.
    pub fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of STDERR.
    pub fn add_stderr(&self, bytes: u64) {
        self.stderr.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that there is a slot.
    pub fn note_slot(&self, since_start: Duration) {
        self.waited.set(since_start);
    }

    /// Notes a fresh connection and what it took.
    pub fn note_connected(&self, took: Duration) {
        self.connected.set(took);
    }

    /// Notes a kept connection.
    pub fn note_reused(&self) {
        self.reused.store(true, Ordering::Relaxed);
    }

    /// Notes that the request is sent again.
    pub fn note_retried(&self) {
        self.retried.store(true, Ordering::Relaxed);
    }

    /// Notes the first byte of STDOUT.
    pub fn note_first_byte(&self, since_start: Duration) {
        self.first_byte.set(since_start);
    }

    /// Notes END_REQUEST.
    pub fn note_ended(&self, since_start: Duration) {
        self.ended.set(since_start);
    }
}

/// A duration in microseconds plus one; zero while there is none.
#[derive(Debug, Default)]
struct Micros(AtomicU64);

impl Micros {
    fn set(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX - 1);
        self.0.store(micros.saturating_add(1), Ordering::Relaxed);
    }

    fn value(&self) -> Option<Duration> {
        let micros = self.0.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_micros(micros))
    }
}
