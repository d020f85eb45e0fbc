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
//! Whatever the client sent is escaped, so that no request can forge a line, end a string or steer a terminal. Passwords and
//! keys in a query are written as `***`.

use std::cell::RefCell;
use std::io::Write as _;
use std::net::IpAddr;

use super::date::Date;
use super::record::Record;
use crate::clock::UnixTime;
use crate::request::secret_arguments::hidden;

/// Appends the record as a line of the combined format.
pub fn combined(line: &mut Vec<u8>, record: &Record<'_>) {
    address(line, record.client);
    line.extend_from_slice(b" - ");
    match record.user {
        // A space in it would move every later field by one.
        Some(user) if !user.is_empty() => escape(line, user, |byte| byte == b' '),
        _ => line.push(b'-'),
    }
    line.extend_from_slice(b" [");
    common_log_date(line, record.time);
    line.extend_from_slice(b"] \"");
    if record.method.is_empty() {
        line.push(b'-');
    } else {
        escape(line, record.method, no_other);
        line.push(b' ');
        escape(line, &hidden(record.target), no_other);
        line.push(b' ');
        escape(line, record.protocol.as_bytes(), no_other);
    }
    line.extend_from_slice(b"\" ");
    number(line, record.status);
    line.push(b' ');
    number(line, record.body_bytes);
    line.extend_from_slice(b" \"");
    escape(line, &hidden(record.referer.unwrap_or(b"-")), no_other);
    line.extend_from_slice(b"\" \"");
    escape(line, record.user_agent.unwrap_or(b"-"), no_other);
    line.extend_from_slice(b"\" cache=");
    line.extend_from_slice(record.cache.as_bytes());
    line.extend_from_slice(b" upstream=");
    line.extend_from_slice(record.upstream.as_bytes());
    line.extend_from_slice(b" upstream_time=");
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
    line.extend_from_slice(b"\",\"client\":\"");
    address(line, record.client);
    line.push(b'"');
    member(line, "user", record.user);
    member(line, "method", present(record.method));
    member(line, "target", present(&hidden(record.target)));
    member(line, "protocol", present(record.protocol.as_bytes()));
    member(line, "host", present(record.host));
    let _ = write!(
        line,
        ",\"status\":{},\"bytes\":{}",
        record.status, record.body_bytes
    );
    let referer = record.referer.map(hidden);
    member(line, "referer", referer.as_deref());
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
fn escape(line: &mut Vec<u8>, bytes: &[u8], other: impl Fn(u8) -> bool) {
    let is_safe =
        |byte| matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\') & !other(byte);
    // No early exit: whole vectors of bytes are compared at once, and nearly all texts are safe.
    if bytes.iter().fold(true, |safe, &byte| safe & is_safe(byte)) {
        line.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        if is_safe(byte) {
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
    number(line, micros / 1_000_000);
    // The leading one gives way to the point, and keeps the zeros behind it.
    let start = line.len();
    number(line, 1_000_000 + micros % 1_000_000);
    if let Some(one) = line.get_mut(start) {
        *one = b'.';
    }
}

fn number(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn address(line: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            number(line, first);
            for octet in rest {
                line.push(b'.');
                number(line, octet);
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(line, "{address}");
        }
    }
}

/// The date in the form of the common log format, rendered once a second by each thread.
fn common_log_date(line: &mut Vec<u8>, time: UnixTime) {
    RENDERED.with_borrow_mut(|(second, date)| {
        if *second != Some(time.seconds) {
            date.clear();
            Date::from_unix(time).write_common_log(date);
            *second = Some(time.seconds);
        }
        line.extend_from_slice(date);
    });
}

thread_local! {
    static RENDERED: RefCell<(Option<i64>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
}

#[cfg(test)]
mod tests;
