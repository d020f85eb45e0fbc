//! The fields that decide how a request is framed and how its connection goes on
//! (RFC 9112 §3.2, §6, §9).

use super::{HeadError, Version};
use crate::request::authority::Authority;
use crate::request::fields::{members, trim};

/// How the end of the content is found (RFC 9112 §6.3).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Framing {
    /// There is no content.
    None,
    /// This many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// What one pass over the fields found.
#[derive(Debug, Default)]
pub(super) struct KnownFields<'b> {
    host: Option<&'b [u8]>,
    content_length: Option<u64>,
    transfer_coding: Option<TransferCoding>,
    close: bool,
    keep_alive: bool,
    upgrade_field: bool,
    upgrade_named: bool,
    expect_continue: bool,
    /// Whether a precondition or a range is asked for.
    pub(super) conditional: bool,
}

impl<'b> KnownFields<'b> {
    /// Looks at every field once. A field that decides the framing or the target may stand there
    /// once at the most, even if it were repeated word for word.
    pub(super) fn collect(fields: &[httparse::Header<'b>]) -> Result<Self, HeadError> {
        let mut known = KnownFields::default();
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                4 if is("host") => known.take_host(field.value)?,
                5 if is("range") => known.conditional = true,
                6 if is("expect") => {
                    known.expect_continue |=
                        members(field.value).any(|it| it.eq_ignore_ascii_case(b"100-continue"));
                }
                7 if is("upgrade") => known.upgrade_field = true,
                8 if is("if-match") || is("if-range") => known.conditional = true,
                10 if is("connection") => known.take_connection(field.value),
                13 if is("if-none-match") => known.conditional = true,
                14 if is("content-length") => known.take_content_length(field.value)?,
                17 if is("transfer-encoding") => known.take_transfer_encoding(field.value)?,
                17 if is("if-modified-since") => known.conditional = true,
                19 if is("if-unmodified-since") => known.conditional = true,
                _ => {}
            }
        }
        Ok(known)
    }

    /// The host (RFC 9112 §3.2): HTTP/1.1 has to name one.
    pub(super) fn host(&self, version: Version) -> Result<Option<&'b [u8]>, HeadError> {
        match (self.host, version) {
            (None, Version::Http11) => Err(HeadError::Malformed("no Host")),
            (host, _) => Ok(host),
        }
    }

    /// The framing (RFC 9112 §6.1, §6.3). What is ambiguous is refused, not resolved.
    pub(super) fn framing(&self, version: Version) -> Result<Framing, HeadError> {
        match (self.transfer_coding, self.content_length, version) {
            (None, None, _) => Ok(Framing::None),
            (None, Some(length), _) => Ok(Framing::Length(length)),
            (Some(_), Some(_), _) => Err(HeadError::Malformed(
                "Transfer-Encoding with Content-Length",
            )),
            (Some(_), None, Version::Http10) => {
                Err(HeadError::Malformed("Transfer-Encoding in HTTP/1.0"))
            }
            (Some(TransferCoding::Chunked), None, Version::Http11) => Ok(Framing::Chunked),
            (Some(TransferCoding::Known), None, Version::Http11) => {
                Err(HeadError::UnsupportedTransferCoding)
            }
        }
    }

    /// RFC 9112 §9.3: `close` wins, 1.1 goes on, 1.0 only when asked to.
    pub(super) fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }

    /// RFC 9110 §10.1.1: not in HTTP/1.0.
    pub(super) fn expect_continue(&self, version: Version) -> bool {
        self.expect_continue && version == Version::Http11
    }

    /// RFC 9110 §7.8: not in HTTP/1.0.
    pub(super) fn upgrade(&self, version: Version) -> bool {
        self.upgrade_field && self.upgrade_named && version == Version::Http11
    }

    fn take_host(&mut self, value: &'b [u8]) -> Result<(), HeadError> {
        if self.host.is_some() {
            return Err(HeadError::Malformed("more than one Host"));
        }
        if Authority::parse(value).is_none() {
            return Err(HeadError::Malformed("Host"));
        }
        self.host = Some(value);
        Ok(())
    }

    fn take_connection(&mut self, value: &[u8]) {
        for option in members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade_named |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn take_content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let length = parse_content_length(value).ok_or(HeadError::Malformed("Content-Length"))?;
        match self.content_length.replace(length) {
            None => Ok(()),
            Some(_) => Err(HeadError::Malformed("more than one Content-Length")),
        }
    }

    fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let coding =
            TransferCoding::parse(value).ok_or(HeadError::Malformed("Transfer-Encoding"))?;
        match self.transfer_coding.replace(coding) {
            None => Ok(()),
            Some(_) => Err(HeadError::Malformed("more than one Transfer-Encoding")),
        }
    }
}

/// What `Transfer-Encoding` asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum TransferCoding {
    /// Exactly `chunked`.
    Chunked,
    /// Compressed and then chunked: well-formed, but not undone here.
    Known,
}

impl TransferCoding {
    fn parse(value: &[u8]) -> Option<Self> {
        if value.eq_ignore_ascii_case(b"chunked") {
            return Some(TransferCoding::Chunked);
        }
        // Chunked once, and as the last one, else the end of the content cannot be told.
        let comma = memchr::memrchr(b',', value)?;
        let (compressions, last) = value.split_at_checked(comma)?;
        if !trim(last.strip_prefix(b",")?).eq_ignore_ascii_case(b"chunked") {
            return None;
        }
        let mut names = members(compressions).peekable();
        names.peek()?;
        names
            .all(|name| {
                COMPRESSIONS
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            })
            .then_some(TransferCoding::Known)
    }
}

/// `1*DIGIT` and nothing else: no sign, no list, no white space inside (RFC 9110 §8.6).
fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}

/// RFC 9112 §7.2.
const COMPRESSIONS: [&str; 5] = ["gzip", "x-gzip", "deflate", "compress", "x-compress"];
