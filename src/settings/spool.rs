//! `spool`: where request bodies wait until they are whole.

use std::path::PathBuf;

use serde_yaml::Value;

use crate::fastcgi::SpoolSettings;

use super::machine::Checks;
use super::mistake::Wrong;
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The spool's settings; their defaults where the file says nothing.
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> SpoolSettings {
    let default = || defaults(checks);
    let Some(node) = top.node("spool") else {
        return default();
    };
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return default();
    };
    let settings = SpoolSettings {
        dir: section
            .read("dir", |value| directory(value, checks))
            .unwrap_or_else(|| checks.default_spool()),
        memory: section.size("memory", MEMORY, 0..=1 << 30),
        total: section.size("total", TOTAL, 0..=1 << 44),
    };
    if settings.memory > settings.total {
        let key = if section.node("memory").is_some() {
            "memory"
        } else {
            "total"
        };
        let message = "memory, which is for one body, is larger than total, which is for all";
        let expected = format!("expected {} at most", scalar::format_size(settings.total));
        report.value(&section.path(key), Wrong::new(message, expected));
    }
    settings
}

/// The spool's settings of a file that says nothing.
pub fn defaults(checks: Checks) -> SpoolSettings {
    SpoolSettings {
        dir: checks.default_spool(),
        memory: MEMORY,
        total: TOTAL,
    }
}

fn directory(value: &Value, checks: Checks) -> Result<PathBuf, Wrong> {
    let path = scalar::absolute_path(value)?;
    checks.writable_directory(path)?;
    Ok(path.to_owned())
}

const MEMORY: u64 = 128 << 10;
const TOTAL: u64 = 2 << 30;

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["dir", "memory", "total"],
    later: &[],
};
