//! Files that change, shrink, appear and go while they are served.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::client::Cut;
use crate::support::document_root::{DocumentRoot, PHP_SOURCE, STYLE, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

/// The new content comes within the bound, and until then each answer is the whole old one.
#[track_caller]
fn changes_whole(server: &Nostat, path: &str, old: &[u8], new: &[u8]) {
    eventually("the new content", || {
        let response = server.get(path);
        assert_eq!(response.status, 200);
        assert!(
            response.body == old || response.body == new,
            "neither version: {response}"
        );
        (response.body == new).then_some(())
    });
}

#[test]
fn a_rewritten_file_is_sent_whole_old_or_whole_new() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    for _ in 0..3 {
        server.settled(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    let (longer, shorter, equal) = (b"01234567890123456789", b"01", b"10");
    let now = SystemTime::now();
    root.write_at(STYLE, longer, now);
    changes_whole(&server, STYLE_PATH, STYLE_BYTES, longer);
    root.replace(STYLE, shorter);
    changes_whole(&server, STYLE_PATH, longer, shorter);
    // Equal in size and mtime: only the ctime and the inode tell.
    server.settled(STYLE_PATH);
    let mtime = fs::metadata(root.path().join(STYLE))
        .unwrap()
        .modified()
        .unwrap();
    root.write_at(STYLE, equal, mtime);
    changes_whole(&server, STYLE_PATH, shorter, equal);
}

#[test]
fn a_touched_file_gets_its_new_date() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let old = server.settled(STYLE_PATH);
    root.write_at(
        STYLE,
        STYLE_BYTES,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000),
    );
    let new = eventually("the new date", || {
        let response = server.get(STYLE_PATH);
        (response.last_modified() != old.last_modified()).then_some(response)
    });
    assert_eq!(new.last_modified(), "Sun, 13 Sep 2020 12:26:40 GMT");
    assert_ne!(new.etag(), old.etag());
}

#[test]
fn a_removed_file_is_gone_and_a_missing_one_appears() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    for _ in 0..5 {
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        assert_eq!(server.get("/wp-content/uploads/new/late.jpg").status, 404);
    }
    root.remove(STYLE);
    root.folder("wp-content/uploads/new");
    root.replace("wp-content/uploads/new/late.jpg", b"late");
    eventually("404", || {
        (server.get(STYLE_PATH).status == 404).then_some(())
    });
    eventually("200", || {
        (server.get("/wp-content/uploads/new/late.jpg").body == b"late").then_some(())
    });
    // Its descriptor is closed, so that the disk space comes back.
    eventually("the deleted file is closed", || {
        server
            .descriptor_targets()
            .iter()
            .all(|target| !target.contains("(deleted)") || target.contains("/nostat-run-"))
            .then_some(())
    });
}

#[test]
fn a_file_that_becomes_a_directory_and_back_is_what_it_is() {
    let root = DocumentRoot::empty();
    root.write("thing", b"file");
    let server = Nostat::start(&Config::static_files(&root));
    server.get("/thing").assert(200, b"file");
    root.remove("thing");
    root.write("thing/index.html", b"index");
    eventually("a redirect", || {
        matches!(server.get("/thing").status, 301 | 308).then_some(())
    });
    eventually("the index", || {
        (server.get("/thing/").body == b"index").then_some(())
    });
    fs::remove_dir_all(root.path().join("thing")).unwrap();
    root.write("thing", b"file again");
    eventually("the file", || {
        (server.get("/thing").body == b"file again").then_some(())
    });
}

