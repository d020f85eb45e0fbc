//! Range requests (RFC 9110 §14).

use std::time::SystemTime;

use crate::support::client::Response;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_MODIFIED, STYLE_PATH};
use crate::support::nostat::{Config, Nostat};

/// The parts of a multipart/byteranges body: Content-Range, Content-Type, bytes (RFC 9110 §14.6).
#[track_caller]
fn parts(response: &Response) -> Vec<(String, String, Vec<u8>)> {
    let media_type = response.field("content-type").unwrap_or_default();
    let boundary = media_type
        .strip_prefix("multipart/byteranges; boundary=")
        .expect(media_type)
        .trim_matches('"');
    let text: String = response.body.iter().copied().map(char::from).collect();
    let delimiter = format!("\r\n--{boundary}");
    let text = format!("\r\n{}", text.strip_prefix("\r\n").unwrap_or(&text));
    let mut pieces = text.split(&delimiter);
    assert_eq!(pieces.next(), Some(""), "a preamble");
    let pieces: Vec<&str> = pieces.collect();
    let (end, pieces) = pieces.split_last().expect("a last delimiter");
    assert!(*end == "--\r\n" || *end == "--", "end of the body: {end:?}");
    let part = |piece: &&str| {
        let (head, body) = piece
            .strip_prefix("\r\n")
            .unwrap()
            .split_once("\r\n\r\n")
            .unwrap();
        let field = |wanted: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            let values: Vec<&str> = fields
                .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value)
                .collect();
            assert_eq!(values.len(), 1, "{wanted} in {head:?}");
            values[0].to_owned()
        };
        (
            field("content-range"),
            field("content-type"),
            body.chars().map(|c| c as u8).collect(),
        )
    };
    pieces.iter().map(part).collect()
}

