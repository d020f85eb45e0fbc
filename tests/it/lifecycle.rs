//! Start, reload, drain and stop.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::client::request;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Gate, Script};
use crate::support::nostat::{BINARY, Config, Nostat, free_port};

/// Far above the second that an idle stop may take, and far below the 30 s of `limits.drain`.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_busy_port_is_one_line_and_exit_1() {
    let root = DocumentRoot::wordpress();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut server = Nostat::spawn(&Config::static_files(&root), port);
    assert_eq!(server.wait().code(), Some(1));
    let log = server.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(&port.to_string()))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        !log.contains("panicked") && log.lines().count() <= 2,
        "{log}"
    );
}

#[test]
fn a_file_with_mistakes_is_exit_1_with_their_places() {
    let root = DocumentRoot::wordpress();
    let mut server = Nostat::spawn(
        &Config::static_files(&root).top("nonsense", "1"),
        free_port(),
    );
    assert_eq!(server.wait().code(), Some(1));
    assert!(
        server.log().contains("nostat.yaml:6:1: nonsense"),
        "{}",
        server.log()
    );
}

#[test]
fn sigterm_and_sigint_end_an_idle_server_soon_with_success() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Nostat::start(&Config::wordpress(&root, &responder));
        let mut idle = server.connect();
        idle.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let mut after_php = server.connect();
        after_php.get("/a/page/").assert(200, b"php GET /a/page/ 0");
        let silent = server.connect();
        let start = Instant::now();
        server.signal(signal);
        let status = server.wait();
        assert!(status.success(), "{status} on {signal:?}");
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        idle.expect_end();
        after_php.expect_end();
        drop(silent);
        assert!(!server.log().contains("panicked"), "{}", server.log());
        assert!(
            TcpStream::connect(server.address()).is_err(),
            "still listens"
        );
    }
}

#[test]
fn what_is_in_flight_is_finished_before_the_end() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("film.mp4", &vec![b'f'; 24 << 20]);
    let gate = Gate::default();
    responder.on(
        "/slow",
        Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
    );
    let mut server = Nostat::start(&Config::wordpress(&root, &responder));
    let mut page = server.connect();
    page.send(&request("GET", "/slow", &[], b""));
    gate.wait_until_reached();
    let mut film = server.connect();
    film.send(&request("GET", "/film.mp4", &[], b""));
    film.read_head_only();
    server.signal(Signal::TERM);
    eventually("no new connection is taken", || {
        TcpStream::connect(server.address()).is_err().then_some(())
    });
    gate.open();
    let response = page.read("GET");
    response.assert(200, b"slow");
    page.expect_end();
    assert!(film.read_bytes(24 << 20).iter().all(|&byte| byte == b'f'));
    film.expect_end();
    assert!(server.wait().success());
}

#[test]
fn the_next_answer_while_draining_says_close() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let gate = Gate::default();
    responder.on(
        "/slow",
        Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
    );
    let mut server = Nostat::start(&Config::wordpress(&root, &responder));
    let mut page = server.connect();
    page.send(&request("GET", "/slow", &[], b""));
    gate.wait_until_reached();
    // Half of a request stands there when the order comes.
    let mut file = server.connect();
    let whole = request("GET", STYLE_PATH, &[], b"");
    let (first, rest) = whole.split_at(20);
    file.send(first);
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    server.signal(Signal::TERM);
    eventually("no new connection is taken", || {
        TcpStream::connect(server.address()).is_err().then_some(())
    });
    file.send(rest);
    let response = file.read("GET");
    response.assert(200, STYLE_BYTES);
    assert!(response.closes(), "{response}");
    file.expect_end();
    gate.open();
    page.read("GET").assert(200, b"slow");
    assert!(server.wait().success());
}

