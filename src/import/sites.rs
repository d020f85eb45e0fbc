//! Server blocks as sites: those that differ in their names only are one, and each host belongs to one.

use std::collections::{BTreeMap, BTreeSet};

use super::listen;
use super::note::{Note, Notes};
use super::server::Site;
use super::shared::Shared;
use super::yaml::{Entry, Value, annotate};

/// All keys of the file, its notes, and names of what needs nothing; none where there is no site, or not the one
/// asked for by a host or its root.
pub fn joined(
    found: Vec<Site>,
    mut shared: Shared,
    only: Option<&str>,
) -> Option<(Vec<Entry>, Vec<Note>, Vec<String>)> {
    let mut sites: Vec<Site> = Vec::new();
    for site in found
        .into_iter()
        .filter(|site| only.is_none_or(|only| is_meant(site, only)))
    {
        join(&mut sites, site, &mut shared.notes);
    }
    let first = sites.first()?;
    let mut tls_seen = false;
    let any = any_host(&sites);
    let directive = first.directive.clone();
    let plain = sites.iter().flat_map(|site| site.reached.plain.clone());
    let plain: BTreeSet<_> = plain.collect();
    let plain: Vec<_> = plain.into_iter().collect();
    let mut addresses: Vec<String> = listen::merged(&plain)
        .iter()
        .map(ToString::to_string)
        .collect();
    let tls = sites.iter().any(|site| site.reached.tls);
    if addresses.is_empty() {
        addresses.push(if tls { BEHIND_TLS } else { "0.0.0.0:80" }.to_owned());
    } else if addresses.len() < plain.len() {
        shared.notes.note(
            &directive,
            "listen",
            "an address of all takes those of its port, and [::] both families",
        );
    }
    let mut items = Vec::new();
    let mut told: Vec<Note> = Vec::new();
    for (index, site) in sites.into_iter().enumerate() {
        let Site {
            reached,
            mut keys,
            mut notes,
            directive,
        } = site;
        let takes_any = any == Some(index);
        if !takes_any && reached.hosts.is_empty() {
            shared.notes.left_out(&directive, "sites", "a second site without hosts: sites are told apart by host, not by address; give it one");
            continue;
        }
        if !takes_any {
            if reached.is_default {
                notes.note(
                    &directive,
                    "hosts",
                    "the default server: leave out hosts for a site that answers to any",
                );
            }
            keys.insert(0, Entry::new("hosts", Value::Texts(reached.hosts)));
        }
        notes.list.retain(|note| {
            let top = TOP.contains(&note.key);
            // TLS is said once, not for each site.
            let again = note.key == "listen"
                && note.advice.starts_with("TLS")
                && std::mem::replace(&mut tls_seen, true);
            if top && !again {
                shared.notes.list.push(note.clone());
            }
            !top
        });
        shared.notes.idle.append(&mut notes.idle);
        annotate(&mut keys, &notes.list);
        told.append(&mut notes.list);
        items.push(keys);
    }
    if items.is_empty() {
        return None;
    }
    let mut entries = shared.entries(addresses, tls);
    entries.push(Entry::new("sites", Value::Sections(items)));
    annotate(&mut entries, &shared.notes.list);
    let mut notes: Vec<Note> = Vec::new();
    for note in shared.notes.list.into_iter().chain(told) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let spoken: BTreeSet<String> = notes
        .iter()
        .filter_map(|n| n.directive.split(' ').next().map(String::from))
        .collect();
    let idle = shared
        .notes
        .idle
        .into_iter()
        .filter(|name| !spoken.contains(name));
    Some((entries, notes, idle.collect()))
}

/// Adds a site to those there are, or its names to the one that it is.
fn join(sites: &mut Vec<Site>, mut site: Site, notes: &mut Notes) {
    let mut taken = BTreeMap::new();
    for (index, other) in sites.iter().enumerate() {
        taken.extend(other.reached.hosts.iter().map(|host| (host.clone(), index)));
    }
    let mut same = sites.iter().position(|other| other.keys == site.keys);
    if same.is_none() {
        let conflict = site
            .reached
            .hosts
            .iter()
            .find_map(|host| taken.get(host))
            .copied();
        if let Some(other) = conflict.and_then(|index| sites.get(index)) {
            let said = format!(
                "a host of it is already at {}, with other settings, which were taken",
                other.directive.place
            );
            notes.left_out(&site.directive, "sites", said);
            site.reached.hosts.retain(|host| !taken.contains_key(host));
            // What is left of it by name is a site; without any it is the one that was there.
            same = conflict.filter(|_| site.reached.hosts.is_empty());
        }
    }
    match same.and_then(|index| sites.get_mut(index)) {
        Some(other) => {
            let reached = &mut other.reached;
            reached.hosts.extend(
                site.reached
                    .hosts
                    .into_iter()
                    .filter(|host| !taken.contains_key(host)),
            );
            reached.plain.append(&mut site.reached.plain);
            reached.tls |= site.reached.tls;
            reached.any_host |= site.reached.any_host;
            reached.is_default |= site.reached.is_default;
            for note in site.notes.list {
                if !other.notes.list.iter().any(|first| {
                    (&first.directive, &first.advice) == (&note.directive, &note.advice)
                }) {
                    other.notes.list.push(note);
                }
            }
            other.notes.idle.append(&mut site.notes.idle);
        }
        None => sites.push(site),
    }
}

/// The site that answers to any host: the default server without a name, else the first without one.
fn any_host(sites: &[Site]) -> Option<usize> {
    let nameless = |site: &Site| {
        site.reached.hosts.is_empty() || (site.reached.any_host && site.reached.is_default)
    };
    let default = sites
        .iter()
        .position(|site| nameless(site) && site.reached.is_default);
    default.or_else(|| sites.iter().position(|site| site.reached.hosts.is_empty()))
}

fn is_meant(site: &Site, only: &str) -> bool {
    let root = Value::Text(only.trim_end_matches('/').to_owned());
    site.reached
        .hosts
        .iter()
        .any(|host| host.eq_ignore_ascii_case(only))
        || site
            .keys
            .iter()
            .any(|entry| entry.key == "root" && entry.value == root)
}

/// Where a server in front on the same machine reaches us.
const BEHIND_TLS: &str = "127.0.0.1:8080";

/// Keys that stand above the sites.
const TOP: [&str; 5] = [
    "listen",
    "limits",
    "trusted_proxies",
    "access_log",
    "open_file_cache",
];
