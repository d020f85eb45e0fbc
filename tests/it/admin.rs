//! What an administrator asks a running server over its socket.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::document_root::{DocumentRoot, STYLE_PATH};
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{BINARY, Config, Nostat};
use crate::support::{DEADLINE, eventually};

/// The configuration with an admin socket, and the socket.
pub fn with_socket(root: &DocumentRoot, config: Config) -> (Config, PathBuf) {
    let socket = root.outside().join("admin.sock");
    let keys = format!("{{socket: \"{}\"}}", socket.display());
    (config.top("admin", &keys), socket)
}

/// Status and body of an answer.
pub fn ask(socket: &Path, method: &str, path: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().unwrap();
    (status, body.to_owned())
}

fn command(words: &[&str], socket: &Path) -> Output {
    let mut command = Command::new(BINARY);
    command.args(words).arg("--socket").arg(socket);
    command.output().unwrap()
}

/// The value of a sample, by its name with its labels.
pub fn sample(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim().parse().expect("a number"))
}

#[test]
fn a_server_that_runs_is_healthy_and_ready_and_its_socket_is_not_for_everybody() {
    let root = DocumentRoot::wordpress();
    let (config, socket) = with_socket(&root, Config::static_files(&root));
    let server = Nostat::start(&config);
    assert_eq!(ask(&socket, "GET", "/healthz"), (200, "ok\n".into()));
    assert_eq!(ask(&socket, "GET", "/readyz"), (200, "ready\n".into()));
    assert_eq!(ask(&socket, "GET", "/nothing").0, 404);
    assert_eq!(ask(&socket, "POST", "/metrics").0, 405);
    assert_eq!(ask(&socket, "GET", "/reload").0, 405);
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    server.stop();
    assert!(!socket.exists(), "left behind");
}

#[test]
fn requests_are_counted_by_site_by_who_answered_and_by_status() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).site("hosts", "[example.com]");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    server.settled(STYLE_PATH);
    let before = ask(&socket, "GET", "/metrics").1;
    for _ in 0..5 {
        server.get(STYLE_PATH);
    }
    server.get("/wp-content/missing.css");
    server.get("/a-page/");
    server.get_with("/", &[("Host", "other.example")]);
    let after = ask(&socket, "GET", "/metrics").1;
    for (name, more) in [
        (
            "nostat_requests_total{site=\"example.com\",kind=\"static\",status=\"200\"}",
            5,
        ),
        (
            "nostat_requests_total{site=\"example.com\",kind=\"static\",status=\"404\"}",
            1,
        ),
        (
            "nostat_requests_total{site=\"example.com\",kind=\"php\",status=\"200\"}",
            1,
        ),
        (
            "nostat_requests_total{site=\"\",kind=\"refused\",status=\"421\"}",
            1,
        ),
        ("nostat_cache_lookups_total{outcome=\"hit\"}", 5),
    ] {
        let counted = sample(&after, name).unwrap_or(0) - sample(&before, name).unwrap_or(0);
        let exact = !name.contains("lookups");
        assert!(
            counted == more || (!exact && counted > more),
            "{name}: {counted}\n{after}"
        );
    }
    let opened = "nostat_file_system_calls_total{call=\"open\"}";
    assert!(sample(&after, opened).is_some_and(|opens| opens > 0));
    assert_eq!(sample(&after, "nostat_connections"), Some(0));
    let shown = command(&["status"], &socket);
    assert!(shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stdout).contains("nostat_build_info{version="));
}

#[test]
fn a_reload_says_what_came_of_it() {
    let root = DocumentRoot::wordpress();
    let (config, socket) = with_socket(&root, Config::static_files(&root));
    let server = Nostat::start(&config);
    assert_eq!(ask(&socket, "POST", "/reload"), (200, "reloaded\n".into()));
    server.rewrite_text("listen: nonsense\nsites: 3\n");
    let (status, why) = ask(&socket, "POST", "/reload");
    assert_eq!(status, 422);
    assert!(
        why.contains(":1:9: listen:") && why.contains(":2:8: sites:"),
        "{why}"
    );
    let refused = command(&["reload"], &socket);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains(":1:9: listen:"));
    server.get(STYLE_PATH);
    server.rewrite(&config);
    assert!(command(&["reload"], &socket).status.success());
    let metrics = ask(&socket, "GET", "/metrics").1;
    let counted = |result| {
        sample(
            &metrics,
            &format!("nostat_reloads_total{{result=\"{result}\"}}"),
        )
    };
    assert_eq!((counted("done"), counted("refused")), (Some(2), Some(2)));
}

