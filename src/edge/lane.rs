//! The lane: one HTTP/1 connection from its first byte to its last.
//!
//! It reads heads itself, under one deadline and the limits, answers from the static site, and lends every other
//! request to Pingora as a [`HandedStream`]; both kinds follow each other on one connection in any order.

use std::future::Future;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;
use tokio::time::Instant;

use crate::clock::Tick;
use crate::edge::answer_writer::{WriteError, write_answer};
use crate::edge::connection::{Connection, Filled};
use crate::edge::date::Persistence;
use crate::edge::handed::{Handed, Inward, head_for_origin, head_for_php};
use crate::edge::handed_stream::{Carried, HandedStream, OnEnd};
use crate::edge::limits::Limits;
use crate::edge::log_entry::{LogEntry, Outcome};
use crate::edge::proxy::Door;
use crate::fastcgi::ClientAbort;
use crate::lifecycle::{HEAD_GRACE, IDLE_GRACE};
use crate::request::client::{Client, identify};
use crate::request::head::{
    Framing, HeadScan, MAX_FIELDS, Method, Parsed, RequestHead, Version, parse_resumed,
};
use crate::request::target::Target;
use crate::site::{Answer, Backend, Body, Decision, Request, local_answer};
use crate::snapshot::{Snapshot, State};

/// Serves one connection until it ends.
pub async fn serve(state: Arc<State>, door: Arc<Door>, stream: Stream, stop: ShutdownWatch) {
    let _counted = state.lifecycle.admit();
    let mut lane = Lane {
        peer: peer_address(&stream),
        requests: 0,
        state,
        door,
        stop,
    };
    let connection = Connection::new(stream, lane.state.clock.clone(), &lane.state.lifecycle);
    lane.run(connection).await;
}

/// What is waited for between two answers, and since when.
#[derive(Clone, Copy)]
enum Wait {
    /// A head, that has begun or that a new connection owes.
    ForHead(Tick),
    /// Whether there is a next request at all.
    Idle(Tick),
}

impl Wait {
    fn head_begins(self, now: Tick) -> Wait {
        match self {
            Wait::ForHead(_) => self,
            Wait::Idle(_) => Wait::ForHead(now),
        }
    }

    fn deadline(self, limits: &Limits) -> Tick {
        match self {
            Wait::ForHead(since) => since.plus(limits.request_head),
            Wait::Idle(since) => since.plus(limits.keep_alive),
        }
    }
}

struct Lane {
    state: Arc<State>,
    door: Arc<Door>,
    stop: ShutdownWatch,
    peer: SocketAddr,
    requests: u64,
}

/// What the bytes read so far ask for.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and an allocation for it would be one per request"
)]
enum Turn {
    /// The head is not complete.
    Incomplete,
    /// An answer that is made here.
    Answer(Answered),
    /// A request for Pingora.
    Lend(Box<Lent>),
}

struct Answered {
    answer: Answer,
    /// Bytes of the head.
    head: usize,
    rest: Rest,
    persistence: Persistence,
    log: Option<LogEntry>,
}

/// What becomes of the body of a request that was answered without it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// There is none.
    Nothing,
    /// So many bytes are read and dropped: less than a new connection costs.
    Skip(u64),
    /// The connection is closed after the answer.
    Close,
}

struct Lent {
    /// Bytes of the head in the buffer.
    head: usize,
    /// The head that Pingora reads.
    lent_head: Bytes,
    framing: Framing,
    on_end: OnEnd,
    handed: Handed,
}

