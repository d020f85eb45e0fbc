//! The stream that the lane lends to Pingora: it yields exactly one request, then only watches the socket.
//!
//! Pingora reads ahead and probes an idle connection with one-byte reads; both would eat the start of the client's next
//! request. So Pingora never gets the socket itself but a [`HandedStream`], which gives out the head, then the body by
//! its framing and not one byte more. What the client sends early is kept here, at most [`EARLY_LIMIT`] bytes. When
//! Pingora lets go of the stream, in whatever way, socket and kept bytes come home to the lane through [`Home`]. A stream
//! that has become a [tunnel](crate::edge::tunnel) gives out all that comes, and is no request boundary any more.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;

use crate::edge::held_back::Share;
use crate::edge::pace::{Pace, Patience};
use crate::edge::socket;
use crate::edge::tunnel::{Silent, Tunnel};
use crate::request::chunked::{ChunkError, ChunkedFraming};
use crate::request::head::Framing;

/// What travels with the connection to Pingora and back.
pub struct Carried {
    /// The client's connection.
    pub stream: Stream,
    /// Bytes read from the client and not yet given out: the body's first bytes, later the next requests.
    pub incoming: BytesMut,
    /// The client has sent its end (FIN).
    pub ended: bool,
    /// The body that Pingora was given is whole, so that `incoming` begins with the next request.
    pub at_request_boundary: bool,
    outgoing: BytesMut,
    /// Room for what is held back instead of waiting for the client.
    share: Option<Share>,
    /// How the body comes in.
    pub body_pace: Pace,
    /// How the answer is taken.
    pub answer_pace: Pace,
    /// When the socket is asked for a reset next.
    next_look: Option<Pin<Box<Sleep>>>,
}

impl Carried {
    /// A connection whose next bytes, some of them read already, are a request's body. The client may take the
    /// time of `for_body` to send it, and that of `for_answer` to take the answer.
    pub fn new(
        stream: Stream,
        incoming: BytesMut,
        for_body: Patience,
        for_answer: Patience,
    ) -> Carried {
        Carried {
            stream,
            incoming,
            ended: false,
            at_request_boundary: true,
            outgoing: BytesMut::new(),
            share: None,
            body_pace: Pace::new(for_body),
            answer_pace: Pace::new(for_answer),
            next_look: None,
        }
    }

    /// Holds an answer for the client, as far as `share` has room, instead of waiting for it: others wait for the page that is
    /// made of the answer, and a slow client must not hold it up.
    #[must_use]
    pub fn holding(self, share: Share) -> Carried {
        Carried {
            share: Some(share),
            ..self
        }
    }

