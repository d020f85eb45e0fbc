//! From the order to stop until nothing is in flight.
//!
//! Pingora sleeps for its whole grace period even when idle and drops running tasks at its end, so draining is done here:
//! listeners close, each answer under way is finished and says `Connection: close`, idle connections are closed after
//! [`IDLE_GRACE`], and the process leaves when the last connection has gone or `limits.drain` is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// What every connection and the process' end agree on; cloning shares it.
#[derive(Clone)]
pub struct Lifecycle(Arc<Shared>);

struct Shared {
    draining: AtomicBool,
    order: watch::Sender<bool>,
    connections: AtomicUsize,
    connection_ended: Notify,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle(Arc::new(Shared {
            draining: AtomicBool::new(false),
            order: watch::Sender::new(false),
            connections: AtomicUsize::new(0),
            connection_ended: Notify::new(),
        }))
    }
}

impl Lifecycle {
    /// Whether the order to stop has been given.
    #[inline]
    pub fn draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Turns true with the order to stop; listeners follow it.
    pub fn order(&self) -> watch::Receiver<bool> {
        self.0.order.subscribe()
    }

    /// For a connection to be woken by the order to stop while it is idle.
    pub fn drain_signal(&self) -> DrainSignal {
        DrainSignal {
            lifecycle: self.clone(),
            waiting: None,
            heard: false,
        }
    }

    /// Makes room for a connection that was just accepted, unless there are `most` already.
    pub fn expect(&self, most: usize) -> bool {
        let made = self
            .0
            .connections
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                (now < most).then_some(now + 1)
            });
        made.is_ok()
    }

    /// Takes over the room that [`expect`](Self::expect) made; it is given back when the guard is dropped.
    pub fn admit(&self) -> ConnectionGuard {
        ConnectionGuard(self.clone())
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Acquire)
    }

    /// Gives the order to stop and waits until the last connection has gone, at most `patience`.
    /// Returns the number of connections left.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.0.draining.store(true, Ordering::Release);
        self.0.order.send_replace(true);
        let gone = async {
            loop {
                let ended = self.0.connection_ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if self.connections() == 0 {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
        self.connections()
    }
}

/// Counts a connection out when it ends.
pub struct ConnectionGuard(Lifecycle);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let shared = &self.0.0;
        if shared.connections.fetch_sub(1, Ordering::AcqRel) == 1
            && shared.draining.load(Ordering::Acquire)
        {
            shared.connection_ended.notify_waiters();
        }
    }
}

/// An idle connection's ear for the order to stop. It is registered once, at the first idle moment, and then costs one
/// load of a flag: it must always be polled from the same task.
pub struct DrainSignal {
    lifecycle: Lifecycle,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    heard: bool,
}

impl DrainSignal {
    /// The order was taken note of: it is not reported again.
    pub fn heard(&mut self) {
        self.heard = true;
    }

    /// Whether the order has been given and not heard yet; if not, the task is woken when it is given.
    pub fn poll_ordered(&mut self, cx: &mut Context<'_>) -> bool {
        if self.heard {
            return false;
        }
        if self.lifecycle.draining() {
            return true;
        }
        if self.waiting.is_some() {
            return false;
        }
        let mut order = self.lifecycle.order();
        let mut waiting: Pin<Box<dyn Future<Output = ()> + Send + Sync>> = Box::pin(async move {
            // An error means that the sender is gone, and with it the process.
            let _ = order.wait_for(|stop| *stop).await;
        });
        let ordered = waiting.as_mut().poll(cx).is_ready();
        self.waiting = Some(waiting);
        ordered
    }
}

/// How long a head that is coming in when the order comes may take to be complete.
pub const HEAD_GRACE: Duration = Duration::from_secs(2);
/// How long an idle connection may still bring a request that was on its way when the order came.
pub const IDLE_GRACE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn draining_ends_with_the_last_connection() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.expect(10));
        let guard = lifecycle.admit();
        let drained = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.drain(Duration::from_secs(60)).await }
        });
        lifecycle
            .order()
            .wait_for(|stop| *stop)
            .await
            .expect("the order comes");
        assert!(lifecycle.draining());
        drop(guard);
        assert_eq!(drained.await.expect("no panic"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_does_not_wait_for_ever() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.expect(10));
        let _guard = lifecycle.admit();
        assert_eq!(lifecycle.drain(Duration::from_secs(5)).await, 1);
    }

    #[test]
    fn no_more_connections_than_allowed() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.expect(1));
        let first = lifecycle.admit();
        assert!(!lifecycle.expect(1));
        drop(first);
        assert!(lifecycle.expect(1));
    }
}
