//! PHP-FPM as a custom upstream protocol of Pingora, so that its filters, time limits and cache treat it as any origin.
//!
//! Pingora asks for a session, writes a head, reads a head and then content. All of that is the [`Exchange`]'s; this file
//! only translates. The end of an answer is told by [`read_response_body`](client::Session::read_response_body) giving
//! `None` and in no other way: Pingora 0.9.1 panics on other ways when its cache and compression are on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use parking_lot::Mutex;
use pingora_core::connectors::http::custom::{Connection, Connector};
use pingora_core::protocols::http::custom::{BodyWrite, CustomMessageWrite, client};
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::tls::CustomALPN;
use pingora_core::protocols::{ALPN, Digest, UniqueIDType};
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};

use super::cgi_response::CgiHead;
use super::exchange::{Exchange, ExchangeRequest};
use super::failure::ExchangeError;
use super::settings::Address;
use super::trace::Trace;

/// What is asked of the responder. It reaches the session as an extension of the request's head.
#[derive(Clone)]
pub struct ResponderRequest(Arc<Mutex<Option<Asked>>>);

/// One request to a responder.
pub struct Asked {
    /// The exchange to start.
    pub exchange: ExchangeRequest,
    /// Who answers X-Accel-Redirect and X-Sendfile.
    pub accel: Arc<dyn LocalAnswers>,
}

/// Answers from files in the responder's stead, when it asks for that.
#[async_trait]
pub trait LocalAnswers: Send + Sync {
    /// The answer for `file`. `kept` are the responder's fields that stay.
    async fn answer(&self, file: Accel, kept: Vec<(Vec<u8>, Vec<u8>)>) -> Result<LocalAnswer>;
}

/// What a responder asks to be sent in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accel {
    /// `X-Accel-Redirect`: a URL path below the document root.
    Redirect(Vec<u8>),
    /// `X-Sendfile`: a path in the file system.
    SendFile(Vec<u8>),
}

/// Among the extensions of a head: the content is a file's, sent in the responder's stead.
#[derive(Clone, Copy, Debug)]
pub struct FromFile;

/// An answer from a file.
pub struct LocalAnswer {
    /// Its head, complete.
    pub header: ResponseHeader,
    /// Its content.
    pub content: Box<dyn Content>,
}

/// Content that is given out piece by piece.
#[async_trait]
pub trait Content: Send + Sync {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>>;
}

impl ResponderRequest {
    /// Wraps a request for travelling in a head's extensions.
    pub fn new(asked: Asked) -> ResponderRequest {
        ResponderRequest(Arc::new(Mutex::new(Some(asked))))
    }
}

/// The connector: a session for each request; connections and slots belong to the exchange.
#[derive(Default)]
pub struct Responder;

impl Responder {
    /// The peer that makes Pingora take this connector for the responder at `address`.
    ///
    /// # Errors
    /// The address cannot be expressed as a socket address.
    pub fn peer(address: &Address) -> Result<Box<HttpPeer>> {
        let mut peer = match address {
            Address::Unix(path) => {
                HttpPeer::new_uds(&path.to_string_lossy(), false, String::new())?
            }
            Address::Tcp(address) => HttpPeer::new(*address, false, String::new()),
        };
        peer.options.alpn = ALPN::Custom(CustomALPN::new(b"fastcgi".to_vec()));
        // Pingora's pool of HTTP connections does not look at the protocol, only at this.
        peer.group_key = FASTCGI_GROUP;
        Ok(Box::new(peer))
    }
}

#[async_trait]
impl Connector for Responder {
    type Session = Session;

    async fn get_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        _: &P,
    ) -> Result<(Connection<Session>, bool)> {
        Ok((Connection::Session(Session::default()), false))
    }

    async fn reused_http_session<P: Peer + Send + Sync + 'static>(&self, _: &P) -> Option<Session> {
        None
    }

    /// Called always, also after an error: dropping the session ends what is unfinished.
    async fn release_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        session: Session,
        _: &P,
        _: Option<Duration>,
    ) {
        drop(session);
    }
}

/// One request to a responder, as Pingora sees it.
#[derive(Default)]
pub struct Session {
    source: Source,
    header: Option<ResponseHeader>,
    accel: Option<Arc<dyn LocalAnswers>>,
}

#[derive(Default)]
enum Source {
    #[default]
    Nothing,
    Responder(Exchange),
    File(Box<dyn Content>),
}

impl Session {
    /// Replaces a responder's answer that only names a file.
    async fn send_file(&mut self, file: Accel, head: CgiHead) -> Result<ResponseHeader> {
        let Some(accel) = self.accel.clone() else {
            return Err(internal("nobody answers for files"));
        };
        let kept = head
            .fields
            .into_iter()
            .filter(|(name, _)| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)))
            .collect();
        let mut answer = accel.answer(file, kept).await?;
        answer.header.extensions_mut().insert(FromFile);
        self.source = Source::File(answer.content);
        Ok(answer.header)
    }
}

