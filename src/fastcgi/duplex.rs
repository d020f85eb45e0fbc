//! One request on one connection: STDIN written while STDOUT is read.
//!
//! Both at once, because a script may write more than the socket holds before it reads its
//! content: a gateway that writes first and reads then waits for ever, and so does the script.

use std::cell::RefCell;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use super::answer::Answer;
use super::answer_buffer::AnswerBuffer;
use super::connection::Connection;
use super::failure::ExchangeError;
use super::outgoing::Outgoing;
use super::pulse::Pulse;
use super::record::{
    AfterRequest, Decoder, Event, Kind, MAX_CONTENT, ProtocolStatus, begin_request, header,
};
use super::settings::Settings;
use super::spool::Body;
use super::stderr_log::StderrLog;
use super::trace::Trace;

/// A request ready to be sent, and where its answer goes.
#[derive(Clone, Copy, Debug)]
pub struct Duplex<'a> {
    /// Time limits and address.
    pub settings: &'a Settings,
    /// The PARAMS records.
    pub params: &'a Bytes,
    /// The content for STDIN.
    pub body: &'a Body,
    /// What becomes of the connection.
    pub after: AfterRequest,
    /// Whether the request is HEAD.
    pub to_head: bool,
    /// Takes the answer.
    pub buffer: &'a AnswerBuffer,
    /// Counts.
    pub trace: &'a Trace,
    /// When the exchange began.
    pub start: Instant,
}

/// A connection after END_REQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Both sides have said all they had to say: another request may follow.
    Clean,
    /// To be closed.
    Dirty,
}

/// An exchange that failed.
#[derive(Debug)]
pub struct Broken {
    /// How.
    pub error: ExchangeError,
    /// Whether the responder had said anything before.
    pub answered: bool,
}

