//! The second door: HTTP/2 (RFC 9113).
//!
//! A stream's request becomes the bytes of an HTTP/1 head and is decided upon as the lane's are: so every rule, limit, metric and
//! log line is the same one. What is answered here is written to the stream; everything else goes to Pingora, which has the
//! stream itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use pingora_core::apps::HttpServerApp as _;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{
    H2Accept, H2Options, HttpSession, default_h2_options, handshake,
};
use pingora_core::protocols::{Digest, Stream};
use pingora_core::server::ShutdownWatch;
use pingora_http::ResponseHeader;
use tokio::sync::Notify;

use crate::clock::Tick;
use crate::edge::Limits;
use crate::edge::connection::Connection;
use crate::edge::http2_head::{self, Lending};
use crate::edge::listener::Arrival;
use crate::edge::log_entry::Outcome;
use crate::edge::proxy::Door;
use crate::edge::rendered::{BodyPieces, response_header_of_http2, stay_with_https};
use crate::edge::turn::{Answered, Asked, Lent, Turn};
use crate::edge::{lane, pages};
use crate::hot_paths::Sighting;
use crate::limited::Limit;
use crate::request::head::HeadScan;
use crate::site::{Answer, Body};
use crate::snapshot::{Snapshot, State};

/// One connection, shared by its streams.
struct Shared {
    state: Arc<State>,
    door: Arc<Door>,
    stop: ShutdownWatch,
    arrival: Arrival,
    local: Option<SocketAddr>,
    streams: AtomicUsize,
    ended: Notify,
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
    let shared = Arc::new(Shared {
        local: arrival.local(&stream),
        state,
        door,
        stop,
        arrival,
        streams: AtomicUsize::new(0),
        ended: Notify::new(),
    });
    let opened = handshake(stream, Some(options(&limits)));
    let Ok(Ok(mut connection)) = tokio::time::timeout(limits.request_head, opened).await else {
        return;
    };
    let mut order = shared.state.lifecycle.order();
    let (mut leaving, mut malformed, mut requests) = (false, 0, 0);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = order.wait_for(|stop| *stop), if !leaving => {
                connection.graceful_shutdown();
                leaving = true;
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
            () = shared.idle(limits.keep_alive) => return,
        };
        match accepted {
            Ok(Some(H2Accept::Session(session))) => {
                requests += 1;
                if requests == limits.requests_per_connection && !leaving {
                    shared.state.limited.count(Limit::RequestsPerConnection);
                    connection.graceful_shutdown();
                    leaving = true;
                }
                Serving::of(&shared).begin(session);
            }
            Ok(Some(H2Accept::Rejected)) => {
                malformed += 1;
                if malformed > MOST_MALFORMED {
                    return;
                }
            }
            // The client has gone, or breaks the protocol.
            Ok(None) | Err(_) => return,
        }
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

    /// Returns when no stream has been open for this long.
    async fn idle(&self, keep_alive: Duration) {
        loop {
            let ended = self.ended.notified();
            if self.streams.load(Ordering::Acquire) > 0 {
                ended.await;
                continue;
            }
            return tokio::time::sleep(keep_alive).await;
        }
    }
}

/// A stream that is open.
struct Serving(Arc<Shared>);

impl Drop for Serving {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

impl Serving {
    fn of(shared: &Arc<Shared>) -> Serving {
        shared.streams.fetch_add(1, Ordering::AcqRel);
        Serving(shared.clone())
    }

    /// Answers what can be answered at once; everything else gets a task of its own, as the connection must not wait.
    fn begin(self, mut session: HttpSession) {
        let shared = self.0.clone();
        let state = &shared.state;
        let snapshot = state.snapshot.load();
        let has_body = !session.is_body_empty();
        let head = http2_head::bytes(session.req_header(), has_body);
        let local = || shared.local;
        let began = state.clock.now();
        let asked = shared.asked(&snapshot, &local);
        match asked.decide_now(&mut HeadScan::default(), &head) {
            Poll::Ready(Turn::Answer(answered)) if is_small(&answered.answer.body) => {
                let sent = write_now(&mut session, &answered.answer, shared.arrival.hsts.as_ref());
                self.answered(&answered, &head, began, sent);
            }
            // Perhaps nothing has been decided yet.
            decided => {
                session.set_write_timeout(Some(snapshot.limits.send));
                drop(snapshot);
                let turn = match decided {
                    Poll::Ready(turn) => Some(turn),
                    Poll::Pending => None,
                };
                tokio::spawn(self.serve(session, head, turn, began));
            }
        }
    }

    async fn serve(self, session: HttpSession, head: Bytes, turn: Option<Turn>, began: Tick) {
        let shared = self.0.clone();
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
        let hsts = shared.arrival.hsts.as_ref();
        if write(&mut session, &answered.answer, body, hsts)
            .await
            .is_none()
        {
            // One that cannot be finished is reset, never padded.
            session.shutdown();
        }
        let sent = session.body_bytes_sent() as u64;
        self.answered(&answered, &head, began, sent);
    }

    /// Counts an answer made here, and writes its line.
    fn answered(&self, answered: &Answered, head: &[u8], began: Tick, body_bytes: u64) {
        let state = &self.0.state;
        let Answered { kind, answer, .. } = answered;
        let now = state.clock.now();
        let took = now.since(began);
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
        lent.handed.local = self.0.local.unwrap_or(lent.handed.local);
        let Some(head) = http2_head::lent(&lent.lent_head) else {
            return session.shutdown();
        };
        *session.req_header_mut() = head;
        Lending::of(lent.handed).put_into(session.req_header_mut());
        let session = ServerSession::new_http2(session);
        self.0.door.process_new_http(session, &self.0.stop).await;
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

/// Hands an answer to the connection, which sends it as the client takes it; how many bytes of content that are.
fn write_now(session: &mut HttpSession, answer: &Answer, hsts: Option<&HeaderValue>) -> u64 {
    let body = match &answer.body {
        Body::Memory(bytes) if !bytes.is_empty() => Some(bytes.clone()),
        _ => None,
    };
    let begun = header_of(answer, hsts).and_then(|header| {
        session
            .write_response_header(Box::new(header), body.is_none())
            .ok()
    });
    let Some(body) = body.filter(|_| begun.is_some()) else {
        return 0;
    };
    let length = body.len() as u64;
    let sent = session
        .take_response_body_writer()
        .map(|mut writer| writer.send_data(body, true));
    if matches!(sent, Some(Ok(()))) {
        length
    } else {
        0
    }
}

/// None: it could not be written whole.
async fn write(
    session: &mut HttpSession,
    answer: &Answer,
    body: Body,
    hsts: Option<&HeaderValue>,
) -> Option<()> {
    let header = header_of(answer, hsts)?;
    let is_head = session.req_header().method == http::Method::HEAD;
    let mut pieces = BodyPieces::from(body);
    let mut next = match is_head {
        true => None,
        false => pieces.next().await.ok()?,
    };
    session
        .write_response_header(Box::new(header), next.is_none())
        .ok()?;
    while let Some(piece) = next {
        next = pieces.next().await.ok()?;
        session.write_body(piece, next.is_none()).await.ok()?;
    }
    Some(())
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
