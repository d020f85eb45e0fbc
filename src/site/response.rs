//! An answer: status, head and where its content comes from; and the answers that need no file.
//!
//! Heads are rendered without Date, Connection and the closing empty line, which the writer adds.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::descriptor_cache::{OpenFile, Outcome};
use crate::page_cache::PageOutcome;

/// An answer, ready to be written.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and fields, each line ended; no Date, no Connection, no final empty line.
    pub head: Bytes,
    /// The content; empty in answers to HEAD, whatever the head says of its length.
    pub body: Body,
    /// What a cache had to do.
    pub outcome: Option<Cached>,
}

/// What a cache had to do for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// The descriptor cache.
    File(Outcome),
    /// The page cache.
    Page(PageOutcome),
}

impl Cached {
    /// The word for the access log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Cached::File(outcome) => outcome.as_str(),
            Cached::Page(outcome) => outcome.logged(),
        }
    }
}

impl Answer {
    /// The same answer to HEAD: the head as it is, without content.
    #[must_use]
    pub fn without_body(self) -> Answer {
        Answer {
            body: Body::Empty,
            ..self
        }
    }

    /// The same answer with what the descriptor cache had to do for it.
    #[must_use]
    pub fn after(self, outcome: Option<Outcome>) -> Answer {
        Answer {
            outcome: outcome.map(Cached::File),
            ..self
        }
    }
}

/// Where the content of an answer comes from.
#[derive(Debug, Clone)]
pub enum Body {
    /// There is none.
    Empty,
    /// All of it is at hand.
    Memory(Bytes),
    /// A stretch of a file.
    File(FileSpan),
    /// One after another (multipart/byteranges).
    Parts(Vec<Part>),
}

impl Body {
    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File(span) => span.length,
            Body::Parts(parts) => parts.iter().map(Part::length).sum(),
        }
    }
}

/// A stretch of a file.
#[derive(Debug, Clone)]
pub struct FileSpan {
    /// The open file.
    pub file: Arc<OpenFile>,
    /// The first byte's position.
    pub first: u64,
    /// Length in bytes.
    pub length: u64,
}

/// One piece of a content in several.
#[derive(Debug, Clone)]
pub enum Part {
    /// Bytes at hand.
    Memory(Bytes),
    /// A stretch of a file.
    File(FileSpan),
}

impl Part {
    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Part::Memory(bytes) => bytes.len() as u64,
            Part::File(span) => span.length,
        }
    }
}

/// An answer of this status made here: a line of text, `no-store`, and what the status asks for (Allow, Retry-After).
///
/// Its head is rendered once per process. A status that nothing here answers with becomes 500.
#[must_use]
pub fn local_answer(status: u16) -> Answer {
    static RENDERED: LazyLock<Vec<Answer>> = LazyLock::new(|| {
        STATUSES
            .iter()
            .map(|&(status, reason, fields)| text(status, reason, fields))
            .collect()
    });
    let known = |status| RENDERED.iter().find(|answer| answer.status == status);
    known(status)
        .or_else(|| known(500))
        .cloned()
        .unwrap_or_else(|| text(500, "Internal Server Error", ""))
}

/// 405 for a method that a file does not take.
#[must_use]
pub fn method_not_allowed() -> Answer {
    static RENDERED: LazyLock<Answer> =
        LazyLock::new(|| text(405, "Method Not Allowed", "Allow: GET, HEAD, OPTIONS\r\n"));
    RENDERED.clone()
}

/// 429 (RFC 6585 §4): the next one may come in so many seconds.
#[must_use]
pub fn too_many_requests(seconds: u64) -> Answer {
    text(
        429,
        "Too Many Requests",
        &format!("Retry-After: {seconds}\r\n"),
    )
}

/// 204 to OPTIONS (RFC 9110 §9.3.7).
#[must_use]
pub fn options() -> Answer {
    Answer {
        status: 204,
        head: Bytes::from_static(b"HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, OPTIONS\r\n"),
        body: Body::Empty,
        outcome: None,
    }
}

/// 416 for a representation of this length (RFC 9110 §15.5.17).
#[must_use]
pub fn not_satisfiable(complete_length: u64) -> Answer {
    text(
        416,
        "Range Not Satisfiable",
        &format!("Content-Range: bytes */{complete_length}\r\n"),
    )
}

/// A redirect to the path with a slash behind it, with its query; 301, or 308 where the method must stay.
///
/// The reference is relative to this host, whatever the client calls it. `path` is decoded and begins with exactly one
/// slash, so the reference never begins with two (which would name another host).
#[must_use]
pub fn add_slash(path: &[u8], query: Option<&[u8]>, status: u16) -> Answer {
    let mut location = b"Location: /".to_vec();
    let relative = path
        .iter()
        .position(|&b| b != b'/')
        .and_then(|first| path.get(first..));
    encode(relative.unwrap_or_default(), PATH, &mut location);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        encode(query, QUERY, &mut location);
    }
    location.extend_from_slice(b"\r\n");
    let reason = if status == 308 {
        "Permanent Redirect"
    } else {
        "Moved Permanently"
    };
    text(status, reason, &String::from_utf8_lossy(&location))
}

/// A redirect to a reference that is percent-encoded. Those for good may be kept by browsers and caches; the others not.
#[must_use]
pub fn redirect(status: u16, location: &[u8]) -> Answer {
    let reason = match status {
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => "Moved Permanently",
    };
    let kept = match status {
        301 | 308 => "",
        _ => "Cache-Control: no-store\r\n",
    };
    let body = format!("{status} {reason}\n");
    let mut head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{kept}Location: ",
        body.len()
    )
    .into_bytes();
    head.extend_from_slice(location);
    head.extend_from_slice(b"\r\n");
    Answer {
        status,
        head: Bytes::from(head),
        body: Body::Memory(Bytes::from(body)),
        outcome: None,
    }
}

