//! The head of an HTTP/1 request, judged strictly (RFC 9112 §2, §3, §5, §6).
//!
//! Where the standard lets a recipient be lenient this parser is not: two parsers that read one
//! head differently are what request smuggling lives on (RFC 9112 §11.2).

mod framing;
mod request_line;
mod scan;

use std::mem::MaybeUninit;
use std::sync::LazyLock;

use thiserror::Error;

pub use self::framing::Framing;
use self::framing::KnownFields;
use self::request_line::RequestLine;
pub use self::scan::HeadScan;

/// The most field lines a head may carry, and the size of the caller's array: Pingora's own bound.
pub const MAX_FIELDS: usize = 256;

/// What a head may cost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct HeadLimits {
    /// Bytes of the whole head, with the empty line that ends it.
    pub head_size: usize,
    /// Bytes of the request target.
    pub url: usize,
    /// Field lines; never more than [`MAX_FIELDS`] count.
    pub fields: usize,
}

/// What was found in the bytes read so far.
#[derive(Debug)]
pub enum Parsed<'h, 'b> {
    /// The head goes on; nothing seen so far forbids it.
    Incomplete,
    /// The head is there, and is well-formed.
    Complete {
        /// The head.
        head: RequestHead<'h, 'b>,
        /// Bytes of the buffer that the head takes, leading and final empty lines included.
        length: usize,
    },
}

/// A request head.
#[derive(Copy, Clone, Debug)]
pub struct RequestHead<'h, 'b> {
    /// The method.
    pub method: Method<'b>,
    /// The request target as sent; bytes above 0x7f are possible, controls and spaces are not.
    pub target: &'b [u8],
    /// The version of the protocol.
    pub version: Version,
    /// The field lines in order, values without the white space around them.
    pub fields: &'h [httparse::Header<'b>],
    /// The value of `Host`, a valid authority; `None` only in HTTP/1.0.
    pub host: Option<&'b [u8]>,
    /// How the end of the content is found.
    pub framing: Framing,
    /// Whether the client wants to go on with this connection (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Whether the client waits for 100 (RFC 9110 §10.1.1).
    pub expect_continue: bool,
    /// Whether the client offers another protocol: `Upgrade`, named by `Connection`
    /// (RFC 9110 §7.8).
    pub upgrade: bool,
    /// Whether any of `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`,
    /// `If-Range` and `Range` is there.
    pub conditional: bool,
}

/// A request method (RFC 9110 §9); case counts.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Method<'b> {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// Any other token.
    Other(&'b str),
}

impl<'b> Method<'b> {
    /// The method of this name, which the caller knows to be a token.
    pub fn from_token(name: &'b str) -> Self {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            "CONNECT" => Method::Connect,
            other => Method::Other(other),
        }
    }

    /// The method as sent.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Other(name) => name,
        }
    }
}

/// The versions of the protocol that are spoken here.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Version {
    /// The version as the request line carries it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// Why a head is refused. The connection is to be closed after the answer in every case.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum HeadError {
    /// Not the grammar of RFC 9112; the text names the rule for the log.
    #[error("malformed request head: {0}")]
    Malformed(&'static str),
    /// A method longer than any there is (RFC 9112 §3).
    #[error("request method too long")]
    MethodTooLong,
    /// The request target is longer than [`HeadLimits::url`].
    #[error("request target too long")]
    TargetTooLong,
    /// More field lines than [`HeadLimits::fields`].
    #[error("too many field lines")]
    TooManyFields,
    /// The head is larger than [`HeadLimits::head_size`].
    #[error("request head too large")]
    TooLarge,
    /// HTTP, but neither 1.0 nor 1.1.
    #[error("unsupported version of HTTP")]
    UnsupportedVersion,
    /// A transfer coding that is known but not undone here (RFC 9112 §6.1).
    #[error("unsupported transfer coding")]
    UnsupportedTransferCoding,
}

impl HeadError {
    /// The status code that tells the client.
    pub fn status(&self) -> u16 {
        match self {
            HeadError::Malformed(_) => 400,
            HeadError::TargetTooLong => 414,
            HeadError::TooManyFields | HeadError::TooLarge => 431,
            HeadError::MethodTooLong | HeadError::UnsupportedTransferCoding => 501,
            HeadError::UnsupportedVersion => 505,
        }
    }
}

