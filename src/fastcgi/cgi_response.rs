//! The head of a CGI response (RFC 3875 §6): bytes of STDOUT to a status and fields.
//!
//! A `Location` that names a path of this server is passed to the client with 302 like any other;
//! there is no local redirect (RFC 3875 §6.2.2), as PHP never means one.

use bytes::{Bytes, BytesMut};

/// The most bytes a head may have.
pub const MAX_HEAD: usize = 64 * 1024;

/// What a script said before its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiHead {
    /// 200 to 999: from Status, else 302 when there is a Location, else 200.
    pub status: u16,
    /// The fields for the client, in order. Without Status, fields of a connection and
    /// instructions to the gateway; Content-Length at most once.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Value of Content-Length.
    pub content_length: Option<u64>,
    /// X-Accel-Redirect: a URL path to answer with instead of the content.
    pub accel_redirect: Option<Vec<u8>>,
    /// X-Sendfile: an absolute file system path to answer with instead of the content.
    pub sendfile: Option<Vec<u8>>,
    /// False when the content is to be passed on as it comes: `X-Accel-Buffering: no`, or an
    /// event stream.
    pub buffering: bool,
}

/// Gathers the head from pieces of STDOUT.
#[derive(Debug, Default)]
pub struct HeadDecoder {
    held: BytesMut,
    searched: usize,
    line: usize,
}

/// A whole head and what followed it in the same piece.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The head.
    pub head: CgiHead,
    /// The first bytes of the content.
    pub rest: Bytes,
}

impl HeadDecoder {
    /// At the beginning of a response.
    pub fn new() -> Self {
        HeadDecoder::default()
    }

    /// Takes the next piece; `None` when the head has not ended yet.
    ///
    /// # Errors
    /// When this is not the head of a response that may be passed on.
    pub fn push(&mut self, mut piece: Bytes) -> Result<Option<Decoded>, CgiError> {
        // Mostly the first piece has it all, and nothing is copied.
        if self.held.is_empty() {
            let Some(end) = self.find_end(&piece)? else {
                self.held = BytesMut::from(piece);
                return Ok(None);
            };
            let head = parse(&piece.split_to(end))?;
            return Ok(Some(Decoded { head, rest: piece }));
        }
        self.held.extend_from_slice(&piece);
        let mut held = std::mem::take(&mut self.held);
        let Some(end) = self.find_end(&held)? else {
            self.held = held;
            return Ok(None);
        };
        let head = parse(&held.split_to(end))?;
        let rest = held.freeze();
        Ok(Some(Decoded { head, rest }))
    }

    /// Where the content begins. Each byte is looked at once, however they come.
    fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, CgiError> {
        while let Some(fresh) = bytes.get(self.searched..)
            && let Some(at) = memchr::memchr(b'\n', fresh)
        {
            let feed = self.searched + at;
            let line = bytes.get(self.line..feed).unwrap_or_default();
            self.searched = feed + 1;
            self.line = self.searched;
            if self.searched > MAX_HEAD {
                return Err(CgiError::TooLarge);
            }
            if matches!(line, b"" | b"\r") {
                return Ok(Some(self.searched));
            }
        }
        self.searched = bytes.len();
        if self.searched > MAX_HEAD {
            return Err(CgiError::TooLarge);
        }
        Ok(None)
    }
}

/// Why a head is not passed on; the client gets 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CgiError {
    /// More than [`MAX_HEAD`] bytes.
    #[error("head of more than 64 KiB")]
    TooLarge,
    /// A line that continues the one before it (RFC 9112 §5.2).
    #[error("folded field line")]
    FoldedLine,
    /// A line without a colon.
    #[error("line without a colon")]
    NoColon,
    /// A name that is no token (RFC 9110 §5.6.2).
    #[error("bad field name")]
    FieldName,
    /// A control character in a value (RFC 9110 §5.5).
    #[error("control character in a field value")]
    FieldValue,
    /// A Status that is not three digits from 200 to 999, or two that differ.
    #[error("bad Status")]
    Status,
    /// A Content-Length that is no number, or two that differ.
    #[error("bad Content-Length")]
    ContentLength,
}

