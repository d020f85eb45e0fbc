//! `nostat doctor`: what it says of a small tree, and its exit status.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::document_root::DocumentRoot;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{BINARY, Config, Nostat};

/// What a run said.
struct Said {
    code: Option<i32>,
    report: Value,
    error: String,
}

/// One finding.
struct Told<'s> {
    severity: &'s str,
    found: &'s str,
    line: &'s str,
}

impl Said {
    /// The findings of a check.
    fn of(&self, check: &str) -> Vec<Told<'_>> {
        let findings = self.report["findings"].as_array().unwrap();
        findings
            .iter()
            .filter(|finding| finding["check"] == check)
            .map(|finding| Told {
                severity: finding["severity"].as_str().unwrap(),
                found: finding["found"].as_str().unwrap(),
                line: finding["line"].as_str().unwrap_or_default(),
            })
            .collect()
    }

    /// The only finding of a check, or the first.
    #[track_caller]
    fn first(&self, check: &str) -> Told<'_> {
        let told = self.of(check).into_iter().next();
        told.unwrap_or_else(|| panic!("nothing of {check}: {:#}", self.report))
    }
}

fn write_settings(root: &DocumentRoot, config: &Config, listen: &str) -> PathBuf {
    let file = root.outside().join("nostat.yaml");
    let spool = root.outside().join("spool");
    fs::create_dir_all(&spool).unwrap();
    fs::write(&file, config.render(listen, &spool)).unwrap();
    file
}

fn examine(root: &DocumentRoot, config: &Config, words: &[&str]) -> Said {
    // Nothing is bound: the port of a server that runs does as well.
    let file = write_settings(root, config, "127.0.0.1:1");
    examine_file(&file, words)
}

fn examine_file(file: &std::path::Path, words: &[&str]) -> Said {
    let output = Command::new(BINARY)
        .args(["doctor", "--json", "--config"])
        .arg(file)
        .args(words)
        .output()
        .unwrap();
    Said {
        code: output.status.code(),
        report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

fn with_admin_off(config: Config) -> Config {
    config.top("admin", "off")
}

#[test]
fn a_sound_machine_has_no_problem() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-includes/version.php", b"<?php");
    let said = examine(
        &root,
        &with_admin_off(Config::wordpress(&root, &responder)),
        &[],
    );
    assert_eq!(said.code, Some(0), "{:#}", said.report);
    assert_eq!(said.report["problems"], 0);
    assert_eq!(said.error, "");
    let php = said.first("php");
    assert_eq!(php.severity, "ok");
    assert!(php.found.contains("sees the same tree"), "{}", php.found);
    // One script that cannot exist, one that sets variables: no page of WordPress was made.
    let scripts: Vec<String> = responder
        .requests()
        .iter()
        .map(|seen| seen.param("SCRIPT_NAME").to_owned())
        .collect();
    assert_eq!(scripts.len(), 2);
    assert!(scripts[0].starts_with("/nostat-doctor-"), "{scripts:?}");
    assert_eq!(scripts[1], "/wp-includes/version.php");
}

#[test]
fn what_htaccess_says_comes_with_the_key_that_does_it() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write(
        "wp-content/uploads/.htaccess",
        b"Header set X-Robots-Tag noindex\n",
    );
    let config = with_admin_off(Config::wordpress(&root, &responder));
    let said = examine(&root, &config, &[]);
    let line = "headers: [{match: \"/wp-content/uploads/\", set: {X-Robots-Tag: \"noindex\"}}]";
    let found = said.of("htaccess");
    let told = found.iter().find(|told| told.line == line).unwrap();
    assert_eq!(told.severity, "warning");
    let place = "/wp-content/uploads/.htaccess:1: Header";
    assert!(told.found.starts_with(place), "{}", told.found);
    let key = line.strip_prefix("headers: ").unwrap();
    let said = examine(&root, &config.site("headers", key), &[]);
    let is_ok = said.of("htaccess").iter().all(|told| told.severity == "ok");
    assert!(is_ok, "the line, put in, is enough: {:#}", said.report);
}

#[test]
fn a_refused_link_comes_with_its_link_targets() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let shared = root.outside().canonicalize().unwrap().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("a.css"), "a").unwrap();
    // Deeper than what is adopted by itself.
    root.link("wp-content/uploads/2024/deep", &shared);
    let config = with_admin_off(Config::wordpress(&root, &responder));
    let said = examine(&root, &config, &[]);
    assert_eq!(said.code, Some(1));
    let told = said.first("links");
    let line = format!("link_targets: [\"{}\"]", shared.display());
    assert_eq!((told.severity, told.line), ("problem", line.as_str()));
    let key = line.strip_prefix("link_targets: ").unwrap();
    let said = examine(&root, &config.site("link_targets", key), &[]);
    assert_eq!(said.code, Some(0), "{:#}", said.report);
    assert_eq!(said.first("links").severity, "ok");
}