    /// Whether the client is not waited for.
    fn holds(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_open)
    }

    /// Sends what the socket takes at once.
    fn send_some(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.poll_send(cx, &[]) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => break,
            };
        }
        Ok(())
    }

    /// Writes out what is still held back.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            ready!(self.poll_send(cx, &[]))?;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Waits for a reset where reading would not tell of it: asks the socket now and then.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let next_look = self
                .next_look
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_EVERY)));
            ready!(next_look.as_mut().poll(cx));
            self.next_look = None;
            if let Some(error) = socket::pending_error(&self.stream) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// One write of what was gathered and of `slices`. Returns how many bytes of `slices` went out, perhaps none.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let held = self.outgoing.len();
        let mut all = [io::IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let with_held = std::iter::once(&self.outgoing[..])
            .chain(slices.iter().map(|slice| &slice[..]))
            .filter(|slice| !slice.is_empty());
        for (place, slice) in all.iter_mut().zip(with_held) {
            *place = io::IoSlice::new(slice);
            count += 1;
        }
        let out = all.get(..count).unwrap_or_default();
        let Poll::Ready(result) = Pin::new(&mut self.stream).poll_write_vectored(cx, out) else {
            ready!(self.answer_pace.poll_silent(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        let written = result?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.outgoing.advance(written.min(held));
        if let Some(share) = &mut self.share {
            share.leave(self.outgoing.len());
        }
        let kept = self.answer_pace.moved(written);
        kept.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        Poll::Ready(Ok(written.saturating_sub(held)))
    }
}

/// Where a [`HandedStream`] leaves what it carried when it is dropped.
#[derive(Clone, Default)]
pub struct Home(Arc<Mutex<Option<Carried>>>);

impl Home {
    /// What came back; `None` while Pingora still holds the stream.
    pub fn take(&self) -> Option<Carried> {
        self.0.lock().take()
    }
}

/// One request for Pingora to read, and the way of its answer.
pub struct HandedStream {
    carried: Option<Carried>,
    head: Bytes,
    body: Remaining,
    on_end: OnEnd,
    tunnel: Option<Tunnel>,
    home: Home,
}

/// What the client's FIN means while its request is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// It has nothing more to send, and still wants the answer (WordPress' cron calls itself so).
    Answer,
    /// It has gone (`client_abort: close`).
    Abort,
}

enum Remaining {
    Nothing,
    Length(u64),
    Chunked(ChunkedFraming),
}

impl HandedStream {
    /// Lends `carried` out: first `head` is read, then a body of `framing`, chunks with at most `most_body` bytes in all.
    pub fn lend(
        mut carried: Carried,
        head: Bytes,
        framing: Framing,
        most_body: u64,
        on_end: OnEnd,
    ) -> (HandedStream, Home) {
        let body = match framing {
            Framing::None | Framing::Length(0) => Remaining::Nothing,
            Framing::Length(length) => Remaining::Length(length),
            Framing::Chunked => Remaining::Chunked(ChunkedFraming::new(most_body)),
        };
        carried.at_request_boundary = matches!(body, Remaining::Nothing);
        let home = Home::default();
        let stream = HandedStream {
            carried: Some(carried),
            head,
            body,
            on_end,
            tunnel: None,
            home: home.clone(),
        };
        (stream, home)
    }

    /// Lets the stream become a tunnel when that is granted.
    pub fn may_become(&mut self, tunnel: Tunnel) {
        self.tunnel = Some(tunnel);
    }

    fn is_tunnel(&mut self) -> bool {
        self.tunnel.as_mut().is_some_and(Tunnel::is_open)
    }

    fn carried(&self) -> &Carried {
        self.carried
            .as_ref()
            .expect("invariant: carried leaves only in drop")
    }

    fn carried_mut(&mut self) -> &mut Carried {
        self.carried
            .as_mut()
            .expect("invariant: carried leaves only in drop")
    }

    /// The body's next bytes. `Ready` with nothing put into `out` means that the client ended within it.
    fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let carried = self
            .carried
            .as_mut()
            .expect("invariant: carried leaves only in drop");
        if carried.incoming.is_empty() {
            let Poll::Ready(read) = read_more(carried, cx, READ_SIZE) else {
                // Pingora sees to silence.
                carried.body_pace.waits();
                return Poll::Pending;
            };
            let read = read?;
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            let kept = carried.body_pace.moved(read);
            kept.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        }
        let offered = carried.incoming.len().min(out.remaining());
        let chunk = carried.incoming.get(..offered).unwrap_or_default();
        let (taken, done) = match &mut self.body {
            Remaining::Nothing => (0, true),
            Remaining::Length(left) => {
                let taken = usize::try_from(*left).map_or(offered, |left| offered.min(left));
                *left -= taken as u64;
                (taken, *left == 0)
            }
            Remaining::Chunked(framing) => {
                let advanced = framing.advance(chunk).map_err(refused_chunk)?;
                (advanced.consumed, advanced.done)
            }
        };
        out.put_slice(chunk.get(..taken).unwrap_or_default());
        carried.incoming.advance(taken);
        if done {
            self.body = Remaining::Nothing;
            carried.at_request_boundary = true;
        }
        Poll::Ready(Ok(()))
    }

    /// All that comes is given out, what came early first. Silence for too long is an end.
    fn poll_tunnel(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let carried = self.carried_mut();
        // There is no request on this connection any more.
        carried.at_request_boundary = false;
        if !carried.incoming.is_empty() {
            let early = carried.incoming.len().min(out.remaining());
            out.put_slice(&carried.incoming.split_to(early));
            return Poll::Ready(Ok(()));
        }
        if carried.ended {
            return Poll::Ready(Ok(()));
        }
        let before = out.filled().len();
        let read = Pin::new(&mut carried.stream).poll_read(cx, out);
        if read.is_ready() {
            carried.ended = out.filled().len() == before;
        }
        let Some(tunnel) = &mut self.tunnel else {
            return read;
        };
        match read {
            Poll::Ready(result) => {
                tunnel.moved();
                Poll::Ready(result)
            }
            Poll::Pending => tunnel.poll_over(cx).map(Ok),
        }
    }

    /// Nothing more is given out: keeps what comes early, and sees an end or a reset.
    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let on_end = self.on_end;
        let carried = self.carried_mut();
        loop {
            if carried.ended && on_end == OnEnd::Abort {
                return Poll::Ready(Ok(()));
            }
            if carried.ended || carried.incoming.len() >= EARLY_LIMIT {
                return carried.poll_reset(cx);
            }
            let room = EARLY_LIMIT - carried.incoming.len();
            // Hardly ever is there anything, so no memory is taken for it beforehand.
            let mut early = [0; LOOKED_AT];
            let mut early = ReadBuf::new(early.get_mut(..room.min(LOOKED_AT)).unwrap_or_default());
            ready!(Pin::new(&mut carried.stream).poll_read(cx, &mut early))?;
            carried.incoming.extend_from_slice(early.filled());
            carried.ended = early.filled().is_empty();
        }
    }
}

