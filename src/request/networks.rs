//! Sets of networks that are asked for every request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks, to be asked whether an address lies in one of them. A few are compared one after the other, many searched by halves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks {
    few: Vec<IpNet>,
    /// First and last addresses, in order, none touching another.
    four: Vec<(u32, u32)>,
    six: Vec<(u128, u128)>,
}

impl Networks {
    /// A set of these. IPv4 networks written in IPv6 (`::ffff:a.b.c.d/n`) are taken as IPv4.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Networks {
        let networks: Vec<IpNet> = networks.into_iter().map(canonical).collect();
        if networks.len() <= FEW {
            return Networks {
                few: networks,
                ..Networks::default()
            };
        }
        let mut four = Vec::new();
        let mut six = Vec::new();
        for network in &networks {
            match network {
                IpNet::V4(net) => four.push((net.network().to_bits(), net.broadcast().to_bits())),
                IpNet::V6(net) => six.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        Networks {
            few: Vec::new(),
            four: merged(four, |last| last.checked_add(1)),
            six: merged(six, |last| last.checked_add(1)),
        }
    }

    /// Whether the address lies in one of the networks. IPv4 written in IPv6 is IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if !self.few.is_empty() {
            return self.few.iter().any(|network| network.contains(&address));
        }
        match address {
            IpAddr::V4(address) => covers(&self.four, address.to_bits()),
            IpAddr::V6(address) => covers(&self.six, address.to_bits()),
        }
    }

    /// The networks no address of the internet lies in: loopback, link-local, private, and those
    /// of carrier-grade NAT.
    #[must_use]
    pub fn private() -> Vec<IpNet> {
        let four = PRIVATE_V4.iter().copied().map(IpNet::V4);
        four.chain(PRIVATE_V6.iter().copied().map(IpNet::V6))
            .collect()
    }
}

/// Ranges in order, those that touch made one.
fn merged<T: Copy + Ord>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if next(*end).is_none_or(|after| first <= after) => {
                *end = last.max(*end);
            }
            _ => out.push((first, last)),
        }
    }
    out
}

fn covers<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= address);
    let at = after.checked_sub(1).and_then(|at| ranges.get(at));
    at.is_some_and(|&(_, last)| address <= last)
}

fn canonical(network: IpNet) -> IpNet {
    if let IpNet::V6(six) = network
        && let Some(four) = six.addr().to_ipv4_mapped()
        && let Some(prefix) = six.prefix_len().checked_sub(MAPPED_PREFIX)
        && let Ok(four) = Ipv4Net::new(four, prefix)
    {
        return IpNet::V4(four);
    }
    network
}

/// So many are compared as fast as the search begins.
const FEW: usize = 16;

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
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn network() -> impl Strategy<Value = IpNet> {
        // Close to each other, so that they touch and overlap.
        let four = (0..2048u32, 20..=32u8).prop_map(|(low, prefix)| {
            let address = Ipv4Addr::from_bits(0xffff_f800 | low);
            IpNet::new(address.into(), prefix).map_or(IpNet::default(), |net| net.trunc())
        });
        let six = (0..2048u128, 116..=128u8).prop_map(|(low, prefix)| {
            let address = Ipv6Addr::from_bits(u128::MAX - 2047 + low);
            IpNet::new(address.into(), prefix).map_or(IpNet::default(), |net| net.trunc())
        });
        prop_oneof![four, six]
    }

    proptest! {
        #[test]
        fn many_are_asked_as_few_are(
            networks in vec(network(), 0..60),
            low in vec(0..4096u32, 1..40),
        ) {
            let set = Networks::new(networks.clone());
            for low in low {
                let four = IpAddr::V4(Ipv4Addr::from_bits(0xffff_f000 | low));
                let six = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX - 4095 + u128::from(low)));
                for address in [four, six] {
                    let one_by_one = networks.iter().any(|network| network.contains(&address));
                    prop_assert_eq!(set.contains(address), one_by_one);
                }
            }
        }
    }

    #[test]
    fn everything_is_covered_by_everything() {
        let mut networks = vec![IpNet::default(); 20];
        networks.extend("::/0".parse::<IpNet>());
        let set = Networks::new(networks);
        for address in [
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "ffff::1",
            "::ffff:1.2.3.4",
        ] {
            assert!(
                address.parse().is_ok_and(|address| set.contains(address)),
                "{address}"
            );
        }
    }
}
