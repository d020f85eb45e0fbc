//! Descriptors run out, or nearly (C48): by the process' limit, by many files, by deleted ones.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::DEADLINE;
use crate::support::client::{Connection, Cut, Response, request};
use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::history::{History, State};
use crate::support::mode::{Mode, in_each_mode};
use crate::support::nostat::{Config, Nostat};

/// An answer, on another connection when this one was closed at once: there are more clients than connections.
fn ask(server: &Nostat, connection: &mut Connection, path: &str) -> Response {
    let start = Instant::now();
    loop {
        connection.send_lossy(&request("GET", path, &[], b""));
        match connection.try_read("GET") {
            Ok(response) => return response,
            Err(Cut::End) => {
                assert!(start.elapsed() < DEADLINE, "nothing is accepted any more");
                thread::sleep(Duration::from_millis(5));
                *connection = server.connect();
            }
            Err(cut) => panic!("{path}: {cut}"),
        }
    }
}

#[test]
fn five_hundred_files_and_thirty_connections_with_eighty_descriptors() {
    in_each_mode(|mode| {
        const FILES: usize = 500;
        let root = DocumentRoot::empty();
        let body = |number: usize| format!("file {number}").into_bytes();
        for number in 0..FILES {
            root.write(format!("{}/{number}.css", number % 9), &body(number));
        }
        // Without bytes in memory each file that is in use wants its descriptor.
        let config = mode.config_with(Config::static_files(&root), ", max: 1000, content: 0B");
        let server = Nostat::start_limited(&config, 80);
        let path = |number: usize| format!("/{}/{number}.css", number % 9);
        server.settled(&path(FILES - 1));
        let (refused, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for client in 0..30 {
                let (server, refused, most) = (&server, &refused, &most);
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for step in 0..120 {
                        let number = (client * 17 + step * 7) % FILES;
                        let response = ask(server, &mut connection, &path(number));
                        if response.status == 503 {
                            assert!(response.field("retry-after").is_some(), "{response}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        } else {
                            response.assert(200, &body(number));
                        }
                        if step % 40 == 0 {
                            most.fetch_max(server.descriptors(), Ordering::Relaxed);
                        }
                        if step % 10 == 9 {
                            connection = server.connect();
                        }
                    }
                });
            }
        });
        assert!(most.into_inner() <= 80);
        // The load has ended: every file is there, and none of the refusals was remembered.
        let mut connection = server.connect();
        for number in 0..FILES {
            ask(&server, &mut connection, &path(number)).assert(200, &body(number));
        }
        let lines = server.log().lines().count();
        assert!(lines < 100, "{lines} lines of log for {refused:?} refusals");
        let stopped = server.stop();
        assert!(
            stopped.status.success() && !stopped.log.contains("panicked"),
            "{}",
            stopped.log
        );
    });
}

#[test]
fn transfers_that_hold_every_descriptor_leave_room_to_answer_others() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        for number in 0..30 {
            root.write(format!("film-{number}.mp4"), &[]);
            let file = fs::File::options()
                .write(true)
                .open(root.path().join(format!("film-{number}.mp4")));
            // Sparse: what is sent is zeros.
            file.unwrap().set_len(64 << 20).unwrap();
        }
        root.write("a.css", b"a");
        let server = Nostat::start_limited(&mode.config(Config::static_files(&root)), 80);
        let mut films = Vec::new();
        for number in 0..20 {
            let mut film = server.connect();
            film.send(&request("GET", &format!("/film-{number}.mp4"), &[], b""));
            let head = film.read_head_only();
            assert!(matches!(head.status, 200 | 503), "{head}");
            films.push(film);
        }
        let mut connection = server.connect();
        for _ in 0..20 {
            let response = ask(&server, &mut connection, "/a.css");
            assert!(
                response.status == 200
                    || response.status == 503 && response.field("retry-after").is_some(),
                "{response}"
            );
        }
        drop(films);
        eventually("all is well again", || {
            (ask(&server, &mut connection, "/a.css").body == b"a").then_some(())
        });
        for number in 0..30 {
            let mut head = server.connect();
            head.send(&request("HEAD", &format!("/film-{number}.mp4"), &[], b""));
            assert_eq!(head.read("HEAD").status, 200);
        }
    });
}

