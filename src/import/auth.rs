//! `auth_basic`: who is asked for a password, and for which paths.
//!
//! nginx asks by the location it takes in the end, Nostat by the first rule that means the path, and again for the script or
//! file that answers. What is asked for too widely stays closed; a path is freed only where nginx surely frees all of it.

use super::around::Around;
use super::choice::{self, Choice};
use super::inherited::Inherited;
use super::matcher::Matcher;
use super::nginx::directives::Directive;
use super::tls;
use super::yaml::{self, Value};
use crate::request::pattern::Pattern;

/// Who may have what counts in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nobody is asked.
    Nobody,
    /// Users of a file, in this realm.
    Users(String, String),
    /// It cannot be said here.
    Otherwise,
}

/// A rule of `auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands among the others: sooner is smaller.
    pub rank: (u8, usize),
    /// How deep its location is; the deeper sooner.
    pub depth: usize,
    /// Its patterns.
    pub patterns: Vec<String>,
    /// The file and the realm; none: nobody is asked.
    pub users: Option<(String, String)>,
}

/// Whom a block asks for.
#[must_use]
pub fn of(scope: &Inherited, around: &Around<'_>) -> Asked {
    let Some(realm) = scope.get("auth_basic").filter(|d| d.arg(0) != "off") else {
        return Asked::Nobody;
    };
    let file = scope
        .get("auth_basic_user_file")
        .and_then(|file| tls::file(file.arg(0)));
    let satisfies_any = scope
        .get("satisfy")
        .is_some_and(|satisfy| satisfy.arg(0) != "all");
    match file {
        Some(file)
            if !satisfies_any && !realm.arg(0).contains('$') && !around.is_below_a_root(&file) =>
        {
            Asked::Users(file, realm.arg(0).to_owned())
        }
        _ => Asked::Otherwise,
    }
}

/// Whether the realm is one that is sent as it is.
#[must_use]
pub fn is_realm(text: &str) -> bool {
    (1..=LONGEST_REALM).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// Patterns for a location that all its paths are meant by.
#[must_use]
pub fn covering(location: &Directive, patterns: Option<&Vec<String>>) -> Option<Vec<String>> {
    let is_narrower = match Matcher::parse(&location.args) {
        Matcher::Regex(text) => choice::ignores_case(location) || has_lone_dot(&text),
        Matcher::Named(_) => true,
        _ => false,
    };
    let is_usable =
        |pattern: &String| Pattern::parse(pattern).is_ok() && pattern.chars().all(yaml::is_text);
    patterns
        .filter(|patterns| !is_narrower && patterns.iter().all(is_usable))
        .cloned()
}

/// The pattern of paths for which nginx surely asks nobody, in a location that frees them.
#[must_use]
pub fn freed(
    location: &Directive,
    choice: &Choice<'_>,
    asks: impl Fn(&Directive) -> bool,
) -> Option<String> {
    let asks_within = |block: &Directive| {
        fn any(block: &Directive) -> bool {
            block
                .children()
                .iter()
                .any(|d| (d.name == "auth_basic" && d.arg(0) != "off") || any(d))
        }
        block
            .children()
            .iter()
            .filter(|d| d.name == "location")
            .any(any)
    };
    if asks_within(location) {
        return None;
    }
    match Matcher::parse(&location.args) {
        Matcher::Exact(path) if is_plain(&path) && !path.ends_with('/') => Some(path),
        Matcher::Prefix(path) if is_plain(&path) => {
            let others_ask = choice
                .others_below(&path, location)
                .any(|other| asks(other) || asks_within(other));
            let is_taken = choice.takes_all(&path, location)
                || location.arg(0).starts_with("^~") && !others_ask;
            (is_taken && !others_ask).then(|| format!("{path}**"))
        }
        _ => None,
    }
}

/// The rows of `auth`, in their order.
#[must_use]
pub fn rows(mut rules: Vec<Rule>) -> Vec<Vec<(String, Value)>> {
    rules.sort_by_key(|rule| (rule.rank, std::cmp::Reverse(rule.depth)));
    let mut seen = Vec::new();
    for rule in rules {
        let mut row = vec![(
            "match".to_owned(),
            match rule.patterns.as_slice() {
                [one] => Value::Text(one.clone()),
                _ => Value::Texts(rule.patterns.clone()),
            },
        )];
        match &rule.users {
            Some((file, realm)) => {
                row.push(("users_file".to_owned(), Value::Text(file.clone())));
                if is_realm(realm) {
                    row.push(("realm".to_owned(), Value::Text(realm.clone())));
                }
            }
            None => row.push(("users_file".to_owned(), Value::Word("off".to_owned()))),
        }
        if !seen.contains(&row) {
            seen.push(row);
        }
    }
    seen
}

fn is_plain(path: &str) -> bool {
    path.len() > 1
        && path.starts_with('/')
        && path.chars().all(|c| c.is_ascii_graphic() && c != '*')
}

/// A dot that stands for any character, which patterns take for a dot.
fn has_lone_dot(expression: &str) -> bool {
    let mut in_set = false;
    let mut characters = expression.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '[' => in_set = true,
            ']' => in_set = false,
            '.' if !in_set && !matches!(characters.peek(), Some('*' | '+')) => return true,
            _ => {}
        }
    }
    false
}

const LONGEST_REALM: usize = 100;
