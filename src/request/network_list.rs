//! Lists of networks in files: one a line, also as nginx's `set_real_ip_from` has them.

use std::net::IpAddr;

use ipnet::IpNet;

use super::networks::Networks;
use crate::followed_file::BadLine;

/// Why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotANetwork {
    /// It is something else.
    Unreadable,
    /// `10.0.0.5/8` may mean one machine or sixteen million: the user is asked, not guessed.
    BitsBeyondPrefix(IpNet),
}

/// A network, a single address, or `private` for all networks that are not of the Internet.
///
/// # Errors
/// Why it is none.
pub fn network(text: &str) -> Result<Vec<IpNet>, NotANetwork> {
    if text == "private" {
        return Ok(Networks::private());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(vec![IpNet::from(address)]);
    }
    match text.parse::<IpNet>() {
        Ok(network) if network != network.trunc() => Err(NotANetwork::BitsBeyondPrefix(network)),
        Ok(network) => Ok(vec![network]),
        Err(_) => Err(NotANetwork::Unreadable),
    }
}

/// Reads a file of networks: `#` begins a comment, `set_real_ip_from X;` is X.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Networks, BadLine> {
    let mut networks = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let bad = |reason: String| BadLine {
            line: index + 1,
            reason,
        };
        let line = str::from_utf8(line).map_err(|_| bad("is not text".to_owned()))?;
        let text = line.split('#').next().unwrap_or_default().trim();
        let text = match text.strip_prefix("set_real_ip_from") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim(),
            _ => text,
        };
        let text = text.strip_suffix(';').unwrap_or(text).trim();
        if text.is_empty() {
            continue;
        }
        let found = network(text).map_err(|wrong| {
            bad(match wrong {
                NotANetwork::Unreadable => {
                    let text: String = text.chars().take(60).collect();
                    format!("{text:?} is not a network")
                }
                NotANetwork::BitsBeyondPrefix(network) => {
                    format!("{network} has address bits beyond its prefix")
                }
            })
        })?;
        networks.extend(found);
    }
    Ok(Networks::new(networks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_kinds_are_read() {
        let text = b"# Cloudflare\r\n173.245.48.0/20\n\n  set_real_ip_from 2400:cb00::/32; # six\n192.0.2.7\n";
        let networks = parse(text).unwrap_or_default();
        for (address, is_in) in [
            ("173.245.49.1", true),
            ("2400:cb00::1", true),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::1", false),
        ] {
            let found = address.parse().map(|address| networks.contains(address));
            assert_eq!(found, Ok(is_in), "{address}");
        }
        assert_eq!(parse(b""), Ok(Networks::default()));
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        for bad in [
            "nonsense",
            "10.0.0.5/8",
            "1.2.3.4/33",
            "set_real_ip_from unix:;",
            "\u{e9}",
            "1.2.3.4 5.6.7.8",
        ] {
            let text = format!("192.0.2.0/24\n{bad}\n");
            let line = parse(text.as_bytes()).map_err(|error| error.line);
            assert_eq!(line, Err(2), "{bad}");
        }
        assert_eq!(parse(b"\xff").map_err(|error| error.line), Err(1));
    }
}
