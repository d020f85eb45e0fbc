//! The folders that the settings name: whether what is to be written there can be.

use std::path::Path;

use super::file_systems;
use super::finding::{Finding, SETTINGS, SHELL};
use super::identity::Identity;
use super::machine::{self, FileSystem};
use super::size::rounded;
use crate::access_log::{Format, LogPath};
use crate::admin::settings::{DEFAULT_SOCKET, Place};
use crate::descriptor_cache::filesystem::Locality;
use crate::page_cache::StoreKind;
use crate::settings::Settings;
use crate::site::settings::PageCache;

/// Judges spool, page store, access log and admin socket.
#[must_use]
pub fn examine(settings: &Settings, identity: &Identity) -> Vec<Finding> {
    let mut findings = Vec::new();
    let spool = &settings.spool;
    findings.extend(not_writable("spool", &spool.dir, identity));
    if let Some(system) = machine::file_system(&spool.dir) {
        findings.push(judge_spool(&spool.dir, spool.total, system));
    }
    let keeps_pages = settings.sites.iter().any(
        |site| matches!(&site.page_cache, PageCache::Own(rules) if rules.store == StoreKind::Disk),
    );
    let store = &settings.page_store;
    if keeps_pages && let Some(system) = machine::file_system(&store.dir) {
        findings.extend(not_writable("page_store", &store.dir, identity));
        findings.push(judge_store(&store.dir, store.disk, system));
    }
    if settings.access_log.format != Format::Off
        && let LogPath::File(path) = &settings.access_log.path
    {
        let folder = path.parent().unwrap_or(Path::new("/"));
        // A file that is there must let itself be appended to; else its folder must let it be made.
        let place = match machine::is_there(path) {
            true => path,
            false => folder,
        };
        findings.extend(not_writable("access_log", place, identity));
    }
    if let Some(acme) = settings.ordered().next() {
        findings.extend(not_writable("acme_store", &acme.dir, identity));
        let plain = settings.listen.iter().filter(|it| it.tls.is_none());
        let ports: Vec<u16> = plain.map(|it| it.address.port()).collect();
        findings.extend(judge_port_of_proof(&ports));
    }
    findings.extend(admin(&settings.admin.socket, identity));
    findings
}

/// Where an authority asks for what proves a host (RFC 8555 §8.3).
fn judge_port_of_proof(ports: &[u16]) -> Option<Finding> {
    let port = ports.first().filter(|_| !ports.contains(&80))?;
    let found = format!(
        "authorities ask for proof at port 80 and nowhere else, and no address without tls has it: it must be passed on to {port}"
    );
    Some(Finding::note("acme", found).put(SETTINGS, "listen: [\"0.0.0.0:80\", …]"))
}

fn not_writable(check: &'static str, place: &Path, identity: &Identity) -> Option<Finding> {
    let there = place.ancestors().find(|path| machine::is_there(path))?;
    let facts = machine::facts(there)?;
    let wanted = if facts.is_directory { 3 } else { 2 };
    if identity.may(facts, wanted) && identity.stopped_at(there).is_none() {
        return None;
    }
    let found = format!(
        "user {} may not write to {}",
        identity.name,
        place.display()
    );
    let line = match facts.is_directory {
        true => format!("install -d -o {} {}", identity.name, place.display()),
        false => format!("chown {} {}", identity.name, place.display()),
    };
    Some(Finding::problem(check, found).put(SHELL, line))
}

fn judge_spool(dir: &Path, total: u64, system: FileSystem) -> Finding {
    let shown = dir.display();
    let name = file_systems::name(system.magic);
    let free = system.free;
    if file_systems::is_in_memory(system.magic) {
        let found = format!("the spool {shown} is on {name}: request bodies would be in memory");
        return Finding::warning("spool", found)
            .put(SETTINGS, "spool: {dir: /var/lib/nostat/spool}");
    }
    if system.free < total {
        let found = format!(
            "the spool {shown} has {} free, and spool.total is {}: uploads would fail when the disk is full",
            rounded(free),
            rounded(total)
        );
        let line = format!("spool: {{total: {}MiB}}", (free >> 21).max(1));
        return Finding::warning("spool", found).put(SETTINGS, line);
    }
    let found = format!(
        "the spool {shown} is on {name} with {} free for {}",
        rounded(free),
        rounded(total)
    );
    Finding::ok("spool", found)
}