#[test]
fn a_second_signal_and_the_drain_limit_end_what_does_not_end() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/never", Script::stalls_before_head());
    for (drain, signals) in [("60s", 2), ("1s", 1)] {
        let mut server = Nostat::start(
            &Config::wordpress(&root, &responder).top("limits", &format!("{{drain: {drain}}}")),
        );
        let mut page = server.connect();
        page.send(&request("GET", "/never", &[], b""));
        responder.wait_for(1);
        responder.forget();
        let start = Instant::now();
        server.signal(Signal::TERM);
        eventually("no new connection is taken", || {
            TcpStream::connect(server.address()).is_err().then_some(())
        });
        if signals == 2 {
            server.signal(Signal::TERM);
        }
        let status = server.wait();
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{:?}",
            start.elapsed()
        );
        assert!(status.signal().is_none() || signals == 2, "{status}");
        page.expect_end();
    }
}

#[test]
fn a_good_file_is_taken_over_on_sighup_without_dropping_a_connection() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let gate = Gate::default();
    responder.on(
        "/slow",
        Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
    );
    let config = Config::wordpress(&root, &responder)
        .top("open_file_cache", "{valid: 60s}")
        .top("access_log", "{path: \"-\", format: json}");
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    server.settled(STYLE_PATH);
    assert_eq!(
        connection.get(STYLE_PATH).field("cache-control"),
        Some("public, max-age=0, must-revalidate")
    );
    let mut page = server.connect();
    page.send(&request("GET", "/slow", &[], b""));
    gate.wait_until_reached();
    server.rewrite(&config.clone().site(
        "cache_control",
        "[{match: \"*.css\", value: \"public, max-age=77\"}]",
    ));
    server.signal(Signal::HUP);
    eventually("the new rule", || {
        (connection.get(STYLE_PATH).field("cache-control") == Some("public, max-age=77"))
            .then_some(())
    });
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    gate.open();
    page.read("GET").assert(200, b"slow");
    // Warm entries survive: no look at the file since.
    server.get(&format!("{STYLE_PATH}?last"));
    let last: Value = eventually("its line", || {
        server
            .output()
            .lines()
            .find(|line| line.contains("?last"))
            .and_then(|line| serde_json::from_str(line).ok())
    });
    assert_eq!(last["cache"], "hit", "{last}");
    // And back, with another site on another host.
    let other = DocumentRoot::empty();
    other.write("who.txt", b"other");
    server.rewrite(
        &config
            .site("hosts", "[\"example.com\"]")
            .also("static", other.path())
            .site("hosts", "[\"other.org\"]"),
    );
    server.signal(Signal::HUP);
    eventually("the new site", || {
        (server.get_with("/who.txt", &[("Host", "other.org")]).body == b"other").then_some(())
    });
    assert_eq!(
        server.get_with("/who.txt", &[("Host", "third.org")]).status,
        421
    );
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_the_old_one_runs_on() {
    let root = DocumentRoot::wordpress();
    let config = Config::wordpress_alone(&root);
    let server = Nostat::start(&config);
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    let good = config.render(
        &format!("127.0.0.1:{}", server.port()),
        &server.work().join("spool"),
    );
    let lines = good.lines().count();
    for bad in [
        "nonsense: 1\n",
        "workers: [\n",
        "limits: {send: fast}\n",
        "workers: 1\n",
        "sites: []\n",
    ] {
        let from = server.log().len();
        server.rewrite_text(&format!("{good}{bad}"));
        server.signal(Signal::HUP);
        // The mistake stands in the last line; an open bracket is met at its end or behind it.
        let line = eventually("the refusal is logged", || {
            let log = server.log();
            let line = log.get(from..)?.lines().find(|line| {
                (lines + 1..=lines + 2)
                    .any(|number| line.contains(&format!("nostat.yaml:{number}:")))
            });
            line.map(str::to_owned)
        });
        assert!(!line.is_empty());
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    let from = server.log().len();
    fs::remove_file(server.work().join("nostat.yaml")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "nostat.yaml");
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn many_reloads_under_load_fail_no_request() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder);
    let server = Nostat::start(&config);
    let before = server.descriptors();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = server.connect();
                for number in 0..300 {
                    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
                    connection
                        .get(&format!("/p/{number}"))
                        .assert(200, format!("php GET /p/{number} 0").as_bytes());
                }
            });
        }
        for number in 0..30 {
            server.rewrite(&config.clone().site(
                "cache_control",
                &format!("[{{match: \"*.css\", value: \"max-age={number}\"}}]"),
            ));
            server.signal(Signal::HUP);
            eventually("taken over", || {
                (server.get(STYLE_PATH).field("cache-control")
                    == Some(format!("max-age={number}").as_str()))
                .then_some(())
            });
        }
    });
    eventually("nothing stays of old settings", || {
        (server.descriptors() <= before + 4).then_some(())
    });
}

