//! The body of an answer on its way into a stream of HTTP/2, as fast as the client takes it.
//!
//! Only what the client's windows have room for is handed to the connection, so what is handed over waits for the socket
//! alone, which [`watched_stream`](crate::edge::watched_stream) sees to.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;

use crate::edge::pace::{Exceeded, Pace, Patience};

/// Why a body was not taken whole.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream or its connection has ended.
    #[error("the client: {0}")]
    Gone(#[source] h2::Error),
    /// The client takes nothing for longer than `limits.send`, or is slower than `limits.send_rate`.
    #[error("the client is too slow")]
    Slow(Exceeded),
}

/// A body that is being sent.
pub struct StreamBody {
    stream: SendStream<Bytes>,
    pace: Pace,
    sent: u64,
}

impl StreamBody {
    /// Nothing has been sent yet; the client may take the time of `patience`.
    pub fn new(stream: SendStream<Bytes>, patience: Patience) -> StreamBody {
        StreamBody {
            stream,
            pace: Pace::new(patience),
            sent: 0,
        }
    }

    /// Bytes that the client's windows have had room for.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What the client has exceeded, if anything.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.pace.exceeded()
    }

    /// Sends `piece`, which becomes what is left of it. `end`: nothing follows.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut Bytes,
        end: bool,
    ) -> Poll<Result<(), StreamError>> {
        if piece.is_empty() {
            return Poll::Ready(match end {
                true => self.put(Bytes::new(), true),
                false => Ok(()),
            });
        }
        while !piece.is_empty() {
            self.stream.reserve_capacity(piece.len());
            let room = match self.stream.capacity() {
                0 => ready!(self.poll_room(cx))?,
                room => room,
            };
            let part = piece.split_to(room.min(piece.len()));
            let moved = part.len();
            self.put(part, end && piece.is_empty())?;
            self.pace.moved(moved).map_err(StreamError::Slow)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The same, for as long as it takes.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub async fn send(&mut self, mut piece: Bytes, end: bool) -> Result<(), StreamError> {
        std::future::poll_fn(|cx| self.poll_send(cx, &mut piece, end)).await
    }

    /// Sends `body` and the end, if the windows have room for all of it; false: nothing was sent.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn send_at_once(&mut self, body: &Bytes) -> Result<bool, StreamError> {
        self.stream.reserve_capacity(body.len());
        if self.stream.capacity() < body.len() {
            return Ok(false);
        }
        self.put(body.clone(), true)?;
        Ok(true)
    }

    /// Ends the body with trailers.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send_trailers(&mut self, trailers: HeaderMap) -> Result<(), StreamError> {
        self.stream
            .send_trailers(trailers)
            .map_err(StreamError::Gone)
    }

    /// Ready when the client has reset the stream, or its connection has ended.
    pub fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reason, h2::Error>> {
        self.stream.poll_reset(cx)
    }

    fn put(&mut self, part: Bytes, end: bool) -> Result<(), StreamError> {
        let length = part.len() as u64;
        self.stream
            .send_data(part, end)
            .map_err(StreamError::Gone)?;
        self.sent += length;
        Ok(())
    }

    /// How many bytes there is room for, once there is any.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        match self.stream.poll_capacity(cx) {
            Poll::Ready(Some(room)) => Poll::Ready(room.map_err(StreamError::Gone)),
            Poll::Ready(None) => Poll::Ready(Err(StreamError::Gone(Reason::CANCEL.into()))),
            Poll::Pending => {
                let exceeded = ready!(self.pace.poll_silent(cx));
                Poll::Ready(Err(StreamError::Slow(exceeded)))
            }
        }
    }
}
