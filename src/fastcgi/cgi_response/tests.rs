#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<(CgiHead, Vec<u8>)>, CgiError> {
    let mut decoder = HeadDecoder::new();
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        if let Some(Decoded { head, rest }) = decoder.push(Bytes::copy_from_slice(piece))? {
            let mut content = rest.to_vec();
            pieces.for_each(|piece| content.extend_from_slice(piece));
            return Ok(Some((head, content)));
        }
    }
    Ok(None)
}

fn head(text: &str) -> Result<CgiHead, CgiError> {
    Ok(decode([text.as_bytes()])?.unwrap().0)
}

fn names(head: &CgiHead) -> Vec<&str> {
    let names = head.fields.iter().map(|(name, _)| name.as_slice());
    names
        .map(|name| std::str::from_utf8(name).unwrap())
        .collect()
}

#[test]
fn every_cut_gives_the_same_head_and_content() {
    for newline in ["\n", "\r\n"] {
        let text = [
            "Status: 404 Not Found",
            "Content-Type: text/html",
            "X-A: b",
            "",
            "<p>\n\n",
        ];
        let text = text.join(newline);
        let whole = decode([text.as_bytes()]).unwrap().unwrap();
        assert_eq!(whole.0.status, 404);
        assert_eq!(names(&whole.0), ["Content-Type", "X-A"]);
        for at in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(at);
            assert_eq!(
                decode([first, second]).unwrap().unwrap(),
                whole,
                "cut at {at}"
            );
        }
        assert_eq!(decode(text.as_bytes().chunks(1)).unwrap().unwrap(), whole);
    }
}

#[test]
fn statuses() {
    let cases = [
        ("Status: 404 Not Found", Ok(404)),
        ("Status: 404", Ok(404)),
        ("Status:404", Ok(404)),
        ("status: 200 ", Ok(200)),
        ("Status: 999 x", Ok(999)),
        ("Status: 204\r\nStatus: 204", Ok(204)),
        ("Status: abc", Err(CgiError::Status)),
        ("Status:", Err(CgiError::Status)),
        ("Status: 40", Err(CgiError::Status)),
        ("Status: 4040", Err(CgiError::Status)),
        ("Status: 404x", Err(CgiError::Status)),
        ("Status: -04", Err(CgiError::Status)),
        ("Status: 199", Err(CgiError::Status)),
        ("Status: 100 Continue", Err(CgiError::Status)),
        ("Status: 101", Err(CgiError::Status)),
        ("Status: 103 Early Hints", Err(CgiError::Status)),
        ("Status: 000", Err(CgiError::Status)),
        ("Status: 200\r\nStatus: 404", Err(CgiError::Status)),
        ("X: y", Ok(200)),
        ("Location: https://example.org/", Ok(302)),
        ("Location: /local", Ok(302)),
        ("Location: /x\r\nStatus: 201 Created", Ok(201)),
        ("Status: 301\r\nLocation: /x", Ok(301)),
        ("Location:", Ok(200)),
    ];
    for (lines, expected) in cases {
        let head = head(&format!("{lines}\r\n\r\n"));
        assert_eq!(head.map(|head| head.status), expected, "{lines:?}");
    }
}

#[test]
fn status_is_no_field_for_the_client() {
    let head = head("Status: 201\nLocation: /x\n\n").unwrap();
    assert_eq!(names(&head), ["Location"]);
}

#[test]
fn fields_of_the_connection_and_for_the_gateway_are_taken_out() {
    let head = head(concat!(
        "Connection: close\r\nKeep-Alive: x\r\nProxy-Connection: x\r\nTE: x\r\nTrailer: x\r\n",
        "Transfer-Encoding: gzip\r\nUpgrade: h2c\r\nX-Accel-Expires: 1\r\n",
        "x-accel-charset: x\r\nX-Accel-Limit-Rate: 1\r\nX-ACCEL-Redirect: /a b\r\n",
        "X-Sendfile: /srv/f\r\nX-Accel-Buffering: No\r\nX-Powered-By: PHP\r\n\r\n",
    ))
    .unwrap();
    // X-Accel-Expires is for the page cache, which takes it out.
    assert_eq!(names(&head), ["X-Accel-Expires", "X-Powered-By"]);
    assert_eq!(head.accel_redirect.as_deref(), Some(&b"/a b"[..]));
    assert_eq!(head.sendfile.as_deref(), Some(&b"/srv/f"[..]));
    assert!(!head.buffering);
}

#[test]
fn event_streams_are_passed_as_they_come() {
    for (value, buffering) in [
        ("text/event-stream", false),
        ("Text/Event-Stream ; charset=utf-8", false),
        ("text/event-streams", true),
        ("text/html", true),
    ] {
        let head = head(&format!("Content-Type: {value}\n\n")).unwrap();
        assert_eq!(head.buffering, buffering, "{value}");
    }
    let asked = head("X-Accel-Buffering: yes\nContent-Type: text/event-stream\n\n").unwrap();
    assert!(!asked.buffering);
}

