//! What one request leaves behind for the access log.

use std::net::IpAddr;

use crate::clock::UnixTime;

/// One request and its answer, borrowed from whoever answered it.
///
/// Byte fields hold what the client sent, unchanged: the formats escape it.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When the answer was finished.
    pub time: UnixTime,
    /// The client, as the trusted proxies tell it.
    pub client: IpAddr,
    /// The user name of HTTP authentication.
    pub user: Option<&'a [u8]>,
    /// The method; empty when no request line could be read.
    pub method: &'a [u8],
    /// The request target as sent.
    pub target: &'a [u8],
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: &'a str,
    /// The host asked for, with its port; empty when there was none.
    pub host: &'a [u8],
    /// The status sent.
    pub status: u16,
    /// Bytes of content sent, without the head.
    pub body_bytes: u64,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// What the descriptor cache did: `hit`, `miss`, `negative`, `retested`, `replaced`, `waited`, or `-`.
    pub cache: &'static str,
    /// Who answered behind us: `php`, `origin`, or `-`.
    pub upstream: &'static str,
    /// Microseconds until the upstream's answer was complete.
    pub upstream_micros: Option<u64>,
    /// Microseconds from the request's first byte to the answer's last.
    pub duration_micros: u64,
}
