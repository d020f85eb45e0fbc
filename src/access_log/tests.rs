#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![allow(clippy::disallowed_methods, reason = "the test reads its own log")]

use std::fs;

use super::*;
use crate::clock::UnixTime;

const PATIENCE: Duration = Duration::from_secs(60);

fn record(target: &[u8]) -> Record<'_> {
    Record {
        time: UnixTime {
            seconds: 1_796_046_116,
            nanos: 0,
        },
        client: [192, 0, 2, 7].into(),
        user: None,
        method: b"GET",
        target,
        protocol: "HTTP/1.1",
        host: b"example.com",
        status: 200,
        body_bytes: 3,
        referer: None,
        user_agent: None,
        cache: "hit",
        upstream: "-",
        upstream_micros: None,
        duration_micros: 42,
    }
}

fn settings(path: &std::path::Path, format: Format) -> Settings {
    Settings {
        path: LogPath::File(path.to_path_buf()),
        format,
    }
}

#[test]
fn off_is_not_enabled_and_loses_nothing() {
    let log = AccessLog::off();
    log.write(&record(b"/"));
    assert!(!log.enabled());
    assert!(log.flush(Duration::ZERO));
    assert_eq!(log.lost(), 0);
}

#[test]
fn a_log_that_is_off_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    assert!(
        !AccessLog::open(&settings(&path, Format::Off))
            .unwrap()
            .enabled()
    );
    assert!(!path.exists());
}

#[test]
fn a_folder_that_is_missing_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error =
        AccessLog::open(&settings(&dir.path().join("no/access.log"), Format::Json)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn every_line_is_in_the_file_after_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    fs::write(&path, "before\n").unwrap();
    let log = AccessLog::open(&settings(&path, Format::Json)).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || (0..100).for_each(|_| log.write(&record(b"/a.css"))))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(log.flush(PATIENCE));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().next(), Some("before"));
    assert_eq!(text.lines().count(), 401);
    assert!(
        text.lines()
            .skip(1)
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
}

#[test]
fn a_rotated_file_is_left_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (
        dir.path().join("access.log"),
        dir.path().join("access.log.1"),
    );
    let log = AccessLog::open(&settings(&path, Format::Combined)).unwrap();
    log.write(&record(b"/old"));
    assert!(log.flush(PATIENCE));
    fs::rename(&path, &old).unwrap();
    log.reopen();
    log.write(&record(b"/new"));
    assert!(log.flush(PATIENCE));
    assert!(fs::read_to_string(&old).unwrap().contains("GET /old "));
    let new = fs::read_to_string(&path).unwrap();
    assert!(new.contains("GET /new ") && !new.contains("/old"));
}
