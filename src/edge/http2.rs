//! The second door: HTTP/2 (RFC 9113).
//!
//! A stream's request becomes the bytes of an HTTP/1 head and is decided upon as the lane's are: so every rule, limit, metric and
//! log line is the same one; see [`http2_request`](crate::edge::http2_request). Here is the connection that the streams are on.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::task::AtomicWaker;
use pingora_core::protocols::http::v2::server::{
    H2Accept, H2Options, HttpSession, default_h2_options, handshake,
};
use pingora_core::protocols::{Digest, Stream};
use pingora_core::server::ShutdownWatch;

use crate::clock::Tick;
use crate::edge::Limits;
use crate::edge::connection::Connection;
use crate::edge::crowding::{LOOKED_AROUND, for_beginning, for_idling, is_crowded};
use crate::edge::deadline::Deadline;
use crate::edge::gathering::Turns;
use crate::edge::http2_request::{Request, Shared};
use crate::edge::listener::Arrival;
use crate::edge::proxy::Door;
use crate::edge::stream_body::Outgoing;
use crate::edge::watched_stream::{Watch, WatchedStream};
use crate::lifecycle::{DrainSignal, IDLE_GRACE};
use crate::limited::Limit;
use crate::snapshot::State;

/// Serves one connection until it ends.
pub async fn serve(
    state: Arc<State>,
    door: Arc<Door>,
    connection: Connection,
    stop: ShutdownWatch,
    arrival: Arrival,
) {
    let limits = state.snapshot.load().limits.clone();
    let (stream, _, _) = connection.into_parts();
    let digest = digest_of(&stream);
    let local = arrival.local(&stream);
    let (stream, watch) = WatchedStream::new(stream, limits.for_answer());
    let (stream, turns) = Turns::of(Box::new(stream));
    // Only needed now, and large: no part of what an idle connection keeps.
    let opened = Box::pin(open(&state, Box::new(stream), &limits)).await;
    if let Some(connection) = opened {
        turns.begin();
        let mut wire = Wire {
            connection,
            digest,
            watch: watch.clone(),
            turns,
            drain: state.lifecycle.drain_signal(),
            stage: Stage::Serving,
            requests: 0,
            idle_since: None,
            next_look: Tick::default(),
            deadline: Deadline::default(),
            limits,
            shared: Arc::new(Shared {
                local,
                state: state.clone(),
                door,
                stop,
                arrival,
                outgoing: Outgoing::default(),
                streams: AtomicUsize::new(0),
                task: AtomicWaker::new(),
            }),
        };
        wire.run().await;
    }
    if let Some(exceeded) = watch.exceeded() {
        state.limited.count(exceeded.by_answer());
    }
}

type Http2Connection = h2::server::Connection<Stream, Bytes>;

/// Takes in what a connection begins with (RFC 9113 §3.4), in the time for a head.
async fn open(state: &State, stream: Stream, limits: &Limits) -> Option<Http2Connection> {
    let patience = for_beginning(limits.request_head, is_crowded(state));
    let opened = tokio::time::timeout(patience, handshake(stream, Some(options(limits))));
    let mut order = state.lifecycle.order();
    let stopped = async {
        // An error means that the sender is gone, and with it the process.
        let _ = order.wait_for(|stop| *stop).await;
        tokio::time::sleep(IDLE_GRACE).await;
    };
    tokio::select! {
        opened = opened => opened.ok()?.ok(),
        () = stopped => None,
    }
}

/// One connection, below its streams. Of the 25 KiB that an idle one costs, h2's buffers for reading and writing are 24, and
/// it has no setting for them.
struct Wire {
    connection: Http2Connection,
    digest: Arc<Digest>,
    watch: Arc<Watch>,
    turns: Turns,
    shared: Arc<Shared>,
    limits: Limits,
    drain: DrainSignal,
    stage: Stage,
    requests: u64,
    /// Since when there is nothing to do.
    idle_since: Option<Tick>,
    /// When it is looked next whether connections run out.
    next_look: Tick,
    deadline: Deadline,
}

/// How far the connection is on its way to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Streams may begin.
    Serving,
    /// The client has been told that no more may begin (GOAWAY), and those on their way are still answered. When it has
    /// confirmed to know, which a PING asks it, the connection ends with its last stream (RFC 9113 §6.8).
    Leaving,
    /// The client has been told which stream was the last.
    Closing,
}

/// What has happened on a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "taken apart where it is made; a box would cost each request an allocation"
)]
enum Event {
    Accepted(H2Accept),
    /// The order to stop was given.
    Ordered,
    /// It has been idle for as long as it may.
    IdleTooLong,
    /// It has ended.
    End,
}

