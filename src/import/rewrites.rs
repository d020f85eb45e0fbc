//! `rewrite`, `if` and `return` outside of what caches: the well-known ones by what they mean.

use super::nginx::directives::Directive;

/// What a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// What is missing goes to `/index.php`.
    FrontController,
    /// Paths of a network in subdirectories lose the name of their site.
    Multisite,
    /// The preset does it.
    Preset,
    /// Done in another way.
    Note(&'static str),
    /// Not done.
    LeftOut(&'static str),
}

/// What this `rewrite`, `if` or `return` is for.
#[must_use]
pub fn meaning(rule: &Directive) -> Meaning {
    match rule.name.as_str() {
        "rewrite" => of_rewrite(rule),
        "return" => of_return(rule),
        _ => of_condition(rule),
    }
}

fn of_rewrite(rule: &Directive) -> Meaning {
    let (from, to) = (rule.arg(0), rule.arg(1));
    if to.contains("ms-files.php") || is_of_network(from, to) {
        return Meaning::Multisite;
    }
    if from.ends_with("/wp-admin$") {
        return Meaning::Preset;
    }
    if to.starts_with("/index.php") {
        let all = matches!(
            from,
            "^" | "."
                | ".*"
                | "^.*$"
                | "^(.*)$"
                | "^/(.*)$"
                | "^(.+)$"
                | "^/(.+)$"
                | "(.*)"
                | "^/.*$"
        );
        return match all {
            true => Meaning::FrontController,
            false => Meaning::Note(OWN_RULES),
        };
    }
    let leaves = matches!(rule.arg(2), "permanent" | "redirect") || to.contains("://");
    match leaves {
        true => Meaning::LeftOut(NOT_THE_SAME),
        false => Meaning::LeftOut(
            "paths are not rewritten here: let WordPress do it, or the server in front",
        ),
    }
}

/// The documented rules of networks: the first segment, a site's name, is dropped before `wp-…` and scripts.
fn is_of_network(from: &str, to: &str) -> bool {
    let names_site = [
        "^(/[^/]+)?",
        "^/[^/]+",
        "^/[_0-9a-zA-Z-]+",
        "^(/[_0-9a-zA-Z-]+)?",
        "^/([_0-9a-zA-Z-]+/)?",
        "^/([^/]+/)?",
    ];
    let begins = names_site.iter().any(|start| from.starts_with(start));
    let of_wordpress = from.contains("wp-") || from.contains("php");
    let target = to.strip_prefix("/wp").unwrap_or(to);
    begins && of_wordpress && target.trim_start_matches('/').starts_with('$')
}

fn of_condition(rule: &Directive) -> Meaning {
    let condition = rule.args.join(" ");
    let about = |name: &str| condition.contains(name);
    let body = rule.children();
    let refuses = body
        .iter()
        .any(|d| d.name == "return" && d.arg(0).starts_with('4'));
    if about("!-e") || about("!-f") || about("!-d") {
        let found: Vec<_> = body
            .iter()
            .filter(|d| d.name == "rewrite")
            .map(of_rewrite)
            .collect();
        if found.contains(&Meaning::Multisite) {
            return Meaning::Multisite;
        }
        if found.contains(&Meaning::FrontController) {
            return Meaning::FrontController;
        }
        // A script that is not there.
        if found.is_empty() && refuses {
            return Meaning::Preset;
        }
    }
    if body.is_empty() {
        return Meaning::Preset;
    }
    if about("$http_x_forwarded_proto") {
        return Meaning::LeftOut(BEHIND_TLS);
    }
    if about("$scheme") || about("$https") {
        return Meaning::LeftOut(TO_TLS);
    }
    if about("$host") || about("$http_host") {
        return Meaning::LeftOut(OTHER_HOST);
    }
    if about("$request_method") {
        return Meaning::LeftOut(
            "methods are judged by WordPress; files take GET, HEAD and OPTIONS only",
        );
    }
    if refuses {
        return Meaning::LeftOut(
            "requests are not refused by such fields: keep it in the server in front, or use a plugin",
        );
    }
    Meaning::LeftOut(
        "conditions are not taken over: keep it in the server in front, if the site needs it",
    )
}

fn of_return(rule: &Directive) -> Meaning {
    match rule.arg(0).starts_with('3') || rule.arg(0).contains("://") {
        true => Meaning::LeftOut(NOT_THE_SAME),
        false => {
            Meaning::LeftOut("fixed answers are not made here: keep it in the server in front")
        }
    }
}

const BEHIND_TLS: &str = "not sent to https: an address with redirect: https does it, where the server in front is among trusted_proxies";
const TO_TLS: &str =
    "not sent to https: an address with redirect: https does it, for all that comes there";
const OTHER_HOST: &str = "not done: redirect_hosts are sent to the first of hosts of a site by 301; write it there, or let WordPress redirect to its own address";
const OWN_RULES: &str = "WordPress and its plugins know such addresses by their own rewrite rules: a path without a file is theirs";

/// Why a redirect has no row.
pub const NOT_THE_SAME: &str = "no row of redirects sends the same requests to the same place: see redirects: [{from, to, status}], or let a redirection \
                                plugin do it";
