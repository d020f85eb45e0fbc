//! Conditional requests (RFC 9110 §13).

use std::time::{Duration, SystemTime};

use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_MODIFIED, STYLE_PATH};
use crate::support::eventually;
use crate::support::nostat::{Config, Nostat};

const BEFORE: &str = "Tue, 02 Jan 2024 03:04:04 GMT";
const AFTER: &str = "Tue, 02 Jan 2024 03:04:06 GMT";

#[test]
fn the_five_fields_are_evaluated_in_the_order_of_the_rfc() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let tag = server.settled(STYLE_PATH).etag().to_owned();
    let bare = tag.trim_matches('"').to_owned();
    let weak = format!("W/{tag}");
    let list = format!("\"a\", {weak}, \"b\"");
    let comma = format!("\"a,{bare}\"");
    let strong_list = format!("\"x\" ,, {tag}");
    let same = STYLE_MODIFIED;
    let cases: &[(&[(&str, &str)], u16)] = &[
        // If-None-Match: weak comparison, lists, several lines, `*`.
        (&[("If-None-Match", &tag)], 304),
        (&[("If-None-Match", &weak)], 304),
        (&[("If-None-Match", &list)], 304),
        (&[("If-None-Match", "*")], 304),
        (&[("If-None-Match", "\"a\""), ("If-None-Match", &tag)], 304),
        (&[("If-None-Match", &comma)], 200),
        (&[("If-None-Match", "\"a\", \"b\"")], 200),
        (&[("If-None-Match", "")], 200),
        // It wins over If-Modified-Since.
        (
            &[("If-None-Match", "\"x\""), ("If-Modified-Since", same)],
            200,
        ),
        (
            &[("If-None-Match", &tag), ("If-Modified-Since", BEFORE)],
            304,
        ),
        // If-Modified-Since: whole seconds, one valid date.
        (&[("If-Modified-Since", same)], 304),
        (&[("If-Modified-Since", AFTER)], 304),
        (&[("If-Modified-Since", BEFORE)], 200),
        (
            &[("If-Modified-Since", "Tuesday, 02-Jan-24 03:04:05 GMT")],
            304,
        ),
        (&[("If-Modified-Since", "Tue Jan  2 03:04:05 2024")], 304),
        (&[("If-Modified-Since", "yesterday")], 200),
        (&[("If-Modified-Since", "")], 200),
        (
            &[("If-Modified-Since", same), ("If-Modified-Since", same)],
            200,
        ),
        // If-Match: strong comparison.
        (&[("If-Match", &tag)], 200),
        (&[("If-Match", &strong_list)], 200),
        (&[("If-Match", "*")], 200),
        (&[("If-Match", "\"x\""), ("If-Match", &tag)], 200),
        (&[("If-Match", &weak)], 412),
        (&[("If-Match", "\"x\"")], 412),
        // It wins over If-Unmodified-Since.
        (&[("If-Match", &tag), ("If-Unmodified-Since", BEFORE)], 200),
        (
            &[("If-Match", "\"x\""), ("If-Unmodified-Since", AFTER)],
            412,
        ),
        (&[("If-Unmodified-Since", same)], 200),
        (&[("If-Unmodified-Since", AFTER)], 200),
        (&[("If-Unmodified-Since", BEFORE)], 412),
        (&[("If-Unmodified-Since", "never")], 200),
        // Steps 1 and 2 come before 3 and 4.
        (&[("If-Match", "\"x\""), ("If-None-Match", &tag)], 412),
        (&[("If-Match", &tag), ("If-None-Match", &tag)], 304),
        (
            &[("If-Unmodified-Since", BEFORE), ("If-Modified-Since", same)],
            412,
        ),
        (
            &[("If-Unmodified-Since", same), ("If-Modified-Since", same)],
            304,
        ),
        // A precondition comes before a range.
        (&[("If-None-Match", &tag), ("Range", "bytes=0-1")], 304),
        (&[("If-Match", "\"x\""), ("Range", "bytes=0-1")], 412),
        (&[("If-Match", &tag), ("Range", "bytes=0-1")], 206),
    ];
    let mut connection = server.connect();
    for (fields, status) in cases {
        for method in ["GET", "HEAD"] {
            let response = connection.request(method, STYLE_PATH, fields, b"");
            // Range is for GET alone.
            let status = if method == "HEAD" && *status == 206 {
                200
            } else {
                *status
            };
            assert_eq!(response.status, status, "{method} {fields:?}: {response}");
        }
    }
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn not_modified_carries_the_fields_that_200_would_and_no_body() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::wordpress_alone(&root));
    let full = server.settled(STYLE_PATH);
    let mut connection = server.connect();
    for _ in 0..3 {
        let response = connection.get_with(STYLE_PATH, &[("If-None-Match", full.etag())]);
        assert_eq!(response.status, 304);
        for name in ["etag", "cache-control", "vary"] {
            assert_eq!(response.field(name), full.field(name), "{name}");
        }
        assert!(response.field("date").is_some(), "{response}");
        assert_eq!(response.field("content-encoding"), None);
        assert!(
            response
                .field("content-length")
                .is_none_or(|length| length == "10"),
            "{response}"
        );
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
}

