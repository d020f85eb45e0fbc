//! `expires` and `add_header` as rules by path.

use crate::settings::rules::field_name;
use crate::settings::rules::{MAX_FIELD_VALUE, OWN_FIELDS};

use super::inherited::Inherited;
use super::nginx::directives::Directive;
use super::note::Notes;
use super::tls::is_hsts;
use super::values;
use super::yaml::Value;

/// Rules of a site, in the order in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    cache_control: Vec<(String, String)>,
    headers: Vec<(String, Vec<(String, String)>)>,
}

impl Rules {
    /// Takes what a block itself says of the paths with these patterns.
    pub fn take(
        &mut self,
        scope: &Inherited,
        patterns: &[String],
        has_pages: bool,
        notes: &mut Notes,
    ) {
        let mut lifetime = None;
        if let Some(expires) = scope.get("expires").filter(|_| scope.has_own("expires")) {
            lifetime = of_expires(expires, notes);
        }
        let mut set: Vec<(String, String)> = Vec::new();
        let own = scope.has_own("add_header");
        for header in scope.list("add_header").iter().filter(|_| own) {
            let (name, value) = (header.arg(0), header.arg(1).trim());
            if name.eq_ignore_ascii_case("Cache-Control") && !value.contains('$') {
                lifetime = Some(joined(lifetime, value));
            } else if self.is_settable(header, notes)
                && !set.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
            {
                if has_pages {
                    let said = match is_hsts(name) {
                        true => HSTS,
                        false => {
                            "set on files; for PHP's pages WordPress or the server in front sends it"
                        }
                    };
                    notes.left_out(header, "headers", said);
                }
                set.push((name.to_owned(), value.to_owned()));
            }
        }
        for pattern in patterns {
            if let Some(value) = lifetime.as_ref().filter(|value| !value.is_empty()) {
                let row = (pattern.clone(), value.clone());
                if !self.cache_control.contains(&row) {
                    self.cache_control.push(row);
                }
            }
            let row = (pattern.clone(), set.clone());
            if !set.is_empty() && !self.headers.contains(&row) {
                self.headers.push(row);
            }
        }
    }

    /// The rows of `cache_control`.
    #[must_use]
    pub fn cache_control(&self) -> Vec<Vec<(String, Value)>> {
        let row = |(pattern, value): &(String, String)| {
            vec![
                ("match".to_owned(), Value::Text(pattern.clone())),
                ("value".to_owned(), Value::Text(value.clone())),
            ]
        };
        self.cache_control.iter().map(row).collect()
    }

    /// The rows of `headers`.
    #[must_use]
    pub fn headers(&self) -> Vec<Vec<(String, Value)>> {
        let row = |(pattern, set): &(String, Vec<(String, String)>)| {
            let set = set
                .iter()
                .map(|(name, value)| (name.clone(), Value::Text(value.clone())));
            vec![
                ("match".to_owned(), Value::Text(pattern.clone())),
                ("set".to_owned(), Value::Flow(set.collect())),
            ]
        };
        self.headers.iter().map(row).collect()
    }

    fn is_settable(&self, header: &Directive, notes: &mut Notes) -> bool {
        let (name, value) = (header.arg(0), header.arg(1).trim());
        let lower = name.to_ascii_lowercase();
        if value.contains("$upstream_cache_status") {
            notes.note(header, "", "Cache-Status says it of each answer");
            return false;
        }
        // Pragma is no field of answers; what is the server's own is written here.
        if value.is_empty()
            || matches!(lower.as_str(), "pragma" | "expires")
            || OWN_FIELDS.contains(&lower.as_str())
        {
            notes.idle.insert(format!("add_header {name}"));
            return false;
        }
        if lower == "vary" && value.eq_ignore_ascii_case("accept-encoding") {
            notes.idle.insert(format!("add_header {name}"));
            return false;
        }
        if lower == "alt-svc" {
            notes.note(
                header,
                "headers",
                "HTTP/3 is not spoken: without the field no client looks for it",
            );
            return false;
        }
        if value.contains('$') {
            notes.left_out(header, "headers", "values are plain text: no variables");
            return false;
        }
        if value.len() > MAX_FIELD_VALUE
            || value.contains(char::REPLACEMENT_CHARACTER)
            || field_name(name).is_err()
        {
            notes.left_out(header, "headers", "no field that can be sent");
            return false;
        }
        true
    }
}

const HSTS: &str = "set on files; hsts of an address sets a lifetime for all answers, without includeSubDomains and preload: for PHP's pages WordPress sends more";

/// The Cache-Control that nginx makes of `expires`.
fn of_expires(expires: &Directive, notes: &mut Notes) -> Option<String> {
    match expires.arg(0) {
        "off" => None,
        "max" => Some("max-age=315360000".to_owned()),
        "epoch" => Some("no-cache".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => {
            let seconds =
                values::duration(text.trim_start_matches('+')).filter(|_| expires.args.len() == 1);
            if seconds.is_none() {
                let said = "a lifetime is a number of seconds: no variables, times of day or mtimes; see cache_control";
                notes.left_out(expires, "cache_control", said);
            }
            seconds.map(|time| format!("max-age={}", time.as_secs()))
        }
    }
}

/// Two values as one, each directive once: the first stays.
fn joined(first: Option<String>, second: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    let both = [second.to_owned(), first.unwrap_or_default()];
    for part in both.iter().flat_map(|value| value.split(',')) {
        let part = part.trim();
        let name = |part: &str| {
            part.split('=')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
        };
        if !part.is_empty() && !parts.iter().any(|other| name(other) == name(part)) {
            parts.push(part.to_owned());
        }
    }
    parts.join(", ")
}
