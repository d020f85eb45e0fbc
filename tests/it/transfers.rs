//! Files that change while they are being sent (C41 to C43): an answer is of one state of the file, or its connection is cut.

use std::fs;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::client::{Connection, Cut};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::mode::in_each_mode;
use crate::support::nostat::{Config, Nostat};

/// More than sockets take in on both sides, so that the transfer waits for its reader.
const WHOLE: usize = 32 << 20;
const FILM: &str = "film.mp4";

/// A transfer of which a little has been read.
fn begun(server: &Nostat) -> (Connection, Vec<u8>) {
    let mut connection = server.connect();
    connection.send(b"GET /film.mp4 HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let head = connection.read_head_only();
    assert_eq!(head.status, 200, "{head}");
    assert_eq!(
        head.field("content-length"),
        Some(WHOLE.to_string().as_str())
    );
    let start = connection.read_bytes(64 * 1024);
    (connection, start)
}

fn set_length(root: &DocumentRoot, path: &str, length: u64) {
    let file = fs::File::options().write(true).open(root.path().join(path));
    file.unwrap().set_len(length).unwrap();
}

#[test]
fn a_shrunk_file_ends_its_transfers_unpadded_and_leaves_the_server_idle() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        root.write(FILM, &vec![b'f'; WHOLE]);
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        for _ in 0..3 {
            server.connect().request("HEAD", "/film.mp4", &[], b"");
        }
        let transfers: Vec<_> = (0..3).map(|_| begun(&server)).collect();
        set_length(&root, FILM, 1 << 20);
        thread::scope(|scope| {
            for (mut connection, start) in transfers {
                scope.spawn(move || {
                    let rest = connection.read_to_end();
                    assert!(start.len() + rest.len() < WHOLE, "not cut");
                    assert!(
                        start.iter().chain(&rest).all(|&byte| byte == b'f'),
                        "padded"
                    );
                });
            }
        });
        eventually("the new size", || {
            (server.get("/film.mp4").body.len() == 1 << 20).then_some(())
        });
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        eventually("no processor time is used", || {
            let before = server.processor_time();
            thread::sleep(Duration::from_millis(300));
            (server.processor_time() - before <= Duration::from_millis(30)).then_some(())
        });
    });
}

#[test]
fn a_file_shrunk_between_requests_is_cut_or_new_but_never_padded() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        let (old, new) = (vec![b'o'; 400_000], vec![b'o'; 1_000]);
        for number in 0..4 {
            root.write(format!("{number}.bin"), &old);
        }
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        server.settled("/3.bin");
        for number in 0..4 {
            let path = format!("/{number}.bin");
            for _ in 0..4 {
                server.get(&path).assert(200, &old);
            }
            set_length(&root, &path[1..], 1_000);
            eventually("the new size", || {
                let mut connection = server.connect();
                connection
                    .send(format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n").as_bytes());
                match connection.try_read("GET") {
                    Ok(response) => {
                        response.assert(200, &new);
                        Some(())
                    }
                    // The head of the old state was on its way before the end of the file was met.
                    Err(Cut::Short { received }) => {
                        assert!(
                            received.len() <= 1_000,
                            "{} bytes of a file of 1000",
                            received.len()
                        );
                        connection.expect_end();
                        None
                    }
                    Err(Cut::End) => None,
                    Err(other) => panic!("{other}"),
                }
            });
        }
    });
}

#[test]
fn a_file_that_grows_under_a_transfer_is_sent_at_its_old_length() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.write(FILM, &vec![b'f'; WHOLE]);
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let (mut connection, start) = begun(&server);
        let file = fs::File::options()
            .append(true)
            .open(root.path().join(FILM));
        std::io::Write::write_all(&mut file.unwrap(), b"more").unwrap();
        let rest = connection.read_bytes(WHOLE - start.len());
        assert!(
            rest.iter().all(|&byte| byte == b'f'),
            "bytes beyond the length"
        );
        // In step: the next answer begins right after it.
        eventually("the new length", || {
            let response = connection.get("/film.mp4");
            (response.body.len() == WHOLE + 4 && response.body.ends_with(b"more")).then_some(())
        });
    });
}

