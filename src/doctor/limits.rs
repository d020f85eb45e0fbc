//! Descriptors: how many connections and cached files the process' limit leaves room for.

use nix::sys::resource::{Resource, getrlimit};

use super::finding::{Finding, SETTINGS, UNIT};
use crate::descriptor_cache::DescriptorBudget;
use crate::server;
use crate::settings::Settings;

/// Judges the limit of who asks. The service may have another: systemd sets it.
#[must_use]
pub fn examine(settings: &Settings) -> Vec<Finding> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Vec::new();
    };
    judge(soft, hard, server::fastcgi_slots(settings), settings)
}

/// The soft limit is raised to the hard one at start, so the hard one counts.
fn judge(soft: u64, hard: u64, slots: usize, settings: &Settings) -> Vec<Finding> {
    let limit = usize::try_from(hard).unwrap_or(usize::MAX);
    let budget = DescriptorBudget::from_limit(limit, slots);
    let found = format!(
        "RLIMIT_NOFILE is {soft}, {hard} at most: {} connections and {} cached descriptors beside {slots} requests at PHP",
        budget.connections, budget.cached
    );
    let first = match budget.connections {
        0..FEWEST_CONNECTIONS => Finding::problem("descriptors", found).put(UNIT, LINE),
        FEWEST_CONNECTIONS..FEW_CONNECTIONS => {
            Finding::warning("descriptors", found).put(UNIT, LINE)
        }
        _ => Finding::ok("descriptors", found),
    };
    let mut findings = vec![first];
    if let Some(wanted) = settings.limits.connections
        && wanted > budget.connections
    {
        let found = format!(
            "limits.connections is {wanted}, and descriptors are left for {}",
            budget.connections
        );
        findings.push(Finding::warning("descriptors", found).put(UNIT, line_for(wanted)));
    }
    if let Some(wanted) = settings.cache.descriptors
        && wanted > budget.cached
    {
        let found = format!(
            "open_file_cache.descriptors is {wanted}, and the limit leaves {}: connections would find none",
            budget.cached
        );
        findings.push(
            Finding::warning("descriptors", found)
                .put(SETTINGS, "open_file_cache: {descriptors: auto}"),
        );
    }
    findings
}

/// Twice the connections, and some.
fn line_for(connections: usize) -> String {
    let limit = connections.saturating_mul(2).saturating_add(1024);
    format!("LimitNOFILE={}", limit.max(262_144))
}

const LINE: &str = "LimitNOFILE=262144";
const FEWEST_CONNECTIONS: usize = 256;
const FEW_CONNECTIONS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn settings() -> Settings {
        Settings::for_root("/srv/w".into(), None, None)
    }

    #[test]
    fn the_hard_limit_counts() {
        let severity = |hard| judge(1024, hard, 20, &settings())[0].severity;
        assert_eq!(severity(262_144), Severity::Ok);
        assert_eq!(severity(1024), Severity::Warning);
        assert_eq!(severity(256), Severity::Problem);
        let first = judge(1024, 4096, 20, &settings()).remove(0);
        assert!(
            first.found.contains("2012 connections and 2012 cached"),
            "{}",
            first.found
        );
        assert_eq!(
            first.remedy.map(|remedy| remedy.line),
            Some(LINE.to_owned())
        );
    }

    #[test]
    fn more_connections_than_descriptors_are_named() {
        let mut settings = settings();
        settings.limits.connections = Some(200_000);
        let findings = judge(1024, 20_000, 0, &settings);
        let remedy = findings[1].remedy.clone().map(|remedy| remedy.line);
        assert_eq!(remedy.as_deref(), Some("LimitNOFILE=401024"));
    }
}
