//! Request bodies on their way to the responder.

use std::thread;

use crate::support::client::{chunked, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

/// Bytes that tell where they belong.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn bodies_of_every_size_arrive_whole_by_length_and_in_chunks() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server = Nostat::start(
        &Config::wordpress(&root, &responder)
            .top("spool", "{memory: 16KiB, total: 64MiB}")
            .top("limits", "{max_body: 32MiB}"),
    );
    for length in [
        1,
        2,
        4096,
        16_383,
        16_384,
        16_385,
        65_535,
        65_536,
        131_073,
        3 << 20,
    ] {
        let body = pattern(length);
        for size in [None, Some(1000), Some(65_536)] {
            let response = match size {
                None => server.send("POST", "/up", &[], &body),
                Some(size) => server.send(
                    "POST",
                    "/up",
                    &[("Transfer-Encoding", "chunked")],
                    &chunked(&body, size),
                ),
            };
            response.assert(200, format!("php POST /up {length}").as_bytes());
            let seen = responder.last_request();
            assert_eq!(
                seen.param("CONTENT_LENGTH"),
                length.to_string(),
                "in chunks of {size:?}"
            );
            assert!(
                seen.stdin() == body,
                "{length} bytes in chunks of {size:?} changed"
            );
            assert!(!seen.has("HTTP_TRANSFER_ENCODING"));
        }
        responder.forget();
    }
}

#[test]
fn an_empty_body_is_told_as_such() {
    let (_root, responder, server) = Nostat::wordpress();
    server
        .send("POST", "/up", &[("Content-Length", "0")], b"")
        .assert(200, b"php POST /up 0");
    assert!(matches!(
        responder.last_request().param("CONTENT_LENGTH"),
        "0" | ""
    ));
    server
        .send(
            "POST",
            "/up",
            &[("Transfer-Encoding", "chunked")],
            b"0\r\n\r\n",
        )
        .assert(200, b"php POST /up 0");
    assert!(matches!(
        responder.last_request().param("CONTENT_LENGTH"),
        "0" | ""
    ));
    server
        .send("POST", "/up", &[], b"")
        .assert(200, b"php POST /up 0");
}

#[test]
fn a_large_body_echoed_while_it_is_sent_locks_nobody_up() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/echo", Script::echoes_body());
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let body = pattern(20 << 20);
    for method in ["PUT", "POST"] {
        let mut connection = server.connect();
        let response = connection.request(method, "/echo", &[], &body);
        assert_eq!(response.status, 200);
        assert!(
            response.body == body,
            "{method}: {} bytes came back",
            response.body.len()
        );
    }
}

#[test]
fn a_script_that_answers_without_reading_its_body_is_heard() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/ignore",
        Script::ignores_body("Status: 403\r\nContent-Type: text/plain\r\n\r\nno"),
    );
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for length in [10, 100_000, 5 << 20] {
        let mut connection = server.connect();
        connection
            .request("POST", "/ignore", &[], &pattern(length))
            .assert(403, b"no");
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn expect_is_answered_when_a_body_is_wanted_and_only_then() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{max_body: 1MiB}"));
    let head = |fields: &str| {
        format!(
            "POST /up HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\n{fields}\r\n\r\n"
        )
    };
    for (fields, body) in [
        ("Content-Length: 5", b"hello".to_vec()),
        ("Transfer-Encoding: chunked", chunked(b"hello", 2)),
    ] {
        let mut connection = server.connect();
        connection.send(head(fields).as_bytes());
        assert_eq!(connection.read_head_only().status, 100, "{fields}");
        connection.send(&body);
        connection.read("POST").assert(200, b"php POST /up 5");
    }
    // Refused: the client is not told to go on.
    responder.forget();
    let mut connection = server.connect();
    connection.send(head("Content-Length: 1048577").as_bytes());
    assert_eq!(connection.read("POST").status, 413);
    // No body, nothing to wait for.
    let mut connection = server.connect();
    connection.send(head("Content-Length: 0").as_bytes());
    let first = connection.read_head_only().status;
    assert!(matches!(first, 100 | 200), "{first}");
    // A file is answered as ever, and HTTP/1.0 knows no 100.
    let mut connection = server.connect();
    connection
        .get_with(STYLE_PATH, &[("Expect", "100-continue")])
        .assert(200, STYLE_BYTES);
    let mut connection = server.connect();
    connection.send(b"POST /up HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    connection.read("POST").assert(200, b"php POST /up 5");
    // An expectation nobody knows.
    let response = server.send("POST", "/up", &[("Expect", "wonders")], b"hello");
    assert!(matches!(response.status, 200 | 417), "{response}");
}

#[test]
fn a_body_beyond_the_limit_is_413_and_reaches_nobody() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top("limits", "{max_body: 64KiB}");
    let server = Nostat::start(&config);
    let refused = |bytes: &[u8]| {
        let mut connection = server.connect();
        connection.send_lossy(bytes);
        match connection.try_read("POST") {
            Ok(response) => assert_eq!(response.status, 413),
            Err(cut) => panic!("no answer: {cut}"),
        }
    };
    refused(&request("POST", "/up", &[], &pattern(65_537)));
    refused(&request("POST", "/up", &[], &pattern(2 << 20)));
    refused(&request(
        "POST",
        "/up",
        &[("Content-Length", "18446744073709551615")],
        b"",
    ));
    refused(&request(
        "POST",
        "/up",
        &[("Transfer-Encoding", "chunked")],
        &chunked(&pattern(65_537), 1000),
    ));
    refused(&request(
        "POST",
        "/up",
        &[("Transfer-Encoding", "chunked")],
        &chunked(&pattern(2 << 20), 65_536),
    ));
    responder.assert_not_called();
    server
        .send("POST", "/up", &[], &pattern(65_536))
        .assert(200, b"php POST /up 65536");
    server
        .send(
            "POST",
            "/up",
            &[("Transfer-Encoding", "chunked")],
            &chunked(&pattern(65_536), 7),
        )
        .assert(200, b"php POST /up 65536");
    // A site's own limit wins.
    let server = Nostat::start(&config.site("max_body", "1KiB"));
    let mut connection = server.connect();
    connection.send_lossy(&request("POST", "/up", &[], &pattern(2000)));
    assert_eq!(connection.read("POST").status, 413);
}

