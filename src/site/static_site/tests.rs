#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and make the trees they ask for"
)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use proptest::prelude::*;

use super::*;
use crate::request::target::Target;
use crate::site::fixture::{Asked, Fixture, content, field, run};
use crate::site::settings::{MissingAssets, MissingPhp, Multisite, Preset};

async fn check(site: &Asked, table: &[(&str, &str)]) {
    for (target, expected) in table {
        assert_eq!(site.get(target).await, *expected, "GET {target}");
    }
}

#[test]
fn wordpress_paths() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        check(
            &site,
            &[
                // Pages and scripts (C59).
                ("/", "php /index.php"),
                ("/?p=1", "php /index.php"),
                ("/2024/hello/", "php /index.php"),
                ("/2024/hello", "php /index.php"),
                ("/index.php", "php /index.php"),
                ("/index.php/wp-json/x?y=1", "php /index.php + /wp-json/x"),
                ("/index.php/", "php /index.php + /"),
                ("/wp-login.php", "php /wp-login.php"),
                ("/xmlrpc.php", "php /xmlrpc.php"),
                ("/wp-admin/", "php /wp-admin/index.php"),
                ("//wp-admin///", "php /wp-admin/index.php"),
                ("/wp-content/", "php /wp-content/index.php"),
                (
                    "/wp-content/plugins/p/p.php",
                    "php /wp-content/plugins/p/p.php",
                ),
                (
                    "/wp-content/plugins/p/cache/c.php",
                    "php /wp-content/plugins/p/cache/c.php",
                ),
                // Files (C23, C25).
                ("/wp-content/themes/t/style.css?ver=1", "200 0123456789"),
                ("/a/./b/../b.css", "200 ab"),
                ("//a//b.css", "200 ab"),
                ("/wp-content/uploads/a%20b.css", "200 blank"),
                ("/wp-content/uploads/a+b.css", "200 plus"),
                ("/wp-content/uploads/a%2Bb.css", "200 plus"),
                ("/wp-content/uploads/caf%C3%A9.jpg", "200 coffee"),
                ("/wp-content/uploads/café.jpg", "200 coffee"),
                ("/100%25.txt", "200 percent"),
                ("/docs/", "200 docs"),
                ("/.well-known/acme-challenge/t", "200 token"),
                // Folders (C30).
                ("/wp-admin?x=1", "301 /wp-admin/?x=1"),
                ("/docs", "301 /docs/"),
                ("//docs", "301 /docs/"),
                ("/wp-content/uploads", "301 /wp-content/uploads/"),
                ("/bare/", "php /index.php"),
                ("/wp-includes/", "404"),
                ("/wp-admin/css/", "404"),
                ("/wp-content/themes/", "404"),
                ("/wp-content/uploads/", "404"),
                // A file is no folder (C32).
                ("/wp-content/themes/t/style.css/", "404"),
                ("/wp-content/themes/t/style.css/foo", "php /index.php"),
                ("/wp-content/themes/t/style.css/foo.css", "404"),
                ("/style.css/", "php /index.php"),
                // Missing.
                ("/wp-content/uploads/missing.jpg", "404"),
                ("/wp-includes/missing.js", "404"),
                ("/WP-ADMIN/missing.css", "404"),
                ("/missing.jpg", "php /index.php"),
                ("/robots.txt", "php /index.php"),
                ("/favicon.ico", "php /index.php"),
                ("/sitemap_index.xml", "php /index.php"),
                ("/wp-content/cache/minify/a.css", "php /index.php"),
                ("/missing.php", "404"),
                ("/wp-content/plugins/p/missing.php", "404"),
                ("/missing.php/x", "404"),
            ],
        )
        .await;
    });
}

