//! The lane: one HTTP/1 connection from its first byte to its last.
//!
//! It reads heads itself, under one deadline and the limits, answers from the static site, and lends every other
//! request to Pingora as a [`HandedStream`]; both kinds follow each other on one connection in any order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Buf;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;
use tokio::io::AsyncWriteExt as _;

use crate::clock::Tick;
use crate::edge::answer_writer::{Manner, WriteError, write_answer};
use crate::edge::connection::{Connection, Filled};
use crate::edge::crowding::{LOOKED_AROUND, for_beginning, for_idling, is_crowded};
use crate::edge::date::Persistence;
use crate::edge::handed::Handed;
use crate::edge::handed_stream::{Carried, HandedStream, OnEnd};
use crate::edge::held_back::Share;
use crate::edge::http2;
use crate::edge::limits::Limits;
use crate::edge::listener::{Arrival, Listener};
use crate::edge::log_entry::Outcome;
use crate::edge::pace::Patience;
use crate::edge::pages;
use crate::edge::proxy::Door;
use crate::edge::turn::{Answered, Asked, Lent, Rest, Turn};
use crate::hot_paths::Sighting;
use crate::lifecycle::{HEAD_GRACE, IDLE_GRACE};
use crate::limited::Limit;
use crate::request::head::HeadScan;
use crate::snapshot::{Snapshot, State};

/// Serves one connection until it ends.
pub async fn serve(
    state: Arc<State>,
    door: Arc<Door>,
    stream: Stream,
    stop: ShutdownWatch,
    listener: Arc<Listener>,
) {
    let _counted = state.lifecycle.admit();
    // What only some connections need is no part of what each of them keeps.
    let received = match listener.is_plain() {
        true => listener.receive_plain(&state, stream),
        false => Box::pin(listener.receive(&state, stream)).await,
    };
    let Some((connection, arrival)) = received else {
        return;
    };
    if arrival.listener.speaks_http2(&connection) {
        return Box::pin(http2::serve(state, door, connection, stop, arrival)).await;
    }
    let mut lane = Lane {
        arrival,
        requests: 0,
        leave_at: None,
        state,
        door,
        stop,
    };
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

    fn since(self) -> Tick {
        match self {
            Wait::ForHead(since) | Wait::Idle(since) => since,
        }
    }

    /// Until when it is waited. Where connections run out, who says nothing leaves the place to others.
    fn deadline(self, limits: &Limits, crowded: bool) -> Tick {
        match self {
            Wait::ForHead(since) => since.plus(for_beginning(limits.request_head, crowded)),
            Wait::Idle(since) => since.plus(for_idling(limits.keep_alive, crowded)),
        }
    }
}

/// What becomes of the connection after an answer.
enum Next {
    /// The next request.
    Request,
    /// It is closed; `still_sending`: over bytes that the client may still send.
    Close { still_sending: bool },
    /// It is cut: the answer is not whole.
    Cut,
}

struct Lane {
    state: Arc<State>,
    door: Arc<Door>,
    stop: ShutdownWatch,
    arrival: Arrival,
    requests: u64,
    /// When to leave, once the order to stop was heard.
    leave_at: Option<Tick>,
}

impl Lane {
    async fn run(&mut self, mut connection: Connection) {
        let mut wait = Wait::ForHead(self.state.clock.now());
        let mut scan = HeadScan::default();
        loop {
            let snapshot = self.state.snapshot.load();
            let local = || self.arrival.local(&connection.stream);
            let asked = self.asked(&snapshot, &local);
            let began = self.state.clock.now();
            let turn = match asked.decide_now(&mut scan, &connection.incoming) {
                Poll::Ready(turn) => turn,
                // Something must be looked up: the same once more, in a place that can wait for it.
                Poll::Pending => Box::pin(asked.decide(&mut scan, &connection.incoming)).await,
            };
            let limits = snapshot.limits.clone();
            // Not held while the client is waited for: a thread can only borrow a few for nothing.
            drop(snapshot);
            match turn {
                Turn::Incomplete => {
                    if connection.has_begun() {
                        wait = wait.head_begins(self.state.clock.now());
                    }
                    if !self.fill(&mut connection, wait, &limits).await {
                        return connection.close(false).await;
                    }
                    continue;
                }
                Turn::Answer(answered) => {
                    self.requests += 1;
                    // What is put into the socket directly counts nowhere else, and a client that sends many requests at
                    // once must not keep the others from their turn.
                    tokio::task::consume_budget().await;
                    match self
                        .answer(&mut connection, &answered, began, &limits)
                        .await
                    {
                        Next::Request => {}
                        next => return Box::pin(leave(connection, next)).await,
                    }
                }
                Turn::Renew(turn) => {
                    self.requests += 1;
                    let (answered, mut lent) = *turn;
                    let local = self.arrival.local(&connection.stream);
                    lent.handed.local = local.unwrap_or(lent.handed.local);
                    refresh(&self.state, &self.door, &self.stop, lent);
                    match Box::pin(self.answer(&mut connection, &answered, began, &limits)).await {
                        Next::Request => {}
                        next => return Box::pin(leave(connection, next)).await,
                    }
                }
                Turn::Purge(turn) => {
                    self.requests += 1;
                    let (asked, mut answered) = *turn;
                    let count = self.state.pages.purge(asked.purge).await;
                    answered.answer = pages::purged(count, asked.tells_missing);
                    match Box::pin(self.answer(&mut connection, &answered, began, &limits)).await {
                        Next::Request => {}
                        next => return Box::pin(leave(connection, next)).await,
                    }
                }
                Turn::Lend(lent) => {
                    self.requests += 1;
                    let Some(still_open) = Box::pin(self.lend(connection, *lent)).await else {
                        return;
                    };
                    connection = still_open;
                }
            }
            wait = Wait::Idle(self.state.clock.now());
        }
    }

