//! The limits of every connection and request, before any site is chosen.
//!
//! Each has nginx's meaning where nginx has one; DESIGN's contract names the keys (`limits:`).

use std::time::Duration;

use crate::edge::pace::Patience;

/// What a client may take of time, size and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for a whole request head, from its first byte to its empty line. One deadline, which
    /// no further byte extends. Default 10 s; past it 408.
    pub request_head: Duration,
    /// Time an idle connection is kept for a next request. Default 75 s.
    pub keep_alive: Duration,
    /// Longest silence between two pieces of a request body. Default 30 s; past it 408.
    pub body: Duration,
    /// Bytes a second that a request body must have, on the whole and beyond one `body` of time; 0: any will do. Default 512;
    /// below it 408.
    pub body_rate: u64,
    /// Longest time one write to the client may make no progress. Default 30 s.
    pub send: Duration,
    /// Bytes a second that a client must take of an answer while it is waited for, on the whole and beyond one `send` of
    /// time; 0: any will do. Default 512; below it the connection is cut.
    pub send_rate: u64,
    /// Time that requests in flight have to end after a stop was asked for. Default 30 s.
    pub drain: Duration,
    /// Bytes of a request head: request line and fields together. Default 32 KiB; beyond it 431.
    pub head_size: usize,
    /// Bytes of a request target. Default 8 KiB; beyond it 414.
    pub url: usize,
    /// Field lines of a request head, 256 at most. Default 100; beyond it 431.
    pub headers: usize,
    /// Bytes of a request body where the site does not say otherwise. Default 64 MiB; beyond it 413.
    pub max_body: u64,
    /// Open connections. `None`, the default: what the descriptor limit allows.
    pub connections: Option<usize>,
    /// Open connections of one address (an IPv6 network of 64 bits is one), but for trusted proxies. `None`, the default:
    /// any number.
    pub connections_per_address: Option<usize>,
    /// Streams that are open at a time on one connection of HTTP/2. Default 100.
    pub streams: u32,
    /// Requests after which a connection is closed. Default 1,000,000.
    pub requests_per_connection: u64,
}

impl Limits {
    /// How long a client may take to send a request body.
    pub fn for_body(&self) -> Patience {
        Patience {
            silence: self.body,
            rate: self.body_rate,
        }
    }

    /// How long a client may take to receive an answer.
    pub fn for_answer(&self) -> Patience {
        Patience {
            silence: self.send,
            rate: self.send_rate,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_head: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body: Duration::from_secs(30),
            body_rate: 512,
            send: Duration::from_secs(30),
            send_rate: 512,
            drain: Duration::from_secs(30),
            head_size: 32 << 10,
            url: 8 << 10,
            headers: 100,
            max_body: 64 << 20,
            connections: None,
            connections_per_address: None,
            streams: 100,
            requests_per_connection: 1_000_000,
        }
    }
}