#[test]
fn wordpress_paths_that_nobody_gets() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        let refused = [
            // Dotfiles (C33).
            "/.git/config",
            "/.env",
            "/%2egit/config",
            "/wp-content/.htaccess",
            "/.missing",
            "/.well-known/.env",
            // Configuration and sources (C34).
            "/wp-config.php",
            "/wp-config.php~",
            "/wp-config.php.bak",
            "/WP-CONFIG.PHP",
            "/wp-config.php/x",
            "/wp-config.php/",
            "/x/wp-config-sample.php",
            "/shout.PHP",
            "/index.PHP",
            "/lib.inc",
            "/page.phtml",
            "/old.php5",
            "/index.php.",
            "/index.php%20",
            "/index.php~",
            "/missing.phtml",
            "/readme.html",
            "/license.txt",
            "/backup.zip",
            "/dump.sql",
            "/wp-content/debug.log",
            "/wp-content/error_log",
            "/wp-content/updraft/backup.txt",
            "/wp-content/updraft",
            "/wp-content/uploads/wc-logs/l.txt",
            // Where PHP never runs (C56).
            "/wp-content/uploads/evil.php",
            "/wp-content/uploads/missing.php",
            "/wp-content/UPLOADS/evil.php",
            "/wp-content/uploads/evil.php/x.jpg",
            "/wp-content/uploads/evil.jpg/x.php",
            "/wp-content/cache/c.php",
            "/wp-content/upgrade/u/u.php",
            "/.well-known/x.php",
            "/index.php/../wp-content/uploads/evil.jpg/.php",
            // Separators within a segment.
            "/wp-content/uploads%2fevil.php",
            "/.git%2fconfig",
            "/a%5cshout.PHP",
        ];
        for target in refused {
            assert_eq!(site.get(target).await, "403", "{target}");
        }
        check(
            &site,
            &[
                ("/a%2fb.css", "php /index.php"),
                ("/a\\b.css", "php /index.php"),
                ("/wp-content%2fthemes/t/style.css", "404"),
                ("/wp-content/uploads%5cx", "php /index.php"),
                ("/style.css/x.php", "404"),
                ("/a/b.css/x.php", "404"),
            ],
        )
        .await;
    });
}

#[test]
fn methods() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND", "get"] {
            let answer = site.answer(method, "/style.css", &[]).await;
            assert_eq!(
                (answer.status, field(&answer, "Allow").as_deref()),
                (405, Some("GET, HEAD, OPTIONS")),
                "{method}"
            );
            assert_eq!(site.ask(method, "/wp-login.php").await, "php /wp-login.php");
            assert_eq!(site.ask(method, "/2024/hello/").await, "php /index.php");
            assert_eq!(site.ask(method, "/docs").await, "308 /docs/");
        }
        let options = site.answer("OPTIONS", "/style.css", &[]).await;
        assert_eq!(
            (options.status, field(&options, "Allow").as_deref()),
            (204, Some("GET, HEAD, OPTIONS"))
        );
        assert_eq!(site.ask("OPTIONS", "/wp-json/").await, "php /index.php");
        assert_eq!(site.ask("OPTIONS", "*").await, "204");
        for target in ["/", "/style.css", "/index.php"] {
            let trace = site.answer("TRACE", target, &[]).await;
            assert_eq!(trace.status, 405);
            assert!(field(&trace, "Allow").is_some());
        }
    });
}

#[test]
fn head_has_the_head_of_get_and_no_content() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        for target in [
            "/style.css",
            "/docs/",
            "/docs",
            "/wp-content/uploads/missing.jpg",
            "/.env",
        ] {
            let get = site.answer("GET", target, &[]).await;
            let head = site.answer("HEAD", target, &[("Range", "bytes=0-1")]).await;
            assert_eq!(
                (get.status, &get.head),
                (head.status, &head.head),
                "{target}"
            );
            assert_eq!(head.body.length(), 0);
            assert_eq!(
                field(&get, "Content-Length").unwrap(),
                get.body.length().to_string()
            );
        }
    });
}

#[test]
fn an_escaped_separator_behind_a_script_is_path_info() {
    run(async {
        let fixture = Fixture::wordpress();
        let table = [
            ("/index.php/wp-json/a%2Fb", "php /index.php + /wp-json/a/b"),
            ("/a/../index.php/x/a%5Cb/", "php /index.php + /x/a\\b/"),
            (
                "/wp-content/plugins/p/p.php/%2f",
                "php /wp-content/plugins/p/p.php + //",
            ),
            ("/index.php%2Fa", "php /index.php"),
            ("/wp-content/plugins/p%2Fp.php", "403"),
            ("/wp-content/uploads/evil.php/a%2Fb", "403"),
            ("/wp-config.php/a%2Fb", "403"),
            ("/missing.php/a%2Fb", "404"),
            ("/wp-content/uploads/evil.jpg/x.php/a%2Fb", "403"),
            ("/style.css/a%2Fb", "php /index.php"),
        ];
        check(&fixture.of(Preset::Wordpress), &table).await;
        let mut network = fixture.settings(Preset::Wordpress);
        network.multisite = Multisite::Subdirectory;
        check(
            &fixture.site(&network),
            &[("/shop/index.php/a%2Fb", "php /index.php + /a/b")],
        )
        .await;
    });
}

