//! Many requests on one connection, static and PHP in any order.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::client::{chunked, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Gate, Script};
use crate::support::nostat::{Config, Nostat};

/// Rounds in each of [`THREADS`] threads: a thousand of each kind.
const ROUNDS: usize = 250;
const THREADS: usize = 4;

/// Runs `round` a thousand times on connections of its own, with the number of the round.
fn a_thousand_times(round: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let round = &round;
            scope.spawn(move || (0..ROUNDS).for_each(|number| round(thread * ROUNDS + number)));
        }
    });
}

/// The body of the responder's default answer.
fn described(method: &str, path: &str, length: usize) -> Vec<u8> {
    format!("php {method} {path} {length}").into_bytes()
}

/// The second request, its path and the body it must get: a file and a page in turn.
fn next_request(number: usize) -> (Vec<u8>, Vec<u8>) {
    let page = format!("/next/{number}");
    if number.is_multiple_of(2) {
        (request("GET", STYLE_PATH, &[], b""), STYLE_BYTES.to_vec())
    } else {
        (request("GET", &page, &[], b""), described("GET", &page, 0))
    }
}

fn send_next_while_php_works(send: impl Fn(&mut crate::support::client::Connection, &[u8]) + Sync) {
    let (_root, responder, server) = Nostat::wordpress();
    a_thousand_times(|number| {
        let (gate, path) = (Gate::default(), format!("/slow/{number}"));
        responder.on(
            &path,
            Script::answers_after(
                &gate,
                format!("Content-Type: text/plain\r\n\r\nslow {number}"),
            ),
        );
        let mut connection = server.connect();
        connection.send(&request("GET", &path, &[], b""));
        gate.wait_until_reached();
        let (next, body) = next_request(number);
        send(&mut connection, &next);
        gate.open();
        connection
            .read("GET")
            .assert(200, format!("slow {number}").as_bytes());
        connection.read("GET").assert(200, &body);
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    });
}

#[test]
fn the_next_request_sent_in_one_piece_while_php_works_is_answered_next() {
    send_next_while_php_works(|connection, bytes| connection.send(bytes));
}

#[test]
fn the_next_request_sent_byte_by_byte_while_php_works_is_answered_next() {
    send_next_while_php_works(|connection, bytes| connection.send_bytewise(bytes));
}

#[test]
fn a_next_request_cut_anywhere_by_the_end_of_php_is_answered_next() {
    let (_root, responder, server) = Nostat::wordpress();
    a_thousand_times(|number| {
        let (gate, path) = (Gate::default(), format!("/slow/{number}"));
        responder.on(
            &path,
            Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
        );
        let mut connection = server.connect();
        connection.send(&request("GET", &path, &[], b""));
        gate.wait_until_reached();
        let (next, body) = next_request(number);
        let (early, late) = next.split_at(number % next.len());
        connection.send(early);
        gate.open();
        connection.read("GET").assert(200, b"slow");
        connection.send(late);
        connection.read("GET").assert(200, &body);
    });
}

#[test]
fn a_post_and_a_get_in_one_segment_are_two_requests() {
    let (_root, responder, server) = Nostat::wordpress();
    a_thousand_times(|number| {
        let body = vec![b'G'; number * 7 % 3000 + 1];
        let (next, next_body) = next_request(number);
        let post = request("POST", "/wp-login.php", &[], &body);
        let mut connection = server.connect();
        connection.send(&[post, next].concat());
        connection
            .read("POST")
            .assert(200, &described("POST", "/wp-login.php", body.len()));
        connection.read("GET").assert(200, &next_body);
    });
    assert!(responder.requests().iter().all(|seen| seen.is_whole()));
}

#[test]
fn a_half_closed_client_gets_every_answer_it_asked_for() {
    let (_root, responder, server) = Nostat::wordpress();
    a_thousand_times(|number| {
        let (gate, path) = (Gate::default(), format!("/slow/{number}"));
        responder.on(
            &path,
            Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
        );
        let mut connection = server.connect();
        let (next, body) = next_request(number);
        let slow = request("GET", &path, &[], b"");
        match number % 4 {
            // The end comes with the request, while PHP works, or behind a second request.
            0 => {
                connection.send(&slow);
                connection.half_close();
                gate.wait_until_reached();
                gate.open();
                connection.read("GET").assert(200, b"slow");
            }
            1 => {
                connection.send(&slow);
                gate.wait_until_reached();
                connection.half_close();
                gate.open();
                connection.read("GET").assert(200, b"slow");
            }
            2 => {
                connection.send(&[slow, next].concat());
                connection.half_close();
                gate.wait_until_reached();
                gate.open();
                connection.read("GET").assert(200, b"slow");
                connection.read("GET").assert(200, &body);
            }
            _ => {
                connection.send(&[request("GET", STYLE_PATH, &[], b""), next].concat());
                connection.half_close();
                connection.read("GET").assert(200, STYLE_BYTES);
                connection.read("GET").assert(200, &body);
            }
        }
        connection.expect_end();
    });
}

