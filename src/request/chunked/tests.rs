#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

use proptest::prelude::*;

use super::*;

/// What a whole body gives: the bytes it takes, and its payload.
fn decoded(buf: &[u8]) -> Result<(Advanced, Vec<u8>), ChunkError> {
    let mut payload = Vec::new();
    let advanced =
        ChunkedFraming::new(u64::MAX).decode(buf, |piece| payload.extend_from_slice(piece))?;
    Ok((advanced, payload))
}

fn refused(body: impl AsRef<[u8]>) -> ChunkError {
    let body = body.as_ref();
    match decoded(body) {
        Err(error) => error,
        Ok(it) => panic!("{:?}: {it:?}", body.escape_ascii().to_string()),
    }
}

#[test]
fn a_body_ends_with_its_trailer_section() {
    for (body, payload) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n000001\r\n!\r\n0000\r\n\r\n", "hello!"),
        (
            "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
            "01234567890123456789",
        ),
        ("1;a=b;c=\"d e\"\r\nx\r\n0;last\r\n\r\n", "x"),
        ("1\r\n\n\r\n0\r\nA: b\r\nX-Y:\r\n\r\n", "\n"),
        ("0\r\nA:\tcaf\u{e9}\r\n\r\n", ""),
    ] {
        let (advanced, found) = decoded(body.as_bytes()).unwrap();
        assert_eq!(found, payload.as_bytes(), "{body:?}");
        assert_eq!(
            advanced,
            Advanced {
                consumed: body.len(),
                done: true,
                data: u64::try_from(payload.len()).unwrap()
            }
        );
    }
}

#[test]
fn bytes_behind_the_body_are_left_alone() {
    let body = b"1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    let mut framing = ChunkedFraming::new(u64::MAX);
    let advanced = framing.advance(body).unwrap();
    assert_eq!(advanced.consumed, 11);
    assert!(advanced.done);
    assert_eq!(
        framing.advance(b"more").unwrap(),
        Advanced {
            consumed: 0,
            done: true,
            data: 0
        }
    );
}

#[test]
fn a_body_that_is_not_all_there_is_not_done() {
    let body = b"5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for end in 0..body.len() {
        let (advanced, _) = decoded(&body[..end]).unwrap();
        assert_eq!(advanced.consumed, end);
        assert!(!advanced.done);
    }
}

#[test]
fn sizes_are_one_to_sixteen_hexadecimal_digits() {
    for body in [
        "\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "5\t;a\r\n",
        "+5\r\nhello\r\n",
        "-1\r\n",
        "0x5\r\n",
        "g\r\n",
        ";a\r\n",
        "5,5\r\n",
        "00000000000000005\r\n",
        "10000000000000000\r\n",
        "\u{661}\r\n",
    ] {
        assert_eq!(refused(body), ChunkError::Size, "{body:?}");
    }
    let mut framing = ChunkedFraming::new(u64::MAX);
    let advanced = framing.advance(b"ffffffffffffffff\r\nabc").unwrap();
    assert_eq!((advanced.consumed, advanced.data), (21, 3));
    assert!(
        decoded(b"0000000000000005\r\nhello\r\n0\r\n\r\n")
            .unwrap()
            .0
            .done
    );
}

#[test]
fn line_ends_are_crlf_and_nothing_else() {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\rc: d\r\n\r\n",
        "1;a\nx\r\n",
        "1;a\rb\r\nx\r\n",
        "1;\"a\r\n b\"\r\n",
        "1;\"a\n\"\r\n",
    ] {
        refused(body);
    }
}

#[test]
fn extensions_are_bounded_and_hold_no_controls() {
    for byte in (0_u8..0x20).chain([0x7f]) {
        if !matches!(byte, b'\t' | b'\r') {
            assert_eq!(refused([b'1', b';', byte]), ChunkError::Extension);
        }
    }
    let long = |length: usize| format!("1;{}\r\nx\r\n", "a".repeat(length));
    assert!(decoded(long(255).as_bytes()).is_ok());
    assert_eq!(refused(long(256)), ChunkError::Extension);
    assert_eq!(refused(long(250).repeat(66)), ChunkError::Extension);
}

