//! Scans for many paths do not displace what is in use (C50).

use std::collections::HashMap;
use std::fs;

use serde_json::Value;

use crate::support::client::request;
use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::nostat::{Config, Nostat};

const HOT: usize = 50;
const SCAN: usize = 20_000;
/// Far fewer than the scan has paths.
const MAX: usize = 1_000;

/// Requests in batches on one connection; the statuses of their answers.
fn scan(server: &Nostat, paths: impl Iterator<Item = String>) -> HashMap<u16, usize> {
    let paths: Vec<_> = paths.collect();
    let mut connection = server.connect();
    let mut statuses = HashMap::new();
    for batch in paths.chunks(50) {
        let requests: Vec<_> = batch
            .iter()
            .map(|path| request("GET", path, &[], b""))
            .collect();
        connection.send(&requests.concat());
        for _ in batch {
            *statuses.entry(connection.read("GET").status).or_default() += 1;
        }
    }
    statuses
}

fn hot() -> impl Iterator<Item = String> {
    (0..HOT).map(|number| format!("/hot-{number}.css"))
}

/// What the cache said to each request whose query is this.
fn outcomes(server: &Nostat, query: &str) -> HashMap<String, usize> {
    let needle = format!(".css?{query}\"");
    let lines = eventually("the access log", || {
        let output = server.output();
        let lines: Vec<String> = output
            .lines()
            .filter(|line| line.contains(&needle))
            .map(str::to_owned)
            .collect();
        (lines.len() == HOT).then_some(lines)
    });
    let mut outcomes = HashMap::new();
    for line in lines {
        let line: Value = serde_json::from_str(&line).unwrap();
        let outcome = line["cache"].as_str().unwrap_or("none").to_owned();
        *outcomes.entry(outcome).or_default() += 1;
    }
    outcomes
}

fn hits(server: &Nostat, query: &str) -> usize {
    assert_eq!(
        scan(server, hot().map(|path| format!("{path}?{query}"))),
        HashMap::from([(200, HOT)])
    );
    outcomes(server, query).get("hit").copied().unwrap_or(0)
}

/// A server with fifty files that were each asked for a hundred times.
fn warm(root: &DocumentRoot) -> Nostat {
    for path in hot() {
        root.write(&path[1..], path.as_bytes());
    }
    let cache = format!("{{max: {MAX}, errors_max: 500, valid: 600s, errors_valid: 600s}}");
    let config = Config::static_files(root)
        .top("open_file_cache", &cache)
        .top("access_log", "{path: \"-\", format: json}");
    let server = Nostat::start(&config);
    server.settled(&format!("/hot-{}.css", HOT - 1));
    for _ in 0..100 {
        scan(&server, hot());
    }
    assert_eq!(hits(&server, "before"), HOT);
    server
}

#[test]
fn a_scan_for_missing_paths_displaces_nothing() {
    let root = DocumentRoot::empty();
    let server = warm(&root);
    let paths = |from, to| (from..to).map(|number| format!("/gone-{number}.php7.css"));
    scan(&server, paths(0, 2_000));
    let before = server.status_kib("VmRSS");
    assert_eq!(
        scan(&server, paths(2_000, SCAN)),
        HashMap::from([(404, SCAN - 2_000)])
    );
    let grown = server.status_kib("VmRSS").saturating_sub(before);
    assert_eq!(hits(&server, "after"), HOT, "displaced");
    assert!(grown < 16 * 1024, "grown by {grown} KiB");
}

#[test]
fn a_scan_over_existing_files_displaces_nothing() {
    let root = DocumentRoot::empty();
    for number in 0..SCAN {
        let folder = root.path().join(format!("d{}", number % 20));
        if number < 20 {
            fs::create_dir(&folder).unwrap();
        }
        fs::write(folder.join(format!("{number}.jpg")), b"x").unwrap();
    }
    let server = warm(&root);
    let paths = |from, to| (from..to).map(|number| format!("/d{}/{number}.jpg", number % 20));
    scan(&server, paths(0, 2_000));
    let before = server.status_kib("VmRSS");
    assert_eq!(
        scan(&server, paths(2_000, SCAN)),
        HashMap::from([(200, SCAN - 2_000)])
    );
    let grown = server.status_kib("VmRSS").saturating_sub(before);
    assert_eq!(hits(&server, "after"), HOT, "displaced");
    assert!(grown < 16 * 1024, "grown by {grown} KiB");
    // Neither does it hold a descriptor of what was asked for once.
    let held = server.descriptor_targets();
    let scanned = held
        .iter()
        .filter(|target| target.ends_with(".jpg"))
        .count();
    assert!(scanned <= 8, "{scanned} held");
}
