//! Blocks that serve nothing: names that a site sends to its first host, and what is said of the rest.

use std::collections::{BTreeMap, BTreeSet};

use super::block::Block;
use super::doors::Doors;
use super::fate::{self, Fate, Scheme};
use super::location::told;
use super::nginx::directives::Directive;
use super::note::Notes;
use super::server::Site;

/// The names that each site sends to its first host; says what becomes of all blocks that serve nothing.
pub fn sent_on(
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
            _ if matches!(block.fate, Fate::Refuses) && is_had(names, sites, any) => {
                let said = "a site that answers to any host, or to *. and a name, has these hosts, too, and answers them here";
                notes.left_out(block.directive, "sites", said);
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

/// Whether a site answers to one of these names without naming it.
fn is_had(names: &[String], sites: &[Site], any: Option<usize>) -> bool {
    let is_below = |name: &String| {
        let mut hosts = sites.iter().flat_map(|site| &site.reached.hosts);
        hosts.any(|host| {
            host.strip_prefix('*')
                .is_some_and(|end| name.ends_with(end))
        })
    };
    !names.is_empty() && (any.is_some() || names.iter().any(is_below))
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
        // It is a key.
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

const NOT_SENT_ON: &str = "not done: redirect_hosts are sent to the first of hosts of a site by 301 and the scheme they came by; write it there, or let WordPress \
                           redirect to its own address";
