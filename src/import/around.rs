//! What a server block has to know of the whole configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::settings::machine::resolved;

use super::backend::Upstreams;
use super::nginx::directives::Directive;

/// What is known of the whole.
#[derive(Clone, Debug, Default)]
pub struct Around<'t> {
    /// The `upstream` blocks.
    pub upstreams: Upstreams<'t>,
    /// All `root`s, wherever they stand.
    pub roots: BTreeSet<String>,
    /// All `server_name`s in lower case.
    pub names: BTreeSet<String>,
    /// The zones of `limit_req` and `limit_conn`.
    pub zones: Zones,
    /// `allow`, `deny` and their like outside of all blocks of servers.
    pub access: Vec<&'t Directive>,
    /// The seconds of `hsts`, where all blocks with TLS that serve say the same.
    pub hsts: Option<u64>,
}

/// Zones of limits, by name.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    /// The rate for each client's address, as a settings file has it.
    rates: BTreeMap<String, String>,
    /// Those of connections, for each client's address.
    connections: BTreeSet<String>,
    /// Where each zone of requests is used: the words of the locations; empty words: outside of them.
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl<'t> Around<'t> {
    /// Looks through all directives.
    #[must_use]
    pub fn of(tree: &'t [Directive]) -> Around<'t> {
        let mut around = Around::default();
        around.walk(tree, "");
        around
    }

    fn walk(&mut self, tree: &'t [Directive], location: &str) {
        for directive in tree {
            match directive.name.as_str() {
                "root" | "alias" => {
                    self.roots
                        .insert(directive.arg(0).trim_end_matches('/').to_owned());
                }
                "server_name" => {
                    let names = directive.args.iter().map(|name| name.to_ascii_lowercase());
                    self.names
                        .extend(names.map(|name| name.trim_start_matches('.').to_owned()));
                }
                "upstream" => self.upstreams.0.push(directive),
                "limit_req_zone" | "limit_conn_zone" => self.zones.define(directive),
                "limit_req" => {
                    if let Some(zone) = zone_of(directive) {
                        let uses = self.zones.uses.entry(zone.to_owned()).or_default();
                        uses.insert(location.to_owned());
                    }
                }
                _ => {}
            }
            let within = match directive.name.as_str() {
                "location" => directive.args.join(" "),
                _ => location.to_owned(),
            };
            self.walk(directive.children(), &within);
        }
    }

    /// Whether a file lies below a root, where it might be sent.
    #[must_use]
    pub fn is_below_a_root(&self, file: &str) -> bool {
        let file = Path::new(file);
        self.roots
            .iter()
            .map(String::as_str)
            .chain([super::server::ANY_ROOT])
            .filter(|root| root.starts_with('/'))
            .any(|root| {
                file.starts_with(root) || resolved(file).starts_with(resolved(Path::new(root)))
            })
    }
}

impl Zones {
    /// The rate of a zone that is used in one location only, however many sites have that.
    #[must_use]
    pub fn rate(&self, zone: &str) -> Option<&str> {
        let uses = self.uses.get(zone)?;
        let is_one = uses.len() == 1 && !uses.contains("");
        self.rates.get(zone).map(String::as_str).filter(|_| is_one)
    }

    /// Whether a zone counts the connections of each address.
    #[must_use]
    pub fn counts_connections(&self, zone: &str) -> bool {
        self.connections.contains(zone)
    }

    fn define(&mut self, directive: &Directive) {
        let by_address = matches!(directive.arg(0), "$binary_remote_addr" | "$remote_addr");
        let value = |key: &str| {
            let words = directive.args.iter();
            words
                .filter_map(|word| word.split_once('='))
                .find(|(name, _)| *name == key)
        };
        let Some((_, zone)) = value("zone").filter(|_| by_address) else {
            return;
        };
        let name = zone.split(':').next().unwrap_or_default().to_owned();
        if directive.name == "limit_conn_zone" {
            self.connections.insert(name);
            return;
        }
        let rate = value("rate").and_then(|(_, rate)| {
            let (count, unit) = match rate.strip_suffix("r/s") {
                Some(count) => (count, "s"),
                None => (rate.strip_suffix("r/m")?, "min"),
            };
            let count: u32 = count
                .parse()
                .ok()
                .filter(|count| (1..=1_000_000).contains(count))?;
            Some(format!("{count}/{unit}"))
        });
        if let Some(rate) = rate {
            self.rates.insert(name, rate);
        }
    }
}

/// The zone that a `limit_req` names.
#[must_use]
pub fn zone_of(directive: &Directive) -> Option<&str> {
    directive
        .args
        .iter()
        .find_map(|word| word.strip_prefix("zone="))
}
