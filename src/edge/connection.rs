//! The lane's end of a client's connection: reads into a lent buffer under a deadline, and closes without loss.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use pingora_core::protocols::Stream;
use tokio::io::AsyncWriteExt;
use tokio_util::io::poll_read_buf;

use crate::clock::{Clock, Tick};
use crate::edge::deadline::Deadline;
use crate::edge::pace::{Pace, Patience};
use crate::edge::socket;
use crate::lifecycle::{DrainSignal, Lifecycle};

/// What came of waiting for bytes.
#[derive(Debug)]
pub enum Filled {
    /// Some were read.
    Bytes,
    /// The client has ended its side.
    End,
    /// The deadline passed first.
    TimedOut,
    /// The server is being stopped and no request is under way.
    Draining,
    /// The connection is broken.
    Broken,
}

/// A client's connection, with the bytes read from it and not yet used.
pub struct Connection {
    /// The socket, behind TLS or not.
    pub stream: Stream,
    /// Whether bytes may be put into the socket itself; see [`socket::is_bare`].
    pub bare: bool,
    /// Bytes read and not yet used. Has no memory of its own while the connection is idle.
    pub incoming: BytesMut,
    waiting: Waiting,
}

/// What a connection waits with: the time, and the order to stop.
pub struct Waiting {
    clock: Clock,
    deadline: Deadline,
    drain: DrainSignal,
}

impl Connection {
    /// A connection just accepted.
    pub fn new(stream: Stream, clock: Clock, lifecycle: &Lifecycle) -> Connection {
        Connection {
            bare: socket::is_bare(&stream),
            stream,
            incoming: BytesMut::new(),
            waiting: Waiting {
                clock,
                deadline: Deadline::default(),
                drain: lifecycle.drain_signal(),
            },
        }
    }

    /// Waits for more bytes until `deadline`, or for the order to stop, which is told once.
    pub async fn fill(&mut self, deadline: Tick, most: usize) -> Filled {
        std::future::poll_fn(|cx| self.poll_fill(cx, deadline, most)).await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, deadline: Tick, most: usize) -> Poll<Filled> {
        if self.incoming.capacity() == 0 {
            self.incoming = lend_buffer();
        }
        // What has been used up at the buffer's front is won back without a new allocation.
        if self.incoming.is_empty() || self.incoming.len() == self.incoming.capacity() {
            self.incoming
                .reserve(self.incoming.len().clamp(READ_SIZE, most.max(READ_SIZE)));
        }
        match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.incoming) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Filled::End),
            Poll::Ready(Ok(_)) => return Poll::Ready(Filled::Bytes),
            Poll::Ready(Err(_)) => return Poll::Ready(Filled::Broken),
            Poll::Pending => {}
        }
        if self.incoming.is_empty() {
            give_back(std::mem::take(&mut self.incoming));
        }
        if self.waiting.drain.poll_ordered(cx) {
            return Poll::Ready(Filled::Draining);
        }
        if self
            .waiting
            .deadline
            .poll_passed(cx, &self.waiting.clock, deadline)
        {
            return Poll::Ready(Filled::TimedOut);
        }
        Poll::Pending
    }

    /// Waits for more bytes until `deadline`, whether the server is being stopped or not.
    pub async fn fill_through(&mut self, deadline: Tick, most: usize) -> Filled {
        self.waiting.drain.heard();
        self.fill(deadline, most).await
    }

    /// Whether a request has begun: empty lines before it do not count (RFC 9112 §2.2), and only a few are let by.
    pub fn has_begun(&self) -> bool {
        self.incoming
            .iter()
            .any(|byte| !matches!(byte, b'\r' | b'\n'))
    }

    /// Reads and drops `length` bytes; false when the client takes longer than `patience` for them.
    pub async fn skip(&mut self, mut length: u64, patience: Patience) -> bool {
        let mut pace = Pace::new(patience);
        loop {
            let here = usize::try_from(length)
                .map_or(self.incoming.len(), |left| left.min(self.incoming.len()));
            self.incoming.advance(here);
            length -= here as u64;
            if length == 0 {
                return true;
            }
            let deadline = self.waiting.clock.now().plus(patience.silence);
            pace.waits();
            let filled = self.fill_through(deadline, READ_SIZE).await;
            if !matches!(filled, Filled::Bytes) || pace.moved(self.incoming.len()).is_err() {
                return false;
            }
        }
    }

    /// Takes the connection apart for lending it out: the socket, what was read, and what the lane waits with.
    pub fn into_parts(self) -> (Stream, BytesMut, Waiting) {
        (self.stream, self.incoming, self.waiting)
    }

    /// Puts a connection together again that has come home.
    pub fn from_parts(stream: Stream, incoming: BytesMut, waiting: Waiting) -> Connection {
        Connection {
            bare: socket::is_bare(&stream),
            stream,
            incoming,
            waiting,
        }
    }

    /// Ends the connection so that the client gets all that was written: the write side first, then what the client
    /// still sends is read and dropped for a while, as closing over unread bytes resets the connection (RFC 9112 §9.6).
    pub async fn close(mut self, still_sending: bool) {
        if self.stream.shutdown_write().await.is_err() || !still_sending {
            return;
        }
        let end = self.waiting.clock.now().plus(LINGER);
        loop {
            self.incoming.clear();
            let silence = self.waiting.clock.now().plus(LINGER_SILENCE);
            match self.fill_through(end.min(silence), READ_SIZE).await {
                Filled::Bytes => {}
                _ => return,
            }
        }
    }

    /// Ends the connection by a reset, so that an answer that was cut does not look complete.
    pub fn cut(self) {
        socket::reset_at_close(&self.stream);
    }
}

trait ShutdownWrite {
    async fn shutdown_write(&mut self) -> io::Result<()>;
}

impl ShutdownWrite for Stream {
    async fn shutdown_write(&mut self) -> io::Result<()> {
        AsyncWriteExt::flush(self).await?;
        AsyncWriteExt::shutdown(self).await
    }
}

/// An idle connection has no read buffer; a thread's connections share a few.
fn lend_buffer() -> BytesMut {
    SPARE
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| BytesMut::with_capacity(READ_SIZE))
}

fn give_back(buffer: BytesMut) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_BUFFERS && buffer.capacity() <= MOST_SPARE {
            spare.push(buffer);
        }
    });
}

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

const READ_SIZE: usize = 8 * 1024;
const SPARE_BUFFERS: usize = 16;
/// A buffer that a long head has grown is not kept.
const MOST_SPARE: usize = 4 * READ_SIZE;
/// nginx's lingering_time and lingering_timeout.
const LINGER: Duration = Duration::from_secs(30);
const LINGER_SILENCE: Duration = Duration::from_secs(5);
