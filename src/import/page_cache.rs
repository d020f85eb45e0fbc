//! `fastcgi_cache` as a page cache: how long pages are kept, and which rules against keeping them Nostat has not
//! by itself.
//!
//! Configurations for WordPress carry the same rules in many spellings: a variable that is set by cookies, paths,
//! queries and methods. What the page cache does anyway is recognised, the rest becomes `bypass` and `bypass_cookies`.

use std::time::Duration;

use crate::page_cache::settings::NamePattern;
use crate::request::cookies;
use crate::request::pattern::Pattern;

use super::inherited::Inherited;
use super::matcher;
use super::nginx::directives::Directive;
use super::note::Notes;
use super::values;
use super::yaml::{Entry, Value};

/// Rules against keeping a page, beside those that Nostat has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// Names of cookies.
    cookies: Vec<String>,
    /// Patterns of paths.
    paths: Vec<String>,
}

impl Bypass {
    /// Takes an `if` or a `map` that only sets a variable of the cache; false: it is something else.
    pub fn take(&mut self, directive: &Directive, notes: &mut Notes) -> bool {
        match directive.name.as_str() {
            "if" => self.condition(directive, notes),
            "map" => self.map(directive, notes),
            name if is_of_bypass(name) => {
                for variable in &directive.args {
                    self.rule(directive, variable, "", notes);
                }
                true
            }
            _ => false,
        }
    }

    /// The key `page_cache`, where the cache of `module` is on in `scope`.
    #[must_use]
    pub fn entry(&self, scope: &Inherited, module: &str, notes: &mut Notes) -> Option<Entry> {
        let zone = scope.get(&format!("{module}_cache"))?;
        if zone.arg(0) == "off" {
            return None;
        }
        notes.note(
            zone,
            "page_cache",
            "pages are kept by Nostat itself; who is logged in, shops, POST and queries pass by it",
        );
        let mut keys = vec![Entry::new("store", Value::Word("memory".to_owned()))];
        for valid in scope.list(&format!("{module}_cache_valid")) {
            let Some((time, codes)) = valid.args.split_last() else {
                continue;
            };
            let least = Duration::from_secs(1);
            let most = Duration::from_secs(365 * 86400);
            let Some(time) = values::duration_within(time, least..=most) else {
                notes.left_out(valid, "page_cache", "not understood: see page_cache.valid");
                continue;
            };
            let has = |wanted: &str| codes.iter().any(|code| code == wanted || code == "any");
            let mut add = |key: &'static str| {
                if !keys.iter().any(|entry: &Entry| entry.key == key) {
                    keys.push(Entry::new(key, Value::Word(time.clone())));
                }
            };
            if codes.is_empty() || has("200") {
                add("valid");
            }
            if has("404") {
                add("not_found");
            }
        }
        let ignored = scope.get(&format!("{module}_ignore_headers"));
        if let Some(ignored) = ignored {
            let said = "Cache-Control, Expires and Set-Cookie of PHP count here: a page with Set-Cookie is not kept";
            notes.note(ignored, "page_cache", said);
        }
        if let Some(key) = scope.get(&format!("{module}_cache_key")).filter(|key| {
            key.args
                .iter()
                .any(|w| w.contains("cookie") || w.contains("http_"))
                && !key.args.iter().all(|w| usual_key(w))
        }) {
            notes.left_out(key, "page_cache", "a page's key is host, scheme, path and device; name further fields in vary: […], cookies in bypass_cookies: […]");
        }
        for (key, list) in [("bypass_cookies", &self.cookies), ("bypass", &self.paths)] {
            if !list.is_empty() {
                keys.push(Entry::new(key, Value::Texts(list.clone())));
            }
        }
        Some(Entry::new("page_cache", Value::Section(keys)))
    }

    /// `if ($http_cookie ~* "a|b") { set $skip_cache 1; }`
    fn condition(&mut self, directive: &Directive, notes: &mut Notes) -> bool {
        let body = directive.children();
        let sets = |d: &Directive| d.name == "set" && is_of_cache(d.arg(0));
        if body.is_empty() || !body.iter().all(sets) {
            return false;
        }
        let condition = directive.args.join(" ");
        let condition = condition
            .trim_start_matches('(')
            .trim_end_matches(')')
            .trim();
        let mut words = condition.splitn(3, ' ');
        let (subject, _, value) = (
            words.next().unwrap_or_default(),
            words.next(),
            words.next().unwrap_or_default(),
        );
        self.rule(directive, subject, value.trim(), notes);
        true
    }

    /// `map $http_cookie $skip_cache { default 0; ~*a|b 1; }`
    fn map(&mut self, directive: &Directive, notes: &mut Notes) -> bool {
        if !is_of_cache(directive.arg(1)) {
            return false;
        }
        for line in directive.children() {
            if matches!(line.arg(0), "" | "0") || line.name == "default" {
                continue;
            }
            let value = line
                .name
                .strip_prefix("~*")
                .or_else(|| line.name.strip_prefix('~'));
            self.rule(
                directive,
                directive.arg(0),
                value.unwrap_or(&line.name),
                notes,
            );
        }
        true
    }

    fn rule(&mut self, directive: &Directive, subject: &str, value: &str, notes: &mut Notes) {
        match subject {
            // Methods, queries and logins pass by the page cache anyway.
            "$request_method" | "$query_string" | "$args" | "$is_args" | "$http_authorization" => {}
            _ if subject.starts_with("$arg_") || !subject.starts_with('$') => {}
            "$http_cookie" => self.cookies(directive, value, notes),
            _ if subject.starts_with("$cookie_") => {
                self.cookies(directive, subject.trim_start_matches("$cookie_"), notes);
            }
            "$request_uri" | "$uri" | "$document_uri" => self.paths(directive, value, notes),
            _ if is_of_cache(subject) => {}
            _ => notes.left_out(directive, "page_cache", format!("pages are not kept apart by {subject}: bypass goes by path, bypass_cookies by cookie")),
        }
    }

    fn cookies(&mut self, directive: &Directive, expression: &str, notes: &mut Notes) {
        for word in alternatives(expression) {
            let literal = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let word = word.trim_start_matches('^');
            let name: String = word
                .chars()
                .take_while(literal)
                .collect::<String>()
                .to_ascii_lowercase();
            let known = ["", "_", "_x"]
                .iter()
                .any(|tail| cookies::is_personal(format!("{name}{tail}").as_bytes()));
            // WordPress' own, which pages do not depend on.
            if known || name.starts_with("wp-postpass") || name == "wordpress" {
                continue;
            }
            let pattern = format!("{name}*");
            if name.is_empty() || NamePattern::parse(&pattern).is_none() {
                notes.left_out(
                    directive,
                    "page_cache",
                    format!("{word} names no cookie: see bypass_cookies"),
                );
            } else if !self.cookies.contains(&pattern) {
                self.cookies.push(pattern);
            }
        }
    }

    fn paths(&mut self, directive: &Directive, expression: &str, notes: &mut Notes) {
        for word in alternatives(expression) {
            if word.is_empty() || KNOWN_PATHS.iter().any(|known| word.contains(known)) {
                continue;
            }
            match matcher::of_expression(&word) {
                Some(patterns) => {
                    let good = patterns
                        .into_iter()
                        .filter(|pattern| Pattern::parse(pattern).is_ok());
                    for pattern in good {
                        if !self.paths.contains(&pattern) {
                            self.paths.push(pattern);
                        }
                    }
                }
                None => notes.left_out(
                    directive,
                    "page_cache",
                    format!("{word} has no pattern: see bypass"),
                ),
            }
        }
    }
}

