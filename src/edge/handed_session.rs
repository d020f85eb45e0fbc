//! A stream of HTTP/2 as Pingora has it: its body comes in, and its answer is taken, in the time that the limits leave.
//!
//! Pingora's own session for HTTP/2 waits for a body for ever, knows no pace, and never takes trailers: the stream does not
//! end for it then, and it would ask for more without a pause, on a worker that nobody else gets. So Pingora gets a session of
//! its kind for other protocols, which leaves to its own one what that does well.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use parking_lot::Mutex;
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::custom::CustomMessageWrite;
use pingora_core::protocols::http::custom::server::Session;
use pingora_core::protocols::http::v2::server::HttpSession;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::{Error, ErrorType, OrErr, Result};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::edge::failure::status_error;
use crate::edge::held_back::Share;
use crate::edge::pace::{Exceeded, Pace, Patience};
use crate::edge::stream_body::{Outgoing, StreamBody, StreamError};

/// A stream that was lent to Pingora.
pub struct HandedSession {
    session: HttpSession,
    /// How the request's body comes in.
    body_pace: Pace,
    for_answer: Patience,
    outgoing: Outgoing,
    answer: Answer,
    /// Bytes of the answer that Pingora has handed over.
    handed_over: usize,
    home: Home,
}

/// The answer's way to the client.
#[derive(Default)]
struct Answer {
    /// Its body, once its head has left.
    body: Option<StreamBody>,
    /// Nothing follows.
    ended: bool,
    /// What is held back instead of waiting for the client.
    held: VecDeque<Bytes>,
    /// Room for that.
    share: Option<Share>,
}

/// What is left of a stream that Pingora has let go of.
#[derive(Default)]
pub struct Left {
    answer: Answer,
    exceeded: Option<Exceeded>,
}

/// Where a [`HandedSession`] leaves what is left when it is dropped.
#[derive(Clone, Default)]
pub struct Home(Arc<Mutex<Option<Left>>>);

impl Home {
    /// What is left; none while Pingora still has the stream.
    pub fn take(&self) -> Option<Left> {
        self.0.lock().take()
    }
}

impl Left {
    /// Sends what is still held back; what the client has exceeded, if anything.
    pub async fn flush(mut self) -> Option<Exceeded> {
        if self.answer.ended && self.exceeded.is_none() {
            let sent = std::future::poll_fn(|cx| self.answer.poll_held(cx)).await;
            if let Err(StreamError::Slow(exceeded)) = sent {
                return Some(exceeded);
            }
        }
        self.exceeded
    }
}

impl HandedSession {
    /// Lends `session`, whose client may take the time of `for_body` to send its body, and that of `for_answer` to take the
    /// answer, which is sent with those of the other streams of its connection. With a `share` the answer is held back as far as
    /// that has room: others wait for the page that is made of it.
    pub fn lend(
        session: HttpSession,
        for_body: Patience,
        for_answer: Patience,
        outgoing: &Outgoing,
        share: Option<Share>,
    ) -> (HandedSession, Home) {
        let home = Home::default();
        let handed = HandedSession {
            session,
            body_pace: Pace::new(for_body),
            for_answer,
            outgoing: outgoing.clone(),
            answer: Answer {
                share,
                ..Answer::default()
            },
            handed_over: 0,
            home: home.clone(),
        };
        (handed, home)
    }

    /// The next piece of the body, which is never an empty one.
    async fn read(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.read_frame().await? {
                // Frames with nothing in them bring nothing on, and are no end of silence.
                Some(piece) if piece.is_empty() => {}
                Some(piece) => {
                    let kept = self.body_pace.moved(piece.len());
                    let slow = |_| {
                        let slow = io::Error::from(io::ErrorKind::TimedOut);
                        Error::because(ErrorType::ReadError, "too slow", slow)
                    };
                    return kept.map(|()| Some(piece)).map_err(slow);
                }
                None if self.session.is_body_done() => return Ok(None),
                None => return Err(status_error(400, "trailers of a request are not taken")),
            }
        }
    }

    async fn read_frame(&mut self) -> Result<Option<Bytes>> {
        let pace = &mut self.body_pace;
        let mut read = pin!(self.session.read_body_bytes());
        std::future::poll_fn(|cx| match read.as_mut().poll(cx) {
            Poll::Ready(piece) => Poll::Ready(piece),
            Poll::Pending => {
                ready!(pace.poll_silent(cx));
                Poll::Ready(Err(Error::new(ErrorType::ReadTimedout)))
            }
        })
        .await
    }

    /// Waits until the client has gone, and moves on meanwhile what is held back for it.
    async fn watch(&mut self) -> Result<Option<Bytes>> {
        let gone = match &mut self.answer {
            Answer { body: None, .. } => self.session.idle().await,
            answer => {
                std::future::poll_fn(|cx| {
                    if let Poll::Ready(Err(error)) = answer.poll_held(cx) {
                        return Poll::Ready(Err(failed(error)));
                    }
                    let Some(body) = &mut answer.body else {
                        return Poll::Pending;
                    };
                    body.poll_reset(cx)
                        .map(|reset| reset.or_err(ErrorType::H2Error, "while waiting"))
                })
                .await
            }
        };
        Error::e_explain(ErrorType::H2Error, format!("the client: {}", gone?))
    }
}

