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
        true if to.contains("https://$host") || to.contains("https://$server_name") => {
            Meaning::Note(TO_TLS)
        }
        true => Meaning::LeftOut(REDIRECT),
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
    let mut inner = body.iter().map(meaning);
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
    if about("$scheme") || about("$http_x_forwarded_proto") || about("$https") {
        return Meaning::Note(TO_TLS);
    }
    if about("$host") || about("$http_host") {
        return inner
            .find(|meaning| matches!(meaning, Meaning::Note(_)))
            .unwrap_or(Meaning::LeftOut(OTHER_HOST));
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
    let (code, to) = (
        rule.arg(0),
        rule.args.last().map(String::as_str).unwrap_or_default(),
    );
    let moves = code.starts_with('3') || code.contains("://");
    match moves {
        true if to.contains("https://$host")
            || to.contains("https://$http_host")
            || to.contains("https://$server_name") =>
        {
            Meaning::Note(TO_TLS)
        }
        true => Meaning::LeftOut(OTHER_HOST),
        false if code.starts_with('4') => Meaning::Note("a host that no site has is answered 421"),
        false => {
            Meaning::LeftOut("fixed answers are not made here: keep it in the server in front")
        }
    }
}

const TO_TLS: &str = "the server in front, which ends TLS, redirects to https; WordPress redirects to its own address";
const OTHER_HOST: &str = "hosts are not redirected here yet (redirect_hosts): keep it in the server in front, or add the name to \
                          hosts, and WordPress redirects its pages to its own address";
const REDIRECT: &str = "redirects are not made here yet: keep it in the server in front, or let a redirection plugin do it";
const OWN_RULES: &str = "WordPress and its plugins know such addresses by their own rewrite rules: a path without a file is theirs";
