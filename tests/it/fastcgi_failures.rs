//! Responders that fail, stall, are full or go away, and clients that leave.

use std::fs;
use std::path::Path;
use std::thread;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket,
    socket_with,
};

use crate::support::client::{Cut, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::script::{CANT_MPX_CONN, OVERLOADED, UNKNOWN_ROLE, stdout};
use crate::support::fake_responder::{FakeResponder, Gate, Script, Step};
use crate::support::nostat::{Config, Nostat};

const TEXT: &str = "Content-Type: text/plain\r\n\r\n";

/// A site, its responder, and `php:` with these further keys.
fn start(php: &str) -> (DocumentRoot, FakeResponder, Nostat) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).site(
        "php",
        &format!("{{address: \"{}\"{php}}}", responder.address()),
    );
    let server = Nostat::start(&config);
    (root, responder, server)
}

fn with_socket(socket: &Path) -> (DocumentRoot, Nostat) {
    let root = DocumentRoot::wordpress();
    let config = Config::preset("wordpress", root.path())
        .site("php", &format!("\"unix:{}\"", socket.display()));
    let server = Nostat::start(&config);
    (root, server)
}

#[test]
fn what_is_no_answer_is_502_and_the_connection_stays_in_step() {
    let (_root, responder, server) = start("");
    let long_head = format!("X-Long: {}\r\n{TEXT}x", "l".repeat(80_000));
    let scripts = [
        (
            "garbage",
            Script::sends_raw("HTTP/1.1 200 OK\r\n\r\nno record"),
        ),
        ("zeros", Script::sends_raw([0; 64])),
        ("half a header", Script::sends_raw([1, 6, 0])),
        (
            "half a record",
            Script::sends_raw([1, 6, 0, 1, 0, 100, 0, 0, b'S']),
        ),
        (
            "a short END_REQUEST",
            Script::sends_raw([1, 3, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0]),
        ),
        (
            "another request's id",
            Script::uses_wrong_id(format!("{TEXT}wrong")),
        ),
        ("nothing", Script::new(vec![Step::Close])),
        ("an end without an answer", Script::new(vec![Step::End])),
        ("half a head", Script::closes_after("Content-Type: text")),
        (
            "a head without its end",
            Script::answers("Content-Type: text/plain\r\n"),
        ),
        ("no field", Script::answers("no colon here\r\n\r\nbody")),
        (
            "a field of control bytes",
            Script::answers(format!("X-A: a\x01b\r\n{TEXT}x")),
        ),
        ("a head too long", Script::answers(&long_head)),
        ("no multiplexing", Script::refuses(CANT_MPX_CONN)),
        ("unknown role", Script::refuses(UNKNOWN_ROLE)),
        (
            "stderr alone",
            Script::new(vec![Step::Stderr(100), Step::End]),
        ),
    ];
    for (number, (name, script)) in scripts.into_iter().enumerate() {
        let path = format!("/bad/{number}");
        responder.on(&path, script);
        let mut connection = server.connect();
        let response = connection.get(&path);
        assert_eq!(response.status, 502, "{name}: {response}");
        assert!(!response.text().contains("no record"), "{name}");
        connection.expect_in_step_after(&response, STYLE_PATH, STYLE_BYTES);
    }
    responder.on("/full", Script::refuses(OVERLOADED));
    let mut connection = server.connect();
    let response = connection.get("/full");
    assert_eq!(response.status, 503);
    assert!(response.field("retry-after").is_some(), "{response}");
    connection.expect_in_step_after(&response, "/next", b"php GET /next 0");
}

#[test]
fn a_responder_that_dies_within_its_answer_cuts_the_clients_connection() {
    let (_root, responder, server) = start(", between_bytes: 1s");
    let unbuffered = format!("X-Accel-Buffering: no\r\n{TEXT}");
    for (name, script) in [
        (
            "closes",
            Script::new(vec![stdout(&unbuffered), stdout("half"), Step::Close]),
        ),
        (
            "garbage",
            Script::new(vec![
                stdout(&unbuffered),
                stdout("half"),
                Step::Raw(b"garbage, garbage".to_vec()),
                Step::Close,
            ]),
        ),
        ("stalls", Script::stalls_after(format!("{unbuffered}half"))),
        (
            "closes before END_REQUEST",
            Script::closes_after(format!("{TEXT}half")),
        ),
        (
            "ends with an error",
            Script::new(vec![
                stdout(&unbuffered),
                stdout("half"),
                Step::EndWith {
                    protocol_status: OVERLOADED,
                },
            ]),
        ),
    ] {
        responder.on("/die", script);
        let mut connection = server.connect();
        connection.send(&request("GET", "/die", &[], b""));
        match connection.try_read("GET") {
            Err(Cut::Short { .. }) => {}
            // Nothing had been passed on yet.
            Ok(response) => assert!(response.status >= 502, "{name}: {response}"),
            Err(cut) => panic!("{name}: {cut}"),
        }
    }
}