impl Wire {
    async fn run(&mut self) {
        let mut malformed = 0;
        loop {
            match std::future::poll_fn(|cx| self.poll_event(cx)).await {
                Event::Accepted(H2Accept::Session(session)) => {
                    self.requests += 1;
                    if self.requests == self.limits.requests_per_connection {
                        self.shared
                            .state
                            .limited
                            .count(Limit::RequestsPerConnection);
                        self.leave();
                    }
                    Request::new(&self.shared).begin(session);
                }
                Event::Accepted(H2Accept::Rejected) => {
                    malformed += 1;
                    if malformed > MOST_MALFORMED {
                        return;
                    }
                }
                Event::Ordered => self.leave(),
                Event::IdleTooLong if self.stage == Stage::Closing => return,
                Event::IdleTooLong => {
                    // A request that is on its way now is asked again on another connection: the client is told that it
                    // was not seen.
                    self.connection.abrupt_shutdown(h2::Reason::NO_ERROR);
                    self.stage = Stage::Closing;
                    self.idle_since = None;
                }
                Event::End => return,
            }
        }
    }

    fn leave(&mut self) {
        if self.stage == Stage::Serving {
            self.connection.graceful_shutdown();
            self.stage = Stage::Leaving;
            self.idle_since = None;
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.drain.poll_ordered(cx) {
            self.drain.heard();
            return Poll::Ready(Event::Ordered);
        }
        // Before it is looked whether streams are open: they end in tasks of their own.
        self.shared.task.register(cx.waker());
        let accepted = HttpSession::from_h2_conn(&mut self.connection, self.digest.clone());
        // Nothing is lost by dropping it again.
        if let Poll::Ready(accepted) = pin!(accepted).poll(cx) {
            self.idle_since = None;
            return Poll::Ready(match accepted {
                Ok(Some(accepted)) => Event::Accepted(accepted),
                // The client has gone, or breaks the protocol.
                Ok(None) | Err(_) => Event::End,
            });
        }
        if let Poll::Ready(Err(_)) = self.turns.poll_end(cx) {
            return Poll::Ready(Event::End);
        }
        self.poll_idle(cx).map(|()| Event::IdleTooLong)
    }

    /// Ready when the connection has been idle for as long as it may.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = &self.shared.state.clock;
        if !self.is_idle() {
            self.idle_since = None;
            return Poll::Pending;
        }
        let since = *self.idle_since.get_or_insert_with(|| {
            let now = clock.now();
            self.next_look = now.plus(LOOKED_AROUND);
            now
        });
        loop {
            let until = since.plus(match self.stage {
                Stage::Serving if self.requests == 0 => {
                    for_beginning(self.limits.request_head, is_crowded(&self.shared.state))
                }
                Stage::Serving => {
                    for_idling(self.limits.keep_alive, is_crowded(&self.shared.state))
                }
                Stage::Leaving | Stage::Closing => IDLE_GRACE,
            });
            let next = until.min(self.next_look);
            if !self.deadline.poll_passed(cx, clock, next) {
                return Poll::Pending;
            }
            if clock.now() >= until {
                return Poll::Ready(());
            }
            // It may become crowded meanwhile.
            self.next_look = clock.now().plus(LOOKED_AROUND);
        }
    }

    /// Whether nothing is under way: no request, and no answer that the client has not taken yet.
    fn is_idle(&self) -> bool {
        self.stage == Stage::Closing
            || (self.shared.streams.load(Ordering::Acquire) == 0
                && !self.connection.has_streams()
                && !self.watch.is_behind())
    }
}

fn options(limits: &Limits) -> H2Options {
    let mut options = default_h2_options();
    options
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_size).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MOST_RESET)
        .max_local_error_reset_streams(Some(MOST_ERRORS))
        .max_send_buffer_size(SEND_BUFFER)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    options
}

fn digest_of(stream: &Stream) -> Arc<Digest> {
    Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: stream.get_proxy_digest(),
        socket_digest: stream.get_socket_digest(),
    })
}

/// Malformed requests on one connection.
const MOST_MALFORMED: usize = 32;
/// Streams that the client has reset and nobody has seen yet (rapid reset, CVE-2023-44487).
const MOST_RESET: usize = 20;
/// Streams that were reset for the client's errors (CVE-2025-8671).
const MOST_ERRORS: usize = 256;
/// Bytes of a stream's answer that wait for the connection; those of all streams have a bound of their own.
const SEND_BUFFER: usize = 64 * 1024;
/// Bytes of a body that a client may send unasked.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
