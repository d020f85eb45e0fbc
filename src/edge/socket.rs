//! What is asked of a connection's socket itself: whether it has failed, and to reset it.
//!
//! The one place with `unsafe`. Pingora gives a connection's descriptor as a number only. It is borrowed here for the time
//! of one call, during which the connection, which owns the descriptor, is borrowed too and so stays open.

#![allow(
    unsafe_code,
    reason = "a raw descriptor becomes a borrowed one; see the module's text"
)]

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use pingora_core::protocols::Stream;
use socket2::SockRef;

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

fn with_socket<T>(
    stream: &Stream,
    ask: impl FnOnce(SockRef<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let descriptor = stream.id();
    if descriptor < 0 {
        return Err(io::ErrorKind::NotConnected.into());
    }
    // SAFETY: `stream` owns the descriptor and outlives the borrow, which ends with this function.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    ask(SockRef::from(&borrowed))
}
