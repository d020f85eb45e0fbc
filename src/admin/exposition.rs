//! Everything that is counted, as Prometheus reads it.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::edge::compressing;
use crate::fastcgi::limiter::Limiter;
use crate::metrics::BUCKETS;
use crate::origin::Peer;
use crate::page_cache::counters::PageCounters;
use crate::site::compression;
use crate::snapshot::State;

/// Everything that is counted, in the text format of Prometheus (version 0.0.4).
pub fn render(state: &State) -> String {
    let mut text = Text::default();
    text.family("nostat_build_info", "gauge", "The running program.");
    text.sample(
        "nostat_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1,
    );
    requests(&mut text, state);
    durations(&mut text, state);
    connections(&mut text, state);
    limits(&mut text, state);
    tls(&mut text, state);
    compressed(&mut text);
    cache(&mut text, state);
    pages(&mut text, state);
    responders(&mut text, state);
    peers(&mut text, state);
    text.family(
        "nostat_reloads_total",
        "counter",
        "Reloads of the settings, by result.",
    );
    for (result, count) in state.reloads.counted() {
        text.sample("nostat_reloads_total", &[("result", result)], count);
    }
    text.family(
        "nostat_access_log_lost_lines_total",
        "counter",
        "Access log lines lost since the log was opened.",
    );
    let lost = state.snapshot.load().access_log.lost();
    text.sample("nostat_access_log_lost_lines_total", &[], lost);
    text.0
}

fn requests(text: &mut Text, state: &State) {
    text.family(
        "nostat_requests_total",
        "counter",
        "Requests by site, by who answered and by status; status 0: any that is rare.",
    );
    for (site, requests) in state.requests.all() {
        for (kind, status, count) in requests.counted() {
            let status = status.to_string();
            let labels = [
                ("site", site.as_str()),
                ("kind", kind.as_str()),
                ("status", &status),
            ];
            text.sample("nostat_requests_total", &labels, count);
        }
    }
}

fn durations(text: &mut Text, state: &State) {
    const NAME: &str = "nostat_request_duration_seconds";
    text.family(
        NAME,
        "histogram",
        "Time from a request's head to the end of its answer, by who answered; to the timer's tick of some milliseconds.",
    );
    for (kind, histogram) in state.durations.counted() {
        let kind = ("kind", kind.as_str());
        let bounds = BUCKETS
            .iter()
            .map(|bound| seconds(*bound))
            .chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.at_most) {
            text.sample(&format!("{NAME}_bucket"), &[kind, ("le", &bound)], *count);
        }
        text.number(&format!("{NAME}_sum"), &[kind], &seconds(histogram.sum));
        let all = histogram.at_most.last().copied().unwrap_or(0);
        text.sample(&format!("{NAME}_count"), &[kind], all);
    }
}

