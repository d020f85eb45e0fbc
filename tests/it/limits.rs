//! What one client may take: connections, requests in a time, bytes in a time.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::admin::{ask, sample, with_socket};
use crate::support::DEADLINE;
use crate::support::client::{Connection, Cut, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

const RULES: &str = "[{match: \"/**/wp-login.php\", rate: 1/h, burst: 3}, \
                     {match: missing, rate: 1/h, burst: 5}]";

fn limited(rules: &str) -> (DocumentRoot, FakeResponder, Config) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-login.php", b"<?php");
    let config = Config::wordpress(&root, &responder).top("rate_limits", rules);
    (root, responder, config)
}

#[test]
fn one_request_too_many_is_429_with_the_time_to_wait_and_nothing_else_is() {
    let (root, responder, config) = limited(RULES);
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    for path in ["/wp-login.php", "/wp-login.php/x", "//wp-login%2Ephp"] {
        assert_eq!(connection.get(path).status, 200, "{path}");
    }
    let refused = connection.get("/wp-login.php?again");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    // Its connection goes on, other paths are free.
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert_eq!(connection.get("/").status, 200);
    let head = connection.request("HEAD", "/wp-login.php", &[], b"");
    assert_eq!((head.status, head.body.len()), (429, 0));
    assert_eq!(responder.requests().len(), 4);
    let metrics = ask(&socket, "GET", "/metrics").1;
    let counted = sample(&metrics, "nostat_limited_total{limit=\"rate_limits\"}");
    assert_eq!(counted, Some(2));
    let rule = "{match=\"/**/wp-login.php\",rate=\"1/h\"}";
    let counted = sample(&metrics, &format!("nostat_rate_limited_total{rule}"));
    assert_eq!(counted, Some(2));
    let clients = sample(&metrics, &format!("nostat_rate_limited_clients{rule}"));
    assert_eq!(clients, Some(1));
}

#[test]
fn who_asks_for_too_much_that_is_missing_starts_no_more_php() {
    let (_root, responder, config) = limited(RULES);
    let server = Nostat::start(&config);
    let not_found = || Script::answers("Status: 404 Not Found\r\n\r\nnothing");
    for number in 0..10 {
        responder.on(&format!("/never-{number}/"), not_found());
    }
    let statuses: Vec<u16> = (0..10)
        .map(|number| server.get(&format!("/never-{number}/")).status)
        .collect();
    assert_eq!(statuses, [404, 404, 404, 404, 404, 429, 429, 429, 429, 429]);
    assert_eq!(responder.requests().len(), 5);
    assert_eq!(server.get("/wp-content/gone.css").status, 429);
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn missing_files_count_as_well_and_each_client_behind_a_trusted_proxy_by_itself() {
    let (_root, _responder, config) = limited(RULES);
    let server = Nostat::start(&config);
    let ask = |client: &str| {
        let fields = [("X-Forwarded-For", client)];
        server.get_with("/wp-content/gone.css", &fields).status
    };
    for client in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
        let statuses: Vec<u16> = (0..6).map(|_| ask(client)).collect();
        assert_eq!(statuses, [404, 404, 404, 404, 404, 429], "{client}");
    }
    assert_eq!(ask("2001:db8::2"), 429, "the same network");
}

#[test]
fn a_client_cannot_pass_by_naming_another() {
    let (_root, _responder, config) = limited(RULES);
    let server = Nostat::start(&config.top("trusted_proxies", "[]"));
    let passed = (0..100).filter(|number| {
        let client = format!("192.0.2.{number}");
        let fields = [
            ("X-Forwarded-For", &*client),
            ("Forwarded", "for=192.0.2.9"),
        ];
        server.get_with("/wp-login.php", &fields).status != 429
    });
    // Until it is taken for a proxy that nobody has named, whose limit is 32 times as wide.
    let passed = passed.count();
    assert!((80..=99).contains(&passed), "{passed}");
    server.wait_for_log(0, "trusted_proxies");
    let (_root, _responder, config) = limited(RULES);
    let fresh = Nostat::start(&config.top("trusted_proxies", "[]"));
    let fields = [("X-Forwarded-For", "192.0.2.1")];
    let passed = (0..10).filter(|_| fresh.get_with("/wp-login.php", &fields).status != 429);
    assert_eq!(passed.count(), 3);
}

#[test]
fn a_reload_forgets_nobody_and_takes_on_other_rules() {
    let (_root, _responder, config) = limited(RULES);
    let server = Nostat::start(&config);
    for _ in 0..3 {
        assert_eq!(server.get("/wp-login.php").status, 200);
    }
    let other = RULES.replace("burst: 5", "burst: 6");
    server.rewrite(&config.clone().top("rate_limits", &other));
    let from = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "reloaded");
    assert_eq!(server.get("/wp-login.php").status, 429);
    server.rewrite(&config.top("rate_limits", "off"));
    let from = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "reloaded");
    assert_eq!(server.get("/wp-login.php").status, 200);
}

#[test]
fn the_defaults_hold_back_who_guesses_passwords() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-login.php", b"<?php");
    root.write("xmlrpc.php", b"<?php");
    let text = Config::wordpress(&root, &responder).render("127.0.0.1:0", root.outside());
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("rate_limits"))
        .map(|line| format!("{line}\n"))
        .collect();
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let port = server.port();
    server.rewrite_text(&without.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
    let from = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "reloaded");
    let passed = |path| (0..60).filter(|_| server.get(path).status == 200).count();
    let logins = passed("/wp-login.php");
    assert!((10..=20).contains(&logins), "{logins}");
    let calls = passed("/xmlrpc.php");
    assert!((20..=50).contains(&calls), "{calls}");
    assert_eq!(passed("/"), 60);
}