/// Whether the directive names variables that pages are not kept for.
#[must_use]
pub fn is_of_bypass(name: &str) -> bool {
    matches!(
        name,
        "fastcgi_cache_bypass" | "fastcgi_no_cache" | "proxy_cache_bypass" | "proxy_no_cache"
    )
}

/// Whether a variable's name says that it is about keeping pages.
#[must_use]
pub fn is_of_cache(variable: &str) -> bool {
    let name = variable.to_ascii_lowercase();
    variable.starts_with('$')
        && ["skip", "cache", "bypass"]
            .iter()
            .any(|word| name.contains(word))
}

fn usual_key(word: &str) -> bool {
    word.split('$').all(|variable| {
        variable.is_empty()
            || [
                "scheme",
                "request_method",
                "host",
                "http_host",
                "request_uri",
            ]
            .iter()
            .any(|usual| variable.starts_with(usual))
    })
}

/// The alternatives of an expression at its outermost level, without a bracket around all of them.
fn alternatives(expression: &str) -> Vec<String> {
    let whole = expression.trim_matches('"');
    let bare = whole
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let whole = bare
        .filter(|inner| !inner.contains(['(', ')']))
        .unwrap_or(whole);
    let mut found = vec![String::new()];
    let mut depth = 0_usize;
    for character in whole.chars() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match found.last_mut() {
            Some(last) if character != '|' || depth > 0 => last.push(character),
            _ => found.push(String::new()),
        }
    }
    found
}

/// What is never kept, or is no page that depends on its visitor.
const KNOWN_PATHS: [&str; 13] = [
    "wp-admin",
    "wp-login",
    "wp-json",
    "wp-cron",
    "wp-comments",
    "wp-.*.php",
    "wp-.*\\.php",
    "xmlrpc",
    "feed",
    "index.php",
    "sitemap",
    "cart",
    "checkout",
];