/// 401 that asks for a user and a password (RFC 7617 §2, §2.1).
#[must_use]
pub fn unauthorized(realm: &str) -> Answer {
    let mut quoted = String::with_capacity(realm.len());
    for character in realm.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    let challenge = format!("WWW-Authenticate: Basic realm=\"{quoted}\", charset=\"UTF-8\"\r\n");
    text(401, "Unauthorized", &challenge)
}

/// 200 of a site that is well.
#[must_use]
pub fn healthy() -> Answer {
    Answer {
        status: 200,
        head: Bytes::from_static(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nCache-Control: no-store\r\n",
        ),
        body: Body::Memory(Bytes::from_static(b"ok\n")),
        outcome: None,
    }
}

/// These bytes, which are nothing that a browser shows.
#[must_use]
pub fn octets(bytes: Bytes) -> Answer {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n",
        bytes.len()
    );
    Answer {
        status: 200,
        head: head.into(),
        body: Body::Memory(bytes),
        outcome: None,
    }
}

/// Percent-encodes what may not stand in this part of a reference (RFC 3986 §2.1).
pub fn encode(bytes: &[u8], allowed: &[u8], into: &mut Vec<u8>) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || allowed.contains(&byte) {
            into.push(byte);
        } else {
            into.push(b'%');
            into.extend([byte >> 4, byte & 15].map(|digit| match digit {
                0..=9 => b'0' + digit,
                _ => b'A' + digit - 10,
            }));
        }
    }
}

fn text(status: u16, reason: &str, fields: &str) -> Answer {
    let body = format!("{status} {reason}\n");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{fields}",
        body.len()
    );
    Answer {
        status,
        head: Bytes::from(head),
        body: Body::Memory(Bytes::from(body)),
        outcome: None,
    }
}

/// What may stand in a path as it is, beside letters and digits (RFC 3986 §3.3).
pub const PATH: &[u8] = b"-._~!$&'()*+,;=:@/";
/// The same of a query as a client sent it: what was escaped stays so.
pub const QUERY: &[u8] = b"-._~!$&'()*+,;=:@/?%[]{}|^`\"<>\\";

const STATUSES: [(u16, &str, &str); 27] = [
    (400, "Bad Request", ""),
    (401, "Unauthorized", ""),
    (403, "Forbidden", ""),
    (404, "Not Found", ""),
    (
        405,
        "Method Not Allowed",
        "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n",
    ),
    (406, "Not Acceptable", ""),
    (408, "Request Timeout", ""),
    (409, "Conflict", ""),
    (410, "Gone", ""),
    (411, "Length Required", ""),
    (412, "Precondition Failed", ""),
    (413, "Content Too Large", ""),
    (414, "URI Too Long", ""),
    (415, "Unsupported Media Type", ""),
    (416, "Range Not Satisfiable", ""),
    (417, "Expectation Failed", ""),
    (421, "Misdirected Request", ""),
    (426, "Upgrade Required", ""),
    (429, "Too Many Requests", "Retry-After: 1\r\n"),
    (431, "Request Header Fields Too Large", ""),
    (500, "Internal Server Error", ""),
    (501, "Not Implemented", ""),
    (502, "Bad Gateway", ""),
    (503, "Service Unavailable", "Retry-After: 1\r\n"),
    (504, "Gateway Timeout", ""),
    (505, "HTTP Version Not Supported", ""),
    (507, "Insufficient Storage", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn head(answer: &Answer) -> String {
        String::from_utf8_lossy(&answer.head).into_owned()
    }

    #[test]
    fn local_answers_have_an_exact_length_and_are_not_stored() {
        for (status, reason, _) in STATUSES {
            let answer = local_answer(status);
            assert_eq!(answer.status, status);
            let head = head(&answer);
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} {reason}\r\n")),
                "{head}"
            );
            assert!(
                head.contains(&format!("Content-Length: {}\r\n", answer.body.length())),
                "{head}"
            );
            assert!(head.contains("Cache-Control: no-store\r\n") && head.ends_with("\r\n"));
        }
        assert_eq!(local_answer(299).status, 500);
    }

    #[test]
    fn statuses_bring_the_fields_they_ask_for() {
        assert!(head(&local_answer(405)).contains("Allow: "));
        assert!(head(&local_answer(503)).contains("Retry-After: 1\r\n"));
        assert!(head(&method_not_allowed()).contains("Allow: GET, HEAD, OPTIONS\r\n"));
        assert!(head(&not_satisfiable(10)).contains("Content-Range: bytes */10\r\n"));
    }

    #[test]
    fn a_redirect_keeps_the_query_and_this_host() {
        let location = |path: &[u8], query| {
            let head = head(&add_slash(path, query, 301));
            let start = head.find("Location: ").map_or(0, |at| at + 10);
            head.get(start..)
                .map(|rest| rest.trim_end().to_owned())
                .unwrap_or_default()
        };
        assert_eq!(location(b"/wp-admin", Some(b"x=1")), "/wp-admin/?x=1");
        assert_eq!(location(b"/a b/\xc3\xa9%", None), "/a%20b/%C3%A9%25/");
        assert_eq!(location(b"//evil.example", None), "/evil.example/");
        assert_eq!(location(b"/a", Some(b"")), "/a/?");
        assert_eq!(
            location(b"/a\r\nX: 1", Some(b"\r\nY: 1")),
            "/a%0D%0AX:%201/?%0D%0AY:%201"
        );
    }
}