impl Lane {
    async fn run(&mut self, mut connection: Connection) {
        let mut wait = Wait::ForHead(self.state.clock.now());
        let mut scan = HeadScan::default();
        loop {
            let snapshot = self.state.snapshot.load();
            let turn = match self.decide_now(&mut scan, &snapshot, &connection.incoming) {
                Poll::Ready(turn) => turn,
                // Something must be looked up: the same once more, in a place that can wait for it.
                Poll::Pending => {
                    Box::pin(self.decide(&mut scan, &snapshot, &connection.incoming)).await
                }
            };
            match turn {
                Turn::Incomplete => {
                    if connection.has_begun() {
                        wait = wait.head_begins(self.state.clock.now());
                    }
                    let deadline = wait.deadline(&snapshot.limits);
                    let most = snapshot.limits.head_size;
                    drop(snapshot);
                    if !self.fill(&mut connection, deadline, most).await {
                        return connection.close(false).await;
                    }
                }
                Turn::Answer(answered) => {
                    drop(snapshot);
                    self.requests += 1;
                    let Some(still_open) = self.answer(connection, answered).await else {
                        return;
                    };
                    connection = still_open;
                    wait = Wait::Idle(self.state.clock.now());
                }
                Turn::Lend(lent) => {
                    drop(snapshot);
                    self.requests += 1;
                    let Some(still_open) = self.lend(connection, *lent).await else {
                        return;
                    };
                    connection = still_open;
                    wait = Wait::Idle(self.state.clock.now());
                }
            }
        }
    }

    /// Waits for more of a head; false when the connection is to be closed.
    async fn fill(&self, connection: &mut Connection, deadline: Tick, most: usize) -> bool {
        match connection.fill(deadline, most).await {
            Filled::Bytes => true,
            Filled::Draining => {
                // A request may be on its way already: it is served, and told that it was the last.
                let grace = match connection.has_begun() {
                    true => HEAD_GRACE,
                    false => IDLE_GRACE,
                };
                let deadline = self.state.clock.now().plus(grace).min(deadline);
                matches!(connection.fill_through(deadline, most).await, Filled::Bytes)
            }
            Filled::TimedOut if connection.has_begun() => {
                let snapshot = self.state.snapshot.load_full();
                let answered = self.refused(&snapshot, 408, &connection.incoming);
                let _ = self.write(connection, &snapshot, &answered).await;
                false
            }
            Filled::End | Filled::TimedOut | Filled::Broken => false,
        }
    }

    /// Decides without waiting: `Pending` when the cache has not all that is needed.
    fn decide_now(
        &self,
        scan: &mut HeadScan,
        snapshot: &Arc<Snapshot>,
        buffer: &[u8],
    ) -> Poll<Turn> {
        if buffer.is_empty() {
            return Poll::Ready(Turn::Incomplete);
        }
        let decision = pin!(self.decide(scan, snapshot, buffer));
        decision.poll(&mut Context::from_waker(Waker::noop()))
    }

    async fn decide(&self, scan: &mut HeadScan, snapshot: &Arc<Snapshot>, buffer: &[u8]) -> Turn {
        let started = snapshot.access_log.enabled().then(Instant::now);
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let limits = &snapshot.head_limits;
        let (head, length) = match parse_resumed(scan, buffer, &mut fields, limits) {
            Ok(Parsed::Incomplete) => return Turn::Incomplete,
            Ok(Parsed::Complete { head, length }) => (head, length),
            Err(error) => return Turn::Answer(self.refused(snapshot, error.status(), buffer)),
        };
        let mut seen = Seen {
            lane: self,
            snapshot,
            head: &head,
            length,
            client_ip_header: None,
            started,
        };
        if head.method == Method::Connect {
            return seen.refuse(405);
        }
        let Ok(target) = Target::parse(&head.method, head.target) else {
            return seen.refuse(400);
        };
        let host = target.authority.or(head.host);
        let Some(site) = snapshot.sites.select(host) else {
            return seen.refuse(421);
        };
        seen.client_ip_header = site.settings().client_ip_header.as_deref();
        let request = Request {
            method: head.method,
            target: &target,
            fields: &head,
            conditional: head.conditional,
            now: self.state.clock.unix(),
        };
        let inward = match site.decide(&request).await {
            Decision::Answer(answer) => return seen.answer(answer),
            Decision::Script(script) => Inward::Php(script),
            Decision::Origin => Inward::Origin,
        };
        let most = site.settings().max_body.unwrap_or(snapshot.limits.max_body);
        if matches!(head.framing, Framing::Length(body) if body > most) {
            return seen.refuse(413);
        }
        let lent_head = match inward {
            Inward::Php(_) => head_for_php(&head, buffer.get(..length).unwrap_or_default()),
            Inward::Origin => match head_for_origin(&head, &target) {
                Some(lent_head) => lent_head,
                None => return seen.refuse(414),
            },
        };
        let client = seen.client();
        Turn::Lend(Box::new(Lent {
            head: length,
            lent_head,
            framing: head.framing,
            on_end: match &site.settings().backend {
                Backend::Php(php) if php.client_abort == ClientAbort::Close => OnEnd::Abort,
                _ => OnEnd::Answer,
            },
            handed: Handed {
                log: seen.log(client.address),
                snapshot: snapshot.clone(),
                site: site.clone(),
                inward,
                client,
                peer: self.peer.ip(),
                local: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                target: Bytes::copy_from_slice(&target.origin_form()),
                query: target.query.map(Bytes::copy_from_slice),
                host: Bytes::copy_from_slice(host.unwrap_or_default()),
                http10: head.version == Version::Http10,
                expect_continue: head.expect_continue && head.version == Version::Http11,
                close: seen.persistence() == Persistence::Close,
                answered_here: Arc::default(),
                cut: Arc::default(),
            },
        }))
    }

