//! `access_log`: where a line for each request goes.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use crate::access_log::{Format, LogPath, Settings};

use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The access log's settings; `access_log: off` is short for its format.
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Settings {
    let default = Settings::default();
    let Some(node) = top.node("access_log") else {
        return default;
    };
    if scalar::word(node.value) == Some("off") {
        return Settings {
            format: Format::Off,
            ..default
        };
    }
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return default;
    };
    Settings {
        path: section
            .read("path", |value| path(value, checks))
            .unwrap_or(default.path),
        format: section.choice("format", default.format, FORMATS),
    }
}

fn path(value: &Value, checks: Checks) -> Result<LogPath, Wrong> {
    let text = scalar::text(value)?;
    if text == "-" {
        return Ok(LogPath::Stdout);
    }
    let path = Path::new(text);
    let Some(parent) = path.parent().filter(|_| path.is_absolute()) else {
        let message = format!("{} is not an absolute path of a file", quoted(text));
        return Err(Wrong::new(
            message,
            "expected e.g. /var/log/nostat/access.log, or \"-\"",
        ));
    };
    checks.directory(parent)?;
    Ok(LogPath::File(PathBuf::from(text)))
}

const FORMATS: &[(&str, Format)] = &[
    ("combined", Format::Combined),
    ("json", Format::Json),
    ("off", Format::Off),
];

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["path", "format"],
    later: &[],
};
