//! A request's meta-variables as PARAMS records (RFC 3875 §4.1; FastCGI 1.0 §3.4, §5.2).
//!
//! The list is RFC 3875's and nginx's `fastcgi_params`. Variables with an empty value that
//! RFC 3875 lets be absent (CONTENT_TYPE, CONTENT_LENGTH, PATH_INFO) are absent.

use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};

use super::record::{HEADER_LENGTH, Kind, MAX_CONTENT, header};

/// What the variables are made of. Paths come from one decoding of the request target, so that
/// what was routed is what PHP runs.
#[derive(Clone, Copy, Debug)]
pub struct ParamsInput<'a> {
    /// REQUEST_METHOD.
    pub method: &'a str,
    /// REQUEST_URI: path and query as the client sent them.
    pub request_uri: &'a [u8],
    /// QUERY_STRING, without `?`; empty when there is none.
    pub query: &'a [u8],
    /// SCRIPT_NAME: the script's path below the document root, with its leading `/`.
    pub script_name: &'a [u8],
    /// SCRIPT_FILENAME: the script's path as the responder sees it.
    pub script_filename: &'a [u8],
    /// PATH_INFO: what follows the script's name in the path; empty when nothing does.
    pub path_info: &'a [u8],
    /// DOCUMENT_ROOT as the responder sees it, without a trailing `/`.
    pub document_root: &'a [u8],
    /// SERVER_PROTOCOL: `HTTP/1.1` and the like.
    pub protocol: &'a str,
    /// Whether the client came by TLS: HTTPS and REQUEST_SCHEME.
    pub https: bool,
    /// HTTP_HOST: host and port as the client named them, from Host or `:authority`.
    pub host: &'a [u8],
    /// SERVER_NAME: the host without its port.
    pub server_name: &'a [u8],
    /// SERVER_ADDR: the address the connection came in at.
    pub server_addr: SocketAddr,
    /// SERVER_PORT: the port as the client sees it.
    pub server_port: u16,
    /// REMOTE_ADDR: the client.
    pub remote_addr: IpAddr,
    /// REMOTE_PORT.
    pub remote_port: u16,
    /// REMOTE_USER, with AUTH_TYPE: who has proved to be a user by HTTP Basic.
    pub remote_user: Option<&'a [u8]>,
    /// CONTENT_LENGTH: length of the spooled content; `None` when the request has no content.
    pub content_length: Option<u64>,
    /// Every field line of the request, name and value.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// Names of fields that are not passed on (compared without regard to case).
    pub drop: &'a [&'a str],
}

/// Why a request cannot be told to a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// One name and value do not fit a record, and PHP-FPM takes no pair that spans two.
    #[error("a meta-variable of {0} bytes does not fit a record")]
    PairTooLong(usize),
}

impl ParamsError {
    /// The status to answer with: 431 (RFC 6585 §5).
    pub fn status(&self) -> u16 {
        match self {
            ParamsError::PairTooLong(_) => 431,
        }
    }
}

/// The PARAMS records of a request, the empty one that ends them included.
///
/// # Errors
/// [`ParamsError::PairTooLong`] when a variable does not fit one record.
pub fn encode(input: &ParamsInput<'_>) -> Result<Bytes, ParamsError> {
    let mut records = Records::with_capacity(2048);
    let mut scratch = Vec::new();

    records.put(b"GATEWAY_INTERFACE", b"CGI/1.1")?;
    records.put(b"SERVER_SOFTWARE", SERVER_SOFTWARE.as_bytes())?;
    records.put(b"QUERY_STRING", input.query)?;
    records.put(b"REQUEST_METHOD", input.method.as_bytes())?;
    if let Some(media_type) = first(input.fields, "content-type") {
        records.put(b"CONTENT_TYPE", media_type)?;
    }
    if let Some(length) = input.content_length {
        records.put(b"CONTENT_LENGTH", length.to_string().as_bytes())?;
    }
    records.put(b"SCRIPT_FILENAME", input.script_filename)?;
    records.put(b"SCRIPT_NAME", input.script_name)?;
    if !input.path_info.is_empty() {
        records.put(b"PATH_INFO", input.path_info)?;
        let translated = joined(&mut scratch, &[input.document_root, input.path_info]);
        records.put(b"PATH_TRANSLATED", translated)?;
    }
    records.put(b"REQUEST_URI", input.request_uri)?;
    let document_uri = joined(&mut scratch, &[input.script_name, input.path_info]);
    records.put(b"DOCUMENT_URI", document_uri)?;
    records.put(b"DOCUMENT_ROOT", input.document_root)?;
    records.put(b"SERVER_PROTOCOL", input.protocol.as_bytes())?;
    if input.https {
        records.put(b"REQUEST_SCHEME", b"https")?;
        records.put(b"HTTPS", b"on")?;
    } else {
        records.put(b"REQUEST_SCHEME", b"http")?;
    }
    let number = |address: IpAddr| address.to_canonical().to_string();
    records.put(b"REMOTE_ADDR", number(input.remote_addr).as_bytes())?;
    records.put(b"REMOTE_PORT", input.remote_port.to_string().as_bytes())?;
    if let Some(user) = input.remote_user {
        records.put(b"AUTH_TYPE", b"Basic")?;
        records.put(b"REMOTE_USER", user)?;
    }
    records.put(b"SERVER_ADDR", number(input.server_addr.ip()).as_bytes())?;
    records.put(b"SERVER_PORT", input.server_port.to_string().as_bytes())?;
    records.put(b"SERVER_NAME", input.server_name)?;
    // PHP built with force-cgi-redirect runs nothing without it.
    records.put(b"REDIRECT_STATUS", b"200")?;
    if !input.host.is_empty() {
        records.put(b"HTTP_HOST", input.host)?;
    }
    put_fields(&mut records, input)?;
    Ok(records.finish())
}

