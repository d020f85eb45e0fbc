//! The second door: HTTP/2 (RFC 9113).
//!
//! A stream's request becomes the bytes of an HTTP/1 head and is decided upon as the lane's are: so every rule, limit, metric and
//! log line is the same one. What is answered here is written to the stream; everything else goes to Pingora, which has the
//! stream itself.

use std::future::Future as _;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http::HeaderValue;
use pingora_core::apps::HttpServerApp as _;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{
    H2Accept, H2Options, HttpSession, default_h2_options, handshake,
};
use pingora_core::protocols::{Digest, Stream};
use pingora_core::server::ShutdownWatch;
use pingora_http::ResponseHeader;

use crate::clock::Tick;
use crate::edge::Limits;
use crate::edge::connection::Connection;
use crate::edge::crowding::{LOOKED_AROUND, for_beginning, for_idling, is_crowded};
use crate::edge::deadline::Deadline;
use crate::edge::gathering::Turns;
use crate::edge::handed_session::HandedSession;
use crate::edge::http2_head::{self, Lending};
use crate::edge::listener::Arrival;
use crate::edge::log_entry::Outcome;
use crate::edge::pace::Patience;
use crate::edge::proxy::Door;
use crate::edge::rendered::{BodyPieces, response_header_of_http2, stay_with_https};
use crate::edge::stream_body::{StreamBody, StreamError};
use crate::edge::turn::{Answered, Asked, Lent, Turn};
use crate::edge::watched_stream::{Watch, WatchedStream};
use crate::edge::{lane, pages};
use crate::hot_paths::Sighting;
use crate::lifecycle::{DrainSignal, IDLE_GRACE};
use crate::limited::Limit;
use crate::request::head::HeadScan;
use crate::site::{Answer, Body};
use crate::snapshot::{Snapshot, State};

/// What the streams of one connection share.
struct Shared {
    state: Arc<State>,
    door: Arc<Door>,
    stop: ShutdownWatch,
    arrival: Arrival,
    local: Option<SocketAddr>,
    /// Streams that have a task of their own.
    streams: AtomicUsize,
    /// The connection's own task, which looks whether it is idle when the last of them has ended.
    task: AtomicWaker,
}

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

/// One connection, below its streams.
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

impl Shared {
    fn asked<'a>(
        &'a self,
        snapshot: &'a Arc<Snapshot>,
        local: &'a (dyn Fn() -> Option<SocketAddr> + Sync),
    ) -> Asked<'a> {
        Asked {
            snapshot,
            now: self.state.clock.unix(),
            arrival: &self.arrival,
            http2: true,
            local,
            is_last: false,
            draining: self.state.lifecycle.draining(),
        }
    }
}

/// A request whose head has come.
struct Request {
    shared: Arc<Shared>,
    began: Tick,
}

/// A stream that has a task of its own.
struct Serving(Arc<Shared>);

impl Serving {
    fn of(shared: &Arc<Shared>) -> Serving {
        shared.streams.fetch_add(1, Ordering::AcqRel);
        Serving(shared.clone())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.task.wake();
        }
    }
}

impl Request {
    fn new(shared: &Arc<Shared>) -> Request {
        Request {
            began: shared.state.clock.now(),
            shared: shared.clone(),
        }
    }

    /// Answers what can be answered at once; everything else gets a task of its own, as the connection must not wait.
    fn begin(self, mut session: HttpSession) {
        let shared = self.shared.clone();
        let snapshot = shared.state.snapshot.load();
        let has_body = !session.is_body_empty();
        let head = http2_head::bytes(session.req_header(), has_body);
        let local = || shared.local;
        let asked = shared.asked(&snapshot, &local);
        let decided = asked.decide_now(&mut HeadScan::default(), &head);
        let turn = match decided {
            Poll::Ready(Turn::Answer(mut answered)) if is_small(&answered.answer.body) => {
                let body = std::mem::replace(&mut answered.answer.body, Body::Empty);
                let patience = snapshot.limits.for_answer();
                match write_now(&mut session, &answered.answer, body, &shared, patience) {
                    Now::Sent(sent) => return self.answered(&answered, &head, sent),
                    Now::Left(rest) => {
                        drop(snapshot);
                        let serving = Serving::of(&shared);
                        tokio::spawn(async move {
                            let sent = rest.send(&self.shared.state).await;
                            self.answered(&answered, &head, sent);
                            drop((session, serving));
                        });
                        return;
                    }
                }
            }
            Poll::Ready(turn) => Some(turn),
            // Perhaps nothing has been decided yet.
            Poll::Pending => None,
        };
        drop(snapshot);
        let serving = Serving::of(&shared);
        tokio::spawn(async move {
            self.serve(session, head, turn).await;
            drop(serving);
        });
    }

