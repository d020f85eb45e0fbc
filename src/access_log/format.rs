//! The two line formats: nginx's combined, and JSON.
//!
//! **Combined** is nginx's format to the byte, with what Nostat knows besides as named values behind it, where tools
//! that read combined lines stop reading:
//!
//! ```text
//! 192.0.2.7 - - [30/Nov/2026:13:41:56 +0000] "GET /a.css HTTP/1.1" 200 512 "-" "curl/8" cache=hit upstream=- upstream_time=- time=0.000042
//! ```
//!
//! **JSON** is one object a line with the same facts; what is absent is `null`. Times are seconds, to the microsecond.
//!
//! Whatever the client sent is escaped, so that no request can forge a line, end a string or steer a terminal.

use std::io::Write as _;

use super::date::Date;
use super::record::Record;

/// Appends the record as a line of the combined format.
pub fn combined(line: &mut Vec<u8>, record: &Record<'_>) {
    let _ = write!(line, "{} - ", record.client);
    match record.user {
        // A space in it would move every later field by one.
        Some(user) if !user.is_empty() => escape(line, user, |byte| byte == b' '),
        _ => line.push(b'-'),
    }
    line.extend_from_slice(b" [");
    Date::from_unix(record.time).write_common_log(line);
    line.extend_from_slice(b"] \"");
    if record.method.is_empty() {
        line.push(b'-');
    } else {
        escape(line, record.method, no_other);
        line.push(b' ');
        escape(line, record.target, no_other);
        line.push(b' ');
        escape(line, record.protocol.as_bytes(), no_other);
    }
    let _ = write!(line, "\" {} {} \"", record.status, record.body_bytes);
    escape(line, record.referer.unwrap_or(b"-"), no_other);
    line.extend_from_slice(b"\" \"");
    escape(line, record.user_agent.unwrap_or(b"-"), no_other);
    let _ = write!(
        line,
        "\" cache={} upstream={} upstream_time=",
        record.cache, record.upstream
    );
    match record.upstream_micros {
        Some(micros) => seconds(line, micros),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b" time=");
    seconds(line, record.duration_micros);
    line.push(b'\n');
}

/// Appends the record as a JSON object and a newline.
pub fn json(line: &mut Vec<u8>, record: &Record<'_>) {
    line.extend_from_slice(b"{\"timestamp\":\"");
    Date::from_unix(record.time).write_rfc_3339(line);
    let _ = write!(line, "\",\"client\":\"{}\"", record.client);
    member(line, "user", record.user);
    member(line, "method", present(record.method));
    member(line, "target", present(record.target));
    member(line, "protocol", present(record.protocol.as_bytes()));
    member(line, "host", present(record.host));
    let _ = write!(
        line,
        ",\"status\":{},\"bytes\":{}",
        record.status, record.body_bytes
    );
    member(line, "referer", record.referer);
    member(line, "user_agent", record.user_agent);
    member(line, "cache", named(record.cache));
    member(line, "upstream", named(record.upstream));
    line.extend_from_slice(b",\"upstream_time\":");
    match record.upstream_micros {
        Some(micros) => seconds(line, micros),
        None => line.extend_from_slice(b"null"),
    }
    line.extend_from_slice(b",\"time\":");
    seconds(line, record.duration_micros);
    line.extend_from_slice(b"}\n");
}

/// Appends bytes, the unsafe ones as `\xHH`: control bytes, what is not ASCII, quote and backslash (as nginx does, which
/// leaves bytes from 0x80 on as they are), and those that `other` names.
fn escape(line: &mut Vec<u8>, bytes: &[u8], other: fn(u8) -> bool) {
    for &byte in bytes {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' && !other(byte) {
            line.push(byte);
        } else {
            let _ = write!(line, "\\x{byte:02X}");
        }
    }
}

fn no_other(_: u8) -> bool {
    false
}

/// Appends `,"name":"value"`, or `null` for an absent value.
fn member(line: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let _ = write!(line, ",\"{name}\":");
    let Some(value) = value else {
        line.extend_from_slice(b"null");
        return;
    };
    line.push(b'"');
    for chunk in value.utf8_chunks() {
        json_text(line, chunk.valid());
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    line.push(b'"');
}

/// Appends text inside a JSON string (RFC 8259, section 7). Beyond what JSON asks for, every control character and both
/// Unicode line separators are escaped: some viewers break lines there.
fn json_text(line: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '"' => line.extend_from_slice(b"\\\""),
            '\\' => line.extend_from_slice(b"\\\\"),
            '\u{2028}' | '\u{2029}' => write_escaped(line, character),
            _ if character.is_control() => write_escaped(line, character),
            _ => line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn write_escaped(line: &mut Vec<u8>, character: char) {
    let _ = write!(line, "\\u{:04x}", u32::from(character));
}

fn present(value: &[u8]) -> Option<&[u8]> {
    (!value.is_empty()).then_some(value)
}

fn named(value: &'static str) -> Option<&'static [u8]> {
    (value != "-").then_some(value.as_bytes())
}

fn seconds(line: &mut Vec<u8>, micros: u64) {
    let _ = write!(line, "{}.{:06}", micros / 1_000_000, micros % 1_000_000);
}

#[cfg(test)]
mod tests;
