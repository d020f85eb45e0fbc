#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use crate::site::fixture::{Asked, Fixture, MODIFIED, content, field, run};
use crate::site::settings::{EtagMode, Preset};

const STYLE: &str = "/wp-content/themes/t/style.css";
const DATE: &str = "Tue, 02 Jan 2024 03:04:05 GMT";

async fn status(site: &Asked, target: &str, fields: &[(&str, &str)]) -> u16 {
    site.answer("GET", target, fields).await.status
}

async fn etag(site: &Asked, target: &str) -> String {
    field(&site.answer("GET", target, &[]).await, "ETag").unwrap()
}

#[test]
fn if_none_match_in_all_its_forms() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        let etag = etag(&site, STYLE).await;
        let bare = etag.trim_matches('"');
        for (fields, expected) in [
            (vec![("If-None-Match", etag.as_str())], 304),
            (vec![("If-None-Match", &format!("W/{etag}"))], 304),
            (
                vec![("If-None-Match", &format!("\"a\", W/{etag}, \"b\""))],
                304,
            ),
            (vec![("If-None-Match", "*")], 304),
            (
                vec![("If-None-Match", "\"a\""), ("If-None-Match", &etag)],
                304,
            ),
            (vec![("If-None-Match", &format!("\"a,{bare}\""))], 200),
            (
                vec![("If-None-Match", "\"x\""), ("If-Modified-Since", DATE)],
                200,
            ),
            (vec![("If-Modified-Since", DATE)], 304),
            (vec![("If-Match", &etag)], 200),
            (vec![("If-Match", &format!("W/{etag}"))], 412),
            (
                vec![("If-Unmodified-Since", "Mon, 01 Jan 2024 00:00:00 GMT")],
                412,
            ),
        ] {
            let fields: Vec<(&str, &str)> = fields;
            assert_eq!(status(&site, STYLE, &fields).await, expected, "{fields:?}");
        }
    });
}

#[test]
fn a_304_tells_caches_what_they_need_and_nothing_of_content() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        let etag = etag(&site, STYLE).await;
        for method in ["GET", "HEAD"] {
            let answer = site
                .answer(
                    method,
                    &format!("{STYLE}?ver=1"),
                    &[("If-None-Match", &etag)],
                )
                .await;
            assert_eq!((answer.status, answer.body.length()), (304, 0));
            assert_eq!(field(&answer, "ETag"), Some(etag.clone()));
            assert_eq!(field(&answer, "Vary").as_deref(), Some("Accept-Encoding"));
            assert_eq!(
                field(&answer, "Cache-Control").as_deref(),
                Some("public, max-age=2592000")
            );
            for name in ["Content-Length", "Content-Type", "Content-Encoding"] {
                assert_eq!(field(&answer, name), None, "{name}");
            }
        }
    });
}

#[test]
fn preconditions_do_not_count_where_there_is_no_200() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        for fields in [
            [("If-None-Match", "*")],
            [("If-Match", "\"x\"")],
            [("Range", "bytes=0-1")],
        ] {
            assert_eq!(status(&site, "/wp-content/missing.css", &fields).await, 404);
            assert_eq!(status(&site, "/.env", &fields).await, 403);
            assert_eq!(site.answer("POST", STYLE, &fields).await.status, 405);
        }
    });
}

#[test]
fn single_ranges() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        for (range, bytes, told) in [
            ("bytes=0-1", "01", "bytes 0-1/10"),
            ("bytes=5-9000", "56789", "bytes 5-9/10"),
            ("bytes=-1000", "0123456789", "bytes 0-9/10"),
            ("bytes=-3", "789", "bytes 7-9/10"),
            ("bytes=2-3,90-99", "23", "bytes 2-3/10"),
        ] {
            let answer = site.answer("GET", STYLE, &[("Range", range)]).await;
            assert_eq!(answer.status, 206, "{range}");
            assert_eq!(content(&answer).await, bytes, "{range}");
            assert_eq!(field(&answer, "Content-Range").as_deref(), Some(told));
            assert_eq!(
                field(&answer, "Content-Length").unwrap(),
                bytes.len().to_string()
            );
            assert_eq!(
                field(&answer, "Content-Type").as_deref(),
                Some("text/css; charset=utf-8")
            );
            assert_eq!(field(&answer, "Vary").as_deref(), Some("Accept-Encoding"));
            assert!(field(&answer, "ETag").is_some());
        }
    });
}

