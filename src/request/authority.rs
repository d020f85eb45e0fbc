//! Host and port, as `Host` and an absolute target carry them (RFC 9110 §7.2, RFC 3986 §3.2).

use std::net::Ipv6Addr;

/// An authority without user information, which has no place in a request (RFC 9110 §4.2.4).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Authority<'b> {
    /// The host as sent: a name, an IPv4 address, or an IPv6 address in its brackets. Never empty.
    pub host: &'b [u8],
    /// The port, when one is written.
    pub port: Option<u16>,
}

impl<'b> Authority<'b> {
    /// Reads `host`, `host:` or `host:port`; `None` for everything else.
    ///
    /// A name is what RFC 3986 calls `reg-name`: no white space, slash, `@`, control or 8-bit byte.
    /// The empty host is refused too: `http` has no resource without one (RFC 9110 §4.2.1).
    pub fn parse(authority: &'b [u8]) -> Option<Self> {
        let host_length = match authority.first()? {
            b'[' => memchr::memchr(b']', authority)?.checked_add(1)?,
            _ => memchr::memchr(b':', authority).unwrap_or(authority.len()),
        };
        let (host, rest) = authority.split_at_checked(host_length)?;
        if !is_host(host) {
            return None;
        }
        let port = match rest {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        Some(Authority { host, port })
    }
}

/// Reads a port number: one to five digits, at most 65535.
pub fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.len() > PORT_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn is_host(host: &[u8]) -> bool {
    if let [b'[', address @ .., b']'] = host {
        return str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    }
    let mut rest = host;
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => match after {
                [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    after
                }
                _ => return false,
            },
            _ if is_name_byte(*byte) => after,
            _ => return false,
        };
    }
    !host.is_empty()
}

/// `unreserved / sub-delims` of RFC 3986 §2.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

const PORT_DIGITS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_ports_are_read() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("example.com:", "example.com", None),
            ("example.com:8080", "example.com", Some(8080)),
            ("a_b-c.test.", "a_b-c.test.", None),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("[2001:db8::1]", "[2001:db8::1]", None),
            ("[::1]:65535", "[::1]", Some(65535)),
            ("caf%C3%A9.test", "caf%C3%A9.test", None),
        ] {
            assert_eq!(
                Authority::parse(text.as_bytes()),
                Some(Authority {
                    host: host.as_bytes(),
                    port
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        for text in [
            "",
            ":80",
            "user@example.com",
            "user:secret@example.com",
            "a b",
            "a/b",
            "a\\b",
            "a\tb",
            "a?b",
            "a#b",
            "a<b",
            "a\"b",
            "example.com:65536",
            "example.com:+80",
            "example.com:8o",
            "example.com:000080",
            "a:1:2",
            "::1",
            "[::1",
            "[::1]x",
            "[]",
            "[v1.a]",
            "[fe80::1%25eth0]",
            "%4",
            "%zz",
            "caf\u{e9}",
            "\0",
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
