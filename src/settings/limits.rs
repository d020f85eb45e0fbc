//! `limits`: what a client may take of time, size and number.

use std::time::Duration;

use crate::edge::Limits;

use super::mistake::Wrong;
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The limits; their defaults where the file says nothing.
pub fn read(top: &Section<'_, '_>, report: &Report) -> Limits {
    let default = Limits::default();
    let Some(node) = top.node("limits") else {
        return default;
    };
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return default;
    };
    let head_size = section.size("head_size", size(default.head_size), 1 << 10..=1 << 20);
    let url = section.size("url", size(default.url), 256..=1 << 20);
    if url > head_size {
        let key = if section.node("url").is_some() {
            "url"
        } else {
            "head_size"
        };
        let message = format!(
            "url ({}) is larger than head_size ({}), of which it is a part",
            scalar::format_size(url),
            scalar::format_size(head_size),
        );
        report.value(
            &section.path(key),
            Wrong::new(message, "expected url to be the smaller one"),
        );
    }
    Limits {
        request_head: section.duration("request_head", default.request_head, TENTH..=HOUR),
        keep_alive: section.duration("keep_alive", default.keep_alive, TENTH..=HOUR),
        body: section.duration("body", default.body, TENTH..=HOUR),
        body_rate: section.size("body_rate", default.body_rate, RATE),
        send: section.duration("send", default.send, TENTH..=HOUR),
        send_rate: section.size("send_rate", default.send_rate, RATE),
        drain: section.duration("drain", default.drain, Duration::ZERO..=DAY),
        head_size: usize::try_from(head_size).unwrap_or(default.head_size),
        url: usize::try_from(url).unwrap_or(default.url),
        headers: section.count("headers", default.headers, 1..=256),
        max_body: section.size("max_body", default.max_body, MAX_BODY),
        connections: section.auto_or_count("connections", 1..=10_000_000),
        connections_per_address: section.word_or_count(
            "connections_per_address",
            "off",
            1..=10_000_000,
        ),
        streams: section.count("streams", default.streams, 1..=10_000),
        requests_per_connection: section.count(
            "requests_per_connection",
            default.requests_per_connection,
            1..=1_000_000_000_000,
        ),
    }
}

fn size(default: usize) -> u64 {
    u64::try_from(default).unwrap_or(u64::MAX)
}

/// What `max_body` may be, here and in a site: none at all up to a terabyte.
pub const MAX_BODY: std::ops::RangeInclusive<u64> = 0..=1 << 40;

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "request_head",
        "keep_alive",
        "body",
        "body_rate",
        "send",
        "send_rate",
        "drain",
        "head_size",
        "url",
        "headers",
        "max_body",
        "connections",
        "connections_per_address",
        "requests_per_connection",
        "streams",
    ],
    later: &[],
};

/// Bytes a second; 0: any pace will do.
const RATE: std::ops::RangeInclusive<u64> = 0..=1 << 30;
const TENTH: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