    /// The answer to something that is no request, or cannot be taken for one; the last on its connection.
    fn refused(&self, snapshot: &Snapshot, status: u16, read: &[u8]) -> Answered {
        let log = snapshot
            .access_log
            .enabled()
            .then(|| LogEntry::unreadable(self.peer.ip(), Instant::now()));
        let mut answer = local_answer(status);
        if read.trim_ascii_start().starts_with(b"HEAD ") {
            answer.body = Body::Empty;
        }
        Answered {
            answer,
            head: 0,
            rest: Rest::Close,
            persistence: Persistence::Close,
            log,
        }
    }

    /// Writes an answer made here. `None` when the connection has ended with it.
    async fn answer(&self, mut connection: Connection, answered: Answered) -> Option<Connection> {
        let snapshot = self.state.snapshot.load_full();
        if self
            .write(&mut connection, &snapshot, &answered)
            .await
            .is_err()
        {
            connection.cut();
            return None;
        }
        connection.incoming.advance(answered.head);
        let body_left = match answered.rest {
            Rest::Nothing => 0,
            Rest::Skip(length) => length,
            Rest::Close => u64::MAX,
        };
        if answered.persistence == Persistence::Close {
            let still_sending = body_left > 0 || !connection.incoming.is_empty();
            connection.close(still_sending).await;
            return None;
        }
        if connection.skip(body_left, snapshot.limits.body).await {
            return Some(connection);
        }
        connection.close(true).await;
        None
    }

    async fn write(
        &self,
        connection: &mut Connection,
        snapshot: &Snapshot,
        answered: &Answered,
    ) -> Result<(), WriteError> {
        let mut body_bytes = 0;
        let result = write_answer(
            &mut connection.stream,
            &answered.answer,
            self.state.clock.unix().seconds,
            answered.persistence,
            snapshot.limits.send,
            &mut body_bytes,
        )
        .await;
        if let Err(WriteError::File(error)) = &result {
            tracing::warn!(%error, "a file could not be sent whole, its connection was cut");
        }
        if let Some(log) = &answered.log {
            log.write(
                &snapshot.access_log,
                self.state.clock.unix(),
                Outcome {
                    status: answered.answer.status,
                    body_bytes,
                    cache: answered
                        .answer
                        .outcome
                        .map_or("-", |outcome| outcome.as_str()),
                    upstream: None,
                },
            );
        }
        result
    }

