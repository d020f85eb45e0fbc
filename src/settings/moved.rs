//! `sites[].redirect_hosts` and `redirects`: what has moved.

use crate::request::head::Method;
use crate::request::target::Target;
use crate::site::redirects::Redirects;
use crate::site::settings::{Moved, RedirectRule};

use super::hosts;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::section::{Keys, Node, Section};
use super::{rules, scalar};

/// `redirect_hosts` lead to the first of `hosts`, which must be one name.
pub fn hosts_lead_to_one(site: &Section<'_, '_>, hosts: &[String], report: &Report) {
    if site.node("redirect_hosts").is_none() {
        return;
    }
    let wrong = match hosts.first() {
        None => "redirect_hosts without a host to lead to",
        Some(first) if first.starts_with('*') => {
            "redirect_hosts lead to hosts[0], which has a star"
        }
        Some(_) => return,
    };
    let expected = "expected e.g. hosts: [example.com]";
    report.key(&site.path("redirect_hosts"), Wrong::new(wrong, expected));
}

/// The rules of `redirects`, in order. `names` are those of the site.
pub fn redirects<'n>(
    site: &Section<'_, '_>,
    names: impl Iterator<Item = &'n String> + Clone,
    report: &Report,
) -> Vec<RedirectRule> {
    let mut found = Vec::new();
    let mut places = Vec::new();
    for node in site.items("redirects").unwrap_or_default() {
        if let Some(rule) = redirect(&node, report) {
            found.push(rule);
            places.push(node);
        }
    }
    lead_out(&found, &places, names, report);
    found
}

fn redirect(node: &Node<'_>, report: &Report) -> Option<RedirectRule> {
    let rule = Section::open(node, &KEYS, report)?;
    let from = rule.required("from", "expected e.g. from: /old/")?;
    let from = report.accept(
        &from.path,
        scalar::text(from.value).and_then(rules::pattern),
    );
    let status = rule.read("status", |value| {
        scalar::count(value, 301..=410u16).and_then(|status| match status {
            301 | 302 | 303 | 307 | 308 | 410 => Ok(status),
            other => Err(Wrong::new(
                format!("{other} is not a status of redirects"),
                STATUSES,
            )),
        })
    });
    let status = match (status, rule.node("status")) {
        (None, Some(_)) => return None,
        (status, _) => status.unwrap_or(301),
    };
    let to = match (status, rule.node("to")) {
        (410, None) => Moved::Gone,
        (410, Some(to)) => {
            let wrong = Wrong::new("what is gone (410) leads nowhere", "leave to out");
            report.key(&to.path, wrong);
            return None;
        }
        (status, _) => {
            let to = rule.required("to", "expected e.g. to: /new/, or status: 410")?;
            let to = report.accept(&to.path, scalar::text(to.value).and_then(destination))?;
            Moved::To { to, status }
        }
    };
    Some(RedirectRule { from: from?, to })
}

/// An absolute path, or an http or https URL.
fn destination(text: &str) -> Result<String, Wrong> {
    let wrong = || {
        let message = format!("{} is not a place to lead to", quoted(text));
        Wrong::new(message, "expected e.g. /new/, https://example.com/new/")
    };
    if text
        .chars()
        .any(|c| c.is_control() || matches!(c, ' ' | '\\' | '"' | '<' | '>'))
    {
        return Err(wrong());
    }
    if text.starts_with('/') && !text.starts_with("//") {
        return Ok(text.to_owned());
    }
    let (host, _) = parts(text).ok_or_else(wrong)?;
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.parse::<u16>().is_ok() {
            name
        } else {
            host
        }
    });
    match hosts::is_name(name) || name.starts_with('[') {
        true => Ok(text.to_owned()),
        false => Err(wrong()),
    }
}

/// Host and path of a URL; the path is `/` where there is none.
fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end)?;
    Some((host, if path.starts_with('/') { path } else { "/" }))
}

/// No rule leads, over others or at once, to a path that leads back to it.
fn lead_out<'n>(
    found: &[RedirectRule],
    places: &[Node<'_>],
    names: impl Iterator<Item = &'n String> + Clone,
    report: &Report,
) {
    let Ok(Some(compiled)) = Redirects::new(found) else {
        return;
    };
    let next = |index: usize| {
        let Moved::To { to, .. } = &found.get(index)?.to else {
            return None;
        };
        let path = match parts(to) {
            Some((host, path)) => {
                let host = host.to_ascii_lowercase();
                names.clone().any(|name| *name == host).then_some(path)?
            }
            None => to,
        };
        let raw = path.split('#').next().unwrap_or_default();
        let target = Target::parse(&Method::Get, raw.as_bytes()).ok()?;
        compiled.position(&target.path)
    };
    for (index, place) in places.iter().enumerate() {
        let mut at = index;
        // A way that has not come back after all rules runs in a loop of others, which is told there.
        for _ in 0..found.len() {
            match next(at) {
                Some(back) if back == index => {
                    let path = super::positions::child(&place.path, "to");
                    let message = "leads back to from: a client would go round for ever";
                    report.value(&path, Wrong::new(message, "expected another place"));
                    break;
                }
                Some(other) => at = other,
                None => break,
            }
        }
    }
}

const KEYS: Keys = Keys {
    known: &["from", "to", "status"],
    later: &[],
};

const STATUSES: &str = "expected 301, 302, 303, 307, 308 or 410";
