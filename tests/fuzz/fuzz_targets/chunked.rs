//! A chunked body is judged alike whole and cut in two.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nostat::request::chunked::{ChunkError, ChunkedFraming};

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, buf) = input;
    let (begun, rest) = buf.split_at(cut.min(buf.len()));
    assert_eq!(decode(&[begun, rest]), decode(&[buf]));
});

/// Bytes taken, whether the body ended, and the payload.
fn decode(pieces: &[&[u8]]) -> Result<(usize, bool, Vec<u8>), ChunkError> {
    let (mut framing, mut taken, mut payload) = (ChunkedFraming::new(u64::MAX), 0, Vec::new());
    let mut done = false;
    for piece in pieces {
        let advanced = framing.decode(piece, |data| payload.extend_from_slice(data))?;
        taken += advanced.consumed;
        done = advanced.done;
    }
    Ok((taken, done, payload))
}
