//! A response between the responder that makes it and a client that takes it more slowly.
//!
//! Content goes through three places, in this order: memory, an unlinked file, and the bytes
//! gathered for the file's next write. Once something is in the file, what follows goes there too,
//! until the client has caught up. When file and memory are full the responder waits.
//!
//! The file is used as a ring of `temp_max` bytes, so that a long answer may go on while the client
//! takes it, whatever its length.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::budget::Charge;
use super::cgi_response::CgiHead;
use super::failure::ExchangeError;
use super::pieces::Pieces;
use super::spool::Spools;
use super::temp_file::TempFile;

/// The buffer of one response: one task fills it, one takes from it.
#[derive(Debug)]
pub struct AnswerBuffer {
    state: Mutex<State>,
    readable: Notify,
    room: Notify,
    spools: Arc<Spools>,
    temp_max: u64,
}

#[derive(Debug)]
struct State {
    head: Option<CgiHead>,
    end: Option<Result<(), ExchangeError>>,
    no_content: bool,
    length: u64,
    memory: u64,
    front: Pieces,
    file: Option<Arc<TempFile>>,
    file_usable: bool,
    charge: Charge,
    charged: u64,
    read: u64,
    written: u64,
    writing: bool,
    back: BytesMut,
}

/// What the filling side has to do before it takes more from the responder.
enum Pressure {
    None,
    Spill,
    Wait,
}

impl AnswerBuffer {
    /// Holds `memory` bytes, and `temp_max` more in a file of `spools`.
    pub fn new(memory: u64, temp_max: u64, spools: &Arc<Spools>) -> Self {
        AnswerBuffer {
            state: Mutex::new(State {
                head: None,
                end: None,
                no_content: false,
                length: 0,
                memory,
                front: Pieces::default(),
                file: None,
                file_usable: temp_max >= SMALLEST_FILE,
                charge: spools.charge_answer(),
                charged: 0,
                read: 0,
                written: 0,
                writing: false,
                back: BytesMut::new(),
            }),
            readable: Notify::new(),
            room: Notify::new(),
            spools: Arc::clone(spools),
            temp_max,
        }
    }

    /// From now on little is held and nothing is put into a file: for content that the client is
    /// to see as it is made.
    pub fn pass_as_it_comes(&self) {
        let mut state = self.state.lock();
        state.memory = state.memory.min(UNBUFFERED);
        state.file_usable = false;
    }

    /// Bytes that fit without waiting while nothing is taken out.
    pub fn memory(&self) -> u64 {
        self.state.lock().memory
    }

    /// Lets the client have the head.
    pub fn put_head(&self, head: CgiHead) {
        self.state.lock().head = Some(head);
        self.readable.notify_one();
    }

    /// A head that is all there is: HEAD, 204, 304.
    pub fn put_head_without_content(&self, head: CgiHead) {
        self.state.lock().no_content = true;
        self.finish(Some(head), Ok(()));
    }

