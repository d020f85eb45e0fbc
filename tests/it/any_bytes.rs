//! Requests put together at random: whatever comes, one clear answer, no secret, no panic.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};

use crate::support::client::{Cut, request};
use crate::support::document_root::{DocumentRoot, PHP_SOURCE, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

/// The same cases in every run.
fn runner(cases: u32) -> TestRunner {
    let config = Cases {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Cases::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// A tree with a trap at every corner.
fn start() -> (DocumentRoot, FakeResponder, Nostat) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write(".env", SECRET.as_bytes());
    root.write("wp-content/uploads/evil.php", PHP_SOURCE);
    root.write("wp-content/uploads/evil.jpg", b"picture");
    root.write("wp-content/debug.log", SECRET.as_bytes());
    root.write("wp-content/closed/.htaccess", b"Deny from all\n");
    root.write("wp-content/closed/a.css", SECRET.as_bytes());
    std::fs::write(root.outside().join("outside.css"), SECRET).unwrap();
    root.link("wp-content/out.css", root.outside().join("outside.css"));
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    (root, responder, server)
}

#[test]
fn no_path_leads_to_a_secret_or_to_a_script_that_may_not_run() {
    let (root, responder, server) = start();
    let pieces = select(vec![
        "/",
        "/",
        "/",
        "/",
        "//",
        ".",
        "..",
        "/../",
        "/./",
        "%2e",
        "%2e%2e",
        "%2f",
        "%2F",
        "%5c",
        "\\",
        "%25",
        "%252e",
        "%00",
        "%0a",
        "%",
        "%zz",
        "?",
        "?ver=1",
        ";",
        "~",
        "wp-config",
        "wp-config.php",
        "WP-CONFIG.PHP",
        ".php",
        ".env",
        "index.php",
        "wp-content",
        "wp-admin",
        "wp-login.php",
        "uploads",
        "evil.php",
        "evil.jpg",
        "debug.log",
        "closed",
        "a.css",
        "out.css",
        "outside.css",
        "x",
    ]);
    let scripts = [
        "index.php",
        "wp-login.php",
        "xmlrpc.php",
        "wp-admin/index.php",
        "wp-admin/admin-ajax.php",
        "wp-content/index.php",
        "wp-includes/load.php",
    ];
    let scripts: Vec<String> = scripts
        .iter()
        .map(|script| root.path().join(script).display().to_string())
        .collect();
    let outcome = runner(1500).run(&vec(pieces, 1..8), |pieces| {
        let target = format!("/{}", pieces.concat());
        responder.forget();
        let response = server.get(&target);
        prop_assert!(response.status < 500, "{}: {}", target, response);
        prop_assert!(
            !response.text().contains(SECRET),
            "{}: {}",
            target,
            response
        );
        for seen in responder.requests() {
            let script = seen.param("SCRIPT_FILENAME").to_owned();
            prop_assert!(scripts.contains(&script), "{}: runs {}", target, script);
            prop_assert_eq!(seen.param("REQUEST_URI"), &target);
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_request_with_bytes_changed_gets_answers_or_an_end_and_nothing_else() {
    let (_root, _responder, server) = start();
    let whole = [
        request(
            "POST",
            "/page/",
            &[("X-A", "b"), ("Cookie", "c=d")],
            b"body",
        ),
        request(
            "POST",
            "/page/",
            &[("Transfer-Encoding", "chunked")],
            b"4\r\nbody\r\n0\r\n\r\n",
        ),
        request(
            "GET",
            STYLE_PATH,
            &[("Range", "bytes=0-1,4-5"), ("If-None-Match", "\"a\"")],
            b"",
        ),
    ];
    let byte = prop_oneof![any::<u8>(), select(b"\r\n :;,0\0/%".to_vec())];
    let changes = vec((any::<prop::sample::Index>(), 0..3_u8, byte), 1..4);
    let outcome = runner(1500).run(&(0..whole.len(), changes), |(which, changes)| {
        let mut bytes = whole[which].clone();
        for (at, kind, byte) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let mut connection = server.connect();
        connection.send_lossy(&bytes);
        connection.half_close();
        loop {
            match connection.try_read(if bytes.starts_with(b"HEAD ") {
                "HEAD"
            } else {
                "GET"
            }) {
                Ok(response) => prop_assert!(
                    response.status != 500 && !response.text().contains(SECRET),
                    "{}: {}",
                    bytes.escape_ascii(),
                    response
                ),
                Err(Cut::End) => return Ok(()),
                Err(cut) => prop_assert!(false, "{}: {}", bytes.escape_ascii(), cut),
            }
        }
    });
    outcome.unwrap();
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert!(!server.stop().log.contains("panicked"));
}
