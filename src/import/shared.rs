//! What all sites share: user, workers, the file cache, limits, trusted proxies, the log.
//!
//! nginx has most of it for each server; Nostat once. The first value stays, another one is told.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::rate_limits::Rule;

use super::around::{Around, Zones, zone_of};
use super::auth;
use super::location::{Location, told};
use super::nginx::directives::Directive;
use super::note::Notes;
use super::values::{self, DAY, HOUR, SECOND, TENTH};
use super::yaml::{Entry, Value};

/// Keys of the file's top.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    user: Option<String>,
    group: Option<String>,
    workers: Option<String>,
    cache: Vec<(&'static str, String)>,
    limits: Vec<(&'static str, String)>,
    spool_total: Option<u64>,
    trusted: Vec<String>,
    log: Option<Log>,
    /// Rates by pattern, with the directive that says them.
    rates: Vec<(String, String, u64)>,
    /// What is said of them.
    pub notes: Notes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Log {
    Off,
    File(String),
}

impl Shared {
    /// Takes a directive; false: it is not shared.
    pub fn take(&mut self, directive: &Directive) -> bool {
        let first = directive.arg(0);
        match directive.name.as_str() {
            "user" => {
                self.user = Some(first.to_owned()).filter(|user| !user.is_empty());
                self.group = directive
                    .args
                    .get(1)
                    .cloned()
                    .filter(|group| !group.is_empty());
            }
            "worker_processes" => {
                let count = first
                    .parse::<u32>()
                    .ok()
                    .filter(|count| (1..=1024).contains(count));
                self.workers = count.map(|count| count.to_string());
            }
            "open_file_cache" => self.open_file_cache(directive),
            "open_file_cache_valid" => self.cache(
                directive,
                "valid",
                values::duration_within(first, std::time::Duration::ZERO..=DAY),
            ),
            "open_file_cache_min_uses" => {
                self.cache(directive, "min_uses", number(first, 1, 1_000_000))
            }
            "open_file_cache_errors" => {
                let word = matches!(first, "on" | "off").then(|| first.to_owned());
                self.cache(directive, "errors", word);
            }
            "client_header_timeout" => self.limit(
                directive,
                "request_head",
                values::duration_within(first, TENTH..=HOUR),
            ),
            "client_body_timeout" => self.limit(
                directive,
                "body",
                values::duration_within(first, TENTH..=HOUR),
            ),
            "send_timeout" => self.limit(
                directive,
                "send",
                values::duration_within(first, TENTH..=HOUR),
            ),
            "keepalive_timeout" => self.limit(
                directive,
                "keep_alive",
                values::duration_within(first, TENTH..=HOUR),
            ),
            "keepalive_requests" => self.limit(
                directive,
                "requests_per_connection",
                number(first, 1, 1_000_000_000_000),
            ),
            "large_client_header_buffers" => self.header_buffers(directive),
            "set_real_ip_from" => self.trust(directive),
            "access_log" => self.log(directive),
            _ => return false,
        }
        true
    }

    /// Takes a `limit_conn` that stands outside of all locations; false: its zone counts something else.
    pub fn connections(&mut self, directive: &Directive, zones: &Zones) -> bool {
        if !zones.counts_connections(directive.arg(0)) {
            return false;
        }
        let most = number(directive.arg(1), 1, MOST_CONNECTIONS);
        if most.is_some() {
            let said = "connections count here, idle ones too, not requests under way, and at all sites together";
            self.notes.note(directive, "limits", said);
        }
        self.limit(directive, "connections_per_address", most);
        true
    }

    /// Takes a `limit_req` of a location.
    pub fn rate(
        &mut self,
        directive: &Directive,
        location: &Location<'_>,
        around: &Around<'_>,
        notes: &mut Notes,
    ) {
        let rate = zone_of(directive).and_then(|zone| around.zones.rate(zone));
        let burst = directive
            .args
            .iter()
            .find_map(|word| word.strip_prefix("burst="));
        let burst = burst.map_or(Some(0), |burst| burst.parse::<u64>().ok());
        let patterns = auth::covering(location.directive, location.patterns.as_ref());
        // All of a site would be all of every site.
        let pattern = match patterns.as_deref() {
            Some([one]) if one != "/" => Some(one.clone()),
            _ => None,
        };
        let (Some(rate), Some(burst), Some(pattern)) = (rate, burst, pattern) else {
            return told(directive, "", notes);
        };
        let burst = burst.saturating_add(1).min(1_000_000);
        let row = (pattern, rate.to_owned(), burst);
        if !self.rates.contains(&row) {
            self.rates.push(row);
        }
        let said = "at all sites with such a path; what is beyond is 429, and nothing is delayed";
        self.notes.note(directive, "rate_limits", said);
    }

    fn rate_limits(&self) -> Option<Entry> {
        let row = |(pattern, rate, burst): &(String, String, u64)| {
            vec![
                ("match".to_owned(), Value::Text(pattern.clone())),
                ("rate".to_owned(), Value::Word(rate.clone())),
                ("burst".to_owned(), Value::Word(burst.to_string())),
            ]
        };
        let mut rows: Vec<(String, String, u64)> = Vec::new();
        // A list takes the place of the default one.
        let defaults = Rule::defaults().into_iter().map(|rule| {
            let burst = u64::from(rule.burst.get());
            (
                rule.matches.as_str().to_owned(),
                rule.rate.to_string(),
                burst,
            )
        });
        for one in self.rates.iter().cloned().chain(defaults) {
            let is_same = |other: &(String, String, u64)| (&other.0, &other.1) == (&one.0, &one.1);
            match rows.iter_mut().find(|other| is_same(other)) {
                Some(other) => other.2 = other.2.min(one.2),
                None => rows.push(one),
            }
        }
        let rows = rows.iter().map(row).collect();
        (!self.rates.is_empty()).then(|| Entry::new("rate_limits", Value::Flows(rows)))
    }

    /// Takes the bound on bodies that stands outside of all servers.
    pub fn max_body(&mut self, directive: &Directive) {
        let found = self.body_size(directive);
        self.limit(directive, "max_body", found);
    }

    /// A bound on bodies, for which the spool has room.
    pub fn body_size(&mut self, directive: &Directive) -> Option<String> {
        let mut size = values::size(directive.arg(0))?.min(MAX_BODY);
        if size == 0 {
            size = SPOOL;
            let said = "0 is no limit in nginx; bodies are spooled here and have one: 2GiB, which is spool: {total}";
            self.notes.note(directive, "limits", said);
        }
        if size > self.spool_total.unwrap_or(SPOOL) {
            self.spool_total = Some(size);
        }
        Some(values::size_within(size, 0..=MAX_BODY))
    }

    /// The keys, but for the sites; `tls_in_front`: a server on this machine has to be believed.
    #[must_use]
    pub fn entries(&self, listen: Value, tls_in_front: bool) -> Vec<Entry> {
        let word = |key, value: &Option<String>| {
            value
                .clone()
                .map(|value| Entry::new(key, Value::Text(value)))
        };
        let words = |key, list: &[(&'static str, String)]| {
            let entries = list
                .iter()
                .map(|(key, value)| Entry::new(key, Value::Word(value.clone())));
            let entries: Vec<_> = entries.collect();
            (!entries.is_empty()).then(|| Entry::new(key, Value::Section(entries)))
        };
        let mut trusted = self.trusted.clone();
        if tls_in_front && !trusted.is_empty() {
            trusted.extend(["127.0.0.1/32".to_owned(), "::1/128".to_owned()]);
            let mut seen = std::collections::BTreeSet::new();
            trusted.retain(|network| seen.insert(network.clone()));
        }
        let log = self.log.as_ref().map(|log| {
            let value = match log {
                Log::Off => Value::Word("off".to_owned()),
                Log::File(path) => Value::Flow(vec![
                    ("path".to_owned(), Value::Text(path.clone())),
                    ("format".to_owned(), Value::Word("combined".to_owned())),
                ]),
            };
            Entry::new("access_log", value)
        });
        let spool = self.spool_total.map(|total| {
            let total = Value::Word(crate::settings::scalar::format_size(total));
            Entry::new("spool", Value::Flow(vec![("total".to_owned(), total)]))
        });
        let workers = self.workers.clone();
        [
            Some(Entry::new("listen", listen)),
            workers.map(|workers| Entry::new("workers", Value::Word(workers))),
            word("user", &self.user),
            word("group", &self.group),
            words("open_file_cache", &self.cache),
            log,
            words("limits", &self.limits),
            self.rate_limits(),
            (!trusted.is_empty()).then(|| Entry::new("trusted_proxies", Value::Texts(trusted))),
            spool,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn open_file_cache(&mut self, directive: &Directive) {
        for word in &directive.args {
            match word.split_once('=') {
                Some(("max", value)) => self.cache(directive, "max", number(value, 1, 100_000_000)),
                Some(("inactive", value)) => self.cache(directive, "inactive", values::duration_within(value, SECOND..=DAY)),
                _ => self.notes.note(directive, "open_file_cache", "the file cache is always on: a change is seen by the next request, as the kernel tells it"),
            }
        }
    }

    /// One buffer bounds the URL, all of them the head.
    fn header_buffers(&mut self, directive: &Directive) {
        let each = values::size(directive.arg(1)).map(|each| each.clamp(1 << 10, 1 << 20));
        let number = directive.arg(0).parse::<u64>().ok();
        let Some((number, each)) = number.zip(each) else {
            return self.notes.left_out(directive, "limits", "not understood");
        };
        let whole = each.saturating_mul(number.max(1));
        self.limit(
            directive,
            "head_size",
            Some(values::size_within(whole, 1 << 10..=1 << 20)),
        );
        self.limit(
            directive,
            "url",
            Some(values::size_within(each, 256..=1 << 20)),
        );
    }

    fn trust(&mut self, directive: &Directive) {
        let text = directive.arg(0);
        // nginx masks what is beyond the prefix.
        let network = text.parse::<IpNet>().map(|network| network.trunc());
        let network = network.or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        match network {
            Ok(network) if self.trusted.contains(&network.to_string()) => {}
            Ok(network) => self.trusted.push(network.to_string()),
            Err(_) => self.notes.left_out(
                directive,
                "trusted_proxies",
                "only networks and addresses are trusted",
            ),
        }
    }

    fn log(&mut self, directive: &Directive) {
        let path = directive.arg(0);
        let log = match path {
            "off" => Log::Off,
            _ if path.starts_with('/') && !path.ends_with('/') && !path.contains('$') => {
                Log::File(path.to_owned())
            }
            _ => {
                let said = "the log is a file with an absolute path, or \"-\" for standard output";
                return self.notes.left_out(directive, "access_log", said);
            }
        };
        if directive
            .args
            .get(1)
            .is_some_and(|format| !format.contains('=') && format != "combined")
        {
            let said = "combined is written instead, with the cache's word and times behind it; format: json has more";
            self.notes.note(directive, "access_log", said);
        }
        match &self.log {
            None => self.log = Some(log),
            Some(first) if *first == log => {}
            Some(_) => self.notes.note(
                directive,
                "access_log",
                "there is one log for all sites; format: json names the host",
            ),
        }
    }

    fn cache(&mut self, directive: &Directive, key: &'static str, value: Option<String>) {
        set(
            &mut self.cache,
            &mut self.notes,
            directive,
            ("open_file_cache", key),
            value,
        );
    }

    fn limit(&mut self, directive: &Directive, key: &'static str, value: Option<String>) {
        set(
            &mut self.limits,
            &mut self.notes,
            directive,
            ("limits", key),
            value,
        );
    }
}

fn set(
    list: &mut Vec<(&'static str, String)>,
    notes: &mut Notes,
    directive: &Directive,
    (section, key): (&'static str, &'static str),
    value: Option<String>,
) {
    let found = list.iter().find(|(other, _)| *other == key);
    match (value, found) {
        (None, _) => notes.left_out(
            directive,
            section,
            format!("not understood: see {section}.{key}"),
        ),
        (Some(value), None) => list.push((key, value)),
        (Some(value), Some((_, first))) if value == *first => {}
        (Some(_), Some((_, first))) => {
            notes.left_out(
                directive,
                section,
                format!("one value for all sites: {key}: {first} was kept"),
            );
        }
    }
}

fn number(text: &str, least: u64, most: u64) -> Option<String> {
    let number = text.parse::<u64>().ok()?;
    Some(number.clamp(least, most).to_string())
}

const SPOOL: u64 = 2 << 30;
const MAX_BODY: u64 = 1 << 40;
const MOST_CONNECTIONS: u64 = 1_000_000;
