//! The other end of the admin socket: what `nostat status` and `nostat reload` ask.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// An answer of the running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Whether it did what was asked.
    pub done: bool,
    /// What it says.
    pub text: String,
}

/// The query of these names and values.
#[must_use]
pub fn query(pairs: &[(&str, &str)]) -> String {
    let encoded = pairs.iter().map(|(name, value)| {
        let value =
            percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
        format!("{name}={value}")
    });
    encoded.collect::<Vec<_>>().join("&")
}

/// Asks the server behind this socket, and waits a minute for it at most.
///
/// # Errors
/// Nobody answers there.
pub fn ask(socket: &Path, method: Method, path: &str) -> io::Result<Said> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, exchange(socket, method, path))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    })
}

async fn exchange(socket: &Path, method: Method, path: &str) -> io::Result<Said> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "nostat")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(io::Error::other)?;
    let done = response.status() == StatusCode::OK;
    let body = response.into_body().collect().await;
    let text = body.map_err(io::Error::other)?.to_bytes();
    connection.abort();
    Ok(Said {
        done,
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}

const PATIENCE: Duration = Duration::from_secs(60);
