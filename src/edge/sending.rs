//! A write to the client that waits for it, as long as it takes something now and then.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pingora_core::protocols::Stream;
use tokio::io::AsyncWrite;

use crate::edge::pace::Pace;

/// Writing to one client.
pub struct Sending<'a> {
    stream: &'a mut Stream,
    pace: &'a mut Pace,
}

impl<'a> Sending<'a> {
    /// Writes to `stream`, as long as the client keeps the pace.
    pub fn new(stream: &'a mut Stream, pace: &'a mut Pace) -> Sending<'a> {
        Sending { stream, pace }
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
                let kept = self.pace.moved(written).map(|()| written);
                Poll::Ready(kept.map_err(|_| io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                ready!(self.pace.poll_silent(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}