#[test]
fn counts_go_on_after_a_reload() {
    let root = DocumentRoot::wordpress();
    let (config, socket) = with_socket(&root, Config::static_files(&root));
    let server = Nostat::start(&config);
    let counted = || {
        let metrics = ask(&socket, "GET", "/metrics").1;
        let name = format!(
            "nostat_requests_total{{site=\"{}\",kind=\"static\",status=\"200\"}}",
            root.path().display()
        );
        sample(&metrics, &name).unwrap_or(0)
    };
    server.get(STYLE_PATH);
    let before = counted();
    assert!(before > 0);
    assert_eq!(ask(&socket, "POST", "/reload").0, 200);
    server.get(STYLE_PATH);
    assert_eq!(counted(), before + 1);
}

#[test]
fn what_is_left_of_a_dead_process_is_replaced_and_a_living_one_is_not() {
    let root = DocumentRoot::wordpress();
    let (config, socket) = with_socket(&root, Config::static_files(&root));
    drop(UnixListener::bind(&socket).unwrap());
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    let first = Nostat::start(&config);
    assert_eq!(ask(&socket, "GET", "/healthz").0, 200);
    let file = first.work().join("nostat.yaml");
    let text = fs::read_to_string(file).unwrap();
    let other = root.outside().join("other.yaml");
    let port = crate::support::nostat::free_port();
    let old = format!("127.0.0.1:{}", first.port());
    fs::write(&other, text.replace(&old, &format!("127.0.0.1:{port}"))).unwrap();
    let second = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(&other)
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("admin.sock") && said.contains("another server answers there"),
        "{said}"
    );
    assert_eq!(
        ask(&socket, "GET", "/healthz").0,
        200,
        "the first one goes on"
    );
}

#[test]
fn nobody_behind_the_socket_is_told_with_what_to_do() {
    let root = DocumentRoot::empty();
    let asked = command(&["status"], &root.outside().join("none.sock"));
    assert!(!asked.status.success());
    assert!(String::from_utf8_lossy(&asked.stderr).contains("admin: {socket"));
}