    fn asked<'a>(
        &'a self,
        snapshot: &'a Arc<Snapshot>,
        local: &'a (dyn Fn() -> Option<SocketAddr> + Sync),
    ) -> Asked<'a> {
        let had_all = self.requests + 1 >= snapshot.limits.requests_per_connection;
        Asked {
            snapshot,
            now: self.state.clock.unix(),
            arrival: &self.arrival,
            http2: false,
            local,
            is_last: had_all || self.state.lifecycle.draining(),
            draining: self.state.lifecycle.draining(),
        }
    }

    /// Waits for more of a head; false when the connection is to be closed.
    async fn fill(&mut self, connection: &mut Connection, wait: Wait, limits: &Limits) -> bool {
        let most = limits.head_size;
        let mut next_look = wait.since().plus(LOOKED_AROUND);
        let (deadline, mut filled) = loop {
            let deadline = wait.deadline(limits, is_crowded(&self.state));
            let until = self
                .leave_at
                .map_or(deadline, |leave_at| leave_at.min(deadline));
            let filled = connection.fill(until.min(next_look), most).await;
            let now = match filled {
                Filled::TimedOut => self.state.clock.now(),
                _ => break (deadline, filled),
            };
            if now >= until {
                break (deadline, filled);
            }
            // It may have become crowded meanwhile.
            next_look = now.plus(LOOKED_AROUND);
        };
        if matches!(filled, Filled::Draining) {
            // A request may be on its way already: it is served, and told that it was the last.
            let grace = match connection.has_begun() {
                true => HEAD_GRACE,
                false => IDLE_GRACE,
            };
            let leave_at = self.state.clock.now().plus(grace).min(deadline);
            self.leave_at = Some(leave_at);
            filled = connection.fill_through(leave_at, most).await;
        }
        match filled {
            Filled::Bytes => true,
            Filled::TimedOut if connection.has_begun() => {
                self.state.limited.count(Limit::RequestHead);
                let snapshot = self.state.snapshot.load_full();
                let answered = self
                    .asked(&snapshot, &|| None)
                    .refused(408, &connection.incoming);
                let patience = snapshot.limits.for_answer();
                let _ = Box::pin(self.write(connection, &answered, patience)).await;
                false
            }
            Filled::End | Filled::TimedOut | Filled::Broken | Filled::Draining => false,
        }
    }

    /// Writes an answer made here.
    async fn answer(
        &self,
        connection: &mut Connection,
        answered: &Answered,
        began: Tick,
        limits: &Limits,
    ) -> Next {
        let patience = limits.for_answer();
        if self.write(connection, answered, patience).await.is_err() {
            return Next::Cut;
        }
        if self.requests >= limits.requests_per_connection {
            self.state.limited.count(Limit::RequestsPerConnection);
        }
        let now = self.state.clock.now();
        let took = now.since(began);
        self.state.durations.count(answered.kind, took);
        self.state.hot_paths.answered_here(took, now, || {
            let head = connection.incoming.get(..answered.head)?;
            Sighting::of_head(head, answered.kind, answered.answer.status)
        });
        connection.incoming.advance(answered.head);
        let body_left = match answered.rest {
            Rest::Nothing => 0,
            Rest::Skip(length) => length,
            Rest::Close => u64::MAX,
        };
        if answered.persistence == Persistence::Close {
            return Next::Close {
                still_sending: body_left > 0 || !connection.incoming.is_empty(),
            };
        }
        if body_left == 0 || Box::pin(connection.skip(body_left, limits.for_body())).await {
            return Next::Request;
        }
        // It has had its time, and the answer for as long.
        Next::Close {
            still_sending: false,
        }
    }

    async fn write(
        &self,
        connection: &mut Connection,
        answered: &Answered,
        patience: Patience,
    ) -> Result<(), WriteError> {
        let mut body_bytes = 0;
        let manner = Manner {
            seconds: self.state.clock.unix().seconds,
            persistence: answered.persistence,
            patience,
            hsts: self.arrival.hsts.as_ref(),
            sendfile: answered.sendfile,
            bare: connection.bare,
        };
        let result = write_answer(
            &mut connection.stream,
            &answered.answer,
            manner,
            &mut body_bytes,
        )
        .await;
        match &result {
            Err(WriteError::File(error)) => {
                tracing::warn!(%error, "a file could not be sent whole, its connection was cut");
            }
            Err(WriteError::Slow(exceeded)) => self.state.limited.count(exceeded.by_answer()),
            Err(WriteError::Client(_)) | Ok(()) => {}
        }
        if let Some(log) = &answered.log {
            log.write(
                &self.state.snapshot.load().access_log,
                &connection.incoming,
                self.state.clock.unix(),
                Outcome::made_here(&answered.answer, body_bytes),
            );
        }
        result
    }

    /// Lends one request to Pingora. `None` when the connection has ended with it.
    async fn lend(&self, connection: Connection, mut lent: Lent) -> Option<Connection> {
        let (stream, mut incoming, waiting) = connection.into_parts();
        incoming.advance(lent.head);
        lent.handed.local = self.arrival.local(&stream).unwrap_or(lent.handed.local);
        let limits = lent.handed.snapshot.limits.clone();
        let mut carried = Carried::new(stream, incoming, limits.for_body(), limits.for_answer());
        if let Some(share) = share_of(&self.state, &lent.handed) {
            carried = carried.holding(share);
        }
        let answered = lent.handed.answered_here.clone();
        let cut = lent.handed.cut.clone();
        let most_body = lent.handed.most_body();
        let grant = lent.handed.tunnel.clone();
        let (mut stream, home) = HandedStream::lend(
            carried,
            lent.lent_head,
            lent.framing,
            most_body,
            lent.on_end,
        );
        if grant.is_some()
            && let Some(tunnel) = lent.handed.tunnel()
        {
            stream.may_become(tunnel);
        }
        let mut session = ServerSession::new_http1(Box::new(stream));
        session.set_abort_on_close(lent.on_end == OnEnd::Abort);
        // A tunnel's silence is measured where its bytes pass.
        session.set_read_timeout(grant.is_none().then_some(limits.body));
        session.set_connection_user_context(Some(Box::new(lent.handed)));
        let reused = self.door.process_new_http(session, &self.stop).await;
        // Pingora closes after every failure behind us; an answer of ours that is whole is no reason to.
        let reusable = reused.is_some() || answered.load(Ordering::Relaxed);
        // Whoever drops the stream brings the connection home.
        drop(reused);
        let mut carried = home.take()?;
        let flushed = carried.flush().await.is_ok();
        if let Some(exceeded) = carried.answer_pace.exceeded() {
            self.state.limited.count(exceeded.by_answer());
        }
        if self.requests >= limits.requests_per_connection {
            self.state.limited.count(Limit::RequestsPerConnection);
        }
        let whole = carried.at_request_boundary && !grant.is_some_and(|grant| grant.is_given());
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

async fn leave(connection: Connection, next: Next) {
    match next {
        Next::Request => {}
        Next::Close { still_sending } => connection.close(still_sending).await,
        Next::Cut => connection.cut(),
    }
}

/// The room to hold an answer back in, where others wait for the page that is made of it.
pub fn share_of(state: &State, handed: &Handed) -> Option<Share> {
    let fill = handed.fill.as_ref()?;
    let most = fill.pages.rules().max_page.saturating_add(HEAD_ROOM);
    let room = state.held_back.clone();
    Some(Share::new(room, most, fill.is_waited_for.clone()))
}

/// Has a page fetched anew that was sent a last time: a request of our own, whose answer nobody reads.
pub fn refresh(state: &Arc<State>, door: &Arc<Door>, stop: &ShutdownWatch, lent: Lent) {
    let (state, door, stop) = (state.clone(), door.clone(), stop.clone());
    tokio::spawn(async move {
        let Ok(_slot) = state.refreshes.try_acquire() else {
            // The page is told of again in a moment.
            return;
        };
        let (mut client, server) = tokio::io::duplex(REFRESH_BUFFER);
        let fill = lent.handed.fill.clone();
        let mut session = ServerSession::new_http1(Box::new(server));
        session.set_abort_on_close(false);
        session.set_connection_user_context(Some(Box::new(lent.handed)));
        let ask = async {
            client.write_all(&lent.lent_head).await?;
            tokio::io::copy(&mut client, &mut tokio::io::sink()).await
        };
        // What comes back is let go of at once: only then does the reading side see the end.
        let answer = async { drop(door.process_new_http(session, &stop).await) };
        let ((), asked) = tokio::join!(answer, ask);
        if let (Some(fill), Err(error)) = (fill, asked) {
            tracing::debug!(%error, "{}: a page was not fetched anew", fill.pages.name());
        }
    });
}

/// Bytes of an answer that nobody reads, in one piece.
const REFRESH_BUFFER: usize = 64 * 1024;
/// Room for the head of a page, beside its content.
const HEAD_ROOM: u64 = 64 * 1024;
