//! What the status page shows, as JSON: the numbers of [`exposition`](super::exposition) at one moment, and what only
//! this moment knows: the hottest and the slowest paths, and what to do.

use percent_encoding::percent_decode;
use serde_json::{Map, Value, json};

use super::warnings;
use crate::descriptor_cache::DescriptorCache;
use crate::hot_paths::Ranking;
use crate::metrics::{BUCKETS, Kind};
use crate::page_cache::StoreKind;
use crate::site::settings::PageCache;
use crate::site::{Backend, Preset, SiteSettings};
use crate::snapshot::{Snapshot, State};

/// All of it.
pub fn overview(state: &State) -> Value {
    let snapshot = state.snapshot.load();
    let now = state.clock.now();
    let is_stopping = state.lifecycle.draining();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "process": std::process::id(),
        "now": state.clock.unix().seconds,
        "uptime": now.since(state.started).as_secs_f64(),
        "state": if is_stopping { "stopping" } else { "serving" },
        "sites": sites(state, &snapshot),
        "requests": requests(state),
        "durations": durations(state),
        "cache": cache(&state.cache),
        "budgets": budgets(state),
        "pages": pages(state),
        "connections": {"open": state.lifecycle.connections(), "limit": state.most_connections()},
        "responders": responders(state),
        "reloads": reloads(state),
        "access_log": {"lost": snapshot.access_log.lost()},
        "hottest": {
            "here": ranked(&state.hot_paths.hottest_here(now, MOST_RANKED)),
            "behind": ranked(&state.hot_paths.hottest_behind(now, MOST_RANKED)),
        },
        "slowest": slowest(state),
        "warnings": warnings::of(state, &snapshot).iter().map(warnings::Warning::told).collect::<Vec<_>>(),
    })
}

fn sites(state: &State, snapshot: &Snapshot) -> Vec<Value> {
    let site = |site: &SiteSettings| {
        let name = site.name();
        let mut requests = Map::new();
        for (kind, _, count) in state.requests.of(&name).counted() {
            let so_far = requests.get(kind.as_str()).and_then(Value::as_u64);
            requests.insert(kind.as_str().into(), (so_far.unwrap_or(0) + count).into());
        }
        json!({
            "name": name,
            "preset": match site.preset {
                Preset::Wordpress => "wordpress",
                Preset::Php => "php",
                Preset::Static => "static",
            },
            "behind": match &site.backend {
                Backend::None => Value::Null,
                Backend::Php(php) => php.address.to_string().into(),
                Backend::Origin(origin) => origin.pool.peers.join(", ").into(),
            },
            "page_cache": match &site.page_cache {
                PageCache::Off => "off",
                PageCache::Auto => "auto",
                PageCache::Own(rules) => match rules.store {
                    StoreKind::Memory => "memory",
                    StoreKind::Disk => "disk",
                },
            },
            "requests": requests,
        })
    };
    let all = snapshot.sites.all().iter();
    all.map(|made| site(made.settings())).collect()
}

/// Of all sites, by kind and status.
fn requests(state: &State) -> Vec<Value> {
    let mut sums: Vec<(Kind, u16, u64)> = Vec::new();
    for (_, requests) in state.requests.all() {
        for (kind, status, count) in requests.counted() {
            match sums
                .iter_mut()
                .find(|(known, of, _)| (*known, *of) == (kind, status))
            {
                Some((_, _, sum)) => *sum += count,
                None => sums.push((kind, status, count)),
            }
        }
    }
    let sums = sums.into_iter();
    sums.map(
        |(kind, status, count)| json!({"kind": kind.as_str(), "status": status, "count": count}),
    )
    .collect()
}

fn durations(state: &State) -> Value {
    let kinds: Map<String, Value> = state
        .durations
        .counted()
        .map(|(kind, histogram)| {
            let told = json!({"at_most": histogram.at_most, "sum": histogram.sum});
            (kind.as_str().to_owned(), told)
        })
        .collect();
    json!({"milliseconds": BUCKETS, "kinds": kinds})
}

