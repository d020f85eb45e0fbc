//! What the access log needs of a request, kept from its head until its answer is out.

use std::net::IpAddr;

use tokio::time::Instant;

use crate::access_log::{AccessLog, Record};
use crate::clock::UnixTime;
use crate::request::fields::Fields;
use crate::request::head::RequestHead;

/// A request's part of its log line; made only when a log is written.
#[derive(Debug)]
pub struct LogEntry {
    started: Instant,
    client: IpAddr,
    method: Box<[u8]>,
    target: Box<[u8]>,
    protocol: &'static str,
    host: Box<[u8]>,
    referer: Option<Box<[u8]>>,
    user_agent: Option<Box<[u8]>>,
}

/// An answer's part of a log line.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The status sent, 499 when the client went first.
    pub status: u16,
    /// Bytes of content sent.
    pub body_bytes: u64,
    /// What the descriptor cache did.
    pub cache: &'static str,
    /// Who answered behind us, and microseconds until that answer was complete.
    pub upstream: Option<(&'static str, Option<u64>)>,
}

impl LogEntry {
    /// Copies what a log line needs out of the head.
    pub fn of(head: &RequestHead<'_, '_>, client: IpAddr, started: Instant) -> LogEntry {
        LogEntry {
            started,
            client,
            method: head.method.as_str().as_bytes().into(),
            target: head.target.into(),
            protocol: head.version.as_str(),
            host: head.host.unwrap_or_default().into(),
            referer: head.first("referer").map(Into::into),
            user_agent: head.first("user-agent").map(Into::into),
        }
    }

    /// For a request whose head could not be read: only that something came, and what it was answered.
    pub fn unreadable(client: IpAddr, started: Instant) -> LogEntry {
        LogEntry {
            started,
            client,
            method: [].into(),
            target: [].into(),
            protocol: "-",
            host: [].into(),
            referer: None,
            user_agent: None,
        }
    }

    /// Writes the line.
    pub fn write(&self, log: &AccessLog, time: UnixTime, outcome: Outcome) {
        let micros = self.started.elapsed().as_micros();
        log.write(&Record {
            time,
            client: self.client,
            user: None,
            method: &self.method,
            target: &self.target,
            protocol: self.protocol,
            host: &self.host,
            status: outcome.status,
            body_bytes: outcome.body_bytes,
            referer: self.referer.as_deref(),
            user_agent: self.user_agent.as_deref(),
            cache: outcome.cache,
            upstream: outcome.upstream.map_or("-", |(name, _)| name),
            upstream_micros: outcome.upstream.and_then(|(_, micros)| micros),
            duration_micros: u64::try_from(micros).unwrap_or(u64::MAX),
        });
    }
}