impl Duplex<'_> {
    /// Carries the request out, up to END_REQUEST.
    ///
    /// # Errors
    /// When it fails, also with a head passed on already.
    pub async fn run(&self, connection: &Connection) -> Result<Left, Broken> {
        let pulse = Pulse::new();
        let receive = async {
            let mut answered = false;
            let received = self.receive(connection, &pulse, &mut answered).await;
            received.map_err(|error| Broken { error, answered })
        };
        let send = self.send(connection, &pulse);
        tokio::pin!(receive, send);
        let mut sending = Sending::Going;
        let left = loop {
            tokio::select! {
                biased;
                sent = &mut send, if sending == Sending::Going => match sent {
                    Ok(()) => sending = Sending::Done,
                    Err(SendError::Content(error)) => {
                        let error = ExchangeError::Content(error.kind());
                        return Err(Broken { error, answered: false });
                    }
                    // A responder may answer without taking the content, and close. What it said
                    // before is still there to be read.
                    Err(SendError::Connection) => sending = Sending::Failed,
                },
                received = &mut receive => break received?,
            }
        };
        Ok(match sending {
            Sending::Done => left,
            Sending::Going | Sending::Failed => Left::Dirty,
        })
    }

    /// Writes BEGIN_REQUEST, PARAMS and STDIN.
    async fn send(&self, connection: &Connection, pulse: &Pulse) -> Result<(), SendError> {
        let mut outgoing = Outgoing::default();
        outgoing.push(Bytes::copy_from_slice(&begin_request(self.after)));
        outgoing.push(self.params.clone());
        let mut content = self.body.reader();
        let mut whole = false;
        loop {
            while !whole && outgoing.bytes() < WRITTEN_AT_ONCE {
                let piece = content
                    .next(MAX_CONTENT)
                    .await
                    .map_err(SendError::Content)?;
                whole = piece.is_none();
                let piece = piece.unwrap_or_default();
                let length = u16::try_from(piece.len()).expect("invariant: at most MAX_CONTENT");
                outgoing.push(Bytes::copy_from_slice(&header(Kind::Stdin, length, 0)));
                outgoing.push(piece);
            }
            if outgoing.bytes() == 0 {
                return Ok(());
            }
            match outgoing.write(connection) {
                Ok(written) => {
                    pulse.beat();
                    self.trace.add_sent(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let writable = connection.writable().await;
                    writable.map_err(|_| SendError::Connection)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(SendError::Connection),
            }
        }
    }

    /// Reads records up to END_REQUEST.
    async fn receive(
        &self,
        connection: &Connection,
        pulse: &Pulse,
        answered: &mut bool,
    ) -> Result<Left, ExchangeError> {
        let mut answer = Answer::new(self.buffer, self.to_head);
        let mut stderr = StderrLog::new(&self.settings.address);
        let mut decoder = Decoder::new();
        let mut records = BytesMut::new();
        let mut stdout_began = false;
        let mut is_long = false;
        loop {
            while let Some(event) = decoder.next(&mut records)? {
                *answered = true;
                match event {
                    Event::Stdout(piece) => {
                        if !stdout_began {
                            stdout_began = true;
                            self.trace.note_first_byte(self.start.elapsed());
                        }
                        self.trace.add_received(piece.len() as u64);
                        answer.take(piece).await?;
                    }
                    Event::Stderr(piece) => {
                        self.trace.add_stderr(piece.len() as u64);
                        stderr.push(&piece);
                    }
                    Event::End { protocol, .. } => {
                        self.trace.note_ended(self.start.elapsed());
                        accept(protocol)?;
                        answer.end()?;
                        let clean = records.is_empty() && decoder.is_between_records();
                        return Ok(if clean { Left::Clean } else { Left::Dirty });
                    }
                }
                // After the waiting that a slow client causes, which is not the responder's.
                pulse.beat();
            }
            // Answers that come as fast as they are read must not hold the worker.
            tokio::task::consume_budget().await;
            let read = match is_long {
                false => read_short(connection, &mut records),
                true => {
                    if records.capacity() - records.len() < LEAST_READ {
                        records.reserve(READ_AT_ONCE);
                    }
                    connection.try_read(&mut records)
                }
            };
            match read {
                Ok(0) => return Err(ExchangeError::Closed),
                Ok(length) => is_long |= length == SHORT,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    answer.release_head();
                    let (limit, timeout) = if stdout_began {
                        let between_bytes = self.settings.between_bytes;
                        (between_bytes, ExchangeError::BetweenBytesTimeout)
                    } else {
                        (self.settings.first_byte, ExchangeError::FirstByteTimeout)
                    };
                    match pulse.readable(connection, limit).await {
                        Some(readable) => readable.map_err(connection_error)?,
                        None => return Err(timeout),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(connection_error(error)),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Going,
    Done,
    Failed,
}

enum SendError {
    Content(io::Error),
    Connection,
}

fn accept(protocol: ProtocolStatus) -> Result<(), ExchangeError> {
    match protocol {
        ProtocolStatus::RequestComplete => Ok(()),
        ProtocolStatus::Overloaded => Err(ExchangeError::Overloaded),
        ProtocolStatus::CannotMultiplex
        | ProtocolStatus::UnknownRole
        | ProtocolStatus::Other(_) => Err(ExchangeError::Refused),
    }
}

fn connection_error(error: io::Error) -> ExchangeError {
    ExchangeError::Connection(error.kind())
}

/// Reads into a buffer of the thread, so that a short answer takes no more memory than it has bytes.
fn read_short(connection: &Connection, records: &mut BytesMut) -> io::Result<usize> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        scratch.reserve(SHORT);
        let mut room = scratch.limit(SHORT);
        let length = connection.try_read(&mut room)?;
        records.extend_from_slice(scratch);
        Ok(length)
    })
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An answer is long, and read straight into its own memory, when a read brings this many bytes.
const SHORT: usize = 8 * 1024;

/// Content read ahead of the socket.
const WRITTEN_AT_ONCE: usize = 128 * 1024;

/// Room made for records when it runs low.
const READ_AT_ONCE: usize = 32 * 1024;

/// Reads of less than this are not worth their system call.
const LEAST_READ: usize = 4 * 1024;
