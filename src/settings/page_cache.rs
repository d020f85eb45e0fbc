//! `page_cache` of a site, and `page_store`, which all of them share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde_yaml::Value;

use crate::page_cache::settings::NamePattern;
use crate::page_cache::{Rules, StoreKind, StoreSettings};
use crate::site::settings::{PageCache, Preset};

use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::rules;
use super::scalar;
use super::section::{Keys, Node, Section};
use super::trusted_proxies;

/// Where a site's pages come from that are not made for one visitor alone.
pub fn read(site: &Section<'_, '_>, preset: Preset, report: &Report, checks: Checks) -> PageCache {
    let Some(node) = site.node("page_cache") else {
        return PageCache::Off;
    };
    let chosen = match node.value {
        Value::Mapping(_) => Section::open(&node, &KEYS, report)
            .and_then(|section| own(&section, report, checks))
            .map(|rules| PageCache::Own(Box::new(rules))),
        value => report
            .accept(&node.path, scalar::choice(value, CHOICES))
            .map(short),
    };
    let chosen = chosen.unwrap_or(PageCache::Off);
    let wrong = match (&chosen, preset) {
        (PageCache::Auto, Preset::Php | Preset::Static) => {
            Some("only the preset wordpress has pages of cache plugins")
        }
        (PageCache::Own(_), Preset::Static) if site.node("origin").is_none() => {
            Some("the preset static has no pages beside its files")
        }
        _ => None,
    };
    if let Some(message) = wrong {
        let expected = "expected page_cache: off, or preset: wordpress";
        report.value(&node.path, Wrong::new(message, expected));
    }
    chosen
}

/// The bounds of the store.
pub fn store(top: &Section<'_, '_>, report: &Report) -> StoreSettings {
    let default = store_defaults();
    let Some(node) = top.node("page_store") else {
        return default;
    };
    let Some(section) = Section::open(&node, &STORE_KEYS, report) else {
        return default;
    };
    StoreSettings {
        memory: section.size("memory", default.memory, 1 << 20..=1 << 44),
        disk: section.size("disk", default.disk, 1 << 20..=1 << 44),
        dir: section
            .read("dir", |value| {
                scalar::absolute_path(value).map(Path::to_owned)
            })
            .unwrap_or(default.dir),
    }
}

/// The store's settings of a file that says nothing.
pub fn store_defaults() -> StoreSettings {
    StoreSettings {
        memory: 128 << 20,
        disk: 1 << 30,
        dir: PathBuf::from(DEFAULT_DIR),
    }
}

/// A store on disk can be made: its folder, or the one that it is to be made in, may be written to.
///
/// # Errors
/// What to write instead.
pub fn check_dir(dir: &Path, checks: Checks) -> Result<(), Wrong> {
    checks.place_for_directory(dir).map_err(|wrong| Wrong {
        expected: format!(
            "expected page_store: {{dir: …}} with a directory that this user may write to, in place of {}",
            dir.display()
        ),
        ..wrong
    })
}

fn short(chosen: Choice) -> PageCache {
    let own = |store| PageCache::Own(Box::new(Rules::new(store)));
    match chosen {
        Choice::Off => PageCache::Off,
        Choice::Auto => PageCache::Auto,
        Choice::Memory => own(StoreKind::Memory),
        Choice::Disk => own(StoreKind::Disk),
    }
}