/// The counters that the server logs when it stops.
fn counters(rounds: usize) -> Vec<u64> {
    let root = DocumentRoot::wordpress();
    root.write("wp-content/large.js", &vec![b'x'; 300_000]);
    let config =
        Config::wordpress_alone(&root).top("open_file_cache", "{valid: 60s, errors_valid: 60s}");
    // A file just written is looked at at each use: another server waits until that is over.
    Nostat::start(&config).settled("/wp-content/large.js");
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    let round = |connection: &mut crate::support::client::Connection| {
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        assert_eq!(
            connection
                .get("/wp-content/uploads/2024/01/photo.jpg")
                .status,
            200
        );
        assert_eq!(connection.get("/wp-content/gone.css").status, 404);
        assert_eq!(
            connection
                .get_with(STYLE_PATH, &[("If-None-Match", "*")])
                .status,
            304
        );
        assert_eq!(
            connection
                .request("HEAD", "/wp-content/large.js", &[], b"")
                .status,
            200
        );
    };
    for _ in 0..10 + rounds {
        round(&mut connection);
    }
    drop(connection);
    let log = server.stop().log;
    let count = |name: &str| {
        let (_, after) = log
            .split_once(&format!("{name}="))
            .unwrap_or_else(|| panic!("no {name}= in {log}"));
        after
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    ["opens", "fstats", "closes"].map(count).to_vec()
}

#[test]
fn a_warm_load_opens_and_looks_at_nothing() {
    let (few, many) = (counters(10), counters(2_000));
    for ((few, many), name) in few.iter().zip(&many).zip(["opens", "fstats", "closes"]) {
        assert!(
            *many <= few + 20,
            "{name}: {few} for 50 requests, {many} for 10,000"
        );
    }
}

#[test]
fn a_folder_alone_is_enough_to_serve() {
    let root = DocumentRoot::wordpress();
    let responder = FakeResponder::start();
    let port = free_port();
    let mut child = Command::new(BINARY)
        .args(["serve", "--root"])
        .arg(root.path())
        .args([
            "--php",
            &responder.address(),
            "--listen",
            &format!("127.0.0.1:{port}"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    eventually("it listens", || TcpStream::connect(address).ok());
    let mut connection = crate::support::client::Connection::open(address);
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    connection
        .get("/a/page/")
        .assert(200, b"php GET /a/page/ 0");
    drop(connection);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    let status = eventually("it ends", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[test]
fn all_addresses_of_both_kinds_may_be_listened_on() {
    let root = DocumentRoot::wordpress();
    let other = free_port();
    let config = Config::static_files(&root);
    let server = Nostat::start(&config);
    let text = fs::read_to_string(server.work().join("nostat.yaml")).unwrap();
    let file = root.outside().join("both.yaml");
    let old = format!("[\"127.0.0.1:{}\"]", server.port());
    fs::write(
        &file,
        text.replace(&old, &format!("[\"0.0.0.0:{other}\", \"[::]:{other}\"]")),
    )
    .unwrap();
    let mut both = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for address in [format!("127.0.0.1:{other}"), format!("[::1]:{other}")] {
        eventually("it listens", || {
            TcpStream::connect(&address).is_ok().then_some(())
        });
    }
    both.kill().unwrap();
    both.wait().unwrap();
}
