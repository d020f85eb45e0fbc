//! What the lane has found out about a request that it lends to Pingora.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::HeaderValue;
use pingora_core::{Error, ErrorType, Result};

use crate::edge::log_entry::LogEntry;
use crate::edge::tunnel::{Grant, Tunnel, Waits};
use crate::origin::{self, Pool};
use crate::page_cache::Bypass;
use crate::page_cache::storage::Fill;
use crate::request::accept_encoding::Coding;
use crate::request::client::Client;
use crate::request::head::RequestHead;
use crate::request::target::Target;
use crate::site::auth::User;
use crate::site::{Backend, Script, StaticSite};
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
    /// What `Strict-Transport-Security` says of the host, if anything.
    pub hsts: Option<HeaderValue>,
    /// The client speaks HTTP/2.
    pub http2: bool,
    /// The client speaks HTTP/1.0 and knows no chunks.
    pub http10: bool,
    /// Who has proved to be a user of the site's `auth` (REMOTE_USER).
    pub user: Option<User>,
    /// The client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The connection ends with this answer.
    pub close: bool,
    /// It asks an origin for a WebSocket.
    pub tunnel: Option<Grant>,
    /// The page that its answer may become.
    pub fill: Option<Box<Fill>>,
    /// Why it passes by the page cache, where the site has one.
    pub bypass: Option<Bypass>,
    /// What its answer may be compressed with.
    pub coding: Option<Coding>,
    /// The log line's first half, when a log is written, and the head that its texts are in.
    pub log: Option<(LogEntry, Bytes)>,
    /// Set when a failure was answered here, whole, so that the connection may go on.
    pub answered_here: Arc<AtomicBool>,
    /// Set when an answer failed after its head had left: the connection must not end as if it were whole.
    pub cut: Arc<AtomicBool>,
}

impl Handed {
    /// The origin that it is for, and the peers that it may be sent to.
    ///
    /// # Errors
    /// It is not for an origin.
    pub fn origin(&self) -> Result<(&origin::Settings, &Arc<Pool>)> {
        let pool = match (&self.inward, &self.site.settings().backend) {
            (Inward::Origin, Backend::Origin(origin)) => {
                self.snapshot.origin(origin).map(|pool| (origin, pool))
            }
            _ => None,
        };
        pool.ok_or_else(|| Error::explain(ErrorType::InternalError, "not for an origin"))
    }

    /// The tunnel that it asks for.
    pub fn tunnel(&self) -> Option<Tunnel> {
        let (origin, _) = self.origin().ok()?;
        let waits = Waits {
            first_byte: origin.first_byte,
            between_bytes: origin.between_bytes,
        };
        Some(Tunnel::asked_for(self.tunnel.clone()?, waits))
    }

    /// Bytes that the request's body may have.
    pub fn most_body(&self) -> u64 {
        let of_site = self.site.settings().max_body;
        of_site.unwrap_or(self.snapshot.limits.max_body)
    }
}

/// Who answers a lent request.
#[derive(Clone)]
pub enum Inward {
    /// PHP runs this script.
    Php(Script),
    /// The HTTP origin.
    Origin,
}

/// The head that Pingora reads of a request for PHP: with a target that it takes, whatever the client's is. What PHP sees
/// is [`Handed::target`], unchanged.
pub fn head_for_php(head: &RequestHead<'_, '_>, raw: &[u8]) -> Bytes {
    let begun = raw.trim_ascii_start();
    let line_end = memchr::memchr(b'\r', begun).unwrap_or(begun.len());
    let fields = begun.get(line_end..).unwrap_or_default();
    let method = head.method.as_str().as_bytes();
    let version = head.version.as_str().as_bytes();
    [method, b" / ", version, fields].concat().into()
}

/// The head that Pingora reads of a request for an origin: in origin form (RFC 9112 §3.2.2), with what Pingora would refuse
/// of the target escaped. `None` when the target is longer than Pingora takes.
pub fn head_for_origin(head: &RequestHead<'_, '_>, target: &Target<'_>) -> Option<Bytes> {
    let origin_form = target.origin_form();
    let mut lent = Vec::with_capacity(origin_form.len() + 256);
    lent.extend_from_slice(head.method.as_str().as_bytes());
    lent.push(b' ');
    let begin = lent.len();
    push_escaped(&mut lent, &origin_form);
    if lent.len() - begin > LONGEST_TARGET {
        return None;
    }
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
    Some(lent.into())
}

/// Escapes what Pingora would refuse of a target.
pub fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`') {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0x0f)]);
        }
    }
}

/// The `http` crate's bound is 65,534 bytes.
const LONGEST_TARGET: usize = 65_000;
