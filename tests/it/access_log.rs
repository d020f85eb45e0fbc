//! Lines of the access log in each format.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::document_root::{DocumentRoot, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

/// The JSON object of the only line whose target this is.
#[track_caller]
fn line(server: &Nostat, target: &str) -> Value {
    let lines = eventually(target, || {
        let lines: Vec<Value> = server
            .output()
            .split_inclusive('\n')
            // The last one may be half written.
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect();
        let lines: Vec<Value> = lines
            .into_iter()
            .filter(|line| line["target"] == target)
            .collect();
        (!lines.is_empty()).then_some(lines)
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].clone()
}

#[test]
fn json_tells_each_request_with_what_the_cache_and_the_responder_did() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/page?x=1",
        Script::answers("Status: 404\r\nContent-Type: text/plain\r\n\r\nnone"),
    );
    let config = Config::wordpress(&root, &responder)
        .top("access_log", "{path: \"-\", format: json}")
        .top("open_file_cache", "{valid: 60s, errors_valid: 60s}");
    let server = Nostat::start(&config);
    let fields = [
        ("User-Agent", "test \"quoted\" \\ back"),
        ("Referer", "http://example.org/?a=b"),
    ];
    server.settled(STYLE_PATH);
    server.get_with(&format!("{STYLE_PATH}?1"), &fields);
    server.get("/wp-content/gone.css");
    server.get("/wp-content/gone.css?2");
    server.get("/page?x=1");
    let mut head = server.connect();
    head.request("HEAD", &format!("{STYLE_PATH}?3"), &[], b"");
    let hit = line(&server, &format!("{STYLE_PATH}?1"));
    for (name, value) in [
        ("client", Value::from("127.0.0.1")),
        ("method", "GET".into()),
        ("protocol", "HTTP/1.1".into()),
        ("host", "example.com".into()),
        ("status", 200.into()),
        ("bytes", 10.into()),
        ("referer", "http://example.org/?a=b".into()),
        ("user_agent", "test \"quoted\" \\ back".into()),
        ("cache", "hit".into()),
        ("upstream", Value::Null),
        ("upstream_time", Value::Null),
    ] {
        assert_eq!(hit[name], value, "{name} in {hit}");
    }
    assert!(
        hit["time"].is_number() && hit["timestamp"].is_string(),
        "{hit}"
    );
    let missing = line(&server, "/wp-content/gone.css?2");
    assert_eq!(
        (&missing["status"], &missing["cache"]),
        (&404.into(), &"negative".into()),
        "{missing}"
    );
    let page = line(&server, "/page?x=1");
    assert_eq!(
        (&page["status"], &page["bytes"]),
        (&404.into(), &4.into()),
        "{page}"
    );
    assert!(
        page["upstream_time"].is_number() && !page["upstream"].is_null(),
        "{page}"
    );
    let head = line(&server, &format!("{STYLE_PATH}?3"));
    assert_eq!(
        (&head["method"], &head["bytes"]),
        (&"HEAD".into(), &0.into()),
        "{head}"
    );
}

#[test]
fn a_first_look_is_a_miss_and_a_look_again_is_told() {
    let root = DocumentRoot::wordpress();
    root.write("wp-content/other.css", b"other");
    let config = Config::wordpress_alone(&root).top("access_log", "{path: \"-\", format: json}");
    let server = Nostat::start(&config);
    server.get(&format!("{STYLE_PATH}?first"));
    assert_eq!(
        line(&server, &format!("{STYLE_PATH}?first"))["cache"],
        "miss"
    );
    server.settled(STYLE_PATH);
    let mut number = 0;
    eventually("valid is over", || {
        number += 1;
        let target = format!("{STYLE_PATH}?again{number}");
        server.get(&target);
        (line(&server, &target)["cache"] == "retested").then_some(())
    });
}