/// The request's fields as HTTP_* variables (RFC 3875 §4.1.18), one for each name.
fn put_fields(records: &mut Records, input: &ParamsInput<'_>) -> Result<(), ParamsError> {
    let mut variable = Vec::new();
    let mut combined = Vec::new();
    for (index, &(name, value)) in input.fields.iter().enumerate() {
        if !passes(name, input.drop) {
            continue;
        }
        let same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        if input
            .fields
            .iter()
            .take(index)
            .any(|&(other, _)| same(other))
        {
            continue;
        }
        // Cookie lines are one list of pairs (RFC 9113 §8.2.3); all others combine by comma
        // (RFC 9110 §5.3).
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") {
            b"; "
        } else {
            b", "
        };
        combined.clear();
        combined.extend_from_slice(value);
        let later = input.fields.iter().skip(index + 1);
        for &(_, more) in later.filter(|&&(other, _)| same(other)) {
            combined.extend_from_slice(separator);
            combined.extend_from_slice(more);
        }
        variable.clear();
        variable.extend_from_slice(b"HTTP_");
        variable.extend(name.iter().map(|&byte| match byte {
            b'-' => b'_',
            other => other.to_ascii_uppercase(),
        }));
        records.put(&variable, &combined)?;
    }
    Ok(())
}

/// Whether a field may become a variable.
fn passes(name: &[u8], drop: &[&str]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    // Only letters, digits and `-`: PHP turns `.` and `[` into `_`, and `_` itself is how a
    // client would write a variable that a proxy sets with `-`.
    !name.is_empty()
        && name
            .iter()
            .all(|&byte| byte == b'-' || byte.is_ascii_alphanumeric())
        && !WITHHELD.iter().any(|withheld| is(withheld))
        && !drop.iter().any(|dropped| is(dropped))
}

fn first<'a>(fields: &[(&'a [u8], &'a [u8])], name: &str) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
        .map(|&(_, value)| value)
}

fn joined<'s>(scratch: &'s mut Vec<u8>, parts: &[&[u8]]) -> &'s [u8] {
    scratch.clear();
    for part in parts {
        scratch.extend_from_slice(part);
    }
    scratch
}

/// PARAMS records being filled. They are cut between pairs, because PHP-FPM takes no pair that
/// spans two records, and never hold more than [`MAX_CONTENT`] bytes, padding included.
struct Records {
    whole: BytesMut,
    content: BytesMut,
}

impl Records {
    fn with_capacity(capacity: usize) -> Self {
        Records {
            whole: BytesMut::new(),
            content: BytesMut::with_capacity(capacity),
        }
    }

    fn put(&mut self, name: &[u8], value: &[u8]) -> Result<(), ParamsError> {
        let length = length_of_length(name) + length_of_length(value) + name.len() + value.len();
        if length > MAX_CONTENT {
            return Err(ParamsError::PairTooLong(length));
        }
        if self.content.len() + length > MAX_CONTENT {
            self.close_record();
        }
        put_length(&mut self.content, name);
        put_length(&mut self.content, value);
        self.content.extend_from_slice(name);
        self.content.extend_from_slice(value);
        Ok(())
    }

    fn close_record(&mut self) {
        let length = u16::try_from(self.content.len()).expect("invariant: at most MAX_CONTENT");
        // Aligned to eight bytes, as FastCGI 1.0 §3.3 recommends.
        let padding = (8 - self.content.len() % 8) % 8;
        self.whole
            .reserve(2 * HEADER_LENGTH + self.content.len() + padding);
        let count = u8::try_from(padding).expect("invariant: below eight");
        self.whole
            .extend_from_slice(&header(Kind::Params, length, count));
        self.whole.extend_from_slice(&self.content);
        self.whole.put_bytes(0, padding);
        self.content.clear();
    }

    fn finish(mut self) -> Bytes {
        self.close_record();
        self.whole.extend_from_slice(&header(Kind::Params, 0, 0));
        self.whole.freeze()
    }
}

/// One byte for lengths up to 127, else four (FastCGI 1.0 §3.4).
fn length_of_length(text: &[u8]) -> usize {
    if text.len() <= 127 { 1 } else { 4 }
}

fn put_length(content: &mut BytesMut, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(short @ 0..=127) => content.put_u8(short),
        _ => {
            let long = u32::try_from(text.len()).expect("invariant: at most MAX_CONTENT");
            content.put_u32(long | 1 << 31);
        }
    }
}

/// WordPress looks for `nginx` here to know that permalinks need no `index.php`.
const SERVER_SOFTWARE: &str = concat!("nostat/", env!("CARGO_PKG_VERSION"), " (nginx compatible)");

/// Fields that never become variables.
const WITHHELD: [&str; 11] = [
    // HTTP_PROXY is what HTTP clients inside the script take for their own proxy ("httpoxy").
    "proxy",
    // Have variables of their own.
    "host",
    "content-type",
    "content-length",
    // Of this connection only (RFC 9110 §7.6.1).
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-connection",
];

#[cfg(test)]
mod tests;