#[test]
fn a_file_that_shrinks_under_a_transfer_ends_that_connection_alone() {
    const WHOLE: usize = 48 << 20;
    let root = DocumentRoot::wordpress();
    root.write("film.mp4", &vec![b'f'; WHOLE]);
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    connection.send(b"GET /film.mp4 HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let head = connection.read_head_only();
    assert_eq!(
        head.field("content-length"),
        Some(WHOLE.to_string().as_str())
    );
    let start = connection.read_bytes(256 * 1024);
    fs::File::options()
        .write(true)
        .open(root.path().join("film.mp4"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let rest = connection.read_to_end();
    assert!(
        start.len() + rest.len() < WHOLE,
        "a whole answer from a file that is not there any more"
    );
    assert!(
        start.iter().chain(&rest).all(|&byte| byte == b'f'),
        "padded"
    );
    eventually("the new size", || {
        (server.get("/film.mp4").body.len() == 1 << 20).then_some(())
    });
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn a_file_replaced_under_a_transfer_ends_with_all_its_old_bytes() {
    const WHOLE: usize = 24 << 20;
    let root = DocumentRoot::empty();
    root.write("film.mp4", &vec![b'o'; WHOLE]);
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    connection.send(b"GET /film.mp4 HTTP/1.1\r\nHost: example.com\r\n\r\n");
    connection.read_head_only();
    let start = connection.read_bytes(64 * 1024);
    root.replace("film.mp4", b"new");
    eventually("the new file", || {
        (server.get("/film.mp4").body == b"new").then_some(())
    });
    let rest = connection.read_bytes(WHOLE - start.len());
    assert!(
        start.iter().chain(&rest).all(|&byte| byte == b'o'),
        "a mix of two files"
    );
    connection.get("/film.mp4").assert(200, b"new");
}

#[test]
fn no_answer_is_torn_while_files_are_replaced_without_end() {
    let root = DocumentRoot::empty();
    let versions: Vec<Vec<u8>> = (0..4_u8)
        .map(|n| vec![b'0' + n; 1000 * (usize::from(n) + 1)])
        .collect();
    root.replace("v.css", &versions[0]);
    let server = Nostat::start(&Config::static_files(&root));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for version in &versions {
                    root.replace("v.css", version);
                }
            }
        });
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = server.connect();
                    for _ in 0..1000 {
                        let response = connection.get("/v.css");
                        if response.status != 200 || !versions.contains(&response.body) {
                            return Err(response.to_string());
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        done.store(true, Ordering::Relaxed);
        for result in results {
            assert_eq!(result.unwrap(), Ok(()), "torn");
        }
    });
}

#[test]
fn a_root_that_is_a_link_is_followed_to_the_next_release() {
    let (releases, responder) = (DocumentRoot::empty(), FakeResponder::start());
    for release in ["r1", "r2"] {
        releases.write(format!("{release}/index.php"), PHP_SOURCE);
        releases.write(format!("{release}/a.css"), release.as_bytes());
    }
    let current = releases.path().join("current");
    symlink("r1", &current).unwrap();
    let config =
        Config::preset("wordpress", &current).site("php", &format!("\"{}\"", responder.address()));
    let server = Nostat::start(&config);
    server.get("/a.css").assert(200, b"r1");
    let script = |release: &str| {
        releases
            .path()
            .join(release)
            .join("index.php")
            .display()
            .to_string()
    };
    server.get("/");
    assert_eq!(
        responder.last_request().param("SCRIPT_FILENAME"),
        script("r1")
    );
    symlink("r2", releases.path().join("next")).unwrap();
    fs::rename(releases.path().join("next"), &current).unwrap();
    eventually("the next release", || {
        (server.get("/a.css").body == b"r2").then_some(())
    });
    server.get("/");
    let seen = responder.last_request();
    assert_eq!(seen.param("SCRIPT_FILENAME"), script("r2"));
    assert_eq!(
        seen.param("DOCUMENT_ROOT"),
        releases.path().join("r2").display().to_string()
    );
    server.get("/a.css").assert(200, b"r2");
}

#[test]
fn a_reader_that_stops_holds_nobody_up() {
    for sendfile in ["on", "off"] {
        stop_reading(sendfile);
    }
}

fn stop_reading(sendfile: &str) {
    let root = DocumentRoot::wordpress();
    root.write("film.mp4", &vec![b'f'; 32 << 20]);
    let config = Config::static_files(&root)
        .top("limits", "{send: 1s}")
        .site("sendfile", sendfile);
    let server = Nostat::start(&config);
    let none_open = || server.established().eq(&0).then_some(());
    server.get(STYLE_PATH);
    eventually("earlier connections end", none_open);
    let mut stalled: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut stalled {
        connection.send(b"GET /film.mp4 HTTP/1.1\r\nHost: example.com\r\n\r\n");
    }
    for _ in 0..50 {
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    // A client that takes nothing for `send` is cut.
    eventually("the stalled transfers end", none_open);
    for mut connection in stalled {
        assert!(
            matches!(
                connection.try_read("GET"),
                Err(Cut::Short { .. } | Cut::End)
            ),
            "not cut"
        );
    }
}
