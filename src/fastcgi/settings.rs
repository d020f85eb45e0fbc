//! What a site says about its responder (`php:` in the settings file).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How one responder is reached and how long it is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the responder listens.
    pub address: Address,
    /// The document root as the responder sees it, when that differs from ours. Default: the same.
    pub root: Option<PathBuf>,
    /// Requests that may be with the responder at once. Default: `auto`.
    pub max_children: MaxChildren,
    /// Requests that may wait for a slot; one more is answered 503. Default: 64.
    pub queue: usize,
    /// How long a request waits for a slot, or for room in the socket's backlog. Default: 5 s.
    pub wait: Duration,
    /// How long a connect may take. Default: 2 s.
    pub connect: Duration,
    /// Silence allowed before the first byte of STDOUT. Content still being taken and STDERR
    /// count as signs of life. Default: 60 s.
    pub first_byte: Duration,
    /// Silence allowed after it. Default: 60 s.
    pub between_bytes: Duration,
    /// How long an idle connection is kept for the next request. Default: `off`, because a kept
    /// connection pins one PHP worker. Has no effect while `max_children` is unknown.
    pub keep_alive: Option<Duration>,
    /// Bytes of a response held in memory for a slower client. Default: 1 MiB.
    pub buffer: u64,
    /// Bytes of a response held in an unlinked file beyond that; then PHP waits. Default: 1 GiB.
    pub temp_max: u64,
    /// When a client that goes away ends its request. Default: `reset`.
    pub client_abort: ClientAbort,
}

impl Settings {
    /// The defaults for the responder at `address`.
    pub fn new(address: Address) -> Self {
        Settings {
            address,
            root: None,
            max_children: MaxChildren::Auto,
            queue: 64,
            wait: Duration::from_secs(5),
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
            keep_alive: None,
            buffer: 1 << 20,
            temp_max: 1 << 30,
            client_abort: ClientAbort::Reset,
        }
    }
}

/// Where a responder listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket, written `unix:/run/php/php-fpm.sock`.
    Unix(PathBuf),
    /// A TCP address, written `127.0.0.1:9000` or `[::1]:9000`.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `unix:PATH`, an absolute path, or `IP:PORT`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let path = match text.strip_prefix("unix:") {
            Some(path) => Some(path),
            None if text.starts_with('/') => Some(text),
            None => None,
        };
        match path {
            Some(path) if path.contains('\0') => Err(AddressError::NotAnAddress),
            Some(path) if !path.starts_with('/') => Err(AddressError::RelativePath),
            // sockaddr_un holds 108 bytes, the last of them NUL.
            Some(path) if path.len() > 107 => Err(AddressError::PathTooLong),
            Some(path) => Ok(Address::Unix(PathBuf::from(path))),
            None => text
                .parse()
                .map(Address::Tcp)
                .map_err(|_| AddressError::NotAnAddress),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// Why a text names no responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither a path nor an IP address with a port.
    #[error("expected `unix:/path/to.sock` or `IP:PORT`")]
    NotAnAddress,
    /// The socket's path does not begin with `/`.
    #[error("the path of a Unix socket must be absolute")]
    RelativePath,
    /// The socket's path does not fit the kernel's address structure.
    #[error("the path of a Unix socket may have 107 bytes at most")]
    PathTooLong,
}

/// How many requests may be with the responder at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxChildren {
    /// `pm.max_children` of the pool that listens at this address, when its file can be read;
    /// else there is no limit but the responder's backlog.
    Auto,
    /// This many.
    Limit(usize),
}

/// When a client that goes away ends its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAbort {
    /// On a reset only: a client that has sent its request and closed its side is still served.
    Reset,
    /// On any end of the client's connection, as nginx does.
    Close,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in [
            "unix:/run/php/php8.2-fpm.sock",
            "127.0.0.1:9000",
            "[::1]:9000",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("/run/a".parse(), Ok(Address::Unix(PathBuf::from("/run/a"))));
    }

    #[test]
    fn what_names_no_responder_is_refused() {
        for text in ["", "9000", "127.0.0.1", "unix:", "unix:run/a", "unix:/a\0b"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
        let long = format!("unix:/{}", "a".repeat(107));
        assert_eq!(long.parse::<Address>(), Err(AddressError::PathTooLong));
    }
}
