//! Typed values: durations (`30s`), sizes (`64MiB`), counts, `on` and `off`, and single words.
//!
//! A unit is always written: a bare `30` has meant seconds, milliseconds and days in one
//! configuration or another.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde_yaml::Value;

use super::mistake::{Wrong, quoted};

/// A value as a mistake names it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        Value::Tagged(_) => "a tagged value".to_owned(),
    }
}

/// The word a value is. `true` and `false` are `on` and `off`: tools that know YAML 1.1 write them so.
pub fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Bool(true) => Some("on"),
        Value::Bool(false) => Some("off"),
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A path that begins with `/`.
pub fn absolute_path(value: &Value) -> Result<&Path, Wrong> {
    let text = text(value)?;
    let path = Path::new(text);
    if !path.is_absolute() {
        let message = format!("{} is not an absolute path", quoted(text));
        return Err(Wrong::new(message, "expected a path that begins with /"));
    }
    Ok(path)
}

/// Text that is not empty and has no control characters.
pub fn text(value: &Value) -> Result<&str, Wrong> {
    match value {
        Value::String(text) if text.is_empty() => Err(Wrong::new("the text is empty", "")),
        Value::String(text) if text.chars().any(char::is_control) => {
            let message = format!("{} has a control character", quoted(text));
            Err(Wrong::new(message, "expected printable text"))
        }
        Value::String(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => {
            let message = format!("{} is not text", shown(value));
            Err(Wrong::new(
                message,
                format!("write it in quotes: \"{}\"", shown(value)),
            ))
        }
        _ => Err(Wrong::new(
            format!("{} is not text", shown(value)),
            "expected text",
        )),
    }
}

/// A duration with its unit, within `range`.
pub fn duration(value: &Value, range: RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let found = parse_duration(value)?;
    within(found, range, |duration| format_duration(*duration))
}

/// A size in bytes with its unit, within `range`.
pub fn size(value: &Value, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let found = parse_size(value)?;
    within(found, range, |size| format_size(*size))
}

/// A whole number within `range`.
pub fn count<T>(value: &Value, range: RangeInclusive<T>) -> Result<T, Wrong>
where
    T: TryFrom<u64> + PartialOrd + ToString,
{
    let number = match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_i64().map(|_| u64::MAX)),
        // In quotes by a template; the meaning is the same.
        Value::String(text) => digits(text),
        _ => None,
    };
    let bounds = format!(
        "{} to {}",
        range.start().to_string(),
        range.end().to_string()
    );
    let Some(number) = number else {
        let message = format!("{} is not a whole number", shown(value));
        return Err(Wrong::new(message, format!("expected {bounds}")));
    };
    match T::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let message = format!("{} is out of range", shown(value));
            Err(Wrong::new(message, format!("expected {bounds}")))
        }
    }
}

/// One of the words in `choices`.
pub fn choice<T: Copy>(value: &Value, choices: &[(&str, T)]) -> Result<T, Wrong> {
    let found = word(value).and_then(|word| choices.iter().find(|(name, _)| *name == word));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        Wrong::new(
            format!("{} is not known here", shown(value)),
            format!("expected {}", names.join(", ")),
        )
    })
}

fn parse_duration(value: &Value) -> Result<Duration, Wrong> {
    let wrong = || {
        let message = format!("{} is not a duration", shown(value));
        Wrong::new(message, "expected e.g. 5s, 200ms, 1m")
    };
    if let Some(number) = unitless(value) {
        let message = format!("{number} has no unit");
        return Err(Wrong::new(
            message,
            format!("expected e.g. {number}s, {number}ms, {number}m"),
        ));
    }
    let Value::String(text) = value else {
        return Err(wrong());
    };
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let millis = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
    .ok_or_else(wrong)?;
    number
        .checked_mul(millis)
        .map(Duration::from_millis)
        .ok_or_else(wrong)
}

fn parse_size(value: &Value) -> Result<u64, Wrong> {
    let wrong = || {
        let message = format!("{} is not a size", shown(value));
        Wrong::new(message, "expected e.g. 64MiB, 128KiB, 1GiB")
    };
    if let Some(number) = unitless(value) {
        let message = format!("{number} has no unit");
        let expected = format!("expected e.g. {number}B, {number}KiB, {number}MiB");
        return Err(Wrong::new(message, expected));
    }
    let Value::String(text) = value else {
        return Err(wrong());
    };
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => {
            let binary = unit.chars().next().and_then(|first| match first {
                'k' | 'K' => Some("KiB"),
                'm' | 'M' => Some("MiB"),
                'g' | 'G' => Some("GiB"),
                't' | 'T' => Some("TiB"),
                _ => None,
            });
            return Err(match binary {
                // nginx and PHP mean 1024 by K, disk makers 1000: the user is asked, not guessed.
                Some(binary) => Wrong::new(
                    format!("{} is not a size", quoted(text)),
                    format!("did you mean {number}{binary}?"),
                ),
                None => wrong(),
            });
        }
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A value that is a whole number without a unit.
fn unitless(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => digits(text),
        _ => None,
    }
}

/// `30s` as 30 and `s`; a number of ASCII digits, then letters.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text.strip_suffix(unit)?;
    Some((digits(number)?, unit))
}

fn digits(text: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

fn within<T: PartialOrd>(
    found: T,
    range: RangeInclusive<T>,
    format: impl Fn(&T) -> String,
) -> Result<T, Wrong> {
    if range.contains(&found) {
        return Ok(found);
    }
    let message = format!("{} is out of range", format(&found));
    let expected = format!(
        "expected {} to {}",
        format(range.start()),
        format(range.end())
    );
    Err(Wrong::new(message, expected))
}

/// A duration in the largest unit that divides it.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    units
        .into_iter()
        .find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit))
        .map_or_else(
            || format!("{millis}ms"),
            |(unit, name)| format!("{}{name}", millis / unit),
        )
}

/// A size in the largest unit that divides it.
pub fn format_size(size: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    units
        .into_iter()
        .find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift))
        .map_or_else(
            || format!("{size}B"),
            |(shift, name)| format!("{}{name}", size >> shift),
        )
}

#[cfg(test)]
mod tests;
