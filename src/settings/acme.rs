//! `acme` in `tls` of an address, and `acme_store`: certificates that are ordered.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use serde_yaml::Value;

use crate::site::settings::SiteSettings;
use crate::tls::certificate::authorities;
use crate::tls::settings::Acme;

use super::hosts::is_name;
use super::listen::Listen;
use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// What is ordered; none: nothing is. What [`complete`] adds is still missing.
pub fn read(tls: &Section<'_, '_>, report: &Report, checks: Checks) -> Option<Acme> {
    let node = tls.node("acme")?;
    let mut acme = Acme {
        directory: LETS_ENCRYPT.to_owned(),
        ..Acme::default()
    };
    if !node.value.is_mapping() {
        let address = scalar::text(node.value).and_then(contact);
        acme.contact = Some(report.accept(&node.path, address)?);
        return Some(acme);
    }
    let section = Section::open(&node, &KEYS, report)?;
    acme.contact = section.read("contact", |value| scalar::text(value).and_then(contact));
    acme.ca = section.read("ca", |value| {
        let path = scalar::absolute_path(value)?;
        checks.file(path)?;
        if checks == Checks::Machine {
            authorities(path).map_err(|why| {
                let message = format!("{}: {why}", path.display());
                Wrong::new(
                    message,
                    "expected a PEM file with the certificates of authorities",
                )
            })?;
        }
        Ok(path.to_owned())
    });
    if let Some(url) = section.read("directory", directory) {
        acme.directory = url;
    }
    if let Some(mut hosts) = section.texts("hosts", host) {
        if section.items("hosts").is_some_and(|items| items.is_empty()) {
            let wrong = Wrong::new("the list is empty", "leave it out, or name a host");
            report.value(&section.path("hosts"), wrong);
        }
        hosts.sort();
        hosts.dedup();
        acme.hosts = hosts;
    }
    Some(acme)
}

/// Where all that is ordered is kept.
pub fn store(top: &Section<'_, '_>, report: &Report) -> PathBuf {
    let dir = top
        .node("acme_store")
        .and_then(|node| Section::open(&node, &STORE_KEYS, report))
        .and_then(|section| {
            section.read("dir", |value| {
                scalar::absolute_path(value).map(Path::to_owned)
            })
        });
    dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR))
}

/// Adds what the other parts say: the hosts of the sites, and where all is kept. `paths` has where each address stands.
pub fn complete(
    listen: &mut [Listen],
    paths: &[String],
    sites: &[SiteSettings],
    dir: &Path,
    report: &Report,
    checks: Checks,
) {
    let is_answered = listen.iter().any(|listen| listen.tls.is_none());
    for (listen, path) in listen.iter_mut().zip(paths) {
        let Some(acme) = listen.tls.as_mut().and_then(|tls| tls.acme.as_mut()) else {
            continue;
        };
        let path = format!("{path}.tls.acme");
        if !is_answered {
            let message =
                "the authority asks without TLS, and no address is listened on without it";
            let expected = "expected another address beside it: listen: [\"0.0.0.0:80\", …]";
            report.value(&path, Wrong::new(message, expected));
        }
        if acme.hosts.is_empty() {
            acme.hosts = provable(sites);
        }
        if acme.hosts.is_empty() {
            let message = "no site has a host name that a certificate could be ordered for";
            let expected = "expected hosts in a site, or acme: {hosts: [example.com]}";
            report.value(&path, Wrong::new(message, expected));
        }
        acme.dir = dir.to_owned();
        if let Err(wrong) = checks.place_for_directory(dir) {
            let expected = format!(
                "expected acme_store: {{dir: …}} with a directory that this user may write to, in place of {}",
                dir.display()
            );
            report.value(&path, Wrong { expected, ..wrong });
        }
    }
}

/// The names of the sites that can be proved by HTTP-01 (RFC 8555 §8.3) to an authority of the Internet.
fn provable(sites: &[SiteSettings]) -> Vec<String> {
    let names = sites.iter().flat_map(SiteSettings::names);
    let mut names: Vec<String> = names
        .filter(|name| name.contains('.') && host(name).is_ok())
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

fn contact(text: &str) -> Result<String, Wrong> {
    // What a mailto: URL of ACME may not have (RFC 8555 §7.3): a list, or header fields.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".!#$&'*+/=^_`{|}~-".contains(&byte);
    match text.split_once('@') {
        Some((local, domain))
            if !local.is_empty()
                && local.bytes().all(is_plain)
                && domain.contains('.')
                && is_name(domain) =>
        {
            Ok(text.to_owned())
        }
        _ => {
            let message = format!("{} is no e-mail address", quoted(text));
            Err(Wrong::new(
                message,
                "expected e.g. acme: you@example.com, or keys of contact, directory, ca, hosts",
            ))
        }
    }
}

fn directory(value: &Value) -> Result<String, Wrong> {
    let text = scalar::text(value)?;
    match text {
        "production" => return Ok(LETS_ENCRYPT.to_owned()),
        "staging" => return Ok(STAGING.to_owned()),
        _ => {}
    }
    let uri: Option<Uri> = text.parse().ok();
    let host = uri.as_ref().filter(|uri| uri.scheme_str() == Some("https"));
    match host.and_then(Uri::host) {
        Some(host) if !host.is_empty() && text.len() <= LONGEST_URL => Ok(text.to_owned()),
        _ => Err(Wrong::new(
            format!("{} is no directory of an authority", quoted(text)),
            "expected production or staging, which are Let's Encrypt's, or a URL that begins with https://",
        )),
    }
}

/// A name that can be proved by HTTP-01.
fn host(text: &str) -> Result<String, Wrong> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let expected = if name.contains('*') {
        "expected names one by one: a wildcard cannot be proved by HTTP-01, use certificates for it"
    } else if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        "expected a name: addresses are not ordered for, use certificates for them"
    } else if !text.is_ascii() {
        "expected the name as it is sent, in punycode, e.g. xn--mller-kva.example"
    } else if is_name(&name) && !name.contains('_') {
        return Ok(name);
    } else {
        "expected a host name, e.g. www.example.com"
    };
    let message = format!("no certificate can be ordered for {}", quoted(text));
    Err(Wrong::new(message, expected))
}

const LETS_ENCRYPT: &str = instant_acme::LetsEncrypt::Production.url();
const STAGING: &str = instant_acme::LetsEncrypt::Staging.url();
const DEFAULT_DIR: &str = "/var/lib/nostat/acme";
/// Its folder has a name of it, escaped: file systems take 255 bytes.
const LONGEST_URL: usize = 90;

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["contact", "directory", "ca", "hosts"],
    later: &[],
};

/// The keys of the store.
pub const STORE_KEYS: Keys = Keys {
    known: &["dir"],
    later: &[],
};
