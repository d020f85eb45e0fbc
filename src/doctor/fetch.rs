//! Files fetched from one server over plain HTTP, one after another on one connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer taken in whole.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its content.
    pub content: Bytes,
}

impl Fetched {
    /// A field as text; empty: it is absent, or no text.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// A server, and the host it is asked for.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    host: String,
    /// Whether it is told that the client came by https.
    pub is_https_told: bool,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl Server {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(address: SocketAddr, host: String) -> Self {
        Server {
            address,
            host,
            is_https_told: false,
            connection: None,
        }
    }

    /// Fetches a path, of at most `most` bytes.
    ///
    /// # Errors
    /// Nobody answers, or too much, or too slowly.
    pub async fn get(&mut self, path: &str, most: usize) -> io::Result<Fetched> {
        let fetched = timeout(PATIENCE, self.exchange(path, most)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if fetched.is_err() {
            self.connection = None;
        }
        fetched
    }

    async fn exchange(&mut self, path: &str, most: usize) -> io::Result<Fetched> {
        let mut kept = self.connection.take();
        if let Some(connection) = &mut kept
            && connection.ready().await.is_err()
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let mut request = Request::get(path)
            .header("host", &self.host)
            .header(
                "user-agent",
                concat!("nostat-doctor/", env!("CARGO_PKG_VERSION")),
            )
            .header("accept", "*/*");
        if self.is_https_told {
            request = request.header("x-forwarded-proto", "https");
        }
        let request = request.body(Empty::new()).map_err(io::Error::other)?;
        let response = connection
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let (head, body) = response.into_parts();
        let content = Limited::new(body, most).collect().await;
        let content = content.map_err(io::Error::other)?.to_bytes();
        self.connection = Some(connection);
        Ok(Fetched {
            status: head.status,
            fields: head.headers,
            content,
        })
    }

    async fn connect(&self) -> io::Result<SendRequest<Empty<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // It ends with its sender.
        tokio::spawn(connection);
        Ok(sender)
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
