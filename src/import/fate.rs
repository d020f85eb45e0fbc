//! What a server block does with whatever comes: answers, sends it to https or to another host, or refuses it.
//!
//! Only what keeps path and query and lasts (301, 308) is taken for sending on: anything else has no key.

use super::nginx::directives::Directive;

/// What a block does with whatever comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves a site.
    Serves,
    /// It sends to https, at the same host.
    ToHttps,
    /// It sends to this host.
    ToHost(Scheme, String),
    /// It refuses.
    Refuses,
    /// Something else.
    Other,
}

/// The scheme that a redirect leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
    /// The one that was asked by.
    Same,
}

/// Where a rule sends all that it means, with path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leads {
    scheme: Scheme,
    /// None: the host that was asked for.
    host: Option<String>,
}

/// The fate of a block that serves nothing; `names` are its hosts.
#[must_use]
pub fn of_other(block: &Directive, names: &[String], only_plain: bool) -> Fate {
    let mut by_host: Vec<(String, Leads)> = Vec::new();
    for rule in block.children() {
        let decided = match rule.name.as_str() {
            "return" | "rewrite" => Some(rule),
            "if" => match (condition(rule), only_rule(rule)) {
                (Some(Condition::Host(host)), Some(inner)) => match leads(inner, names) {
                    Some(leads) => {
                        by_host.push((host, leads));
                        None
                    }
                    None => return Fate::Other,
                },
                (Some(Condition::Plain), Some(inner)) if only_plain => Some(inner),
                _ => return Fate::Other,
            },
            _ => None,
        };
        let Some(rule) = decided else { continue };
        return match leads(rule, names) {
            Some(leads) if by_host.is_empty() => fate(leads),
            None if rule.name == "return" && rule.arg(0).starts_with('4') => {
                of_hosts(&by_host, names)
            }
            _ => Fate::Other,
        };
    }
    if !by_host.is_empty() {
        return Fate::Other;
    }
    // Rules of the block come before its locations.
    let mut all = None;
    for location in block.children().iter().filter(|d| d.name == "location") {
        if location.args == ["/"] {
            let rules: Vec<_> = location
                .children()
                .iter()
                .filter(|d| matches!(d.name.as_str(), "return" | "rewrite" | "if"))
                .collect();
            all = match rules.as_slice() {
                [rule] => leads(rule, names),
                _ => return Fate::Other,
            };
        } else if !is_of_challenges(location) && !refuses(location) {
            return Fate::Other;
        }
    }
    let is_closed = |d: &Directive| d.name == "ssl_reject_handshake" && d.arg(0) == "on";
    match all {
        Some(leads) => fate(leads),
        None if block.children().iter().any(is_closed) => Fate::Refuses,
        None => Fate::Other,
    }
}

/// What a block that serves sends on before it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentOn<'t> {
    /// All that came without TLS goes to https: by this rule, at port 80 alone or at any.
    pub to_https: Option<(&'t Directive, bool)>,
    /// These names go to this host: by this rule.
    pub hosts: Vec<(&'t Directive, Vec<String>, Scheme, String)>,
}

/// What a block that serves sends on, by its own conditions.
#[must_use]
pub fn of_serving<'t>(block: &'t Directive, names: &[String]) -> SentOn<'t> {
    let mut sent = SentOn::default();
    for rule in block.children() {
        let (Some(condition), Some(inner)) = (condition(rule), only_rule(rule)) else {
            continue;
        };
        let Some(leads) = leads(inner, names) else {
            continue;
        };
        match (condition, leads) {
            (
                Condition::Plain | Condition::Port80,
                Leads {
                    scheme: Scheme::Https,
                    host: None,
                },
            ) => {
                let only_80 = rule.args.iter().any(|word| word.contains("$server_port"));
                sent.to_https = Some((rule, only_80));
            }
            (
                Condition::Host(host),
                Leads {
                    scheme,
                    host: Some(to),
                },
            ) if host != to => sent.hosts.push((rule, vec![host], scheme, to)),
            (
                Condition::NotHost(host),
                Leads {
                    scheme,
                    host: Some(to),
                },
            ) if host == to => {
                let others = names.iter().filter(|name| **name != to).cloned().collect();
                sent.hosts.push((rule, others, scheme, to));
            }
            _ => {}
        }
    }
    sent
}

/// Whether a location is for the proofs of certificate authorities.
#[must_use]
pub fn is_of_challenges(location: &Directive) -> bool {
    location.args.iter().any(|word| word.contains("well-known"))
}