    async fn serve(self, session: HttpSession, head: Bytes, turn: Option<Turn>) {
        let shared = &self.shared;
        let state = &shared.state;
        let turn = match turn {
            Some(turn) => turn,
            None => {
                let snapshot = state.snapshot.load_full();
                let local = || shared.local;
                let asked = shared.asked(&snapshot, &local);
                asked.decide(&mut HeadScan::default(), &head).await
            }
        };
        let mut session = session;
        let mut answered = match turn {
            // A head is whole here, and has an empty line at its end.
            Turn::Incomplete => return session.shutdown(),
            Turn::Answer(answered) => answered,
            Turn::Renew(turn) => {
                let (answered, lent) = *turn;
                lane::refresh(state, &shared.door, &shared.stop, lent);
                answered
            }
            Turn::Purge(turn) => {
                let (asked, mut answered) = *turn;
                let count = state.pages.purge(asked.purge).await;
                answered.answer = pages::purged(count, asked.tells_missing);
                answered
            }
            Turn::Lend(lent) => return self.lend(session, *lent).await,
        };
        let body = std::mem::replace(&mut answered.answer.body, Body::Empty);
        let patience = state.snapshot.load().limits.for_answer();
        let (sent, whole) = write(&mut session, &answered.answer, body, shared, patience).await;
        if !whole {
            // One that cannot be finished is reset, never padded.
            session.shutdown();
        }
        self.answered(&answered, &head, sent);
    }

    /// Counts an answer made here, and writes its line.
    fn answered(&self, answered: &Answered, head: &[u8], body_bytes: u64) {
        let state = &self.shared.state;
        let Answered { kind, answer, .. } = answered;
        let now = state.clock.now();
        let took = now.since(self.began);
        state.durations.count(*kind, took);
        let sighting = || Sighting::of_head(head, *kind, answer.status);
        state.hot_paths.answered_here(took, now, sighting);
        if let Some(log) = &answered.log {
            let outcome = Outcome::made_here(answer, body_bytes);
            let access_log = &state.snapshot.load().access_log;
            log.write(access_log, head, state.clock.unix(), outcome);
        }
    }

    /// Has Pingora answer.
    async fn lend(&self, mut session: HttpSession, mut lent: Lent) {
        let shared = &self.shared;
        lent.handed.local = shared.local.unwrap_or(lent.handed.local);
        let Some(head) = http2_head::lent(&lent.lent_head) else {
            return session.shutdown();
        };
        *session.req_header_mut() = head;
        let limits = &lent.handed.snapshot.limits;
        let (for_body, for_answer) = (limits.for_body(), limits.for_answer());
        let share = lane::share_of(&shared.state, &lent.handed);
        Lending::of(lent.handed).put_into(session.req_header_mut());
        let (session, home) = HandedSession::lend(session, for_body, for_answer, share);
        let session = ServerSession::new_custom(Box::new(session));
        shared.door.process_new_http(session, &shared.stop).await;
        if let Some(left) = home.take()
            && let Some(exceeded) = left.flush().await
        {
            shared.state.limited.count(exceeded.by_answer());
        }
    }
}

/// Whether an answer's body may wait in the connection's own buffer: it is in memory anyhow, and short.
fn is_small(body: &Body) -> bool {
    match body {
        Body::Empty => true,
        Body::Memory(bytes) => bytes.len() <= MOST_AT_ONCE,
        Body::File(_) | Body::Parts(_) => false,
    }
}