#[test]
fn ranges_that_are_not_answered_by_a_part() {
    run(async {
        let fixture = Fixture::wordpress();
        fixture.write("empty.txt", "");
        let site = fixture.of(Preset::Wordpress);
        let none = site.answer("GET", STYLE, &[("Range", "bytes=50-60")]).await;
        assert_eq!(
            (none.status, field(&none, "Content-Range").as_deref()),
            (416, Some("bytes */10"))
        );
        assert_eq!(
            field(&none, "Content-Length").unwrap(),
            none.body.length().to_string()
        );
        assert_eq!(
            (field(&none, "ETag"), field(&none, "Content-Encoding")),
            (None, None)
        );
        for range in ["items=0-5", "bytes=5-2", "bytes=", "bytes=a-b"] {
            assert_eq!(
                status(&site, STYLE, &[("Range", range)]).await,
                200,
                "{range}"
            );
        }
        assert_eq!(
            status(
                &site,
                STYLE,
                &[("Range", "bytes=0-1"), ("Range", "bytes=2-3")]
            )
            .await,
            200
        );
        for range in ["bytes=0-", "bytes=0-1023", "bytes=-5"] {
            let empty = site.answer("GET", "/empty.txt", &[("Range", range)]).await;
            assert_eq!(
                (empty.status, field(&empty, "Content-Length").as_deref()),
                (200, Some("0")),
                "{range}"
            );
        }
        let many: Vec<String> = (0..500).map(|k| format!("{k}-{k}")).collect();
        let answer = site
            .answer(
                "GET",
                STYLE,
                &[("Range", &format!("bytes={}", many.join(",")))],
            )
            .await;
        assert!(answer.status == 200 || answer.body.length() <= 20);
    });
}

#[test]
fn several_ranges_are_a_multipart_of_exact_length() {
    run(async {
        let fixture = Fixture::wordpress();
        fixture.write("large.bin", &"0123456789".repeat(20_000));
        let site = fixture.of(Preset::Wordpress);
        for target in [STYLE, "/large.bin"] {
            let answer = site
                .answer("GET", target, &[("Range", "bytes=0-1,4-5")])
                .await;
            assert_eq!(answer.status, 206);
            let media_type = field(&answer, "Content-Type").unwrap();
            let boundary = media_type
                .strip_prefix("multipart/byteranges; boundary=")
                .unwrap();
            let size = field(&site.answer("GET", target, &[]).await, "Content-Length").unwrap();
            let of_part = field(&site.answer("GET", target, &[]).await, "Content-Type").unwrap();
            let expected = format!(
                "--{boundary}\r\nContent-Type: {of_part}\r\nContent-Range: bytes 0-1/{size}\r\n\r\n01\r\n\
                 --{boundary}\r\nContent-Type: {of_part}\r\nContent-Range: bytes 4-5/{size}\r\n\r\n45\r\n--{boundary}--\r\n"
            );
            assert_eq!(content(&answer).await, expected);
            assert_eq!(
                field(&answer, "Content-Length").unwrap(),
                expected.len().to_string()
            );
            assert_eq!(field(&answer, "Content-Range"), None);
            let again = site
                .answer("GET", target, &[("Range", "bytes=0-1,4-5")])
                .await;
            assert_ne!(
                field(&again, "Content-Type").unwrap(),
                media_type,
                "a boundary is used once"
            );
        }
    });
}

#[test]
fn if_range_takes_strong_validators_only() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        let etag = etag(&site, STYLE).await;
        let weak = format!("W/{etag}");
        for (if_range, expected) in [
            (etag.as_str(), 206),
            (&weak, 200),
            ("\"no\"", 200),
            (DATE, 206),
            ("Tue, 02 Jan 2024 03:04:06 GMT", 200),
        ] {
            assert_eq!(
                status(
                    &site,
                    STYLE,
                    &[("Range", "bytes=0-1"), ("If-Range", if_range)]
                )
                .await,
                expected,
                "{if_range}"
            );
        }
    });
}

