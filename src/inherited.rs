//! Listening sockets that this process was given at its start: by systemd (socket activation, `LISTEN_FDS`), or by the process
//! that it takes over from ([`upgrade`](crate::upgrade)).
//!
//! The second place with `unsafe`: what is inherited is known by number only. Each number is taken over once, at the start,
//! before anything else has opened a descriptor that could be meant.

#![allow(
    unsafe_code,
    reason = "inherited descriptors are numbers; see the module's text"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::FileType;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{SocketAddrAny, SocketType, getsockname};

/// What was inherited and is not used yet.
#[derive(Debug, Default)]
pub struct Inherited {
    tcp: Vec<(SocketAddr, TcpListener)>,
    unix: Vec<(PathBuf, UnixListener)>,
    /// Where to say that this process is ready, to the one it takes over from.
    pub predecessor: Option<Predecessor>,
}

impl Inherited {
    /// Takes over what the environment names. To be called once, first of all.
    #[must_use]
    pub fn take() -> Inherited {
        let mut inherited = Inherited::default();
        let activated = sd_notify::listen_fds().into_iter().flatten();
        let handed = std::env::var(SOCKETS).unwrap_or_default();
        let handed = handed.split(',').filter_map(|number| number.parse().ok());
        for number in activated.chain(handed) {
            if let Err(error) = inherited.add(number) {
                tracing::warn!(%error, "the inherited descriptor {number} is of no use");
            }
        }
        let ready = std::env::var(READY)
            .ok()
            .and_then(|number| number.parse().ok());
        let ready = ready.and_then(own).filter(is_pipe);
        inherited.predecessor = ready.map(|pipe| Predecessor(File::from(pipe)));
        for name in [SOCKETS, READY] {
            // SAFETY: no other thread runs yet.
            unsafe { std::env::remove_var(name) };
        }
        inherited
    }

    fn add(&mut self, number: RawFd) -> io::Result<()> {
        let socket = own(number).ok_or(io::ErrorKind::InvalidInput)?;
        if socket_type(&socket)? != SocketType::STREAM || !socket_acceptconn(&socket)? {
            return Err(io::Error::other("it is no listening socket"));
        }
        let address = getsockname(&socket)?;
        if let Ok(address) = SocketAddr::try_from(address.clone()) {
            let listener = TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            self.tcp.push((address, listener));
            return Ok(());
        }
        let path = path_of(&address).ok_or_else(|| io::Error::other("it has no address"))?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        self.unix.push((path, listener));
        Ok(())
    }

    /// The socket that listens on this address.
    pub fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let place = self.tcp.iter().position(|(known, _)| *known == address)?;
        Some(self.tcp.swap_remove(place).1)
    }

    /// The socket that listens at this path.
    pub fn unix(&mut self, path: &std::path::Path) -> Option<UnixListener> {
        let place = self.unix.iter().position(|(known, _)| known == path)?;
        Some(self.unix.swap_remove(place).1)
    }

    /// Closes what nobody has asked for, and names it in the log.
    pub fn close(self) {
        for (address, _) in &self.tcp {
            tracing::warn!("the inherited socket of {address} is in no listen: it is closed");
        }
        for (path, _) in &self.unix {
            tracing::warn!(
                "the inherited socket {} is of no use: it is closed",
                path.display()
            );
        }
    }
}

/// The process that this one takes over from.
#[derive(Debug)]
pub struct Predecessor(File);

impl Predecessor {
    /// Tells it that this process serves.
    pub fn tell_ready(mut self) {
        // One that has gone needs not be told.
        let _ = self.0.write_all(b"ready");
    }
}

/// Takes over an open descriptor of this number; none: there is no such.
fn own(number: RawFd) -> Option<OwnedFd> {
    if number < 3 {
        return None;
    }
    // SAFETY: whoever started this process has opened the descriptor for it, and named it to nobody else; it is asked for once.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    match fcntl_setfd(owned.as_fd(), FdFlags::CLOEXEC) {
        Ok(()) => Some(owned),
        Err(_) => {
            // Not open: there is nothing to close either.
            std::mem::forget(owned);
            None
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "looks at a descriptor that is no file of a tree"
)]
fn is_pipe(descriptor: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
    kind == Ok(FileType::Fifo)
}

fn path_of(address: &SocketAddrAny) -> Option<PathBuf> {
    let address = rustix::net::SocketAddrUnix::try_from(address.clone()).ok()?;
    let path = address.path()?;
    use std::os::unix::ffi::OsStringExt as _;
    Some(OsString::from_vec(path.to_bytes().to_vec()).into())
}

/// Numbers of sockets, with commas between them.
pub const SOCKETS: &str = "NOSTAT_SOCKETS";
/// The number of a pipe to say on that the successor is ready.
pub const READY: &str = "NOSTAT_READY";
