//! `listen`: the addresses connections are accepted on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_yaml::Value;

use crate::edge::listener::Http2;
use crate::tls;

use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section};

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The IP address and port. Port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Whether each connection begins with a header of the PROXY protocol, version 1 or 2. Default: no.
    pub proxy_protocol: bool,
    /// TLS ends here. Default: no.
    pub tls: Option<tls::Settings>,
    /// Whether HTTP/2 is spoken. Default: with TLS.
    pub http2: Http2,
    /// Requests that did not come by https are sent there. Default: no.
    pub redirects: bool,
}

impl Listen {
    /// Plain HTTP on this address.
    pub fn on(address: SocketAddr) -> Listen {
        Listen {
            address,
            proxy_protocol: false,
            tls: None,
            http2: Http2::On,
            redirects: false,
        }
    }
}

/// The addresses of `listen`: one, or a list; each a text or a mapping with `address`. With each the path of its place.
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Vec<(Listen, String)> {
    let Some(node) = top.node("listen") else {
        return vec![(Listen::on(DEFAULT), "listen".to_owned())];
    };
    let nodes = match node.value {
        Value::Sequence(items) if items.is_empty() => {
            let message = "the list is empty";
            report.value(
                &node.path,
                Wrong::new(message, "expected e.g. [\"0.0.0.0:80\"]"),
            );
            return Vec::new();
        }
        Value::Sequence(items) => super::section::list_items(items, &node.path),
        _ => vec![node],
    };
    let mut listen: Vec<(Listen, String)> = Vec::new();
    for node in &nodes {
        let Some((found, path)) = read_one(node, report, checks) else {
            continue;
        };
        let address = found.address;
        let kernel_chooses = address.port() == 0;
        if !kernel_chooses && listen.iter().any(|(other, _)| other.address == address) {
            let message = format!("{address} is listed twice");
            report.value(&path, Wrong::new(message, "expected each address once"));
            continue;
        }
        listen.push((found, node.path.clone()));
    }
    listen
}

/// An address to listen on as a user writes it, e.g. `0.0.0.0:80` or `[::]:80`.
pub fn address(text: &str) -> Result<SocketAddr, Wrong> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text
        .strip_prefix("*:")
        .or_else(|| text.strip_prefix(':'))
        .unwrap_or(text);
    let expected = if port.parse::<u16>().is_ok() {
        format!("expected \"0.0.0.0:{port}\", or \"[::]:{port}\" for IPv6")
    } else if let Some(port) = text.strip_prefix("localhost:") {
        format!("expected \"127.0.0.1:{port}\"")
    } else {
        "expected an IP address and a port, e.g. \"0.0.0.0:80\", \"[::]:80\"".to_owned()
    };
    Err(Wrong::new(
        format!("{} is not an address to listen on", quoted(text)),
        expected,
    ))
}

fn read_one(node: &Node<'_>, report: &Report, checks: Checks) -> Option<(Listen, String)> {
    let is_mapping = node.value.is_mapping();
    let section = match is_mapping {
        true => Some(Section::open(node, &KEYS, report)?),
        false => None,
    };
    let node = match &section {
        Some(section) => section.required("address", "expected e.g. address: \"0.0.0.0:80\"")?,
        None => node.clone(),
    };
    let address = match node.value {
        Value::Number(port) => address(&port.to_string()),
        value => scalar::text(value).and_then(address),
    };
    let mut listen = Listen::on(report.accept(&node.path, address)?);
    if let Some(section) = section {
        listen.proxy_protocol =
            section.choice("proxy_protocol", false, &[("on", true), ("off", false)]);
        listen.redirects = section.choice("redirect", false, &[("https", true), ("off", false)]);
        listen.tls = super::tls::read(&section, report, checks);
        listen.http2 = section.choice("http2", Http2::On, HTTP2);
        if listen.http2 == Http2::Only && listen.tls.is_some() {
            let message = "only is for clients without TLS that know of it beforehand";
            let wrong = Wrong::new(message, "expected http2: on: a client with TLS chooses");
            report.value(&section.path("http2"), wrong);
        }
        if listen.redirects && listen.tls.is_some() {
            let message = "what comes in here is https already";
            let wrong = Wrong::new(message, "expected redirect beside an address without tls");
            report.value(&section.path("redirect"), wrong);
        }
    }
    Some((listen, node.path))
}

const HTTP2: &[(&str, Http2)] = &[
    ("on", Http2::On),
    ("off", Http2::Off),
    ("only", Http2::Only),
];

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["address", "proxy_protocol", "tls", "http2", "redirect"],
    later: &[],
};

const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);
