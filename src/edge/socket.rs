//! What is asked of a connection's socket itself: to take bytes at once, whether it has failed, and to reset it.
//!
//! The one place with `unsafe`. Pingora gives a connection's descriptor as a number only. It is borrowed here for the time
//! of one call, during which the connection, which owns the descriptor, is borrowed too and so stays open.

#![allow(
    unsafe_code,
    reason = "a raw descriptor becomes a borrowed one; see the module's text"
)]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use pingora_core::protocols::Stream;
use rustix::fs::sendfile;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use socket2::SockRef;

/// Whether bytes may be put into the socket itself, since nothing on the way encrypts them or holds some back.
pub fn is_bare(stream: &Stream) -> bool {
    stream.id() >= 0 && stream.get_ssl_digest().is_none()
}

/// Puts as much of `bytes` into a bare stream's socket as it takes now; `more` says that what follows may leave in the same
/// packet.
///
/// One buffer costs the kernel less than a list of buffers with a single one in it, and calling it here less than through
/// the runtime, which is left to do the waiting.
///
/// # Errors
/// `WouldBlock` when it takes nothing now, and those of the socket.
pub fn put(stream: &Stream, bytes: &[u8], more: bool) -> io::Result<usize> {
    let mut flags = AT_ONCE;
    flags.set(SendFlags::MORE, more);
    with_descriptor(stream, |socket| Ok(send(socket, bytes, flags)?))
}

/// The same of several pieces, in one call.
///
/// # Errors
/// As [`put`].
pub fn put_pieces(stream: &Stream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    with_descriptor(stream, |socket| {
        let nothing = &mut SendAncillaryBuffer::default();
        Ok(sendmsg(socket, pieces, nothing, AT_ONCE)?)
    })
}

/// The same of `length` bytes of `file` from `offset` on, which do not pass through this process. Zero: the file ends
/// before them.
///
/// # Errors
/// As [`put`], and those of reading the file.
pub fn put_file(
    stream: &Stream,
    file: impl AsFd,
    mut offset: u64,
    length: usize,
) -> io::Result<usize> {
    with_descriptor(stream, |socket| {
        Ok(sendfile(socket, file, Some(&mut offset), length)?)
    })
}

/// The error that the connection has met and nobody was told of yet, such as a reset.
pub fn pending_error(stream: &Stream) -> Option<io::Error> {
    with_socket(stream, |socket| socket.take_error())
        .ok()
        .flatten()
}

/// Makes the connection's end a reset: for an answer that was cut, which its end must not make look complete.
pub fn reset_at_close(stream: &Stream) {
    // A socket that cannot be told so has failed already.
    let _ = with_socket(stream, |socket| socket.set_linger(Some(Duration::ZERO)));
}

const AT_ONCE: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn with_socket<T>(
    stream: &Stream,
    ask: impl FnOnce(SockRef<'_>) -> io::Result<T>,
) -> io::Result<T> {
    with_descriptor(stream, |descriptor| ask(SockRef::from(&descriptor)))
}

fn with_descriptor<T>(
    stream: &Stream,
    ask: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let descriptor = stream.id();
    if descriptor < 0 {
        return Err(io::ErrorKind::NotConnected.into());
    }
    // SAFETY: `stream` owns the descriptor and outlives the borrow, which ends with this function.
    ask(unsafe { BorrowedFd::borrow_raw(descriptor) })
}
