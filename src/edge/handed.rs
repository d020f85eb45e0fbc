//! What the lane has found out about a request that it lends to Pingora.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use crate::edge::log_entry::LogEntry;
use crate::request::client::Client;
use crate::request::head::RequestHead;
use crate::request::target::Target;
use crate::site::{Script, StaticSite};
use crate::snapshot::Snapshot;

/// A lent request. It reaches the proxy as the connection's user context.
pub struct Handed {
    /// The settings that the request began with and ends with.
    pub snapshot: Arc<Snapshot>,
    /// The site it was asked of.
    pub site: Arc<StaticSite>,
    /// Who is to answer it.
    pub inward: Inward,
    /// Who asks, as the trusted proxies tell it.
    pub client: Client,
    /// The other end of its connection.
    pub peer: IpAddr,
    /// The address it came in at.
    pub local: SocketAddr,
    /// The request target as sent, in origin form (REQUEST_URI).
    pub target: Bytes,
    /// The query as sent, without its question mark.
    pub query: Option<Bytes>,
    /// Host and port asked for: the target's authority, else the Host field (RFC 9112 §3.2.2).
    pub host: Bytes,
    /// The client speaks HTTP/1.0 and knows no chunks.
    pub http10: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The connection ends with this answer.
    pub close: bool,
    /// The log line's first half, when a log is written.
    pub log: Option<LogEntry>,
    /// Set when a failure was answered here, whole, so that the connection may go on.
    pub answered_here: Arc<AtomicBool>,
}

impl Handed {
    /// Bytes that the request's body may have.
    pub fn most_body(&self) -> u64 {
        let of_site = self.site.settings().max_body;
        of_site.unwrap_or(self.snapshot.limits.max_body)
    }
}

/// Who answers a lent request.
pub enum Inward {
    /// PHP runs this script.
    Php(Script),
    /// The HTTP origin.
    Origin,
}

/// The head that Pingora reads. Its parser takes most targets as they are; one in absolute form, or with raw bytes above
/// ASCII, is written in the form that every parser agrees on. What PHP sees is [`Handed::target`], unchanged.
pub fn lent_head(head: &RequestHead<'_, '_>, raw: &[u8], target: &Target<'_>) -> Bytes {
    let plain = target.authority.is_none()
        && head.target.is_ascii()
        && raw.starts_with(head.method.as_str().as_bytes());
    if plain {
        return Bytes::copy_from_slice(raw);
    }
    let mut lent = Vec::with_capacity(raw.len() + 64);
    lent.extend_from_slice(head.method.as_str().as_bytes());
    lent.push(b' ');
    push_ascii(&mut lent, &target.origin_form());
    lent.push(b' ');
    lent.extend_from_slice(head.version.as_str().as_bytes());
    lent.extend_from_slice(b"\r\n");
    for field in head.fields {
        let is_host = field.name.eq_ignore_ascii_case("host");
        lent.extend_from_slice(field.name.as_bytes());
        lent.extend_from_slice(b": ");
        lent.extend_from_slice(match target.authority {
            Some(authority) if is_host => authority,
            _ => field.value,
        });
        lent.extend_from_slice(b"\r\n");
    }
    lent.extend_from_slice(b"\r\n");
    lent.into()
}

fn push_ascii(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii() {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0x0f)]);
        }
    }
}