/// The JSON of an answer.
fn json(socket: &Path, method: &str, path: &str) -> serde_json::Value {
    let (status, text) = ask(socket, method, path);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_the_caches_hold_is_listed_explained_and_forgotten() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/about/",
        Script::answers("Content-Type: text/html\r\nCache-Tag: post-7\r\n\r\n<html>kept"),
    );
    let config = Config::wordpress(&root, &responder).site("page_cache", "memory");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    server.settled(STYLE_PATH);
    server.get(STYLE_PATH);
    server.get("/wp-content/missing.css");
    server.get("/about/");
    server.get("/about/");

    let held = json(&socket, "GET", "/cache?prefix=/wp-content/");
    let file = |path: &str| {
        let files = held["files"].as_array().unwrap();
        files
            .iter()
            .find(|file| file["path"] == path)
            .unwrap_or_else(|| panic!("{path} in {held:#}"))
            .clone()
    };
    let style = file(STYLE_PATH);
    assert_eq!(style["kind"], "file");
    assert_eq!(style["tier"], "memory");
    assert!(
        ["watch", "valid"]
            .iter()
            .any(|by| style["vouched_by"] == *by),
        "{style}"
    );
    assert_eq!(file("/wp-content/missing.css")["kind"], "missing");
    assert_eq!(
        json(&socket, "GET", "/cache?prefix=/nothing/")["files"],
        serde_json::json!([])
    );
    let page = &json(&socket, "GET", "/cache?prefix=/about&kind=page")["pages"][0];
    assert_eq!(
        (&page["path"], &page["host"]),
        (&"/about".into(), &"example.com".into())
    );
    assert_eq!(page["tags"], serde_json::json!(["post-7"]));
    assert_eq!(ask(&socket, "GET", "/cache?site=nobody").0, 404);

    for (path, kind, status) in [
        (STYLE_PATH, "file", Some(200)),
        ("/about/", "page", None),
        ("/.git/config", "refused", Some(403)),
        ("/wp-content/missing.css", "missing", Some(404)),
        ("/wp-content", "folder", Some(301)),
    ] {
        let said = json(&socket, "GET", &format!("/cache/entry?path={path}"));
        let site = &said["sites"][0];
        assert_eq!(site["kind"], kind, "{path}: {said:#}");
        assert_eq!(site["status"].as_u64(), status, "{path}");
    }
    let shown = command(&["cache", "show", "/.git/config"], &socket);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("refused: a segment of it begins with a dot"),
        "{text}"
    );
    let listed = command(&["cache", "ls", "/wp-content/"], &socket);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("TIER") && text.contains(STYLE_PATH), "{text}");

    assert_eq!(ask(&socket, "POST", "/cache/purge").0, 400);
    assert_eq!(ask(&socket, "GET", "/cache/purge?all").0, 405);
    let purged = json(&socket, "POST", "/cache/purge?tag=post-7");
    assert_eq!((&purged["pages"], &purged["files"]), (&1.into(), &0.into()));
    let purged = command(&["cache", "purge", "--prefix", "/wp-content/"], &socket);
    let text = String::from_utf8_lossy(&purged.stdout).into_owned();
    assert!(
        text.starts_with("forgotten: ") && !text.starts_with("forgotten: 0 files"),
        "{text}"
    );
    assert_eq!(
        json(&socket, "GET", "/cache?prefix=/wp-content/&kind=file")["files"],
        serde_json::json!([])
    );
    assert_eq!(server.get(STYLE_PATH).status, 200);

    let warmed = json(&socket, "POST", "/cache/warm?path=*.css");
    assert!(
        warmed["files"].as_u64().is_some_and(|files| files > 0),
        "{warmed}"
    );
    assert_eq!(ask(&socket, "POST", "/cache/warm").0, 400);
}

#[test]
fn pages_are_counted_by_what_the_cache_did() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/about/",
        Script::answers("Content-Type: text/html\r\n\r\n<html>kept"),
    );
    responder.on("/own/", Script::answers("Set-Cookie: a=b\r\n\r\nown"));
    let config = Config::wordpress(&root, &responder)
        .site("hosts", "[example.com]")
        .site("page_cache", "memory");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    for _ in 0..3 {
        server.get("/about/");
    }
    server.get_with("/about/", &[("Cookie", "wordpress_logged_in_0=me")]);
    server.get("/own/");
    let metrics = ask(&socket, "GET", "/metrics").1;
    for (name, count) in [
        (
            "nostat_page_cache_requests_total{site=\"example.com\",outcome=\"hit\"}",
            2,
        ),
        (
            "nostat_page_cache_requests_total{site=\"example.com\",outcome=\"miss\"}",
            2,
        ),
        (
            "nostat_page_cache_bypass_total{site=\"example.com\",reason=\"cookie\"}",
            1,
        ),
        (
            "nostat_page_cache_refused_total{site=\"example.com\",reason=\"set_cookie\"}",
            1,
        ),
        ("nostat_page_cache_pages{store=\"memory\"}", 1),
        (
            "nostat_requests_total{site=\"example.com\",kind=\"page\",status=\"200\"}",
            2,
        ),
        (
            "nostat_requests_total{site=\"example.com\",kind=\"php\",status=\"200\"}",
            3,
        ),
    ] {
        assert_eq!(sample(&metrics, name), Some(count), "{name}\n{metrics}");
    }
}

