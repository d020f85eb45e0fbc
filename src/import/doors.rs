//! `listen`: the addresses of all blocks as one list, each with its certificates and with what becomes of what comes there.
//!
//! In nginx an address has the hosts of the blocks that name it, here it has all sites. So requests are sent to https at an
//! address where all blocks do that, and a client's certificate is asked for where all do.

use std::net::SocketAddr;

use super::listen::{Does, Door, merged};
use super::note::Notes;
use super::tls::ClientCertificate;
use super::yaml::{Entry, Value};

/// The addresses, and what the sites have to know of them.
#[derive(Clone, Debug)]
pub struct Doors {
    /// The value of `listen`.
    pub value: Value,
    /// Whether only a server in front on this machine reaches us.
    pub is_behind: bool,
    /// Whether every address without TLS sends to https.
    pub all_https: bool,
    /// Whether there is an address with TLS.
    pub has_tls: bool,
    /// Whether clients' certificates are asked for wherever one is needed.
    pub asks_all: bool,
    /// Whether there is an address that others than this machine reach.
    pub is_open: bool,
}

/// What blocks say together of one address.
struct Together<'d> {
    address: SocketAddr,
    doors: Vec<&'d Door>,
}

/// The list for these doors. `hsts`: the seconds that all sites with TLS say.
#[must_use]
pub fn of(doors: &[Door], hsts: Option<u64>, notes: &mut Notes) -> Doors {
    let mut all = together(doors, notes);
    all.retain(|one| has_certificate(one, notes));
    // Where nothing is answered, nor sent to https, nobody has to be let in.
    all.retain(|one| {
        let is_used = one.doors.iter().any(|door| {
            matches!(door.does, Does::Answer | Does::SendToHttps)
                || (door.does == Does::SendOn && door.tls.is_some())
        });
        if !is_used && let Some(door) = one.doors.first() {
            let said = "not listened on, as nothing is served there";
            notes.note(&door.directive, "listen", said);
        }
        is_used
    });
    let serves = |one: &Together<'_>| {
        let mut doors = one.doors.iter();
        doors.any(|door| door.does == Does::Answer)
    };
    let has_tls = all.iter().any(|one| one.is_tls());
    for one in all.iter().filter(|one| has_tls && !one.is_tls()) {
        let sender = one.doors.iter().find(|door| door.does == Does::SendToHttps);
        if let Some(sender) = sender.filter(|_| !one.sends_to_https()) {
            let said = format!(
                "another block answers at {} without TLS, where all sites are reached, so nothing is sent to https there: \
                 give the address redirect: https, if all may be",
                one.address
            );
            notes.left_out(&sender.directive, "listen", said);
        }
    }
    let asked = asked(&all);
    let plain_serves = all.iter().any(|one| !one.is_tls() && !one.sends_to_https());
    let client_ca = asked.filter(|_| !plain_serves);
    let items: Vec<Value> = all
        .iter()
        .map(|one| one.value(has_tls, hsts, client_ca.as_deref(), notes))
        .collect();
    let mut doors = Doors {
        is_behind: !all.iter().any(serves),
        all_https: has_tls && all.iter().all(|one| one.is_tls() || one.sends_to_https()),
        has_tls,
        asks_all: client_ca.is_some(),
        is_open: all.iter().any(|one| !one.address.ip().is_loopback()),
        value: Value::Texts(Vec::new()),
    };
    let mut items = items;
    if doors.is_behind {
        // Who comes through it brings no certificate.
        doors.asks_all = false;
        items.insert(0, Value::Text(BEHIND_TLS.to_owned()));
        doors.all_https = false;
    }
    let plain: Option<Vec<String>> = items
        .iter()
        .map(|item| match item {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
        .collect();
    doors.value = match plain {
        Some(plain) => Value::Texts(plain),
        None => Value::List(items),
    };
    doors
}

/// Doors by the address that is listened on for them.
fn together<'d>(doors: &'d [Door], notes: &mut Notes) -> Vec<Together<'d>> {
    let addresses: Vec<SocketAddr> = doors.iter().map(|door| door.address).collect();
    let unique: std::collections::BTreeSet<_> = addresses.iter().copied().collect();
    let unique: Vec<_> = unique.into_iter().collect();
    let covering = merged(&unique);
    if covering.len() < unique.len()
        && let Some(door) = doors.first()
    {
        let said = "an address of all takes those of its port, and [::] both families";
        notes.note(&door.directive, "listen", said);
    }
    let mut all: Vec<Together<'d>> = Vec::new();
    for address in covering {
        let mut found: Vec<&Door> = Vec::new();
        // nginx has these of an address, whichever block says them.
        let of_same = |address: SocketAddr| {
            let same = move |door: &&Door| door.address == address;
            let is = |of: fn(&Door) -> bool| doors.iter().filter(same).any(of);
            (is(|d| d.tls.is_some()), is(|d| d.proxy_protocol))
        };
        let kind = of_same(address);
        let any_kind = unique
            .iter()
            .filter(|one| merged_into(**one, &unique) == address)
            .map(|one| of_same(*one));
        // An address that is there itself counts, else the first that it stands for.
        let kind = match doors.iter().any(|door| door.address == address) {
            true => kind,
            false => any_kind.clone().next().unwrap_or(kind),
        };
        for door in doors {
            if merged_into(door.address, &unique) != address {
                continue;
            }
            if of_same(door.address) == kind {
                found.push(door);
            } else {
                let said = format!(
                    "{address} takes this address, too, and is spoken to in another way there"
                );
                notes.left_out(&door.directive, "listen", said);
            }
        }
        found.sort_by_key(|door| !door.is_default);
        all.push(Together {
            address,
            doors: found,
        });
    }
    all
}

