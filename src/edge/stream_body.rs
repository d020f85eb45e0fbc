//! The body of an answer on its way into a stream of HTTP/2, as fast as the client takes it.
//!
//! Only what the client's windows have room for is handed to the connection, so what is handed over waits for the socket
//! alone, which [`watched_stream`](crate::edge::watched_stream) sees to. Windows are the client's word: what all streams of a
//! connection have handed over together has an end of its own ([`Outgoing`]).

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use crate::edge::pace::{Exceeded, Pace, Patience};
use crate::edge::rendered::PIECE;

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

/// What the streams of one connection have handed to it and it has not sent yet. They take turns, and nobody waits for whom the client gives no window.
#[derive(Clone)]
pub struct Outgoing(Arc<Semaphore>);

impl Default for Outgoing {
    fn default() -> Outgoing {
        Outgoing(Arc::new(Semaphore::new(MOST_CHUNKS)))
    }
}

/// A part of a body that counts until the connection has sent it, or has dropped it.
struct Counted {
    part: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

/// A body that is being sent.
pub struct StreamBody {
    stream: SendStream<Bytes>,
    turns: PollSemaphore,
    /// Taken, and not used yet.
    turn: Option<OwnedSemaphorePermit>,
    pace: Pace,
    sent: u64,
}

impl StreamBody {
    /// Nothing has been sent yet; the client may take the time of `patience`.
    pub fn new(stream: SendStream<Bytes>, patience: Patience, outgoing: &Outgoing) -> StreamBody {
        StreamBody {
            stream,
            turns: PollSemaphore::new(outgoing.0.clone()),
            turn: None,
            pace: Pace::new(patience),
            sent: 0,
        }
    }

    /// Waits until something can be sent: before that it need not be in memory.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub async fn ready(&mut self) -> Result<(), StreamError> {
        self.stream.reserve_capacity(1);
        std::future::poll_fn(|cx| self.poll_ready(cx)).await?;
        // Others need not wait for the disk.
        self.turn = None;
        Ok(())
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
            let room = ready!(self.poll_ready(cx))?;
            let most = match self.turns.available_permits() < MOST_CHUNKS / 4 {
                true => CHUNK,
                false => PIECE,
            };
            let part = piece.split_to(room.min(piece.len()).min(most));
            let moved = part.len();
            let part = Bytes::from_owner(Counted {
                part,
                _turn: self.turn.take(),
            });
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

    /// How many bytes there is room for, once there is any and it is this one's turn.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        let room = match self.stream.capacity() {
            0 => ready!(self.poll_room(cx))?,
            room => room,
        };
        if self.turn.is_none() {
            self.turn = match self.turns.poll_acquire(cx) {
                Poll::Ready(turn) => turn,
                Poll::Pending => {
                    let exceeded = ready!(self.pace.poll_silent(cx));
                    return Poll::Ready(Err(StreamError::Slow(exceeded)));
                }
            };
        }
        Poll::Ready(Ok(room))
    }

    /// How many bytes the client's windows have room for, once there is any.
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

/// Bytes that are handed over in one turn when others wait for theirs.
const CHUNK: usize = 16 * 1024;
/// Turns that may wait for the connection at a time.
const MOST_CHUNKS: usize = 16;

#[cfg(test)]
mod tests {
    use std::future::{Future as _, poll_fn};
    use std::pin::pin;
    use std::time::Duration;

    use futures::future::join_all;
    use http::{Request, Response};

    use super::*;

    const PATIENCE: Patience = Patience {
        silence: Duration::from_secs(30),
        rate: 0,
    };
    const STREAMS: usize = 64;
    const CONTENT: usize = 256 * 1024;

    #[tokio::test(start_paused = true)]
    async fn all_streams_together_wait_with_a_bounded_part_of_their_content() {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let mut client = h2::client::Builder::new();
        client
            .initial_window_size(1 << 30)
            .initial_connection_window_size(1 << 30);
        let mut server = h2::server::Builder::new();
        server.max_send_buffer_size(CONTENT);
        let (client, server) = tokio::join!(
            client.handshake::<_, Bytes>(near),
            server.handshake::<_, Bytes>(far)
        );
        let ((mut asking, client), mut server) = (client.expect("begun"), server.expect("begun"));
        let mut client = pin!(client);
        let outgoing = Outgoing::default();
        let answers: Vec<_> = (0..STREAMS)
            .map(|_| {
                let request = Request::get("http://a.test/").body(()).expect("one");
                asking.send_request(request, true).expect("sent").0
            })
            .collect();
        let mut bodies = Vec::new();
        while bodies.len() < STREAMS {
            let (_, mut respond) = tokio::select! {
                _ = &mut client => panic!("the client has gone"),
                accepted = server.accept() => accepted.expect("one").expect("whole"),
            };
            let stream = respond.send_response(Response::new(()), false);
            let body = StreamBody::new(stream.expect("begun"), PATIENCE, &outgoing);
            let own = u8::try_from(bodies.len()).expect("few");
            bodies.push((body, Bytes::from(vec![own; CONTENT])));
        }

        // The client takes nothing, whatever it has said of windows.
        for _ in 0..100 {
            poll_fn(|cx| {
                for (body, piece) in bodies.iter_mut().filter(|(_, piece)| !piece.is_empty()) {
                    let sent = body.poll_send(cx, piece, true);
                    assert!(!matches!(sent, Poll::Ready(Err(_))));
                }
                assert!(server.poll_closed(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        let handed_over: u64 = bodies.iter().map(|(body, _)| body.sent()).sum();
        assert!(handed_over > 0 && handed_over <= (MOST_CHUNKS * PIECE + 64 * 1024) as u64);

        // It goes on for all of them once it does.
        let sent = join_all(bodies.into_iter().map(|(mut body, piece)| async move {
            match piece.is_empty() {
                true => {}
                false => body.send(piece, true).await.expect("sent"),
            }
        }));
        let seen = join_all(
            answers
                .into_iter()
                .enumerate()
                .map(|(number, answer)| async move {
                    let mut content = answer.await.expect("a head").into_body();
                    let mut length = 0;
                    while let Some(part) = content.data().await {
                        let part = part.expect("content");
                        assert!(part.iter().all(|byte| usize::from(*byte) == number));
                        length += part.len();
                    }
                    assert_eq!(length, CONTENT);
                }),
        );
        let mut all = pin!(async { tokio::join!(sent, seen) });
        poll_fn(|cx| {
            let _ = client.as_mut().poll(cx);
            let _ = server.poll_closed(cx);
            all.as_mut().poll(cx).map(|_| ())
        })
        .await;
    }
}
