//! One request of HTTP/2: decided upon as the lane's are, answered here or lent to Pingora.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures::task::AtomicWaker;
use http::HeaderValue;
use pingora_core::apps::HttpServerApp as _;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::HttpSession;
use pingora_core::server::ShutdownWatch;
use pingora_http::ResponseHeader;

use crate::clock::Tick;
use crate::edge::handed_session::HandedSession;
use crate::edge::http2_head::{self, Lending};
use crate::edge::listener::Arrival;
use crate::edge::log_entry::Outcome;
use crate::edge::pace::Patience;
use crate::edge::proxy::Door;
use crate::edge::rendered::{BodyPieces, PIECE, response_header_of_http2, stay_with_https};
use crate::edge::stream_body::{Outgoing, StreamBody, StreamError};
use crate::edge::turn::{Answered, Asked, Lent, Turn};
use crate::edge::{lane, pages};
use crate::hot_paths::Sighting;
use crate::request::head::HeadScan;
use crate::site::{Answer, Body};
use crate::snapshot::{Snapshot, State};

/// What the streams of one connection share.
pub struct Shared {
    /// The process' state.
    pub state: Arc<State>,
    /// Pingora's proxy.
    pub door: Arc<Door>,
    /// Pingora's word of the end.
    pub stop: ShutdownWatch,
    /// Where the connection comes from, and how.
    pub arrival: Arrival,
    /// The address that the client has connected to.
    pub local: Option<SocketAddr>,
    /// What the answers of all streams have handed over.
    pub outgoing: Outgoing,
    /// Streams that have a task of their own.
    pub streams: AtomicUsize,
    /// The connection's own task, which looks whether it is idle when the last of them has ended.
    pub task: AtomicWaker,
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
pub struct Request {
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
    /// It has come just now.
    pub fn new(shared: &Arc<Shared>) -> Request {
        Request {
            began: shared.state.clock.now(),
            shared: shared.clone(),
        }
    }

    /// Answers what can be answered at once; everything else gets a task of its own, as the connection must not wait.
    pub fn begin(self, mut session: HttpSession) {
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
        let (session, home) =
            HandedSession::lend(session, for_body, for_answer, &shared.outgoing, share);
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
    Some(StreamBody::new(stream, patience, &shared.outgoing))
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
    let Some(mut stream) = begin_answer(session, answer, shared, patience, pieces.is_empty())
    else {
        return (0, false);
    };
    while !pieces.is_empty() {
        let sent = async {
            // What waits for the client waits on the disk: of a hundred streams it would be a lot of memory.
            stream.ready().await?;
            let most = match shared.streams.load(Ordering::Relaxed) > FEW {
                true => PIECE / 2,
                false => PIECE,
            };
            let Some(piece) = pieces
                .next_of(most)
                .await
                .inspect_err(not_whole)
                .ok()
                .flatten()
            else {
                return Ok(false);
            };
            stream.send(piece, pieces.is_empty()).await.map(|()| true)
        };
        match sent.await {
            Ok(true) => {}
            Ok(false) => return (stream.sent(), false),
            Err(error) => {
                if let StreamError::Slow(exceeded) = error {
                    shared.state.limited.count(exceeded.by_answer());
                }
                return (stream.sent(), false);
            }
        }
    }
    (stream.sent(), true)
}

fn not_whole(error: &std::io::Error) {
    tracing::warn!(%error, "a file could not be sent whole, its stream was reset");
}

/// Bytes of a body that are handed to the connection at once.
const MOST_AT_ONCE: usize = 16 * 1024;
/// Streams at a time that may each have a large piece of a file in memory.
const FEW: usize = 16;
