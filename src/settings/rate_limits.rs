//! `rate_limits`: how many requests of a kind one client may make.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_yaml::Value;

use crate::rate_limits::rule::MISSING;
use crate::rate_limits::{Match, Rate, Rule};

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::rules;
use super::scalar;
use super::section::{Keys, Section};

/// The rules; [`Rule::defaults`] where the file says nothing, none for `off` and an empty list.
pub fn read(top: &Section<'_, '_>, report: &Report) -> Vec<Rule> {
    match top.node("rate_limits") {
        None => return Rule::defaults(),
        Some(node) if scalar::word(node.value) == Some("off") => return Vec::new(),
        Some(_) => {}
    }
    let mut read: Vec<Rule> = Vec::new();
    for node in top.items("rate_limits").unwrap_or_default() {
        let Some(section) = Section::open(&node, &KEYS, report) else {
            continue;
        };
        let matches = section.required(
            "match",
            "expected e.g. match: \"/wp-login.php\", or missing",
        );
        let matches = matches
            .and_then(|node| report.accept(&node.path, scalar::text(node.value).and_then(matched)));
        let rate = section.required("rate", "expected e.g. rate: 10/min");
        let rate = rate.and_then(|node| report.accept(&node.path, rate_of(node.value)));
        // Without a word on it, all of one unit of time may come at once.
        let most = rate.map_or(1, |rate| rate.count.get());
        let burst = section.count("burst", most, 1..=1_000_000);
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let (Some(matches), Some(rate)) = (matches, rate) else {
            continue;
        };
        let rule = Rule {
            matches,
            rate,
            burst,
        };
        let is_same = |other: &Rule| other.matches == rule.matches && other.rate == rule.rate;
        if read.iter().any(is_same) {
            report.value(
                &node.path,
                Wrong::new("the rule stands here twice", "expected it once"),
            );
            continue;
        }
        read.push(rule);
    }
    read
}

fn matched(text: &str) -> Result<Match, Wrong> {
    match text {
        MISSING => Ok(Match::Missing),
        pattern => rules::pattern(pattern)
            .map(Match::Path)
            .map_err(|wrong| Wrong {
                expected: format!("{}, or missing", wrong.expected),
                ..wrong
            }),
    }
}

/// A number in a time, e.g. `10/min`.
fn rate_of(value: &Value) -> Result<Rate, Wrong> {
    let expected = "expected e.g. 20/s, 10/min, 100/h";
    let text = scalar::text(value)?;
    let wrong = || Wrong::new(format!("{} is not a rate", quoted(text)), expected);
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit.trim() {
        "s" | "sec" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = count.trim().parse().map_err(|_| wrong())?;
    let count = NonZeroU32::new(count)
        .filter(|count| *count <= MOST)
        .ok_or_else(|| {
            let message = format!("{} is out of range", quoted(text));
            Wrong::new(
                message,
                "expected 1 to 1000000 in a time; deny: […] closes a path",
            )
        })?;
    Ok(Rate {
        count,
        per: Duration::from_secs(seconds),
    })
}

/// The keys of a rule.
pub const KEYS: Keys = Keys {
    known: &["match", "rate", "burst"],
    later: &[],
};

const MOST: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();