/// The head in `bytes`, which end after its empty line.
fn parse(bytes: &[u8]) -> Result<CgiHead, CgiError> {
    let mut reading = Reading::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(CgiError::FoldedLine);
        }
        let colon = memchr::memchr(b':', line).ok_or(CgiError::NoColon)?;
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = value.get(1..).unwrap_or_default();
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return Err(CgiError::FieldName);
        }
        if value.iter().any(|&byte| is_control(byte)) {
            return Err(CgiError::FieldValue);
        }
        reading.take(name, value.trim_ascii())?;
    }
    Ok(reading.finish())
}

/// What is known of a head while its lines are read.
struct Reading {
    status: Option<u16>,
    location: bool,
    head: CgiHead,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            status: None,
            location: false,
            head: CgiHead {
                status: 200,
                fields: Vec::new(),
                content_length: None,
                accel_redirect: None,
                sendfile: None,
                buffering: true,
            },
        }
    }
}

impl Reading {
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), CgiError> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("status") {
            let status = parse_status(value).ok_or(CgiError::Status)?;
            if self.status.is_some_and(|earlier| earlier != status) {
                return Err(CgiError::Status);
            }
            self.status = Some(status);
            return Ok(());
        }
        if is("x-sendfile") {
            self.head.sendfile = Some(value.to_vec());
            return Ok(());
        }
        if let Some((prefix, instruction)) = name.split_at_checked(X_ACCEL.len())
            && prefix.eq_ignore_ascii_case(X_ACCEL)
            // For the page cache, which keeps it from the client.
            && !instruction.eq_ignore_ascii_case(b"expires")
        {
            if instruction.eq_ignore_ascii_case(b"redirect") {
                self.head.accel_redirect = Some(value.to_vec());
            } else if instruction.eq_ignore_ascii_case(b"buffering") {
                self.head.buffering &= !value.eq_ignore_ascii_case(b"no");
            }
            return Ok(());
        }
        if OF_A_CONNECTION.iter().any(|withheld| is(withheld)) {
            return Ok(());
        }
        if is("content-length") {
            let length = parse_length(value).ok_or(CgiError::ContentLength)?;
            match self.head.content_length {
                Some(earlier) if earlier != length => return Err(CgiError::ContentLength),
                Some(_) => return Ok(()),
                None => self.head.content_length = Some(length),
            }
        } else if is("content-type") {
            self.head.buffering &= !is_event_stream(value);
        } else if is("location") {
            self.location |= !value.is_empty();
        }
        self.head.fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(self) -> CgiHead {
        let mut head = self.head;
        head.status = match self.status {
            Some(status) => status,
            None if self.location => 302,
            None => 200,
        };
        if head.status == 204 {
            // RFC 9110 §8.6: never with 204.
            head.content_length = None;
            head.fields
                .retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-length"));
        }
        head
    }
}

/// Three digits, then nothing or a space and a reason (RFC 3875 §6.3.3). 1xx is refused: an
/// interim response is not a script's to send.
fn parse_status(value: &[u8]) -> Option<u16> {
    let (digits, reason) = value.split_first_chunk::<3>()?;
    if !digits.iter().all(u8::is_ascii_digit)
        || !matches!(reason.first(), None | Some(b' ' | b'\t'))
    {
        return None;
    }
    let status = digits
        .iter()
        .fold(0, |number, &digit| number * 10 + u16::from(digit - b'0'));
    (200..=999).contains(&status).then_some(status)
}

fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn is_event_stream(media_type: &[u8]) -> bool {
    let essence = media_type.split(|&byte| byte == b';').next();
    essence.is_some_and(|essence| {
        essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"text/event-stream")
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

const X_ACCEL: &[u8] = b"x-accel-";

/// Fields of one connection (RFC 9110 §7.6.1); the client's connection is not the script's.
const OF_A_CONNECTION: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
];

#[cfg(test)]
mod tests;
