//! Server blocks as sites: those that differ in their names only are one, and each host belongs to one.

use std::collections::{BTreeMap, BTreeSet};

use super::around::Around;
use super::block::Block;
use super::doors;
use super::fate::Fate;
use super::listen::Door;
use super::note::{Note, Notes};
use super::others;
use super::server::Site;
use super::shared::Shared;
use super::strict;
use super::yaml::{Entry, Value, annotate};

/// All keys of the file, its notes, and names of what needs nothing; none where there is no site, or not the one
/// asked for by a host or its root.
pub fn joined(
    found: Vec<Site>,
    others: Vec<Block<'_>>,
    around: &Around<'_>,
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
    if sites.is_empty() {
        return None;
    }
    let any = any_host(&sites);
    let others: Vec<_> = others
        .into_iter()
        .filter(|block| only.is_none() || leads_to(block, &sites))
        .collect();
    let mut doors: Vec<Door> = Vec::new();
    for site in &sites {
        doors.extend(site.reached.doors.iter().cloned());
    }
    for block in &others {
        doors.extend(block.reached.doors.iter().cloned());
    }
    // Notes of an address are said once, whichever block says it first.
    let doors = doors::of(&doors, around.hsts, &mut shared.notes);
    let mut sent = others::sent_on(&mut sites, others, any, &doors, &mut shared.notes);
    for site in &mut sites {
        strict::ask_for_certificates(site, &doors);
        strict::stay_on_this_machine(site, &doors);
    }
    let mut items = Vec::new();
    let mut told: Vec<Note> = Vec::new();
    for (index, site) in sites.into_iter().enumerate() {
        let Site {
            reached,
            mut keys,
            mut notes,
            directive,
            ..
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
            if let Some(names) = sent.remove(&index) {
                keys.insert(1, Entry::new("redirect_hosts", Value::Texts(names)));
            }
        }
        notes.list.retain(|note| {
            let top = TOP.contains(&note.key);
            if top {
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
    let mut entries = shared.entries(doors.value, doors.is_behind);
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
            let others: BTreeSet<usize> = site
                .reached
                .hosts
                .iter()
                .filter_map(|host| taken.get(host).copied())
                .collect();
            for index in others {
                if let Some(other) = sites.get_mut(index) {
                    strict::join(other, &site);
                }
            }
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
            reached.doors.append(&mut site.reached.doors);
            other.sent.append(&mut site.sent);
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

/// Whether a block that serves nothing has to do with these sites.
fn leads_to(block: &Block<'_>, sites: &[Site]) -> bool {
    let is_of_one = |name: &String| sites.iter().any(|site| site.reached.hosts.contains(name));
    match &block.fate {
        Fate::ToHost(_, host) => is_of_one(host),
        Fate::ToHttps => {
            block.reached.hosts.is_empty() || block.reached.hosts.iter().any(is_of_one)
        }
        _ => false,
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

/// Keys that stand above the sites.
const TOP: [&str; 6] = [
    "rate_limits",
    "listen",
    "limits",
    "trusted_proxies",
    "access_log",
    "open_file_cache",
];