#[test]
fn over_tcp_health_is_free_metrics_are_for_this_machine_and_all_else_needs_the_token() {
    let root = DocumentRoot::wordpress();
    let token = root.outside().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let port = crate::support::nostat::free_port();
    let keys = format!(
        "{{socket: off, listen: \"127.0.0.1:{port}\", token_file: \"{}\"}}",
        token.display()
    );
    let server = Nostat::start(&Config::static_files(&root).top("admin", &keys));
    let status = |method: &str, path: &str, fields: &[(&str, &str)]| {
        let address = ([127, 0, 0, 1], port).into();
        let mut connection = crate::support::client::Connection::open(address);
        let mut fields = fields.to_vec();
        if fields.iter().all(|(name, _)| *name != "Host") {
            fields.push(("Host", "localhost"));
        }
        connection.request(method, path, &fields, b"").status
    };
    let token = [("Authorization", "Bearer 0123456789abcdef")];
    assert_eq!(status("GET", "/healthz", &[("Host", "any.example")]), 200);
    assert_eq!(status("GET", "/readyz", &[]), 200);
    assert_eq!(status("GET", "/metrics", &[]), 200);
    assert_eq!(status("GET", "/metrics", &[("Host", "evil.example")]), 421);
    assert_eq!(status("GET", "/", &[]), 200);
    assert_eq!(status("GET", "/overview", &[]), 200);
    assert_eq!(status("GET", "/", &[("Host", "evil.example")]), 421);
    assert_eq!(status("GET", "/overview", &[("Host", "evil.example")]), 421);
    assert_eq!(status("GET", "/cache", &[]), 401);
    assert_eq!(status("POST", "/reload", &[]), 401);
    assert_eq!(
        status(
            "POST",
            "/reload",
            &[("Authorization", "Bearer 0123456789abcdeX")]
        ),
        401
    );
    assert_eq!(status("GET", "/cache", &token), 200);
    assert_eq!(status("POST", "/reload", &token), 200);
    assert_eq!(server.get(STYLE_PATH).status, 200);
}

#[test]
fn failures_of_php_are_counted_by_kind() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/crash/", Script::closes_after(""));
    responder.on("/garbage/", Script::answers("no head at all"));
    let (config, socket) = with_socket(&root, Config::wordpress(&root, &responder));
    let server = Nostat::start(&config);
    assert_eq!(server.get("/crash/").status, 502);
    assert_eq!(server.get("/garbage/").status, 502);
    fs::remove_file(responder.socket()).unwrap();
    assert_eq!(server.get("/gone/").status, 502);
    let metrics = ask(&socket, "GET", "/metrics").1;
    for (kind, count) in [
        ("closed", 1),
        ("answer", 1),
        ("connect", 1),
        ("timeout", 0),
        ("busy", 0),
    ] {
        let address = responder.address();
        let name = format!("nostat_upstream_errors_total{{address=\"{address}\",kind=\"{kind}\"}}");
        assert_eq!(sample(&metrics, &name), Some(count), "{name}\n{metrics}");
    }
}