#[test]
fn connections_of_one_address_are_limited_and_those_of_a_trusted_proxy_are_not() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top("limits", "{connections_per_address: 4}");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config.clone().top("trusted_proxies", "[]"));
    eventually("the starting client is gone", || {
        (server.established() == 0).then_some(())
    });
    let mut open: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut open {
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    let mut one_more = server.connect();
    one_more.send_lossy(&request("GET", STYLE_PATH, &[], b""));
    assert!(matches!(one_more.try_read("GET"), Err(Cut::End)));
    let metrics = ask(&socket, "GET", "/metrics").1;
    let name = "nostat_limited_total{limit=\"connections_per_address\"}";
    assert_eq!(sample(&metrics, name), Some(1));
    open.pop();
    eventually("a place is free again", || {
        let mut connection = server.connect();
        connection.send_lossy(&request("GET", STYLE_PATH, &[], b""));
        connection.try_read("GET").ok()
    });
    drop((open, server));

    let server = Nostat::start(&config);
    let forwarded = [("X-Forwarded-For", "192.0.2.1")];
    let mut open: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut open {
        let response = connection.get_with(STYLE_PATH, &forwarded);
        response.assert(200, STYLE_BYTES);
    }
    // What it asks for by itself counts.
    let mut own: Vec<Connection> = (0..6).map(|_| server.connect()).collect();
    let statuses: Vec<u16> = own.iter_mut().map(|it| it.get(STYLE_PATH).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_body_that_drips_is_refused_although_it_is_never_silent() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .top("limits", "{body: 1s, body_rate: 64KiB, request_head: 30s}");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    // To PHP, and to a file, whose body nobody wants.
    for path in ["/wp-login.php", STYLE_PATH] {
        let mut connection = server.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
        connection.send(head.as_bytes());
        let (mut writer, over) = (connection.writer(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && writer.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(50));
                }
            });
            let got = connection.try_read("POST");
            // A file is answered at once; it is the connection that does not last.
            match got {
                Ok(response) if path == STYLE_PATH => {
                    assert_eq!(response.status, 405);
                    connection.expect_end();
                }
                Ok(response) => assert_eq!((response.status, response.closes()), (408, true)),
                Err(Cut::End) => {}
                Err(other) => panic!("{path}: {other}"),
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    responder.assert_not_called();
    let metrics = ask(&socket, "GET", "/metrics").1;
    let name = "nostat_limited_total{limit=\"body_rate\"}";
    assert_eq!(sample(&metrics, name), Some(1));
}

#[test]
fn who_takes_an_answer_by_drops_is_cut() {
    let root = DocumentRoot::wordpress();
    let large = vec![b'x'; 32 << 20];
    root.write("wp-content/large.bin", &large);
    let config = Config::wordpress_alone(&root).top("limits", "{send: 1s, send_rate: 512MiB}");
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    connection.send(&request("GET", "/wp-content/large.bin", &[], b""));
    let began = Instant::now();
    let mut taken = 0;
    // Never silent for a second.
    let cut = loop {
        assert!(began.elapsed() < DEADLINE, "{taken} bytes taken");
        match connection.take_some(4096) {
            Some(0) | None => break taken < large.len(),
            Some(count) => taken += count,
        }
        if taken < 20 << 20 {
            thread::sleep(Duration::from_millis(2));
        }
    };
    assert!(cut, "it got all of it");
    eventually("it is counted", || {
        let metrics = ask(&socket, "GET", "/metrics").1;
        let of = |limit| {
            sample(
                &metrics,
                &format!("nostat_limited_total{{limit=\"{limit}\"}}"),
            )
        };
        (of("send_rate")? + of("send")? > 0).then_some(())
    });
}

#[test]
fn each_limit_of_a_request_is_counted() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let limits = "{request_head: 300ms, head_size: 2KiB, url: 1KiB, headers: 5, max_body: 1KiB, requests_per_connection: 2}";
    let config = Config::wordpress(&root, &responder).top("limits", limits);
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    let long = format!("/{}", "x".repeat(1500));
    let many: Vec<(&str, &str)> = vec![("A", "b"); 9];
    let large = "x".repeat(3000);
    let statuses = [
        server.get(&long).status,
        server.get_with("/", &many).status,
        server.get_with("/", &[("Large", &large)]).status,
        server.send("POST", "/", &[], &[b'x'; 2000]).status,
    ];
    assert_eq!(statuses, [414, 431, 431, 413]);
    let mut slow = server.connect();
    slow.send(b"GET / HT");
    assert_eq!(slow.read("GET").status, 408);
    let mut twice = server.connect();
    twice.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert!(twice.get(STYLE_PATH).closes());
    let metrics = ask(&socket, "GET", "/metrics").1;
    for limit in [
        "request_head",
        "head_size",
        "url",
        "headers",
        "max_body",
        "requests_per_connection",
    ] {
        let name = format!("nostat_limited_total{{limit=\"{limit}\"}}");
        assert_eq!(sample(&metrics, &name), Some(1), "{limit}");
    }
}

#[test]
fn silent_connections_leave_their_places_to_others_when_these_run_out() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top("limits", "{connections: 16}");
    let server = Nostat::start(&config);
    // Fourteen of sixteen: from then on it is crowded.
    let _silent: Vec<Connection> = (0..16)
        .map(|number| {
            let mut connection = server.connect();
            if number < 13 {
                connection.get(STYLE_PATH);
            }
            connection
        })
        .collect();
    // Far sooner than the 75 s that an idle connection may have.
    eventually("a place is free", || {
        let mut connection = server.connect();
        connection.send_lossy(&request("GET", STYLE_PATH, &[], b""));
        connection.try_read("GET").ok()
    });
}