#[test]
fn php_that_is_not_there_or_elsewhere_is_a_problem() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-includes/version.php", b"<?php");
    let config = with_admin_off(Config::wordpress(&root, &responder));
    let missing = "Status: 404 Not Found\r\nContent-type: text/html\r\n\r\nFile not found.\n";
    responder.on("/wp-includes/version.php", Script::answers(missing));
    let said = examine(&root, &config, &[]);
    assert_eq!(said.code, Some(1));
    let told = said.first("php");
    assert_eq!(told.severity, "problem");
    assert!(told.found.contains("sees no"), "{}", told.found);
    assert!(told.line.contains("root: "), "{}", told.line);

    let nobody = config.site("php", "\"unix:/nonexistent/php.sock\"");
    let said = examine(&root, &nobody, &[]);
    assert_eq!(said.code, Some(1));
    assert!(said.first("php").found.contains("cannot be reached"));
}

#[test]
fn a_network_of_sites_is_told_and_no_password() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write(
        "wp-config.php",
        b"<?php define('DB_PASSWORD', 'geheim'); define('MULTISITE', true);",
    );
    let config = with_admin_off(Config::wordpress(&root, &responder));
    let said = examine(&root, &config, &[]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.first("wp_config").line, "multisite: subdirectory");
    assert!(!said.report.to_string().contains("geheim"));
}

#[test]
fn a_root_that_the_servers_user_may_not_read_is_a_problem() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    fs::set_permissions(root.outside(), fs::Permissions::from_mode(0o700)).unwrap();
    let config = with_admin_off(Config::wordpress(&root, &responder)).top("user", "nobody");
    let said = examine(&root, &config, &[]);
    assert_eq!(said.code, Some(1));
    let told = said.first("root");
    assert_eq!(told.severity, "problem");
    assert!(
        told.found.contains("user nobody may not read"),
        "{}",
        told.found
    );
}

#[test]
fn two_servers_are_held_side_by_side() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    // The other server has another b.png, and its page and style sheet name three files.
    let other = DocumentRoot::wordpress();
    for (root, image) in [(&root, &b"png"[..]), (&other, b"another")] {
        root.write("a.css", b"a{background:url(b.png)}");
        root.write("b.png", image);
        root.write("c.js", b"same");
    }
    let page =
        "Content-Type: text/html\r\n\r\n<link href=\"/a.css\"><script src=\"/c.js\"></script>";
    responder.on("/", Script::answers(page));
    let start = |root| Nostat::start(&with_admin_off(Config::wordpress(root, &responder)));
    let (here, there) = (start(&root), start(&other));

    let config = with_admin_off(Config::wordpress(&root, &responder));
    let file = write_settings(&root, &config, &format!("127.0.0.1:{}", here.port()));
    let url = format!("http://127.0.0.1:{}/", there.port());
    let said = examine_file(&file, &["--compare", &url]);
    let comparison = &said.report["comparison"];
    assert_eq!(comparison["files"], 3, "{comparison:#}");
    assert_eq!(
        comparison["differences"],
        serde_json::json!([{"path": "/b.png", "what": "bytes", "there": "7", "here": "3"}])
    );
    assert_eq!(said.first("compare").severity, "warning");
}

#[test]
fn usage_errors_are_status_2() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder);
    let said = examine(&root, &config, &["--compare", "https://example.com/"]);
    assert_eq!(said.code, Some(2));
    let why = "https is not compared yet";
    assert!(said.error.contains(why), "{}", said.error);
    let said = examine(&root, &config.site("nonsense", "1"), &[]);
    assert_eq!(said.code, Some(2));
    assert!(said.error.contains("nonsense"), "{}", said.error);
    let alone = Command::new(BINARY).arg("doctor").output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn a_report_has_no_colour_in_a_pipe() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let file = write_settings(&root, &Config::wordpress(&root, &responder), "127.0.0.1:1");
    let output = Command::new(BINARY)
        .args(["doctor", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.contains("RLIMIT_NOFILE is"), "{text}");
    assert!(text.lines().last().unwrap().ends_with(" ok"), "{text}");
}
