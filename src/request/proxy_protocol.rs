//! The PROXY protocol, versions 1 and 2: what a proxy that passes bytes on says of the client, before the first of them.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::net::SocketAddr;

use ppp::v2::{Command, Type};
use ppp::{v1, v2};

/// What the proxy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The client, and where it connected to; none: the connection is the proxy's own (a health check).
    pub client: Option<Ends>,
    /// Whether the client spoke TLS with the proxy.
    pub tls: bool,
}

/// Both ends of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub source: SocketAddr,
    /// The proxy's.
    pub destination: SocketAddr,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// More are needed.
    Incomplete,
    /// A header of so many bytes.
    Header(Told, usize),
    /// Something else.
    Other,
}

/// Reads the header at the beginning of `bytes`.
pub fn read(bytes: &[u8]) -> Read {
    if begins(bytes, SIGNATURE) {
        return binary(bytes);
    }
    if begins(bytes, b"PROXY ") {
        return text(bytes);
    }
    Read::Other
}

/// Whether `bytes` are the beginning of `word`, or begin with it.
fn begins(bytes: &[u8], word: &[u8]) -> bool {
    let both = bytes.len().min(word.len());
    bytes.get(..both) == word.get(..both)
}

fn text(bytes: &[u8]) -> Read {
    let line = bytes.get(..MOST_TEXT).unwrap_or(bytes);
    let Some(end) = memchr::memmem::find(line, b"\r\n") else {
        return match bytes.len() < MOST_TEXT {
            true => Read::Incomplete,
            false => Read::Other,
        };
    };
    let length = end + 2;
    if line.get(..end).is_some_and(|line| line.contains(&b'+')) {
        // No number has a sign there.
        return Read::Other;
    }
    let Ok(header) = v1::Header::try_from(line.get(..length).unwrap_or_default()) else {
        return Read::Other;
    };
    let client = match header.addresses {
        v1::Addresses::Tcp4(four) => Some(of_v4(
            four.source_address,
            four.source_port,
            four.destination_address,
            four.destination_port,
        )),
        v1::Addresses::Tcp6(six) => Some(of_v6(
            six.source_address,
            six.source_port,
            six.destination_address,
            six.destination_port,
        )),
        v1::Addresses::Unknown => None,
    };
    Read::Header(told(client, false), length)
}

fn binary(bytes: &[u8]) -> Read {
    let length = bytes.get(14..16).and_then(|length| length.try_into().ok());
    let Some(length) = length.map(u16::from_be_bytes) else {
        return Read::Incomplete;
    };
    let length = FIXED + usize::from(length);
    if length > MOST_BINARY {
        return Read::Other;
    }
    let Some(whole) = bytes.get(..length) else {
        return Read::Incomplete;
    };
    let Ok(header) = v2::Header::try_from(whole) else {
        return Read::Other;
    };
    if header.command == Command::Local {
        return Read::Header(told(None, false), length);
    }
    let client = match header.addresses {
        v2::Addresses::IPv4(four) => Some(of_v4(
            four.source_address,
            four.source_port,
            four.destination_address,
            four.destination_port,
        )),
        v2::Addresses::IPv6(six) => Some(of_v6(
            six.source_address,
            six.source_port,
            six.destination_address,
            six.destination_port,
        )),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    };
    let tls = header.tlvs().flatten().any(|value| {
        let is_tls = value.kind == Type::SSL as u8;
        is_tls
            && value
                .value
                .first()
                .is_some_and(|flags| flags & CLIENT_TLS != 0)
    });
    Read::Header(told(client, tls), length)
}

/// A client that connected to the port of https has spoken TLS with somebody in front: what comes here is not TLS.
fn told(client: Option<Ends>, tls: bool) -> Told {
    let to_https = client.is_some_and(|ends| ends.destination.port() == HTTPS);
    Told {
        client,
        tls: tls || to_https,
    }
}

fn of_v4(
    source: std::net::Ipv4Addr,
    source_port: u16,
    destination: std::net::Ipv4Addr,
    destination_port: u16,
) -> Ends {
    Ends {
        source: (source, source_port).into(),
        destination: (destination, destination_port).into(),
    }
}

fn of_v6(
    source: std::net::Ipv6Addr,
    source_port: u16,
    destination: std::net::Ipv6Addr,
    destination_port: u16,
) -> Ends {
    Ends {
        source: (source, source_port).into(),
        destination: (destination, destination_port).into(),
    }
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses of a binary header.
const FIXED: usize = 16;
/// The longest line of version 1 (section 2.1).
const MOST_TEXT: usize = 107;
/// Addresses and what proxies say beside them; far below what the length could say.
const MOST_BINARY: usize = 4096;
/// PP2_CLIENT_SSL (section 2.2.6).
const CLIENT_TLS: u8 = 0x01;
const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str, destination: &str) -> Option<Ends> {
        Some(Ends {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
        })
    }

    /// Every beginning is incomplete, and what follows does not count.
    fn reads(header: &[u8], client: Option<Ends>, tls: bool) {
        let told = Told { client, tls };
        for end in 0..header.len() {
            assert_eq!(read(&header[..end]), Read::Incomplete, "{end} bytes");
        }
        let followed = [header, b"GET / HTTP/1.1\r\n\xff"].concat();
        assert_eq!(read(&followed), Read::Header(told, header.len()));
    }

    #[test]
    fn version_1() {
        reads(
            b"PROXY TCP4 192.0.2.1 198.51.100.1 5000 80\r\n",
            ends("192.0.2.1:5000", "198.51.100.1:80"),
            false,
        );
        reads(
            b"PROXY TCP6 2001:db8::1 2001:db8::2 5000 443\r\n",
            ends("[2001:db8::1]:5000", "[2001:db8::2]:443"),
            true,
        );
        reads(b"PROXY UNKNOWN\r\n", None, false);
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [SIGNATURE, &[0x20 | command, family], &length, rest].concat()
    }

    #[test]
    fn version_2_with_and_without_tls() {
        let addresses = [192, 0, 2, 1, 198, 51, 100, 1, 0x13, 0x88, 0, 80];
        let client = ends("192.0.2.1:5000", "198.51.100.1:80");
        reads(&version_2(1, 0x11, &addresses), client, false);
        let tls = [&addresses[..], &[0x20, 0, 5, 1, 0, 0, 0, 0]].concat();
        reads(&version_2(1, 0x11, &tls), client, true);
        let plain = [&addresses[..], &[0x20, 0, 5, 0, 0, 0, 0, 0]].concat();
        reads(&version_2(1, 0x11, &plain), client, false);
        reads(&version_2(0, 0, &[]), None, false);
    }

    #[test]
    fn anything_else_is_no_header() {
        for other in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"PROXYTCP4 192.0.2.1 198.51.100.1 5000 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 5000\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 5000 80 9\r\n",
            b"PROXY TCP4 2001:db8::1 198.51.100.1 5000 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 +5000 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 5000 66000\r\n",
            b"PROXY TCP4 192.0.2.01 198.51.100.1 5000 80\r\n",
            b"proxy TCP4 192.0.2.1 198.51.100.1 5000 80\r\n",
            &[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat(),
            &version_2(1, 0x11, &[0; 3]),
            &version_2(7, 0x11, &[0; 12]),
            &[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat(),
            &[SIGNATURE, &[0x31, 0x11, 0, 0]].concat(),
        ] {
            assert_eq!(read(other), Read::Other, "{}", other.escape_ascii());
        }
    }
}
