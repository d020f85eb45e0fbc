//! A write to the client that waits for it, as long as it takes something now and then.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pingora_core::protocols::Stream;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep};

/// Writing to one client.
pub struct Sending<'a> {
    stream: &'a mut Stream,
    patience: Duration,
    /// Made at the first stall only: a client that keeps up costs no timer.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Sending<'_> {
    /// Writes to `stream`; none of them may make no progress for longer than `patience`.
    pub fn new(stream: &mut Stream, patience: Duration) -> Sending<'_> {
        Sending {
            stream,
            patience,
            stalled: None,
        }
    }

    /// Writes `head`, then `body`; both become what is left of them.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut &[u8],
        body: &mut &[u8],
    ) -> Poll<io::Result<()>> {
        while !head.is_empty() || !body.is_empty() {
            let written = ready!(self.poll_pieces(cx, &[IoSlice::new(head), IoSlice::new(body)]))?;
            let of_head = written.min(head.len());
            *head = head.get(of_head..).unwrap_or_default();
            *body = body.get(written - of_head..).unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    }

    /// One write; how many bytes of the pieces it took, which is not none.
    pub fn poll_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut *self.stream).poll_write_vectored(cx, pieces) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(written)) => {
                self.stalled = None;
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let patience = self.patience;
                ready!(
                    self.stalled
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(
                            Instant::now() + patience
                        )))
                        .as_mut()
                        .poll(cx)
                );
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}
