//! What the application changed before it answered is seen by the very next request.

use std::fs;
use std::thread;

use crate::support::document_root::{DocumentRoot, STYLE, STYLE_PATH};
use crate::support::fake_responder::{FakeResponder, Gate, Script};
use crate::support::nostat::{Config, Nostat};

/// Has a script make the change while it runs, and waits for its answer.
#[track_caller]
fn php_changes(server: &Nostat, responder: &FakeResponder, change: impl FnOnce()) {
    let gate = Gate::default();
    let answer = "Content-Type: text/plain\r\n\r\ndone";
    responder.on("/change", Script::answers_after(&gate, answer));
    thread::scope(|scope| {
        let asking = scope.spawn(|| server.get("/change"));
        gate.wait_until_reached();
        change();
        gate.open();
        asking.join().unwrap().assert(200, b"done");
    });
}

#[test]
fn the_request_after_the_answer_sees_every_kind_of_change() {
    let (root, responder, server) = Nostat::wordpress();
    let upload = "wp-content/uploads/2031/01/photo.jpg";
    let upload_path = format!("/{upload}");
    for round in 0..30 {
        for _ in 0..3 {
            server.get(STYLE_PATH);
            assert_eq!(server.get(&upload_path).status, 404);
        }
        let replaced = format!("replaced {round}");
        php_changes(&server, &responder, || {
            root.replace(STYLE, replaced.as_bytes());
        });
        server.get(STYLE_PATH).assert(200, replaced.as_bytes());
        // In place and of one size, within one tick of the clock.
        for digit in 0..3 {
            let written = format!("in place {digit}");
            php_changes(&server, &responder, || {
                fs::write(root.path().join(STYLE), &written).unwrap();
            });
            server.get(STYLE_PATH).assert(200, written.as_bytes());
        }
        php_changes(&server, &responder, || root.write(upload, b"photo"));
        server.get(&upload_path).assert(200, b"photo");
        php_changes(&server, &responder, || {
            root.write("wp-content/uploads/2031/.htaccess", b"deny from all\n");
        });
        assert_eq!(server.get(&upload_path).status, 403);
        php_changes(&server, &responder, || {
            fs::remove_dir_all(root.path().join("wp-content/uploads/2031")).unwrap();
        });
        assert_eq!(server.get(&upload_path).status, 404);
    }
}

#[test]
fn a_page_made_a_moment_ago_in_the_root_is_found() {
    let (root, responder, server) = Nostat::wordpress();
    for round in 0..10 {
        let name = format!("new{round}");
        let path = format!("/{name}/page.txt");
        server
            .get(&path)
            .assert(200, format!("php GET {path} 0").as_bytes());
        php_changes(&server, &responder, || {
            root.write(format!("{name}/page.txt"), b"page");
        });
        server.get(&path).assert(200, b"page");
    }
}

#[test]
fn a_file_that_a_script_makes_and_gives_away_is_found() {
    let (root, responder, server) = Nostat::wordpress();
    let report = "wp-content/uploads/reports/now.jpg";
    for round in 0..20 {
        assert_eq!(server.get(&format!("/{report}")).status, 404);
        let content = format!("report {round}");
        let gate = Gate::default();
        let answer = format!("X-Accel-Redirect: /{report}\r\n\r\n");
        responder.on("/report", Script::answers_after(&gate, answer));
        thread::scope(|scope| {
            let asking = scope.spawn(|| server.get("/report"));
            gate.wait_until_reached();
            root.write(report, content.as_bytes());
            gate.open();
            asking.join().unwrap().assert(200, content.as_bytes());
        });
        root.remove(report);
        php_changes(&server, &responder, || {});
    }
}

#[test]
fn after_a_script_swaps_the_release_nothing_of_the_old_one_is_seen() {
    let (releases, responder) = (DocumentRoot::empty(), FakeResponder::start());
    for release in ["r0", "r1"] {
        releases.write(format!("{release}/index.php"), b"<?php");
        releases.write(format!("{release}/a.css"), release.as_bytes());
    }
    releases.link("current", "r0");
    let current = releases.path().join("current");
    let config =
        Config::preset("wordpress", &current).site("php", &format!("\"{}\"", responder.address()));
    let server = Nostat::start(&config);
    for round in 1..30 {
        let release = format!("r{}", round % 2);
        php_changes(&server, &responder, || {
            releases.link("next", &release);
            fs::rename(releases.path().join("next"), &current).unwrap();
        });
        server.get("/a.css").assert(200, release.as_bytes());
        server.get("/page/");
        let seen = responder.last_request();
        let directory = releases.path().join(&release);
        assert_eq!(seen.param("DOCUMENT_ROOT"), directory.display().to_string());
        assert_eq!(
            seen.param("SCRIPT_FILENAME"),
            directory.join("index.php").display().to_string()
        );
    }
}
