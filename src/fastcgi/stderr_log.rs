//! The responder's STDERR as log lines: capped for each request and for the process.

use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::settings::Address;

/// STDERR of one request.
#[derive(Debug)]
pub struct StderrLog<'a> {
    address: &'a Address,
    line: Vec<u8>,
    left: usize,
    cut: bool,
}

impl<'a> StderrLog<'a> {
    /// For a request to `address`.
    pub fn new(address: &'a Address) -> Self {
        StderrLog {
            address,
            line: Vec::new(),
            left: MOST_OF_A_REQUEST,
            cut: false,
        }
    }

    /// Takes the next piece; whole lines are logged.
    pub fn push(&mut self, piece: &[u8]) {
        let taken = piece.get(..self.left).unwrap_or(piece);
        self.left -= taken.len();
        self.cut |= taken.len() < piece.len();
        for part in taken.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let Some(suppressed) = LINES.lock().admit(Instant::now()) else {
            return;
        };
        if suppressed > 0 {
            tracing::warn!("suppressed {suppressed} lines of responders' stderr");
        }
        tracing::warn!("stderr of {}: {}", self.address, escape(line));
    }
}

impl Drop for StderrLog<'_> {
    /// Logs a last line without a line feed, also when the request was cut off.
    fn drop(&mut self) {
        if self.cut {
            self.line.extend_from_slice(b" ... (cut)");
        }
        self.log_line();
    }
}

/// Text with everything that could forge or spoil a log line written as an escape.
pub fn escape(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in String::from_utf8_lossy(text).chars() {
        if character.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "\\x{:02x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A bound on lines in a span of time.
#[derive(Debug)]
pub struct LineLimit {
    began: Option<Instant>,
    admitted: u32,
    suppressed: u64,
}

impl LineLimit {
    /// Before the first line.
    pub const fn new() -> Self {
        LineLimit {
            began: None,
            admitted: 0,
            suppressed: 0,
        }
    }

    /// Whether a line may be logged at `now`, and how many before it were not.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        let over = |began: Instant| now.saturating_duration_since(began) >= SPAN;
        if self.began.is_none_or(over) {
            self.began = Some(now);
            self.admitted = 0;
        }
        if self.admitted >= LINES_IN_SPAN {
            self.suppressed += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl Default for LineLimit {
    fn default() -> Self {
        LineLimit::new()
    }
}

/// Of all responders together: one of them in a loop must not fill the disk.
static LINES: Mutex<LineLimit> = Mutex::new(LineLimit::new());

const MOST_OF_A_REQUEST: usize = 8 * 1024;
const LINES_IN_SPAN: u32 = 100;
const SPAN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_escaped_and_other_text_is_kept() {
        assert_eq!(escape(b"a\x1b[31m\r\nb\x7f"), "a\\x1b[31m\\x0d\\x0ab\\x7f");
        assert_eq!(escape("caf\u{e9}".as_bytes()), "caf\u{e9}");
        assert_eq!(escape(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut limit = LineLimit::new();
        let start = Instant::now();
        for _ in 0..LINES_IN_SPAN {
            assert_eq!(limit.admit(start), Some(0));
        }
        assert_eq!(limit.admit(start), None);
        assert_eq!(limit.admit(start + SPAN / 2), None);
        assert_eq!(limit.admit(start + SPAN), Some(2));
        assert_eq!(limit.admit(start + SPAN), Some(0));
    }

    #[test]
    fn a_request_is_cut_at_its_share() {
        let address = Address::Tcp(([127, 0, 0, 1], 9000).into());
        let mut log = StderrLog::new(&address);
        for _ in 0..100 {
            log.push(&[b'x'; 4096]);
        }
        assert_eq!(log.line.len(), MOST_OF_A_REQUEST);
        assert!(log.cut);
    }
}
