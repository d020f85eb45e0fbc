//! An HTTP origin in the place of PHP.

use std::thread;
use std::time::Duration;

use crate::support::client::{Cut, chunked, request};
use crate::support::document_root::{DocumentRoot, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_origin::{FakeOrigin, OriginRequest};
use crate::support::nostat::{Config, Nostat};

fn describes(request: &OriginRequest) -> Vec<u8> {
    let body = format!("origin {} {}", request.request_line(), request.body.len());
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-From: origin\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn config(root: &DocumentRoot, origin: &FakeOrigin) -> Config {
    Config::preset("wordpress", root.path()).site("origin", &format!("[\"{}\"]", origin.address()))
}

#[test]
fn files_are_sent_here_and_everything_else_is_asked_of_the_origin() {
    let (root, origin) = (DocumentRoot::wordpress(), FakeOrigin::start(describes));
    let server = Nostat::start(&config(&root, &origin));
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let page = connection.get("/a/page/?q=%20x");
        page.assert(200, b"origin GET /a/page/?q=%20x HTTP/1.1 0");
        assert_eq!(page.field("x-from"), Some("origin"));
        connection
            .get("/wp-login.php")
            .assert(200, b"origin GET /wp-login.php HTTP/1.1 0");
        assert!(matches!(connection.get("/.env").status, 403 | 404));
    }
    assert_eq!(origin.requests().len(), 6);
}

#[test]
fn the_origin_is_told_who_asked() {
    let (root, origin) = (DocumentRoot::wordpress(), FakeOrigin::start(describes));
    let server = Nostat::start(&config(&root, &origin).top("trusted_proxies", "[]"));
    let fields = [
        ("Host", "shop.example.com:81"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Real-IP", "203.0.113.9"),
        ("Forwarded", "for=203.0.113.9"),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("TE", "trailers"),
        ("Cookie", "a=1"),
        ("X-Kept", "1"),
    ];
    server.connect().get_with("/who", &fields);
    let requests = origin.requests();
    let seen = &requests[0];
    assert_eq!(
        seen.lines("host").collect::<Vec<_>>(),
        ["shop.example.com:81"]
    );
    assert_eq!(
        seen.lines("x-forwarded-for").collect::<Vec<_>>(),
        ["127.0.0.1"],
        "{}",
        seen.head
    );
    assert_eq!(
        seen.lines("x-forwarded-proto").collect::<Vec<_>>(),
        ["http"],
        "{}",
        seen.head
    );
    assert!(
        seen.lines("x-real-ip")
            .all(|address| address == "127.0.0.1"),
        "{}",
        seen.head
    );
    for name in ["x-hop", "keep-alive", "proxy-connection", "te"] {
        assert_eq!(seen.field(name), None, "{name} in {}", seen.head);
    }
    assert!(!seen.head.contains("203.0.113.9"), "{}", seen.head);
    assert_eq!(
        (seen.field("cookie"), seen.field("x-kept")),
        (Some("a=1"), Some("1"))
    );
}

#[test]
fn bodies_arrive_whole_and_beyond_the_limit_not_at_all() {
    let (root, origin) = (DocumentRoot::wordpress(), FakeOrigin::start(describes));
    let server = Nostat::start(&config(&root, &origin).top("limits", "{max_body: 4MiB}"));
    let body: Vec<u8> = (0..3 << 20).map(|index: u32| index as u8).collect();
    let mut connection = server.connect();
    for length in [1, 5000, 3 << 20] {
        let line = format!("origin POST /up HTTP/1.1 {length}");
        connection
            .request("POST", "/up", &[], &body[..length])
            .assert(200, line.as_bytes());
        server
            .send(
                "POST",
                "/up",
                &[("Transfer-Encoding", "chunked")],
                &chunked(&body[..length], 4000),
            )
            .assert(200, line.as_bytes());
        for seen in origin.requests().iter().rev().take(2) {
            assert!(seen.body == body[..length], "changed on its way");
        }
    }
    let before = origin.requests().len();
    let mut connection = server.connect();
    connection.send_lossy(&request("POST", "/up", &[], &vec![b'x'; (4 << 20) + 1]));
    assert_eq!(connection.read("POST").status, 413);
    assert_eq!(origin.requests().len(), before);
}

#[test]
fn answers_without_a_body_and_in_chunks_keep_the_connection_in_step() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|request| {
        let line = request.request_line();
        let text: &[u8] = match line.split(' ').nth(1).unwrap_or_default() {
            "/204" => b"HTTP/1.1 204 No Content\r\n\r\n",
            "/304" => b"HTTP/1.1 304 Not Modified\r\nETag: \"o\"\r\n\r\n",
            "/chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4\r\n two\r\n0\r\n\r\n",
            "/length" if line.starts_with("HEAD") => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        };
        text.to_vec()
    });
    let server = Nostat::start(&config(&root, &origin));
    let mut connection = server.connect();
    for (method, path, status, body) in [
        ("GET", "/204", 204, ""),
        ("GET", "/304", 304, ""),
        ("GET", "/chunks", 200, "one two"),
        ("HEAD", "/length", 200, ""),
        ("GET", "/length", 200, "body"),
    ] {
        connection
            .request(method, path, &[], b"")
            .assert(status, body.as_bytes());
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn an_origin_that_fails_is_502_stalls_504_and_dies_midway_cut() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|request| {
        match request.request_line().split(' ').nth(1).unwrap_or_default() {
            "/stall" => {
                thread::sleep(Duration::from_secs(6));
                Vec::new()
            }
            "/garbage" => b"not http at all\r\n\r\n".to_vec(),
            "/nothing" => Vec::new(),
            "/short" => {
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhalf".to_vec()
            }
            _ => describes(request),
        }
    });
    let value = format!(
        "{{peers: [\"{}\"], first_byte: 1s, between_bytes: 1s}}",
        origin.address()
    );
    let server = Nostat::start(&Config::preset("wordpress", root.path()).site("origin", &value));
    assert_eq!(server.get("/stall").status, 504);
    assert_eq!(server.get("/garbage").status, 502);
    assert_eq!(server.send("POST", "/nothing", &[], b"x").status, 502);
    let mut connection = server.connect();
    connection.send(&request("GET", "/short", &[], b""));
    assert!(
        matches!(
            connection.try_read("GET"),
            Err(Cut::Short { .. } | Cut::Timeout { .. })
        ),
        "a short answer passed as whole"
    );
    server
        .get("/fine")
        .assert(200, b"origin GET /fine HTTP/1.1 0");
    let nobody = crate::support::nostat::free_port();
    let server = Nostat::start(
        &Config::preset("wordpress", root.path())
            .site("origin", &format!("[\"127.0.0.1:{nobody}\"]")),
    );
    let mut connection = server.connect();
    let response = connection.get("/");
    assert_eq!(response.status, 502);
    connection.expect_in_step_after(&response, STYLE_PATH, STYLE_BYTES);
}

