//! The peers of an origin that a request was sent to, and whether it may be sent to another.
//!
//! A peer that could not be connected to has got nothing: any request goes on to the next. Once bytes were sent, only a
//! request that means the same when it is repeated (RFC 9110 §9.2.2) goes to another peer, once, and only while nothing
//! of an answer has come. Peers that are silent are given up on after [`MOST_WAITS`] times the limit of a connect, so that
//! a network that is gone is not waited for as often as there are peers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pingora_core::{Error, ErrorSource, ErrorType, Result};

use crate::clock::Tick;
use crate::edge::failure::{blame_the_silent, cause_of};
use crate::origin::{Fault, Peer, Pool, Settings};

/// Where a request has been.
#[derive(Default)]
pub struct Attempts {
    peer: Option<Arc<Peer>>,
    tried: Vec<SocketAddr>,
    /// When the last attempt began.
    begun: Tick,
    /// Time spent on connects that failed.
    connecting: Duration,
    /// A head has come.
    is_answered: bool,
    /// It was sent a second time.
    is_repeated: bool,
}

/// What a failure was of.
#[derive(Clone, Copy)]
pub struct Circumstances {
    /// Now.
    pub now: Tick,
    /// The connection had served a request before: the peer may have closed it when this one was sent.
    pub reused: bool,
    /// The request means the same when it is repeated, and its body is still there.
    pub may_repeat: bool,
}

impl Attempts {
    /// The peer for the next attempt.
    ///
    /// # Errors
    /// The origin has no further one.
    pub fn next(&mut self, pool: &Pool, client: IpAddr, now: Tick) -> Result<SocketAddr> {
        let peer = pool.choose(client, &self.tried).ok_or_else(|| {
            Error::explain(ErrorType::ConnectNoRoute, "no peer of the origin is left").into_up()
        })?;
        peer.count_request();
        let address = peer.address();
        self.peer = Some(peer);
        self.begun = now;
        Ok(address)
    }

    /// The head of an answer has come.
    pub fn answered(&mut self) {
        if let Some(peer) = &self.peer {
            self.is_answered = true;
            peer.answered();
        }
    }

    /// The peer could not be connected to; decides whether another is asked.
    pub fn not_connected(
        &mut self,
        pool: &Pool,
        settings: &Settings,
        now: Tick,
        error: &mut Error,
    ) {
        error.set_retry(false);
        let is_its = matches!(
            error.etype(),
            ErrorType::ConnectTimedout
                | ErrorType::ConnectRefused
                | ErrorType::ConnectNoRoute
                | ErrorType::ConnectError
        );
        // Else it is ours, e.g. that there are no more descriptors: another peer would be no better.
        if is_its {
            self.fault(Fault::Connect, now, error);
            self.connecting += now.since(self.begun);
            if self.connecting < settings.connect * MOST_WAITS {
                self.go_on(pool, error);
            }
        }
    }

    /// The peer has failed after it was connected to; decides whether the request is sent once more.
    pub fn failed(&mut self, pool: &Pool, of: Circumstances, error: &mut Error) {
        blame_the_silent(error);
        error.retry.decide_reuse(of.reused);
        let fault = match error.etype() {
            _ if error.esource() != &ErrorSource::Upstream => None,
            ErrorType::ReadTimedout | ErrorType::WriteTimedout => Some(Fault::Timeout),
            ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError
                if !self.is_answered =>
            {
                // That it had closed a kept connection says nothing of the peer.
                Some(if of.reused {
                    Fault::Stale
                } else {
                    Fault::Reset
                })
            }
            _ => Some(Fault::Answer),
        };
        if !of.may_repeat || self.is_answered {
            error.set_retry(false);
        }
        if let Some(fault) = fault {
            self.fault(fault, of.now, error);
        }
        // Pingora takes another connection then.
        if error.retry() {
            return;
        }
        if fault == Some(Fault::Reset) && of.may_repeat && !self.is_repeated {
            self.is_repeated = true;
            self.go_on(pool, error);
        }
    }

    fn fault(&self, fault: Fault, now: Tick, error: &Error) {
        if let Some(peer) = &self.peer {
            peer.failed(fault, now, &|| cause_of(error));
        }
    }

    fn go_on(&mut self, pool: &Pool, error: &mut Error) {
        let Some(peer) = &self.peer else {
            return;
        };
        self.tried.push(peer.address());
        if pool.has_other(&self.tried) {
            peer.count_retry();
            error.set_retry(true);
        }
    }
}

/// Connects that may run into their limit before a request is given up.
const MOST_WAITS: u32 = 3;

#[cfg(test)]
mod tests;
