//! Writes an answer on HTTP/1: head, date and bytes in memory leave in one `writev`, files follow by positional reads.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use pingora_core::protocols::Stream;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep};

use crate::edge::date::{Persistence, head_end};
use crate::site::{Answer, Body, FileSpan, Part};

/// Why an answer was not written whole. Either way the connection cannot be used again.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The client has gone, or takes nothing for longer than `limits.send`.
    #[error("the client: {0}")]
    Client(#[source] io::Error),
    /// The file could not be read, or has become shorter than the head has promised.
    #[error("the file: {0}")]
    File(#[source] io::Error),
}

/// Writes `answer`, with the date of `seconds` (Unix time). Each write may make no progress for `patience` at most. The
/// content's bytes are added to `written` as they leave.
///
/// # Errors
/// See [`WriteError`].
pub async fn write_answer(
    stream: &mut Stream,
    answer: &Answer,
    seconds: i64,
    persistence: Persistence,
    patience: Duration,
    written: &mut u64,
) -> Result<(), WriteError> {
    let end = head_end(seconds, persistence);
    let mut sender = Sender {
        stream,
        head: [answer.head.clone(), end],
        patience,
        written,
    };
    match &answer.body {
        Body::Empty => {}
        Body::Memory(bytes) => sender.send(bytes).await?,
        Body::File(span) => sender.send_file(span).await?,
        Body::Parts(parts) => {
            for part in parts {
                match part {
                    Part::Memory(bytes) => sender.send(bytes).await?,
                    Part::File(span) => sender.send_file(span).await?,
                }
            }
        }
    }
    if sender.head.iter().any(|part| !part.is_empty()) {
        sender.send(&[]).await?;
    }
    Ok(())
}

struct Sender<'a> {
    stream: &'a mut Stream,
    /// What is left of the head; it leaves with the first bytes of the content.
    head: [Bytes; 2],
    patience: Duration,
    written: &'a mut u64,
}

impl Sender<'_> {
    async fn send_file(&mut self, span: &FileSpan) -> Result<(), WriteError> {
        let mut sent = 0;
        while sent < span.length {
            let want =
                usize::try_from(span.length - sent).map_or(FILE_CHUNK, |left| left.min(FILE_CHUNK));
            let chunk = span
                .file
                .read_at(span.first + sent, want)
                .await
                .map_err(WriteError::File)?;
            if chunk.len() < want {
                // The head has promised more than there is: nothing is padded, the client sees the cut.
                return Err(WriteError::File(io::ErrorKind::UnexpectedEof.into()));
            }
            self.send(&chunk).await?;
            sent += want as u64;
        }
        Ok(())
    }

    /// Sends what is left of the head, then `body`.
    async fn send(&mut self, body: &[u8]) -> Result<(), WriteError> {
        let mut sending = Sending {
            stream: self.stream,
            head: &mut self.head,
            body,
            patience: self.patience,
            stalled: None,
        };
        let result = std::future::poll_fn(|cx| sending.poll(cx)).await;
        *self.written += (body.len() - sending.body.len()) as u64;
        result.map_err(WriteError::Client)
    }
}

struct Sending<'a> {
    stream: &'a mut Stream,
    head: &'a mut [Bytes; 2],
    body: &'a [u8],
    patience: Duration,
    /// Made at the first stall only: a client that keeps up costs no timer.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Sending<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let slices = [
                IoSlice::new(&self.head[0]),
                IoSlice::new(&self.head[1]),
                IoSlice::new(self.body),
            ];
            if slices.iter().all(|slice| slice.is_empty()) {
                return Poll::Ready(Ok(()));
            }
            match Pin::new(&mut *self.stream).poll_write_vectored(cx, &slices) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.sent(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(self.poll_patience(cx));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }

    fn sent(&mut self, mut written: usize) {
        for part in self.head.iter_mut() {
            let of_part = written.min(part.len());
            let _ = part.split_to(of_part);
            written -= of_part;
        }
        self.body = self.body.get(written..).unwrap_or_default();
        self.stalled = None;
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        self.stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)))
            .as_mut()
            .poll(cx)
    }
}

/// Bytes of a file in memory at a time for one client.
const FILE_CHUNK: usize = 128 * 1024;
