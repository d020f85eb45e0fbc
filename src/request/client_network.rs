//! What counts as one client where something is limited by address.

use std::net::IpAddr;

/// An IPv4 address, or an IPv6 network of 64 bits: whoever has one address of it has all of them (RFC 6177 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientNetwork {
    is_v4: bool,
    bits: u64,
}

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> ClientNetwork {
        match address.to_canonical() {
            IpAddr::V4(four) => ClientNetwork {
                is_v4: true,
                bits: u64::from(four.to_bits()),
            },
            IpAddr::V6(six) => ClientNetwork {
                is_v4: false,
                bits: u64::try_from(six.to_bits() >> 64).unwrap_or_default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> ClientNetwork {
        let address: IpAddr = text.parse().expect("an address");
        address.into()
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_each_ipv4_address_is() {
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
        assert_ne!(network("0.0.0.0"), network("::"));
    }
}