fn header_of(answer: &Answer, hsts: Option<&HeaderValue>) -> Option<ResponseHeader> {
    let mut header = response_header_of_http2(answer)?;
    stay_with_https(&mut header, hsts).ok()?;
    Some(header)
}

/// What came of an answer that is short.
enum Now {
    /// The connection has it, and so many bytes of content with it.
    Sent(u64),
    /// The client's windows have no room for its body.
    Left(Rest),
}

/// A short body that has to wait.
struct Rest {
    stream: StreamBody,
    body: Bytes,
}

impl Rest {
    /// Sends it; how many bytes.
    async fn send(mut self, state: &State) -> u64 {
        let sent = self.stream.send(self.body, true).await;
        if let Err(StreamError::Slow(exceeded)) = sent {
            state.limited.count(exceeded.by_answer());
        }
        self.stream.sent()
    }
}

/// Hands an answer to the connection, if the client's windows have room for it.
fn write_now(
    session: &mut HttpSession,
    answer: &Answer,
    body: Body,
    shared: &Shared,
    patience: Patience,
) -> Now {
    let body = match body {
        Body::Memory(bytes) if !bytes.is_empty() => Some(bytes),
        _ => None,
    };
    let begun = begin_answer(session, answer, shared, patience, body.is_none());
    let (Some(mut stream), Some(body)) = (begun, body) else {
        return Now::Sent(0);
    };
    match stream.send_at_once(&body) {
        Ok(false) => Now::Left(Rest { stream, body }),
        Ok(true) | Err(_) => Now::Sent(stream.sent()),
    }
}

/// Sends a head. None: the client has gone.
fn begin_answer(
    session: &mut HttpSession,
    answer: &Answer,
    shared: &Shared,
    patience: Patience,
    end: bool,
) -> Option<StreamBody> {
    let header = header_of(answer, shared.arrival.hsts.as_ref())?;
    session.write_response_header(Box::new(header), end).ok()?;
    let stream = session.take_response_body_writer()?;
    Some(StreamBody::new(stream, patience))
}

/// Sends an answer; how many bytes of content, and whether that is all of it.
async fn write(
    session: &mut HttpSession,
    answer: &Answer,
    body: Body,
    shared: &Shared,
    patience: Patience,
) -> (u64, bool) {
    let mut pieces = match session.req_header().method == http::Method::HEAD {
        true => BodyPieces::from(Body::Empty),
        false => BodyPieces::from(body),
    };
    let Ok(mut next) = pieces.next().await.inspect_err(not_whole) else {
        return (0, false);
    };
    let Some(mut stream) = begin_answer(session, answer, shared, patience, next.is_none()) else {
        return (0, false);
    };
    while let Some(piece) = next {
        next = match pieces.next().await {
            Ok(next) => next,
            Err(error) => {
                not_whole(&error);
                return (stream.sent(), false);
            }
        };
        if let Err(error) = stream.send(piece, next.is_none()).await {
            if let StreamError::Slow(exceeded) = error {
                shared.state.limited.count(exceeded.by_answer());
            }
            return (stream.sent(), false);
        }
    }
    (stream.sent(), true)
}

fn not_whole(error: &std::io::Error) {
    tracing::warn!(%error, "a file could not be sent whole, its stream was reset");
}

/// Bytes of a body that are handed to the connection at once.
const MOST_AT_ONCE: usize = 16 * 1024;
/// Malformed requests on one connection.
const MOST_MALFORMED: usize = 32;
/// Streams that the client has reset and nobody has seen yet (rapid reset, CVE-2023-44487).
const MOST_RESET: usize = 20;
/// Streams that were reset for the client's errors (CVE-2025-8671).
const MOST_ERRORS: usize = 256;
/// Bytes of a stream's answer that wait for the connection.
const SEND_BUFFER: usize = 256 * 1024;
/// Bytes of a body that a client may send unasked.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
