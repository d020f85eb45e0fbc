//! What is asked inward for a lent request: FastCGI's meta-variables, or the fields for an HTTP origin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pingora_core::{Error, ErrorType, Result};
use pingora_http::RequestHeader;

use crate::edge::accel::AccelSource;
use crate::edge::failure::status_error;
use crate::edge::handed::Handed;
use crate::edge::log_entry::HTTP2;
use crate::fastcgi::exchange::ExchangeRequest;
use crate::fastcgi::params::{self, ParamsInput};
use crate::fastcgi::session::Asked;
use crate::fastcgi::spool;
use crate::request::authority::Authority;
use crate::request::client::FORWARDED_FIELDS;
use crate::site::{Backend, Script};
use crate::snapshot::State;

/// The exchange that answers a script's request.
///
/// # Errors
/// 431 when a field is too long for PHP-FPM; 500 when the site has no responder.
pub fn for_php(
    state: &State,
    handed: &Handed,
    script: &Script,
    head: &RequestHeader,
    body: spool::Body,
) -> Result<Asked> {
    let Backend::Php(php) = &handed.site.settings().backend else {
        return Err(Error::explain(
            ErrorType::InternalError,
            "the site has no PHP",
        ));
    };
    let upstream = handed
        .snapshot
        .responder(&php.address)
        .ok_or_else(|| Error::explain(ErrorType::InternalError, "the responder is not known"))?;
    let document_root = php
        .root
        .clone()
        .unwrap_or_else(|| script.generation.resolved().to_owned());
    let script_filename = below(&document_root, &script.script_name);
    let dropped = dropped_fields(handed, head);
    let fields: Vec<(&[u8], &[u8])> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect();
    let query = script
        .query
        .as_deref()
        .or(handed.query.as_deref())
        .unwrap_or_default();
    let https = handed.client.https;
    let scheme_port = if https { 443 } else { handed.local.port() };
    let params = params::encode(&ParamsInput {
        method: head.method.as_str(),
        request_uri: &handed.target,
        query,
        script_name: &script.script_name,
        script_filename: script_filename.as_os_str().as_encoded_bytes(),
        path_info: &script.path_info,
        document_root: document_root.as_os_str().as_encoded_bytes(),
        // A page is for all.
        protocol: match handed.fill {
            None if handed.http10 => "HTTP/1.0",
            None if handed.http2 => HTTP2,
            _ => "HTTP/1.1",
        },
        https,
        host: &handed.host,
        server_name: Authority::parse(&handed.host).map_or(&[], |authority| authority.host),
        server_addr: handed.local,
        server_port: handed.client.server_port.unwrap_or(scheme_port),
        remote_addr: handed.client.address,
        remote_port: handed.client.port,
        remote_user: handed.user.as_deref(),
        content_length: (body.length() > 0 || head.headers.contains_key("content-length"))
            .then(|| body.length()),
        fields: &fields,
        drop: &dropped,
    })
    .map_err(|error| status_error(error.status(), &error.to_string()))?;
    Ok(Asked {
        exchange: ExchangeRequest {
            settings: upstream.settings.clone(),
            limiter: upstream.limiter.clone(),
            params,
            body,
            method_is_head: head.method == http::Method::HEAD,
            idempotent: head.method.is_idempotent(),
            spools: state.spools.clone(),
            trace: Arc::default(),
        },
        accel: Arc::new(AccelSource::new(handed, script, head, state)),
    })
}

/// The fields that an origin gets: who asked, for which host, over which scheme.
///
/// # Errors
/// Never with fields that have passed the lane.
pub fn for_origin(handed: &Handed, request: &mut RequestHeader) -> Result<()> {
    for name in dropped_fields(handed, request) {
        request.remove_header(name);
    }
    // `100 Continue` has been answered here, no other upgrade than to a WebSocket is asked for, and `Proxy` would become
    // HTTP_PROXY in a CGI program behind the origin.
    for name in ["expect", "upgrade", "connection", "proxy"] {
        request.remove_header(name);
    }
    // `X_Forwarded_For` is the same to a CGI program as `X-Forwarded-For`; nginx passes on no such names either.
    let ambiguous: Vec<_> = request
        .headers
        .keys()
        .filter(|name| name.as_str().contains('_'))
        .cloned()
        .collect();
    for name in &ambiguous {
        request.remove_header(name);
    }
    if handed.tunnel.is_some() {
        request.insert_header("Connection", "Upgrade")?;
        request.insert_header("Upgrade", "websocket")?;
    }
    request.insert_header("Host", &handed.host[..])?;
    let mut forwarded = Vec::new();
    for earlier in request.headers.get_all("x-forwarded-for") {
        forwarded.extend_from_slice(earlier.as_bytes());
        forwarded.extend_from_slice(b", ");
    }
    forwarded.extend_from_slice(handed.peer.to_string().as_bytes());
    request.insert_header("X-Forwarded-For", forwarded)?;
    request.insert_header(
        "X-Forwarded-Proto",
        if handed.client.https { "https" } else { "http" },
    )?;
    if !request.headers.contains_key("x-forwarded-host") {
        request.insert_header("X-Forwarded-Host", &handed.host[..])?;
    }
    request.insert_header("X-Real-IP", handed.client.address.to_string())?;
    Ok(())
}

/// Fields that say who the client is are believed of trusted peers only; the first one dropped is said in the log.
fn dropped_fields<'a>(handed: &'a Handed, head: &RequestHeader) -> Vec<&'a str> {
    if handed.client.trusted_peer {
        return Vec::new();
    }
    let own = handed.site.settings().client_ip_header.as_deref();
    let dropped: Vec<&str> = FORWARDED_FIELDS.into_iter().chain(own).collect();
    if let Some(name) = dropped
        .iter()
        .find(|name| head.headers.contains_key(**name))
        && !SAID.swap(true, Ordering::Relaxed)
    {
        let peer = handed.peer;
        tracing::warn!(
            "{name} from {peer} is dropped, as everybody can send it; if that is your proxy: trusted_proxies: [\"{peer}\"]"
        );
    }
    dropped
}

/// `name`, which begins with a slash, below `root`.
fn below(root: &Path, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let relative = name.strip_prefix(b"/").unwrap_or(name);
    root.join(std::ffi::OsStr::from_bytes(relative))
}

/// Whether the log has said that a field was dropped: once is enough, and every client could make it more.
static SAID: AtomicBool = AtomicBool::new(false);