#[async_trait]
impl client::Session for Session {
    async fn write_request_header(&mut self, request: Box<RequestHeader>, _: bool) -> Result<()> {
        let asked = request
            .extensions
            .get::<ResponderRequest>()
            .and_then(|request| request.0.lock().take())
            .ok_or_else(|| internal("a request without its parameters"))?;
        self.accel = Some(asked.accel);
        self.source = Source::Responder(Exchange::start(asked.exchange));
        Ok(())
    }

    async fn read_response_header(&mut self) -> Result<()> {
        let Source::Responder(exchange) = &mut self.source else {
            return Err(internal("read before write"));
        };
        let head = exchange.head().await.map_err(|error| failed(&error))?;
        let file = match (&head.accel_redirect, &head.sendfile) {
            (Some(path), _) => Some(Accel::Redirect(path.clone())),
            (None, Some(path)) => Some(Accel::SendFile(path.clone())),
            (None, None) => None,
        };
        self.header = Some(match file {
            Some(file) => self.send_file(file, head).await?,
            None => {
                let length = head.content_length.or_else(|| exchange.complete_length());
                rendered(&head, length)?
            }
        });
        Ok(())
    }

    fn response_header(&self) -> Option<&ResponseHeader> {
        self.header.as_ref()
    }

    async fn read_response_body(&mut self) -> Result<Option<Bytes>> {
        match &mut self.source {
            Source::Nothing => Ok(None),
            Source::Responder(exchange) => exchange.next().await.map_err(|error| failed(&error)),
            Source::File(content) => content
                .next()
                .await
                .map_err(|error| Error::because(ErrorType::ReadError, "a file to be sent", error)),
        }
    }

    async fn check_response_end_or_error(&mut self, _: bool) -> Result<bool> {
        Ok(false)
    }

    async fn read_trailers(&mut self) -> Result<Option<HeaderMap>> {
        Ok(None)
    }

    /// The body is with the exchange already.
    fn take_request_body_writer(&mut self) -> Option<Box<dyn BodyWrite>> {
        Some(Box::new(AlreadySent))
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>> {
        Some(Box::new(futures::stream::empty()))
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        Some(Box::new(()))
    }

    async fn write_request_body(&mut self, _: Bytes, _: bool) -> Result<()> {
        Ok(())
    }

    async fn finish_request_body(&mut self) -> Result<()> {
        Ok(())
    }

    fn set_read_timeout(&mut self, _: Option<Duration>) {}

    fn set_write_timeout(&mut self, _: Option<Duration>) {}

    fn response_finished(&self) -> bool {
        false
    }

    async fn shutdown(&mut self, _: u32, _: &str) {
        self.source = Source::Nothing;
    }

    fn was_upgraded(&self) -> bool {
        false
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        None
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn fd(&self) -> UniqueIDType {
        0
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    async fn drain_custom_messages(&mut self) -> Result<()> {
        Ok(())
    }
}

struct AlreadySent;

#[async_trait]
impl BodyWrite for AlreadySent {
    async fn write_all_buf(&mut self, data: &mut Bytes) -> Result<()> {
        data.clear();
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    async fn cleanup(&mut self) -> Result<()> {
        Ok(())
    }

    fn upgrade_body_writer(&mut self) {}
}

impl Asked {
    /// The counters of the exchange to come.
    pub fn trace(&self) -> Arc<Trace> {
        self.exchange.trace.clone()
    }
}

fn rendered(head: &CgiHead, length: Option<u64>) -> Result<ResponseHeader> {
    let mut header = ResponseHeader::build(head.status, Some(head.fields.len() + 1))?;
    for (name, value) in &head.fields {
        let name = String::from_utf8_lossy(name).into_owned();
        header.append_header(name, &value[..])?;
    }
    // A 204 has no length (RFC 9110 §8.6), a 205 has that of nothing (§15.3.6); a 304 and the answer to HEAD may say that
    // of the answer they stand for.
    let length = match head.status {
        204 => None,
        205 => Some(0),
        _ => length,
    };
    if let Some(length) = length {
        header.insert_header("Content-Length", length.to_string())?;
    }
    Ok(header)
}

/// The failure with the status it is answered with. Nothing is to be tried again: the exchange has done that.
fn failed(error: &ExchangeError) -> Box<Error> {
    Error::explain(ErrorType::HTTPStatus(error.status()), error.to_string()).into_up()
}

fn internal(why: &'static str) -> Box<Error> {
    Error::explain(ErrorType::InternalError, why)
}

/// The responder's fields that stay when a file is sent in its stead.
const KEPT: [&[u8]; 5] = [
    b"content-type",
    b"content-disposition",
    b"cache-control",
    b"expires",
    b"set-cookie",
];
const FASTCGI_GROUP: u64 = 0x6661_7374_6367_6900;