#[test]
fn a_racy_file_is_never_confirmed() {
    run(async {
        let fixture = Fixture::empty();
        fixture.write("fresh.css", "one");
        fixture.touch(
            "fresh.css",
            u64::try_from(fixture.clock.unix().seconds).unwrap(),
        );
        let site = fixture.of(Preset::Static);
        let fresh = site.answer("GET", "/fresh.css", &[]).await;
        let tag = field(&fresh, "ETag").unwrap();
        assert!(tag.starts_with("W/\"") && tag.contains("-r"), "{tag}");
        assert_eq!(field(&fresh, "Last-Modified"), None);
        assert_eq!(
            status(&site, "/fresh.css", &[("If-None-Match", &tag)]).await,
            200
        );
        assert_eq!(
            status(
                &site,
                "/fresh.css",
                &[("Range", "bytes=0-1"), ("If-Range", &tag)]
            )
            .await,
            200
        );
        fixture.hand.advance(Duration::from_secs(120));
        let settled = site
            .answer("GET", "/fresh.css", &[("If-None-Match", &tag)])
            .await;
        assert_eq!(settled.status, 200);
        let strong = field(&settled, "ETag").unwrap();
        assert!(strong.starts_with('"'), "{strong}");
        assert!(field(&settled, "Last-Modified").is_some());
        assert_eq!(
            status(&site, "/fresh.css", &[("If-None-Match", &strong)]).await,
            304
        );
    });
}

#[test]
fn a_time_that_says_nothing_gives_a_tag_by_content() {
    run(async {
        let fixture = Fixture::empty();
        for (name, seconds) in [
            ("zero", 0),
            ("one", 1),
            ("npm", 499_162_500),
            ("zip", 315_532_800),
            ("future", 4_000_000_000),
        ] {
            let path = format!("{name}.css");
            fixture.write(&path, "first");
            fixture.touch(&path, seconds);
            let site = fixture.of(Preset::Static);
            let target = format!("/{path}");
            let before = site.answer("GET", &target, &[]).await;
            let tag = field(&before, "ETag").unwrap();
            assert_eq!(tag.len(), 34, "{name}: {tag}");
            assert_eq!(field(&before, "Last-Modified"), None, "{name}");
            assert_eq!(
                status(&site, &target, &[("If-None-Match", &tag)]).await,
                304,
                "{name}"
            );
            fixture.write(&path, "other");
            fixture.touch(&path, seconds);
            fixture.hand.advance(Duration::from_secs(120));
            assert_eq!(
                status(&site, &target, &[("If-None-Match", &tag)]).await,
                200,
                "{name}"
            );
        }
    });
}

#[test]
fn the_forms_of_entity_tags() {
    run(async {
        let fixture = Fixture::wordpress();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.etag = EtagMode::Nginx;
        assert_eq!(
            etag(&fixture.site(&settings), STYLE).await,
            format!("\"{MODIFIED:x}-a\"")
        );
        settings.etag = EtagMode::Content;
        let by_content = etag(&fixture.site(&settings), STYLE).await;
        fixture.write("copy.css", "0123456789");
        fixture.touch("copy.css", MODIFIED + 5);
        assert_eq!(
            etag(&fixture.site(&settings), "/copy.css").await,
            by_content
        );
        settings.etag = EtagMode::Mtime;
        assert_eq!(
            etag(&fixture.site(&settings), STYLE).await,
            format!(
                "\"{:x}-a\"",
                u128::from(MODIFIED) * 1_000_000_000 + 500_000_000
            )
        );
    });
}

#[test]
fn uploads_without_an_extension_are_bytes() {
    run(async {
        let fixture = Fixture::wordpress();
        let answer = fixture
            .of(Preset::Wordpress)
            .answer("GET", "/wp-content/uploads/noext", &[])
            .await;
        assert_eq!(
            field(&answer, "Content-Type").as_deref(),
            Some("application/octet-stream")
        );
        assert_eq!(
            field(&answer, "X-Content-Type-Options").as_deref(),
            Some("nosniff")
        );
    });
}
