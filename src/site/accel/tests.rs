#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::PathBuf;

use super::AccelTarget::{Redirect, SendFile};
use super::*;
use crate::site::fixture::{Asked, Fixture, content, field, run};
use crate::site::settings::Preset;

async fn status(site: &Asked, target: AccelTarget<'_>) -> u16 {
    site.accel(target, "GET", &[], &[]).await.status
}

fn fixture() -> Fixture {
    let fixture = Fixture::wordpress();
    fixture.write(
        "wp-content/uploads/woocommerce_uploads/my book.pdf",
        "0123456789",
    );
    fixture
}

#[test]
fn a_script_may_give_what_folders_and_settings_deny() {
    run(async {
        let fixture = fixture();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.deny = vec!["/wp-content/uploads/woocommerce_uploads/".into()];
        let site = fixture.site(&settings);
        let root = fixture.root.to_str().unwrap().to_owned();
        assert_eq!(
            site.get("/wp-content/uploads/woocommerce_uploads/my%20book.pdf")
                .await,
            "403"
        );
        for target in [
            Redirect(b"/wp-content/uploads/woocommerce_uploads/my%20book.pdf"),
            Redirect(b"/wp-content/uploads/woocommerce_uploads/my book.pdf?x=1"),
            Redirect(b"//wp-content/./uploads/woocommerce_uploads/my book.pdf"),
            SendFile(
                format!("{root}/wp-content/uploads/woocommerce_uploads/my book.pdf").as_bytes(),
            ),
        ] {
            let answer = site.accel(target, "GET", &[], &[]).await;
            assert_eq!(answer.status, 200, "{target:?}");
            assert_eq!(content(&answer).await, "0123456789");
        }
    });
}

#[test]
fn sources_and_configuration_are_not_given_by_a_script_either() {
    run(async {
        let fixture = fixture();
        let site = fixture.of(Preset::Wordpress);
        for path in [
            "/wp-config.php",
            "/wp-config.php.bak",
            "/wp-login.php",
            "/shout.PHP",
            "/lib.inc",
            "/.env",
            "/.git/config",
            "/wp-config.txt",
            "/%2eenv",
            "/wp-content/uploads/evil.php",
        ] {
            assert_eq!(
                status(&site, Redirect(path.as_bytes())).await,
                403,
                "{path}"
            );
            let file = format!("{}{path}", fixture.root.to_str().unwrap());
            if !path.contains('%') {
                assert_eq!(
                    status(&site, SendFile(file.as_bytes())).await,
                    403,
                    "{path}"
                );
            }
        }
    });
}

#[test]
fn what_is_not_below_the_root_is_missing() {
    run(async {
        let fixture = fixture();
        let site = fixture.of(Preset::Wordpress);
        let root = fixture.root.to_str().unwrap();
        for path in [
            "/missing.pdf",
            "/docs",
            "/docs/",
            "",
            "relative",
            "/../etc/passwd",
            "/a%2fb.css",
            "/a%",
            "http://x/style.css",
        ] {
            assert_eq!(
                status(&site, Redirect(path.as_bytes())).await,
                404,
                "{path}"
            );
        }
        let outside = format!("{root}/../../etc/passwd");
        let beside = format!("{root}x/style.css");
        let slash = format!("{root}/style.css/");
        for path in [
            "/etc/passwd",
            &outside,
            &beside,
            &slash,
            root,
            "",
            "style.css",
        ] {
            assert_eq!(
                status(&site, SendFile(path.as_bytes())).await,
                404,
                "{path}"
            );
        }
    });
}

#[test]
fn the_path_may_be_the_one_that_php_sees() {
    run(async {
        let fixture = fixture();
        let mut settings = fixture.settings(Preset::Wordpress);
        if let Backend::Php(php) = &mut settings.backend {
            php.root = Some(PathBuf::from("/app/public"));
        }
        let site = fixture.site(&settings);
        assert_eq!(status(&site, SendFile(b"/app/public/style.css")).await, 200);
        assert_eq!(
            status(&site, SendFile(b"/app/publicity/style.css")).await,
            404
        );
    });
}

