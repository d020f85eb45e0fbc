//! WebSockets to an origin (RFC 6455): asked for, granted, refused, and never a way around the rules of requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::client::Connection;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_origin::{FakeOrigin, OriginRequest};
use crate::support::nostat::{Config, Nostat};

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: example.com\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const GRANT: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Grants what asks for a WebSocket, and answers all else.
fn grants(request: &OriginRequest) -> Vec<u8> {
    match request.field("upgrade") {
        Some("websocket") => GRANT.to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain".to_vec(),
    }
}

fn echo(mut stream: TcpStream, early: Vec<u8>) {
    let mut piece = early;
    loop {
        if stream.write_all(&piece).is_err() {
            return;
        }
        piece.resize(4096, 0);
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => piece.truncate(read),
        }
    }
}

fn config(root: &DocumentRoot, origin: &FakeOrigin) -> Config {
    Config::preset("wordpress", root.path()).site("origin", &format!("[\"{}\"]", origin.address()))
}

fn opened(server: &Nostat) -> Connection {
    let mut connection = server.connect();
    connection.send(ASK.as_bytes());
    let head = connection.read_head_only();
    assert_eq!(head.status, 101);
    connection
}

#[test]
fn bytes_pass_both_ways_the_early_ones_too() {
    let root = DocumentRoot::wordpress();
    let was_early = Arc::new(AtomicBool::new(false));
    let seen_early = Arc::clone(&was_early);
    let origin = FakeOrigin::tunnelling(
        |request| {
            // Time for what must not come before this answer.
            thread::sleep(Duration::from_millis(200));
            grants(request)
        },
        move |stream, early| {
            seen_early.store(!early.is_empty(), Ordering::SeqCst);
            echo(stream, early);
        },
    );
    let server = Nostat::start(&config(&root, &origin));
    let mut connection = server.connect();
    // A request comes first, as on any connection; early bytes wait for the origin's word, more than are kept for it too.
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    let early = "early \0\r\n\r\n".repeat(5000);
    connection.send(ASK.as_bytes());
    let mut writer = connection.writer();
    let sent = early.clone();
    let sending = thread::spawn(move || writer.write_all(sent.as_bytes()).unwrap());
    let head = connection.read_head_only();
    assert_eq!(head.status, 101);
    assert_eq!(head.field("upgrade"), Some("websocket"));
    assert_eq!(
        head.field("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert!(connection.read_bytes(early.len()) == early.as_bytes());
    sending.join().unwrap();
    assert!(!was_early.load(Ordering::SeqCst), "sent on before the 101");
    for index in 0..1000 {
        let message = format!("message {index} ").repeat(1 + index % 40);
        connection.send(message.as_bytes());
        assert_eq!(connection.read_bytes(message.len()), message.as_bytes());
    }
    // More than any buffer on the way.
    let large: Vec<u8> = (0..3 << 20).map(|index: u32| index as u8).collect();
    let mut writer = connection.writer();
    let sent = large.clone();
    let sending = thread::spawn(move || writer.write_all(&sent).unwrap());
    assert!(
        connection.read_bytes(large.len()) == large,
        "changed on its way"
    );
    sending.join().unwrap();
    let requests = origin.requests();
    let asked = &requests[0];
    assert_eq!(asked.field("upgrade"), Some("websocket"), "{}", asked.head);
    assert_eq!(asked.field("connection"), Some("Upgrade"), "{}", asked.head);
    assert_eq!(asked.field("sec-websocket-version"), Some("13"));
    assert_eq!(asked.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(requests.len(), 1);
}

#[test]
fn the_end_of_one_side_is_the_others() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, |mut stream, _| {
        let mut first = [0; 1];
        if stream.read_exact(&mut first).is_ok() && first == *b"q" {
            stream.write_all(b"bye").unwrap();
        } else {
            // The client has gone.
            let _ = stream.write_all(b"-");
        }
    });
    let server = Nostat::start(&config(&root, &origin));
    let mut connection = opened(&server);
    connection.send(b"q");
    assert_eq!(connection.read_to_end(), b"bye");
    drop(connection);
    let mut connection = opened(&server);
    connection.half_close();
    connection.read_to_end();
    drop(connection);
    let connection = opened(&server);
    connection.reset();
    eventually("all connections are gone", || {
        (server.established() == 0).then_some(())
    });
}

#[test]
fn an_origin_that_breaks_off_leaves_no_answer_in_the_tunnel() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, |mut stream, _| {
        let mut first = [0; 1];
        let _ = stream.read_exact(&mut first);
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let server = Nostat::start(&config(&root, &origin));
    for _ in 0..5 {
        let mut connection = opened(&server);
        connection.send(b"q");
        let rest = connection.read_to_end();
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn a_tunnel_may_be_silent_for_longer_than_a_request() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, echo);
    let value = format!(
        "{{peers: [\"{}\"], first_byte: 1s, between_bytes: 1s}}",
        origin.address()
    );
    let config = Config::preset("wordpress", root.path())
        .site("origin", &value)
        .top(
            "limits",
            "{body: 1s, keep_alive: 1s, request_head: 1s, send: 1s}",
        );
    let server = Nostat::start(&config);
    let mut connection = opened(&server);
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(1500));
        connection.send(b"still here");
        assert_eq!(connection.read_bytes(10), b"still here");
    }
}

