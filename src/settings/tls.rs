//! `tls` of an address that is listened on.

use std::path::PathBuf;
use std::time::Duration;

use serde_yaml::Value;

use crate::tls::TlsDoor;
use crate::tls::certificate::Certificate;
use crate::tls::settings::{Files, Settings, Version};

use super::machine::Checks;
use super::mistake::Wrong;
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section};

/// How TLS is spoken there; none: it is not.
pub fn read(listen: &Section<'_, '_>, report: &Report, checks: Checks) -> Option<Settings> {
    let node = listen.node("tls")?;
    match scalar::word(node.value) {
        Some("off") => return None,
        Some("self_signed") => {
            return Some(Settings {
                self_signed: true,
                ..Settings::default()
            });
        }
        _ => {}
    }
    let section = Section::open(&node, &KEYS, report)?;
    let mut settings = Settings {
        certificates: certificates(&section, report, checks),
        self_signed: section.choice("self_signed", false, &[("on", true), ("off", false)]),
        acme: super::acme::read(&section, report, checks),
        min: section.read("min", version).unwrap_or_default(),
        client_ca: section.read("client_ca", |value| file(value, checks)),
        hsts: section.read("hsts", hsts).flatten(),
    };
    let ways = [
        section.node("certificates").is_some(),
        settings.self_signed,
        section.node("acme").is_some(),
    ];
    let ways = ways.iter().filter(|is_chosen| **is_chosen).count();
    if ways != 1 {
        let message = match ways {
            0 => "there is no certificate",
            _ => "certificates, acme and self_signed exclude each other",
        };
        let expected = "expected certificates: [{certificate: PATH, key: PATH}], acme: you@example.com, or for a trial self_signed: on";
        report.value(&node.path, Wrong::new(message, expected));
        settings.self_signed = true;
        settings.certificates.clear();
        settings.acme = None;
    }
    if checks == Checks::Machine
        && settings.client_ca.is_some()
        && let Err(error) = TlsDoor::open(
            &Settings {
                self_signed: true,
                acme: None,
                ..settings.clone()
            },
            false,
            &[],
        )
    {
        let expected = "expected a PEM file with the certificates of authorities";
        report.value(
            &section.path("client_ca"),
            Wrong::new(error.to_string(), expected),
        );
    }
    Some(settings)
}

fn certificates(section: &Section<'_, '_>, report: &Report, checks: Checks) -> Vec<Files> {
    let mut read = Vec::new();
    for node in section.items("certificates").unwrap_or_default() {
        let Some(pair) = Section::open(&node, &CERTIFICATE_KEYS, report) else {
            continue;
        };
        let path = |key, expected| {
            let node: Node<'_> = pair.required(key, expected)?;
            let path = scalar::absolute_path(node.value).map(ToOwned::to_owned);
            report.accept(&node.path, path)
        };
        let certificate = path(
            "certificate",
            "expected e.g. certificate: /etc/letsencrypt/live/example.com/fullchain.pem",
        );
        let key = path(
            "key",
            "expected e.g. key: /etc/letsencrypt/live/example.com/privkey.pem",
        );
        let (Some(certificate), Some(key)) = (certificate, key) else {
            continue;
        };
        let files = Files { certificate, key };
        if checks == Checks::Machine {
            let provider = rustls::crypto::ring::default_provider();
            if let Err(error) = Certificate::read(&files, &provider) {
                let expected = "expected PEM files that this user may read";
                report.value(&node.path, Wrong::new(error.to_string(), expected));
            }
        }
        read.push(files);
    }
    read
}

fn file(value: &Value, checks: Checks) -> Result<PathBuf, Wrong> {
    let path = scalar::absolute_path(value)?;
    checks.file(path)?;
    Ok(path.to_owned())
}

fn version(value: &Value) -> Result<Version, Wrong> {
    // Without quotes it is a number to YAML.
    let text = scalar::shown(value);
    match text.trim_matches('"') {
        "1.2" => Ok(Version::Tls12),
        "1.3" => Ok(Version::Tls13),
        _ => {
            let message = format!("{text} is no version that is spoken");
            Err(Wrong::new(message, "expected \"1.2\" or \"1.3\""))
        }
    }
}

fn hsts(value: &Value) -> Result<Option<Duration>, Wrong> {
    match scalar::word(value) {
        Some("off") => Ok(None),
        _ => scalar::duration(value, Duration::from_secs(1)..=MOST_HSTS).map(Some),
    }
}

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "certificates",
        "self_signed",
        "acme",
        "min",
        "client_ca",
        "hsts",
    ],
    later: &[],
};

/// The keys of a certificate.
pub const CERTIFICATE_KEYS: Keys = Keys {
    known: &["certificate", "key"],
    later: &[],
};

/// Two years, as the list of browsers that is loaded beforehand wants at most.
const MOST_HSTS: Duration = Duration::from_secs(2 * 365 * 86_400);
