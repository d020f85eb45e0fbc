//! Content of a file, whole or in parts: 206 with one range or as multipart/byteranges (RFC 9110 §14.6, §15.3.7).

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::descriptor_cache::{FileFound, Source};
use crate::request::range::ByteRange;
use crate::site::conditional::Selected;
use crate::site::response::{Answer, Body, FileSpan, Part};

/// The whole content.
#[must_use]
pub fn whole(found: &FileFound) -> Body {
    match &found.source {
        _ if found.entry.size() == 0 => Body::Empty,
        Source::Memory(bytes) => Body::Memory(bytes.clone()),
        Source::Descriptor(file) => Body::File(FileSpan {
            file: file.clone(),
            first: 0,
            length: found.entry.size(),
        }),
        Source::None => Body::Empty,
    }
}

/// 206 with one range.
#[must_use]
pub fn single(selected: &Selected<'_>, range: ByteRange) -> Answer {
    let complete = selected.found.entry.size();
    let mut head = b"HTTP/1.1 206 Partial Content\r\nContent-Type: ".to_vec();
    head.extend_from_slice(selected.media_type);
    head.extend_from_slice(
        format!(
            "\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{complete}\r\n",
            range.length(),
            range.first,
            range.last
        )
        .as_bytes(),
    );
    head.extend_from_slice(&selected.pair.partial);
    let body = match part(selected.found, range) {
        Part::Memory(bytes) => Body::Memory(bytes),
        Part::File(span) => Body::File(span),
    };
    answer(head, body)
}

/// 206 with several ranges, in the order asked for.
#[must_use]
pub fn multiple(selected: &Selected<'_>, ranges: &[ByteRange]) -> Answer {
    let complete = selected.found.entry.size();
    let boundary = boundary();
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    for (index, &range) in ranges.iter().enumerate() {
        let start = if index == 0 { "" } else { "\r\n" };
        let mut fields = format!("{start}--{boundary}\r\nContent-Type: ").into_bytes();
        fields.extend_from_slice(selected.media_type);
        fields.extend_from_slice(
            format!(
                "\r\nContent-Range: bytes {}-{}/{complete}\r\n\r\n",
                range.first, range.last
            )
            .as_bytes(),
        );
        parts.push(Part::Memory(Bytes::from(fields)));
        parts.push(part(selected.found, range));
    }
    parts.push(Part::Memory(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    let body = Body::Parts(parts);
    let mut head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary={boundary}\r\nContent-Length: {}\r\n",
        body.length()
    )
    .into_bytes();
    head.extend_from_slice(&selected.pair.partial);
    answer(head, body)
}

fn answer(head: Vec<u8>, body: Body) -> Answer {
    Answer {
        status: 206,
        head: Bytes::from(head),
        body,
        outcome: None,
    }
}

fn part(found: &FileFound, range: ByteRange) -> Part {
    match &found.source {
        Source::Memory(bytes) => {
            let end = usize::try_from(range.last)
                .ok()
                .and_then(|last| last.checked_add(1));
            let stretch = usize::try_from(range.first)
                .ok()
                .zip(end)
                .filter(|&(first, end)| first <= end && end <= bytes.len());
            Part::Memory(stretch.map_or_else(Bytes::new, |(first, end)| bytes.slice(first..end)))
        }
        Source::Descriptor(file) => Part::File(FileSpan {
            file: file.clone(),
            first: range.first,
            length: range.length(),
        }),
        Source::None => Part::Memory(Bytes::new()),
    }
}

/// A line that does not stand in the content: whoever wrote the content cannot have known it, since it is a keyed hash
/// of how many were made before, and the keys are this process' own.
fn boundary() -> String {
    static KEYS: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let [high, low] = KEYS.each_ref().map(|key| key.hash_one(number));
    format!("{high:016x}{low:016x}")
}
