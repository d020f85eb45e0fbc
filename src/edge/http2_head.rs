//! A request of HTTP/2 as the bytes of an HTTP/1 head, and what travels with it to Pingora.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST};
use parking_lot::Mutex;
use pingora_http::RequestHeader;

use crate::edge::handed::Handed;

/// The head of HTTP/1.1 that says the same. A body of no stated length is chunked in its words.
///
/// One thing cannot be said any more: a fragment in `:path`, which would be malformed (RFC 9113 §8.3.1), and which the lane
/// answers with 400. `http` has dropped it when the first of us sees the head, so the request is that for what stands before
/// it: for the rules, the caches and the application alike. Every other byte means what it means on the lane, or has had its
/// stream reset.
pub fn bytes(header: &RequestHeader, has_body: bool) -> Bytes {
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(header.method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(header.raw_path());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    let mut put = |name: &[u8], value: &[u8]| {
        head.extend_from_slice(name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    // It has been seen to that both agree (RFC 9113 §8.3.1).
    if let Some(authority) = header.uri.authority() {
        put(b"Host", authority.as_str().as_bytes());
    } else if let Some(host) = header.headers.get(HOST) {
        put(b"Host", host.as_bytes());
    }
    let mut cookies: Vec<u8> = Vec::new();
    for (name, value) in &header.headers {
        if *name == COOKIE {
            // A client may send each in a field of its own (RFC 9113 §8.2.3).
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value.as_bytes());
        } else if *name != HOST && *name != EXPECT {
            put(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if !cookies.is_empty() {
        put(b"Cookie", &cookies);
    }
    if has_body && !header.headers.contains_key(CONTENT_LENGTH) {
        put(b"Transfer-Encoding", b"chunked");
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// The head that Pingora is to have, as it would read it on HTTP/1.
pub fn lent(bytes: &[u8]) -> Option<RequestHeader> {
    let lines = memchr::memchr_iter(b'\n', bytes).count();
    let mut fields = vec![httparse::EMPTY_HEADER; lines];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(bytes).ok()?;
    let path = request.path?.as_bytes();
    let mut header = RequestHeader::build(request.method?, path, Some(lines)).ok()?;
    for field in request.headers.iter() {
        header
            .append_header(field.name.to_owned(), field.value)
            .ok()?;
    }
    Some(header)
}

/// What the door has found out of a request: the way to Pingora's filters is the head itself.
#[derive(Clone)]
pub struct Lending(Arc<Mutex<Option<Box<Handed>>>>);

impl Lending {
    /// Of this request.
    pub fn of(handed: Handed) -> Lending {
        Lending(Arc::new(Mutex::new(Some(Box::new(handed)))))
    }

    /// Lets it travel with the head.
    pub fn put_into(self, header: &mut RequestHeader) {
        header.extensions_mut().insert(self);
    }

    /// Takes it from the head.
    pub fn take_from(header: &mut RequestHeader) -> Option<Box<Handed>> {
        let lending = header.extensions_mut().remove::<Lending>()?;
        lending.0.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_the_same() {
        let request = http::Request::builder()
            .method("POST")
            .uri("https://shop.test/a%20b?c")
            .version(http::Version::HTTP_2)
            .header("cookie", "a=1")
            .header("accept", "*/*")
            .header("cookie", "b=2")
            .header("expect", "100-continue")
            .body(())
            .expect("a request");
        let header: RequestHeader = request.into_parts().0.into();
        let head = bytes(&header, true);
        assert_eq!(
            String::from_utf8_lossy(&head),
            "POST /a%20b?c HTTP/1.1\r\nHost: shop.test\r\naccept: */*\r\nCookie: a=1; b=2\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        let lent = lent(&head).expect("a head");
        assert_eq!(lent.raw_path(), b"/a%20b?c");
        assert_eq!(
            lent.headers.get("cookie").map(|it| it.as_bytes()),
            Some(&b"a=1; b=2"[..])
        );
    }
}
