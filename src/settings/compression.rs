//! `compression` of a site.

use serde_yaml::Value;

use crate::site::settings::CompressionSettings;

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// What is compressed here.
pub fn read(site: &Section<'_, '_>, report: &Report) -> CompressionSettings {
    let default = CompressionSettings::default();
    let Some(node) = site.node("compression") else {
        return default;
    };
    if !matches!(node.value, Value::Mapping(_)) {
        let chosen = report.accept(&node.path, scalar::choice(node.value, AUTO));
        let chosen = chosen.unwrap_or(true);
        return CompressionSettings {
            files: chosen,
            dynamic: chosen,
            ..default
        };
    }
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return default;
    };
    CompressionSettings {
        files: section.choice("files", default.files, AUTO),
        dynamic: section.choice("dynamic", default.dynamic, AUTO),
        min_size: section.size("min_size", default.min_size, 0..=LARGEST_MIN),
        types: section.texts("types", media_type),
    }
}

/// `text/html`, or `text/*`; in lower case.
fn media_type(text: &str) -> Result<String, Wrong> {
    let is_name = |name: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !name.is_empty() && name.bytes().all(known)
    };
    match text.split_once('/') {
        Some((kind, subtype)) if is_name(kind) && (subtype == "*" || is_name(subtype)) => {
            Ok(text.to_ascii_lowercase())
        }
        _ => {
            let message = format!("{} is not a media type", quoted(text));
            Err(Wrong::new(message, "expected e.g. text/html, or text/*"))
        }
    }
}

const AUTO: &[(&str, bool)] = &[("auto", true), ("off", false)];
/// From here on nothing would be compressed.
const LARGEST_MIN: u64 = 1 << 30;

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["files", "dynamic", "min_size", "types"],
    later: &[],
};
