//! What every test needs: the server, a document root, a client that judges framing, and the fakes behind the server.

pub mod client;
pub mod document_root;
pub mod fake_authority;
pub mod fake_origin;
pub mod fake_responder;
pub mod history;
pub mod mode;
pub mod nostat;
pub mod numbers;

use std::thread;
use std::time::{Duration, Instant};

/// The longest a test waits for anything: far more than any machine needs, so that only a hang meets it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Asks again until there is an answer; panics with `what` when [`DEADLINE`] passes without one.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
