//! Requests that mean harm: framing, limits, slow senders.

use std::thread;
use std::time::Duration;

use crate::support::client::{Cut, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

/// What an attacker would like to be taken for a request.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n";

/// Sends `bytes` and SMUGGLED; the answer must have one of these statuses and the connection end; nothing reaches PHP.
#[track_caller]
fn assert_refused(server: &Nostat, responder: &FakeResponder, bytes: &[u8], statuses: &[u16]) {
    let mut connection = server.connect();
    connection.send_lossy(bytes);
    connection.send_lossy(SMUGGLED);
    let response = match connection.try_read("GET") {
        Ok(response) => response,
        Err(cut) => panic!("{}: {cut}", bytes.escape_ascii()),
    };
    let shown = &bytes[..bytes.len().min(200)];
    assert!(
        statuses.contains(&response.status),
        "{}: {response}",
        shown.escape_ascii()
    );
    assert!(response.closes(), "{}: {response}", shown.escape_ascii());
    let rest = connection.read_to_end();
    assert!(
        rest.is_empty(),
        "{}: then {}",
        shown.escape_ascii(),
        rest.escape_ascii()
    );
    let requests: Vec<String> = responder
        .requests()
        .iter()
        .map(|seen| seen.param("REQUEST_URI").to_owned())
        .collect();
    assert!(
        requests.is_empty(),
        "{}: reached PHP: {requests:?}",
        shown.escape_ascii()
    );
}

#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let (_root, responder, server) = Nostat::wordpress();
    for fields in [
        // Length and coding together (RFC 9112 §6.1), in both orders.
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: 5.0",
        "Content-Length: ",
        "Content-Length: five",
        "Content-Length: 99999999999999999999",
        "Content-Length : 5",
        "Content-Length\t: 5",
        " Content-Length: 5",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: ",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked;q=1",
        "X: y\r\n Transfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Content-Length: 5\r\n 6",
    ] {
        let head = format!("POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n\r\n");
        assert_refused(
            &server,
            &responder,
            &[head.as_bytes(), b"0\r\n\r\n"].concat(),
            &[400, 501],
        );
        let head = format!("GET {STYLE_PATH} HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n\r\n");
        assert_refused(
            &server,
            &responder,
            &[head.as_bytes(), b"0\r\n\r\n"].concat(),
            &[400, 501],
        );
    }
    for version in ["1.0", "1.0\r\nConnection: keep-alive"] {
        let head = format!(
            "POST /wp-login.php HTTP/{version}\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        );
        assert_refused(&server, &responder, head.as_bytes(), &[400, 501]);
    }
}

#[test]
fn malformed_heads_are_refused_and_the_connection_closed() {
    let (_root, responder, server) = Nostat::wordpress();
    for head in [
        // Host (RFC 9112 §3.2).
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.org/x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: u@a.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.org, b.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.org:x\r\n\r\n",
        // Line ends and field lines.
        b"GET / HTTP/1.1\nHost: example.com\n\n",
        b"GET / HTTP/1.1\r\nHost: example.com\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\rX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: example.com\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX Y: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX\x00Y: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\n: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX(: z\r\n\r\n",
        // Request lines.
        b"GET  / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"GET / a HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b" GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"G(T / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"GET /\r\nHost: example.com\r\n\r\n",
        b"GET / HTTP/1.1x\r\nHost: example.com\r\n\r\n",
        b"GET / http/1.1\r\nHost: example.com\r\n\r\n",
        b"GET / HTTP/11\r\nHost: example.com\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ] {
        assert_refused(&server, &responder, head, &[400]);
    }
    for head in [
        &b"GET / HTTP/2.0\r\nHost: example.com\r\n\r\n"[..],
        b"GET / HTTP/3.0\r\nHost: example.com\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert_refused(&server, &responder, head, &[400, 505]);
    }
}

#[test]
fn bad_chunks_are_refused_before_php_is_asked() {
    let (_root, responder, server) = Nostat::wordpress();
    for body in [
        &b"+5\r\nhello\r\n0\r\n\r\n"[..],
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\nX",
        b"\r\nhello\r\n0\r\n\r\n",
        b"g\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"4\r\nhello\r\n0\r\n\r\n",
        b"5;a\nb\r\nhello\r\n0\r\n\r\n",
        b"5;\r\r\nhello\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTrailer\r\n\r\n",
        b"5\r\nhello\r\n0\r\nA: b\nC: d\r\n\r\n",
    ] {
        let head = b"POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n";
        // A size that is beyond the limit may be told so.
        assert_refused(&server, &responder, &[head, body].concat(), &[400, 413]);
    }
    // What is right: extensions, upper case, leading zeros, trailers.
    for body in [
        &b"5;a=b;c=\"d\"\r\nhello\r\n0\r\n\r\n"[..],
        b"00005\r\nhello\r\n000\r\n\r\n",
        b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    ] {
        let head = b"POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        server
            .send_raw(&[head, body].concat())
            .assert(200, b"php POST /wp-login.php 5");
    }
}

#[test]
fn an_upgrade_that_is_not_granted_passes_no_byte_behind_the_request() {
    let (_root, _responder, server) = Nostat::wordpress();
    for (path, body) in [
        (STYLE_PATH, STYLE_BYTES),
        ("/a/page/", b"php GET /a/page/ 0"),
    ] {
        for upgrade in ["websocket", "h2c", "TLS/1.0"] {
            let mut connection = server.connect();
            connection.send(
                format!(
                    "GET {path} HTTP/1.1\r\nHost: example.com\r\nUpgrade: {upgrade}\r\nConnection: upgrade\r\n\r\n\
                     GET /.env HTTP/1.1\r\nHost: example.com\r\n\r\nGET /second HTTP/1.1\r\nHost: example.com\r\n\r\n"
                )
                .as_bytes(),
            );
            connection.read("GET").assert(200, body);
            assert!(
                matches!(connection.read("GET").status, 403 | 404),
                "the rules apply"
            );
            connection.read("GET").assert(200, b"php GET /second 0");
        }
    }
}

#[test]
fn a_head_beyond_a_limit_is_told_which() {
    let (_root, responder, server) = Nostat::wordpress();
    let url = |length: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: example.com\r\n\r\n",
            "u".repeat(length)
        )
    };
    let fields = |count: usize, width: usize| {
        let lines: String = (0..count)
            .map(|n| format!("X-{n}: {}\r\n", "v".repeat(width)))
            .collect();
        format!("GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n{lines}\r\n")
    };
    for bytes in [url(64 * 1024), url(8 * 1024 + 1), url(2 << 20)] {
        assert_refused(&server, &responder, bytes.as_bytes(), &[414]);
    }
    for bytes in [
        fields(300, 1),
        fields(101, 1),
        fields(1, 40_000),
        fields(50, 1000),
        fields(5000, 400),
    ] {
        assert_refused(&server, &responder, bytes.as_bytes(), &[431]);
    }
    assert_eq!(server.send_raw(fields(90, 300).as_bytes()).status, 200);
    let long = format!("/{}", "u".repeat(8000));
    server
        .get(&long)
        .assert(200, format!("php GET {long} 0").as_bytes());
}

