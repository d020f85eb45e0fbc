//! `admin`: where a running server is asked.

use std::net::SocketAddr;
use std::path::Path;

use serde_yaml::Value;

use crate::admin::settings::{Place, Settings};

use super::machine::Checks;
use super::mistake::Wrong;
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section};

/// Where the server is asked.
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Settings {
    let mut settings = Settings::default();
    let Some(node) = top.node("admin") else {
        return settings;
    };
    match scalar::word(node.value) {
        Some("auto") => return settings,
        Some("off") => {
            settings.socket = Place::Off;
            return settings;
        }
        _ => {}
    }
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return settings;
    };
    if let Some(node) = section.node("socket") {
        settings.socket = report.accept(&node.path, socket(&node)).unwrap_or_default();
    }
    settings.listen = section.read("listen", |value| {
        let text = scalar::text(value)?;
        text.parse::<SocketAddr>().map_err(|_| {
            Wrong::new(
                format!("{} is not an address", super::mistake::quoted(text)),
                "expected e.g. listen: \"127.0.0.1:9145\"",
            )
        })
    });
    settings.token_file = section.read("token_file", |value| {
        let path = scalar::absolute_path(value)?;
        checks.file(path)?;
        Ok(path.to_owned())
    });
    if let Some(token) = section.node("token_file")
        && section.node("listen").is_none()
    {
        let message = "a token is for the address that listen names, and there is none";
        report.value(
            &token.path,
            Wrong::new(message, "expected listen: \"127.0.0.1:9145\" beside it"),
        );
    }
    settings
}

fn socket(node: &Node<'_>) -> Result<Place, Wrong> {
    match node.value {
        value @ Value::String(word) => match word.as_str() {
            "auto" => Ok(Place::Auto),
            "off" => Ok(Place::Off),
            _ => scalar::absolute_path(value)
                .map(Path::to_owned)
                .map(Place::At),
        },
        value if scalar::word(value) == Some("off") => Ok(Place::Off),
        value => scalar::absolute_path(value)
            .map(Path::to_owned)
            .map(Place::At),
    }
}

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["socket", "listen", "token_file"],
    later: &[],
};
