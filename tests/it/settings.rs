//! Configuration files: what is refused and how it is said.

use std::fs;
use std::process::Command;

use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::nostat::{BINARY, Config, Nostat};

/// Exit code and everything said by `nostat check` about this text.
fn check(root: &DocumentRoot, text: &[u8]) -> (Option<i32>, String) {
    let file = root.outside().join("nostat.yaml");
    fs::write(&file, text).unwrap();
    let output = Command::new(BINARY)
        .args(["check", "--config"])
        .arg(&file)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// A good file of eight lines.
fn good(root: &DocumentRoot) -> String {
    let spool = root.outside().join("spool");
    fs::create_dir_all(&spool).unwrap();
    Config::static_files(root).render("127.0.0.1:8080", &spool)
}

#[test]
fn a_good_file_is_exit_0() {
    let root = DocumentRoot::wordpress();
    let text = good(&root);
    for text in [
        text.clone(),
        text.replace('\n', "\r\n"),
        format!("\u{feff}{text}"),
        format!("# a comment\n\n---\n{text}"),
    ] {
        let (code, said) = check(&root, text.as_bytes());
        assert_eq!(code, Some(0), "{said}\n{text}");
    }
}

#[test]
fn each_mistake_is_told_with_its_place_and_all_at_once() {
    let root = DocumentRoot::wordpress();
    let text = good(&root);
    let next = text.lines().count() + 1;
    for (line, column, needle) in [
        ("nonsense: 1", 1, "nonsense"),
        ("limit: {send: 1s}", 1, "limits"),
        ("limits: {send: 1 fortnight}", 16, "send"),
        ("limits: {send: -1s}", 16, "send"),
        ("limits: {max_body: lots}", 20, "max_body"),
        ("limits: {headers: many}", 19, "headers"),
        ("limits: [1]", 9, "limits"),
        ("limits: {sent: 1s}", 10, "sent"),
        ("workers: 1", 1, "workers"),
        ("trusted_proxies: [\"10.0.0.0/33\"]", 19, "trusted_proxies"),
        ("user: no-such-user-here", 7, "user"),
    ] {
        let (code, said) = check(&root, format!("{text}{line}\n").as_bytes());
        assert_eq!(code, Some(1), "{line}: {said}");
        assert!(
            said.contains(&format!("nostat.yaml:{next}:{column}:")),
            "{line}: {said}"
        );
        assert!(said.contains(needle), "{line}: {said}");
    }
    let (code, said) = check(
        &root,
        format!("{text}nonsense: 1\nlimits: {{send: fast, url: long}}\nmore: 2\n").as_bytes(),
    );
    assert_eq!(code, Some(1));
    for place in [
        format!(":{next}:1:"),
        format!(":{}:16:", next + 1),
        format!(":{}:27:", next + 1),
        format!(":{}:1:", next + 2),
    ] {
        assert!(said.contains(&place), "{place} in {said}");
    }
}

#[test]
fn keys_of_a_site_are_checked() {
    let root = DocumentRoot::wordpress();
    let text = good(&root);
    let next = text.lines().count() + 1;
    for line in [
        "colour: red",
        "preset: drupal",
        "symlinks: perhaps",
        "htaccess: maybe",
        "etag: strong",
        "hosts: \"not a host\"",
        "php: {address: \"unix:/run/x.sock\", waits: 1s}",
        "cache_control: [{match: \"*.css\", value: \"a\\nb\"}]",
        "headers: [{match: \"*.css\", set: {\"Bad Name\": x}}]",
    ] {
        let (code, said) = check(&root, format!("{text}    {line}\n").as_bytes());
        assert_eq!(code, Some(1), "{line}: {said}");
        assert!(
            said.contains(&format!("nostat.yaml:{next}:")),
            "{line}: {said}"
        );
    }
}

#[test]
fn what_is_no_yaml_of_ours_is_refused_in_words() {
    let root = DocumentRoot::wordpress();
    let text = good(&root);
    let cases: [(&str, Vec<u8>); 9] = [
        ("empty", Vec::new()),
        ("a list", b"- 1\n- 2\n".to_vec()),
        ("a word", b"hello\n".to_vec()),
        ("a tab", text.replace("  - ", "\t- ").into_bytes()),
        ("a NUL", format!("{text}\0").into_bytes()),
        ("no UTF-8", [text.as_bytes(), b"# \xff\xfe\n"].concat()),
        (
            "an open bracket",
            format!("{text}limits: {{send: 1s\n").into_bytes(),
        ),
        ("two documents", format!("{text}---\n{text}").into_bytes()),
        ("an endless anchor", b"a: &a [*a, *a]\n".to_vec()),
    ];
    for (name, bytes) in cases {
        let (code, said) = check(&root, &bytes);
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(
            said.contains("nostat.yaml") && !said.contains("panicked"),
            "{name}: {said}"
        );
    }
    let output = Command::new(BINARY)
        .args(["check", "--config", "/nonexistent/nostat.yaml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent/nostat.yaml"));
}

#[test]
fn a_root_that_is_not_there_is_a_mistake() {
    let root = DocumentRoot::wordpress();
    let text = good(&root).replace(&root.path().display().to_string(), "/nonexistent/root");
    let (code, said) = check(&root, text.as_bytes());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("/nonexistent/root"), "{said}");
}

#[test]
fn help_and_version_are_told() {
    for (argument, text) in [("--help", "serve"), ("--version", "nostat")] {
        let output = Command::new(BINARY).arg(argument).output().unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stdout).contains(text),
            "{argument}"
        );
    }
    let output = Command::new(BINARY).arg("--nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_ten_lines_of_the_design_are_enough() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::wordpress_alone(&root));
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}
