//! Looking for the end of a head, once over each byte however it arrives (RFC 9112 §2.2).

use super::request_line;
use super::{HeadError, HeadLimits, MAX_FIELDS};

/// How far a head that is not whole yet has been looked through.
///
/// Made with `default()` at the beginning of each head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeadScan {
    /// Bytes looked through.
    scanned: usize,
    /// Where the line begins that is not whole yet.
    line_start: usize,
    /// Empty lines before the request line.
    empty_lines: usize,
    /// Where the request line begins and ends, once it is whole; without its CRLF.
    request_line: Option<(usize, usize)>,
    /// Whether the request line has been read and found well-formed.
    pub(super) judged: bool,
    /// Field lines seen.
    fields: usize,
}

impl HeadScan {
    /// Looks through the new bytes: the length of the head when its end is among them.
    ///
    /// Looks never further than the largest head there may be, so that the first fault in it
    /// decides, not the size of a read.
    pub(super) fn advance(
        &mut self,
        buf: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let window = buf.get(..limits.head_size).unwrap_or(buf);
        let base = self.scanned;
        for offset in memchr::memchr_iter(b'\n', window.get(base..).unwrap_or_default()) {
            let end = base.saturating_add(offset);
            let line = window.get(self.line_start..end).unwrap_or_default();
            if self.take_line(line, end, limits)? {
                return Ok(Some(end.saturating_add(1)));
            }
            self.line_start = end.saturating_add(1);
        }
        self.scanned = window.len();

        if self.request_line.is_none() {
            let begun = window.get(self.line_start..).unwrap_or_default();
            request_line::refuse_early(begun.strip_suffix(b"\r").unwrap_or(begun), limits.url)?;
        }
        if buf.len() >= limits.head_size {
            return Err(HeadError::TooLarge);
        }
        Ok(None)
    }

    /// The request line without its line end, once it is whole.
    pub(super) fn request_line<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        let (start, end) = self.request_line?;
        buf.get(start..end)
    }

    /// Where the request line begins, or would begin.
    pub(super) fn request_start(&self) -> usize {
        self.request_line
            .map_or(self.line_start, |(start, _)| start)
    }

    /// Takes in a line that ends with the LF at `end`; true when it ends the head.
    fn take_line(
        &mut self,
        line: &[u8],
        end: usize,
        limits: &HeadLimits,
    ) -> Result<bool, HeadError> {
        let ended = line.strip_suffix(b"\r");
        let text = ended.unwrap_or(line);
        if ended.is_none() {
            if self.request_line.is_none() {
                // First what would have been seen if the line had arrived in pieces.
                request_line::refuse_early(text, limits.url)?;
            }
            return Err(HeadError::Malformed("LF without CR"));
        }
        match (self.request_line, text.is_empty()) {
            (Some(_), true) => return Ok(true),
            (Some(_), false) => {
                self.fields = self.fields.saturating_add(1);
                if self.fields > limits.fields.min(MAX_FIELDS) {
                    return Err(HeadError::TooManyFields);
                }
            }
            (None, true) => {
                self.empty_lines = self.empty_lines.saturating_add(1);
                if self.empty_lines > EMPTY_LINES {
                    return Err(HeadError::Malformed("empty lines before the request line"));
                }
            }
            (None, false) => {
                self.request_line = Some((self.line_start, end.saturating_sub(1)));
            }
        }
        Ok(false)
    }
}

/// Empty lines that are skipped before a request line: old clients send one after a body.
const EMPTY_LINES: usize = 2;