impl Drop for HandedStream {
    fn drop(&mut self) {
        *self.home.0.lock() = self.carried.take();
    }
}

impl AsyncRead for HandedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.head.is_empty() {
            let taken = this.head.len().min(out.remaining());
            out.put_slice(&this.head.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        if this.is_tunnel() {
            return this.poll_tunnel(cx, out);
        }
        if let Some(tunnel) = &mut this.tunnel
            && tunnel.poll_over(cx).is_ready()
        {
            let error = io::Error::new(io::ErrorKind::TimedOut, Silent);
            return Poll::Ready(Err(error));
        }
        match this.body {
            Remaining::Nothing => this.poll_watch(cx),
            _ => this.poll_body(cx, out),
        }
    }
}

impl AsyncWrite for HandedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(data)])
    }

    /// Small writes are gathered, as Pingora writes head and body apart; a large one goes out with what was gathered. In a
    /// tunnel nothing waits.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let is_tunnel = self.is_tunnel();
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.moved();
        }
        let carried = self.carried_mut();
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if !is_tunnel && carried.outgoing.len() + total <= WRITE_BUFFER {
            for slice in slices {
                carried.outgoing.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(total));
        }
        loop {
            match carried.poll_send(cx, slices) {
                Poll::Ready(sent) => match sent? {
                    0 => {}
                    sent => return Poll::Ready(Ok(sent)),
                },
                Poll::Pending
                    if carried
                        .share
                        .as_mut()
                        .is_some_and(|share| share.take(total)) =>
                {
                    for slice in slices {
                        carried.outgoing.extend_from_slice(slice);
                    }
                    return Poll::Ready(Ok(total));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What may be held back leaves when the lane has the connection again.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let carried = self.carried_mut();
        match carried.holds() {
            true => Poll::Ready(carried.send_some(cx)),
            false => carried.poll_flush(cx),
        }
    }

    /// Only flushes: closing is the lane's, which knows what the client may still be sending.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

#[async_trait]
impl Shutdown for HandedStream {
    async fn shutdown(&mut self) {
        // A client that has gone is no news: the lane sees it at its next read.
        let _ = self.carried_mut().flush().await;
    }
}

impl UniqueID for HandedStream {
    fn id(&self) -> UniqueIDType {
        self.carried().stream.id()
    }
}

impl Ssl for HandedStream {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.carried().stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.carried().stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for HandedStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.carried().stream.get_timing_digest()
    }
}

impl GetProxyDigest for HandedStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.carried().stream.get_proxy_digest()
    }
}

impl GetSocketDigest for HandedStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.carried().stream.get_socket_digest()
    }
}

impl Peek for HandedStream {}

impl std::fmt::Debug for HandedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandedStream")
            .field("head", &self.head.len())
            .finish_non_exhaustive()
    }
}

fn refused_chunk(error: ChunkError) -> io::Error {
    let kind = match error {
        ChunkError::TooLarge => io::ErrorKind::FileTooLarge,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}

/// Reads up to `most` bytes onto `incoming`; 0 is the client's end.
fn read_more(carried: &mut Carried, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
    carried.incoming.reserve(most);
    let mut room = (&mut carried.incoming).limit(most);
    poll_read_buf(Pin::new(&mut carried.stream), cx, &mut room)
}

/// Early bytes kept while a request is being answered; beyond it the client waits in its own socket buffer.
pub const EARLY_LIMIT: usize = 16 * 1024;
const READ_SIZE: usize = 8 * 1024;
/// Early bytes read at a time.
const LOOKED_AT: usize = 1024;
/// Head and a short body leave in one write.
const WRITE_BUFFER: usize = 4 * 1024;
const MAX_SLICES: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