#[test]
fn a_responder_that_never_answers_is_504_and_files_do_not_wait() {
    let (_root, responder, server) = start(", first_byte: 1s, between_bytes: 1s");
    responder.on("/stall", Script::stalls_before_head());
    responder.on("/half", Script::stalls_after("Content-Type: text"));
    thread::scope(|scope| {
        for path in ["/stall", "/half"] {
            let server = &server;
            scope.spawn(move || assert_eq!(server.get(path).status, 504, "{path}"));
        }
        for _ in 0..50 {
            server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        }
    });
    for seen in responder.requests() {
        seen.wait_until_closed_early();
    }
    server.get("/next").assert(200, b"php GET /next 0");
}

#[test]
fn more_requests_than_php_has_places_wait_in_line_and_beyond_it_are_503() {
    let (_root, responder, server) = start(", max_children: 2, queue: 2, wait: 30s");
    let gate = Gate::default();
    for number in 0..6 {
        responder.on(
            &format!("/w/{number}"),
            Script::answers_after(&gate, format!("{TEXT}{number}")),
        );
    }
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    let (running, more) = clients.split_at_mut(2);
    let (queued, beyond) = more.split_at_mut(2);
    for (number, client) in running.iter_mut().enumerate() {
        client.send(&request("GET", &format!("/w/{number}"), &[], b""));
    }
    responder.wait_for(2);
    for (number, client) in queued.iter_mut().enumerate() {
        client.send(&request("GET", &format!("/w/{}", number + 2), &[], b""));
        // A file asked for later is answered, so the request before it stands in line.
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    for (number, client) in beyond.iter_mut().enumerate() {
        let response = client.get(&format!("/w/{}", number + 4));
        assert_eq!(response.status, 503);
        assert!(response.field("retry-after").is_some(), "{response}");
    }
    assert_eq!(responder.requests().len(), 2);
    gate.open();
    for (number, client) in running.iter_mut().chain(queued).enumerate() {
        client
            .read("GET")
            .assert(200, number.to_string().as_bytes());
    }
    assert_eq!(responder.peak(), 2);
}

#[test]
fn waiting_for_a_place_ends_in_503() {
    let (_root, responder, server) = start(", max_children: 1, wait: 200ms");
    responder.on("/hold", Script::stalls_before_head());
    let mut holder = server.connect();
    holder.send(&request("GET", "/hold", &[], b""));
    responder.wait_for(1);
    let response = server.get("/late");
    assert_eq!(response.status, 503);
    assert!(response.field("retry-after").is_some(), "{response}");
    drop(holder);
}

#[test]
fn a_missing_or_refusing_socket_is_502_until_it_is_there() {
    let folder = DocumentRoot::empty();
    let path = folder.outside().join("php.sock");
    let (_root, server) = with_socket(&path);
    let mut connection = server.connect();
    let response = connection.get("/");
    assert_eq!(response.status, 502, "no socket");
    connection.expect_in_step_after(&response, STYLE_PATH, STYLE_BYTES);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert_eq!(server.get("/").status, 502, "nobody listens");
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"no socket").unwrap();
    assert_eq!(server.get("/").status, 502, "a plain file");
    fs::remove_file(&path).unwrap();
    let responder = FakeResponder::start();
    std::os::unix::fs::symlink(responder.socket(), &path).unwrap();
    server.get("/").assert(200, b"php GET / 0");
}

