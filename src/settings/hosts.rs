//! `sites[].hosts` and `aliases`: the names a site answers to, and that each belongs to one site.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::section::{Node, Section};

/// The names of all sites read so far.
#[derive(Debug, Default)]
pub struct Taken {
    /// The path of the name's first place.
    names: HashMap<String, String>,
    /// The path of the site without hosts.
    any: Option<String>,
}

impl Taken {
    /// The names under `key`, lower case; those of another site are mistakes.
    pub fn read(&mut self, site: &Section<'_, '_>, key: &str, report: &Report) -> Vec<String> {
        let Some(items) = site.items(key) else {
            return Vec::new();
        };
        if items.is_empty() {
            let wrong = Wrong::new("the list is empty", "leave it out, or name a host");
            report.value(&site.path(key), wrong);
        }
        items
            .iter()
            .filter_map(|node| self.read_one(node, report))
            .collect()
    }

    /// The site at `path` has no hosts: it takes every request no other site takes.
    pub fn any_host(&mut self, path: &str, report: &Report) {
        if let Some(first) = &self.any {
            let message = format!("a second site without hosts, after {first}");
            report.value(
                path,
                Wrong::new(message, "expected hosts in all sites but one"),
            );
        } else {
            self.any = Some(path.to_owned());
        }
    }

    fn read_one(&mut self, node: &Node<'_>, report: &Report) -> Option<String> {
        let name = report.accept(&node.path, super::scalar::text(node.value).and_then(host))?;
        if let Some(first) = self.names.get(&name) {
            let message = format!("{} is already at {first}", quoted(&name));
            report.value(&node.path, Wrong::new(message, "expected each host once"));
            return None;
        }
        self.names.insert(name.clone(), node.path.clone());
        Some(name)
    }
}

/// A host as a request names it, without its port: a name, `*.` and a name, or an IP address.
fn host(text: &str) -> Result<String, Wrong> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if matches!(name, "*" | "_" | "default") {
        let message = format!("{} is no host", quoted(text));
        return Err(Wrong::new(
            message,
            "leave hosts out for a site that answers to any",
        ));
    }
    if name.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{name}]"));
    }
    let bracketed = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if bracketed.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()) {
        return Ok(name.to_owned());
    }
    if is_name(name.strip_prefix("*.").unwrap_or(name)) {
        return Ok(name.to_owned());
    }
    let expected = if text.contains("://") || text.contains('/') {
        "expected the host alone, e.g. example.com"
    } else if !text.is_ascii() {
        "expected the name as it is sent, in punycode, e.g. xn--mller-kva.example"
    } else if text.contains(':') {
        "expected the host without its port"
    } else if text.contains('*') {
        "expected * only as the first label, e.g. *.example.com"
    } else {
        "expected a host, e.g. example.com, *.example.com"
    };
    Err(Wrong::new(
        format!("{} is not a host", quoted(text)),
        expected,
    ))
}

/// Whether this is a DNS name or an IPv4 address. Underscores are let through: machines in a private
/// network have them.
pub fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let numeric = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.len() <= 253 && text.split('.').all(label) && (!numeric || text.parse::<IpAddr>().is_ok())
}