#[test]
fn trailers_are_field_lines_and_bounded() {
    for trailer in [
        "A\r\n",
        ": b\r\n",
        " A: b\r\n",
        "A : b\r\n",
        "A: b\r\n c\r\n",
        "A: b\0\r\n",
        "GET / HTTP/1.1\r\n",
        "A(: b\r\n",
    ] {
        assert_eq!(
            refused(format!("0\r\n{trailer}\r\n")),
            ChunkError::Trailer,
            "{trailer:?}"
        );
    }
    assert_eq!(
        refused(format!("0\r\nA: {}", "b".repeat(8 * 1024))),
        ChunkError::Trailer
    );
    assert_eq!(
        refused(format!("0\r\n{}", "A: b\r\n".repeat(2000))),
        ChunkError::Trailer
    );
}

/// A valid body, and its payload.
fn a_body() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let chunk = (
        proptest::collection::vec(any::<u8>(), 1..40),
        "(;[a-z]{1,5}(=[a-z]{0,3})?)?",
    );
    let trailers = "([A-Z]{1,3}: [a-z ]{0,5}\r\n){0,2}";
    (proptest::collection::vec(chunk, 0..6), trailers).prop_map(|(chunks, trailers)| {
        let (mut body, mut payload) = (Vec::new(), Vec::new());
        for (data, extension) in chunks {
            body.extend(format!("{:x}{extension}\r\n", data.len()).into_bytes());
            body.extend(&data);
            body.extend(b"\r\n");
            payload.extend(data);
        }
        body.extend(format!("0\r\n{trailers}\r\n").into_bytes());
        (body, payload)
    })
}

/// The bytes taken and the payload when the bytes arrive in pieces of these lengths, again and
/// again.
fn in_pieces(buf: &[u8], lengths: &[usize]) -> Result<(usize, bool, Vec<u8>), ChunkError> {
    let (mut framing, mut payload, mut at) = (ChunkedFraming::new(u64::MAX), Vec::new(), 0);
    for length in lengths.iter().cycle() {
        let end = (at + length).min(buf.len());
        let advanced = framing.decode(&buf[at..end], |piece| payload.extend_from_slice(piece))?;
        at += advanced.consumed;
        if advanced.done || at == buf.len() {
            return Ok((at, advanced.done, payload));
        }
    }
    unreachable!("there is at least one length")
}

proptest! {
    #[test]
    fn any_split_of_a_body_is_taken_exactly(
        (body, payload) in a_body(),
        rest in proptest::collection::vec(any::<u8>(), 0..20),
        lengths in proptest::collection::vec(1_usize..10, 1..5),
    ) {
        let buf = [&body[..], &rest].concat();
        prop_assert_eq!(in_pieces(&buf, &lengths), Ok((body.len(), true, payload.clone())));
        prop_assert_eq!(in_pieces(&buf, &[1]), Ok((body.len(), true, payload.clone())));
        prop_assert_eq!(in_pieces(&buf, &[usize::MAX >> 1]), Ok((body.len(), true, payload)));
    }

    #[test]
    fn any_bytes_are_judged_alike_however_they_are_split(
        buf in "[0-3a;:\r\n\0 ]{0,40}",
        lengths in proptest::collection::vec(1_usize..10, 1..5),
    ) {
        let buf = buf.as_bytes();
        prop_assert_eq!(in_pieces(buf, &lengths), in_pieces(buf, &[buf.len().max(1)]));
    }
}

#[test]
fn a_body_that_announces_too_much_is_refused_before_it_comes() {
    let mut framing = ChunkedFraming::new(10);
    assert!(framing.advance(b"8\r\n12345678\r\n").is_ok());
    assert_eq!(framing.advance(b"3\r\n"), Err(ChunkError::TooLarge));
    let mut framing = ChunkedFraming::new(1 << 40);
    assert_eq!(
        framing.advance(b"ffffffffffffffff\r\n"),
        Err(ChunkError::TooLarge)
    );
    let mut framing = ChunkedFraming::new(3);
    assert!(
        framing
            .advance(b"3\r\nabc\r\n0\r\n\r\n")
            .is_ok_and(|advanced| advanced.done)
    );
}