fn fate(leads: Leads) -> Fate {
    match leads {
        Leads {
            scheme: Scheme::Https,
            host: None,
        } => Fate::ToHttps,
        Leads {
            scheme,
            host: Some(host),
        } => Fate::ToHost(scheme, host),
        _ => Fate::Other,
    }
}

/// Conditions by host, and what they leave is refused: as certbot writes it.
fn of_hosts(by_host: &[(String, Leads)], names: &[String]) -> Fate {
    if by_host.is_empty() {
        return Fate::Refuses;
    }
    let is_covered = |name: &String| by_host.iter().any(|(host, _)| host == name);
    let is_to_https = |leads: &Leads| leads.scheme == Scheme::Https && leads.host.is_none();
    let to_itself = |(host, leads): &(String, Leads)| {
        is_to_https(leads) || leads.scheme == Scheme::Https && leads.host.as_ref() == Some(host)
    };
    match !names.is_empty() && names.iter().all(is_covered) && by_host.iter().all(to_itself) {
        true => Fate::ToHttps,
        false => Fate::Other,
    }
}

/// Whether a location refuses all that it means.
fn refuses(location: &Directive) -> bool {
    location.children().iter().any(|d| {
        (d.name == "deny" && d.arg(0) == "all") || (d.name == "return" && d.arg(0).starts_with('4'))
    }) && !location
        .children()
        .iter()
        .any(|d| matches!(d.name.as_str(), "allow" | "location" | "rewrite" | "if"))
}

enum Condition {
    /// Without TLS.
    Plain,
    /// At port 80.
    Port80,
    /// This host.
    Host(String),
    /// Any but this host.
    NotHost(String),
}

/// `if ($scheme = http)`, `if ($host = www.example.com)` and their like.
fn condition(rule: &Directive) -> Option<Condition> {
    if rule.name != "if" {
        return None;
    }
    let text = rule.args.join(" ");
    let text = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = text.split_ascii_whitespace();
    let (subject, operator, value) = (words.next()?, words.next()?, words.next().unwrap_or(""));
    if words.next().is_some() {
        return None;
    }
    let value = value.trim_matches(['"', '\'']).to_ascii_lowercase();
    match (subject, operator, value.as_str()) {
        ("$scheme", "=", "http")
        | ("$scheme", "!=", "https")
        | ("$https", "=", "")
        | ("$https", "!=", "on") => Some(Condition::Plain),
        ("$server_port", "=", "80") => Some(Condition::Port80),
        ("$host" | "$http_host", "=", host) if !host.is_empty() => {
            Some(Condition::Host(host.to_owned()))
        }
        ("$host" | "$http_host", "!=", host) if !host.is_empty() => {
            Some(Condition::NotHost(host.to_owned()))
        }
        _ => None,
    }
}

fn only_rule(condition: &Directive) -> Option<&Directive> {
    match condition.children() {
        [rule] => Some(rule),
        _ => None,
    }
}

/// Where a `return` or `rewrite` sends everything, if it keeps path and query and says that it lasts.
fn leads(rule: &Directive, names: &[String]) -> Option<Leads> {
    let (to, lasts) = match (rule.name.as_str(), rule.args.as_slice()) {
        ("return", [status, to]) => {
            let to = to.strip_suffix("$request_uri")?;
            (to, matches!(status.as_str(), "301" | "308"))
        }
        ("rewrite", [expression, to, flag]) => (of_all(expression, to)?, flag == "permanent"),
        _ => return None,
    };
    let (scheme, host) = to.split_once("://").filter(|_| lasts)?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        "$scheme" => Scheme::Same,
        _ => return None,
    };
    let host = match host {
        "$host" | "$http_host" => None,
        "$server_name" => Some(names.first().filter(|name| !name.starts_with('*'))?.clone()),
        name if crate::settings::hosts::is_name(name) => Some(name.to_ascii_lowercase()),
        _ => return None,
    };
    // Who has one name only and sends to it sends to the host that was asked for.
    let host = host.filter(|host| !matches!(names, [only] if only == host));
    Some(Leads { scheme, host })
}

/// Whether an expression finds every path.
#[must_use]
pub fn means_all(expression: &str) -> bool {
    let bare = expression.trim_start_matches('^').trim_end_matches('$');
    matches!(
        bare,
        "" | "/" | ".*" | "(.*)" | "/.*" | "/(.*)" | ".+" | "(.+)" | "."
    ) && expression != "^/$"
        && expression != "/$"
        && expression != "^$"
}