fn cache(cache: &DescriptorCache) -> Value {
    let counted = cache.counters().snapshot();
    let events = counted.events;
    json!({
        "lookups": by_name(counted.lookups()),
        "calls": by_name(counted.calls.by_kind()),
        "avoided": counted.avoided(),
        "evictions": events.evictions,
        "released": events.released,
        "watch_events": events.watch_events,
        "looks": cache.usage().looks,
    })
}

/// What is held, and what may be.
fn budgets(state: &State) -> Vec<Value> {
    let (usage, bounds) = (state.cache.usage(), state.cache.bounds());
    let held = state.pages.held();
    [
        ("entries", usage.entries as u64, bounds.entries as u64),
        ("errors", usage.errors as u64, bounds.errors as u64),
        ("descriptors", usage.descriptors, bounds.descriptors),
        ("content_bytes", usage.content, bounds.content),
        ("watches", usage.watches as u64, bounds.watches as u64),
        ("page_bytes", held.bytes, held.most_bytes),
        (
            "connections",
            state.lifecycle.connections() as u64,
            state.most_connections() as u64,
        ),
    ]
    .into_iter()
    .map(|(name, used, limit)| json!({"name": name, "used": used, "limit": limit}))
    .collect()
}

fn pages(state: &State) -> Value {
    let held = state.pages.held();
    let (mut outcomes, mut bypasses, mut refusals) = (Map::new(), Map::new(), Map::new());
    for (_, counters) in state.page_counters.all() {
        add(&mut outcomes, counters.outcomes());
        add(&mut bypasses, counters.bypasses());
        add(&mut refusals, counters.refusals());
    }
    json!({
        "outcomes": outcomes,
        "bypasses": bypasses,
        "refusals": refusals,
        "pages": held.pages,
        "disk_pages": held.disk_pages,
        "disk_bytes": held.disk_bytes,
        "purged": held.purged,
    })
}

fn responders(state: &State) -> Vec<Value> {
    let all = state.limiters.all().into_iter();
    all.map(|(address, limiter)| {
        json!({
            "address": address,
            "in_flight": limiter.in_flight(),
            "waiting": limiter.waiting(),
            "slots": limiter.limit(),
        })
    })
    .collect()
}

fn reloads(state: &State) -> Value {
    let last = state.reloads.last();
    let [(_, done), (_, refused)] = state.reloads.counted();
    json!({
        "done": done,
        "refused": refused,
        "last": last.map(|last| json!({"when": last.when.seconds, "refused": last.refused})),
    })
}

fn ranked(ranking: &Ranking) -> Vec<Value> {
    let share = |weight: u64| match ranking.total {
        0 => 0.0,
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share that is shown with one digit"
        )]
        total => weight as f64 / total as f64,
    };
    let lines = ranking.lines.iter();
    lines
        .map(|line| {
            json!({
                "host": shown(&line.host),
                "path": shown(&line.path),
                "share": share(line.weight),
                "kind": line.kind.as_str(),
                "status": line.status,
            })
        })
        .collect()
}

fn slowest(state: &State) -> Vec<Value> {
    let now = state.clock.now();
    let slowest = state.hot_paths.slowest(now);
    slowest
        .iter()
        .map(|path| {
            json!({
                "host": shown(&path.host),
                "path": shown(&path.path),
                "kind": path.kind.as_str(),
                "status": path.status,
                "milliseconds": u64::try_from(path.took.as_millis()).unwrap_or(u64::MAX),
                "times": path.times,
                "ago": now.since(path.when).as_secs(),
            })
        })
        .collect()
}

/// As people read it: escapes are decoded. What it is made of is anybody's choice.
fn shown(text: &[u8]) -> String {
    percent_decode(text).decode_utf8_lossy().into_owned()
}

fn by_name<const COUNT: usize>(counts: [(&'static str, u64); COUNT]) -> Map<String, Value> {
    let counts = counts.into_iter();
    counts
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect()
}

fn add(sums: &mut Map<String, Value>, counts: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in counts {
        let so_far = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
        sums.insert(name.to_owned(), (so_far + count).into());
    }
}

const MOST_RANKED: usize = 15;
