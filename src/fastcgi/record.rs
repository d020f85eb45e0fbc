//! FastCGI records: three kinds to bytes, and bytes to events (FastCGI 1.0 §3.3, §5).
//!
//! One request per connection at a time, so its id is always 1.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of a record's header.
pub const HEADER_LENGTH: usize = 8;

/// The most content one record of ours carries: a multiple of 8, so that content and padding
/// together stay below what PHP-FPM accepts (65535).
pub const MAX_CONTENT: usize = 65_528;

/// The records a gateway sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens the request.
    BeginRequest,
    /// A piece of the meta-variables; an empty one ends them.
    Params,
    /// A piece of the request's content; an empty one ends it.
    Stdin,
}

/// What becomes of the connection after END_REQUEST (the keep-conn flag, §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRequest {
    /// The responder closes it.
    Close,
    /// It stays open, and the gateway closes it.
    Keep,
}

/// The header of a record with so much content and padding.
pub fn header(kind: Kind, content: u16, padding: u8) -> [u8; HEADER_LENGTH] {
    let [content_high, content_low] = content.to_be_bytes();
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let kind = match kind {
        Kind::BeginRequest => BEGIN_REQUEST,
        Kind::Params => PARAMS,
        Kind::Stdin => STDIN,
    };
    [
        VERSION,
        kind,
        id_high,
        id_low,
        content_high,
        content_low,
        padding,
        0,
    ]
}

/// The BEGIN_REQUEST record for the role of a responder.
pub fn begin_request(after: AfterRequest) -> [u8; 2 * HEADER_LENGTH] {
    let [role_high, role_low] = ROLE_RESPONDER.to_be_bytes();
    let flags = match after {
        AfterRequest::Close => 0,
        AfterRequest::Keep => FLAG_KEEP_CONN,
    };
    let mut record = [0; 2 * HEADER_LENGTH];
    let (head, content) = record.split_at_mut(HEADER_LENGTH);
    head.copy_from_slice(&header(Kind::BeginRequest, 8, 0));
    content.copy_from_slice(&[role_high, role_low, flags, 0, 0, 0, 0, 0]);
    record
}

/// What a responder said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of STDOUT, never empty; records may be cut anywhere.
    Stdout(Bytes),
    /// A piece of STDERR, never empty.
    Stderr(Bytes),
    /// END_REQUEST: the last event of a request.
    End {
        /// The script's exit status.
        application: u32,
        /// How the responder ended the request.
        protocol: ProtocolStatus,
    },
}

/// The protocol status of END_REQUEST (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The request was carried out.
    RequestComplete,
    /// The responder takes one request per connection.
    CannotMultiplex,
    /// The responder is out of a resource.
    Overloaded,
    /// The responder does not know the role.
    UnknownRole,
    /// A value the specification does not have.
    Other(u8),
}

/// Reads records from a buffer without waiting for whole ones.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
}

impl Decoder {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// The next event in `buffer`, whose bytes are taken out of it; `None` when more are needed.
    /// Nothing follows an [`Event::End`], so a caller stops there.
    ///
    /// # Errors
    /// When the bytes are not what a responder may send for request 1 under version 1.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Event>, RecordError> {
        loop {
            self.state = match self.state {
                State::Header => match start(buffer)? {
                    Some(state) => state,
                    None => return Ok(None),
                },
                State::Content {
                    left: 0, padding, ..
                } => State::Skip {
                    left: usize::from(padding),
                },
                State::Content {
                    stream,
                    left,
                    padding,
                } => {
                    let length = left.min(buffer.len());
                    if length == 0 {
                        return Ok(None);
                    }
                    let piece = buffer.split_to(length).freeze();
                    self.state = State::Content {
                        stream,
                        left: left - length,
                        padding,
                    };
                    return Ok(Some(match stream {
                        Stream::Stdout => Event::Stdout(piece),
                        Stream::Stderr => Event::Stderr(piece),
                    }));
                }
                State::End { rest } => {
                    let Some(&[a, b, c, d, protocol, _, _, _]) = buffer.first_chunk() else {
                        return Ok(None);
                    };
                    buffer.advance(END_LENGTH);
                    self.state = State::Skip { left: rest };
                    return Ok(Some(Event::End {
                        application: u32::from_be_bytes([a, b, c, d]),
                        protocol: ProtocolStatus::from_number(protocol),
                    }));
                }
                State::Skip { left: 0 } => State::Header,
                State::Skip { left } => {
                    let length = left.min(buffer.len());
                    if length == 0 {
                        return Ok(None);
                    }
                    buffer.advance(length);
                    State::Skip {
                        left: left - length,
                    }
                }
            };
        }
    }

    /// Whether the last record was taken in whole, with its padding.
    pub fn is_between_records(&self) -> bool {
        matches!(self.state, State::Header | State::Skip { left: 0 })
    }
}

impl ProtocolStatus {
    fn from_number(number: u8) -> Self {
        match number {
            0 => ProtocolStatus::RequestComplete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Other(other),
        }
    }
}

/// Why bytes are no record for this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The first byte of a header is not 1.
    #[error("record of version {0}")]
    Version(u8),
    /// An application record for another request.
    #[error("record for request {0}")]
    RequestId(u16),
    /// A type that no responder sends.
    #[error("record of type {0}")]
    Kind(u8),
    /// An END_REQUEST whose content has fewer than eight bytes.
    #[error("END_REQUEST of {0} bytes")]
    ShortEnd(u16),
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Header,
    Content {
        stream: Stream,
        left: usize,
        padding: u8,
    },
    /// `rest`: bytes after the eight that count, padding included.
    End {
        rest: usize,
    },
    Skip {
        left: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

/// Takes a record's header out of the buffer.
fn start(buffer: &mut BytesMut) -> Result<Option<State>, RecordError> {
    let Some(&[version, kind, id_high, id_low, high, low, padding, _]) = buffer.first_chunk()
    else {
        // Garbage is told by its first byte, not only once eight of them have come.
        return match buffer.first() {
            Some(&version) if version != VERSION => Err(RecordError::Version(version)),
            _ => Ok(None),
        };
    };
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let id = u16::from_be_bytes([id_high, id_low]);
    let content = u16::from_be_bytes([high, low]);
    let length = usize::from(content);
    let state = match (id, kind) {
        (REQUEST_ID, STDOUT) => State::Content {
            stream: Stream::Stdout,
            left: length,
            padding,
        },
        (REQUEST_ID, STDERR) => State::Content {
            stream: Stream::Stderr,
            left: length,
            padding,
        },
        (REQUEST_ID, END_REQUEST) => match length.checked_sub(END_LENGTH) {
            Some(rest) => State::End {
                rest: rest + usize::from(padding),
            },
            None => return Err(RecordError::ShortEnd(content)),
        },
        (REQUEST_ID, kind) => return Err(RecordError::Kind(kind)),
        // Management records (§4) concern the connection; none of them was asked for.
        (NULL_ID, kind) if kind > LAST_APPLICATION => State::Skip {
            left: length + usize::from(padding),
        },
        (id, _) => return Err(RecordError::RequestId(id)),
    };
    buffer.advance(HEADER_LENGTH);
    Ok(Some(state))
}

const VERSION: u8 = 1;
const REQUEST_ID: u16 = 1;
const NULL_ID: u16 = 0;
const ROLE_RESPONDER: u16 = 1;
const FLAG_KEEP_CONN: u8 = 1;
const END_LENGTH: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
/// DATA; the types above it are management records.
const LAST_APPLICATION: u8 = 8;

#[cfg(test)]
mod tests;