fn merged_into(address: SocketAddr, all: &[SocketAddr]) -> SocketAddr {
    let mut both = vec![address];
    both.extend(
        all.iter()
            .copied()
            .filter(|other| other.port() == address.port() && other.ip().is_unspecified()),
    );
    merged(&both).first().copied().unwrap_or(address)
}

/// Whether TLS can be spoken there, if it is to be.
fn has_certificate(one: &Together<'_>, notes: &mut Notes) -> bool {
    if !one.is_tls() {
        return true;
    }
    let mut has = false;
    for door in &one.doors {
        let is_there = door
            .tls
            .as_ref()
            .is_some_and(|tls| !tls.certificates.is_empty());
        has |= is_there;
    }
    if !has && let Some(door) = one.doors.first() {
        let said = format!(
            "no certificate is known for it: {{address: \"{}\", tls: {{certificates: [{{certificate, key}}]}}}}, or tls: {{acme: you@example.com}}, \
             which orders one",
            one.address
        );
        notes.left_out(&door.directive, "listen", said);
    }
    has
}

/// The authorities that clients are asked for at every address with TLS.
fn asked(all: &[Together<'_>]) -> Option<String> {
    let mut asked = None;
    let tls = all
        .iter()
        .flat_map(|one| &one.doors)
        .filter_map(|door| door.tls.as_ref());
    for tls in tls {
        match (&tls.client, &asked) {
            (ClientCertificate::Of(file), None) => asked = Some(file.clone()),
            (ClientCertificate::Of(file), Some(first)) if file == first => {}
            _ => return None,
        }
    }
    asked
}

impl Together<'_> {
    fn is_tls(&self) -> bool {
        self.doors.iter().any(|door| door.tls.is_some())
    }

    fn sends_to_https(&self) -> bool {
        let sends = |does| self.doors.iter().any(|door| door.does == does);
        !self.is_tls() && sends(Does::SendToHttps) && !sends(Does::Answer)
    }

    fn value(
        &self,
        has_tls: bool,
        hsts: Option<u64>,
        client_ca: Option<&str>,
        notes: &mut Notes,
    ) -> Value {
        let address = ("address".to_owned(), Value::Text(self.address.to_string()));
        let proxied = self.doors.iter().find(|door| door.proxy_protocol);
        let word = |key: &str, value: &str| (key.to_owned(), Value::Word(value.to_owned()));
        let mut row = vec![address];
        if let Some(door) = proxied {
            let said = "taken of trusted_proxies only, any other connection is closed: name the balancer there";
            notes.note(&door.directive, "listen", said);
            row.push(word("proxy_protocol", "on"));
        }
        if !self.is_tls() {
            if has_tls && self.sends_to_https() {
                row.push(word("redirect", "https"));
            }
            if let Some(door) = self.doors.iter().find(|door| door.http2) {
                let said =
                    "without TLS, HTTP/2 is spoken alone: http2: only, at an address of its own";
                notes.left_out(&door.directive, "listen", said);
            }
            return match row.as_slice() {
                [(_, address)] => address.clone(),
                _ => Value::Flow(row),
            };
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (key, value) in row {
            let key = match key.as_str() {
                "address" => "address",
                _ => "proxy_protocol",
            };
            let value = match value {
                // In quotes, as addresses in lists are.
                Value::Text(text) => Value::Word(format!("\"{text}\"")),
                other => other,
            };
            entries.push(Entry::new(key, value));
        }
        entries.push(Entry::new(
            "tls",
            Value::Section(self.tls(hsts, client_ca, notes)),
        ));
        let speaks = |wanted: bool| {
            let mut tls = self.doors.iter().filter_map(|door| door.tls.as_ref());
            tls.any(|tls| tls.http2 == Some(wanted))
        };
        if speaks(false) && !speaks(true) && !self.doors.iter().any(|door| door.http2) {
            entries.push(Entry::new("http2", Value::Word("off".to_owned())));
        }
        Value::Section(entries)
    }

    fn tls(&self, hsts: Option<u64>, client_ca: Option<&str>, notes: &mut Notes) -> Vec<Entry> {
        let mut certificates: Vec<(String, String)> = Vec::new();
        let tls: Vec<_> = self
            .doors
            .iter()
            .filter_map(|door| door.tls.as_ref())
            .collect();
        for pair in tls.iter().flat_map(|tls| &tls.certificates) {
            if !certificates.contains(pair) {
                certificates.push(pair.clone());
            }
        }
        let row = |(certificate, key): &(String, String)| {
            vec![
                ("certificate".to_owned(), Value::Text(certificate.clone())),
                ("key".to_owned(), Value::Text(key.clone())),
            ]
        };
        let rows = certificates.iter().map(row).collect();
        let mut entries = vec![Entry::new("certificates", Value::Flows(rows))];
        if tls.iter().any(|tls| tls.only_13) {
            entries.push(Entry::new("min", Value::Word("\"1.3\"".to_owned())));
            let other = self
                .doors
                .iter()
                .find(|door| door.tls.as_ref().is_some_and(|tls| !tls.only_13));
            if let Some(other) = other {
                let said = "TLS 1.3 alone at this address, as another block wants it: min: \"1.2\" for both versions";
                notes.note(&other.directive, "listen", said);
            }
        }
        if let Some(authorities) = client_ca {
            entries.push(Entry::new("client_ca", Value::Text(authorities.to_owned())));
        }
        if let Some(seconds) = hsts {
            let lifetime = std::time::Duration::from_secs(seconds);
            let lifetime = crate::settings::scalar::format_duration(lifetime);
            entries.push(Entry::new("hsts", Value::Word(lifetime)));
        }
        entries
    }
}

/// Where a server in front on the same machine reaches us.
const BEHIND_TLS: &str = "127.0.0.1:8080";
