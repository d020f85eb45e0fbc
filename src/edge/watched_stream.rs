//! The client's connection below HTTP/2: whether anything waits to be sent, and since when.
//!
//! What the streams have handed to the connection belongs to no stream's task any more. A client that does not take it is
//! seen here, as the lane sees it while it writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::edge::pace::{Exceeded, Pace, Patience};

/// A connection whose writes are watched.
pub struct WatchedStream {
    stream: Stream,
    patience: Patience,
    pace: Pace,
    watch: Arc<Watch>,
}

/// What has been seen of a connection's writes.
#[derive(Debug, Default)]
pub struct Watch {
    is_behind: AtomicBool,
    exceeded: AtomicU8,
}

impl Watch {
    /// Whether something waits for the client to take it.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// What the client has exceeded, if anything.
    pub fn exceeded(&self) -> Option<Exceeded> {
        match self.exceeded.load(Ordering::Relaxed) {
            SILENT => Some(Exceeded::Silent),
            SLOW => Some(Exceeded::Slow),
            _ => None,
        }
    }

    fn exceed(&self, exceeded: Exceeded) -> io::Error {
        let told = match exceeded {
            Exceeded::Silent => SILENT,
            Exceeded::Slow => SLOW,
        };
        self.exceeded.store(told, Ordering::Relaxed);
        io::ErrorKind::TimedOut.into()
    }
}

impl WatchedStream {
    /// A connection whose client may take the time of `patience` for what waits at any one time.
    pub fn new(stream: Stream, patience: Patience) -> (WatchedStream, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        let watched = WatchedStream {
            stream,
            patience,
            pace: Pace::new(patience),
            watch: watch.clone(),
        };
        (watched, watch)
    }

    /// What came of a write.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(result) = result else {
            return self.poll_late(cx).map(Err);
        };
        let written = result?;
        let kept = self.pace.moved(written);
        Poll::Ready(kept.map_or_else(|slow| Err(self.watch.exceed(slow)), |()| Ok(written)))
    }

    /// The client is waited for; ready when that has taken too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.watch.is_behind() {
            // What it has taken before is no credit.
            self.pace = Pace::new(self.patience);
            self.watch.is_behind.store(true, Ordering::Relaxed);
        }
        let exceeded = ready!(self.pace.poll_silent(cx));
        Poll::Ready(self.watch.exceed(exceeded))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, data);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Poll::Ready(result) = Pin::new(&mut self.stream).poll_flush(cx) else {
            return self.poll_late(cx).map(Err);
        };
        if self.watch.is_behind() {
            self.watch.is_behind.store(false, Ordering::Relaxed);
        }
        Poll::Ready(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for WatchedStream {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(&mut *self.stream).await;
    }
}

impl UniqueID for WatchedStream {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for WatchedStream {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for WatchedStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for WatchedStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for WatchedStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

impl Peek for WatchedStream {}

impl std::fmt::Debug for WatchedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchedStream")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

const SILENT: u8 = 1;
const SLOW: u8 = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PATIENCE: Patience = Patience {
        silence: Duration::from_secs(30),
        rate: 0,
    };

    #[tokio::test(start_paused = true)]
    async fn it_is_behind_until_all_has_been_taken() {
        let (mut client, server) = tokio::io::duplex(1024);
        let (mut watched, watch) = WatchedStream::new(Box::new(server), PATIENCE);
        watched.write_all(&[b'x'; 1024]).await.expect("room");
        watched.flush().await.expect("flushed");
        assert!(!watch.is_behind());
        let mut taken = [0; 2048];
        let (sent, received) = tokio::join!(
            async {
                watched.write_all(&[b'y'; 1024]).await?;
                assert!(watch.is_behind());
                watched.flush().await
            },
            async {
                tokio::task::yield_now().await;
                client.read_exact(&mut taken).await
            }
        );
        sent.expect("sent");
        received.expect("received");
        assert!(!watch.is_behind() && watch.exceeded().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_told_from_one_that_is_slow() {
        let (_client, server) = tokio::io::duplex(16);
        let (mut watched, watch) = WatchedStream::new(Box::new(server), PATIENCE);
        let error = watched.write_all(&[b'x'; 32]).await.expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(watch.exceeded(), Some(Exceeded::Silent));

        let (mut client, server) = tokio::io::duplex(16);
        let patience = Patience {
            rate: 512,
            ..PATIENCE
        };
        let (mut watched, watch) = WatchedStream::new(Box::new(server), patience);
        let drips = async {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                if client.read_u8().await.is_err() {
                    return;
                }
            }
        };
        let sent = async {
            let sent = watched.write_all(&[b'x'; 4096]).await;
            drop(watched);
            sent
        };
        let (sent, ()) = tokio::join!(sent, drips);
        assert!(sent.is_err());
        assert_eq!(watch.exceeded(), Some(Exceeded::Slow));
    }
}
