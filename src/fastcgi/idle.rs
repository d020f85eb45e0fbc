//! Kept connections of one address (the keep-conn flag, FastCGI 1.0 §5.1).
//!
//! A kept connection pins one PHP worker, so those idle and those in use together never exceed the
//! number of workers, and idle ones are closed soon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;

/// The idle connections of one address.
#[derive(Debug, Default)]
pub struct IdleConnections {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    connections: VecDeque<Idle>,
    reaper_runs: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    until: Instant,
}

impl IdleConnections {
    /// The connection used last, if the responder has not closed it.
    pub fn take(&self) -> Option<Connection> {
        let now = Instant::now();
        loop {
            let idle = self.list.lock().connections.pop_back()?;
            if idle.until > now && idle.connection.is_quiet() {
                return Some(idle.connection);
            }
        }
    }

    /// Keeps a connection for at most `keep`.
    pub fn put(self: &Arc<Self>, connection: Connection, keep: Duration) {
        let until = Instant::now() + keep;
        let mut list = self.list.lock();
        list.connections.push_back(Idle { connection, until });
        if !list.reaper_runs {
            list.reaper_runs = true;
            tokio::spawn(Arc::clone(self).reap());
        }
    }

    /// Closes the oldest until `idle` at most are left.
    pub fn shrink(&self, idle: usize) {
        let mut closed = Vec::new();
        let mut list = self.list.lock();
        while list.connections.len() > idle {
            closed.extend(list.connections.pop_front());
        }
        // The system calls that close come after the lock is given back.
        drop(list);
    }

    /// How many connections are idle.
    pub fn count(&self) -> usize {
        self.list.lock().connections.len()
    }

    /// Closes connections as their time ends; ends itself with the last of them.
    async fn reap(self: Arc<Self>) {
        let mut next = Instant::now();
        loop {
            sleep_until(next).await;
            let now = Instant::now();
            let mut list = self.list.lock();
            list.connections.retain(|idle| idle.until > now);
            match list.connections.iter().map(|idle| idle.until).min() {
                Some(earliest) => next = earliest,
                None => {
                    list.reaper_runs = false;
                    return;
                }
            }
        }
    }
}