    /// Ends the response: whole, or by an error that the client's side gets after what is held.
    /// Later calls change nothing.
    pub fn finish(&self, head: Option<CgiHead>, end: Result<(), ExchangeError>) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.head = head.or(state.head.take());
            state.end = Some(end);
        }
        drop(state);
        self.readable.notify_one();
    }

    /// Whether [`finish`](Self::finish) was called.
    pub fn is_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// Takes a piece of content; waits while there is no room for more.
    pub async fn push(&self, piece: Bytes) {
        self.state.lock().put(piece);
        self.readable.notify_one();
        loop {
            let pressure = self.state.lock().pressure(self.temp_max);
            match pressure {
                Pressure::None => return,
                Pressure::Spill => self.spill().await,
                Pressure::Wait => self.room.notified().await,
            }
        }
    }

    /// Writes the gathered bytes to the file, off the workers.
    async fn spill(&self) {
        let (bytes, file, at) = {
            let mut state = self.state.lock();
            state.writing = true;
            (
                state.back.split().freeze(),
                state.file.clone(),
                state.written,
            )
        };
        let (dir, temp_max, copy) = (self.spools.dir(), self.temp_max, bytes.clone());
        let written = spawn_blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(TempFile::create(&dir)?),
            };
            let offset = at % temp_max;
            let until_end = usize::try_from(temp_max - offset).unwrap_or(usize::MAX);
            match copy.split_at_checked(until_end) {
                Some((last, first)) => {
                    file.write_at(last, offset)?;
                    file.write_at(first, 0)?;
                }
                None => file.write_at(&copy, offset)?,
            }
            Ok(file)
        });
        let written = written
            .await
            .unwrap_or_else(|error| Err(io::Error::from(error)));
        let mut state = self.state.lock();
        state.writing = false;
        match written {
            Ok(file) => {
                state.file = Some(file);
                state.written += bytes.len() as u64;
            }
            Err(error) => {
                // The answer goes on without a file: the responder waits for the client.
                state.back = BytesMut::from(bytes);
                state.file_usable = false;
                tracing::warn!("no file for a response: {error}");
            }
        }
        drop(state);
        self.readable.notify_one();
    }

    /// The head, once the responder has sent it; to be asked for once.
    ///
    /// # Errors
    /// When the exchange failed before.
    pub async fn head(&self) -> Result<CgiHead, ExchangeError> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(head) = state.head.take() {
                    return Ok(head);
                }
                match &state.end {
                    Some(Err(error)) => return Err(error.clone()),
                    Some(Ok(())) => return Err(ExchangeError::NoHead),
                    None => {}
                }
            }
            self.readable.notified().await;
        }
    }

    /// The next piece of content; `None` when it is whole. Cancelling loses nothing.
    ///
    /// # Errors
    /// When the exchange failed, after all that came before.
    pub async fn next(&self) -> Result<Option<Bytes>, ExchangeError> {
        loop {
            let next = self.state.lock().next(self.temp_max);
            match next {
                Next::Piece(piece) => {
                    self.room.notify_one();
                    return Ok(Some(piece));
                }
                Next::Read(file, offset, length) => {
                    let read = spawn_blocking(move || file.read_at(offset, length));
                    let read = read
                        .await
                        .unwrap_or_else(|error| Err(io::Error::from(error)));
                    let piece = read.map_err(|error| ExchangeError::Buffer(error.kind()))?;
                    self.state.lock().note_read(length as u64);
                    self.room.notify_one();
                    return Ok(Some(Bytes::from(piece)));
                }
                Next::End(end) => return end.map(|()| None),
                Next::Wait => self.readable.notified().await,
            }
        }
    }

    /// The content's length, once all of it has come.
    pub fn complete_length(&self) -> Option<u64> {
        let state = self.state.lock();
        match state.end {
            Some(Ok(())) if !state.no_content => Some(state.length),
            _ => None,
        }
    }
}

/// What the taking side finds.
enum Next {
    Piece(Bytes),
    Read(Arc<TempFile>, u64, usize),
    End(Result<(), ExchangeError>),
    Wait,
}

impl State {
    fn put(&mut self, piece: Bytes) {
        self.length += piece.len() as u64;
        let in_order = self.read == self.written && !self.writing && self.back.is_empty();
        if in_order && self.front.bytes() < self.memory {
            self.front.push(piece);
        } else {
            self.back.extend_from_slice(&piece);
        }
    }

    fn pressure(&mut self, temp_max: u64) -> Pressure {
        self.settle();
        let gathered = self.back.len() as u64;
        if gathered == 0 {
            return Pressure::None;
        }
        if !self.file_usable {
            return Pressure::Wait;
        }
        if gathered < GATHERED {
            return Pressure::None;
        }
        if self.written - self.read + gathered > temp_max {
            return Pressure::Wait;
        }
        let size = (self.written + gathered).min(temp_max);
        let growth = size.saturating_sub(self.charged);
        if growth > 0 && !self.charge.grow(growth) {
            return Pressure::Wait;
        }
        self.charged += growth;
        Pressure::Spill
    }

    fn next(&mut self, temp_max: u64) -> Next {
        self.settle();
        if let Some(piece) = self.front.pop() {
            return Next::Piece(piece);
        }
        let in_file = self.written - self.read;
        if let Some(file) = &self.file
            && in_file > 0
        {
            let offset = self.read % temp_max;
            let length = in_file.min(temp_max - offset).min(READ_AT_ONCE);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            return Next::Read(Arc::clone(file), offset, length);
        }
        match &self.end {
            Some(end) => Next::End(end.clone()),
            None => Next::Wait,
        }
    }

    /// Moves what never reached the file to memory, once all that came before is taken out.
    fn settle(&mut self) {
        if self.writing || self.read < self.written {
            return;
        }
        (self.read, self.written) = (0, 0);
        if !self.back.is_empty() && self.front.bytes() < self.memory.max(1) {
            self.front.push(self.back.split().freeze());
        }
    }

    fn note_read(&mut self, bytes: u64) {
        self.read += bytes;
    }
}

/// Bytes held of an answer that is passed on as it comes.
const UNBUFFERED: u64 = 64 * 1024;

/// Bytes written to the file at once.
const GATHERED: u64 = 64 * 1024;

/// Bytes read from the file at once.
const READ_AT_ONCE: u64 = 64 * 1024;

/// Below this a file is not worth its system calls; it must hold two writes.
const SMALLEST_FILE: u64 = 256 * 1024;

#[cfg(test)]
mod tests;