impl Answer {
    /// Sends what is held back.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(Ok(()));
        };
        while let Some(mut piece) = self.held.pop_front() {
            let end = self.ended && self.held.is_empty();
            let sent = body.poll_send(cx, &mut piece, end);
            if sent.is_pending() {
                self.held.push_front(piece);
            }
            if let Some(share) = &mut self.share {
                share.leave(self.held.iter().map(Bytes::len).sum());
            }
            ready!(sent)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `piece`, or holds it back.
    fn poll_put(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut Bytes,
        end: bool,
    ) -> Poll<Result<(), StreamError>> {
        let sent = match self.poll_held(cx)? {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => match &mut self.body {
                Some(body) => body.poll_send(cx, piece, end)?,
                None => Poll::Ready(()),
            },
        };
        if sent.is_pending() {
            let share = self.share.as_mut();
            if !share.is_some_and(|share| share.take(piece.len())) {
                return Poll::Pending;
            }
            self.held.push_back(std::mem::take(piece));
        }
        self.ended |= end;
        Poll::Ready(Ok(()))
    }
}

impl Drop for HandedSession {
    fn drop(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        let exceeded = answer.body.as_ref().and_then(StreamBody::exceeded);
        *self.home.0.lock() = Some(Left { answer, exceeded });
    }
}

fn failed(error: StreamError) -> Box<Error> {
    let kind = match error {
        StreamError::Slow(Exceeded::Silent) => ErrorType::WriteTimedout,
        _ => ErrorType::WriteError,
    };
    Error::because(kind, "while sending an answer", error).into_down()
}

#[async_trait]
impl Session for HandedSession {
    fn req_header(&self) -> &RequestHeader {
        self.session.req_header()
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.session.req_header_mut()
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        self.read().await
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        while self.read().await?.is_some() {}
        Ok(())
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, end: bool) -> Result<()> {
        let is_final = !head.status.is_informational();
        self.session.write_response_header(head, end)?;
        if is_final && let Some(stream) = self.session.take_response_body_writer() {
            self.answer.body = Some(StreamBody::new(stream, self.for_answer, &self.outgoing));
            self.answer.ended = end;
        }
        Ok(())
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, end: bool) -> Result<()> {
        self.write_response_header(Box::new(head.clone()), end)
            .await
    }

    async fn write_body(&mut self, mut data: Bytes, end: bool) -> Result<()> {
        if self.answer.ended {
            return Ok(());
        }
        let length = data.len();
        let answer = &mut self.answer;
        std::future::poll_fn(|cx| answer.poll_put(cx, &mut data, end))
            .await
            .map_err(failed)?;
        self.handed_over += length;
        Ok(())
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        let answer = &mut self.answer;
        if answer.ended {
            return Ok(());
        }
        let held = std::future::poll_fn(|cx| answer.poll_held(cx)).await;
        held.map_err(failed)?;
        answer.ended = true;
        match &mut answer.body {
            Some(body) => body.send_trailers(trailers).map_err(failed),
            None => Ok(()),
        }
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        let mut ends = false;
        for task in tasks {
            ends |= match task {
                HttpTask::Header(head, end) => {
                    self.write_response_header(head, end).await?;
                    end
                }
                HttpTask::Body(Some(data), end) if !data.is_empty() => {
                    self.write_body(data, end).await?;
                    end
                }
                HttpTask::Body(_, end) => end,
                HttpTask::Trailer(Some(trailers)) => {
                    self.write_trailers(*trailers).await?;
                    true
                }
                HttpTask::Trailer(None) | HttpTask::Done => true,
                HttpTask::Failed(error) => return Err(error),
                HttpTask::UpgradedBody(..) => {
                    let what = "HTTP/2 knows no upgrade";
                    return Error::e_explain(ErrorType::InternalError, what);
                }
            };
        }
        if ends {
            self.finish().await?;
        }
        Ok(ends)
    }

    // The limits say how long is waited, from the start.
    fn set_read_timeout(&mut self, _: Option<Duration>) {}

    fn get_read_timeout(&self) -> Option<Duration> {
        None
    }

    fn set_write_timeout(&mut self, _: Option<Duration>) {}

    fn get_write_timeout(&self) -> Option<Duration> {
        None
    }

    fn set_total_drain_timeout(&mut self, _: Option<Duration>) {}

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        None
    }

    fn request_summary(&self) -> String {
        self.session.request_summary()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.session.response_written()
    }

    /// Resets the stream: what the client has of the answer is not whole.
    async fn shutdown(&mut self, _: u32, _: &str) {
        if !self.answer.ended || !self.answer.held.is_empty() {
            self.session.shutdown();
        }
        self.answer = Answer::default();
    }

    fn is_body_done(&mut self) -> bool {
        self.session.is_body_done()
    }

    async fn finish(&mut self) -> Result<()> {
        // Without a head there is nothing to end: dropped, the stream is reset.
        match self.answer.body {
            Some(_) => self.write_body(Bytes::new(), true).await,
            None => Ok(()),
        }
    }

    fn is_body_empty(&mut self) -> bool {
        self.session.is_body_empty()
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        match no_body_expected || self.session.is_body_done() {
            true => self.watch().await,
            false => self.read().await,
        }
    }

    fn body_bytes_sent(&self) -> usize {
        self.handed_over
    }

    fn body_bytes_read(&self) -> usize {
        self.session.body_bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        self.session.digest()
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.session.digest_mut()
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.session.client_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.session.server_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.session.pseudo_raw_h1_request_header()
    }

    fn enable_retry_buffering(&mut self) {
        self.session.enable_retry_buffering();
    }

    fn retry_buffer_truncated(&self) -> bool {
        self.session.retry_buffer_truncated()
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        self.session.get_retry_buffer()
    }

    // There are no messages beside requests and answers, but Pingora insists on their ends.
    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>> {
        Some(Box::new(futures::stream::empty()))
    }

    fn restore_custom_message_reader(
        &mut self,
        _: Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>,
    ) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        Some(Box::new(()))
    }

    fn restore_custom_message_writer(&mut self, _: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }
}
