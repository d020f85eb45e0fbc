//! A socket to the responder.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BufMut;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::net::{TcpStream, UnixStream};

use super::settings::Address;

/// An open connection. Its calls take `&self`, so that STDIN is written while STDOUT is read.
#[derive(Debug)]
pub enum Connection {
    /// By a Unix socket.
    Unix(UnixStream),
    /// By TCP.
    Tcp(TcpStream),
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Those of connect(2). A Unix socket whose backlog is full says EAGAIN at once.
    pub async fn open(address: &Address) -> io::Result<Connection> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).await.map(Connection::Unix),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Connection::Tcp(stream))
            }
        }
    }

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// Those of the runtime's reactor.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Connection::Unix(stream) => stream.readable().await,
            Connection::Tcp(stream) => stream.readable().await,
        }
    }

    /// Waits until there may be room to write.
    ///
    /// # Errors
    /// Those of the runtime's reactor.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Connection::Unix(stream) => stream.writable().await,
            Connection::Tcp(stream) => stream.writable().await,
        }
    }

    /// Reads into what room `buffer` has; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing yet, and those of recv(2).
    pub fn try_read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.try_read_buf(buffer),
            Connection::Tcp(stream) => stream.try_read_buf(buffer),
        }
    }

    /// Writes what fits of `slices`.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room yet, and those of send(2).
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.try_write_vectored(slices),
            Connection::Tcp(stream) => stream.try_write_vectored(slices),
        }
    }

    /// Whether the responder has neither closed the connection nor said anything on it: asked of
    /// the kernel before a kept connection is used again.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0_u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self, &mut byte, flags);
        matches!(peeked, Err(Errno::AGAIN))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Unix(stream) => stream.as_fd(),
            Connection::Tcp(stream) => stream.as_fd(),
        }
    }
}
