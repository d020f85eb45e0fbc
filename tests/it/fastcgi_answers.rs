//! Answers of the responder, and what the client gets of them.

use crate::support::client::{Cut, request};
use crate::support::document_root::{STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::script::stdout;
use crate::support::fake_responder::{Gate, Script, Step};
use crate::support::nostat::Nostat;

const TEXT: &str = "Content-Type: text/plain\r\n\r\n";

#[test]
fn status_and_location_follow_rfc_3875() {
    let (_root, responder, server) = Nostat::wordpress();
    let text = "Content-Type: text/plain\r\n\r\nbody";
    for (fields, status) in [
        ("Status: 404 Not Found\r\n", 404),
        ("Status: 404\r\n", 404),
        ("Status:404\r\n", 404),
        ("status: 451 Unavailable For Legal Reasons\r\n", 451),
        ("Status: 418 I'm a teapot\r\n", 418),
        ("Status: 599\r\n", 599),
        ("", 200),
        ("Status: abc\r\n", 502),
        ("Status: 99\r\n", 502),
        ("Status: 1000\r\n", 502),
        ("Status: -200\r\n", 502),
        ("Status: \r\n", 502),
        ("Status: 100 Continue\r\n", 502),
        ("Status: 101 Switching Protocols\r\n", 502),
        ("Status: 103 Early Hints\r\n", 502),
        ("Location: https://example.org/\r\n", 302),
        ("Status: 201 Created\r\nLocation: /new\r\n", 201),
        ("Status: 301\r\nLocation: /moved\r\n", 301),
        ("Status: 303 See Other\r\nLocation: /moved\r\n", 303),
    ] {
        responder.on("/s", Script::answers(format!("{fields}{text}")));
        let mut connection = server.connect();
        let response = connection.get("/s");
        assert_eq!(response.status, status, "{fields:?}");
        assert_eq!(response.field("status"), None, "{fields:?}");
        if status != 502 {
            assert_eq!(response.text(), "body", "{fields:?}");
        }
    }
    // A local redirect: told to the client, or followed inside; never a 200 of this body.
    responder.on("/s", Script::answers(format!("Location: /local\r\n{text}")));
    let response = server.get("/s");
    assert!(
        response.status == 302 || response.text() == "php GET /local 0",
        "{response}"
    );
}

#[test]
fn a_head_is_read_however_it_is_cut_padded_or_ended() {
    let (_root, responder, server) = Nostat::wordpress();
    let crlf = "Status: 201 Created\r\nContent-Type: text/plain\r\nX-A: b\r\n\r\nthe body";
    let lf = crlf.replace("\r\n", "\n");
    let large = format!("{TEXT}{}", "L".repeat(65_535 - TEXT.len()));
    let mut scripts = vec![
        Script::splits_records(crlf),
        Script::splits_records(&lf),
        Script::answers(&lf),
    ];
    scripts.extend([1, 3, 5, 7, 255].map(|padding| Script::pads(crlf, padding)));
    scripts.push(Script::new(vec![
        Step::Padded(Vec::new(), 7),
        Step::ManagementRecord,
        stdout(crlf),
        Step::Padded(Vec::new(), 0),
        Step::ManagementRecord,
        Step::End,
    ]));
    for (number, script) in scripts.into_iter().enumerate() {
        responder.on("/cut", script);
        let response = server.get("/cut");
        response.assert(201, b"the body");
        assert_eq!(response.field("x-a"), Some("b"), "script {number}");
    }
    responder.on("/cut", Script::pads(&large, 0));
    assert_eq!(server.get("/cut").body.len(), 65_535 - TEXT.len());
    let megabytes = format!("{TEXT}{}", "m".repeat(8 << 20));
    responder.on("/cut", Script::answers(&megabytes));
    assert_eq!(server.get("/cut").body.len(), 8 << 20);
    responder.on("/cut", Script::answers(TEXT));
    server.get("/cut").assert(200, b"");
}

#[test]
fn three_cookies_are_three_lines() {
    let (_root, responder, server) = Nostat::wordpress();
    let cookies = [
        "a=1; Path=/",
        "b=2; Expires=Wed, 01 Jan 2031 00:00:00 GMT",
        "c=3",
    ];
    let lines: String = cookies
        .iter()
        .map(|cookie| format!("Set-Cookie: {cookie}\r\n"))
        .collect();
    responder.on("/c", Script::answers(format!("{lines}{TEXT}x")));
    assert_eq!(
        server.get("/c").lines("set-cookie").collect::<Vec<_>>(),
        cookies
    );
}

#[test]
fn fields_that_belong_to_one_connection_are_not_passed_on() {
    let (_root, responder, server) = Nostat::wordpress();
    let fields = "Connection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nTransfer-Encoding: gzip\r\n\
                  TE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\nX-Kept: 1\r\nETag: \"php\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n";
    responder.on(
        "/h",
        Script::answers(format!("{fields}Content-Length: 4\r\n{TEXT}body")),
    );
    let mut connection = server.connect();
    let response = connection.get("/h");
    response.assert(200, b"body");
    for name in [
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
    ] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(
        (response.field("x-kept"), response.field("etag")),
        (Some("1"), Some("\"php\""))
    );
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    // PHP's validators are PHP's own affair.
    assert_eq!(
        server
            .get_with("/h", &[("If-None-Match", "\"php\"")])
            .status,
        200
    );
}

#[test]
fn stderr_is_logged_and_never_part_of_the_answer() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on("/noise", Script::writes_stderr(TEXT, "clean"));
    let mut connection = server.connect();
    for _ in 0..5 {
        connection.get("/noise").assert(200, b"clean");
    }
    server.wait_for_log(0, "PHP Warning: noise");
    let length = server.log().len();
    assert!(
        length < 1_000_000,
        "{length} bytes of log from 3 MB of noise"
    );
}

