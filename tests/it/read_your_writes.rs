//! The next request sees what PHP has written before it answered: uploads, regenerated style sheets, deletions.
//!
//! Where the tree is watched this holds for the very next request; where it is polled, within `valid` and `errors_valid`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::client::request;
use crate::support::document_root::{DocumentRoot, STYLE, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::script::stdout;
use crate::support::fake_responder::{FakeResponder, Script, Step};
use crate::support::mode::{Mode, in_each_mode};
use crate::support::nostat::{Config, Nostat};

const DONE: &str = "Content-Type: text/plain\r\n\r\ndone";

/// A script that does this to the root when it is asked for.
fn on(responder: &FakeResponder, uri: &str, root: &DocumentRoot, action: fn(&Path)) {
    let path: PathBuf = root.path().to_owned();
    responder.on(uri, Script::does(move || action(&path), DONE));
}

fn put(path: PathBuf, bytes: &[u8]) {
    let part = path.with_extension("part");
    fs::write(&part, bytes).unwrap();
    fs::rename(part, path).unwrap();
}

#[test]
fn the_request_after_a_script_sees_what_the_script_has_done() {
    in_each_mode(|mode| {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        root.write("wp-content/uploads/old.jpg", b"old");
        root.write("wp-content/cache/c.css", b"old cache");
        on(&responder, "/upload", &root, |root| {
            put(root.join("wp-content/uploads/new.jpg"), b"new");
        });
        on(&responder, "/first-of-a-month", &root, |root| {
            fs::create_dir_all(root.join("wp-content/uploads/2031/01")).unwrap();
            fs::write(root.join("wp-content/uploads/2031/01/new.jpg"), b"month").unwrap();
        });
        on(&responder, "/rewrite", &root, |root| {
            fs::write(root.join(STYLE), b"9876543210").unwrap();
        });
        on(&responder, "/replace", &root, |root| {
            put(root.join("wp-content/uploads/old.jpg"), b"replaced");
        });
        on(&responder, "/delete", &root, |root| {
            fs::remove_file(root.join("wp-content/uploads/old.jpg")).unwrap();
        });
        on(&responder, "/purge", &root, |root| {
            fs::remove_dir_all(root.join("wp-content/cache")).unwrap();
            fs::create_dir(root.join("wp-content/cache")).unwrap();
            fs::write(root.join("wp-content/cache/c.css"), b"new cache").unwrap();
        });
        let server = Nostat::start(&mode.config(Config::wordpress(&root, &responder)));
        server.settled(STYLE_PATH);
        let mut files = server.connect();
        let mut pages = server.connect();
        for (path, status, body) in [
            (STYLE_PATH, 200, STYLE_BYTES),
            ("/wp-content/uploads/old.jpg", 200, b"old"),
            ("/wp-content/cache/c.css", 200, b"old cache"),
        ] {
            for _ in 0..5 {
                files.get(path).assert(status, body);
            }
        }
        for path in [
            "/wp-content/uploads/new.jpg",
            "/wp-content/uploads/2031/01/new.jpg",
        ] {
            for _ in 0..5 {
                assert_eq!(files.get(path).status, 404);
            }
        }
        for (script, path, status, body) in [
            (
                "/upload",
                "/wp-content/uploads/new.jpg",
                200,
                b"new".as_slice(),
            ),
            (
                "/first-of-a-month",
                "/wp-content/uploads/2031/01/new.jpg",
                200,
                b"month",
            ),
            ("/rewrite", STYLE_PATH, 200, b"9876543210"),
            ("/replace", "/wp-content/uploads/old.jpg", 200, b"replaced"),
            ("/delete", "/wp-content/uploads/old.jpg", 404, b""),
            ("/purge", "/wp-content/cache/c.css", 200, b"new cache"),
        ] {
            pages
                .request("POST", script, &[], b"x")
                .assert(200, b"done");
            mode.soon(script, || {
                let response = files.get(path);
                response.status == status && (status == 404 || response.body == body)
            });
        }
    });
}

#[test]
fn a_request_that_was_sent_with_the_script_s_own_sees_it_too() {
    in_each_mode(|mode| {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        on(&responder, "/upload", &root, |root| {
            put(root.join("wp-content/uploads/new.jpg"), b"new");
        });
        let server = Nostat::start(&mode.config(Config::wordpress(&root, &responder)));
        let mut connection = server.connect();
        for _ in 0..5 {
            assert_eq!(connection.get("/wp-content/uploads/new.jpg").status, 404);
        }
        let both = [
            request("GET", "/upload", &[], b""),
            request("GET", "/wp-content/uploads/new.jpg", &[], b""),
        ];
        let mut sent = false;
        mode.soon("the upload", || {
            if !std::mem::replace(&mut sent, true) {
                connection.send(&both.concat());
                connection.read("GET").assert(200, b"done");
                return connection.read("GET").body == b"new";
            }
            connection.get("/wp-content/uploads/new.jpg").body == b"new"
        });
    });
}

#[test]
fn twenty_uploads_in_a_row_are_each_seen() {
    in_each_mode(|mode| {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        let server = Nostat::start(&mode.config(Config::wordpress(&root, &responder)));
        let mut files = server.connect();
        let mut pages = server.connect();
        let paths: Vec<_> = (0..20)
            .map(|n| format!("wp-content/uploads/n{n}.jpg"))
            .collect();
        for path in &paths {
            for _ in 0..3 {
                assert_eq!(files.get(&format!("/{path}")).status, 404);
            }
        }
        for path in &paths {
            let file = root.path().join(path);
            let script = Script::does(move || put(file.clone(), b"uploaded"), DONE);
            responder.on("/upload", script);
            pages.get("/upload").assert(200, b"done");
            mode.soon(path, || files.get(&format!("/{path}")).body == b"uploaded");
        }
    });
}

#[test]
fn what_a_script_does_after_its_first_words_is_seen_by_whoever_has_the_last_ones() {
    in_each_mode(|mode| {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        let server = Nostat::start(&mode.config(Config::wordpress(&root, &responder)));
        let mut connection = server.connect();
        for round in 0..10 {
            let path = format!("wp-content/uploads/late{round}.jpg");
            let file = root.path().join(&path);
            let asked = format!("/{path}");
            for _ in 0..3 {
                assert_eq!(connection.get(&asked).status, 404);
            }
            responder.on(
                "/import",
                Script::new(vec![
                    stdout("X-Accel-Buffering: no\r\nContent-Type: text/plain\r\n\r\nbegun"),
                    Step::Do(Arc::new(move || put(file.clone(), b"late"))),
                    Step::End,
                ]),
            );
            connection.get("/import").assert(200, b"begun");
            let seen = connection.get(&asked).body == b"late";
            match mode {
                Mode::Watched => assert!(seen, "round {round}: the next request sees it"),
                Mode::Polled => mode.soon("the file", || connection.get(&asked).body == b"late"),
            }
        }
    });
}