#[test]
fn slow_uploads_take_no_place_of_php() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).site(
        "php",
        &format!("{{address: \"{}\", max_children: 1}}", responder.address()),
    );
    let server = Nostat::start(&config);
    let mut uploads: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for upload in &mut uploads {
        upload.send(b"POST /up HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10\r\n\r\nhello");
    }
    for _ in 0..10 {
        server.get("/page/").assert(200, b"php GET /page/ 0");
    }
    assert_eq!(
        responder.requests().len(),
        10,
        "an upload reached PHP before it was whole"
    );
    for upload in &mut uploads {
        upload.send(b"world");
    }
    for upload in &mut uploads {
        upload.read("POST").assert(200, b"php POST /up 10");
    }
    assert_eq!(responder.peak(), 1);
}

#[test]
fn an_upload_given_up_leaves_no_file_and_no_descriptor() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server = Nostat::start(
        &Config::wordpress(&root, &responder).top(
            "spool",
            "{dir: SPOOL, memory: 4KiB, total: 64MiB}"
                .replace("SPOOL", &format!("\"{}\"", root.outside().display()))
                .as_str(),
        ),
    );
    server
        .send("POST", "/up", &[], &pattern(100_000))
        .assert(200, b"php POST /up 100000");
    let names = || std::fs::read_dir(root.outside()).unwrap().count();
    let (before, files) = (server.descriptors(), names());
    for number in 0..20_u32 {
        let mut connection = server.connect();
        connection
            .send(b"POST /up HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000\r\n\r\n");
        connection.send(&pattern(200_000));
        if number.is_multiple_of(2) {
            connection.reset();
        }
    }
    eventually("descriptors are given back", || {
        (server.descriptors() <= before).then_some(())
    });
    assert_eq!(names(), files, "temporary files stayed");
    assert_eq!(responder.requests().len(), 1);
}

#[test]
fn a_large_upload_is_not_held_in_memory() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on(
        "/ignore",
        Script::ignores_body("Content-Type: text/plain\r\n\r\nok"),
    );
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{max_body: 256MiB}"));
    server
        .send("POST", "/ignore", &[], b"warm")
        .assert(200, b"ok");
    let before = server.status_kib("VmHWM");
    let mut connection = server.connect();
    let length = 192 << 20;
    connection.send(
        format!("POST /ignore HTTP/1.1\r\nHost: example.com\r\nContent-Length: {length}\r\n\r\n")
            .as_bytes(),
    );
    let piece = pattern(1 << 20);
    for _ in 0..length >> 20 {
        connection.send(&piece);
    }
    connection.read("POST").assert(200, b"ok");
    let grown = server.status_kib("VmHWM").saturating_sub(before);
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
}

#[test]
fn the_spools_own_limit_refuses_an_upload_and_is_free_again() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top(
        "spool",
        &format!(
            "{{dir: \"{}\", memory: 4KiB, total: 2MiB}}",
            root.outside().display()
        ),
    );
    let server = Nostat::start(&config.top("limits", "{max_body: 2MiB}"));
    // Two uploads that are each within the limit, and together are not.
    let mut uploads: Vec<_> = (0..2).map(|_| server.connect()).collect();
    let whole = request("POST", "/up", &[], &pattern(3 << 19));
    for upload in &mut uploads {
        upload.send_lossy(&whole[..1_400_000]);
    }
    let mut refused = 0;
    for upload in &mut uploads {
        upload.send_lossy(&whole[1_400_000..]);
        match upload.try_read("POST") {
            Ok(response) if response.status == 200 => {}
            Ok(response) => {
                assert!(matches!(response.status, 413 | 503 | 507), "{response}");
                refused += 1;
            }
            Err(cut) => panic!("{cut}"),
        }
    }
    assert!(refused >= 1, "the spool took more than its total");
    server
        .send("POST", "/up", &[], &pattern(500_000))
        .assert(200, b"php POST /up 500000");
}

#[test]
fn uploads_side_by_side_do_not_mix() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for number in 0..8 {
        responder.on(&format!("/echo/{number}"), Script::echoes_body());
    }
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for round in 0..20 {
                    let body = vec![number * 16 + 1; 10_000 * (round + 1)];
                    let response =
                        connection.request("POST", &format!("/echo/{number}"), &[], &body);
                    assert!(
                        response.status == 200 && response.body == body,
                        "another body came back"
                    );
                }
            });
        }
    });
}