#[test]
fn a_date_just_received_is_not_modified_although_the_mtime_has_a_fraction() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let received = server.get(STYLE_PATH).last_modified().to_owned();
    assert_eq!(
        server
            .get_with(STYLE_PATH, &[("If-Modified-Since", &received)])
            .status,
        304
    );
}

#[test]
fn a_precondition_changes_no_other_answer_than_200() {
    let root = DocumentRoot::wordpress();
    root.folder("empty");
    let server = Nostat::start(&Config::static_files(&root));
    for (method, path, status) in [
        ("GET", "/gone.css", 404),
        ("GET", "/wp-admin", 301),
        ("POST", STYLE_PATH, 405),
        ("GET", "/.env", 403),
    ] {
        for field in [
            ("If-Match", "\"x\""),
            ("If-None-Match", "*"),
            ("If-Modified-Since", AFTER),
            ("If-Unmodified-Since", BEFORE),
        ] {
            let got = server.send(method, path, &[field], b"").status;
            let same =
                got == status || (status == 301 && got == 308) || (status == 403 && got == 404);
            assert!(same, "{method} {path} with {field:?}: {got}");
        }
    }
}

#[test]
fn an_mtime_that_tells_nothing_is_no_last_modified_and_the_tag_follows_the_content() {
    let root = DocumentRoot::empty();
    let at = |seconds: i64| match u64::try_from(seconds) {
        Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after),
        Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
    };
    // The epoch, 1960, 1980-01-01 and 1985-10-26T08:15:00Z of archives and package builds, and a clock that was wrong.
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let times = [
        at(0),
        at(1),
        at(-315_619_200),
        at(315_532_800),
        at(499_162_500),
        tomorrow,
    ];
    let server = Nostat::start(&Config::static_files(&root));
    let files: Vec<(String, SystemTime)> = times
        .into_iter()
        .enumerate()
        .map(|(number, mtime)| (format!("f{number}.css"), mtime))
        .collect();
    for (name, mtime) in &files {
        root.write_at(name, b"old content", *mtime);
    }
    let tags: Vec<String> = files
        .iter()
        .map(|(name, mtime)| {
            let path = format!("/{name}");
            // A file of the future never settles.
            let settles = *mtime != tomorrow;
            let old = if settles {
                server.settled(&path)
            } else {
                server.get(&path)
            };
            assert_eq!(old.field("last-modified"), None, "{mtime:?}");
            let tag = old.etag().to_owned();
            let again = server.get_with(&path, &[("If-None-Match", &tag)]);
            assert!(again.status == 304 || !settles, "{mtime:?}: {again}");
            tag
        })
        .collect();
    for (name, mtime) in &files {
        root.write_at(name, b"new content", *mtime);
    }
    for ((name, _), tag) in files.iter().zip(&tags) {
        let path = format!("/{name}");
        let new = eventually("the change is seen", || {
            let response = server.get_with(&path, &[("If-None-Match", tag)]);
            (response.status != 304).then_some(response)
        });
        new.assert(200, b"new content");
        let dated = server.get_with(
            &path,
            &[("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")],
        );
        assert_eq!(dated.status, 200, "no date to compare with");
    }
}

#[test]
fn tags_follow_the_sites_mode() {
    let (one, other) = (DocumentRoot::empty(), DocumentRoot::empty());
    for root in [&one, &other] {
        root.write("a.css", STYLE_BYTES);
    }
    other.write_at(
        "a.css",
        STYLE_BYTES,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000),
    );
    let tag = |root: &DocumentRoot, mode: &str| {
        Nostat::start(&Config::static_files(root).site("etag", mode))
            .settled("/a.css")
            .etag()
            .to_owned()
    };
    assert_eq!(
        tag(&one, "mtime"),
        format!("\"{:x}-a\"", 1_704_164_645_500_000_000_u64)
    );
    assert_eq!(tag(&one, "nginx"), format!("\"{:x}-a\"", 1_704_164_645));
    assert_eq!(
        tag(&one, "content"),
        tag(&other, "content"),
        "equal on every node"
    );
}

#[test]
fn a_tag_given_while_the_file_was_racy_is_not_confirmed_later() {
    let root = DocumentRoot::empty();
    let server = Nostat::start(&Config::static_files(&root));
    let now = SystemTime::now();
    root.write_at("a.css", b"one", now);
    let early = server.get("/a.css");
    let settled = server.settled("/a.css");
    assert_ne!(
        early.etag(),
        settled.etag(),
        "the first look was within two seconds of the write"
    );
    assert_eq!(
        server
            .get_with("/a.css", &[("If-None-Match", early.etag())])
            .status,
        200
    );
    assert_eq!(
        server
            .get_with("/a.css", &[("If-None-Match", settled.etag())])
            .status,
        304
    );
}
