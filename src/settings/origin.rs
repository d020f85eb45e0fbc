//! `sites[].origin`: the HTTP origin server of a site.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_yaml::Value;

use crate::origin::Settings;

use super::hosts;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section, list_items};

/// The origin at `node`: a peer, a list of one peer, or a mapping with `peers`.
pub fn read(node: &Node<'_>, report: &Report) -> Option<Settings> {
    if !node.value.is_mapping() {
        return peer(node, report).map(Settings::new);
    }
    let section = Section::open(node, &KEYS, report)?;
    let peer = section
        .required("peers", "expected e.g. peers: [\"10.0.0.5:8080\"]")
        .and_then(|node| peer(&node, report));
    // The other keys are checked even where the peer is wrong.
    let found = peer.is_some();
    let default = Settings::new(peer.unwrap_or_default());
    let settings = Settings {
        connect: section.duration("connect", default.connect, MILLISECOND..=HOUR),
        first_byte: section.duration("first_byte", default.first_byte, MILLISECOND..=DAY),
        between_bytes: section.duration("between_bytes", default.between_bytes, MILLISECOND..=DAY),
        peer: default.peer,
    };
    found.then_some(settings)
}

/// The one peer of a text or a list.
fn peer(node: &Node<'_>, report: &Report) -> Option<String> {
    let items = match node.value {
        Value::Sequence(items) => list_items(items, &node.path),
        _ => vec![node.clone()],
    };
    let mut peers = items.iter();
    let Some(first) = peers.next() else {
        let wrong = Wrong::new("the list is empty", "expected e.g. [\"10.0.0.5:8080\"]");
        report.value(&node.path, wrong);
        return None;
    };
    if let Some(second) = peers.next() {
        let message = "a second peer is not supported by this version";
        report.value(&second.path, Wrong::new(message, "expected one peer"));
    }
    let address = scalar::text(first.value).and_then(address);
    report.accept(&first.path, address)
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
    known: &["peers", "connect", "first_byte", "between_bytes"],
    later: &["health", "accel"],
};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