    /// Lends one request to Pingora. `None` when the connection has ended with it.
    async fn lend(&self, connection: Connection, mut lent: Lent) -> Option<Connection> {
        let (stream, mut incoming, waiting) = connection.into_parts();
        incoming.advance(lent.head);
        lent.handed.local = local_address(&stream).unwrap_or(lent.handed.local);
        let limits = lent.handed.snapshot.limits.clone();
        let carried = Carried::new(stream, incoming, limits.send);
        let answered = lent.handed.answered_here.clone();
        let cut = lent.handed.cut.clone();
        let most_body = lent.handed.most_body();
        let (stream, home) = HandedStream::lend(
            carried,
            lent.lent_head,
            lent.framing,
            most_body,
            lent.on_end,
        );
        let mut session = ServerSession::new_http1(Box::new(stream));
        session.set_abort_on_close(lent.on_end == OnEnd::Abort);
        session.set_read_timeout(Some(limits.body));
        session.set_connection_user_context(Some(Box::new(lent.handed)));
        let reused = self.door.process_new_http(session, &self.stop).await;
        // Pingora closes after every failure behind us; an answer of ours that is whole is no reason to.
        let reusable = reused.is_some() || answered.load(Ordering::Relaxed);
        // Whoever drops the stream brings the connection home.
        drop(reused);
        let mut carried = home.take()?;
        let flushed = carried.flush().await.is_ok();
        let whole = carried.at_request_boundary;
        let still_sending = !carried.ended && (!whole || !carried.incoming.is_empty());
        let connection = Connection::from_parts(carried.stream, carried.incoming, waiting);
        if cut.load(Ordering::Relaxed) {
            connection.cut();
        } else if flushed && reusable && whole {
            return Some(connection);
        } else {
            connection.close(still_sending).await;
        }
        None
    }
}

/// A request whose head has been read.
struct Seen<'a> {
    lane: &'a Lane,
    snapshot: &'a Arc<Snapshot>,
    head: &'a RequestHead<'a, 'a>,
    length: usize,
    client_ip_header: Option<&'a str>,
    /// When the deciding began; taken only for a log.
    started: Option<Instant>,
}

impl Seen<'_> {
    fn persistence(&self) -> Persistence {
        let last = self.lane.requests + 1 >= self.snapshot.limits.requests_per_connection;
        if !self.head.keep_alive || last || self.lane.state.lifecycle.draining() {
            Persistence::Close
        } else if self.head.version == Version::Http10 {
            Persistence::Stated
        } else {
            Persistence::Implied
        }
    }

    fn answer(&self, answer: Answer) -> Turn {
        let rest = match self.head.framing {
            Framing::None | Framing::Length(0) => Rest::Nothing,
            Framing::Length(length) if length <= SKIPPED_BODY && !self.head.expect_continue => {
                Rest::Skip(length)
            }
            Framing::Length(_) | Framing::Chunked => Rest::Close,
        };
        Turn::Answer(Answered {
            answer,
            head: self.length,
            rest,
            persistence: match rest {
                Rest::Close => Persistence::Close,
                _ => self.persistence(),
            },
            log: self.log_for_peer(),
        })
    }

    /// An error after which the connection is closed.
    fn refuse(&self, status: u16) -> Turn {
        let mut answer = local_answer(status);
        if self.head.method == Method::Head {
            answer.body = Body::Empty;
        }
        Turn::Answer(Answered {
            answer,
            head: self.length,
            rest: Rest::Close,
            persistence: Persistence::Close,
            log: self.log_for_peer(),
        })
    }

    fn client(&self) -> Client {
        identify(
            self.lane.peer,
            false,
            self.head,
            &self.snapshot.trusted,
            self.client_ip_header,
        )
    }

    fn log_for_peer(&self) -> Option<LogEntry> {
        self.started?;
        self.log(self.client().address)
    }

    fn log(&self, client: std::net::IpAddr) -> Option<LogEntry> {
        self.started
            .map(|started| LogEntry::of(self.head, client, started))
    }
}

fn peer_address(stream: &Stream) -> SocketAddr {
    stream
        .get_socket_digest()
        .and_then(|digest| {
            digest
                .peer_addr()
                .and_then(|address| address.as_inet().copied())
        })
        .unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

fn local_address(stream: &Stream) -> Option<SocketAddr> {
    stream.get_socket_digest().and_then(|digest| {
        digest
            .local_addr()
            .and_then(|address| address.as_inet().copied())
    })
}

/// A body up to this length is read and dropped when its request was answered without it; beyond it the connection is
/// closed instead.
const SKIPPED_BODY: u64 = 64 * 1024;
