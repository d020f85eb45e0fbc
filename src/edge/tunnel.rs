//! A connection that is to become a tunnel: a WebSocket to an origin (RFC 6455), asked for and perhaps granted.
//!
//! Until the origin has answered 101 it is a request as any: what the client sends early stays here. After that bytes pass
//! both ways as they are, and no request is read on this connection any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::request::fields::Fields as _;
use crate::request::head::{Framing, Method, RequestHead, Version};

/// The origin's word on a tunnel, which the proxy passes to the stream; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Grant(Arc<AtomicBool>);

impl Grant {
    /// It has answered 101.
    pub fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it has.
    pub fn is_given(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The two waits of a tunnel: for the origin's answer, then for any byte.
pub struct Tunnel {
    grant: Grant,
    is_open: bool,
    last_byte: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Tunnel {
    /// A tunnel that is asked for; the answer may take `patience`.
    pub fn asked_for(grant: Grant, patience: Duration) -> Tunnel {
        Tunnel {
            grant,
            is_open: false,
            last_byte: Instant::now(),
            timer: Box::pin(tokio::time::sleep(patience)),
        }
    }

    /// Whether bytes pass.
    pub fn is_open(&mut self) -> bool {
        if !self.is_open && self.grant.is_given() {
            self.is_open = true;
            self.last_byte = Instant::now();
            self.timer.as_mut().reset(self.last_byte + SILENCE);
        }
        self.is_open
    }

    /// A byte has passed.
    pub fn moved(&mut self) {
        self.last_byte = Instant::now();
    }

    /// Whether the wait is over.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if !self.is_open => return Poll::Ready(()),
                Poll::Ready(()) => {
                    let end = self.last_byte + SILENCE;
                    if end <= Instant::now() {
                        return Poll::Ready(());
                    }
                    // Moved on here only: a byte costs no timer.
                    self.timer.as_mut().reset(end);
                }
            }
        }
    }
}

/// Whether a request asks for a WebSocket, and for nothing else beside it.
pub fn is_asked(head: &RequestHead<'_, '_>) -> bool {
    head.upgrade
        && head.method == Method::Get
        && head.version == Version::Http11
        && head.framing == Framing::None
        && !head.expect_continue
        && head
            .only("upgrade")
            .is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// Why a request for a tunnel ends when the origin does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the origin has not answered a request for a tunnel")]
pub struct Unanswered;

/// How long a tunnel may be without a byte in either direction.
pub const SILENCE: Duration = Duration::from_secs(3_600);
