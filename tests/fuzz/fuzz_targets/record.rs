//! Records from a responder: any bytes, in any pieces, give the same events, and no panic.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use nostat::fastcgi::record::{Decoder, Event, RecordError};

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (size, bytes) = input;
    let whole = decode(std::iter::once(bytes.as_slice()));
    let cut = decode(bytes.chunks(usize::from(size).max(1)));
    assert_eq!(whole, cut);
});

type Said = (Vec<u8>, Vec<u8>, Option<Event>, Option<RecordError>);

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Said {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::new();
    let mut buffer = BytesMut::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Ok(Some(Event::Stdout(piece))) => stdout.extend_from_slice(&piece),
                Ok(Some(Event::Stderr(piece))) => stderr.extend_from_slice(&piece),
                Ok(Some(end @ Event::End { .. })) => return (stdout, stderr, Some(end), None),
                Err(error) => return (stdout, stderr, None, Some(error)),
            }
        }
    }
    (stdout, stderr, None, None)
}
