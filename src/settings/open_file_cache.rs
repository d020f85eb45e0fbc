//! `open_file_cache`: the descriptor cache's own settings, with nginx's names.

use std::time::Duration;

use serde_yaml::Value;

use crate::descriptor_cache::{Settings, Watch};

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The descriptor cache's settings; those of `default` where the file says nothing.
pub fn read(top: &Section<'_, '_>, report: &Report) -> Settings {
    let default = Settings::default();
    let Some(node) = top.node("open_file_cache") else {
        return default;
    };
    let Some(section) = Section::open(&node, &KEYS, report) else {
        return default;
    };
    let max = section.count("max", default.max, 1..=100_000_000);
    let content = section.size("content", default.content, 0..=1 << 40);
    let content_max_file = section.size("content_max_file", default.content_max_file, 0..=1 << 30);
    if content > 0 && content_max_file > content {
        let message = "larger than open_file_cache.content, which is to hold many such files";
        let key = if section.node("content_max_file").is_some() {
            "content_max_file"
        } else {
            "content"
        };
        let expected = format!("expected {} at most", scalar::format_size(content));
        report.value(&section.path(key), Wrong::new(message, expected));
    }
    let valid = section.duration("valid", default.valid, Duration::ZERO..=DAY);
    // Who sets it means it for every file system.
    let valid_remote = match section.node("valid") {
        Some(_) => valid,
        None => default.valid_remote,
    };
    let watch = [
        ("auto", Watch::Auto),
        ("on", Watch::On),
        ("off", Watch::Off),
    ];
    Settings {
        max,
        descriptors: section.auto_or_count("descriptors", 16..=10_000_000),
        content,
        content_max_file,
        inactive: section.duration("inactive", default.inactive, SECOND..=DAY),
        valid,
        valid_remote,
        watch: section.choice("watch", default.watch, &watch),
        min_uses: section.count("min_uses", default.min_uses, 1..=1_000_000),
        errors: section.choice("errors", default.errors, &[("on", true), ("off", false)]),
        errors_valid: section.duration("errors_valid", default.errors_valid, Duration::ZERO..=DAY),
        errors_max: section
            .read("errors_max", |value| errors_max(value, max))
            .unwrap_or_else(|| (max / 10).max(1)),
    }
}

/// A count of entries, or a share of `max` such as `10%`.
fn errors_max(value: &Value, max: usize) -> Result<usize, Wrong> {
    let Some(percent) = value.as_str().and_then(|text| text.strip_suffix('%')) else {
        return scalar::count(value, 1..=100_000_000).map_err(|wrong| Wrong {
            expected: format!("{}, or a share of max such as 10%", wrong.expected),
            ..wrong
        });
    };
    match percent.trim().parse::<u8>() {
        Ok(percent @ 1..=100) => {
            // Divided first where the product would not fit, which loses nothing that matters.
            let share = max
                .checked_mul(usize::from(percent))
                .map_or(max, |product| product / 100);
            Ok(share.max(1))
        }
        _ => {
            let message = format!("{} is not a share", quoted(&format!("{percent}%")));
            Err(Wrong::new(message, "expected 1% to 100%"))
        }
    }
}

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "max",
        "descriptors",
        "content",
        "content_max_file",
        "inactive",
        "valid",
        "min_uses",
        "errors",
        "errors_valid",
        "errors_max",
        "watch",
    ],
    later: &[],
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