#[test]
fn a_file_replaced_or_removed_under_a_transfer_ends_with_all_its_old_bytes() {
    in_each_mode(|mode| {
        for replaced in [true, false] {
            let root = DocumentRoot::empty();
            root.write(FILM, &vec![b'o'; WHOLE]);
            let server = Nostat::start(&mode.config(Config::static_files(&root)));
            for _ in 0..3 {
                server.connect().request("HEAD", "/film.mp4", &[], b"");
            }
            let (mut connection, start) = begun(&server);
            if replaced {
                root.replace(FILM, b"new");
            } else {
                root.remove(FILM);
            }
            let mut other = server.connect();
            eventually("the new state", || {
                let response = other.request("GET", "/film.mp4", &[("Range", "bytes=0-2")], b"");
                let is_new = match response.status {
                    206 => response.body == b"new",
                    404 => !replaced,
                    status => panic!("{status}"),
                };
                is_new.then_some(())
            });
            let rest = connection.read_bytes(WHOLE - start.len());
            assert!(
                start.iter().chain(&rest).all(|&byte| byte == b'o'),
                "a mix of two files"
            );
            let next = connection.get("/film.mp4");
            assert_eq!(next.status, if replaced { 200 } else { 404 }, "{next}");
            // And its disk space comes back.
            eventually("the old file is closed", || {
                server
                    .descriptor_targets()
                    .iter()
                    .all(|target| !target.contains(FILM) || !target.contains("(deleted)"))
                    .then_some(())
            });
        }
    });
}

#[test]
fn rewrites_in_place_without_end_are_never_sent_with_a_wrong_length() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        // Small and large, each version told by its byte and its length.
        let versions: Vec<(u8, usize)> = vec![(b'a', 50_000), (b'b', 300_000), (b'c', 10)];
        root.write("v.css", &[b'c'; 10]);
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let path = root.path().join("v.css");
        let (versions, server) = (&versions, &server);
        let done = std::sync::atomic::AtomicBool::new(false);
        let done = &done;
        thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for (byte, length) in versions {
                        fs::write(&path, vec![*byte; *length]).unwrap();
                        thread::sleep(Duration::from_millis(3));
                    }
                }
            });
            let mut connection = server.connect();
            let mut whole = 0;
            for _ in 0..2_000 {
                connection.send(b"GET /v.css HTTP/1.1\r\nHost: example.com\r\n\r\n");
                // Whoever writes in place shows its readers half a file; what may not be is a length that is not kept:
                // the reader above this one takes that for a cut, or for bytes before the next head.
                match connection.try_read("GET") {
                    Ok(response) => {
                        assert_eq!(response.status, 200, "{response}");
                        whole += 1;
                    }
                    Err(Cut::Short { .. } | Cut::End) => connection = server.connect(),
                    Err(other) => panic!("{other}"),
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(whole > 100, "{whole} whole answers");
        });
        eventually("the last version", || {
            (server.get("/v.css").body == vec![b'c'; 10]).then_some(())
        });
    });
}

#[test]
fn a_transfer_by_sendfile_is_cut_when_its_file_changes() {
    let root = DocumentRoot::empty();
    for change in ["rewritten", "longer", "shorter"] {
        root.write(FILM, &vec![b'o'; WHOLE]);
        let server = Nostat::start(&Config::static_files(&root).site("sendfile", "on"));
        let (mut connection, start) = begun(&server);
        match change {
            "rewritten" => {
                let file = fs::File::options().write(true).open(root.path().join(FILM));
                file.unwrap().write_all(&vec![b'n'; WHOLE]).unwrap();
            }
            "longer" => set_length(&root, FILM, WHOLE as u64 + 1),
            _ => set_length(&root, FILM, 1 << 20),
        }
        let rest = connection.read_to_end();
        assert!(start.len() + rest.len() < WHOLE, "{change}: not cut");
        let after = server.get("/film.mp4");
        let length = fs::metadata(root.path().join(FILM)).unwrap().len();
        assert_eq!(after.body.len() as u64, length, "{change}");
    }
}