#[test]
fn one_range_is_cut_out_exactly() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    for (range, content_range, bytes) in [
        ("bytes=0-0", "bytes 0-0/10", "0"),
        ("bytes=2-5", "bytes 2-5/10", "2345"),
        ("bytes=5-", "bytes 5-9/10", "56789"),
        ("bytes=5-9000", "bytes 5-9/10", "56789"),
        ("bytes=9-", "bytes 9-9/10", "9"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-1000", "bytes 0-9/10", "0123456789"),
        ("bytes=0-", "bytes 0-9/10", "0123456789"),
        ("BYTES=2-5", "bytes 2-5/10", "2345"),
        ("bytes= 2-5 ,", "bytes 2-5/10", "2345"),
        ("bytes=50-60,2-5", "bytes 2-5/10", "2345"),
    ] {
        let response = connection.get_with(STYLE_PATH, &[("Range", range)]);
        response.assert(206, bytes.as_bytes());
        assert_eq!(
            response.field("content-range"),
            Some(content_range),
            "{range}"
        );
        assert_eq!(
            response
                .field("content-type")
                .map(str::to_ascii_lowercase)
                .as_deref(),
            Some("text/css; charset=utf-8"),
            "{range}"
        );
        assert!(
            response.field("etag").is_some() && response.field("date").is_some(),
            "{response}"
        );
    }
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn a_range_field_that_says_nothing_valid_is_ignored() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    for range in [
        "items=0-5",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=",
        "bytes",
        "bytes=1",
        "bytes=-",
        "bytes=1-2-3",
        "bytes=0x1-2",
        "bytes=+1-2",
        "=0-1",
        "bytes=1-2;q=1",
    ] {
        let response = connection.get_with(STYLE_PATH, &[("Range", range)]);
        response.assert(200, STYLE_BYTES);
        assert_eq!(response.field("content-range"), None, "{range}");
    }
    connection
        .get_with(
            STYLE_PATH,
            &[("Range", "bytes=0-1"), ("Range", "bytes=3-4")],
        )
        .assert(200, STYLE_BYTES);
    let head = connection.request("HEAD", STYLE_PATH, &[("Range", "bytes=0-1")], b"");
    assert_eq!(
        (
            head.status,
            head.field("content-length"),
            head.field("content-range")
        ),
        (200, Some("10"), None)
    );
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn a_range_beyond_the_end_is_416_with_the_length() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    for range in ["bytes=50-60", "bytes=10-", "bytes=10-10,20-", "bytes=-0"] {
        let response = connection.get_with(STYLE_PATH, &[("Range", range)]);
        assert_eq!(
            (response.status, response.field("content-range")),
            (416, Some("bytes */10")),
            "{range}"
        );
        assert_eq!(response.field("content-encoding"), None, "{range}");
        assert_eq!(
            response.field("content-length"),
            Some(response.body.len().to_string().as_str()),
            "{range}"
        );
    }
    // Numbers beyond 64 bits are numbers still.
    let response = connection.get_with(STYLE_PATH, &[("Range", "bytes=99999999999999999999999-")]);
    assert!(matches!(response.status, 200 | 416), "{response}");
    let response = connection.get_with(STYLE_PATH, &[("Range", "bytes=0-99999999999999999999999")]);
    assert!(
        matches!(response.status, 200 | 206) && response.body == STYLE_BYTES,
        "{response}"
    );
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn an_empty_file_has_no_range() {
    let root = DocumentRoot::empty();
    root.write("empty.css", b"");
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    for range in [
        "bytes=0-",
        "bytes=0-1023",
        "bytes=0-0",
        "bytes=-5",
        "bytes=-0",
        "bytes=0-0,-1",
    ] {
        let response = connection.get_with("/empty.css", &[("Range", range)]);
        match response.status {
            200 => assert_eq!(
                (response.field("content-length"), response.body.len()),
                (Some("0"), 0),
                "{range}"
            ),
            416 => assert_eq!(
                response.field("content-range"),
                Some("bytes */0"),
                "{range}"
            ),
            other => panic!("{range}: {other}"),
        }
    }
    connection.expect_in_step("/empty.css", b"");
}

#[test]
fn several_ranges_are_a_multipart_of_exact_length() {
    let root = DocumentRoot::wordpress();
    root.write(
        "wp-content/big.txt",
        &(0..300_000_u32)
            .map(|i| b'a' + (i % 26) as u8)
            .collect::<Vec<_>>(),
    );
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    let response = connection.get_with(STYLE_PATH, &[("Range", "bytes=0-1,4-5, -2")]);
    assert_eq!(
        (response.status, response.field("content-range")),
        (206, None)
    );
    let got: Vec<(String, String, Vec<u8>)> = parts(&response);
    let wanted = [
        ("bytes 0-1/10", "01"),
        ("bytes 4-5/10", "45"),
        ("bytes 8-9/10", "89"),
    ];
    assert_eq!(got.len(), wanted.len());
    for ((range, media_type, bytes), (wanted_range, wanted_bytes)) in got.iter().zip(wanted) {
        assert_eq!(
            (range.as_str(), bytes.as_slice()),
            (wanted_range, wanted_bytes.as_bytes())
        );
        assert_eq!(media_type.to_ascii_lowercase(), "text/css; charset=utf-8");
    }
    let response = connection.get_with(
        "/wp-content/big.txt",
        &[("Range", "bytes=0-99999,150000-249999")],
    );
    let got = parts(&response);
    assert_eq!(
        got.iter().map(|part| part.2.len()).collect::<Vec<_>>(),
        [100_000, 100_000]
    );
    assert_eq!(got[1].2[0], b'a' + (150_000 % 26) as u8);
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn a_thousand_multiparts_hold_no_descriptor() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    let range = [("Range", "bytes=0-1,4-5")];
    connection.get_with(STYLE_PATH, &range);
    connection.get_with(STYLE_PATH, &range);
    let before = server.descriptors();
    for _ in 0..1000 {
        assert_eq!(parts(&connection.get_with(STYLE_PATH, &range)).len(), 2);
    }
    assert!(
        server.descriptors() <= before + 1,
        "{:?}",
        server.descriptor_targets()
    );
}

#[test]
fn many_small_or_overlapping_ranges_cost_no_more_than_the_file() {
    let root = DocumentRoot::empty();
    root.write("small.txt", &[b'x'; 1024]);
    root.write("large.bin", &vec![b'x'; 10 << 20]);
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    connection.get("/large.bin");
    let before = server.status_kib("VmHWM");
    let singles: Vec<String> = (0..500).map(|k| format!("{k}-{k}")).collect();
    let spread: Vec<String> = (0..500).map(|k| format!("{}-{}", 2 * k, 2 * k)).collect();
    let backwards: Vec<String> = (0..500)
        .rev()
        .map(|k| format!("{}-{}", 2 * k, 2 * k))
        .collect();
    let from_start = vec!["0-".to_owned(); 200];
    let suffixes: Vec<String> = (1..200).map(|k| format!("-{k}")).collect();
    for (path, length, ranges) in [
        ("/small.txt", 1024, singles),
        ("/small.txt", 1024, spread),
        ("/small.txt", 1024, backwards),
        ("/large.bin", 10 << 20, from_start),
        ("/large.bin", 10 << 20, suffixes),
    ] {
        let response =
            connection.get_with(path, &[("Range", &format!("bytes={}", ranges.join(",")))]);
        assert!(
            matches!(response.status, 200 | 206 | 416),
            "{path}: {}",
            response.status
        );
        assert!(
            response.body.len() <= length + 1024,
            "{} bytes of {length}",
            response.body.len()
        );
    }
    let grown = server.status_kib("VmHWM").saturating_sub(before);
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
}

#[test]
fn if_range_needs_a_strong_validator_that_is_equal() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let tag = server.settled(STYLE_PATH).etag().to_owned();
    let weak = format!("W/{tag}");
    let mut connection = server.connect();
    for (validator, status) in [
        (tag.as_str(), 206),
        (STYLE_MODIFIED, 206),
        (weak.as_str(), 200),
        ("\"x\"", 200),
        ("*", 200),
        ("", 200),
        ("Tue, 02 Jan 2024 03:04:04 GMT", 200),
        ("Tue, 02 Jan 2024 03:04:06 GMT", 200),
    ] {
        let response = connection.get_with(
            STYLE_PATH,
            &[("Range", "bytes=0-1"), ("If-Range", validator)],
        );
        assert_eq!(response.status, status, "If-Range: {validator}");
    }
    // Ignored together with a range that cannot be met.
    let response =
        connection.get_with(STYLE_PATH, &[("Range", "bytes=50-"), ("If-Range", "\"x\"")]);
    response.assert(200, STYLE_BYTES);
    connection
        .get_with(STYLE_PATH, &[("If-Range", "\"x\"")])
        .assert(200, STYLE_BYTES);
}

#[test]
fn a_weak_tag_of_a_file_just_written_passes_no_if_range() {
    let root = DocumentRoot::empty();
    let server = Nostat::start(&Config::static_files(&root));
    root.write_at("fresh.css", STYLE_BYTES, SystemTime::now());
    let tag = server.get("/fresh.css").etag().to_owned();
    assert!(tag.starts_with("W/"), "{tag}");
    server
        .get_with("/fresh.css", &[("Range", "bytes=0-1"), ("If-Range", &tag)])
        .assert(200, STYLE_BYTES);
}
