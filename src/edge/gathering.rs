//! The writes of an HTTP/2 connection, gathered: what its streams have to say in one turn leaves in one write.
//!
//! `h2` hands over each frame with content by itself and flushes after it, so that ten small files asked for together would
//! cost ten system calls, and ten records of TLS.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The stream, as `h2` has it. Nothing but the connection's own task uses it.
pub struct Gathering(Arc<Mutex<Inner>>);

/// The same, for who drives the connection.
pub struct Turns(Arc<Mutex<Inner>>);

struct Inner {
    stream: Stream,
    waiting: Vec<u8>,
    /// Bytes of it that have left.
    left: usize,
    is_flushed: bool,
    gathers: bool,
}

impl Turns {
    /// Both ends of `stream`. Nothing is gathered before [`begin`](Self::begin).
    pub fn of(stream: Stream) -> (Gathering, Turns) {
        let inner = Inner {
            stream,
            waiting: Vec::new(),
            left: 0,
            is_flushed: true,
            gathers: false,
        };
        let shared = Arc::new(Mutex::new(inner));
        (Gathering(shared.clone()), Turns(shared))
    }

    /// From now on what is written waits for the end of the turn, or until there is enough of it.
    pub fn begin(&self) {
        self.0.lock().gathers = true;
    }

    /// Sends what was gathered: to be called when the connection has no more to do for now.
    ///
    /// # Errors
    /// The client has gone, or takes nothing for too long.
    pub fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().poll_send(cx)
    }
}

impl Inner {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.waiting.get(self.left..).filter(|it| !it.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.left += sent,
            }
        }
        if self.left > 0 {
            self.left = 0;
            give_back(std::mem::take(&mut self.waiting));
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Gathering {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, out)
    }
}

impl AsyncWrite for Gathering {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock();
        if !inner.gathers {
            return Pin::new(&mut inner.stream).poll_write_vectored(cx, slices);
        }
        inner.is_flushed = false;
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if inner.waiting.len() + total > GATHERED {
            ready!(inner.poll_send(cx))?;
        }
        if total > GATHERED {
            return Pin::new(&mut inner.stream).poll_write_vectored(cx, slices);
        }
        if inner.waiting.capacity() == 0 {
            inner.waiting = spare();
        }
        for slice in slices {
            inner.waiting.extend_from_slice(slice);
        }
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        match inner.gathers {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut inner.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_send(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Gathering {
    async fn shutdown(&mut self) {
        let sent = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_shutdown(cx));
        // A client that has gone is no news.
        let _ = sent.await;
    }
}

impl UniqueID for Gathering {
    fn id(&self) -> UniqueIDType {
        self.0.lock().stream.id()
    }
}

impl Ssl for Gathering {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.0.lock().stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.0.lock().stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for Gathering {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.0.lock().stream.get_timing_digest()
    }
}

impl GetProxyDigest for Gathering {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.0.lock().stream.get_proxy_digest()
    }
}

impl GetSocketDigest for Gathering {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.0.lock().stream.get_socket_digest()
    }
}

impl Peek for Gathering {}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathering").finish_non_exhaustive()
    }
}

fn spare() -> Vec<u8> {
    let kept = SPARE.with_borrow_mut(Option::take);
    kept.unwrap_or_else(|| Vec::with_capacity(GATHERED))
}

/// Connections that wait for their clients keep no buffer.
fn give_back(mut buffer: Vec<u8>) {
    buffer.clear();
    SPARE.set(Some(buffer));
}

thread_local! {
    static SPARE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Bytes of one write.
const GATHERED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_is_said_in_one_turn_leaves_at_its_end() {
        let (mut client, server) = tokio::io::duplex(1024);
        let (mut stream, turns) = Turns::of(Box::new(server));
        stream.write_all(b"at once").await.expect("room");
        let mut seen = [0; 64];
        assert_eq!(client.read(&mut seen).await.expect("bytes"), 7);
        turns.begin();
        for piece in [&b"one"[..], b" two", b" three"] {
            stream.write_all(piece).await.expect("room");
            stream.flush().await.expect("flushed");
            assert!(client.read(&mut seen).now_or_never().is_none());
        }
        poll_fn(|cx| turns.poll_end(cx)).await.expect("sent");
        assert_eq!(client.read(&mut seen).await.expect("bytes"), 13);
        assert_eq!(&seen[..13], b"one two three");
    }

    #[tokio::test]
    async fn a_client_that_is_slow_gets_all_of_it_in_order() {
        let (mut client, server) = tokio::io::duplex(1000);
        let (mut stream, turns) = Turns::of(Box::new(server));
        turns.begin();
        let content: Vec<u8> = (0..500_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let sent = async {
            // Shorter and longer ones than what is gathered.
            for piece in content.chunks(7_001).chain([&content[..200_000]]) {
                stream.write_all(piece).await.expect("sent");
            }
            AsyncWriteExt::shutdown(&mut stream).await.expect("ended");
        };
        let mut seen = Vec::new();
        let (read, ()) = tokio::join!(client.read_to_end(&mut seen), sent);
        assert_eq!(read.expect("all"), 700_000);
        assert!(seen == [&content[..], &content[..200_000]].concat());
        assert_eq!(turns.0.lock().waiting.capacity(), 0, "no buffer is kept");
    }

    #[tokio::test]
    async fn a_client_that_has_gone_is_told_of() {
        let (client, server) = tokio::io::duplex(1000);
        let (mut stream, turns) = Turns::of(Box::new(server));
        turns.begin();
        drop(client);
        stream.write_all(b"too late").await.expect("gathered");
        assert!(poll_fn(|cx| turns.poll_end(cx)).await.is_err());
    }
}
