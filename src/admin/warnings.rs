//! What an administrator should know, each with the line that helps and where it belongs.

use serde_json::{Value, json};

use crate::acme::renewals::NextLook;
use crate::descriptor_cache::counters::EventsSnapshot;
use crate::descriptor_cache::{Bounds, Usage};
use crate::snapshot::{Snapshot, State};
use crate::tls::Trouble;

/// Something to do about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is the matter.
    pub what: String,
    /// The line to add, or the command.
    pub add: Option<String>,
    /// Where it belongs.
    pub place: &'static str,
}

impl Warning {
    fn new(what: impl Into<String>, place: &'static str, add: impl Into<String>) -> Warning {
        Warning {
            what: what.into(),
            add: Some(add.into()),
            place,
        }
    }

    /// As JSON.
    pub fn told(&self) -> Value {
        json!({"what": self.what, "add": self.add, "where": self.place})
    }
}

/// All there are now, the most pressing first.
pub fn of(state: &State, snapshot: &Snapshot) -> Vec<Warning> {
    let (usage, bounds) = (state.cache.usage(), state.cache.bounds());
    let events = state.cache.counters().snapshot().events;
    let mut all = Vec::new();
    all.extend(refused_reload(state));
    all.extend(state.tls.troubles().iter().map(certificate));
    all.extend(not_ordered(&state.renewals.next_looks()));
    for (address, limiter) in state.limiters.all() {
        let (in_flight, waiting) = (limiter.in_flight(), limiter.waiting());
        all.extend(busy(&address, in_flight, waiting, limiter.limit()));
    }
    all.extend(connections(
        state.lifecycle.connections(),
        state.most_connections(),
        snapshot.settings.limits.connections.is_some(),
    ));
    let lost = snapshot.access_log.lost();
    if lost > 0 {
        let what = format!(
            "{} of the access log lost: what it is written to does not keep up.",
            lines(lost)
        );
        all.push(Warning::new(
            what,
            "nostat.yaml",
            "access_log: {path: /var/log/nostat/access.log}",
        ));
    }
    all.extend(watches(&events));
    all.extend(tiers(&usage, &bounds, &events));
    let held = state.pages.held();
    if is_nearly_full(held.bytes, held.most_bytes) {
        all.push(Warning::new(
            "The memory for pages is full: pages that are asked for less are made anew by PHP.",
            "nostat.yaml",
            format!("page_store: {{memory: {}}}", twice(held.most_bytes)),
        ));
    }
    for site in snapshot.sites.all() {
        let name = site.settings().name();
        if let Some(pages) = site.pages() {
            all.extend(unknown_cookies(&name, &pages.unknown_cookies()));
        }
        let folders = site.root().current().refused_targets();
        let folders: Vec<String> = folders
            .iter()
            .filter_map(|folder| folder.to_str().map(ToOwned::to_owned))
            .collect();
        if !folders.is_empty() {
            all.push(Warning::new(
                format!("{name}: links out of the root were refused (403)."),
                "nostat.yaml, at the site, if these folders may be served",
                format!("link_targets: {}", quoted(&folders)),
            ));
        }
    }
    all
}

fn refused_reload(state: &State) -> Option<Warning> {
    let why = state.reloads.last()?.refused?;
    Some(Warning {
        what: format!("The last reload was refused, the settings before it stay in force: {why}"),
        add: Some("nostat reload".to_owned()),
        place: "on the command line, when it is mended",
    })
}

fn certificate(trouble: &Trouble) -> Warning {
    Warning {
        what: format!("{trouble}."),
        add: None,
        place: "where certificates are renewed: a file that has changed is read by itself",
    }
}

/// One for each reason: a hundred hosts may have the same.
fn not_ordered(looks: &[NextLook]) -> Vec<Warning> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for look in looks {
        let Some(why) = &look.why else {
            continue;
        };
        match by_reason.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, hosts)) => hosts.push(&look.host),
            None => by_reason.push((why, vec![&look.host])),
        }
    }
    let told = by_reason.into_iter().map(|(why, hosts)| {
        let named = hosts.get(..MOST_HOSTS).unwrap_or(&hosts).join(", ");
        let more = match hosts.len().saturating_sub(MOST_HOSTS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Warning {
            what: format!("No certificate could be had for {named}{more}: {why}"),
            add: None,
            place: "It is tried again by itself; when is in the log.",
        }
    });
    told.collect()
}