/// Head and body of an answer.
fn ask_whole(socket: &Path, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn the_overview_tells_what_is_going_on() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/slow/?key=secret",
        Script::does(
            || std::thread::sleep(std::time::Duration::from_millis(150)),
            "Content-Type: text/html\r\n\r\n<html>at last",
        ),
    );
    responder.on(
        "/own/",
        Script::answers("Content-Type: text/html\r\n\r\n<html>"),
    );
    let config = Config::wordpress(&root, &responder)
        .site("hosts", "[example.com]")
        .site("page_cache", "memory");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    server.settled(STYLE_PATH);
    for _ in 0..400 {
        server.get(STYLE_PATH);
    }
    server.get("/slow/?key=secret");
    server.get_with("/own/", &[("Cookie", "theme=dark; evil%22=1; a]b=2")]);

    let said = eventually("both answers of PHP are counted", || {
        let said = json(&socket, "GET", "/overview");
        let php = said["sites"][0]["requests"]["php"].as_u64();
        (php == Some(2)).then_some(said)
    });
    let requests = said["requests"].as_array().unwrap();
    let counted = |kind: &str, status: u64| {
        let found = requests
            .iter()
            .find(|line| line["kind"] == kind && line["status"] == status);
        found.and_then(|line| line["count"].as_u64()).unwrap_or(0)
    };
    assert!(counted("static", 200) >= 400, "{said:#}");
    assert_eq!(counted("php", 200), 2);
    assert!(said["cache"]["lookups"]["hit"].as_u64() >= Some(400));
    assert!(said["cache"]["avoided"].as_u64() >= Some(1200));
    assert_eq!(said["state"], "serving");
    assert_eq!(said["sites"][0]["name"], "example.com");
    assert_eq!(said["sites"][0]["page_cache"], "memory");
    assert_eq!(said["responders"][0]["address"], responder.address());
    let budgets = said["budgets"].as_array().unwrap();
    for name in [
        "entries",
        "errors",
        "descriptors",
        "content_bytes",
        "watches",
        "page_bytes",
        "connections",
    ] {
        let budget = budgets.iter().find(|budget| budget["name"] == name);
        let limit = budget.and_then(|budget| budget["limit"].as_u64());
        assert!(limit.is_some_and(|limit| limit > 0), "{name}: {said:#}");
    }
    let hottest = &said["hottest"]["here"][0];
    assert_eq!(
        (&hottest["path"], &hottest["host"]),
        (&STYLE_PATH.into(), &"example.com".into())
    );
    assert!(hottest["share"].as_f64() > Some(0.5), "{hottest}");
    let slowest = &said["slowest"][0];
    assert_eq!(
        (&slowest["path"], &slowest["kind"]),
        (&"/slow/".into(), &"php".into())
    );
    assert!(slowest["milliseconds"].as_u64() >= Some(140), "{slowest}");
    assert!(
        !said.to_string().contains("secret"),
        "queries are nobody's business"
    );
    let warnings = said["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!(
        warnings[0]["add"],
        "page_cache: {ignore_cookies: [\"theme\"]}"
    );

    server.rewrite_text("listen: nonsense\n");
    assert_eq!(ask(&socket, "POST", "/reload").0, 422);
    let said = json(&socket, "GET", "/overview");
    assert_eq!(said["reloads"]["refused"], 1);
    let why = said["reloads"]["last"]["refused"].as_str().unwrap();
    assert!(why.contains(":1:9: listen:"), "{why}");
    assert_eq!(said["warnings"][0]["add"], "nostat reload");
}

#[test]
fn hostile_paths_are_told_as_text() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let (config, socket) = with_socket(&root, Config::wordpress(&root, &responder));
    let server = Nostat::start(&config);
    for _ in 0..500 {
        server.get("/wp-content/%3Cscript%3E%22%0A%ff.css");
    }
    let (head, body) = ask_whole(&socket, "/overview");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(body.contains("<script>\\\"\\n\u{fffd}.css"), "{body}");
    let said: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let hottest = &said["hottest"]["here"];
    assert!(
        hottest
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line["path"] == "/wp-content/<script>\"\n\u{fffd}.css"),
        "{hottest:#}"
    );
}

#[test]
fn the_status_page_is_one_file_that_runs_nothing_but_its_own() {
    let root = DocumentRoot::wordpress();
    let (config, socket) = with_socket(&root, Config::static_files(&root));
    let _server = Nostat::start(&config);
    let (head, body) = ask_whole(&socket, "/");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    let policy = head
        .lines()
        .find_map(|line| line.strip_prefix("content-security-policy: "))
        .expect("a policy");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(
        !policy.contains("unsafe") && policy.contains("connect-src 'self'"),
        "{policy}"
    );
    let number = policy
        .split("script-src 'nonce-")
        .nth(1)
        .and_then(|rest| rest.split('\'').next())
        .expect("a number");
    assert!(body.contains(&format!("<script nonce=\"{number}\">")));
    assert_eq!(ask(&socket, "POST", "/").0, 405);
    assert_eq!(ask(&socket, "POST", "/overview").0, 405);
}
