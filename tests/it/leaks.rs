//! Nothing is left open after a load.

use std::fs;
use std::thread;

use crate::support::client::{chunked, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::script::OVERLOADED;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

const TEXT: &str = "Content-Type: text/plain\r\n\r\n";

/// One of each: files, pages, failures, clients that leave.
fn load(server: &Nostat, rounds: usize) {
    for number in 0..rounds {
        let mut connection = server.connect();
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        connection.get_with(STYLE_PATH, &[("Range", "bytes=0-1,4-5")]);
        connection.get(&format!("/wp-content/gone-{number}.css"));
        connection.get("/page/");
        connection.request("POST", "/page/", &[], &vec![b'u'; 200_000]);
        connection.get("/stderr");
        for failing in ["/full", "/crash"] {
            server.connect().get(failing);
        }
        connection.get("/accel");
        connection.request("HEAD", "/large", &[], b"");
        let mut upload = server.connect();
        upload.send(&request(
            "POST",
            "/page/",
            &[("Transfer-Encoding", "chunked")],
            &chunked(&[b'c'; 50_000], 999),
        ));
        upload.read("POST");
        for (path, some) in [
            ("/stall", 0),
            ("/endless", 1000),
            ("/film.mp4", 1000),
            ("/large", 1000),
        ] {
            let mut leaver = server.connect();
            leaver.send(&request("GET", path, &[], b""));
            leaver.read_bytes(some);
            leaver.reset();
        }
        let mut half = server.connect();
        half.send(
            b"POST /page/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 100000\r\n\r\nhalf",
        );
        if number.is_multiple_of(2) {
            half.reset();
        } else {
            half.half_close();
        }
        server.connect().send(b"GET /half-a-head HTTP/1.1\r\nHo");
        server.connect().send_lossy(b"not http\r\n\r\n");
    }
}

#[test]
fn descriptors_slots_and_temporary_files_are_what_they_were() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("film.mp4", &vec![b'f'; 8 << 20]);
    responder.on("/stall", Script::stalls_before_head());
    responder.on("/endless", Script::never_ends());
    responder.on("/full", Script::refuses(OVERLOADED));
    responder.on("/crash", Script::closes_after("Conte"));
    responder.on("/stderr", Script::writes_stderr(TEXT, "clean"));
    responder.on(
        "/large",
        Script::answers(format!("{TEXT}{}", "l".repeat(8 << 20))),
    );
    responder.on(
        "/accel",
        Script::answers(format!("X-Accel-Redirect: {STYLE_PATH}\r\n{TEXT}")),
    );
    let spool = root.outside().join("spool");
    fs::create_dir(&spool).unwrap();
    let php = format!(
        "{{address: \"{}\", max_children: 4, buffer: 64KiB}}",
        responder.address()
    );
    let config = Config::wordpress(&root, &responder)
        .site("php", &php)
        .top(
            "spool",
            &format!(
                "{{dir: \"{}\", memory: 16KiB, total: 64MiB}}",
                spool.display()
            ),
        )
        .top("limits", "{request_head: 2s, body: 2s}");
    let server = Nostat::start(&config);
    load(&server, 3);
    let quiet = || responder.running() == 0 && responder.connections() == 0;
    let descriptors = || server.descriptors();
    let settle = || {
        eventually("the responder's connections end", || quiet().then_some(()));
        // Half heads and half bodies are cut at their deadlines.
        let mut last = (descriptors(), 0);
        eventually("the number of descriptors stands still", || {
            let now = descriptors();
            last = if now == last.0 {
                (now, last.1 + 1)
            } else {
                (now, 0)
            };
            (last.1 > 600).then_some(now)
        })
    };
    let before = settle();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load(&server, 10));
        }
    });
    let after = eventually("descriptors are given back", || {
        let after = settle();
        (after <= before + 3).then_some(after)
    });
    assert!(
        after <= before + 3,
        "{before} before, {after} after: {:?}",
        server.descriptor_targets()
    );
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0, "temporary files");
    assert!(
        server
            .descriptor_targets()
            .iter()
            .all(|target| !target.starts_with(&spool.display().to_string())),
        "{:?}",
        server.descriptor_targets()
    );
    // Every slot is free: four requests run side by side still.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| server.get("/page/").assert(200, b"php GET /page/ 0"));
        }
    });
    let stopped = server.stop();
    assert!(stopped.status.success(), "{}", stopped.status);
    assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
}
