//! However an answer leaves (together with its head, apart from it, by sendfile, by reading), its bytes are the same.

use std::fs::File;
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::support::client::request;
use crate::support::document_root::DocumentRoot;
use crate::support::nostat::{Config, Nostat};

/// Bytes that tell where they stand.
fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| ((at * 2_654_435_761) >> 11) as u8)
        .collect()
}

const WAYS: [&str; 3] = ["auto", "on", "off"];

/// Lengths around those at which the way changes: copied behind the head, kept in memory, sent by sendfile, in chunks.
const LENGTHS: [usize; 14] = [
    1, 4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 1_048_575,
    1_048_576, 1_048_577, 5_000_003,
];

fn server(root: &DocumentRoot, sendfile: &str, content: &str) -> Nostat {
    let keys = format!("{{content: {content}}}");
    Nostat::start(
        &Config::static_files(root)
            .top("open_file_cache", &keys)
            .site("sendfile", sendfile),
    )
}

#[test]
fn every_length_is_whole_and_leaves_the_connection_in_step() {
    let root = DocumentRoot::empty();
    for length in LENGTHS {
        root.write(format!("{length}.bin"), &bytes(length));
    }
    root.write("next.txt", b"next");
    for sendfile in WAYS {
        for content in ["0B", "64MiB"] {
            let server = server(&root, sendfile, content);
            let mut connection = server.connect();
            for length in LENGTHS {
                let path = format!("/{length}.bin");
                // From the first look, and from what it has left.
                for _ in 0..3 {
                    let response = connection.get(&path);
                    assert_eq!(response.status, 200);
                    assert!(
                        response.body == bytes(length),
                        "{sendfile} {content} {path}"
                    );
                }
                connection.expect_in_step("/next.txt", b"next");
            }
        }
    }
}

#[test]
fn ranges_begin_and_end_where_they_say() {
    let root = DocumentRoot::empty();
    let (length, all) = (3_000_001, bytes(3_000_001));
    root.write("film.mp4", &all);
    for sendfile in WAYS {
        let server = server(&root, sendfile, "64MiB");
        let mut connection = server.connect();
        for (first, last) in [
            (0, 0),
            (1, 1_048_576),
            (1_234_567, 2_345_678),
            (65_536, 131_072),
            (length - 1, length - 1),
            (0, length - 1),
        ] {
            let range = format!("bytes={first}-{last}");
            let response = connection.get_with("/film.mp4", &[("Range", &range)]);
            assert_eq!(response.status, 206);
            assert!(response.body == all[first..=last], "{sendfile} {range}");
        }
        let response = connection.get_with("/film.mp4", &[("Range", "bytes=5-1500000,-1400000")]);
        assert_eq!(response.status, 206);
        let found = |part: &[u8]| {
            response
                .body
                .windows(part.len())
                .any(|window| window == part)
        };
        assert!(found(&all[5..=1_500_000]) && found(&all[length - 1_400_000..]));
    }
}

#[test]
fn a_client_that_reads_by_fits_and_starts_gets_every_byte_once() {
    let root = DocumentRoot::empty();
    // More than the sockets of both sides take in.
    let all = bytes(24 << 20);
    root.write("film.mp4", &all);
    for sendfile in WAYS {
        let server = server(&root, sendfile, "64MiB");
        let mut connection = server.connect();
        connection.send(&request("GET", "/film.mp4", &[], b""));
        assert_eq!(connection.read_head_only().status, 200);
        let mut read = 0;
        while read < all.len() {
            let piece = connection.read_bytes((all.len() - read).min(3_333_333));
            assert!(
                piece == all[read..read + piece.len()],
                "{sendfile} at {read}"
            );
            read += piece.len();
            thread::sleep(Duration::from_millis(20));
        }
        connection.expect_in_step("/film.mp4", &all);
    }
}

#[test]
fn answers_that_a_socket_takes_in_part_follow_each_other_whole() {
    let root = DocumentRoot::empty();
    let lengths = [300, 4_096, 60_000, 200_000];
    for length in lengths {
        root.write(format!("{length}.bin"), &bytes(length));
    }
    for sendfile in WAYS {
        let server = server(&root, sendfile, "64MiB");
        for length in lengths {
            server.settled(&format!("/{length}.bin"));
        }
        let mut connection = server.connect();
        let asked: Vec<usize> = lengths.into_iter().cycle().take(400).collect();
        let requests = asked.iter().map(|length| {
            let path = format!("/{length}.bin");
            request("GET", &path, &[], b"")
        });
        connection.send(&requests.collect::<Vec<_>>().concat());
        for length in asked {
            let response = connection.read("GET");
            assert_eq!(response.status, 200);
            assert!(response.body == bytes(length), "{sendfile} {length}");
        }
    }
}

#[test]
fn a_file_that_is_not_in_the_page_cache_is_sent_all_the_same() {
    let root = DocumentRoot::empty();
    let all = bytes(6 << 20);
    root.write("film.mp4", &all);
    let file = File::options()
        .read(true)
        .write(true)
        .open(root.path().join("film.mp4"))
        .unwrap();
    file.sync_all().unwrap();
    for sendfile in WAYS {
        let server = server(&root, sendfile, "64MiB");
        for _ in 0..3 {
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            assert!(server.get("/film.mp4").body == all, "{sendfile}");
        }
    }
}
