//! Who the client is: the peer, or whom a trusted proxy in front says it speaks for.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

use super::authority::parse_port;
use super::fields::{Fields, members, trim};
use super::forwarded;
use super::network_list;
use super::networks::Networks;
use crate::followed_file::{FileError, FollowedFile};

/// The networks whose word about the client is taken.
#[derive(Debug, Default)]
pub struct TrustedProxies {
    named: Networks,
    files: Vec<FollowedFile<Networks>>,
}

impl TrustedProxies {
    /// Trusts these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        TrustedProxies {
            named: Networks::new(networks),
            files: Vec::new(),
        }
    }

    /// Trusts also the networks of these files, as they change.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn with_files(self, files: &[PathBuf]) -> Result<Self, FileError> {
        let load = |path: &PathBuf| FollowedFile::load(path, network_list::parse);
        Ok(TrustedProxies {
            files: files.iter().map(load).collect::<Result<_, _>>()?,
            ..self
        })
    }

    /// Whether the address lies in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.named.contains(address)
            || self
                .files
                .iter()
                .any(|networks| networks.current().contains(address))
    }

    /// Whether files are to be looked at.
    pub fn follows_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Looks at the files; for once a second, off the workers.
    pub fn look(&self) {
        for file in &self.files {
            file.look();
        }
    }
}

/// Who a request comes from, and how they reached the first server.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The address, IPv4 also where the peer's came written in IPv6.
    pub address: IpAddr,
    /// The port; 0 when a proxy did not tell it.
    pub port: u16,
    /// Whether the client speaks TLS, with us or with the proxy.
    pub https: bool,
    /// The port the client connected to, when a proxy told it; else the scheme's.
    pub server_port: Option<u16>,
    /// Whether the peer is a trusted proxy.
    pub trusted_peer: bool,
}

/// Tells the client of a request.
///
/// From a peer that is not trusted no field counts. From one that is, the address is the single one
/// in `client_ip_header` where that is set (the peer's when it holds none), else the right-most address in
/// `X-Forwarded-For` that is not itself trusted: what stands left of it anybody may have written.
/// An entry that is no address ends the walk; the last address before it counts.
/// `X-Forwarded-Proto` and `X-Forwarded-Port` count by their last value.
pub fn identify<F: Fields + ?Sized>(
    peer: SocketAddr,
    tls: bool,
    fields: &F,
    trusted: &TrustedProxies,
    client_ip_header: Option<&str>,
) -> Client {
    let peer = Endpoint {
        address: peer.ip().to_canonical(),
        port: peer.port(),
    };
    let trusted_peer = trusted.contains(peer.address);
    if !trusted_peer {
        return Client {
            address: peer.address,
            port: peer.port,
            https: tls,
            server_port: None,
            trusted_peer,
        };
    }
    if client_ip_header.is_some_and(|name| name.eq_ignore_ascii_case(forwarded::NAME)) {
        return forwarded_client(peer, tls, fields, trusted);
    }
    // A site that names a field of its own has a proxy that always sets it. Where it is missing the request has not come
    // that way, and what else it carries the client may have written.
    let told = match client_ip_header {
        Some(name) => fields.only(name).and_then(Endpoint::parse),
        None => forwarded_for(fields, trusted),
    };
    let client = told.unwrap_or(peer);
    Client {
        address: client.address,
        port: client.port,
        https: last_member(fields, "x-forwarded-proto")
            .map_or(tls, |scheme| scheme.eq_ignore_ascii_case(b"https")),
        server_port: last_member(fields, "x-forwarded-port")
            .and_then(parse_port)
            .filter(|port| *port != 0),
        trusted_peer,
    }
}

/// The client that `Forwarded` tells (RFC 7239): the right-most `for` that is not trusted, and the `proto` beside it. The fields of
/// the other kind do not count: a proxy that writes this one passes those on.
fn forwarded_client<F: Fields + ?Sized>(
    peer: Endpoint,
    tls: bool,
    fields: &F,
    trusted: &TrustedProxies,
) -> Client {
    let mut found: Option<(Endpoint, Option<bool>)> = None;
    for line in fields.lines(forwarded::NAME) {
        for element in forwarded::elements(line) {
            let here = element
                .as_ref()
                .and_then(|element| element.node.as_deref().and_then(Endpoint::parse_node));
            let https = element.and_then(|element| element.https);
            found = match here {
                // Who stands left of it anybody may have written.
                None => None,
                Some(here) if trusted.contains(here.address) => found.or(Some((here, https))),
                Some(here) => Some((here, https)),
            };
        }
    }
    let (client, https) = found.unwrap_or((peer, None));
    Client {
        address: client.address,
        port: client.port,
        https: https.unwrap_or(tls),
        server_port: None,
        trusted_peer: true,
    }
}

/// Fields by which proxies tell of the client. From a peer that is not trusted they are dropped,
/// and with them the site's `client_ip_header`.
pub const FORWARDED_FIELDS: [&str; 6] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    "forwarded",
];

#[derive(Copy, Clone, Debug)]
struct Endpoint {
    address: IpAddr,
    port: u16,
}

impl Endpoint {
    /// Reads `address`, `address:port`, `[v6]` or `[v6]:port`, also in double quotes.
    fn parse(entry: &[u8]) -> Option<Self> {
        let entry = trim(entry);
        let entry = match entry {
            [b'"', inside @ .., b'"'] => inside,
            bare => bare,
        };
        let text = str::from_utf8(entry).ok()?;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Endpoint::without_port(address));
        }
        if let Some(address) = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            return Some(Endpoint::without_port(IpAddr::V6(address.parse().ok()?)));
        }
        let socket: SocketAddr = text.parse().ok()?;
        // A zone means something on the machine that wrote it only.
        if text.contains('%') {
            return None;
        }
        Some(Endpoint {
            address: socket.ip().to_canonical(),
            port: socket.port(),
        })
    }

    /// Reads a node of RFC 7239 §6: an IPv6 address has brackets, the port may be hidden, and so may the address (none then).
    fn parse_node(node: &[u8]) -> Option<Self> {
        if let Some(whole) = Endpoint::parse(node) {
            return Some(whole);
        }
        let hidden = memchr::memmem::rfind(node, b":_")?;
        let (address, port) = node.split_at_checked(hidden)?;
        port.get(2..)?
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            .then(|| Endpoint::parse(address))?
    }

    fn without_port(address: IpAddr) -> Self {
        Endpoint {
            address: address.to_canonical(),
            port: 0,
        }
    }
}

/// The right-most address that is not trusted.
///
/// Walks from the left, so that nothing need be collected, and keeps what a walk from the right
/// that begins at this entry would find.
fn forwarded_for<F: Fields + ?Sized>(fields: &F, trusted: &TrustedProxies) -> Option<Endpoint> {
    fields
        .lines("x-forwarded-for")
        .flat_map(members)
        .fold(None, |found, entry| {
            let here = Endpoint::parse(entry)?;
            if trusted.contains(here.address) {
                found.or(Some(here))
            } else {
                Some(here)
            }
        })
}

fn last_member<'a, F: Fields + ?Sized>(fields: &'a F, name: &'static str) -> Option<&'a [u8]> {
    fields.lines(name).flat_map(members).last()
}

#[cfg(test)]
mod tests;
