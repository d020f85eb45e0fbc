//! `sites[].origin`: the HTTP origin servers of a site.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_yaml::Value;

use crate::origin::{Balance, HealthCheck, PoolSettings, Settings};
use crate::request::authority::Authority;

use super::hosts;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section, list_items};

/// The origin at `node`: a peer, a list of peers, or a mapping with `peers`.
pub fn read(node: &Node<'_>, report: &Report) -> Option<Settings> {
    if !node.value.is_mapping() {
        return peers(node, report).map(Settings::new);
    }
    let section = Section::open(node, &KEYS, report)?;
    let peers = section
        .required("peers", "expected e.g. peers: [\"10.0.0.5:8080\"]")
        .and_then(|node| peers(&node, report));
    // The other keys are checked even where the peers are wrong.
    let found = peers.is_some();
    let default = Settings::new(peers.unwrap_or_default());
    let settings = Settings {
        connect: section.duration("connect", default.connect, MILLISECOND..=HOUR),
        first_byte: section.duration("first_byte", default.first_byte, MILLISECOND..=DAY),
        between_bytes: section.duration("between_bytes", default.between_bytes, MILLISECOND..=DAY),
        pool: PoolSettings {
            balance: section.choice("balance", default.pool.balance, &BALANCES),
            health: section
                .node("health")
                .and_then(|node| health(&node, report)),
            peers: default.pool.peers,
        },
    };
    found.then_some(settings)
}

/// The peers of a text or a list.
fn peers(node: &Node<'_>, report: &Report) -> Option<Vec<String>> {
    let items = match node.value {
        Value::Sequence(items) => list_items(items, &node.path),
        _ => vec![node.clone()],
    };
    if items.is_empty() {
        let wrong = Wrong::new("the list is empty", "expected e.g. [\"10.0.0.5:8080\"]");
        report.value(&node.path, wrong);
        return None;
    }
    let mut peers = Vec::with_capacity(items.len());
    for item in &items {
        let address = scalar::text(item.value).and_then(address);
        let Some(peer) = report.accept(&item.path, address) else {
            continue;
        };
        if peers.contains(&peer) {
            let message = format!("the peer {} stands here twice", quoted(&peer));
            report.value(&item.path, Wrong::new(message, "leave it out"));
        }
        peers.push(peer);
    }
    (peers.len() == items.len()).then_some(peers)
}

/// The health check at `node`; none: it is off, or wrong.
fn health(node: &Node<'_>, report: &Report) -> Option<HealthCheck> {
    match scalar::word(node.value) {
        Some("off") => return None,
        Some("on") => return Some(HealthCheck::default()),
        _ => {}
    }
    if !node.value.is_mapping() {
        let message = format!("{} is no health check", scalar::shown(node.value));
        let wrong = Wrong::new(message, "expected on, off, or e.g. {path: /, every: 5s}");
        report.value(&node.path, wrong);
        return None;
    }
    let section = Section::open(node, &HEALTH_KEYS, report)?;
    let default = HealthCheck::default();
    Some(HealthCheck {
        path: section.read("path", path).unwrap_or(default.path),
        host: section.read("host", host),
        every: section.duration("every", default.every, SHORTEST_ROUND..=HOUR),
        timeout: section.duration("timeout", default.timeout, MILLISECOND..=HOUR),
        unhealthy: section.count("unhealthy", default.unhealthy, 1..=MOST_CHECKS),
        healthy: section.count("healthy", default.healthy, 1..=MOST_CHECKS),
    })
}

/// The target of a check.
fn path(value: &Value) -> Result<String, Wrong> {
    let text = scalar::text(value)?;
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    let message = format!("{} is not a path", quoted(text));
    Err(Wrong::new(message, "expected e.g. /, or /health?full=1"))
}

/// The host that a check asks for.
fn host(value: &Value) -> Result<String, Wrong> {
    let text = scalar::text(value)?;
    if Authority::parse(text.as_bytes()).is_some() {
        return Ok(text.to_owned());
    }
    let message = format!("{} is not a host", quoted(text));
    Err(Wrong::new(message, "expected e.g. example.com"))
}

/// A host and a port, e.g. `10.0.0.5:8080`, `[2001:db8::5]:8080`, `app.internal:8080`.
fn address(text: &str) -> Result<String, Wrong> {
    let expected = "expected a host and a port, e.g. \"10.0.0.5:8080\"";
    if text.contains("://") {
        let message = format!("{} is a URL", quoted(text));
        return Err(Wrong::new(message, expected));
    }
    let wrong = || Wrong::new(format!("{} is not a peer", quoted(text)), expected);
    if let Ok(address) = text.parse::<SocketAddr>() {
        return if address.port() == 0 {
            Err(wrong())
        } else {
            Ok(text.to_owned())
        };
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let named = hosts::is_name(host) && host.parse::<IpAddr>().is_err();
    let port = port.parse::<u16>().is_ok_and(|port| port != 0);
    if named && port {
        Ok(text.to_owned())
    } else {
        Err(wrong())
    }
}

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "peers",
        "balance",
        "health",
        "connect",
        "first_byte",
        "between_bytes",
    ],
    later: &["accel"],
};

/// The keys of `health`.
pub const HEALTH_KEYS: Keys = Keys {
    known: &["path", "host", "every", "timeout", "unhealthy", "healthy"],
    later: &[],
};

const BALANCES: [(&str, Balance); 3] = [
    ("round_robin", Balance::RoundRobin),
    ("hash", Balance::Hash),
    ("random", Balance::Random),
];
const MILLISECOND: Duration = Duration::from_millis(1);
/// More often than this a check is a load.
const SHORTEST_ROUND: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const MOST_CHECKS: usize = 100;
