//! One name that is a file, a link to a secret, a directory and a FIFO in turn while clients ask for it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::client::Cut;
use crate::support::document_root::{DocumentRoot, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::mode::modes;
use crate::support::nostat::{Config, Nostat};

const PATH: &str = "/wp-content/uploads/name.css";
const BYTES: &[u8] = b"the bytes of the file";

/// Makes the name something else each time, by rename and by removal, until the time is over.
fn change(root: &DocumentRoot, done: &AtomicBool) {
    let name = &PATH[1..];
    let path = root.path().join(name);
    let secret = root.outside().join("secret.css");
    let clear = || {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
    };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        for kind in 0..5 {
            match kind {
                0 => root.replace(name, BYTES),
                1 => {
                    clear();
                    root.link(name, &secret);
                }
                2 => {
                    clear();
                    root.folder(name);
                    root.link(&format!("{name}/index.html"), &secret);
                }
                3 => {
                    clear();
                    root.fifo(name);
                }
                _ => {
                    // Not in place: an empty file would be an answer too.
                    clear();
                    root.replace(name, BYTES);
                }
            }
            thread::sleep(Duration::from_micros(400));
        }
    }
    done.store(true, Ordering::SeqCst);
    clear();
    root.write(name, BYTES);
}

/// Asks again and again; the statuses that were met.
fn ask(server: &Nostat, done: &AtomicBool, method: &str, fields: &[(&str, &str)]) -> Vec<u16> {
    let mut connection = server.connect();
    let mut statuses = Vec::new();
    while !done.load(Ordering::SeqCst) {
        connection.send_lossy(&crate::support::client::request(method, PATH, fields, b""));
        let closes = match connection.try_read(method) {
            Ok(answer) => {
                assert!(!answer.text().contains(SECRET), "{answer}");
                match answer.status {
                    200 if method == "HEAD" => {
                        assert_eq!(answer.field("content-length"), Some("21"), "{answer}");
                    }
                    200 => answer.assert(200, BYTES),
                    206 => assert_eq!(answer.body, BYTES[4..9], "{answer}"),
                    301 | 403 | 404 => {}
                    _ => panic!("{method} {fields:?}: {answer}"),
                }
                statuses.push(answer.status);
                answer.closes()
            }
            // A file that is being written when it is sent is cut, not padded.
            Err(Cut::Short { received }) => {
                assert!(!String::from_utf8_lossy(&received).contains(SECRET));
                true
            }
            Err(Cut::End) => true,
            Err(cut) => panic!("{method} {fields:?}: {cut}"),
        };
        if closes {
            connection = server.connect();
        }
    }
    statuses
}

#[test]
fn a_name_that_changes_its_kind_shows_no_secret_and_hangs_nobody() {
    let looks = std::iter::once(None).chain(modes().map(Some));
    for mode in looks {
        let root = DocumentRoot::wordpress();
        fs::write(root.outside().join("secret.css"), SECRET).unwrap();
        root.write(&PATH[1..], BYTES);
        let config = Config::wordpress_alone(&root);
        // Looked at anew each time, and as it is remembered in each mode.
        let config = match mode {
            None => config.top("open_file_cache", "{valid: 0s, errors: off}"),
            Some(mode) => mode.config_for_links(config),
        };
        let server = Nostat::start(&config);
        let done = AtomicBool::new(false);
        let statuses = thread::scope(|scope| {
            let asking: Vec<_> = [
                ("GET", &[][..]),
                ("GET", &[("Range", "bytes=4-8")]),
                ("GET", &[("If-Range", "\"x\""), ("Range", "bytes=4-8")]),
                ("HEAD", &[]),
            ]
            .into_iter()
            .map(|(method, fields)| {
                let (server, done) = (&server, &done);
                scope.spawn(move || ask(server, done, method, fields))
            })
            .collect();
            change(&root, &done);
            let met = asking.into_iter().map(|it| it.join().unwrap());
            met.flatten().collect::<Vec<u16>>()
        });
        // What is remembered may be the same for most of the time.
        if mode.is_none() {
            let is_met = |wanted: &[u16]| statuses.iter().any(|it| wanted.contains(it));
            assert!(is_met(&[200]) && is_met(&[301, 403, 404]), "kinds not met");
        }
        eventually("the file is what it is", || {
            let answer = server.get(PATH);
            (answer.status == 200 && answer.body == BYTES).then_some(())
        });
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        assert!(!server.stop().log.contains("panicked"));
    }
}
