//! What was closed to some in nginx, where sites have addresses of their own, stays closed here, where each address has all sites.

use super::doors::Doors;
use super::listen::Door;
use super::server::Site;
use super::tls::ClientCertificate;
use super::yaml::{Entry, Value};

/// Takes over from a block, whose host this site has already, what it closes or asks for.
pub fn join(kept: &mut Site, dropped: &Site) {
    let of = |site: &Site, key: &str| site.keys.iter().find(|entry| entry.key == key).cloned();
    match (of(kept, "auth"), of(dropped, "auth")) {
        (_, None) => {}
        (None, Some(auth)) => put(kept, auth),
        (Some(first), Some(second)) if first.value == second.value => {}
        // The first rule that means a path counts, so that one list may free what the other asks for.
        (Some(_), Some(_)) => close(kept),
    }
    if let Some(Entry {
        value: Value::Texts(closed),
        ..
    }) = of(dropped, "deny")
    {
        let mut all = match of(kept, "deny") {
            Some(Entry {
                value: Value::Texts(first),
                ..
            }) => first,
            _ => Vec::new(),
        };
        for pattern in closed {
            if !all.contains(&pattern) {
                all.push(pattern);
            }
        }
        put(kept, Entry::new("deny", Value::Texts(all)));
    }
    let asking = dropped.reached.doors.iter().filter(|door| asks(door));
    kept.reached.doors.extend(asking.cloned());
}

/// Closes a site whose clients need certificates that are not asked for wherever it is reached.
pub fn ask_for_certificates(site: &mut Site, doors: &Doors) {
    let asking = site.reached.doors.iter().find(|door| asks(door));
    let Some(door) = asking.filter(|_| !doors.asks_all).cloned() else {
        return;
    };
    close(site);
    let said = "its clients need certificates (ssl_verify_client), which are asked for at an address and for all of its sites: closed to all until every address \
                with this site has client_ca";
    site.notes.left_out(&door.directive, "deny", said);
}

/// Closes a site that this machine alone reaches, where others reach an address of ours.
pub fn stay_on_this_machine(site: &mut Site, doors: &Doors) {
    let is_inner = |door: &Door| door.address.ip().is_loopback();
    if !doors.is_open || !site.reached.doors.iter().all(is_inner) {
        return;
    }
    let Some(door) = site.reached.doors.first().cloned() else {
        return;
    };
    close(site);
    let said = "this machine alone reaches it in nginx, and every address has all sites here: closed to all until somebody decides";
    site.notes.left_out(&door.directive, "deny", said);
}

fn asks(door: &Door) -> bool {
    let client = door.tls.as_ref().map(|tls| &tls.client);
    client.is_some_and(|client| *client != ClientCertificate::NotAsked)
}

fn close(site: &mut Site) {
    put(site, Entry::new("deny", Value::Texts(vec!["/".to_owned()])));
}

/// Puts a key where its like stands, or behind those that come before it.
fn put(site: &mut Site, entry: Entry) {
    let before = ["root", "preset", "php", "origin", "redirects", "auth"];
    if let Some(same) = site.keys.iter_mut().find(|other| other.key == entry.key) {
        same.value = entry.value;
        return;
    }
    let last = site
        .keys
        .iter()
        .rposition(|other| before.contains(&other.key));
    site.keys.insert(last.map_or(0, |last| last + 1), entry);
}