#[test]
fn content_length_is_one_number() {
    let cases = [
        ("Content-Length: 5", Ok(Some(5))),
        ("Content-Length: 5\r\ncontent-length: 05", Ok(Some(5))),
        ("X: y", Ok(None)),
        ("Status: 204\r\nContent-Length: 5", Ok(None)),
        ("Status: 304\r\nContent-Length: 5", Ok(Some(5))),
        (
            "Content-Length: 5\r\nContent-Length: 6",
            Err(CgiError::ContentLength),
        ),
        ("Content-Length: +5", Err(CgiError::ContentLength)),
        ("Content-Length: 5, 5", Err(CgiError::ContentLength)),
        ("Content-Length:", Err(CgiError::ContentLength)),
        (
            "Content-Length: 99999999999999999999",
            Err(CgiError::ContentLength),
        ),
    ];
    for (lines, expected) in cases {
        let head = head(&format!("{lines}\r\n\r\n"));
        if let Ok(head) = &head {
            let count = usize::from(head.content_length.is_some());
            let is_length = |name: &&str| name.eq_ignore_ascii_case("content-length");
            assert_eq!(names(head).into_iter().filter(is_length).count(), count);
        }
        assert_eq!(head.map(|head| head.content_length), expected, "{lines:?}");
    }
}

#[test]
fn set_cookie_lines_stay_apart() {
    let head = head(concat!(
        "Set-Cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\nSet-Cookie: b=2\r\n",
        "set-cookie: c=3\r\n\r\n",
    ))
    .unwrap();
    let values: Vec<&[u8]> = head
        .fields
        .iter()
        .map(|(_, value)| value.as_slice())
        .collect();
    assert_eq!(values[0], b"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT");
    assert_eq!(values[1..], [&b"b=2"[..], b"c=3"]);
}

#[test]
fn lines_that_are_no_fields_are_refused() {
    let cases = [
        ("<html>\n\n", CgiError::NoColon),
        ("HTTP/1.1 200 OK\r\n\r\n", CgiError::NoColon),
        (": x\n\n", CgiError::FieldName),
        ("a b: x\n\n", CgiError::FieldName),
        ("a : x\n\n", CgiError::FieldName),
        ("caf\u{e9}: x\n\n", CgiError::FieldName),
        ("a: x\n b\n\n", CgiError::FoldedLine),
        (" a: x\n\n", CgiError::FoldedLine),
        ("a: x\ry\n\n", CgiError::FieldValue),
        ("a: x\r\r\n\n", CgiError::FieldValue),
        ("a: x\0\n\n", CgiError::FieldValue),
        ("a: \x7f\n\n", CgiError::FieldValue),
    ];
    for (text, error) in cases {
        assert_eq!(head(text), Err(error), "{text:?}");
    }
}

#[test]
fn eight_bit_values_and_tabs_pass() {
    let text = b"X-A: \tcaf\xe9\tx \r\n\r\n";
    let head = decode([&text[..]]).unwrap().unwrap().0;
    assert_eq!(head.fields[0].1, b"caf\xe9\tx");
}

#[test]
fn a_head_without_fields_is_200() {
    for text in ["\r\n", "\n"] {
        let (head, content) = decode([format!("{text}x").as_bytes()]).unwrap().unwrap();
        assert_eq!(
            (head.status, head.fields.len(), content),
            (200, 0, b"x".to_vec())
        );
    }
}

#[test]
fn a_head_has_64_kib_at_the_most() {
    let fitting = format!("X: {}\n\n", "y".repeat(MAX_HEAD - 5));
    assert_eq!(fitting.len(), MAX_HEAD);
    assert!(head(&fitting).is_ok());
    let longer = format!("X: {}\n\n", "y".repeat(MAX_HEAD - 4));
    assert_eq!(head(&longer), Err(CgiError::TooLarge));
    let endless = vec![b'x'; MAX_HEAD + 1];
    assert_eq!(decode(endless.chunks(1000)), Err(CgiError::TooLarge));
    let many = "a: b\n".repeat(MAX_HEAD);
    assert_eq!(decode(many.as_bytes().chunks(7)), Err(CgiError::TooLarge));
}

#[test]
fn content_after_a_small_head_does_not_count() {
    let mut text = b"X: y\n\n".to_vec();
    text.resize(4 * MAX_HEAD, b'z');
    let (_, content) = decode([text.as_slice()]).unwrap().unwrap();
    assert_eq!(content.len(), 4 * MAX_HEAD - 6);
}

proptest! {
    #[test]
    fn any_bytes_in_any_cut_give_the_same(bytes in vec(any::<u8>(), 0..300), size in 1..50_usize) {
        prop_assert_eq!(decode(bytes.chunks(size)), decode([bytes.as_slice()]));
    }

    #[test]
    fn any_lines_in_any_cut_give_the_same(
        lines in vec("(Status|Location|Content-Length|X-[a-z]{1,4}|[ -~]{0,6}): ?[0-9a-z /]{0,8}\r?", 0..8),
        size in 1..50_usize,
    ) {
        let text = format!("{}\n\ncontent", lines.join("\n"));
        let whole = decode([text.as_bytes()]);
        prop_assert_eq!(decode(text.as_bytes().chunks(size)), whole.clone());
        if let Ok(Some((head, _))) = whole {
            prop_assert!((200..=999).contains(&head.status));
        }
    }
}