#[test]
fn a_page_about_a_file_that_nobody_gets_is_a_page() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        check(
            &site,
            &[
                ("/wp-config-explained/", "php /index.php"),
                ("/wp-config-explained", "403"),
                ("/sitemap.xml.gz", "php /index.php"),
                ("/wp-config.php/", "403"),
                ("/wp-config-sample.php/", "403"),
                ("/backup.zip/", "403"),
                ("/wp-content/debug.log/", "php /index.php"),
            ],
        )
        .await;
    });
}

#[test]
fn the_php_preset() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Php);
        check(
            &site,
            &[
                ("/", "php /index.php"),
                ("/route/to/page", "php /index.php"),
                ("/bare/", "php /index.php"),
                ("/wp-login.php", "php /wp-login.php"),
                (
                    "/wp-content/uploads/evil.php",
                    "php /wp-content/uploads/evil.php",
                ),
                ("/index.php/a/b", "php /index.php + /a/b"),
                ("/style.css", "200 root style"),
                ("/users.json", "php /index.php"),
                ("/thumbnail/1.jpg", "php /index.php"),
                ("/missing.php", "404"),
                ("/shout.PHP", "403"),
                ("/lib.inc", "403"),
                ("/.env", "403"),
                ("/docs", "301 /docs/"),
                ("/docs/", "200 docs"),
                ("/style.css/x.php", "404"),
            ],
        )
        .await;
        std::fs::remove_file(fixture.root.join("index.php")).unwrap();
        fixture.hand.advance(std::time::Duration::from_secs(120));
        assert_eq!(fixture.of(Preset::Php).get("/route").await, "404");
    });
}

#[test]
fn the_static_preset() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Static);
        check(
            &site,
            &[
                ("/", "200 <p>root"),
                ("/style.css", "200 root style"),
                ("/readme.html", "200 version"),
                ("/docs", "301 /docs/"),
                ("/docs/", "200 docs"),
                ("/bare/", "404"),
                ("/missing", "404"),
                ("/index.php", "403"),
                ("/wp-config.php", "403"),
                ("/wp-config.php~", "403"),
                ("/wp-config.php.bak", "403"),
                ("/shout.PHP", "403"),
                ("/lib.inc", "403"),
                ("/missing.php", "403"),
                ("/.env", "403"),
                ("/index.php/x", "404"),
                ("/a%2fb.css", "404"),
            ],
        )
        .await;
        assert_eq!(site.ask("POST", "/missing").await, "404");
        let answer = site.answer("GET", "/style.css", &[]).await;
        assert_eq!(field(&answer, "Cache-Control"), None);
    });
}

#[test]
fn without_php_pages_are_missing_and_scripts_refused() {
    run(async {
        let fixture = Fixture::wordpress();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.backend = Backend::None;
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/", "200 <p>root"),
                ("/2024/hello/", "404"),
                ("/wp-login.php", "403"),
                ("/wp-admin/", "404"),
                ("/style.css", "200 root style"),
            ],
        )
        .await;
    });
}

#[test]
fn an_origin_gets_all_that_is_no_file() {
    run(async {
        let fixture = Fixture::wordpress();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.backend =
            Backend::Origin(crate::origin::Settings::new(vec!["127.0.0.1:1".to_owned()]));
        let site = fixture.site(&settings);
        for target in [
            "/",
            "/wp-login.php",
            "/missing.php",
            "/docs",
            "/2024/hello",
            "/wp-content/uploads/missing.jpg",
            "/index.php/x",
        ] {
            assert_eq!(site.get(target).await, "origin", "{target}");
        }
        check(
            &site,
            &[
                ("/style.css", "200 root style"),
                ("/.env", "403"),
                ("/wp-content/uploads/evil.php", "403"),
            ],
        )
        .await;
    });
}

#[test]
fn settings_of_the_preset() {
    run(async {
        let fixture = Fixture::wordpress();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.deny = vec!["/xmlrpc.php".into(), "/docs/index.html".into()];
        settings.no_php = vec!["/wp-content/plugins/".into()];
        settings.missing_php = MissingPhp::Wordpress;
        settings.missing_assets_php = vec!["/wp-content/uploads/*.webp".into()];
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/xmlrpc.php", "403"),
                ("/xmlrpc.php/x", "403"),
                ("//xmlrpc.php", "403"),
                ("/%78mlrpc.php", "403"),
                ("/docs/", "php /index.php"),
                ("/wp-content/plugins/p/p.php", "403"),
                ("/missing.php", "php /index.php"),
                ("/wp-content/uploads/x.webp", "php /index.php"),
                ("/wp-content/uploads/x.png", "404"),
            ],
        )
        .await;
        settings.missing_assets = MissingAssets::Php;
        assert_eq!(
            fixture
                .site(&settings)
                .get("/wp-content/uploads/x.png")
                .await,
            "php /index.php"
        );
    });
}

