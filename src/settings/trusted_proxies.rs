//! `trusted_proxies`: the peers whose forwarding fields are believed.

use std::net::IpAddr;

use ipnet::IpNet;

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::Section;

/// The networks; none by default, for a field believed from the wrong peer forges a client's address.
pub fn read(top: &Section<'_, '_>, report: &Report) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for node in top.items("trusted_proxies").unwrap_or_default() {
        if node.value.is_mapping() {
            let wrong = Wrong::new("is not supported by this version", "list the networks here");
            report.value(&node.path, wrong);
            continue;
        }
        let result = scalar::text(node.value).and_then(network);
        networks.extend(report.accept(&node.path, result).unwrap_or_default());
    }
    networks
}

/// A network, a single address, or `private` for all networks that are not of the Internet.
fn network(text: &str) -> Result<Vec<IpNet>, Wrong> {
    if text == "private" {
        return Ok(PRIVATE
            .iter()
            .filter_map(|network| network.parse().ok())
            .collect());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(vec![IpNet::from(address)]);
    }
    match text.parse::<IpNet>() {
        // 10.0.0.5/8 may mean one machine or sixteen million: the user is asked, not guessed.
        Ok(network) if network != network.trunc() => {
            let message = format!("{} has address bits beyond its prefix", quoted(text));
            let expected = format!("expected {}, or {} alone", network.trunc(), network.addr());
            Err(Wrong::new(message, expected))
        }
        Ok(network) => Ok(vec![network]),
        Err(_) => {
            let message = format!("{} is not a network", quoted(text));
            Err(Wrong::new(
                message,
                "expected e.g. 10.0.0.0/8, 192.0.2.7, private",
            ))
        }
    }
}

/// Loopback, RFC 1918, and RFC 4193.
const PRIVATE: [&str; 6] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
];
