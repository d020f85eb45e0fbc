//! The task that owns slot, socket and buffer of one request, and the handle to its answer.
//!
//! The task goes through these states, and from any of them to failure:
//! waiting for a slot, connecting, both directions at once (`duplex`), ended. A responder is
//! connected to only when the whole request is in hand, because PHP-FPM's worker is taken from the
//! accept on, and given back at END_REQUEST, however long the client takes for the answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::answer_buffer::AnswerBuffer;
use super::cgi_response::CgiHead;
use super::connection::Connection;
use super::duplex::{Duplex, Left};
use super::failure::ExchangeError;
use super::limiter::Limiter;
use super::record::AfterRequest;
use super::settings::Settings;
use super::spool::{Body, Spools};
use super::trace::Trace;

/// A whole request.
#[derive(Clone, Debug)]
pub struct ExchangeRequest {
    /// The responder and how long it is waited for.
    pub settings: Arc<Settings>,
    /// The slots of that responder.
    pub limiter: Arc<Limiter>,
    /// What `params::encode` made.
    pub params: Bytes,
    /// The content.
    pub body: Body,
    /// Whether the request is HEAD: no content is passed on.
    pub method_is_head: bool,
    /// Whether the method is idempotent (RFC 9110 §9.2.2): then, with connections kept, it may go
    /// out on one of them, and again on a fresh one should that be dead.
    pub idempotent: bool,
    /// Where a long answer waits for a slow client.
    pub spools: Arc<Spools>,
    /// Counts what happens.
    pub trace: Arc<Trace>,
}

/// A request with its responder. Dropping it before its content is whole closes the connection
/// and gives the slot back; so does dropping it while it waits for a slot. Dropped later, the
/// script goes on to its END_REQUEST and keeps its slot till then.
#[derive(Debug)]
pub struct Exchange {
    buffer: Arc<AnswerBuffer>,
    task: AbortHandle,
}

impl Exchange {
    /// Starts a task on the current runtime.
    pub fn start(request: ExchangeRequest) -> Exchange {
        let settings = &request.settings;
        let buffer = AnswerBuffer::new(settings.buffer, settings.temp_max, &request.spools);
        let buffer = Arc::new(buffer);
        let run = Run {
            request,
            buffer: Arc::clone(&buffer),
            start: Instant::now(),
        };
        let task = tokio::spawn(run.run()).abort_handle();
        Exchange { buffer, task }
    }

    /// The head of the answer; to be asked for once, before the content.
    ///
    /// # Errors
    /// When the exchange failed before there was one.
    pub async fn head(&mut self) -> Result<CgiHead, ExchangeError> {
        self.buffer.head().await
    }

    /// The next piece of the content; `None` at its end. Cancelling it loses nothing.
    ///
    /// # Errors
    /// When the exchange failed: the content is not whole, and what was sent of it must not look
    /// as if it were.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        self.buffer.next().await
    }

    /// The content's length, when all of it has come already; `None` also for HEAD, 204, 304.
    pub fn complete_length(&self) -> Option<u64> {
        self.buffer.complete_length()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.buffer.is_ended() {
            self.task.abort();
        }
    }
}

/// The task.
struct Run {
    request: ExchangeRequest,
    buffer: Arc<AnswerBuffer>,
    start: Instant,
}

impl Run {
    async fn run(self) {
        if let Err(error) = self.carry_out().await {
            tracing::debug!("{}: {error}", self.request.settings.address);
            self.request.limiter.count_error(&error);
            self.buffer.finish(None, Err(error));
        }
    }

    async fn carry_out(&self) -> Result<(), ExchangeError> {
        let request = &self.request;
        let settings = &request.settings;
        let limiter = &request.limiter;
        // Dropped last: whoever gets the slot next finds the connection closed or parked.
        let _slot = limiter.acquire(settings.wait, settings.queue).await?;
        request.trace.note_slot(self.start.elapsed());

        // Without a limit it cannot be known whom a kept connection keeps waiting.
        let keep = settings.keep_alive.filter(|_| limiter.limit().is_some());
        if keep.is_some()
            && request.idempotent
            && let Some(connection) = limiter.idle().take()
        {
            request.trace.note_reused();
            match self.duplex(keep).run(&connection).await {
                Ok(left) => {
                    self.leave(connection, left, keep);
                    return Ok(());
                }
                // The worker ended between two requests, as it does at pm.max_requests.
                Err(broken) if !broken.answered && broken.error.is_connection_lost() => {
                    request.trace.note_retried();
                }
                Err(broken) => return Err(broken.error),
            }
        }
        limiter.make_room();
        let connection = self.connect().await?;
        let run = self.duplex(keep).run(&connection).await;
        let left = run.map_err(|broken| broken.error)?;
        self.leave(connection, left, keep);
        Ok(())
    }

    fn duplex(&self, keep: Option<Duration>) -> Duplex<'_> {
        Duplex {
            settings: &self.request.settings,
            params: &self.request.params,
            body: &self.request.body,
            after: match keep {
                Some(_) => AfterRequest::Keep,
                None => AfterRequest::Close,
            },
            to_head: self.request.method_is_head,
            buffer: &self.buffer,
            trace: &self.request.trace,
            start: self.start,
        }
    }

    /// Keeps the connection, or closes it: PHP-FPM's worker waits for that.
    fn leave(&self, connection: Connection, left: Left, keep: Option<Duration>) {
        match (left, keep) {
            (Left::Clean, Some(keep)) => self.request.limiter.idle().put(connection, keep),
            _ => drop(connection),
        }
    }

    /// A fresh connection. A full backlog is asked again while the request may wait.
    async fn connect(&self) -> Result<Connection, ExchangeError> {
        let settings = &self.request.settings;
        let mut place = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let opened = timeout(settings.connect, Connection::open(&settings.address)).await;
            let error = match opened {
                Err(_) => return Err(ExchangeError::ConnectTimeout),
                Ok(Ok(connection)) => {
                    self.request.trace.note_connected(began.elapsed());
                    return Ok(connection);
                }
                Ok(Err(error)) => error,
            };
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(connect_failure(&error));
            }
            if place.is_none() {
                place = Some(self.request.limiter.join_queue(settings.queue)?);
            }
            if self.start.elapsed() + pause > settings.wait {
                return Err(ExchangeError::BacklogFull);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Drop for Run {
    /// Tells the client's side when the task ends without having said so: by a panic, or with its
    /// runtime, which may drop it before it ever ran.
    fn drop(&mut self) {
        self.buffer.finish(None, Err(ExchangeError::CutOff));
    }
}

fn connect_failure(error: &io::Error) -> ExchangeError {
    let exhausted = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::ADDRNOTAVAIL,
    ];
    if error.kind() == io::ErrorKind::TimedOut {
        ExchangeError::ConnectTimeout
    } else if Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno)) {
        ExchangeError::OutOfResources(error.kind())
    } else {
        ExchangeError::Connect(error.kind())
    }
}

/// Pauses between connects to a full backlog.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