/// Milliseconds as seconds, exactly.
fn seconds(milliseconds: u64) -> String {
    let text = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn connections(text: &mut Text, state: &State) {
    text.family(
        "nostat_connections",
        "gauge",
        "Open connections of clients.",
    );
    text.sample(
        "nostat_connections",
        &[],
        state.lifecycle.connections() as u64,
    );
    text.family(
        "nostat_connections_limit",
        "gauge",
        "Connections accepted at most.",
    );
    text.sample(
        "nostat_connections_limit",
        &[],
        state.most_connections() as u64,
    );
}

fn limits(text: &mut Text, state: &State) {
    let name = "nostat_limited_total";
    let help = "How often clients have met a limit, by its key in the settings.";
    text.family(name, "counter", help);
    for (limit, count) in state.limited.counted() {
        text.sample(name, &[("limit", limit)], count);
    }
    let limiters = state.rates.all();
    let name = "nostat_rate_limited_total";
    text.family(name, "counter", "Requests answered 429, by rule.");
    for limiter in &limiters {
        let (rule, rate) = (limiter.rule(), limiter.rule().rate.to_string());
        let labels = [("match", rule.matches.as_str()), ("rate", &*rate)];
        text.sample(name, &labels, limiter.refused());
    }
    let name = "nostat_rate_limited_clients";
    text.family(name, "gauge", "Clients that a rule remembers.");
    for limiter in &limiters {
        let (rule, rate) = (limiter.rule(), limiter.rule().rate.to_string());
        let labels = [("match", rule.matches.as_str()), ("rate", &*rate)];
        text.sample(name, &labels, limiter.clients() as u64);
    }
}

fn compressed(text: &mut Text) {
    let name = "nostat_compressed_bytes";
    text.family(name, "gauge", "Bytes of files that were compressed here.");
    text.sample(name, &[], compression::bytes() as u64);
    let (plain, coded) = compressing::bytes();
    let name = "nostat_dynamic_compression_bytes_total";
    let help = "Bytes of answers of PHP and of origins that were compressed, and that came of it.";
    text.family(name, "counter", help);
    text.sample(name, &[("side", "in")], plain);
    text.sample(name, &[("side", "out")], coded);
}

fn tls(text: &mut Text, state: &State) {
    let doors = state.tls.all();
    if doors.is_empty() {
        return;
    }
    let doors: Vec<_> = doors
        .iter()
        .map(|(address, door)| (address.to_string(), door))
        .collect();
    let name = "nostat_tls_handshakes_total";
    text.family(name, "counter", "TLS handshakes by what came of them.");
    for (listen, door) in &doors {
        for (result, count) in door.counters.counted() {
            text.sample(name, &[("listen", listen), ("result", result)], count);
        }
    }
    let name = "nostat_tls_handshakes";
    text.family(name, "gauge", "TLS handshakes under way.");
    for (listen, door) in &doors {
        text.sample(name, &[("listen", listen)], door.in_flight() as u64);
    }
    let name = "nostat_tls_certificate_expires_seconds";
    text.family(
        name,
        "gauge",
        "When a certificate ends, in Unix time, by the first of its names.",
    );
    for (listen, door) in &doors {
        for (names, expires) in door.certificates() {
            let first = names.first().map_or("", String::as_str);
            let expires = u64::try_from(expires).unwrap_or_default();
            text.sample(name, &[("listen", listen), ("name", first)], expires);
        }
    }
    acme(text, state);
}

fn acme(text: &mut Text, state: &State) {
    if state.tls.ordered().is_empty() {
        return;
    }
    let name = "nostat_acme_orders_total";
    text.family(
        name,
        "counter",
        "Certificates ordered, by result; unreachable: the authority, or the account there.",
    );
    for (result, count) in state.renewals.counted() {
        text.sample(name, &[("result", result)], count);
    }
    let name = "nostat_acme_next_attempt_seconds";
    text.family(
        name,
        "gauge",
        "When a certificate is renewed, or tried again, in Unix time.",
    );
    for look in state.renewals.next_looks() {
        let at = u64::try_from(look.at).unwrap_or_default();
        let labels = [("directory", &*look.directory), ("host", &*look.host)];
        text.sample(name, &labels, at);
    }
}

fn cache(text: &mut Text, state: &State) {
    let counted = state.cache.counters().snapshot();
    let events = counted.events;
    text.family(
        "nostat_cache_lookups_total",
        "counter",
        "Lookups in the descriptor cache by outcome.",
    );
    for (outcome, count) in counted.lookups() {
        text.sample("nostat_cache_lookups_total", &[("outcome", outcome)], count);
    }
    text.family(
        "nostat_file_system_calls_total",
        "counter",
        "System calls made on files and directories, by kind.",
    );
    for (call, count) in counted.calls.by_kind() {
        text.sample("nostat_file_system_calls_total", &[("call", call)], count);
    }
    text.family(
        "nostat_file_system_calls_avoided_total",
        "counter",
        "Calls that lookups would have made without the cache: open, fstat and close for what is there, open for what is not.",
    );
    text.sample(
        "nostat_file_system_calls_avoided_total",
        &[],
        counted.avoided(),
    );
    text.family(
        "nostat_cache_events_total",
        "counter",
        "What befell the cache, by kind.",
    );
    for (event, count) in [
        ("eviction", events.evictions),
        ("negative_eviction", events.negative_evictions),
        ("released", events.released),
        ("descriptor_given_up", events.descriptors_given_up),
        ("content_given_up", events.contents_given_up),
        ("link_refused", events.links_refused),
        ("generation", events.generations),
        ("watch_event", events.watch_events),
        ("watch_overflow", events.overflows),
        ("watch_demotion", events.demotions),
        ("watch_fallback", events.watch_fallbacks),
    ] {
        text.sample("nostat_cache_events_total", &[("event", event)], count);
    }
    usage(text, state);
}

fn usage(text: &mut Text, state: &State) {
    let usage = state.cache.usage();
    text.family(
        "nostat_cache_used",
        "gauge",
        "What the cache holds, by budget.",
    );
    for (budget, used) in [
        ("entries", usage.entries as u64),
        ("errors", usage.errors as u64),
        ("descriptors", usage.descriptors),
        ("content_bytes", usage.content),
        ("watches", usage.watches as u64),
    ] {
        text.sample("nostat_cache_used", &[("budget", budget)], used);
    }
    let bounds = state.cache.bounds();
    text.family(
        "nostat_cache_limit",
        "gauge",
        "What the cache may hold, by budget.",
    );
    for (budget, most) in [
        ("entries", bounds.entries as u64),
        ("errors", bounds.errors as u64),
        ("descriptors", bounds.descriptors),
        ("content_bytes", bounds.content),
        ("watches", bounds.watches as u64),
    ] {
        text.sample("nostat_cache_limit", &[("budget", budget)], most);
    }
    text.family(
        "nostat_cache_looks",
        "gauge",
        "Looks at the tree under way.",
    );
    text.sample("nostat_cache_looks", &[], usage.looks as u64);
}

fn pages(text: &mut Text, state: &State) {
    let sites = state.page_counters.all();
    let by_site = |text: &mut Text, name: &str, help, label, counted: CountedPages| {
        text.family(name, "counter", help);
        for (site, counters) in &sites {
            for (value, count) in counted(counters) {
                text.sample(name, &[("site", site), (label, value)], count);
            }
        }
    };
    by_site(
        text,
        "nostat_page_cache_requests_total",
        "Requests of sites with a page cache, by what it had to do.",
        "outcome",
        |counters| counters.outcomes().collect(),
    );
    by_site(
        text,
        "nostat_page_cache_bypass_total",
        "Requests that passed by the page cache, by reason.",
        "reason",
        |counters| counters.bypasses().collect(),
    );
    by_site(
        text,
        "nostat_page_cache_refused_total",
        "Answers that were not kept as pages, by reason.",
        "reason",
        |counters| counters.refusals().collect(),
    );
    by_site(
        text,
        "nostat_page_cache_refreshes_total",
        "Pages fetched anew while the old one was sent, by result.",
        "result",
        |counters| counters.refreshes().to_vec(),
    );
    let held = state.pages.held();
    text.family("nostat_page_cache_pages", "gauge", "Pages kept, by where.");
    text.sample(
        "nostat_page_cache_pages",
        &[("store", "memory")],
        held.pages,
    );
    text.sample(
        "nostat_page_cache_pages",
        &[("store", "disk")],
        held.disk_pages,
    );
    text.family(
        "nostat_page_cache_bytes",
        "gauge",
        "Bytes of pages kept, by where.",
    );
    text.sample(
        "nostat_page_cache_bytes",
        &[("store", "memory")],
        held.bytes,
    );
    text.sample(
        "nostat_page_cache_bytes",
        &[("store", "disk")],
        held.disk_bytes,
    );
    text.family(
        "nostat_page_cache_held_back_bytes",
        "gauge",
        "Bytes of answers held for slow clients while others wait for the page.",
    );
    text.sample(
        "nostat_page_cache_held_back_bytes",
        &[],
        state.held_back.bytes(),
    );
    text.family(
        "nostat_page_cache_bytes_limit",
        "gauge",
        "Bytes that pages in memory may have.",
    );
    text.sample("nostat_page_cache_bytes_limit", &[], held.most_bytes);
    text.family(
        "nostat_page_cache_purged_total",
        "counter",
        "Pages purged from memory.",
    );
    text.sample("nostat_page_cache_purged_total", &[], held.purged);
}

type CountedPages = fn(&PageCounters) -> Vec<(&'static str, u64)>;

fn responders(text: &mut Text, state: &State) {
    let all = state.limiters.all();
    let mut gauge = |name, help, of: fn(&Limiter) -> Option<usize>| {
        text.family(name, "gauge", help);
        for (address, limiter) in &all {
            if let Some(number) = of(limiter) {
                text.sample(name, &[("address", address)], number as u64);
            }
        }
    };
    gauge(
        "nostat_upstream_in_flight",
        "Requests that hold a slot of a responder.",
        |limiter| Some(limiter.in_flight()),
    );
    gauge(
        "nostat_upstream_waiting",
        "Requests that wait for a slot or for room in the backlog.",
        |limiter| Some(limiter.waiting()),
    );
    gauge(
        "nostat_upstream_slots",
        "Slots of a responder; absent: no limit is known.",
        Limiter::limit,
    );
    text.family(
        "nostat_upstream_waits_total",
        "counter",
        "Requests that have waited for a slot of a responder or for room in its backlog.",
    );
    for (address, limiter) in &all {
        let labels = [("address", address.as_str())];
        text.sample("nostat_upstream_waits_total", &labels, limiter.waits());
    }
}

fn peers(text: &mut Text, state: &State) {
    let all: Vec<(String, Arc<Peer>)> = state
        .origins
        .peers
        .all()
        .into_iter()
        .map(|peer| (peer.address().to_string(), peer))
        .collect();
    let mut family = |name, kind, help, of: fn(&Peer) -> u64| {
        text.family(name, kind, help);
        for (address, peer) in &all {
            text.sample(name, &[("address", address)], of(peer));
        }
    };
    family(
        "nostat_upstream_healthy",
        "gauge",
        "Whether a peer of an origin answers, as far as is known.",
        |peer| u64::from(peer.is_healthy()),
    );
    family(
        "nostat_upstream_requests_total",
        "counter",
        "Requests sent to a peer of an origin.",
        Peer::requests,
    );
    family(
        "nostat_upstream_retries_total",
        "counter",
        "Requests sent to another peer after this one had failed.",
        Peer::retries,
    );
    text.family(
        "nostat_upstream_errors_total",
        "counter",
        "Requests that failed at a responder or at a peer of an origin, by kind.",
    );
    for (address, limiter) in state.limiters.all() {
        for (kind, count) in limiter.errors() {
            let labels = [("address", address.as_str()), ("kind", kind)];
            text.sample("nostat_upstream_errors_total", &labels, count);
        }
    }
    for (address, peer) in &all {
        for (kind, count) in peer.errors() {
            let labels = [("address", address.as_str()), ("kind", kind)];
            text.sample("nostat_upstream_errors_total", &labels, count);
        }
    }
}

#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.number(name, labels, &value.to_string());
    }

    fn number(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let start = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{start}{label}=\"");
            for character in text.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (milliseconds, text) in [
            (0, "0"),
            (5, "0.005"),
            (250, "0.25"),
            (1000, "1"),
            (60_000, "60"),
            (12_345, "12.345"),
        ] {
            assert_eq!(seconds(milliseconds), text);
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.sample("a", &[("b", "x\"y\\z\nw"), ("c", "")], 7);
        text.sample("d", &[], 1);
        assert_eq!(text.0, "a{b=\"x\\\"y\\\\z\\nw\",c=\"\"} 7\nd 1\n");
    }
}
