//! `trusted_proxies`: the peers whose forwarding fields are believed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::request::client::TrustedProxies;

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::Section;

/// The networks. A field believed from the wrong peer forges a client's address, so the default is [`defaults`].
pub fn read(top: &Section<'_, '_>, report: &Report) -> Vec<IpNet> {
    let Some(items) = top.items("trusted_proxies") else {
        return defaults();
    };
    let mut networks = Vec::new();
    for node in items {
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

/// This machine: the server in front, which ends TLS, stands beside us more often than not.
pub fn defaults() -> Vec<IpNet> {
    vec![
        IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ]
}

/// A network, a single address, or `private` for all networks that are not of the Internet.
///
/// # Errors
/// What to write instead.
pub fn network(text: &str) -> Result<Vec<IpNet>, Wrong> {
    if text == "private" {
        return Ok(TrustedProxies::private_networks());
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
