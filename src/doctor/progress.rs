//! What is being looked at, told to a terminal once it takes longer than a second.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// One line of a terminal's standard error, or nothing at all.
#[derive(Debug)]
pub struct Progress {
    now: Arc<Mutex<String>>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins; silent where there `is_terminal` not.
    #[must_use]
    pub fn start(is_terminal: bool) -> Self {
        let now = Arc::new(Mutex::new(String::new()));
        let thread = is_terminal.then(|| {
            let (end, ended) = channel();
            let shown = Arc::clone(&now);
            let thread = std::thread::spawn(move || {
                let mut is_shown = false;
                while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    show(&format!("looking at {} …", shown.lock()));
                    is_shown = true;
                }
                if is_shown {
                    show("");
                }
            });
            (end, thread)
        });
        Progress { now, thread }
    }

    /// What is looked at from now on.
    pub fn tell(&self, what: &str) {
        what.clone_into(&mut self.now.lock());
    }

    /// Clears the line.
    pub fn end(self) {
        if let Some((end, thread)) = self.thread {
            drop(end);
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}

/// Writes over the line.
fn show(text: &str) {
    let mut terminal = std::io::stderr();
    // Who has gone needs no progress.
    let _ = write!(terminal, "\r\x1b[K{}", super::report::printable(text));
    let _ = terminal.flush();
}

const PATIENCE: Duration = Duration::from_secs(1);
