//! The framing of a chunked request body (RFC 9112 §7.1), judged strictly.
//!
//! Stricter than the grammar where a reader further in could take the bytes otherwise: no white
//! space beside a chunk size, no LF without CR, no folding in the trailer section, and bounds on
//! everything that is not payload.

use thiserror::Error;

use super::fields::is_token_byte;

/// How far a chunked body has been read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkedFraming {
    state: State,
    /// Bytes of payload that further chunks may have.
    allowed: u64,
    /// Bytes spent on chunk extensions in the whole body.
    extensions: usize,
    /// Bytes spent on the trailer section.
    trailers: usize,
}

/// What a call took from the buffer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Advanced {
    /// Bytes of the buffer that belong to this body: all of them until it is done.
    pub consumed: usize,
    /// Whether the last byte of the body has been seen.
    pub done: bool,
    /// Payload bytes among them.
    pub data: u64,
}

/// Why a body is refused: 400 unless said otherwise, and the connection is closed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum ChunkError {
    /// Not one to sixteen hexadecimal digits.
    #[error("bad chunk size")]
    Size,
    /// A control byte in a chunk extension, or too many bytes of them.
    #[error("bad chunk extension")]
    Extension,
    /// A line, or the payload of a chunk, that does not end with CRLF.
    #[error("bad line end in the chunked coding")]
    LineEnd,
    /// More payload announced than is allowed: 413.
    #[error("the body is too large")]
    TooLarge,
    /// No field line, or a trailer section that is too long.
    #[error("bad trailer section")]
    Trailer,
}

impl ChunkedFraming {
    /// The framing at the beginning of a body of at most `most` bytes of payload.
    pub fn new(most: u64) -> Self {
        ChunkedFraming {
            state: State::default(),
            allowed: most,
            extensions: 0,
            trailers: 0,
        }
    }

    /// Reads on; after the end of the body it takes nothing more.
    ///
    /// # Errors
    /// [`ChunkError`] at the first byte that breaks the coding; the framing is of no use then.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Advanced, ChunkError> {
        self.decode(buf, |_| {})
    }

    /// As [`advance`](Self::advance), and hands out the payload, piece by piece, never empty.
    ///
    /// # Errors
    /// As [`advance`](Self::advance); what was handed out before the fault has to be dropped.
    pub fn decode(
        &mut self,
        buf: &[u8],
        mut payload: impl FnMut(&[u8]),
    ) -> Result<Advanced, ChunkError> {
        let mut rest = buf;
        let mut data = 0_u64;
        while self.state != State::Done {
            if let State::Data { left } = self.state {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                if piece.is_empty() {
                    break;
                }
                payload(piece);
                let taken = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                data = data.saturating_add(taken);
                rest = after;
                self.state = match left.saturating_sub(taken) {
                    0 => State::DataCr,
                    left => State::Data { left },
                };
                continue;
            }
            let Some((&byte, after)) = rest.split_first() else {
                break;
            };
            self.state = self.step(byte)?;
            rest = after;
        }
        Ok(Advanced {
            consumed: buf.len().saturating_sub(rest.len()),
            done: self.state == State::Done,
            data,
        })
    }

    /// Takes one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match self.state {
            State::Size { digits, size } => match byte {
                b'\r' if digits > 0 => Ok(State::SizeLf { size }),
                b';' if digits > 0 => self.extension(size, 1),
                _ => take_size_digit(digits, size, byte),
            },
            State::Extension { size, length } => match byte {
                b'\r' => Ok(State::SizeLf { size }),
                _ if is_text(byte) => self.extension(size, length.saturating_add(1)),
                _ => Err(ChunkError::Extension),
            },
            State::SizeLf { size } => match (expect_lf(byte)?, size) {
                ((), 0) => Ok(State::TrailerStart),
                // Refused when it is announced, before any of it has come.
                ((), size) => match self.allowed.checked_sub(size) {
                    None => Err(ChunkError::TooLarge),
                    Some(allowed) => {
                        self.allowed = allowed;
                        Ok(State::Data { left: size })
                    }
                },
            },
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf => expect_lf(byte).map(|()| State::Size { digits: 0, size: 0 }),
            State::TrailerStart if byte == b'\r' => Ok(State::EndLf),
            State::TrailerStart | State::TrailerName => match byte {
                b':' if self.state == State::TrailerName => self.trailer(State::TrailerValue),
                _ if is_token_byte(byte) => self.trailer(State::TrailerName),
                _ => Err(ChunkError::Trailer),
            },
            State::TrailerValue => match byte {
                b'\r' => self.trailer(State::TrailerLf),
                _ if is_text(byte) => self.trailer(State::TrailerValue),
                _ => Err(ChunkError::Trailer),
            },
            State::TrailerLf => expect_lf(byte).map(|()| State::TrailerStart),
            State::EndLf => expect_lf(byte).map(|()| State::Done),
            // The last two are never asked for a byte of framing.
            State::DataCr | State::Data { .. } | State::Done => Err(ChunkError::LineEnd),
        }
    }

    fn extension(&mut self, size: u64, length: usize) -> Result<State, ChunkError> {
        self.extensions = self.extensions.saturating_add(1);
        if length > EXTENSION_LENGTH || self.extensions > EXTENSIONS_LENGTH {
            return Err(ChunkError::Extension);
        }
        Ok(State::Extension { size, length })
    }

    fn trailer(&mut self, next: State) -> Result<State, ChunkError> {
        self.trailers = self.trailers.saturating_add(1);
        if self.trailers > TRAILERS_LENGTH {
            return Err(ChunkError::Trailer);
        }
        Ok(next)
    }
}

/// What the next byte is read as.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    /// A digit of a chunk's size, or what ends it.
    Size { digits: u8, size: u64 },
    /// A chunk extension, which nobody reads.
    Extension { size: u64, length: usize },
    /// The LF behind a chunk's size.
    SizeLf { size: u64 },
    /// Payload.
    Data { left: u64 },
    /// The CR behind the payload.
    DataCr,
    /// The LF behind the payload.
    DataLf,
    /// The first byte of a trailer line, or of the empty line that ends the body.
    TrailerStart,
    /// The name of a trailer field, at least one byte of it read.
    TrailerName,
    /// The value of a trailer field.
    TrailerValue,
    /// The LF behind a trailer field.
    TrailerLf,
    /// The last byte of the body.
    EndLf,
    /// Nothing more.
    Done,
}

impl Default for State {
    fn default() -> Self {
        State::Size { digits: 0, size: 0 }
    }
}

/// Sixteen digits always fit into 64 bits.
fn take_size_digit(digits: u8, size: u64, byte: u8) -> Result<State, ChunkError> {
    let value = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return Err(ChunkError::Size),
    };
    if digits >= SIZE_DIGITS {
        return Err(ChunkError::Size);
    }
    Ok(State::Size {
        digits: digits + 1,
        size: size << 4 | u64::from(value),
    })
}

fn expect_lf(byte: u8) -> Result<(), ChunkError> {
    match byte {
        b'\n' => Ok(()),
        _ => Err(ChunkError::LineEnd),
    }
}

/// What may stand in a line: no control but the tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// Digits of a chunk's size, leading zeros counted.
const SIZE_DIGITS: u8 = 16;

/// Bytes of the extensions of one chunk.
const EXTENSION_LENGTH: usize = 256;

/// Bytes of the extensions of all chunks of a body.
const EXTENSIONS_LENGTH: usize = 16 * 1024;

/// Bytes of the trailer section.
const TRAILERS_LENGTH: usize = 8 * 1024;

#[cfg(test)]
mod tests;
