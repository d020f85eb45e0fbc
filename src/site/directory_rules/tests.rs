#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use super::LONGEST;
use crate::descriptor_cache::counters::CallsSnapshot;
use crate::site::fixture::{Fixture, run};
use crate::site::settings::Preset;

#[test]
fn rules_hold_for_all_folders_below_until_an_inner_one_says_otherwise() {
    run(async {
        let fixture = Fixture::empty();
        fixture.write("a/.htaccess", "Require all denied");
        fixture.write("a/x.txt", "x");
        fixture.write("a/b/c/y.txt", "y");
        fixture.write("a/b/open/.htaccess", "Require all granted");
        fixture.write("a/b/open/d/z.txt", "z");
        fixture.write("other/x.txt", "other");
        let site = fixture.of(Preset::Static);
        for _ in 0..2 {
            for (target, expected) in [
                ("/a/x.txt", "403"),
                ("/a/b/c/y.txt", "403"),
                ("/a/b/open/d/z.txt", "200 z"),
                ("/other/x.txt", "200 other"),
            ] {
                assert_eq!(site.get(target).await, expected, "{target}");
            }
        }
    });
}

#[test]
fn the_roots_rules_hold_for_pages_too() {
    run(async {
        let fixture = Fixture::wordpress();
        fixture.write(".htaccess", "<Files xmlrpc.php>\nDeny from all\n</Files>");
        let site = fixture.of(Preset::Wordpress);
        assert_eq!(site.get("/xmlrpc.php").await, "403");
        assert_eq!(site.get("/2024/hello/").await, "php /index.php");
        fixture.write(".htaccess", "Deny from all");
        let site = fixture.of(Preset::Wordpress);
        fixture.hand.advance(Duration::from_secs(120));
        assert_eq!(site.get("/2024/hello/").await, "403");
    });
}

#[test]
fn changes_count_soon() {
    run(async {
        let fixture = Fixture::empty();
        fixture.write("a/b/x.txt", "x");
        let site = fixture.of(Preset::Static);
        assert_eq!(site.get("/a/b/x.txt").await, "200 x");
        fixture.write("a/.htaccess", "Deny from all");
        fixture.hand.advance(Duration::from_secs(5));
        assert_eq!(site.get("/a/b/x.txt").await, "403");
        std::fs::remove_file(fixture.root.join("a/.htaccess")).unwrap();
        fixture.hand.advance(Duration::from_secs(60));
        assert_eq!(site.get("/a/b/x.txt").await, "200 x");
    });
}

#[test]
fn a_clock_set_back_makes_nothing_last() {
    run(async {
        let fixture = Fixture::empty();
        fixture.write("a/x.txt", "x");
        let site = fixture.of(Preset::Static);
        assert_eq!(site.get("/a/x.txt").await, "200 x");
        fixture.write("a/.htaccess", "Deny from all");
        fixture.hand.advance(Duration::from_secs(5));
        let mut earlier = fixture.clock.unix();
        earlier.seconds -= 3600;
        fixture.hand.set_unix(earlier);
        assert_eq!(site.get("/a/x.txt").await, "403");
    });
}

#[test]
fn what_cannot_be_read_denies() {
    run(async {
        let fixture = Fixture::empty();
        fixture.write("long/.htaccess", &"#".repeat(LONGEST + 1));
        fixture.write("long/x.txt", "x");
        fixture.write("longest/.htaccess", &"#".repeat(LONGEST));
        fixture.write("longest/x.txt", "x");
        fixture.write("folder/.htaccess/y.txt", "y");
        fixture.write("folder/x.txt", "x");
        fixture.write("link/x.txt", "x");
        std::os::unix::fs::symlink("/etc/passwd", fixture.root.join("link/.htaccess")).unwrap();
        let site = fixture.of(Preset::Static);
        for (target, expected) in [
            ("/long/x.txt", "403"),
            ("/longest/x.txt", "200 x"),
            ("/folder/x.txt", "403"),
            ("/link/x.txt", "403"),
        ] {
            assert_eq!(site.get(target).await, expected, "{target}");
        }
    });
}

#[test]
fn a_deny_counts_for_the_request_after_it_where_it_is_watched() {
    run(async {
        let fixture = Fixture::watched();
        fixture.write("a/b/x.txt", "x");
        let site = fixture.of(Preset::Static);
        for _ in 0..3 {
            assert_eq!(site.get("/a/b/x.txt").await, "200 x");
            fixture.write("a/.htaccess", "Deny from all");
            fixture.cache.take_in_events().await;
            assert_eq!(site.get("/a/b/x.txt").await, "403");
            fixture.write("a/b/.htaccess", "Allow from all");
            fixture.cache.take_in_events().await;
            assert_eq!(site.get("/a/b/x.txt").await, "200 x");
            std::fs::remove_file(fixture.root.join("a/b/.htaccess")).unwrap();
            fixture.cache.take_in_events().await;
            assert_eq!(site.get("/a/b/x.txt").await, "403");
            std::fs::remove_file(fixture.root.join("a/.htaccess")).unwrap();
            fixture.cache.take_in_events().await;
        }
    });
}

#[test]
fn steady_load_makes_no_system_call_while_all_is_watched() {
    run(async {
        let fixture = Fixture::watched();
        fixture.write("index.php", "<?php");
        fixture.write("wp-content/themes/t/style.css", "css");
        fixture.write("wp-content/uploads/2026/11/a.jpg", "jpg");
        fixture.write("wp-content/.htaccess", "# nothing");
        let site = fixture.of(Preset::Wordpress);
        let load = [
            ("/wp-content/themes/t/style.css", "200 css"),
            ("/wp-content/uploads/2026/11/a.jpg", "200 jpg"),
            ("/wp-content/uploads/none.jpg", "404"),
            ("/2026/11/hello-world/", "php /index.php"),
            ("/wp-content/none/", "php /index.php"),
            ("/", "php /index.php"),
        ];
        let serve = async || {
            for (target, expected) in load {
                assert_eq!(site.get(target).await, expected, "{target}");
            }
        };
        // What is used twice is held from then on, the access rules, too.
        for _ in 0..3 {
            serve().await;
            fixture.hand.advance(Duration::from_secs(5));
        }
        let calls = || CallsSnapshot {
            closes: 0,
            ..fixture.cache.counters().snapshot().calls
        };
        let before = calls();
        for _ in 0..40 {
            fixture.hand.advance(Duration::from_secs(5));
            serve().await;
        }
        assert_eq!(calls(), before, "200 s of load");
    });
}

#[test]
fn watches_of_folders_that_nobody_asks_for_are_given_back() {
    run(async {
        let fixture = Fixture::watched();
        for folder in 0..50 {
            fixture.write(&format!("a/{folder}/x.txt"), "x");
        }
        let site = fixture.of(Preset::Static);
        let idle = fixture.cache.usage().watches;
        let ask_for_all = async || {
            for folder in 0..50 {
                assert_eq!(site.get(&format!("/a/{folder}/x.txt")).await, "200 x");
            }
        };
        ask_for_all().await;
        assert!(fixture.cache.usage().watches >= idle + 50);
        let idle_for = |seconds| {
            for _ in 0..seconds {
                fixture.hand.advance(Duration::from_secs(1));
                site.site.forget_unused(fixture.clock.unix());
            }
            fixture.cache.tick();
        };
        idle_for(60 * 11);
        assert!(fixture.cache.usage().watches <= idle + 2);
        ask_for_all().await;
    });
}