#[test]
fn files_and_pages_follow_each_other_in_any_order() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/big.js", &vec![b'j'; 200_000]);
    responder.on(
        "/chunks",
        Script::splits_records("Content-Type: text/plain\r\n\r\nin pieces"),
    );
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let mut connection = server.connect();
    let mut state = 7_u32;
    for _ in 0..2_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match state >> 29 {
            0 => connection.get(STYLE_PATH).assert(200, STYLE_BYTES),
            1 => connection
                .get("/a/page/")
                .assert(200, b"php GET /a/page/ 0"),
            2 => assert_eq!(connection.request("HEAD", STYLE_PATH, &[], b"").status, 200),
            3 => assert_eq!(connection.request("HEAD", "/a/page/", &[], b"").status, 200),
            4 => connection
                .request("POST", "/a/page/", &[], b"body")
                .assert(200, b"php POST /a/page/ 4"),
            5 => assert_eq!(connection.get("/wp-content/gone.css").status, 404),
            6 => connection.get("/chunks").assert(200, b"in pieces"),
            _ => connection
                .get("/wp-content/big.js")
                .assert(200, &vec![b'j'; 200_000]),
        }
    }
}

#[test]
fn fifty_pipelined_requests_are_answered_in_order() {
    let (_root, _responder, server) = Nostat::wordpress();
    for kind in 0..3 {
        let path = |number: usize| match kind {
            0 => STYLE_PATH.to_owned(),
            1 => format!("/page/{number}"),
            _ if number.is_multiple_of(3) => STYLE_PATH.to_owned(),
            _ => format!("/page/{number}"),
        };
        let method = |number: usize| if number % 5 == 4 { "HEAD" } else { "GET" };
        let segment: Vec<u8> = (0..50)
            .flat_map(|number| request(method(number), &path(number), &[], b""))
            .collect();
        let mut connection = server.connect();
        connection.send(&segment);
        for number in 0..50 {
            let response = connection.read(method(number));
            let body = if path(number) == STYLE_PATH {
                STYLE_BYTES.to_vec()
            } else {
                described("GET", &path(number), 0)
            };
            response.assert(200, if method(number) == "HEAD" { b"" } else { &body });
        }
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn more_than_a_buffer_sent_early_is_kept_or_waited_for() {
    let (_root, responder, server) = Nostat::wordpress();
    let gate = Gate::default();
    responder.on(
        "/slow",
        Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
    );
    let mut connection = server.connect();
    connection.send(&request("GET", "/slow", &[], b""));
    gate.wait_until_reached();
    let wide = "x".repeat(4000);
    for _ in 0..20 {
        connection.send(&request("GET", STYLE_PATH, &[("X-Wide", &wide)], b""));
    }
    gate.open();
    connection.read("GET").assert(200, b"slow");
    for _ in 0..20 {
        connection.read("GET").assert(200, STYLE_BYTES);
    }
}

#[test]
fn a_chunked_upload_leaves_the_connection_in_step_or_closed() {
    let (_root, _responder, server) = Nostat::wordpress();
    for size in [1, 7, 4096] {
        let mut connection = server.connect();
        let body = chunked(&[b'u'; 5000], size);
        connection.send(
            &[
                request("POST", "/up", &[("Transfer-Encoding", "chunked")], &body),
                request("GET", STYLE_PATH, &[], b""),
            ]
            .concat(),
        );
        let response = connection.read("POST");
        response.assert(200, b"php POST /up 5000");
        if !response.closes() {
            connection.read("GET").assert(200, STYLE_BYTES);
        }
    }
}

#[test]
fn persistence_follows_version_and_connection_field() {
    let (_root, _responder, server) = Nostat::wordpress();
    for path in [STYLE_PATH, "/a/page/"] {
        let mut connection = server.connect();
        connection.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        assert_eq!(connection.read("GET").status, 200, "{path}");
        connection.expect_end();
        let mut connection = server.connect();
        connection.send(
            format!("GET {path} HTTP/1.0\r\nHost: example.com\r\nConnection: Keep-Alive\r\n\r\n")
                .as_bytes(),
        );
        let response = connection.read("GET");
        if !response.closes()
            && response
                .lines("connection")
                .any(|value| value.eq_ignore_ascii_case("keep-alive"))
        {
            connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
        } else {
            connection.expect_end();
        }
        for field in ["close", "Close", "foo, close", "keep-alive, close"] {
            let mut connection = server.connect();
            let response = connection.get_with(path, &[("Connection", field)]);
            assert!(
                response.status == 200 && response.closes(),
                "{field}: {response}"
            );
            connection.expect_end();
        }
    }
    let mut connection = server.connect();
    connection.send(b"\r\n");
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn a_connection_ends_after_its_idle_time_and_its_number_of_requests() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .top("limits", "{keep_alive: 1s, requests_per_connection: 3}");
    let server = Nostat::start(&config);
    for path in [STYLE_PATH, "/a/page/"] {
        let mut idle = server.connect();
        assert_eq!(idle.get(path).status, 200);
        idle.expect_end();
        let mut busy = server.connect();
        assert!(!busy.get(path).closes());
        assert!(!busy.get(path).closes());
        assert!(busy.get(path).closes(), "the third of three");
        busy.expect_end();
    }
}

#[test]
fn a_client_that_sends_without_end_leaves_the_others_their_turn() {
    const ASKED: usize = 30_000;
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    server.settled(STYLE_PATH);
    let mut greedy = server.connect();
    let (mut other, one) = (server.connect(), request("HEAD", STYLE_PATH, &[], b""));
    let mut writer = greedy.writer();
    let answered = &AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&one.repeat(ASKED)).unwrap());
        scope.spawn(move || {
            for _ in 0..ASKED {
                greedy.read("HEAD");
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
        eventually("the first answers", || {
            (answered.load(Ordering::SeqCst) > 0).then_some(())
        });
        other.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let before_me = answered.load(Ordering::SeqCst);
        assert!(before_me < ASKED, "all of {ASKED} answers went first");
    });
}
