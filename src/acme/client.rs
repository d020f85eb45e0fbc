//! How an authority is spoken to: over TLS, with an end to each request and to each answer, whatever it sends.

use std::error::Error as _;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};

use crate::tls::certificate::authorities;

/// A client of one authority.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    asked: Arc<Mutex<Option<Duration>>>,
}

impl Client {
    /// A client that believes these authorities, or without any those of the machine. Reads files.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn new(ca: Option<&Path>) -> Result<Client, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match ca {
            Some(path) => builder.with_root_certificates(roots(path)?),
            None => builder.with_native_roots().map_err(|error| {
                format!("the machine has no certificates of authorities (ca-certificates): {error}")
            })?,
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(builder.with_no_client_auth())
            .https_only()
            .enable_http1()
            .build();
        Ok(Client {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            asked: Arc::default(),
        })
    }

    /// How long the authority has asked to be left alone, where it has refused something.
    #[must_use]
    pub fn asked(&self) -> Option<Duration> {
        *self.asked.lock()
    }
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let failed = |why: String| format!("{}: {why}", path.display());
    for authority in authorities(path).map_err(failed)? {
        let added = roots.add(authority);
        added.map_err(|error| failed(error.to_string()))?;
    }
    Ok(roots)
}

impl HttpClient for Client {
    fn request(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        let method = request.method().clone();
        let (answer, asked) = (self.pool.request(request), self.asked.clone());
        let whole = async move {
            let answer = answer.await.map_err(|error| failed(&error))?;
            let (parts, body) = answer.into_parts();
            if matches!(
                parts.status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            ) {
                *asked.lock() = retry_after(&parts.headers);
            }
            let body = Limited::new(body, MOST_BYTES).collect().await;
            let body = body.map_err(Error::Other)?.to_bytes();
            if let Some(why) = failed_answer(&method, parts.status, &body) {
                return Err(Error::Other(why.into()));
            }
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        };
        Box::pin(async move {
            let late = format!("no answer within {} s", PATIENCE.as_secs());
            let answer = tokio::time::timeout(PATIENCE, whole).await;
            answer.unwrap_or_else(|_| Err(Error::Other(late.into())))
        })
    }
}

/// What is wrong with an answer that nobody behind us would understand: they take each for what was asked for, or for a problem document
/// (RFC 7807) in answer to POST.
fn failed_answer(method: &Method, status: StatusCode, body: &[u8]) -> Option<String> {
    if status.is_success() {
        return None;
    }
    let problem = serde_json::from_slice::<Problem>(body).ok();
    match problem {
        Some(_) if method == Method::POST && !status.is_redirection() => None,
        Some(problem) if problem.detail.is_some() => Some(format!("answered {status}: {problem}")),
        _ => Some(format!("answered {status}")),
    }
}

/// What has gone wrong, down to its cause: "client error (Connect)" says nothing.
fn failed(error: &hyper_util::client::legacy::Error) -> Error {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        source = error.source();
    }
    Error::Other(said.into())
}

/// Seconds, or a date (RFC 9110 §10.2.3), which is counted from the answer's own.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let field = |name| fields.get(name)?.to_str().ok();
    let value = field(RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(field(http::header::DATE)?).ok()?;
    until.duration_since(now).ok()
}

/// The authority is told who asks (RFC 8555 §6.1).
const AGENT: &str = concat!("nostat/", env!("CARGO_PKG_VERSION"), " instant-acme/0.8");
/// For one request, from the look-up of the name to the last byte of the answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Chains of certificates have some thousands.
const MOST_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_to_wait_is_read_in_both_forms() {
        let after = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_str(value).expect("a value"));
            let date = "Tue, 01 Dec 2026 04:00:00 GMT";
            fields.insert("date", HeaderValue::from_static(date));
            retry_after(&fields)
        };
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(
            after("Tue, 01 Dec 2026 05:00:00 GMT"),
            Some(Duration::from_secs(3600))
        );
        for odd in ["", "-1", "soon", "Tue, 01 Dec 2026 03:00:00 GMT"] {
            assert_eq!(after(odd), None, "{odd}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn an_answer_that_is_none_is_told_by_its_status() {
        let problem = br#"{"type": "urn:x", "detail": "down for an hour"}"#;
        let html = b"<html>Bad Gateway</html>";
        let said = |method, status, body: &[u8]| {
            let status = StatusCode::from_u16(status).expect("a status");
            failed_answer(&method, status, body)
        };
        assert_eq!(said(Method::GET, 200, html), None);
        assert_eq!(said(Method::POST, 201, b""), None);
        assert_eq!(said(Method::POST, 400, problem), None);
        for (method, status, body, expected) in [
            (Method::POST, 502, &html[..], "answered 502 Bad Gateway"),
            (
                Method::POST,
                307,
                problem,
                "answered 307 Temporary Redirect: ",
            ),
            (Method::GET, 301, b"", "answered 301 Moved Permanently"),
            (Method::HEAD, 500, b"", "answered 500 Internal Server Error"),
        ] {
            let said = said(method, status, body).expect(expected);
            assert!(said.starts_with(expected), "{said}");
        }
        let said = said(Method::GET, 503, problem).expect("down");
        assert!(
            said.contains("503") && said.contains("down for an hour"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn why_nothing_was_reached_is_said_and_plain_http_is_not_spoken() {
        let ca = tempfile::NamedTempFile::new().expect("a file");
        let made = rcgen::generate_simple_self_signed(["ca.test".to_owned()]).expect("made");
        std::fs::write(ca.path(), made.cert.pem()).expect("written");
        let client = Client::new(Some(ca.path())).expect("made");
        let said = async |uri: &str| {
            let request = Request::get(uri).body(BodyWrapper::default()).expect("one");
            let answer = client.request(request).await;
            answer.map(|_| ()).expect_err("nobody listens").to_string()
        };
        let refused = said("https://127.0.0.1:1/dir").await;
        assert!(refused.contains("refused"), "{refused}");
        let plain = said("http://127.0.0.1:1/dir").await;
        assert!(!plain.contains("refused"), "{plain}");
    }

    #[test]
    fn roots_that_are_none_are_named() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let said = Client::new(Some(file.path()))
            .map(|_| ())
            .expect_err("empty");
        assert!(said.contains("holds no certificate"), "{said}");
    }
}
