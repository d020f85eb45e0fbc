//! Server blocks as sites: those that differ in their names only are one, and each host belongs to one.

use std::collections::{BTreeMap, BTreeSet};

use super::around::Around;
use super::block::Block;
use super::doors::{self, Doors};
use super::fate::{self, Fate, Scheme};
use super::listen::Door;
use super::location::told;
use super::nginx::directives::Directive;
use super::note::{Note, Notes};
use super::server::Site;
use super::shared::Shared;
use super::tls::ClientCertificate;
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
    let mut sent = sent_on(&mut sites, others, any, &doors, &mut shared.notes);
    for site in &mut sites {
        ask_for_certificates(site, &doors);
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
    let mut entries = shared.entries(doors.value, doors.is_behind && doors.has_tls);
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

/// The names that each site sends to its first host; says what becomes of all blocks that serve nothing.
fn sent_on(
    sites: &mut [Site],
    others: Vec<Block<'_>>,
    any: Option<usize>,
    doors: &Doors,
    notes: &mut Notes,
) -> BTreeMap<usize, Vec<String>> {
    let mut sent: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for site in sites.iter() {
        taken.extend(site.reached.hosts.iter().cloned());
    }
    // Here the scheme is kept, and an address without TLS may send to https next.
    let is_same = |scheme: Scheme| match scheme {
        Scheme::Same => true,
        Scheme::Https => doors.all_https,
        Scheme::Http => !doors.has_tls,
    };
    for index in 0..sites.len() {
        let Some(site) = sites.get_mut(index) else {
            continue;
        };
        for (rule, names, scheme, to) in std::mem::take(&mut site.sent) {
            let first = site.reached.hosts.first();
            let names: Vec<String> = names
                .into_iter()
                .filter(|name| site.reached.hosts.contains(name) || taken.insert(name.clone()))
                .collect();
            if first != Some(&to)
                || to.starts_with('*')
                || any == Some(index)
                || !is_same(scheme)
                || names.is_empty()
            {
                site.notes.left_out(&rule, "hosts", NOT_SENT_ON);
                continue;
            }
            site.reached.hosts.retain(|host| !names.contains(host));
            let list = sent.entry(index).or_default();
            for name in names {
                if !list.contains(&name) {
                    list.push(name);
                }
            }
        }
    }
    for block in others {
        notes.list.extend(block.notes.list);
        notes.idle.extend(block.notes.idle);
        let names = &block.reached.hosts;
        let to = match &block.fate {
            Fate::ToHost(scheme, host) if is_same(*scheme) => {
                let is_first = |site: &Site| {
                    site.reached.hosts.first() == Some(host) && !host.starts_with('*')
                };
                sites
                    .iter()
                    .position(is_first)
                    .filter(|index| any != Some(*index))
            }
            _ => None,
        };
        let is_known = !names.is_empty()
            && !block.reached.any_host
            && !block.reached.has_other_names
            && !names.iter().any(|name| taken.contains(name));
        match to {
            Some(index) if is_known => {
                taken.extend(names.iter().cloned());
                sent.entry(index).or_default().extend(names.iter().cloned());
                rest(block.directive, true, notes);
            }
            _ => rest(
                block.directive,
                matches!(block.fate, Fate::ToHttps) && doors.all_https,
                notes,
            ),
        }
    }
    sent
}

/// What is said of the rules of a block that serves nothing; `is_done`: what it sends on is.
fn rest(block: &Directive, is_done: bool, notes: &mut Notes) {
    for child in block.children() {
        match child.name.as_str() {
            "location" if fate::is_of_challenges(child) => challenges(child, notes),
            "location" => {
                for rule in child.children() {
                    of_rest(rule, is_done, notes);
                }
            }
            _ => of_rest(child, is_done, notes),
        }
    }
}

fn of_rest(rule: &Directive, is_done: bool, notes: &mut Notes) {
    if !matches!(rule.name.as_str(), "if" | "return" | "rewrite") {
        return;
    }
    let refuses = rule.name == "return" && rule.arg(0).starts_with('4');
    let is_to_https = [rule]
        .into_iter()
        .chain(rule.children())
        .any(|rule| rule.args.iter().any(|word| word.starts_with("https://$")));
    if refuses {
        notes.note(rule, "sites", "a host that no site has is answered 421");
    } else if is_done {
        notes.idle(rule);
    } else if is_to_https {
        notes.left_out(
            rule,
            "sites",
            "not sent to https: see redirect: https of an address, for all that comes there",
        );
    } else {
        notes.left_out(rule, "sites", NOT_SENT_ON);
    }
}

/// Where certificate authorities find their proofs.
fn challenges(location: &Directive, notes: &mut Notes) {
    for child in location.children() {
        match child.name.as_str() {
            "root" | "alias" => {
                let said = "proofs for certificates are answered from the root of the site: certbot --webroot -w that, or tls: {acme: …}";
                notes.note(child, "listen", said);
            }
            "proxy_pass" => told(child, "listen", notes),
            _ => {}
        }
    }
}

/// Closes a site whose clients need certificates that are not asked for wherever it is reached.
fn ask_for_certificates(site: &mut Site, doors: &Doors) {
    let asks = site.reached.doors.iter().find(|door| {
        let client = door.tls.as_ref().map(|tls| &tls.client);
        client.is_some_and(|client| *client != ClientCertificate::NotAsked)
    });
    let Some(door) = asks.filter(|_| !doors.asks_all) else {
        return;
    };
    site.keys.retain(|entry| entry.key != "deny");
    let all = Value::Texts(vec!["/".to_owned()]);
    let behind = site
        .keys
        .iter()
        .position(|entry| entry.key == "root")
        .unwrap_or(0);
    site.keys.insert(behind + 1, Entry::new("deny", all));
    let said = "its clients need certificates (ssl_verify_client), which are asked for at an address and for all of its sites: closed to all until every address \
                with this site has client_ca";
    site.notes.left_out(&door.directive, "deny", said);
}

const NOT_SENT_ON: &str = "not done: redirect_hosts are sent to the first of hosts of a site by 301 and the scheme they came by; write it there, or let WordPress \
                           redirect to its own address";

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