#[test]
fn what_php_says_of_the_content_stays() {
    run(async {
        let fixture = fixture();
        let site = fixture.of(Preset::Wordpress);
        let kept = [
            ("content-type", "application/x-own"),
            ("Content-Disposition", "attachment; filename=\"a\""),
            ("Cache-Control", "private"),
            ("Expires", "0"),
            ("Set-Cookie", "a=1"),
            ("X-Other", "dropped"),
            ("Content-Length", "99"),
            ("Expires", "bad\r\nX: 1"),
        ];
        let answer = site.accel(Redirect(b"/style.css"), "GET", &[], &kept).await;
        assert_eq!(answer.status, 200);
        for (name, value) in [
            ("Content-Type", "application/x-own"),
            ("Cache-Control", "private"),
            ("Expires", "0"),
            ("Set-Cookie", "a=1"),
            ("Content-Length", "10"),
            ("Content-Disposition", "attachment; filename=\"a\""),
        ] {
            assert_eq!(field(&answer, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(field(&answer, "X-Other"), None);
        assert!(field(&answer, "ETag").is_some());
    });
}

#[test]
fn what_one_client_is_given_is_not_called_public() {
    run(async {
        let fixture = fixture();
        let site = fixture.of(Preset::Wordpress);
        let target = Redirect(b"/wp-content/themes/t/style.css");
        for fields in [
            &[][..],
            &[("Range", "bytes=2-3")],
            &[("Range", "bytes=0-0,4-5")],
            &[("If-None-Match", "*")],
        ] {
            for kept in [&[][..], &[("Set-Cookie", "a=1"), ("Expires", "0")]] {
                let answer = site.accel(target, "GET", fields, kept).await;
                assert_eq!(field(&answer, "Cache-Control"), None, "{fields:?}");
                assert_eq!(
                    field(&answer, "Expires").is_some(),
                    !kept.is_empty(),
                    "{fields:?}"
                );
            }
        }
    });
}

#[test]
fn a_file_may_be_named_where_a_link_leads() {
    run(async {
        let fixture = fixture();
        let outside = fixture.root.parent().unwrap().join("storage");
        std::fs::create_dir_all(outside.join("2024")).unwrap();
        std::fs::create_dir_all(fixture.root.join("wp-content/uploads")).unwrap();
        for (name, content) in [("2024/a.pdf", "paper"), ("a.php", "<?php"), (".env", "x")] {
            std::fs::write(outside.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", outside.join("passwd.txt")).unwrap();
        std::os::unix::fs::symlink(&outside, fixture.root.join("wp-content/uploads/far")).unwrap();
        let site = fixture.of(Preset::Wordpress);
        let named = |name: &str| outside.join(name).to_str().unwrap().to_owned();
        for (name, expected) in [
            ("2024/a.pdf", 200),
            ("2024/missing.pdf", 404),
            ("2024", 404),
            ("a.php", 403),
            (".env", 403),
            ("passwd.txt", 403),
            ("../site/wp-config.php", 404),
        ] {
            let path = named(name);
            for _ in 0..2 {
                assert_eq!(
                    status(&site, SendFile(path.as_bytes())).await,
                    expected,
                    "{name}"
                );
            }
        }
        let beside = format!("{}x/a", outside.to_str().unwrap());
        assert_eq!(status(&site, SendFile(beside.as_bytes())).await, 404);
    });
}

#[test]
fn ranges_and_preconditions_are_answered() {
    run(async {
        let fixture = fixture();
        let site = fixture.of(Preset::Wordpress);
        let kept = [
            ("Content-Type", "application/x-own"),
            ("Content-Disposition", "inline"),
            ("Set-Cookie", "a=1"),
        ];
        let target = Redirect(b"/wp-content/themes/t/style.css");
        let part = site
            .accel(target, "GET", &[("Range", "bytes=2-3")], &kept)
            .await;
        assert_eq!(
            (part.status, content(&part).await),
            (206, Bytes::from_static(b"23"))
        );
        assert_eq!(
            field(&part, "Content-Type").as_deref(),
            Some("application/x-own")
        );
        assert_eq!(
            field(&part, "Content-Disposition").as_deref(),
            Some("inline")
        );
        let parts = site
            .accel(target, "GET", &[("Range", "bytes=0-1,4-5")], &kept)
            .await;
        assert!(
            field(&parts, "Content-Type")
                .unwrap()
                .starts_with("multipart/byteranges")
        );
        assert_eq!(
            String::from_utf8_lossy(&content(&parts).await)
                .matches("Content-Type: application/x-own")
                .count(),
            2
        );
        let etag = field(&part, "ETag").unwrap();
        let same = site
            .accel(target, "GET", &[("If-None-Match", &etag)], &kept)
            .await;
        assert_eq!(
            (
                same.status,
                field(&same, "Content-Type"),
                field(&same, "Set-Cookie").as_deref()
            ),
            (304, None, Some("a=1"))
        );
        let head = site.accel(target, "HEAD", &[], &kept).await;
        assert_eq!(
            (
                head.status,
                head.body.length(),
                field(&head, "Content-Length").as_deref()
            ),
            (200, 0, Some("10"))
        );
        let posted = site
            .accel(
                target,
                "POST",
                &[("Range", "bytes=2-3"), ("If-None-Match", &etag)],
                &kept,
            )
            .await;
        assert_eq!(posted.status, 200);
    });
}