fn own(section: &Section<'_, '_>, report: &Report, checks: Checks) -> Option<Rules> {
    let expected = "expected e.g. page_cache: {store: memory}";
    let node = section.required("store", expected)?;
    let store = report.accept(&node.path, scalar::choice(node.value, STORES))?;
    let default = Rules::new(store);
    let names = |key, parse: fn(&str) -> Result<NamePattern, Wrong>| {
        section.texts(key, parse).unwrap_or_default()
    };
    let life = |key, default| section.duration(key, default, Duration::ZERO..=A_YEAR);
    let purge = section.node("purge");
    let purge = purge.and_then(|node| Section::open(&node, &PURGE_KEYS, report));
    Some(Rules {
        store,
        valid: section.duration("valid", default.valid, Duration::from_secs(1)..=A_YEAR),
        not_found: section
            .read("not_found", |value| match scalar::word(value) {
                Some("off") => Ok(None),
                _ => scalar::duration(value, Duration::from_secs(1)..=A_YEAR).map(Some),
            })
            .flatten(),
        stale_while_revalidate: life("stale_while_revalidate", default.stale_while_revalidate),
        stale_if_error: life("stale_if_error", default.stale_if_error),
        max_page: section.size("max_page", default.max_page, 1024..=1 << 30),
        vary: section.texts("vary", varying_field).unwrap_or_default(),
        query: names("query", name),
        ignore_query: names("ignore_query", name),
        bypass_cookies: names("bypass_cookies", cookie),
        ignore_cookies: names("ignore_cookies", cookie),
        bypass: section.texts("bypass", rules::pattern).unwrap_or_default(),
        purge_from: purge.as_ref().and_then(|purge| networks(purge, report)),
        purge_token: purge.and_then(|purge| {
            purge.read("token_file", |value| {
                let path = scalar::absolute_path(value)?;
                checks.file(path)?;
                Ok(path.to_owned())
            })
        }),
    })
}

fn networks(purge: &Section<'_, '_>, report: &Report) -> Option<Vec<IpNet>> {
    let items = purge.items("from")?;
    let read = |node: &Node<'_>| {
        let networks = scalar::text(node.value).and_then(trusted_proxies::network);
        report.accept(&node.path, networks)
    };
    Some(items.iter().filter_map(read).flatten().collect())
}

fn name(text: &str) -> Result<NamePattern, Wrong> {
    NamePattern::parse(text).ok_or_else(|| {
        let message = format!("{} is no name", quoted(text));
        Wrong::new(
            message,
            "expected a name, or the beginning of names and a star: [color, \"filter_*\"]",
        )
    })
}

/// Names of cookies are compared in lower case, as PHP changes them anyway.
fn cookie(text: &str) -> Result<NamePattern, Wrong> {
    name(&text.to_ascii_lowercase())
}

fn varying_field(text: &str) -> Result<String, Wrong> {
    let field = rules::field_name(text)?.to_ascii_lowercase();
    let expected = match field.as_str() {
        "cookie" => "expected bypass_cookies: […] for cookies that pages depend on",
        "authorization" => "expected no such field: who logs in passes by the page cache",
        "accept-encoding" => "expected no such field: pages are compressed here",
        "host" => "expected no such field: each host has pages of its own",
        _ => return Ok(field),
    };
    Err(Wrong::new(
        format!("{} cannot be varied by", quoted(text)),
        expected,
    ))
}

#[derive(Clone, Copy)]
enum Choice {
    Off,
    Auto,
    Memory,
    Disk,
}

const CHOICES: &[(&str, Choice)] = &[
    ("off", Choice::Off),
    ("auto", Choice::Auto),
    ("memory", Choice::Memory),
    ("disk", Choice::Disk),
];
const STORES: &[(&str, StoreKind)] = &[("memory", StoreKind::Memory), ("disk", StoreKind::Disk)];
const A_YEAR: Duration = Duration::from_secs(365 * 86400);
const DEFAULT_DIR: &str = "/var/lib/nostat/pages";

/// The keys of a site's page cache.
pub const KEYS: Keys = Keys {
    known: &[
        "store",
        "valid",
        "not_found",
        "stale_while_revalidate",
        "stale_if_error",
        "max_page",
        "vary",
        "query",
        "ignore_query",
        "bypass_cookies",
        "ignore_cookies",
        "bypass",
        "purge",
    ],
    later: &[],
};

/// The keys of `purge`.
pub const PURGE_KEYS: Keys = Keys {
    known: &["from", "token_file"],
    later: &[],
};

/// The keys of the store.
pub const STORE_KEYS: Keys = Keys {
    known: &["memory", "disk", "dir"],
    later: &[],
};
