//! The request line (RFC 9112 §3): method, target and version, one space between them.

use super::{HeadError, Method, Version};
use crate::request::fields::is_token_byte;

/// A request line, read.
#[derive(Copy, Clone, Debug)]
pub(super) struct RequestLine<'b> {
    pub(super) method: Method<'b>,
    pub(super) target: &'b [u8],
    pub(super) version: Version,
    length: usize,
}

impl<'b> RequestLine<'b> {
    /// Reads a whole request line, given without its line end.
    pub(super) fn parse(line: &'b [u8], url: usize) -> Result<Self, HeadError> {
        let malformed = HeadError::Malformed("request line");
        let method_length = refuse_early(line, url)?;
        let (method, rest) = line.split_at_checked(method_length).ok_or(malformed)?;
        let rest = rest.strip_prefix(b" ").ok_or(malformed)?;
        let target_length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        let (target, version) = rest.split_at_checked(target_length).ok_or(malformed)?;
        if target.len() > url {
            return Err(HeadError::TargetTooLong);
        }
        let version = version.strip_prefix(b" ").ok_or(malformed)?;
        if target.is_empty() {
            return Err(malformed);
        }
        let method = str::from_utf8(method).map_err(|_| HeadError::Malformed("method"))?;
        Ok(RequestLine {
            method: Method::from_token(method),
            target,
            version: parse_version(version)?,
            length: line.len(),
        })
    }

    /// Bytes of the line with its CRLF.
    pub(super) fn length_with_end(&self) -> usize {
        self.length.saturating_add(2)
    }
}

/// Refuses a request line, whole or only begun, that can never be one: something else than HTTP,
/// or too long.
///
/// Every fault is found at the first byte that shows it, so that the answer is the same however
/// the bytes arrive. Gives the length of the method, as far as it is there.
pub(super) fn refuse_early(begun: &[u8], url: usize) -> Result<usize, HeadError> {
    let mut method_length = 0_usize;
    for &byte in begun {
        if byte == b' ' && method_length > 0 {
            break;
        }
        if !is_token_byte(byte) {
            return Err(HeadError::Malformed("method"));
        }
        method_length = method_length.saturating_add(1);
        if method_length > METHOD_LENGTH {
            return Err(HeadError::MethodTooLong);
        }
    }
    let rest = begun
        .get(method_length.saturating_add(1)..)
        .unwrap_or_default();
    let longest = url.saturating_add(" HTTP/1.1".len());
    let looked_at = rest.get(..longest).unwrap_or(rest);
    // No early exit: whole vectors of bytes are compared at once.
    if looked_at
        .iter()
        .fold(false, |found, &byte| found | (byte < b' ') | (byte == 0x7f))
    {
        return Err(HeadError::Malformed("control byte in the request line"));
    }
    if rest.len() > longest {
        return Err(HeadError::TargetTooLong);
    }
    Ok(method_length)
}

fn parse_version(version: &[u8]) -> Result<Version, HeadError> {
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(HeadError::UnsupportedVersion)
        }
        _ => Err(HeadError::Malformed("version")),
    }
}

/// The longest method: the registry's longest, `UPDATEREDIRECTREF`, has 17 letters.
const METHOD_LENGTH: usize = 32;
