//! What the access log needs of a request, kept from its head until its answer is out.

use std::net::IpAddr;

use tokio::time::Instant;

use crate::access_log::{AccessLog, Record};
use crate::clock::UnixTime;
use crate::request::fields::Fields;
use crate::request::head::{RequestHead, Version};
use crate::site::Answer;
use crate::site::auth::User;

/// A request's part of its log line; made only when a log is written. The texts are in the head's bytes, wherever they are
/// kept meanwhile.
#[derive(Clone, Debug)]
pub struct LogEntry {
    started: Instant,
    client: IpAddr,
    user: Option<User>,
    /// None: no head could be read.
    version: Option<Version>,
    http2: bool,
    method: Place,
    target: Place,
    host: Place,
    referer: Place,
    user_agent: Place,
}

/// Where a text stands in a head's bytes. It cannot end at their start: there is the request line.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// The place of `text`, which is a part of `bytes`.
    fn of(text: &[u8], bytes: &[u8]) -> Place {
        let range = bytes.as_ptr_range();
        let at = (text.as_ptr() as usize).wrapping_sub(range.start as usize);
        match (
            u32::try_from(at),
            u32::try_from(at.wrapping_add(text.len())),
        ) {
            (Ok(start), Ok(end)) if end as usize <= bytes.len() => Place { start, end },
            _ => Place::default(),
        }
    }

    /// The place of a word of this length with one space behind it.
    fn word_before(self, length: usize) -> Place {
        let end = self.start.saturating_sub(1);
        let length = u32::try_from(length).unwrap_or(end);
        Place {
            start: end.saturating_sub(length),
            end,
        }
    }

    fn text(self, bytes: &[u8]) -> &[u8] {
        bytes
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    fn some_text(self, bytes: &[u8]) -> Option<&[u8]> {
        (self.end > 0).then(|| self.text(bytes))
    }
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

impl Outcome {
    /// That of an answer made here, of whose content so many bytes were sent.
    pub fn made_here(answer: &Answer, body_bytes: u64) -> Outcome {
        Outcome {
            status: answer.status,
            body_bytes,
            cache: answer.outcome.map_or("-", |outcome| outcome.as_str()),
            upstream: None,
        }
    }
}

impl LogEntry {
    /// Notes where what a log line needs stands in `bytes`, of which the head was read.
    pub fn of(
        head: &RequestHead<'_, '_>,
        bytes: &[u8],
        client: IpAddr,
        started: Instant,
    ) -> LogEntry {
        let place =
            |text: Option<&[u8]>| text.map_or(Place::default(), |text| Place::of(text, bytes));
        let target = place(Some(head.target));
        LogEntry {
            started,
            client,
            user: None,
            version: Some(head.version),
            http2: false,
            method: target.word_before(head.method.as_str().len()),
            target,
            host: place(head.host),
            referer: place(head.first("referer")),
            user_agent: place(head.first("user-agent")),
        }
    }

    /// The same of a request that came by HTTP/2, whatever its head says.
    #[must_use]
    pub fn over_http2(self) -> LogEntry {
        LogEntry {
            http2: true,
            ..self
        }
    }

    /// The same of a user who has proved to be one.
    #[must_use]
    pub fn by(self, user: Option<&User>) -> LogEntry {
        LogEntry {
            user: user.cloned(),
            ..self
        }
    }

    /// For a request whose head could not be read: only that something came, and what it was answered.
    pub fn unreadable(client: IpAddr, started: Instant) -> LogEntry {
        let nowhere = Place::default();
        LogEntry {
            started,
            client,
            user: None,
            version: None,
            http2: false,
            method: nowhere,
            target: nowhere,
            host: nowhere,
            referer: nowhere,
            user_agent: nowhere,
        }
    }

    /// Writes the line; `head` begins with the bytes that the head was read from.
    pub fn write(&self, log: &AccessLog, head: &[u8], time: UnixTime, outcome: Outcome) {
        let micros = self.started.elapsed().as_micros();
        log.write(&Record {
            time,
            client: self.client,
            user: self.user.as_deref(),
            method: self.method.text(head),
            target: self.target.text(head),
            protocol: match self.version {
                _ if self.http2 => HTTP2,
                Some(version) => version.as_str(),
                None => "-",
            },
            host: self.host.text(head),
            status: outcome.status,
            body_bytes: outcome.body_bytes,
            referer: self.referer.some_text(head),
            user_agent: self.user_agent.some_text(head),
            cache: outcome.cache,
            upstream: outcome.upstream.map_or("-", |(name, _)| name),
            upstream_micros: outcome.upstream.and_then(|(_, micros)| micros),
            duration_micros: u64::try_from(micros).unwrap_or(u64::MAX),
        });
    }
}

/// As nginx calls it.
pub const HTTP2: &str = "HTTP/2.0";