#[test]
fn deleted_files_are_closed_though_nobody_asks() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        let paths: Vec<_> = (0..20)
            .map(|number| format!("d{}/{number}.mp4", number % 3))
            .collect();
        for path in &paths {
            root.write(path, &vec![b'f'; 300_000]);
        }
        // Polled, it is the timer for what is unused that closes them.
        let more = if mode == Mode::Polled {
            ", inactive: 2s"
        } else {
            ""
        };
        let server = Nostat::start(&mode.config_with(Config::static_files(&root), more));
        server.settled(&format!("/{}", paths[19]));
        let mut connection = server.connect();
        for path in &paths {
            for _ in 0..4 {
                assert_eq!(connection.get(&format!("/{path}")).status, 200);
            }
        }
        let held = || {
            let targets = server.descriptor_targets();
            targets
                .iter()
                .filter(|target| target.contains(".mp4"))
                .count()
        };
        assert!(
            held() > 10,
            "{} held: what is to be closed was never open",
            held()
        );
        for (number, path) in paths.iter().enumerate() {
            match number % 3 {
                0 => root.remove(path),
                1 => root.replace(path, b"new"),
                _ => {}
            }
        }
        fs::remove_dir_all(root.path().join("d2")).unwrap();
        eventually("the deleted files are closed", || {
            server
                .descriptor_targets()
                .iter()
                .all(|target| !(target.contains(".mp4") && target.contains("(deleted)")))
                .then_some(())
        });
    });
}

#[test]
#[ignore = "two hundred thousand requests over a hundred thousand files: tests/nightly/many"]
fn a_hundred_thousand_paths_with_a_thousand_descriptors() {
    in_each_mode(|mode| {
        const FILES: usize = 100_000;
        let root = DocumentRoot::empty();
        for folder in 0..200 {
            root.folder(&format!("{folder}"));
        }
        let path = |number: usize| format!("/{}/{number}.css", number % 200);
        for number in 0..FILES {
            fs::write(root.path().join(&path(number)[1..]), number.to_string()).unwrap();
        }
        let config = mode.config_with(
            Config::static_files(&root),
            ", content: 1MiB, max: 200000, inactive: 600s",
        );
        let server = Nostat::start_limited(&config, 1024);
        server.settled(&path(FILES - 1));
        let rounds = |count: usize| {
            thread::scope(|scope| {
                for half in 0..2 {
                    let server = &server;
                    scope.spawn(move || {
                        let mut connection = server.connect();
                        let numbers: Vec<_> = (half..FILES).step_by(2).collect();
                        for _ in 0..count {
                            for batch in numbers.chunks(50) {
                                let requests: Vec<_> = batch
                                    .iter()
                                    .map(|&n| request("GET", &path(n), &[], b""))
                                    .collect();
                                connection.send(&requests.concat());
                                for number in batch {
                                    connection
                                        .read("GET")
                                        .assert(200, number.to_string().as_bytes());
                                }
                            }
                        }
                    });
                }
            });
            assert!(server.descriptors() <= 1024);
        };
        rounds(2);
        // Each path is known: facts alone answer a HEAD, and a path asked for in turn.
        let mut connection = server.connect();
        for number in (0..FILES).step_by(97) {
            let response = connection.request("HEAD", &path(number), &[], b"");
            assert_eq!(response.status, 200);
            let etag = response.etag().to_owned();
            let again = connection.get_with(&path(number), &[("If-None-Match", &etag)]);
            assert_eq!(again.status, 304);
        }
        // A change is seen amid all of them.
        let mut history = History::begin(server.connect(), &path(4_711), State::is("4711"));
        root.replace(&path(4_711)[1..], b"changed");
        history.becomes(mode, State::is("changed"));
        let rss = server.status_kib("VmRSS");
        assert!(rss < 400 * 1024, "{rss} KiB resident");
    });
}