#[test]
fn answers_without_a_body_stay_without_one() {
    let (_root, responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    for (method, status) in [
        ("HEAD", 200),
        ("GET", 204),
        ("GET", 304),
        ("HEAD", 204),
        ("HEAD", 404),
    ] {
        for length in ["", "Content-Length: 5\r\n"] {
            responder.on(
                "/b",
                Script::answers(format!("Status: {status}\r\n{length}{TEXT}stray")),
            );
            let response = connection.request(method, "/b", &[], b"");
            assert_eq!(
                (response.status, response.body.len()),
                (status, 0),
                "{method} {status}"
            );
            connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
        }
    }
    // A long stray body does not hold the next request up.
    responder.on(
        "/b",
        Script::answers(format!("Status: 304\r\n{TEXT}{}", "s".repeat(4 << 20))),
    );
    assert_eq!(connection.get("/b").status, 304);
    connection.expect_in_step("/next", b"php GET /next 0");
}

#[test]
fn a_length_that_lies_never_gives_a_wrong_answer() {
    let (_root, responder, server) = Nostat::wordpress();
    let answer = |lengths: &str, body: &str| Script::answers(format!("{lengths}{TEXT}{body}"));
    let mut connection = server.connect();
    responder.on("/long", answer("Content-Length: 4\r\n", "bodyEXCESS"));
    connection.get("/long").assert(200, b"body");
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    responder.on(
        "/twice",
        answer("Content-Length: 4\r\nContent-Length: 4\r\n", "body"),
    );
    let twice = server.get("/twice");
    assert!(twice.status == 502 || twice.body == b"body", "{twice}");
    for lengths in [
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: x\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +4\r\n",
    ] {
        responder.on("/bad", answer(lengths, "body"));
        assert_eq!(server.get("/bad").status, 502, "{lengths:?}");
    }
    responder.on("/short", answer("Content-Length: 10\r\n", "body"));
    let mut connection = server.connect();
    connection.send(&request("GET", "/short", &[], b""));
    match connection.try_read("GET") {
        Ok(response) => assert_eq!(response.status, 502),
        Err(Cut::Short { .. }) => {}
        Err(cut) => panic!("{cut}"),
    }
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let (_root, responder, server) = Nostat::wordpress();
    let gate = Gate::default();
    responder.on(
        "/open",
        Script::new(vec![
            stdout(format!("X-Accel-Buffering: no\r\n{TEXT}one")),
            Step::Wait(gate.clone()),
            stdout(" two"),
            Step::End,
        ]),
    );
    let mut connection = server.connect();
    connection.send(b"GET /open HTTP/1.0\r\nHost: example.com\r\n\r\n");
    gate.wait_until_reached();
    gate.open();
    let response = connection.read("GET");
    response.assert(200, b"one two");
    assert_eq!(response.field("transfer-encoding"), None);
    connection.expect_end();
}

#[test]
fn a_whole_answer_gets_its_length() {
    let (_root, responder, server) = Nostat::wordpress();
    // All of it in one write, as PHP-FPM sends short answers: STDOUT, its end, END_REQUEST.
    let text = format!("{TEXT}whole");
    let length = u8::try_from(text.len()).unwrap();
    let mut records = vec![1, 6, 0, 1, 0, length, 0, 0];
    records.extend_from_slice(text.as_bytes());
    records.extend_from_slice(&[1, 6, 0, 1, 0, 0, 0, 0]);
    records.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    responder.on("/w", Script::sends_raw(&records));
    let response = server.get("/w");
    assert_eq!(
        (
            response.field("content-length"),
            response.field("transfer-encoding")
        ),
        (Some("5"), None)
    );
}

#[test]
fn unbuffered_answers_are_passed_piece_by_piece() {
    let (_root, responder, server) = Nostat::wordpress();
    for (path, fields) in [
        ("/sse", "Content-Type: text/event-stream\r\n\r\n"),
        (
            "/accel",
            "X-Accel-Buffering: no\r\nContent-Type: text/plain\r\n\r\n",
        ),
    ] {
        let gate = Gate::default();
        responder.on(
            path,
            Script::new(vec![
                stdout(format!("{fields}data: 1\n\n")),
                Step::Wait(gate.clone()),
                stdout("data: 2\n\n"),
                Step::End,
            ]),
        );
        let mut connection = server.connect();
        connection.send(&request("GET", path, &[], b""));
        let head = connection.read_head_only();
        assert_eq!(
            (head.status, head.field("transfer-encoding")),
            (200, Some("chunked")),
            "{path}"
        );
        assert_eq!(
            connection.read_bytes(14),
            b"9\r\ndata: 1\n\n\r\n",
            "the first piece comes while PHP works"
        );
        gate.open();
        assert_eq!(connection.read_bytes(19), b"9\r\ndata: 2\n\n\r\n0\r\n\r\n");
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn a_script_that_works_on_after_its_answer_holds_no_client() {
    let (_root, responder, server) = Nostat::wordpress();
    let gate = Gate::default();
    responder.on(
        "/late",
        Script::ends_late(&gate, format!("Content-Length: 4\r\n{TEXT}body")),
    );
    let mut connection = server.connect();
    connection.get("/late").assert(200, b"body");
    connection.expect_in_step("/next", b"php GET /next 0");
    assert_eq!(responder.running(), 1, "the script goes on");
    assert!(!responder.requests()[0].closed_early(), "and is not cut");
    gate.open();
    eventually("the script ends", || {
        (responder.running() == 0).then_some(())
    });
    assert!(!responder.requests()[0].closed_early());
}
