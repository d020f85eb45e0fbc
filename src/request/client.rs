//! Who the client is: the peer, or whom a trusted proxy in front says it speaks for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::authority::parse_port;
use super::fields::{Fields, members, trim};

/// The networks whose word about the client is taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Trusts these networks. IPv4 networks written in IPv6 (`::ffff:a.b.c.d/n`) are taken as IPv4.
    pub fn new(networks: Vec<IpNet>) -> Self {
        TrustedProxies(networks.into_iter().map(canonical_network).collect())
    }

    /// Whether the address lies in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The networks no address of the internet lies in: loopback, link-local, private, and those
    /// of carrier-grade NAT.
    pub fn private_networks() -> Vec<IpNet> {
        let four = PRIVATE_V4.iter().copied().map(IpNet::V4);
        four.chain(PRIVATE_V6.iter().copied().map(IpNet::V6))
            .collect()
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

fn canonical_network(network: IpNet) -> IpNet {
    if let IpNet::V6(six) = network
        && let Some(four) = six.addr().to_ipv4_mapped()
        && let Some(prefix) = six.prefix_len().checked_sub(MAPPED_PREFIX)
        && let Ok(four) = Ipv4Net::new(four, prefix)
    {
        return IpNet::V4(four);
    }
    network
}

/// Bits of an IPv6 address before the IPv4 address it maps.
const MAPPED_PREFIX: u8 = 96;

const PRIVATE_V4: [Ipv4Net; 6] = [
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
];

const PRIVATE_V6: [Ipv6Net; 3] = [
    Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
];

#[cfg(test)]
mod tests;