fn busy(address: &str, in_flight: usize, waiting: usize, slots: Option<usize>) -> Option<Warning> {
    let slots = slots?;
    (waiting > 0 && in_flight >= slots).then(|| {
        let what = format!(
            "All {slots} slots of {address} are in use and {waiting} {} for one.",
            if waiting == 1 {
                "request waits"
            } else {
                "requests wait"
            }
        );
        let add = format!("pm.max_children = {}", slots.saturating_mul(2));
        let place =
            "PHP-FPM's pool file, if there is memory for that; or page_cache: memory at the site";
        Warning::new(what, place, add)
    })
}

fn connections(open: usize, limit: usize, is_set: bool) -> Option<Warning> {
    is_nearly_full(open as u64, limit as u64).then(|| {
        let what =
            format!("{open} of {limit} connections are open; those beyond are closed at once.");
        match is_set {
            true => {
                let add = format!("limits: {{connections: {}}}", limit.saturating_mul(2));
                Warning::new(what, "nostat.yaml", add)
            }
            false => more_descriptors(what),
        }
    })
}

fn watches(events: &EventsSnapshot) -> Vec<Warning> {
    let mut all = Vec::new();
    if events.demotions > 0 {
        all.push(Warning::new(
            "Files changed and the kernel did not tell: their file system is looked at every `valid` instead. How soon is yours to say.",
            "nostat.yaml",
            "open_file_cache: {valid: 5s}",
        ));
    }
    if events.watch_fallbacks > 0 {
        all.push(Warning::new(
            "There are not enough watches for all folders: the others are looked at every `valid`.",
            "/etc/sysctl.d/60-nostat.conf, then sysctl --system and a restart",
            "fs.inotify.max_user_watches = 262144",
        ));
    }
    if events.overflows > 0 {
        all.push(Warning::new(
            "More changed at once than the kernel keeps: everything had to be looked at again.",
            "/etc/sysctl.d/60-nostat.conf, then sysctl --system and a restart",
            "fs.inotify.max_queued_events = 65536",
        ));
    }
    all
}

fn tiers(usage: &Usage, bounds: &Bounds, events: &EventsSnapshot) -> Vec<Warning> {
    let mut all = Vec::new();
    let is_full = is_nearly_full(usage.descriptors, bounds.descriptors);
    if is_full && events.descriptors_given_up > 0 {
        all.push(more_descriptors(
            "All descriptors for files are in use: files that are asked for less are opened again."
                .to_owned(),
        ));
    }
    let is_full = is_nearly_full(usage.entries as u64, bounds.entries as u64);
    if is_full && events.evictions > 0 {
        let add = format!(
            "open_file_cache: {{max: {}}}",
            bounds.entries.saturating_mul(2)
        );
        let what = "The table of files is full: files that are asked for less are looked at again.";
        all.push(Warning::new(what, "nostat.yaml", add));
    }
    if is_nearly_full(usage.content, bounds.content) && events.contents_given_up > 0 {
        let add = format!("open_file_cache: {{content: {}}}", twice(bounds.content));
        let what =
            "The memory for small files is full: those that are asked for less are read again.";
        all.push(Warning::new(what, "nostat.yaml", add));
    }
    all
}

/// Cookies are named by whoever sends them: only names of plain letters get into a line to be copied.
fn unknown_cookies(site: &str, names: &[String]) -> Option<Warning> {
    if names.is_empty() {
        return None;
    }
    let is_plain = |name: &&String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        name.len() <= LONGEST_NAME && name.bytes().all(is_plain)
    };
    let plain: Vec<String> = names.iter().filter(is_plain).cloned().collect();
    let what =
        format!("{site}: visitors with cookies that are not known here get their pages from PHP.");
    Some(Warning {
        what,
        add: (!plain.is_empty())
            .then(|| format!("page_cache: {{ignore_cookies: {}}}", quoted(&plain))),
        place: "nostat.yaml, at the site, for those that no page depends on",
    })
}

