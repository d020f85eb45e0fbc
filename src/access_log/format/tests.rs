#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;
use serde_json::{Value, json as value};

use super::*;
use crate::clock::UnixTime;

fn record() -> Record<'static> {
    Record {
        time: UnixTime {
            seconds: 1_796_046_116,
            nanos: 7_000_000,
        },
        client: [192, 0, 2, 7].into(),
        user: Some(b"vera"),
        method: b"GET",
        target: b"/a.css?ver=1",
        protocol: "HTTP/1.1",
        host: b"example.com:8080",
        status: 200,
        body_bytes: 512,
        referer: Some(b"http://example.com/"),
        user_agent: Some(b"curl/8"),
        cache: "hit",
        upstream: "php",
        upstream_micros: Some(12_345),
        duration_micros: 1_000_042,
    }
}

fn bare() -> Record<'static> {
    Record {
        client: IpAddr::V6(Ipv6Addr::LOCALHOST),
        user: None,
        method: b"",
        target: b"",
        protocol: "",
        host: b"",
        status: 400,
        referer: None,
        user_agent: None,
        cache: "-",
        upstream: "-",
        upstream_micros: None,
        ..record()
    }
}

fn text(render: fn(&mut Vec<u8>, &Record<'_>), record: &Record<'_>) -> String {
    let mut line = Vec::new();
    render(&mut line, record);
    String::from_utf8(line).unwrap()
}

#[test]
fn combined_is_nginx_s_format_with_named_values_behind_it() {
    assert_eq!(
        text(combined, &record()),
        "192.0.2.7 - vera [30/Nov/2026:13:41:56 +0000] \"GET /a.css?ver=1 HTTP/1.1\" 200 512 \"http://example.com/\" \
         \"curl/8\" cache=hit upstream=php upstream_time=0.012345 time=1.000042\n"
    );
}

#[test]
fn combined_writes_a_dash_for_what_is_absent() {
    assert_eq!(
        text(combined, &bare()),
        "::1 - - [30/Nov/2026:13:41:56 +0000] \"-\" 400 512 \"-\" \"-\" cache=- upstream=- upstream_time=- time=1.000042\n"
    );
}

#[test]
fn a_forged_line_in_the_user_agent_stays_one_value() {
    let forged = Record {
        user_agent: Some(b"x\"\r\n1.2.3.4 - \\\x1b[2J\xc3\xbc"),
        ..record()
    };
    let line = text(combined, &forged);
    assert!(
        line.contains(r#""x\x22\x0D\x0A1.2.3.4 - \x5C\x1B[2J\xC3\xBC" cache="#),
        "{line}"
    );
}

#[test]
fn a_space_in_the_user_name_moves_no_field() {
    let line = text(
        combined,
        &Record {
            user: Some(b"a b"),
            ..record()
        },
    );
    assert!(line.starts_with(r"192.0.2.7 - a\x20b ["), "{line}");
}

#[test]
fn passwords_in_a_query_are_told_by_neither() {
    let record = Record {
        target: b"/wp-login.php?log=vera&pwd=SECRET",
        referer: Some(b"http://example.com/wp-login.php?action=rp&key=SECRET"),
        ..record()
    };
    for render in [combined, json] {
        let line = text(render, &record);
        assert!(!line.contains("SECRET"), "{line}");
        assert!(line.contains("/wp-login.php?log=vera&pwd=***"), "{line}");
        assert!(line.contains("action=rp&key=***"), "{line}");
    }
}

#[test]
fn json_has_every_fact() {
    let line: Value = serde_json::from_str(&text(json, &record())).unwrap();
    assert_eq!(
        line,
        value!({
            "timestamp": "2026-11-30T13:41:56.007Z", "client": "192.0.2.7", "user": "vera", "method": "GET",
            "target": "/a.css?ver=1", "protocol": "HTTP/1.1", "host": "example.com:8080", "status": 200, "bytes": 512,
            "referer": "http://example.com/", "user_agent": "curl/8", "cache": "hit", "upstream": "php",
            "upstream_time": 0.012345, "time": 1.000042,
        })
    );
}

#[test]
fn json_has_null_for_what_is_absent() {
    let line: Value = serde_json::from_str(&text(json, &bare())).unwrap();
    let absent = [
        "user",
        "method",
        "target",
        "protocol",
        "host",
        "referer",
        "user_agent",
        "cache",
        "upstream",
    ];
    assert!(absent.iter().all(|name| line[name].is_null()), "{line}");
    assert!(line["upstream_time"].is_null());
}

#[test]
fn json_replaces_what_is_not_utf_8_and_escapes_control_characters() {
    let record = Record {
        target: b"/\xff\xc3\xbc\xe2\x80\xa8\xc2\x9b\x00\"\\",
        ..record()
    };
    let line = text(json, &record);
    assert!(
        line.contains("\"/\u{fffd}\u{fc}\\u2028\\u009b\\u0000\\\"\\\\\""),
        "{line}"
    );
}

proptest! {
    #[test]
    fn a_record_is_one_line_in_both_formats_and_always_json(
        user in proptest::option::of(any::<Vec<u8>>()),
        method in any::<Vec<u8>>(),
        target in any::<Vec<u8>>(),
        host in any::<Vec<u8>>(),
        referer in proptest::option::of(any::<Vec<u8>>()),
        user_agent in proptest::option::of(any::<Vec<u8>>()),
        seconds in 0_i64..253_402_300_800,
        duration_micros in any::<u64>(),
    ) {
        let record = Record {
            time: UnixTime { seconds, nanos: 0 },
            user: user.as_deref(),
            method: &method,
            target: &target,
            host: &host,
            referer: referer.as_deref(),
            user_agent: user_agent.as_deref(),
            duration_micros,
            ..record()
        };
        let line = text(combined, &record);
        prop_assert!(line.is_ascii());
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert!(line.ends_with('\n'));
        prop_assert_eq!(line.matches('"').count(), 6);
        prop_assert!(line.chars().all(|character| character == '\n' || !character.is_control()));

        let line = text(json, &record);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert!(line.ends_with('\n'));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        let told = parsed["target"].as_str().unwrap_or_default();
        prop_assert_eq!(told, String::from_utf8_lossy(&target));
    }
}
