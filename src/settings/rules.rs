//! Rules of a site that go by path: `cache_control`, `headers`, and the patterns all such rules share.

use serde_yaml::Value;

use crate::request::pattern::Pattern;
use crate::site::settings::{CacheControlRule, HeaderRule};

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The rules of `cache_control`, in order.
pub fn cache_control(site: &Section<'_, '_>, report: &Report) -> Vec<CacheControlRule> {
    let mut rules = Vec::new();
    for node in site.items("cache_control").unwrap_or_default() {
        let Some(rule) = Section::open(&node, &CACHE_CONTROL_KEYS, report) else {
            continue;
        };
        let path = matched(&rule, report);
        let value = rule.required("value", "expected e.g. value: \"public, max-age=3600\"");
        let value = value.and_then(|node| match node.value {
            // Empty: the field is left out where the pattern matches.
            Value::String(empty) if empty.is_empty() => Some(String::new()),
            other => report.accept(&node.path, field_value(other)),
        });
        if let (Some(pattern), Some(value)) = (path, value) {
            rules.push(CacheControlRule { pattern, value });
        }
    }
    rules
}

/// The rules of `headers`, in order.
pub fn headers(site: &Section<'_, '_>, report: &Report) -> Vec<HeaderRule> {
    let mut rules = Vec::new();
    for node in site.items("headers").unwrap_or_default() {
        let Some(rule) = Section::open(&node, &HEADER_KEYS, report) else {
            continue;
        };
        let path = matched(&rule, report);
        let set = set(&rule, report);
        if let (Some(pattern), Some(set)) = (path, set) {
            rules.push(HeaderRule { pattern, set });
        }
    }
    rules
}

/// A pattern for paths: begins with `/`, or with `*` for any beginning.
pub fn pattern(text: &str) -> Result<String, Wrong> {
    if !text.starts_with(['/', '*']) {
        let message = format!("{} is not a pattern for paths", quoted(text));
        let expected = format!(
            "expected / or * first, e.g. {}",
            quoted(&format!("/{text}"))
        );
        return Err(Wrong::new(message, expected));
    }
    match Pattern::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(Wrong::new(
            error.to_string(),
            "expected e.g. /folder/ or *.pdf",
        )),
    }
}

/// The name of a field, in lower case (RFC 9110 §5.1).
pub fn field_name(text: &str) -> Result<String, Wrong> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.is_empty() && text.len() <= MAX_FIELD_NAME && text.bytes().all(token) {
        return Ok(text.to_ascii_lowercase());
    }
    let message = format!("{} is not the name of a field", quoted(text));
    Err(Wrong::new(message, "expected e.g. X-Frame-Options"))
}

fn matched(rule: &Section<'_, '_>, report: &Report) -> Option<String> {
    let node = rule.required("match", "expected e.g. match: \"/wp-content/*\"")?;
    report.accept(&node.path, scalar::text(node.value).and_then(pattern))
}

/// The fields of `set`, named as the user wrote them.
fn set(rule: &Section<'_, '_>, report: &Report) -> Option<Vec<(String, String)>> {
    let node = rule.required("set", "expected e.g. set: {X-Frame-Options: SAMEORIGIN}")?;
    let Value::Mapping(mapping) = node.value else {
        let message = format!("{} is not a mapping", scalar::shown(node.value));
        report.value(
            &node.path,
            Wrong::new(message, "expected names and values of fields"),
        );
        return None;
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    for (key, value) in mapping {
        let name = match key {
            Value::String(name) => name.clone(),
            other => scalar::shown(other),
        };
        let path = super::positions::child(&node.path, &name);
        let repeated = fields
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(&name));
        match field_name(&name).and_then(|lower| settable(&name, &lower)) {
            Err(wrong) => report.key(&path, wrong),
            Ok(()) if repeated => {
                let message = format!("the field {name} is set twice");
                report.key(&path, Wrong::new(message, "expected each field once"));
            }
            Ok(()) => {
                if let Some(value) = report.accept(&path, field_value(value)) {
                    fields.push((name, value));
                }
            }
        }
    }
    Some(fields)
}

/// Fields that frame, date or validate an answer are written from what the answer is.
fn settable(name: &str, lower: &str) -> Result<(), Wrong> {
    if OWN_FIELDS.contains(&lower) {
        let message = format!("the field {name} is written by Nostat itself");
        return Err(Wrong::new(message, "leave it out"));
    }
    Ok(())
}

/// The value of a field (RFC 9110 §5.5): no CR, LF or NUL, no white space around it.
fn field_value(value: &Value) -> Result<String, Wrong> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        other => scalar::text(other)?.trim_matches(' ').to_owned(),
    };
    if text.len() > MAX_FIELD_VALUE {
        let message = format!("the value has {} bytes", text.len());
        return Err(Wrong::new(
            message,
            format!("expected {MAX_FIELD_VALUE} at most"),
        ));
    }
    Ok(text)
}

const CACHE_CONTROL_KEYS: Keys = Keys {
    known: &["match", "value"],
    later: &[],
};

const HEADER_KEYS: Keys = Keys {
    known: &["match", "set"],
    later: &[],
};

/// Fields that are written from what an answer is, in lower case.
pub const OWN_FIELDS: [&str; 13] = [
    "accept-ranges",
    "connection",
    "content-length",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const MAX_FIELD_NAME: usize = 128;
/// The longest value of a field, in bytes.
pub const MAX_FIELD_VALUE: usize = 4096;