#[test]
fn what_is_no_web_socket_reaches_the_origin_as_a_plain_request() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, echo);
    let server = Nostat::start(&config(&root, &origin));
    let host = "Host: example.com\r\n";
    for (line, fields, body) in [
        (
            "POST /p HTTP/1.1",
            "Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n",
            "ab",
        ),
        (
            "GET /p HTTP/1.1",
            "Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n",
            "ab",
        ),
        (
            "GET /p HTTP/1.1",
            "Upgrade: h2c\r\nConnection: upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n",
            "",
        ),
        (
            "GET /p HTTP/1.1",
            "Upgrade: websocket, h2c\r\nConnection: upgrade\r\n",
            "",
        ),
        ("GET /p HTTP/1.1", "Upgrade: websocket\r\n", ""),
        (
            "GET /p HTTP/1.0",
            "Upgrade: websocket\r\nConnection: upgrade\r\n",
            "",
        ),
    ] {
        let mut connection = server.connect();
        connection.send(format!("{line}\r\n{host}{fields}\r\n{body}").as_bytes());
        connection.read("GET").assert(200, b"plain");
        let requests = origin.requests();
        let seen = requests.last().expect("a request");
        assert_eq!(seen.field("upgrade"), None, "{}", seen.head);
        assert_eq!(seen.body, body.as_bytes());
    }
}

#[test]
fn what_comes_behind_a_refused_one_is_a_request_and_judged_as_one() {
    let root = DocumentRoot::wordpress();
    let origin =
        FakeOrigin::start(|_| b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_vec());
    let server = Nostat::start(&config(&root, &origin));
    let mut connection = server.connect();
    let behind = "GET /.env HTTP/1.1\r\nHost: example.com\r\n\r\n";
    connection.send(format!("{ASK}{behind}{ASK}").as_bytes());
    connection.read("GET").assert(403, b"no");
    assert!(matches!(connection.read("GET").status, 403 | 404));
    connection.read("GET").assert(403, b"no");
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    let requests = origin.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        requests
            .iter()
            .all(|seen| seen.request_line() == "GET /ws HTTP/1.1")
    );
}

#[test]
fn a_tunnel_that_nobody_asked_for_is_none() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|request| match request.request_line() {
        "GET /other HTTP/1.1" | "GET /ws HTTP/1.1" => {
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
                .to_vec()
        }
        _ => GRANT.to_vec(),
    });
    let server = Nostat::start(&config(&root, &origin));
    for request in [
        "GET /page HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET /page HTTP/1.1\r\nHost: example.com\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        "GET /page HTTP/1.0\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "POST /page HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\nx",
        ASK,
    ] {
        let mut connection = server.connect();
        connection.send(request.as_bytes());
        connection.send_lossy(b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n");
        let answer = connection.read("GET");
        assert_eq!(answer.status, 502, "{request}");
    }
    let requests = origin.requests();
    assert!(
        requests
            .iter()
            .all(|seen| seen.body.is_empty() || seen.body == b"x")
    );
}

#[test]
fn an_origin_that_does_not_answer_is_504() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|_| {
        thread::sleep(Duration::from_secs(5));
        Vec::new()
    });
    let value = format!("{{peers: [\"{}\"], first_byte: 1s}}", origin.address());
    let server = Nostat::start(&Config::preset("wordpress", root.path()).site("origin", &value));
    let mut connection = server.connect();
    connection.send(ASK.as_bytes());
    let answer = connection.read("GET");
    assert_eq!(answer.status, 504);
    connection.expect_in_step_after(&answer, STYLE_PATH, STYLE_BYTES);
    server.wait_for_log(0, "the origin is silent");
}

#[test]
fn a_stop_waits_for_a_tunnel_as_long_as_limits_drain_says() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, echo);
    let server = Nostat::start(&config(&root, &origin).top("limits", "{drain: 2s, body: 1s}"));
    let mut connection = opened(&server);
    let mut writer = connection.writer();
    let stopped = thread::spawn(move || server.stop());
    writer.write_all(b"still here").unwrap();
    assert_eq!(connection.read_bytes(10), b"still here");
    let stopped = stopped.join().unwrap();
    assert!(stopped.status.success(), "{}", stopped.log);
    connection.read_to_end();
    let _ = writer.shutdown(Shutdown::Both);
}

#[test]
fn a_page_cache_has_nothing_to_do_with_tunnels() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::tunnelling(grants, echo);
    let server = Nostat::start(&config(&root, &origin).site("page_cache", "memory"));
    for _ in 0..3 {
        server.get("/ws").assert(200, b"plain");
        let mut connection = opened(&server);
        connection.send(b"hello");
        assert_eq!(connection.read_bytes(5), b"hello");
    }
}

#[test]
fn an_answer_that_is_no_101_may_take_longer_than_its_first_byte() {
    let root = DocumentRoot::wordpress();
    let pieces = 6;
    let slow = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = slow.local_addr().unwrap();
    let answering = thread::spawn(move || {
        let (mut stream, _) = slow.accept().unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).unwrap();
        let length = pieces * 5;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        for _ in 0..pieces {
            thread::sleep(Duration::from_millis(400));
            stream.write_all(b"piece").unwrap();
        }
    });
    let value = format!("{{peers: [\"{address}\"], first_byte: 1s, between_bytes: 10s}}");
    let server = Nostat::start(&Config::preset("wordpress", root.path()).site("origin", &value));
    let mut connection = server.connect();
    connection.send(ASK.as_bytes());
    connection.read("GET").assert(200, &b"piece".repeat(pieces));
    answering.join().unwrap();
}