#[test]
fn an_origin_gives_no_file_away() {
    let root = DocumentRoot::wordpress();
    root.write(".env", SECRET.as_bytes());
    let origin = FakeOrigin::start(|_| {
        format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {STYLE_PATH}\r\nX-Sendfile: /etc/passwd\r\nContent-Length: 4\r\n\r\nbody").into_bytes()
    });
    let server = Nostat::start(&config(&root, &origin));
    server.get("/page").assert(200, b"body");
}

#[test]
fn hostile_requests_reach_the_origin_as_one_or_not_at_all() {
    let (root, origin) = (DocumentRoot::wordpress(), FakeOrigin::start(describes));
    let server = Nostat::start(&config(&root, &origin));
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n";
    for fields in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Content-Length: 5\r\nContent-Length: 6",
        "Transfer-Encoding: xchunked",
    ] {
        let mut connection = server.connect();
        connection.send_lossy(
            format!("POST /p HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n\r\n0\r\n\r\n{smuggled}")
                .as_bytes(),
        );
        assert!(
            matches!(connection.read("POST").status, 400 | 501),
            "{fields}"
        );
        connection.expect_end();
    }
    assert_eq!(origin.requests().len(), 0);
    // An upgrade that the origin does not grant passes nothing behind the request.
    let mut connection = server.connect();
    connection.send(format!("GET /ws HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nGET /.env HTTP/1.1\r\nHost: example.com\r\n\r\n{smuggled}").as_bytes());
    connection
        .read("GET")
        .assert(200, b"origin GET /ws HTTP/1.1 0");
    assert!(matches!(connection.read("GET").status, 403 | 404));
    connection
        .read("GET")
        .assert(200, b"origin GET /smuggled HTTP/1.1 0");
    assert!(
        origin
            .requests()
            .iter()
            .all(|seen| !seen.head.contains(".env"))
    );
}
