//! Who may ask what: all over the Unix socket, which its file protects; some over TCP, where PHP on this machine may knock, too.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap};
use hyper::{Method, StatusCode};

use crate::token::Token;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Somebody who may open the socket's file.
    Unix,
    /// This address.
    Tcp(IpAddr),
}

/// Whether a request may be answered.
///
/// # Errors
/// The status to refuse it with.
pub fn check(
    peer: Peer,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    token: Option<&Token>,
) -> Result<(), StatusCode> {
    let Peer::Tcp(address) = peer else {
        return Ok(());
    };
    if matches!(path, "/healthz" | "/readyz") || is_said(token, headers) {
        return Ok(());
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let is_overview = matches!(path, "/" | "/metrics" | "/overview");
    if !(reads && is_overview && address.to_canonical().is_loopback()) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    // A browser of this machine that was led here by a name of somebody else's.
    match headers
        .get(HOST)
        .is_none_or(|host| names_this_machine(host.as_bytes()))
    {
        true => Ok(()),
        false => Err(StatusCode::MISDIRECTED_REQUEST),
    }
}

fn is_said(token: Option<&Token>, headers: &HeaderMap) -> bool {
    let said = headers.get(AUTHORIZATION);
    matches!((token, said), (Some(token), Some(said)) if token.is_borne_by(said.as_bytes()))
}

fn names_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(authorization: Option<&str>, host: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).expect("a host"));
        if let Some(value) = authorization {
            headers.insert(
                AUTHORIZATION,
                HeaderValue::from_str(value).expect("a value"),
            );
        }
        headers
    }

    fn token() -> Token {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file.as_file(), b"0123456789abcdef").expect("written");
        Token::read(file.path()).expect("a token")
    }

    #[test]
    fn what_is_free_over_tcp_and_what_needs_the_token() {
        let token = token();
        let (here, far) = ("127.0.0.1", "192.0.2.1");
        let may = |address: &str, method, path, said: Option<&str>| {
            let peer = Peer::Tcp(address.parse().expect("an address"));
            check(
                peer,
                &method,
                path,
                &headers(said, "127.0.0.1:9145"),
                Some(&token),
            )
            .is_ok()
        };
        let right = Some("Bearer 0123456789abcdef");
        for address in [here, far] {
            assert!(may(address, Method::GET, "/healthz", None));
            assert!(may(address, Method::GET, "/readyz", None));
            for (method, path) in [
                (Method::GET, "/cache"),
                (Method::GET, "/cache/entry"),
                (Method::POST, "/cache/purge"),
                (Method::POST, "/reload"),
                (Method::POST, "/metrics"),
            ] {
                assert!(!may(address, method.clone(), path, None), "{path}");
                assert!(
                    !may(
                        address,
                        method.clone(),
                        path,
                        Some("Bearer 0123456789abcdeX")
                    ),
                    "{path}"
                );
                assert!(may(address, method, path, right), "{path}");
            }
        }
        assert!(may(here, Method::GET, "/metrics", None) && may("::1", Method::GET, "/", None));
        assert!(!may(far, Method::GET, "/metrics", None) && !may(far, Method::GET, "/", None));
        assert!(may(far, Method::GET, "/metrics", right));
    }

    #[test]
    fn without_a_token_none_is_right() {
        let peer = Peer::Tcp(IpAddr::from([127, 0, 0, 1]));
        for said in [None, Some("Bearer "), Some("Bearer x")] {
            let checked = check(peer, &Method::POST, "/reload", &headers(said, "x"), None);
            assert_eq!(checked, Err(StatusCode::UNAUTHORIZED));
        }
    }

    #[test]
    fn names_of_others_are_refused() {
        let peer = Peer::Tcp(IpAddr::from([127, 0, 0, 1]));
        let of = |host| check(peer, &Method::GET, "/metrics", &headers(None, host), None);
        for host in ["localhost:9145", "127.0.0.1", "[::1]:9145", "10.0.0.1:1"] {
            assert_eq!(of(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9145",
            "localhost.evil.example",
        ] {
            assert_eq!(of(host), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
    }
}