#[test]
fn a_head_sent_too_slowly_is_cut_at_its_deadline_although_bytes_come() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{request_head: 1s}"));
    let cut_within_the_loop = |first: bool| {
        let mut connection = server.connect();
        if !first {
            connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        }
        connection.send(b"GET / HTTP/1.1\r\nHost: example.com\r\nX: ");
        // Far longer than the deadline; the server ends it.
        for _ in 0..150 {
            connection.send_lossy(b"x");
            thread::sleep(Duration::from_millis(20));
        }
        match connection.try_read("GET") {
            Ok(response) => assert_eq!((response.status, response.closes()), (408, true)),
            Err(Cut::End) => {}
            Err(other) => panic!("not cut: {other}"),
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| cut_within_the_loop(true));
        scope.spawn(|| cut_within_the_loop(false));
        for _ in 0..20 {
            server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        }
    });
    responder.assert_not_called();
}

#[test]
fn a_body_that_stops_is_cut_and_never_reaches_php() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server = Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{body: 1s}"));
    for framing in [
        "Content-Length: 100\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(
            format!("POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\n{framing}").as_bytes(),
        );
        match connection.try_read("POST") {
            Ok(response) => assert_eq!(
                (response.status, response.closes()),
                (408, true),
                "{framing:?}"
            ),
            Err(Cut::End) => {}
            Err(other) => panic!("{framing:?}: {other}"),
        }
    }
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    responder.assert_not_called();
}

#[test]
fn a_body_that_ends_early_never_reaches_php() {
    let (_root, responder, server) = Nostat::wordpress();
    for framing in [
        "Content-Length: 100\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let mut connection = server.connect();
        connection.send(
            format!("POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\n{framing}").as_bytes(),
        );
        connection.half_close();
        match connection.try_read("POST") {
            Ok(response) => assert_eq!(
                (response.status, response.closes()),
                (400, true),
                "{framing:?}"
            ),
            Err(Cut::End) => {}
            Err(other) => panic!("{framing:?}: {other}"),
        }
        let mut connection = server.connect();
        connection.send(
            format!("POST /wp-login.php HTTP/1.1\r\nHost: example.com\r\n{framing}").as_bytes(),
        );
        connection.reset();
    }
    server.get("/after").assert(200, b"php GET /after 0");
    assert_eq!(responder.only_request().param("REQUEST_URI"), "/after");
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_rest_unharmed() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{connections: 10}"));
    // The connection that saw the server start may still count for a moment.
    let open = || {
        let mut connection = server.connect();
        connection.send_lossy(&request("GET", STYLE_PATH, &[], b""));
        let answered = connection
            .try_read("GET")
            .is_ok_and(|response| response.status == 200);
        answered.then_some(connection)
    };
    let mut kept: Vec<_> = (0..10)
        .map(|_| crate::support::eventually("ten places", open))
        .collect();
    for _ in 0..5 {
        let mut beyond = server.connect();
        beyond.send_lossy(SMUGGLED);
        assert!(!matches!(beyond.try_read("GET"), Ok(response) if response.status == 200));
    }
    for connection in &mut kept {
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    drop(kept);
    crate::support::eventually("a place is free again", || {
        let mut connection = server.connect();
        connection.send_lossy(SMUGGLED);
        connection
            .try_read("GET")
            .ok()
            .filter(|response| response.status == 200)
    });
}
