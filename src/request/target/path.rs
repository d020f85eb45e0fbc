//! Decoding a path: escapes once, dot segments taken out (RFC 3986 §5.2.4), runs of slashes one.

use std::borrow::Cow;

use super::TargetError;

/// The decoded path, and whether a segment of it holds a separator.
///
/// `raw` begins with a slash and holds no control byte.
pub(super) fn decode(raw: &[u8]) -> Result<(Cow<'_, [u8]>, bool), TargetError> {
    if is_plain(raw) {
        return Ok((Cow::Borrowed(raw), false));
    }
    let mut decoded = Decoded {
        path: Vec::with_capacity(raw.len()),
        separator_in_segment: false,
        directory: false,
    };
    for segment in raw.split(|&byte| byte == b'/') {
        decoded.push(segment)?;
    }
    let Decoded {
        path,
        separator_in_segment,
        ..
    } = decoded.finish();
    let path = if path == raw {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(path)
    };
    Ok((path, separator_in_segment))
}

/// Whether decoding would change nothing, which one look at each byte tells.
fn is_plain(raw: &[u8]) -> bool {
    let mut before = 0;
    for &byte in raw {
        if matches!(byte, b'%' | b'\\') || (before == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        before = byte;
    }
    true
}

/// A path being put together.
struct Decoded {
    /// `/a/b`; empty for the root.
    path: Vec<u8>,
    separator_in_segment: bool,
    /// Whether the last segment named a directory, as an empty one or dots do.
    directory: bool,
}

impl Decoded {
    fn push(&mut self, raw: &[u8]) -> Result<(), TargetError> {
        let begin = self.path.len();
        self.path.push(b'/');
        unescape(raw, &mut self.path)?;
        let segment = self.path.get(begin.saturating_add(1)..).unwrap_or_default();
        self.directory = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => self.path.truncate(begin),
            b".." => {
                self.path.truncate(begin);
                self.leave_segment()?;
            }
            _ if segment.iter().any(is_separator) => {
                // Whoever takes these bytes for separators must not be led upwards by them.
                if segment.split(is_separator).any(|piece| piece == b"..") {
                    return Err(TargetError::AboveRoot);
                }
                self.separator_in_segment = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn leave_segment(&mut self) -> Result<(), TargetError> {
        // Behind an encoded separator it cannot be said for every reader which segment is left.
        if self.separator_in_segment {
            return Err(TargetError::AboveRoot);
        }
        let parent = memchr::memrchr(b'/', &self.path).ok_or(TargetError::AboveRoot)?;
        self.path.truncate(parent);
        Ok(())
    }

    fn finish(mut self) -> Self {
        if self.directory {
            self.path.push(b'/');
        }
        self
    }
}

/// Appends the bytes with their escapes undone, `+` being a plus sign as any other byte is itself.
fn unescape(raw: &[u8], into: &mut Vec<u8>) -> Result<(), TargetError> {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (before, escape) = rest.split_at_checked(at).ok_or(TargetError::Escape)?;
        into.extend_from_slice(before);
        let [b'%', high, low, after @ ..] = escape else {
            return Err(TargetError::Escape);
        };
        let byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        if byte.is_ascii_control() {
            return Err(TargetError::Control);
        }
        into.push(byte);
        rest = after;
    }
    into.extend_from_slice(rest);
    Ok(())
}

fn hex_digit(byte: u8) -> Result<u8, TargetError> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(TargetError::Escape),
    }
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}