#[test]
fn combined_is_the_format_of_nginx_and_cannot_be_forged() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config =
        Config::wordpress(&root, &responder).top("access_log", "{path: \"-\", format: combined}");
    let server = Nostat::start(&config);
    server.send_raw(
        b"GET /wp-content/themes/t/style.css?log HTTP/1.1\r\nHost: example.com\r\nUser-Agent: a\" 200 \xff[2J\r\nReferer: \\x\r\nConnection: close\r\n\r\n",
    );
    let line = eventually("a line", || {
        server
            .output()
            .lines()
            .find(|line| line.contains("style.css?log"))
            .map(str::to_owned)
    });
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(
        line.contains("] \"GET /wp-content/themes/t/style.css?log HTTP/1.1\" 200 10 \""),
        "{line}"
    );
    assert!(
        line.is_ascii() && !line.contains('\x1b') && !line.contains("a\" 200"),
        "{line}"
    );
}

#[test]
fn refused_requests_are_lines_too() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .top("access_log", "{path: \"-\", format: json}")
        .top("limits", "{max_body: 1KiB}");
    let server = Nostat::start(&config);
    server.get("/.env");
    server.get("/%zz");
    server.send("POST", &format!("{STYLE_PATH}?post"), &[], b"");
    let mut connection = server.connect();
    connection
        .send_lossy(b"POST /big HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5000\r\n\r\n");
    assert_eq!(connection.read("POST").status, 413);
    for (target, statuses) in [
        ("/.env", [403, 404]),
        ("/%zz", [400, 400]),
        (&format!("{STYLE_PATH}?post"), [405, 405]),
        ("/big", [413, 413]),
    ] {
        let line = line(&server, target);
        assert!(
            statuses.iter().any(|&status| line["status"] == status),
            "{line}"
        );
        assert_eq!(line["client"], "127.0.0.1");
    }
}

#[test]
fn a_client_that_left_is_499() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/sleep", Script::stalls_before_head());
    let server = Nostat::start(
        &Config::wordpress(&root, &responder).top("access_log", "{path: \"-\", format: json}"),
    );
    let mut connection = server.connect();
    connection.send(b"GET /sleep HTTP/1.1\r\nHost: example.com\r\n\r\n");
    responder.wait_for(1);
    connection.reset();
    assert_eq!(line(&server, "/sleep")["status"], 499);
}

#[test]
fn the_client_behind_a_trusted_proxy_is_the_one_named() {
    let root = DocumentRoot::wordpress();
    let config = Config::wordpress_alone(&root)
        .top("access_log", "{path: \"-\", format: json}")
        .top("trusted_proxies", "[\"127.0.0.1\"]");
    let server = Nostat::start(&config);
    server.get_with(STYLE_PATH, &[("X-Forwarded-For", "203.0.113.9")]);
    assert_eq!(line(&server, STYLE_PATH)["client"], "203.0.113.9");
}

#[test]
fn a_log_file_is_opened_again_on_sigusr1() {
    let root = DocumentRoot::wordpress();
    let log = root.outside().join("access.log");
    let config = Config::wordpress_alone(&root).top(
        "access_log",
        &format!("{{path: \"{}\", format: combined}}", log.display()),
    );
    let server = Nostat::start(&config);
    server.get(&format!("{STYLE_PATH}?before"));
    let holds = |path: &std::path::Path, text: &str| {
        fs::read_to_string(path).is_ok_and(|lines| lines.contains(text))
    };
    eventually("the first line", || holds(&log, "?before").then_some(()));
    let rotated = root.outside().join("access.log.1");
    fs::rename(&log, &rotated).unwrap();
    server.signal(Signal::USR1);
    eventually("the file is there again", || log.exists().then_some(()));
    server.get(&format!("{STYLE_PATH}?after"));
    eventually("the next line", || holds(&log, "?after").then_some(()));
    assert!(holds(&rotated, "?before") && !holds(&log, "?before"));
    // Off is off.
    let server = Nostat::start(&Config::wordpress_alone(&root));
    server.get(STYLE_PATH);
    server.get(STYLE_PATH);
    assert_eq!(server.output(), "");
}
