//! Heads of CGI responses: any bytes, in any pieces, give the same head or error, and what is
//! passed on is safe to write into an HTTP response.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use nostat::fastcgi::cgi_response::{CgiError, CgiHead, Decoded, HeadDecoder};

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (size, bytes) = input;
    let whole = decode(std::iter::once(bytes.as_slice()));
    let cut = decode(bytes.chunks(usize::from(size).max(1)));
    assert_eq!(whole, cut);
    let Ok(Some((head, content))) = whole else {
        return;
    };
    assert!(bytes.ends_with(&content));
    assert!((200..=999).contains(&head.status));
    for (name, value) in &head.fields {
        assert!(!name.is_empty() && name.iter().all(u8::is_ascii_graphic));
        assert!(!name.contains(&b':'));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        for withheld in ["status", "connection", "transfer-encoding", "upgrade"] {
            assert!(!name.eq_ignore_ascii_case(withheld.as_bytes()));
        }
    }
});

fn decode<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<(CgiHead, Vec<u8>)>, CgiError> {
    let mut decoder = HeadDecoder::new();
    while let Some(piece) = pieces.next() {
        if let Some(Decoded { head, rest }) = decoder.push(Bytes::copy_from_slice(piece))? {
            let mut content = rest.to_vec();
            pieces.for_each(|piece| content.extend_from_slice(piece));
            return Ok(Some((head, content)));
        }
    }
    Ok(None)
}
