//! An answer made here, in Pingora's types: its head as a [`ResponseHeader`], its body piece by piece.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use http::HeaderValue;
use http::header::STRICT_TRANSPORT_SECURITY;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use crate::site::{Answer, Body, FileSpan, Part, local_answer};

/// The same for HTTP/2, where names have no case. The heads that a thread has put together last are kept: a prepared head is
/// the same bytes at the same place each time.
pub fn response_header_of_http2(answer: &Answer) -> Option<ResponseHeader> {
    RENDERED.with_borrow_mut(|kept| {
        let head = &answer.head;
        // Heads stand at least so far apart.
        let slot = (head.as_ptr() as usize / 64) % KEPT_HEADS;
        let slot = kept.get_mut(slot)?;
        let is_it = |kept: &Bytes| kept.as_ptr() == head.as_ptr() && kept.len() == head.len();
        if let Some((kept, header)) = slot
            && is_it(kept)
        {
            return Some(header.clone());
        }
        let empty = ResponseHeader::build_no_case(answer.status, Some(8)).ok()?;
        let header = with_fields(empty, head)?;
        // As long as the bytes are kept, no others can stand there.
        *slot = Some((head.clone(), header.clone()));
        Some(header)
    })
}

/// The head of `answer`. `None` only if a configured field is no field, which the settings refuse.
pub fn response_header(answer: &Answer) -> Option<ResponseHeader> {
    let empty = ResponseHeader::build(answer.status, Some(8)).ok()?;
    with_fields(empty, &answer.head)
}

fn with_fields(mut header: ResponseHeader, head: &[u8]) -> Option<ResponseHeader> {
    // A prepared head lacks its end, which says the date and what becomes of the connection.
    let head = [head, b"\r\n"].concat();
    // A script's Set-Cookie lines stay with a file sent in its stead, and there is no bound on those.
    let lines = memchr::memchr_iter(b'\n', &head).count();
    let mut fields = vec![httparse::EMPTY_HEADER; lines];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(&head).ok()?;
    for field in response.headers.iter() {
        header
            .append_header(field.name.to_owned(), field.value)
            .ok()?;
    }
    Some(header)
}

/// Tells browsers to use https alone, unless the answer says something of it.
///
/// # Errors
/// None that a valid value could meet.
pub fn stay_with_https(response: &mut ResponseHeader, hsts: Option<&HeaderValue>) -> Result<()> {
    match hsts {
        Some(hsts) if !response.headers.contains_key(STRICT_TRANSPORT_SECURITY) => {
            response.insert_header(STRICT_TRANSPORT_SECURITY, hsts.clone())
        }
        _ => Ok(()),
    }
}

/// Answers with a status of ours.
///
/// # Errors
/// Those of the client's connection.
pub async fn answer_locally(session: &mut Session, status: u16) -> Result<()> {
    let answer = local_answer(status);
    let header = response_header(&answer)
        .ok_or_else(|| Error::explain(ErrorType::InternalError, "a local answer has no head"))?;
    let body = match answer.body {
        Body::Memory(bytes) if session.req_header().method != http::Method::HEAD => Some(bytes),
        _ => None,
    };
    let tasks = vec![
        HttpTask::Header(Box::new(header), body.is_none()),
        HttpTask::Body(body, true),
    ];
    session
        .downstream_session
        .response_duplex_vec(tasks)
        .await
        .map(|_| ())
}

/// The body of an answer, to be taken piece by piece.
pub struct BodyPieces {
    left: VecDeque<Part>,
}

impl From<Body> for BodyPieces {
    fn from(body: Body) -> BodyPieces {
        let left = match body {
            Body::Empty => VecDeque::new(),
            Body::Memory(bytes) => VecDeque::from([Part::Memory(bytes)]),
            Body::File(span) => VecDeque::from([Part::File(span)]),
            Body::Parts(parts) => parts.into(),
        };
        let mut left: VecDeque<Part> = left;
        left.retain(|part| match part {
            Part::Memory(bytes) => !bytes.is_empty(),
            Part::File(span) => span.length > 0,
        });
        BodyPieces { left }
    }
}

impl BodyPieces {
    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next piece, at most [`PIECE`] bytes of a file.
    ///
    /// # Errors
    /// The file could not be read, or has become shorter than the head has promised.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.next_of(PIECE).await
    }

    /// The same with at most `most` bytes of a file.
    ///
    /// # Errors
    /// The same.
    pub async fn next_of(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        match self.left.pop_front() {
            None => Ok(None),
            Some(Part::Memory(bytes)) => Ok(Some(bytes)),
            Some(Part::File(span)) => self.next_of_file(span, most).await.map(Some),
        }
    }

    async fn next_of_file(&mut self, span: FileSpan, most: usize) -> io::Result<Bytes> {
        let want = usize::try_from(span.length).map_or(most, |length| length.min(most));
        let bytes = span.file.read_at(span.first, want).await?;
        if bytes.len() < want {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = want as u64;
        if span.length > read {
            self.left.push_front(Part::File(FileSpan {
                file: span.file,
                first: span.first + read,
                length: span.length - read,
            }));
        }
        Ok(bytes)
    }
}

thread_local! {
    static RENDERED: RefCell<Vec<Option<(Bytes, ResponseHeader)>>> =
        RefCell::new(vec![None; KEPT_HEADS]);
}

const KEPT_HEADS: usize = 64;
/// Bytes of a file in memory at a time for one client.
pub const PIECE: usize = 64 * 1024;
