//! The pool of PHP-FPM that a site uses, beside what the site says of it.

use std::path::Path;

use super::Site;
use super::finding::Finding;
use crate::fastcgi::pool_file::{Pool, pools_in};
use crate::fastcgi::{MaxChildren, Settings};
use crate::settings::scalar::format_duration;

/// Judges what the pool's files say.
#[must_use]
pub fn examine(site: Site<'_>, php: &Settings) -> Vec<Finding> {
    let pools = pools_in(Path::new("/"), &php.address);
    judge(site, php, &pools)
}

fn judge(site: Site<'_>, php: &Settings, pools: &[Pool]) -> Vec<Finding> {
    // The pool that lets least through is what counts; see `pool_file::max_children`.
    let tightest = pools
        .iter()
        .min_by_key(|pool| pool.max_children.unwrap_or(usize::MAX));
    let Some(pool) = tightest else {
        return unknown(site, php).into_iter().collect();
    };
    let mut findings = Vec::new();
    let file = pool.file.display().to_string();
    let mode = pool.mode.as_deref().unwrap_or("dynamic");
    if let Some(children) = pool.max_children {
        let found = format!("{children} PHP processes at most (pm = {mode}, {file})");
        findings.push(match php.max_children {
            MaxChildren::Limit(limit) if limit > children => {
                let found = format!(
                    "max_children is {limit}, and the pool has {found}: the others wait in PHP-FPM's backlog, in no order"
                );
                Finding::warning("pool", found).put(site.place(), key(php, "max_children: auto"))
            }
            MaxChildren::Limit(limit) if limit < children => {
                let found = format!("max_children is {limit}, and the pool has {found}: some are never used");
                Finding::note("pool", found).put(site.place(), key(php, "max_children: auto"))
            }
            MaxChildren::Limit(_) | MaxChildren::Auto => Finding::ok("pool", found),
        });
    }
    if mode == "ondemand" {
        let found = "pm = ondemand: after a pause the first page waits for a process to start";
        findings.push(Finding::note("pool", found).put(file.clone(), "pm = dynamic"));
    }
    if let Some(terminate) = pool.terminate
        && terminate > php.first_byte
    {
        let found = format!(
            "request_terminate_timeout is {} and first_byte is {}: a page that takes longer is 504 here, while PHP goes on with it",
            format_duration(terminate),
            format_duration(php.first_byte)
        );
        let line = key(php, &format!("first_byte: {}", format_duration(terminate)));
        findings.push(Finding::note("pool", found).put(site.place(), line));
    }
    if let Some(backlog) = pool.backlog
        && (0..FEW_WAITING).contains(&backlog)
    {
        let found = format!(
            "listen.backlog is {backlog}: connections beyond it are refused when PHP is busy"
        );
        findings.push(Finding::warning("pool", found).put(file, "listen.backlog = 511"));
    }
    findings
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

fn unknown(site: Site<'_>, php: &Settings) -> Option<Finding> {
    if php.max_children != MaxChildren::Auto {
        return None;
    }
    let found = format!(
        "no pool file on this machine listens at {}: without pm.max_children there is no limit here but PHP-FPM's backlog, and no queue",
        php.address
    );
    let finding = Finding::note("pool", found)
        .of(&site.name())
        .put(site.place(), key(php, "max_children: 20"));
    Some(match finding.remedy {
        Some(mut remedy) => {
            remedy.line.push_str("   # pm.max_children of its pool");
            Finding {
                remedy: Some(remedy),
                ..finding
            }
        }
        None => finding,
    })
}

/// `php` with one more key.
fn key(php: &Settings, more: &str) -> String {
    format!("php: {{address: \"{}\", {more}}}", php.address)
}

/// PHP-FPM's own default is 511.
const FEW_WAITING: i64 = 128;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::time::Duration;

    use super::super::finding::Severity;
    use super::*;
    use crate::site::settings::{Preset, SiteSettings};

    fn severities(limit: MaxChildren, pools: &[Pool]) -> Vec<(Severity, Option<String>)> {
        let settings = SiteSettings::new("/srv/w".into(), Preset::Wordpress);
        let site = Site {
            index: 0,
            settings: &settings,
        };
        let php = Settings {
            max_children: limit,
            ..Settings::new("127.0.0.1:9000".parse().unwrap())
        };
        judge(site, &php, pools)
            .into_iter()
            .map(|finding| (finding.severity, finding.remedy.map(|remedy| remedy.line)))
            .collect()
    }

    #[test]
    fn the_settings_are_held_against_the_pool() {
        let pool = Pool {
            max_children: Some(10),
            ..Pool::default()
        };
        let pools = [pool.clone()];
        assert_eq!(
            severities(MaxChildren::Auto, &pools),
            [(Severity::Ok, None)]
        );
        let auto = "php: {address: \"127.0.0.1:9000\", max_children: auto}".to_owned();
        assert_eq!(
            severities(MaxChildren::Limit(50), &pools),
            [(Severity::Warning, Some(auto.clone()))]
        );
        assert_eq!(
            severities(MaxChildren::Limit(5), &pools),
            [(Severity::Note, Some(auto))]
        );
        let slow = Pool {
            mode: Some("ondemand".into()),
            terminate: Some(Duration::from_secs(300)),
            backlog: Some(16),
            ..pool
        };
        let found = severities(MaxChildren::Auto, &[slow]);
        let expected = [
            Severity::Ok,
            Severity::Note,
            Severity::Note,
            Severity::Warning,
        ];
        let severities_of = |found: &[(Severity, Option<String>)]| {
            found
                .iter()
                .map(|(severity, _)| *severity)
                .collect::<Vec<_>>()
        };
        assert_eq!(severities_of(&found), expected);
        assert_eq!(
            found[2].1.as_deref(),
            Some("php: {address: \"127.0.0.1:9000\", first_byte: 5m}")
        );
        let unknown = severities(MaxChildren::Auto, &[]);
        assert_eq!(severities_of(&unknown), [Severity::Note]);
    }
}
