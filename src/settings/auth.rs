//! `sites[].auth`: paths that ask for a user and a password.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use crate::followed_file;
use crate::site::auth::users::Users;
use crate::site::settings::{AuthRule, SiteSettings};

use super::machine::{Checks, resolved};
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::section::{Keys, Node, Section, list_items};
use super::{rules, scalar};

/// The rules, in order: a list of mappings, or one.
pub fn read(site: &Section<'_, '_>, report: &Report, checks: Checks) -> Vec<AuthRule> {
    let Some(node) = site.node("auth") else {
        return Vec::new();
    };
    if scalar::word(node.value) == Some("off") {
        return Vec::new();
    }
    let nodes = match node.value {
        Value::Sequence(items) => list_items(items, &node.path),
        _ => vec![node],
    };
    nodes
        .iter()
        .filter_map(|node| rule(node, report, checks))
        .collect()
}

fn rule(node: &Node<'_>, report: &Report, checks: Checks) -> Option<AuthRule> {
    let rule = Section::open(node, &KEYS, report)?;
    rule.required("match", "expected e.g. match: /wp-login.php")?;
    let patterns = rule.texts("match", rules::pattern)?;
    if patterns.is_empty() {
        let wrong = Wrong::new("the list is empty", "expected e.g. match: /wp-login.php");
        report.value(&rule.path("match"), wrong);
    }
    let file = rule.required(
        "users_file",
        "expected e.g. users_file: /etc/nostat/users, as htpasswd -B writes it",
    )?;
    let users_file = match scalar::word(file.value) {
        Some("off") => None,
        _ => Some(report.accept(&file.path, users_file(file.value, checks))?),
    };
    let realm = rule.read("realm", |value| scalar::text(value).and_then(realm));
    Some(AuthRule {
        patterns,
        users_file,
        realm: realm.unwrap_or_else(|| DEFAULT_REALM.to_owned()),
    })
}

fn users_file(value: &Value, checks: Checks) -> Result<PathBuf, Wrong> {
    let path = scalar::absolute_path(value)?;
    if checks == Checks::Machine {
        followed_file::read(path, Users::parse).map_err(|error| {
            Wrong::new(
                error.to_string(),
                "expected lines as htpasswd -B writes them",
            )
        })?;
    }
    Ok(path.to_owned())
}

fn realm(text: &str) -> Result<String, Wrong> {
    let plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if text.len() <= LONGEST_REALM && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    let message = format!("{} is not a realm", quoted(text));
    Err(Wrong::new(
        message,
        "expected ASCII, 100 characters at most",
    ))
}

/// Hashes below a root are one mistake in its rules away from being sent.
pub fn users_are_not_served(sites: &[SiteSettings], report: &Report) {
    for (index, site) in sites.iter().enumerate() {
        for (number, rule) in site.auth.iter().enumerate() {
            let Some(file) = &rule.users_file else {
                continue;
            };
            let is_below =
                |root: &Path| file.starts_with(root) || resolved(file).starts_with(resolved(root));
            if let Some(root) = sites
                .iter()
                .map(|site| &site.root)
                .find(|root| is_below(root))
            {
                let message = format!("{} lies below the root {}", file.display(), root.display());
                let wrong = Wrong::new(message, "expected a file outside of every root");
                let listed = format!("sites[{index}].auth[{number}].users_file");
                report.value(&listed, wrong);
            }
        }
    }
}

const KEYS: Keys = Keys {
    known: &["match", "users_file", "realm"],
    later: &[],
};

const DEFAULT_REALM: &str = "Restricted";
const LONGEST_REALM: usize = 100;