#[test]
fn a_full_backlog_is_503_with_retry_after() {
    let folder = DocumentRoot::empty();
    let path = folder.outside().join("php.sock");
    let address = SocketAddrUnix::new(&path).unwrap();
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let mut fillers = Vec::new();
    loop {
        let filler = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        match connect(&filler, &address) {
            Ok(()) => fillers.push(filler),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    let (_root, server) = with_socket(&path);
    let mut connection = server.connect();
    let response = connection.get("/");
    assert_eq!(response.status, 503);
    assert!(response.field("retry-after").is_some(), "{response}");
    connection.expect_in_step_after(&response, STYLE_PATH, STYLE_BYTES);
}

#[test]
fn a_client_that_resets_frees_php_and_one_that_half_closes_does_not() {
    let (_root, responder, server) = start("");
    responder.on("/endless", Script::never_ends());
    responder.on("/sleep", Script::stalls_before_head());
    for (path, some) in [("/endless", 1024), ("/sleep", 0)] {
        responder.forget();
        let mut connection = server.connect();
        connection.send(&request("GET", path, &[], b""));
        responder.wait_for(1);
        connection.read_bytes(some);
        connection.reset();
        responder.last_request().wait_until_closed_early();
        eventually("the place is free", || {
            (responder.running() == 0).then_some(())
        });
    }
    let gate = Gate::default();
    responder.on(
        "/half",
        Script::answers_after(&gate, format!("{TEXT}answer")),
    );
    let mut connection = server.connect();
    connection.send(&request("POST", "/half", &[], b"body"));
    connection.half_close();
    gate.wait_until_reached();
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert!(!responder.last_request().closed_early());
    gate.open();
    connection.read("POST").assert(200, b"answer");
}

#[test]
fn a_queued_request_whose_client_reset_is_never_run_and_one_that_closed_is() {
    let (_root, responder, server) = start(", max_children: 1, wait: 20s");
    let gate = Gate::default();
    responder.on("/hold", Script::answers_after(&gate, format!("{TEXT}held")));
    let mut holder = server.connect();
    holder.send(&request("GET", "/hold", &[], b""));
    gate.wait_until_reached();
    let mut gone = server.connect();
    gone.send(&request("GET", "/gone", &[], b""));
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    gone.reset();
    // As WordPress' cron does: it sends and closes at once.
    let mut cron = server.connect();
    cron.send(&request("POST", "/wp-cron", &[], b""));
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    drop(cron);
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    gate.open();
    holder.read("GET").assert(200, b"held");
    responder.wait_for(2);
    server.get("/last").assert(200, b"php GET /last 0");
    let uris: Vec<String> = responder
        .requests()
        .iter()
        .map(|seen| seen.param("REQUEST_URI").to_owned())
        .collect();
    assert_eq!(uris, ["/hold", "/wp-cron", "/last"]);
}

#[test]
fn slow_clients_hold_no_place_of_php() {
    let (_root, responder, server) = start(", max_children: 2");
    let large = format!("{TEXT}{}", "d".repeat(16 << 20));
    responder.on("/download", Script::answers(&large));
    let mut slow: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send(&request("GET", "/download", &[], b""));
    }
    server.get("/page/").assert(200, b"php GET /page/ 0");
    eventually("every place is free", || {
        (responder.running() == 0 && responder.requests().len() == 7).then_some(())
    });
    for client in &mut slow {
        assert_eq!(client.read("GET").body.len(), 16 << 20);
    }
}

#[test]
fn a_kept_connection_that_dies_at_reuse_is_retried_for_get_and_never_for_post() {
    let (_root, responder, server) = start(", keep_alive: 10s, max_children: 2");
    // Ends its request as if it kept the connection, and closes.
    let closes = Script::new(vec![stdout(format!("{TEXT}kept")), Step::End, Step::Close]);
    responder.on("/closes", closes);
    for _ in 0..50 {
        server.get("/closes").assert(200, b"kept");
        server.get("/get").assert(200, b"php GET /get 0");
        server.get("/closes").assert(200, b"kept");
        server
            .send("POST", "/post", &[], b"body")
            .assert(200, b"php POST /post 4");
    }
    let posts = responder
        .requests()
        .iter()
        .filter(|seen| seen.param("REQUEST_METHOD") == "POST")
        .count();
    assert_eq!(posts, 50, "a POST was run twice");
    assert!(responder.requests()[0].keep);
    // After bytes of an answer nothing is run again.
    responder.forget();
    responder.on("/cut", Script::closes_after("Content-Ty"));
    assert_eq!(server.get("/cut").status, 502);
    assert_eq!(responder.requests().len(), 1, "run twice");
}