fn more_descriptors(what: String) -> Warning {
    let place = "systemctl edit nostat, then restart";
    Warning::new(what, place, "[Service]\nLimitNOFILE=262144")
}

fn is_nearly_full(used: u64, limit: u64) -> bool {
    limit > 0 && used.saturating_mul(20) >= limit.saturating_mul(19)
}

/// Twice as many bytes, as settings say it.
fn twice(bytes: u64) -> String {
    format!("{}MiB", (bytes >> 19).max(1))
}

/// A list in YAML: what JSON has for it is one.
fn quoted(words: &[String]) -> String {
    Value::from(words.to_vec()).to_string()
}

fn lines(count: u64) -> String {
    match count {
        1 => "1 line".to_owned(),
        _ => format!("{count} lines"),
    }
}

const LONGEST_NAME: usize = 64;
/// Hosts that one warning names.
const MOST_HOSTS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_responder_is_busy_when_all_slots_are_taken_and_somebody_waits() {
        assert_eq!(busy("a", 5, 0, Some(5)), None);
        assert_eq!(busy("a", 4, 1, Some(5)), None, "for room in the backlog");
        assert_eq!(busy("a", 500, 9, None), None);
        let warning = busy("a", 5, 1, Some(5)).expect("a warning");
        assert_eq!(warning.add.as_deref(), Some("pm.max_children = 10"));
    }

    #[test]
    fn hosts_without_a_certificate_are_named_by_what_they_lack() {
        let look = |host: &str, why: Option<&str>| NextLook {
            directory: String::new(),
            host: host.to_owned(),
            at: 0,
            why: why.map(ToOwned::to_owned),
        };
        assert_eq!(not_ordered(&[look("a.test", None)]), []);
        let hosts = ["a", "b", "c", "d", "e", "f"];
        let mut looks: Vec<_> = hosts.map(|host| look(host, Some("away"))).to_vec();
        looks.push(look("g", Some("no such name")));
        let said: Vec<_> = not_ordered(&looks).into_iter().map(|it| it.what).collect();
        assert_eq!(
            said,
            [
                "No certificate could be had for a, b, c, d, e and 1 more: away",
                "No certificate could be had for g: no such name",
            ]
        );
    }

    #[test]
    fn only_plain_names_of_cookies_get_into_a_line_to_copy() {
        assert_eq!(unknown_cookies("a", &[]), None);
        let names = ["theme", "x\"}, evil: 1", "\\xff"].map(String::from);
        let warning = unknown_cookies("a", &names).expect("a warning");
        let add = warning.add.expect("a line");
        assert_eq!(add, r#"page_cache: {ignore_cookies: ["theme"]}"#);
        let warning = unknown_cookies("a", &["a b".to_owned()]).expect("a warning");
        assert_eq!(warning.add, None);
    }

    #[test]
    fn a_tier_is_warned_of_when_it_is_full_and_something_had_to_go() {
        let bounds = Bounds {
            entries: 100,
            errors: 10,
            descriptors: 100,
            content: 64 << 20,
            watches: 10,
        };
        let full = Usage {
            entries: 95,
            descriptors: 95,
            content: 63 << 20,
            ..Usage::default()
        };
        let nothing_went = EventsSnapshot::default();
        assert_eq!(tiers(&full, &bounds, &nothing_went), []);
        let went = EventsSnapshot {
            evictions: 1,
            descriptors_given_up: 1,
            contents_given_up: 1,
            ..nothing_went
        };
        assert_eq!(tiers(&Usage::default(), &bounds, &went), []);
        let lines: Vec<_> = tiers(&full, &bounds, &went)
            .into_iter()
            .filter_map(|warning| warning.add)
            .collect();
        assert_eq!(
            lines,
            [
                "[Service]\nLimitNOFILE=262144",
                "open_file_cache: {max: 200}",
                "open_file_cache: {content: 128MiB}",
            ]
        );
    }
}
