//! The doors to the admin endpoints: bound at the start, served by a thread of their own.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use futures::future::OptionFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pingora_core::server::ShutdownWatch;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::Peer;
use super::api::Api;
use crate::token::Token;
use crate::upgrade::Sockets;

/// Bound doors. The socket's file is removed when what serves them is dropped.
#[derive(Default)]
pub struct AdminDoors {
    socket: Option<(UnixListener, PathBuf)>,
    tcp: Option<std::net::TcpListener>,
    token: Option<Token>,
}

impl AdminDoors {
    /// Binds the socket, readable and writable for its owner and group only. What is left of a process that has gone is
    /// replaced; the socket of a living one is not.
    ///
    /// # Errors
    /// Another process answers there, or it cannot be bound.
    pub fn bind_socket(&mut self, path: &Path) -> io::Result<()> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if UnixStream::connect(path).is_ok() {
                    return Err(error);
                }
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        self.socket = Some((listener, path.to_owned()));
        Ok(())
    }

    /// Takes the listening socket at this path, whose file is there.
    pub fn add_socket(&mut self, listener: UnixListener, path: &Path) {
        self.socket = Some((listener, path.to_owned()));
    }

    /// Keeps the sockets for a successor.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn keep(&self, kept: &mut Sockets) -> io::Result<()> {
        if let Some((listener, _)) = &self.socket {
            kept.keep(listener)?;
        }
        match &self.tcp {
            Some(listener) => kept.keep(listener),
            None => Ok(()),
        }
    }

    /// Takes a listener whose clients say `token`, or ask only for what is free.
    pub fn add_tcp(&mut self, listener: std::net::TcpListener, token: Option<Token>) {
        self.tcp = Some(listener);
        self.token = token;
    }

    /// Lets another user own the socket's file, as privileges are given up.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        match &self.socket {
            Some((_, path)) => std::os::unix::fs::chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    /// Serves them on a thread of its own until `stop`: when a successor serves. The file is removed when the answer's first part is
    /// dropped; its second part ends when everybody has been answered.
    ///
    /// # Errors
    /// There is no thread, or no runtime for it.
    pub fn serve(
        self,
        api: Arc<Api>,
        stop: ShutdownWatch,
    ) -> io::Result<(SocketFile, Receiver<()>)> {
        let AdminDoors { socket, tcp, token } = self;
        let path = socket.as_ref().map(|(_, path)| path.clone());
        if socket.is_none() && tcp.is_none() {
            return Ok((SocketFile(None), std::sync::mpsc::channel().1));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Each door has room of its own: whoever may only knock at one keeps nobody from the other.
        let serving = |patience| {
            Arc::new(Serving {
                api: api.clone(),
                token: token.clone(),
                room: Arc::new(Semaphore::new(CONNECTIONS)),
                patience,
            })
        };
        let (of_unix, of_tcp) = (serving(PATIENCE), serving(TCP_PATIENCE));
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        std::thread::Builder::new()
            .name("admin".into())
            .spawn(move || {
                // Dropped with the thread's end.
                let _ends = ends;
                runtime.block_on(async {
                    let unix = socket
                        .map(|(listener, _)| accept_unix(listener, of_unix.clone(), stop.clone()));
                    let tcp = tcp.map(|listener| accept_tcp(listener, of_tcp.clone(), stop));
                    tokio::join!(OptionFuture::from(unix), OptionFuture::from(tcp));
                    // Who is being answered is answered to the end.
                    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
                    let _ = of_unix.room.acquire_many(all).await;
                    let _ = of_tcp.room.acquire_many(all).await;
                });
            })?;
        Ok((SocketFile(path), ended))
    }
}

/// The socket's file, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(Option<PathBuf>);

impl SocketFile {
    /// Leaves the file to a successor that has bound its own there.
    pub fn leave(&mut self) {
        self.0 = None;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

struct Serving {
    api: Arc<Api>,
    token: Option<Token>,
    room: Arc<Semaphore>,
    /// Time for a request's head.
    patience: Duration,
}

async fn accept_unix(listener: UnixListener, serving: Arc<Serving>, stop: ShutdownWatch) {
    match tokio::net::UnixListener::from_std(listener) {
        Err(error) => tracing::error!(%error, "the admin socket cannot be served"),
        Ok(listener) => {
            let next = async || Ok((listener.accept().await?.0, Peer::Unix));
            serving.accept(next, stop).await;
        }
    }
}

async fn accept_tcp(listener: std::net::TcpListener, serving: Arc<Serving>, stop: ShutdownWatch) {
    match tokio::net::TcpListener::from_std(listener) {
        Err(error) => tracing::error!(%error, "the admin address cannot be served"),
        Ok(listener) => {
            let next = async || {
                let (stream, address) = listener.accept().await?;
                Ok((stream, Peer::Tcp(address.ip())))
            };
            serving.accept(next, stop).await;
        }
    }
}

impl Serving {
    /// Accepts until a successor has taken over.
    async fn accept<S>(
        self: &Arc<Self>,
        next: impl AsyncFn() -> io::Result<(S, Peer)>,
        mut stop: ShutdownWatch,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        loop {
            let Ok(place) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                accepted = next() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.begin(stream, peer, place),
                Err(error) => {
                    tracing::warn!(%error, "an administrator's connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn begin<S>(self: &Arc<Self>, stream: S, peer: Peer, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let serving = Arc::clone(self);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let serving = Arc::clone(&serving);
                async move {
                    let answer = serving
                        .api
                        .answer(request, peer, serving.token.as_ref())
                        .await;
                    Ok::<_, std::convert::Infallible>(answer)
                }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(serving.patience)
                .serve_connection(TokioIo::new(stream), answer);
            // Whoever went away knows it.
            let _ = tokio::time::timeout(LONGEST, served).await;
            drop(place);
        });
    }
}

/// Connections at once.
const CONNECTIONS: usize = 32;
/// Time for a request's head over TCP, where everybody may knock.
const TCP_PATIENCE: Duration = Duration::from_secs(3);
/// The same over the socket.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for a whole connection.
const LONGEST: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