#[test]
fn a_network_in_subdirectories() {
    run(async {
        let fixture = Fixture::wordpress();
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.multisite = Multisite::Subdirectory;
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/shop/wp-content/themes/t/style.css", "200 0123456789"),
                ("/shop/wp-includes/js/a.js", "200 js"),
                ("/shop/wp-content/uploads/a+b.css", "200 plus"),
                ("/shop/index.php/a/b", "php /index.php + /a/b"),
                ("/shop/wp-content/uploads/evil.php/x", "403"),
                ("/shop/wp-admin", "301 /shop/wp-admin/"),
                ("/shop/wp-admin/", "php /wp-admin/index.php"),
                ("/shop/wp-login.php", "php /wp-login.php"),
                ("/shop/", "php /index.php"),
                ("/shop/2024/hello/", "php /index.php"),
                ("/shop/wp-content/uploads/evil.php", "403"),
                ("/shop/wp-content/updraft/backup.txt", "403"),
                ("/shop/wp-config.php", "403"),
                ("/shop/missing.php", "404"),
                ("/shop/wp-content/missing.css", "404"),
                ("/a/b.css", "200 ab"),
                ("/docs/wp-login.php", "php /wp-login.php"),
                (
                    "/files/2010/a b.jpg".replace(' ', "%20").as_str(),
                    "php /wp-includes/ms-files.php ? file=2010/a%20b.jpg",
                ),
                (
                    "/shop/files/a.jpg?x=1",
                    "php /wp-includes/ms-files.php ? file=a.jpg&x=1",
                ),
                ("/shop/files/a.php", "403"),
                ("/files/a.php", "403"),
            ],
        )
        .await;
        settings.multisite = Multisite::Subdomain;
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/files/a.jpg", "php /wp-includes/ms-files.php ? file=a.jpg"),
                ("/shop/wp-login.php", "404"),
            ],
        )
        .await;
    });
}

#[test]
fn a_name_under_a_site_does_not_hide_what_exists() {
    run(async {
        let fixture = Fixture::wordpress();
        fixture.write("shop/wp-content/own.css", "own");
        let mut settings = fixture.settings(Preset::Wordpress);
        settings.multisite = Multisite::Subdirectory;
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/shop/wp-content/own.css", "200 own"),
                ("/shop/wp-content/themes/t/style.css", "200 0123456789"),
            ],
        )
        .await;
    });
}

#[test]
fn folders_rules_are_kept() {
    run(async {
        let fixture = Fixture::wordpress();
        fixture.write("wp-content/uploads/woocommerce_uploads/book.pdf", "paid");
        fixture.write(
            "wp-content/plugins/akismet/.htaccess",
            "Deny from all\n<Files ~ \"\\.css$\">\nAllow from all\n</Files>",
        );
        fixture.write("wp-content/plugins/akismet/a.css", "css");
        fixture.write("wp-content/plugins/akismet/a.txt", "txt");
        fixture.write("wp-content/plugins/akismet/a.php", "<?php");
        let mut settings = fixture.settings(Preset::Wordpress);
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                ("/wp-content/uploads/woocommerce_uploads/book.pdf", "403"),
                ("/wp-content/plugins/akismet/a.css", "200 css"),
                ("/wp-content/plugins/akismet/a.txt", "403"),
                ("/wp-content/plugins/akismet/a.php", "403"),
            ],
        )
        .await;
        settings.htaccess = Htaccess::Ignore;
        let site = fixture.site(&settings);
        check(
            &site,
            &[
                (
                    "/wp-content/uploads/woocommerce_uploads/book.pdf",
                    "200 paid",
                ),
                (
                    "/wp-content/plugins/akismet/a.php",
                    "php /wp-content/plugins/akismet/a.php",
                ),
            ],
        )
        .await;
    });
}

#[test]
fn what_is_no_regular_file_is_refused() {
    run(async {
        let fixture = Fixture::wordpress();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.txt"), "secret").unwrap();
        std::os::unix::fs::symlink(
            outside.path().join("secret.txt"),
            fixture.root.join("wp-content/uploads/out.txt"),
        )
        .unwrap();
        std::os::unix::fs::symlink(
            "../themes/t/style.css",
            fixture.root.join("wp-content/uploads/in.css"),
        )
        .unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(fixture.root.join("wp-content/uploads/s.png"))
                .unwrap();
        let site = fixture.of(Preset::Wordpress);
        check(
            &site,
            &[
                ("/wp-content/uploads/out.txt", "403"),
                ("/wp-content/uploads/in.css", "200 0123456789"),
                ("/wp-content/uploads/s.png", "403"),
            ],
        )
        .await;
    });
}

