//! Faults of the doors that an attack on them found.

use rustix::process::Signal;

use crate::support::client::request;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::script::stdout;
use crate::support::fake_responder::{Gate, Script, Step};
use crate::support::nostat::{Config, Nostat};

const TEXT: &str = "Content-Type: text/plain\r\n\r\n";

#[test]
fn an_http_1_0_client_that_goes_ends_an_endless_answer() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on("/endless", Script::never_ends());
    let mut connection = server.connect();
    connection.send(b"GET /endless HTTP/1.0\r\nHost: example.com\r\n\r\n");
    let head = connection.read_head_only();
    assert_eq!(head.status, 200);
    assert_eq!(head.field("transfer-encoding"), None);
    assert!(head.closes());
    connection.reset();
    responder.only_request().wait_until_closed_early();
}

#[test]
fn a_reset_is_seen_after_the_clients_end_and_behind_many_early_bytes() {
    let (_root, responder, server) = Nostat::wordpress();
    for early in [0, 20_000] {
        responder.forget();
        responder.on("/stalls", Script::stalls_before_head());
        let mut connection = server.connect();
        connection.send(b"GET /stalls HTTP/1.1\r\nHost: example.com\r\n\r\n");
        responder.wait_for(1);
        if early == 0 {
            connection.half_close();
        } else {
            connection.send_lossy(&vec![b'x'; early]);
        }
        connection.reset();
        responder.only_request().wait_until_closed_early();
    }
}

#[test]
fn a_target_that_no_parser_agrees_on_reaches_php_as_it_was_sent() {
    let (_root, responder, server) = Nostat::wordpress();
    for target in [
        "/?s=\"foo\"",
        "/a<b>c/",
        "/`x`?y=<z>",
        "/{a}|b^c",
        "/caf\u{e9}/?q=\u{fc}",
    ] {
        responder.forget();
        let mut connection = server.connect();
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n").as_bytes());
        assert_eq!(connection.read("GET").status, 200, "{target}");
        assert_eq!(responder.only_request().param("REQUEST_URI"), target);
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn a_connection_goes_on_after_100_continue() {
    let (_root, responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.send(
        b"POST /p HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(connection.read_head_only().status, 100);
    connection.send(b"abc");
    let answer = connection.read("POST");
    assert_eq!(answer.status, 200);
    assert!(!answer.closes());
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    assert_eq!(responder.only_request().stdin(), b"abc");
}

#[test]
fn what_says_close_closes() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on("/bad", Script::answers("no head at all"));
    let mut connection = server.connect();
    connection.send(
        b"POST /bad HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    );
    let answer = connection.read("POST");
    assert_eq!(answer.status, 502);
    assert!(answer.closes());
    connection.expect_end();
}

#[test]
fn an_empty_line_does_not_make_an_idle_connection_busy() {
    let (_root, _responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    connection.send(b"\r\n");
    let mut server = server;
    server.signal(Signal::TERM);
    // Well below `limits.drain` and `limits.request_head`, which it took before.
    assert!(server.wait().success());
}

#[test]
fn a_signal_right_after_the_start_is_obeyed() {
    let root = DocumentRoot::wordpress();
    for _ in 0..3 {
        let mut server = Nostat::start(&Config::static_files(&root));
        server.signal(Signal::HUP);
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
}

#[test]
fn an_answer_under_way_at_the_order_to_stop_says_close() {
    let (_root, responder, server) = Nostat::wordpress();
    let gate = Gate::default();
    responder.on("/slow", Script::answers_after(&gate, format!("{TEXT}late")));
    let mut connection = server.connect();
    connection.send(&request("GET", "/slow", &[], b""));
    gate.wait_until_reached();
    server.signal(Signal::TERM);
    server.wait_for_log(0, "stopping");
    // The order reaches the connections at once; the answer is let go after it.
    gate.open();
    let answer = connection.read("GET");
    answer.assert(200, b"late");
    assert!(answer.closes());
    connection.expect_end();
}

#[test]
fn a_small_body_that_nobody_wants_may_come_slowly_and_late() {
    let (_root, _responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.send(
        format!("GET {STYLE_PATH} HTTP/1.1\r\nHost: example.com\r\nContent-Length: 6\r\n\r\n")
            .as_bytes(),
    );
    connection.read("GET").assert(200, STYLE_BYTES);
    connection.send_bytewise(b"abcdef");
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn a_cut_answer_is_cut_for_http_1_0_too() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on(
        "/cut",
        Script::new(vec![stdout(format!("{TEXT}half")), Step::Close]),
    );
    let mut connection = server.connect();
    connection.send(b"GET /cut HTTP/1.0\r\nHost: example.com\r\n\r\n");
    // Either the failure is known before the head leaves, or the connection is reset: never a clean end.
    match connection.try_read("GET") {
        Ok(answer) => assert_eq!(answer.status, 502),
        Err(_cut) => {}
    }
}

#[test]
fn head_gets_no_content_even_when_its_head_is_refused() {
    let (_root, _responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.send(b"HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!(connection.read("HEAD").status, 400);
    connection.expect_end();
}

#[test]
fn reset_content_has_none() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on(
        "/205",
        Script::answers(format!("Status: 205\r\n{TEXT}body")),
    );
    let mut connection = server.connect();
    let answer = connection.get("/205");
    answer.assert(205, b"");
    assert_eq!(answer.field("content-length"), Some("0"));
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}
