#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test"
)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, kind, id_high, id_low, high, low, padding, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xaa);
    bytes
}

fn end(application: u32, protocol: u8, padding: u8) -> Vec<u8> {
    let [a, b, c, d] = application.to_be_bytes();
    record(END_REQUEST, 1, &[a, b, c, d, protocol, 0, 0, 0], padding)
}

/// What the events of some bytes come to, however they are cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<(u32, ProtocolStatus)>,
    error: Option<RecordError>,
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Said {
    let mut said = Said::default();
    let mut decoder = Decoder::new();
    let mut buffer = BytesMut::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Ok(Some(Event::Stdout(piece))) => {
                    assert!(!piece.is_empty());
                    said.stdout.extend_from_slice(&piece);
                }
                Ok(Some(Event::Stderr(piece))) => {
                    assert!(!piece.is_empty());
                    said.stderr.extend_from_slice(&piece);
                }
                Ok(Some(Event::End {
                    application,
                    protocol,
                })) => {
                    said.end = Some((application, protocol));
                    return said;
                }
                Err(error) => {
                    said.error = Some(error);
                    return said;
                }
            }
        }
    }
    said
}

/// An exchange with everything a responder may do: padding, empty records, management records.
fn recorded() -> Vec<u8> {
    [
        record(STDERR, 1, b"warming up", 6),
        record(10, 0, b"\x0e\x01FCGI_MPXS_CONNS0", 0),
        record(STDOUT, 1, b"Content-Type: text/plain\r\n\r\nhel", 255),
        record(STDOUT, 1, b"", 0),
        record(STDERR, 1, b"", 3),
        record(STDOUT, 1, b"lo", 1),
        record(200, 0, b"?", 7),
        end(7, 0, 5),
    ]
    .concat()
}

#[test]
fn every_cut_of_an_exchange_says_the_same() {
    let bytes = recorded();
    let whole = decode([bytes.as_slice()]);
    assert_eq!(whole.stdout, b"Content-Type: text/plain\r\n\r\nhello");
    assert_eq!(whole.stderr, b"warming up");
    assert_eq!(whole.end, Some((7, ProtocolStatus::RequestComplete)));
    for first in 0..bytes.len() {
        let (head, tail) = bytes.split_at(first);
        assert_eq!(decode([head, tail]), whole, "cut at {first}");
    }
    assert_eq!(decode(bytes.chunks(1)), whole);
}

#[test]
fn a_record_is_passed_on_before_it_is_whole() {
    let bytes = record(STDOUT, 1, &[b'x'; 1000], 0);
    let said = decode([&bytes[..18]]);
    assert_eq!(said.stdout, [b'x'; 10]);
}

#[test]
fn every_padding_is_skipped() {
    for padding in 0..=255 {
        let bytes = [record(STDOUT, 1, b"a", padding), end(0, 0, padding)].concat();
        let said = decode([bytes.as_slice()]);
        assert_eq!((said.stdout.as_slice(), said.error), (&b"a"[..], None));
        assert!(said.end.is_some());
    }
}

#[test]
fn the_largest_record_is_taken() {
    let bytes = record(STDOUT, 1, &vec![b'y'; 65535], 255);
    assert_eq!(decode(bytes.chunks(4096)).stdout.len(), 65535);
}

#[test]
fn protocol_statuses_are_told_apart() {
    let expected = [
        ProtocolStatus::RequestComplete,
        ProtocolStatus::CannotMultiplex,
        ProtocolStatus::Overloaded,
        ProtocolStatus::UnknownRole,
        ProtocolStatus::Other(4),
    ];
    for (number, status) in (0..).zip(expected) {
        let bytes = end(1 << 31, number, 0);
        assert_eq!(decode([bytes.as_slice()]).end, Some((1 << 31, status)));
    }
}

#[test]
fn what_no_responder_sends_is_refused() {
    let cases = [
        (b"HTTP/1.1 200 OK\r\n".to_vec(), RecordError::Version(b'H')),
        (vec![2], RecordError::Version(2)),
        (record(STDOUT, 2, b"x", 0), RecordError::RequestId(2)),
        (record(STDOUT, 256, b"x", 0), RecordError::RequestId(256)),
        (record(STDOUT, 0, b"x", 0), RecordError::RequestId(0)),
        (
            record(END_REQUEST, 0, &[0; 8], 0),
            RecordError::RequestId(0),
        ),
        (record(STDIN, 1, b"x", 0), RecordError::Kind(STDIN)),
        (record(0, 1, b"x", 0), RecordError::Kind(0)),
        (record(11, 1, b"x", 0), RecordError::Kind(11)),
        (record(12, 1, b"x", 0), RecordError::Kind(12)),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode([bytes.as_slice()]).error, Some(error));
    }
}

#[test]
fn a_short_end_request_is_an_error_and_a_long_one_is_not() {
    for length in 0..8_u16 {
        let bytes = record(END_REQUEST, 1, &vec![0; usize::from(length)], 0);
        let said = decode([bytes.as_slice()]);
        assert_eq!(said.error, Some(RecordError::ShortEnd(length)));
    }
    let bytes = record(END_REQUEST, 1, &[0; 20], 3);
    assert!(decode([bytes.as_slice()]).end.is_some());
}

#[test]
fn bytes_after_the_end_are_seen_to_be_there() {
    for (extra, between) in [(&b""[..], true), (&b"\x01"[..], false)] {
        let mut buffer = BytesMut::from(end(0, 0, 0).as_slice());
        buffer.extend_from_slice(extra);
        let mut decoder = Decoder::new();
        assert!(matches!(
            decoder.next(&mut buffer),
            Ok(Some(Event::End { .. }))
        ));
        assert_eq!(buffer.is_empty() && decoder.is_between_records(), between);
    }
    // Padding still to come belongs to the record.
    let bytes = end(0, 0, 8);
    let mut buffer = BytesMut::from(&bytes[..16]);
    let mut decoder = Decoder::new();
    decoder.next(&mut buffer).unwrap();
    assert!(!decoder.is_between_records());
}

#[test]
fn begin_request_is_as_specified() {
    let begin = begin_request(AfterRequest::Close);
    assert_eq!(begin, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(begin_request(AfterRequest::Keep)[10], 1);
}

proptest! {
    #[test]
    fn any_bytes_in_any_cut_never_panic_and_say_the_same(
        bytes in vec(any::<u8>(), 0..600),
        size in 1..40_usize,
    ) {
        // Mostly plausible: random bytes alone end at the first one.
        let mut plausible = bytes;
        for at in (0..plausible.len()).step_by(24) {
            let kind = plausible[at] % 13;
            for (byte, value) in plausible[at..].iter_mut().zip([1, kind, 0, kind % 2, 0, 8, 8, 0]) {
                *byte = value;
            }
        }
        let whole = decode([plausible.as_slice()]);
        prop_assert_eq!(decode(plausible.chunks(size)), whole);
    }

    #[test]
    fn streams_come_out_as_they_went_in(
        records in vec((any::<bool>(), vec(any::<u8>(), 0..300), any::<u8>()), 0..12),
        size in 1..200_usize,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Said { end: Some((0, ProtocolStatus::RequestComplete)), ..Said::default() };
        for (to_stdout, content, padding) in &records {
            let kind = if *to_stdout { STDOUT } else { STDERR };
            bytes.extend(record(kind, 1, content, *padding));
            if *to_stdout {
                expected.stdout.extend(content);
            } else {
                expected.stderr.extend(content);
            }
        }
        bytes.extend(end(0, 0, 0));
        prop_assert_eq!(decode(bytes.chunks(size)), expected);
    }
}