fn judge_store(dir: &Path, disk: u64, system: FileSystem) -> Finding {
    let shown = dir.display();
    let name = file_systems::name(system.magic);
    let free = system.free;
    if Locality::of(system.magic) == Locality::Remote {
        let found =
            format!("the page store {shown} is on {name}: each page would go over the network");
        return Finding::problem("page_store", found).put(
            SETTINGS,
            "page_store: {dir: /var/lib/nostat/pages}   # a disk of this machine",
        );
    }
    if file_systems::is_in_memory(system.magic) {
        let found = format!("the page store {shown} is on {name}: pages would be in memory twice");
        return Finding::warning("page_store", found).put(
            SETTINGS,
            "page_store: {dir: /var/lib/nostat/pages}   # or page_cache: memory",
        );
    }
    if system.free < disk {
        let found = format!(
            "the page store {shown} has {} free, and page_store.disk is {}",
            rounded(free),
            rounded(disk)
        );
        let line = format!("page_store: {{disk: {}MiB}}", (free >> 21).max(1));
        return Finding::warning("page_store", found).put(SETTINGS, line);
    }
    let found = format!(
        "the page store {shown} is on {name} with {} free",
        rounded(free)
    );
    Finding::ok("page_store", found)
}

fn admin(place: &Place, identity: &Identity) -> Option<Finding> {
    let path = match place {
        Place::Off => return None,
        Place::Auto => Path::new(DEFAULT_SOCKET),
        Place::At(path) => path,
    };
    let folder = path.parent()?;
    let is_usable = machine::facts(folder).is_some_and(|facts| identity.may(facts, 3));
    if is_usable {
        return None;
    }
    let line = format!("install -d -o {} {}", identity.name, folder.display());
    let found = format!(
        "{} is not there, or not for user {}",
        folder.display(),
        identity.name
    );
    Some(match place {
        Place::At(_) => Finding::problem(
            "admin",
            format!("{found}: the admin socket cannot be bound"),
        )
        .put(SHELL, line),
        _ => Finding::note(
            "admin",
            format!("{found}: nostat status, reload and cache have no socket"),
        )
        .put(
            "[Service] of nostat.service, or a shell",
            format!("RuntimeDirectory=nostat   # or: {line}"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn system(magic: i64, free: u64) -> FileSystem {
        FileSystem { magic, free }
    }

    #[test]
    fn a_spool_is_on_a_disk_with_room() {
        let judge = |magic, free| judge_spool(Path::new("/s"), 2 << 30, system(magic, free));
        assert_eq!(judge(0xEF53, 3 << 30).severity, Severity::Ok);
        let full = judge(0xEF53, 1 << 30);
        assert_eq!(full.severity, Severity::Warning);
        assert_eq!(
            full.remedy.map(|remedy| remedy.line).as_deref(),
            Some("spool: {total: 512MiB}")
        );
        assert_eq!(judge(0x0102_1994, 3 << 30).severity, Severity::Warning);
    }

    #[test]
    fn an_authority_asks_at_port_80() {
        let severity = |ports: &[u16]| judge_port_of_proof(ports).map(|it| it.severity);
        assert_eq!(severity(&[8080, 80]), None);
        assert_eq!(severity(&[8080]), Some(Severity::Note));
    }

    #[test]
    fn pages_are_not_kept_across_a_network() {
        let judge = |magic| judge_store(Path::new("/p"), 1 << 30, system(magic, 3 << 30)).severity;
        assert_eq!(judge(0x6969), Severity::Problem);
        assert_eq!(judge(0x0102_1994), Severity::Warning);
        assert_eq!(judge(0xEF53), Severity::Ok);
    }
}
