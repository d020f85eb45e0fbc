//! The admin socket: bound at the start, served by a thread of its own.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::api::Api;

/// A bound socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Binds the socket, readable and writable for its owner and group only. What is left of a process that has gone is
    /// replaced; the socket of a living one is not.
    ///
    /// # Errors
    /// Another process answers there, or it cannot be bound.
    pub fn bind(path: &Path) -> io::Result<AdminSocket> {
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
        Ok(AdminSocket {
            listener,
            path: path.to_owned(),
        })
    }

    /// Lets another user own the socket's file, as privileges are given up.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::chown(&self.path, Some(user), Some(group))
    }

    /// Serves it on a thread of its own until the process ends. The file is removed when the answer is dropped.
    ///
    /// # Errors
    /// There is no thread, or no runtime for it.
    pub fn serve(self, api: Arc<Api>) -> io::Result<SocketFile> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let AdminSocket { listener, path } = self;
        std::thread::Builder::new()
            .name("admin".into())
            .spawn(move || runtime.block_on(accept(listener, api)))?;
        Ok(SocketFile(path))
    }
}

/// The socket's file, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A successor may have bound its own there already; then ours is gone.
        let _ = fs::remove_file(&self.0);
    }
}

async fn accept(listener: UnixListener, api: Arc<Api>) {
    let listener = match tokio::net::UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the admin socket cannot be served");
            return;
        }
    };
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the admin socket: a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let api = Arc::clone(&api);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let api = Arc::clone(&api);
                async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), answer);
            // Whoever went away knows it.
            let _ = tokio::time::timeout(LONGEST, served).await;
            drop(place);
        });
    }
}

/// Connections at once.
const CONNECTIONS: usize = 32;
/// Time for a request's head.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for a whole connection.
const LONGEST: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