#[test]
fn answers_made_here_are_not_stored() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        for target in ["/.env", "/wp-content/missing.css", "/missing.php"] {
            let answer = site.answer("GET", target, &[]).await;
            assert_eq!(
                field(&answer, "Cache-Control").as_deref(),
                Some("no-store"),
                "{target}"
            );
            assert_eq!(
                content(&answer).await.len(),
                field(&answer, "Content-Length")
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
            );
        }
    });
}

#[test]
fn a_warm_decision_is_ready_at_the_first_poll() {
    run(async {
        let fixture = Fixture::wordpress();
        let site = fixture.of(Preset::Wordpress);
        let targets = [
            "/wp-content/themes/t/style.css",
            "/2024/hello/",
            "/wp-admin/",
            "/wp-content/missing.css",
            "/docs/",
        ];
        for target in targets {
            for _ in 0..4 {
                site.get(target).await;
            }
            let mut decision = pin!(site.decide("GET", target.as_bytes(), &[]));
            let polled = decision
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready(), "{target}");
        }
    });
}

fn segment() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "wp-content",
        "uploads",
        "themes",
        "t",
        "style.css",
        "evil.php",
        "evil.jpg",
        "index.php",
        "index.PHP",
        "shout.PHP",
        "wp-config.php",
        "wp-config.php~",
        "lib.inc",
        "page.phtml",
        ".env",
        ".git",
        "config",
        ".htaccess",
        "..",
        ".",
        "",
        "%2e%2e",
        "%2f",
        "%5c",
        "\\",
        "docs",
        "wp-admin",
        "x.php",
        "old.php5",
        ".well-known",
        "shop",
        "files",
        "a b",
        "a%20b.css",
        "%00",
        "@evil.example",
        "evil.example",
    ]);
    prop_oneof![
        4 => known.prop_map(str::to_owned),
        1 => "[ -~]{0,6}",
        1 => (known_name(), "[.~ %20]{0,3}").prop_map(|(name, tail)| name + &tail),
    ]
}

fn known_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "index.php",
        "shout.PHP",
        "lib.inc",
        "wp-config.php",
        ".env",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_path_gives_away_sources_or_leaves_the_site(
        segments in prop::collection::vec(segment(), 0..6),
        query in prop::option::of("[ -~]{0,8}"),
        preset in prop::sample::select(vec![Preset::Wordpress, Preset::Php, Preset::Static]),
        multisite in prop::sample::select(vec![Multisite::Off, Multisite::Subdirectory, Multisite::Subdomain]),
    ) {
        thread_local! {
            static FIXTURE: Fixture = Fixture::wordpress();
        }
        let mut target = format!("/{}", segments.join("/"));
        if let Some(query) = query {
            target = format!("{target}?{query}");
        }
        if Target::parse(&Method::Get, target.as_bytes()).is_err() {
            return Ok(());
        }
        FIXTURE.with(|fixture| run(async {
            let mut settings = fixture.settings(preset);
            settings.multisite = multisite;
            let site = fixture.site(&settings);
            match site.decide("GET", target.as_bytes(), &[]).await {
                Decision::Answer(answer) => {
                    let content = content(&answer).await;
                    let text = String::from_utf8_lossy(&content).into_owned();
                    let served_image = text == "<?php evil" && target.contains("evil.jpg");
                    prop_assert!(!text.contains("<?php") || served_image, "{target} gave {text}");
                    prop_assert!(!text.contains("secret"), "{target} gave {text}");
                    if matches!(answer.status, 301 | 308) {
                        let location = field(&answer, "Location").unwrap();
                        prop_assert!(location.starts_with('/') && !location.starts_with("//"), "{location}");
                        prop_assert!(!location.bytes().any(|b| b.is_ascii_control()), "{location}");
                        prop_assert!(!location.starts_with("/\\"), "{location}");
                    }
                }
                Decision::Script(script) => {
                    let name = String::from_utf8_lossy(&script.script_name).into_owned();
                    prop_assert!(name.ends_with(".php") && !name.contains("wp-config"), "{target} runs {name}");
                    prop_assert!(preset == Preset::Php || !name.contains("uploads"), "{target} runs {name}");
                    prop_assert!(fixture.root.join(name.trim_start_matches('/')).is_file(), "{target} runs {name}");
                }
                Decision::Origin => prop_assert!(false, "there is none"),
            }
            Ok(())
        }))?;
    }
}
