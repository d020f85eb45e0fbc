//! `trusted_proxies`: the peers whose forwarding fields are believed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use ipnet::IpNet;

use crate::followed_file;
use crate::request::network_list::{self, NotANetwork};

use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section};

/// What is trusted.
#[derive(Debug)]
pub struct Trusted {
    /// Networks of the settings themselves.
    pub networks: Vec<IpNet>,
    /// Files of networks.
    pub files: Vec<PathBuf>,
}

/// The networks. A field believed from the wrong peer forges a client's address, so the default is [`defaults`].
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Trusted {
    let Some(items) = top.items("trusted_proxies") else {
        return Trusted {
            networks: defaults(),
            files: Vec::new(),
        };
    };
    let mut trusted = Trusted {
        networks: Vec::new(),
        files: Vec::new(),
    };
    for node in items {
        if node.value.is_mapping() {
            trusted.files.extend(file(&node, report, checks));
            continue;
        }
        let result = scalar::text(node.value).and_then(network);
        let networks = report.accept(&node.path, result);
        trusted.networks.extend(networks.unwrap_or_default());
    }
    trusted
}

/// `{file: PATH}`: a list of networks that is read again when it changes.
fn file(node: &Node<'_>, report: &Report, checks: Checks) -> Option<PathBuf> {
    let section = Section::open(node, &KEYS, report)?;
    let file = section.required("file", "expected e.g. file: /etc/nostat/proxies")?;
    let read = scalar::absolute_path(file.value).and_then(|path| {
        if checks == Checks::Machine {
            followed_file::read(path, network_list::parse).map_err(|error| {
                Wrong::new(error.to_string(), "expected a network in each line")
            })?;
        }
        Ok(path.to_owned())
    });
    report.accept(&file.path, read)
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
    network_list::network(text).map_err(|wrong| match wrong {
        NotANetwork::BitsBeyondPrefix(network) => {
            let message = format!("{} has address bits beyond its prefix", quoted(text));
            let expected = format!("expected {}, or {} alone", network.trunc(), network.addr());
            Wrong::new(message, expected)
        }
        NotANetwork::Unreadable => {
            let message = format!("{} is not a network", quoted(text));
            Wrong::new(message, "expected e.g. 10.0.0.0/8, 192.0.2.7, private")
        }
    })
}

const KEYS: Keys = Keys {
    known: &["file"],
    later: &[],
};
