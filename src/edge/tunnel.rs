//! A connection that is to become a tunnel: a WebSocket to an origin (RFC 6455), asked for and perhaps granted.
//!
//! Until the origin has answered 101 it is a request as any: what the client sends early stays here. After that bytes pass
//! both ways as they are, and no request is read on this connection any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::request::fields::Fields as _;
use crate::request::head::{Framing, Method, RequestHead, Version};

/// The origin's word on a tunnel, which the proxy passes to the stream; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Grant(Arc<AtomicU8>);

impl Grant {
    /// It has answered 101.
    pub fn give(&self) {
        self.0.store(GIVEN, Ordering::Release);
    }

    /// It answers as any request is answered.
    pub fn refuse(&self) {
        self.0.store(REFUSED, Ordering::Release);
    }

    /// Whether it has answered 101.
    pub fn is_given(&self) -> bool {
        self.word() == GIVEN
    }

    fn word(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

const ASKED: u8 = 0;
const GIVEN: u8 = 1;
const REFUSED: u8 = 2;

/// The waits of a tunnel: for the origin's answer, then for any byte. Pingora has one limit for both, so that it has none.
pub struct Tunnel {
    grant: Grant,
    /// What the origin's word was when it was asked for last.
    word: u8,
    waits: Waits,
    last_byte: Instant,
    timer: Pin<Box<Sleep>>,
}

/// How long an origin may take.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For the first byte of an answer.
    pub first_byte: Duration,
    /// For each further one, when it is no 101.
    pub between_bytes: Duration,
}

impl Tunnel {
    /// A tunnel that is asked for.
    pub fn asked_for(grant: Grant, waits: Waits) -> Tunnel {
        Tunnel {
            grant,
            word: ASKED,
            waits,
            last_byte: Instant::now(),
            timer: Box::pin(tokio::time::sleep(waits.first_byte)),
        }
    }

    /// Whether bytes pass.
    pub fn is_open(&mut self) -> bool {
        if self.word == ASKED && self.grant.word() != ASKED {
            self.word = self.grant.word();
            self.moved();
            let end = self.end();
            self.timer.as_mut().reset(end);
        }
        self.word == GIVEN
    }

    /// A byte has passed.
    pub fn moved(&mut self) {
        self.last_byte = Instant::now();
    }

    fn end(&self) -> Instant {
        self.last_byte
            + match self.word {
                ASKED => self.waits.first_byte,
                GIVEN => SILENCE,
                _ => self.waits.between_bytes,
            }
    }

    /// Whether the wait is over.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let end = self.end();
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            // Moved on here only: a byte costs no timer.
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
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

/// Why a request for a tunnel ends when the origin is silent.
#[derive(Debug, thiserror::Error)]
#[error("the origin is silent")]
pub struct Silent;

/// How long a tunnel may be without a byte in either direction.
pub const SILENCE: Duration = Duration::from_secs(3_600);