/// Reads one request head from the beginning of the buffer.
///
/// Up to two empty lines before the request line are skipped (RFC 9112 §2.2). What can never
/// become a valid head is refused before its end is there where that is cheap to see. A caller
/// that gets [`Parsed::Incomplete`] and comes again with more should use [`parse_resumed`].
///
/// # Errors
/// [`HeadError`] when the bytes are no head that may be answered; the result does not depend on
/// how the bytes were cut into reads.
pub fn parse<'h, 'b>(
    buf: &'b [u8],
    fields: &'h mut [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS],
    limits: &HeadLimits,
) -> Result<Parsed<'h, 'b>, HeadError> {
    parse_resumed(&mut HeadScan::default(), buf, fields, limits)
}

/// As [`parse`], but looks for the end of the head only where it has not looked before.
///
/// `buf` has to begin with the bytes of the call before, and `limits` to be the same; after
/// [`Parsed::Complete`] the scan is ready for the next head, which begins `length` bytes further.
///
/// # Errors
/// As [`parse`].
pub fn parse_resumed<'h, 'b>(
    scan: &mut HeadScan,
    buf: &'b [u8],
    fields: &'h mut [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS],
    limits: &HeadLimits,
) -> Result<Parsed<'h, 'b>, HeadError> {
    let found = scan.advance(buf, limits);
    if !scan.judged
        && !matches!(found, Ok(Some(_)))
        && let Some(line) = scan.request_line(buf)
    {
        // As soon as it is whole, and before any fault behind it.
        RequestLine::parse(line, limits.url)?;
        scan.judged = true;
    }
    let Some(length) = found? else {
        return Ok(Parsed::Incomplete);
    };
    let line = scan
        .request_line(buf)
        .ok_or(HeadError::Malformed("request line"))?;
    let line = RequestLine::parse(line, limits.url)?;
    let bytes = buf
        .get(scan.request_start()..length)
        .ok_or(HeadError::Malformed("head"))?;
    let fields = parse_fields(bytes, &line, fields)?;
    *scan = HeadScan::default();

    let known = KnownFields::collect(fields)?;
    Ok(Parsed::Complete {
        head: RequestHead {
            method: line.method,
            target: line.target,
            version: line.version,
            fields,
            host: known.host(line.version)?,
            framing: known.framing(line.version)?,
            keep_alive: known.keep_alive(line.version),
            expect_continue: known.expect_continue(line.version),
            upgrade: known.upgrade(line.version),
            conditional: known.conditional,
        },
        length,
    })
}

/// Reads the field lines of a whole head, whose line ends the scan has found to be CRLF.
fn parse_fields<'h, 'b>(
    head: &'b [u8],
    line: &RequestLine<'b>,
    slots: &'h mut [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS],
) -> Result<&'h [httparse::Header<'b>], HeadError> {
    let mut request = httparse::Request::new(&mut []);
    if str::from_utf8(line.target).is_ok() {
        let end = request
            .parse_with_uninit_headers(head, slots)
            .map_err(refuse_field)?;
        return match end {
            httparse::Status::Complete(end) if end == head.len() => Ok(request.headers),
            _ => Err(HeadError::Malformed("head")),
        };
    }
    // httparse gives the target as text, so it cannot read this request line, and only it can
    // fill slots that are not initialised: it fills them from a stand-in head, and then reads
    // the field lines alone into them.
    request
        .parse_with_uninit_headers(&STAND_IN, slots)
        .map_err(refuse_field)?;
    let lines = head
        .get(line.length_with_end()..)
        .ok_or(HeadError::Malformed("head"))?;
    match httparse::parse_headers(lines, request.headers).map_err(refuse_field)? {
        httparse::Status::Complete((end, fields)) if end == lines.len() => Ok(fields),
        _ => Err(HeadError::Malformed("head")),
    }
}

fn refuse_field(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::HeaderName => HeadError::Malformed("field name"),
        httparse::Error::HeaderValue => HeadError::Malformed("field value"),
        httparse::Error::NewLine => HeadError::Malformed("line end"),
        _ => HeadError::Malformed("request line"),
    }
}

/// A head with as many field lines as there are slots.
static STAND_IN: LazyLock<Vec<u8>> =
    LazyLock::new(|| format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(MAX_FIELDS)).into_bytes());

#[cfg(test)]
mod tests;