/// What stands before the path in a replacement that takes over all of it.
fn of_all<'t>(expression: &str, to: &'t str) -> Option<&'t str> {
    match expression {
        "^" | ".*" | "^.*" | "^.*$" | "^/" | "^/.*$" => to.strip_suffix("$request_uri?"),
        "^(.*)$" | "^(.*)" | "(.*)" | "(.*)$" => to
            .strip_suffix("$1")
            .or_else(|| to.strip_suffix("$request_uri?")),
        "^/(.*)$" | "^/(.*)" => to
            .strip_suffix("/$1")
            .or_else(|| to.strip_suffix("$request_uri?")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::rc::Rc;

    use super::*;
    use crate::import::nginx::directives::parse;

    fn of(text: &str, names: &[&str]) -> Fate {
        let text = format!("server {{ {text} }}");
        let tree = parse(&Rc::from("n"), text.as_bytes()).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        of_other(tree.first().unwrap(), &names, true)
    }

    #[test]
    fn usual_spellings_send_to_https() {
        for text in [
            "return 301 https://$host$request_uri;",
            "return 308 https://$http_host$request_uri;",
            "return 301 https://a$request_uri;",
            "return 301 https://$server_name$request_uri;",
            "rewrite ^ https://$host$request_uri? permanent;",
            "rewrite ^(.*)$ https://$host$1 permanent;",
            "rewrite ^/(.*)$ https://$host/$1 permanent;",
            "location / { return 301 https://$host$request_uri; }",
            "location ^~ /.well-known/acme-challenge/ { root /x; } location / { return 301 https://$host$request_uri; }",
            "location ~ /\\. { deny all; } location / { return 301 https://$host$request_uri; }",
            "if ($host = a) { return 301 https://$host$request_uri; } return 404;",
            "if ($host = 'a') { return 301 https://a$request_uri; } return 444;",
            "if ($scheme = http) { return 301 https://$host$request_uri; }",
            "if ($scheme != \"https\") { rewrite ^ https://$host$request_uri? permanent; }",
        ] {
            assert_eq!(of(text, &["a"]), Fate::ToHttps, "{text}");
        }
    }

    #[test]
    fn what_is_not_the_same_path_for_good_does_not() {
        for text in [
            "return 302 https://$host$request_uri;",
            "return 301 https://$host;",
            "return 301 https://$host/;",
            "return 301 https://$host:8443$request_uri;",
            "return 301 https://$host$uri;",
            "return 301 https://$host/x$request_uri;",
            "return https://$host$request_uri;",
            "return 301 http://$host$request_uri;",
            "return 301 https://evil_$host$request_uri;",
            "rewrite ^/x https://$host$request_uri? permanent;",
            "rewrite ^ https://$host$request_uri permanent;",
            "rewrite ^ https://$host$request_uri? redirect;",
            "rewrite ^ https://$host$request_uri?;",
            "location /a { return 301 https://$host$request_uri; }",
            "location /a { proxy_pass http://b; } location / { return 301 https://$host$request_uri; }",
            "location / { if ($x) { return 403; } return 301 https://$host$request_uri; }",
            "if ($host = b) { return 301 https://$host$request_uri; } return 404;",
            "if ($host = a) { return 301 https://$host$request_uri; }",
            "if ($http_user_agent ~ x) { return 403; } return 301 https://$host$request_uri;",
        ] {
            let fate = of(text, &["a"]);
            assert!(!matches!(fate, Fate::ToHttps), "{text}: {fate:?}");
        }
        assert_eq!(of("return 444;", &[]), Fate::Refuses);
        assert_eq!(of("ssl_reject_handshake on;", &[]), Fate::Refuses);
        assert_eq!(of("return 200 ok;", &[]), Fate::Other);
    }

    #[test]
    fn other_hosts_are_named() {
        for (text, scheme) in [
            ("return 301 https://a$request_uri;", Scheme::Https),
            ("return 301 $scheme://A$request_uri;", Scheme::Same),
            ("rewrite ^/(.*)$ http://a/$1 permanent;", Scheme::Http),
        ] {
            let expected = Fate::ToHost(scheme, "a".to_owned());
            assert_eq!(of(text, &["www.a"]), expected, "{text}");
        }
    }
}
