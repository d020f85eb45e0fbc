//! The choice of a page, on trees laid out as the plugins do.

use crate::site::fixture::Fixture;
use crate::site::settings::PageCache;
use crate::site::{Body, Preset};

const DESKTOP: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0",
);
const PHONE: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0) Mobile/15E148",
);
const TABLET: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 (Linux; Android 14; SM-X910) Safari/537.36",
);

const SUPER_CACHE: (&str, &str) = (
    "wp-content/wp-cache-config.php",
    "<?php\n$cache_enabled = true;\n$super_cache_enabled = true;\n$cache_max_time = 0;\n$wp_cache_slash_check = 1;\n",
);

/// What is there while a plugin is active: its drop-in, which names it, and its folder.
const ACTIVE: [(&str, &str, &str); 4] = [
    ("supercache", "// WP SUPER CACHE 1.2", "wp-super-cache"),
    (
        "cache-enabler",
        "* The drop-in for Cache Enabler.",
        "cache-enabler",
    ),
    (
        "page_enhanced",
        "* W3 Total Cache advanced cache",
        "w3-total-cache",
    ),
    (
        "wp-rocket",
        "define( 'WP_ROCKET_ADVANCED_CACHE', true );",
        "wp-rocket",
    ),
];

fn with(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::wordpress();
    for (folder, drop_in, plugin) in ACTIVE {
        let stored = format!("wp-content/cache/{folder}/");
        if files.iter().any(|(path, _)| path.starts_with(&stored)) {
            fixture.write("wp-content/advanced-cache.php", drop_in);
            fixture.write(&format!("wp-content/plugins/{plugin}/readme.txt"), "");
        }
    }
    for (path, content) in files {
        fixture.write(path, content);
    }
    fixture
}

/// The page that comes: its content, or `php`.
async fn page(fixture: &Fixture, method: &str, target: &str, fields: &[(&str, &str)]) -> String {
    page_by(fixture, method, target, false, fields).await
}

async fn page_by(
    fixture: &Fixture,
    method: &str,
    target: &str,
    https: bool,
    fields: &[(&str, &str)],
) -> String {
    let mut settings = fixture.settings(Preset::Wordpress);
    settings.page_cache = PageCache::Auto;
    let site = fixture.site(&settings);
    match site
        .page(method, target, "Example.com", https, fields)
        .await
    {
        None => "php".to_owned(),
        Some(answer) => {
            let head = String::from_utf8_lossy(&answer.head).into_owned();
            let coding = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Encoding: "))
                .unwrap_or("identity");
            let content = match &answer.body {
                Body::Memory(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{} bytes", other.length()),
            };
            format!("{} {coding} {content}", answer.status)
        }
    }
}

#[tokio::test]
async fn each_plugins_page_is_found_by_its_own_name() {
    for (settings, page_path, https) in [
        (
            SUPER_CACHE,
            "cache/supercache/example.com/about/index.html",
            false,
        ),
        (
            SUPER_CACHE,
            "cache/supercache/example.com/about/index-https.html",
            true,
        ),
        (
            (
                "wp-content/settings/cache-enabler/example.com.php",
                "<?php return array ( 'version' => '1.8.16',\n'use_trailing_slashes' => 1,\n'mobile_cache' => 0,\n);",
            ),
            "cache/cache-enabler/example.com/about/http-index.html",
            false,
        ),
        (
            (
                "wp-content/w3tc-config/master.php",
                "<?php exit; ?>{\"pgcache.enabled\":true,\"pgcache.engine\":\"file_generic\"}",
            ),
            "cache/page_enhanced/example.com/about/_index_slash_ssl.html",
            true,
        ),
        (
            (
                "wp-content/wp-rocket-config/example.com.php",
                "<?php\n$rocket_cache_mobile = '1';\n$rocket_cache_reject_cookies = 'wordpress_logged_in_.+';\n$rocket_permalink_structure = '/%postname%/';\n",
            ),
            "cache/wp-rocket/example.com/about/index-https.html",
            true,
        ),
    ] {
        let stored = format!("wp-content/{page_path}");
        let fixture = with(&[settings, (&stored, "<html>about")]);
        let fields = [DESKTOP];
        let found = page_by(&fixture, "GET", "/about/", https, &fields).await;
        assert_eq!(found, "200 identity <html>about", "{page_path}");
        let other = page_by(&fixture, "GET", "/about/", !https, &fields).await;
        assert_eq!(
            other, "php",
            "{page_path}: the other scheme has a page of its own"
        );
        let missing = page_by(&fixture, "GET", "/other/", https, &fields).await;
        assert_eq!(missing, "php");
    }
}

#[tokio::test]
async fn what_a_visitor_brings_leaves_the_page_to_php() {
    let fixture = with(&[
        SUPER_CACHE,
        (
            "wp-content/cache/supercache/example.com/index.html",
            "<html>home",
        ),
        (
            "wp-content/cache/supercache/example.com/about/index.html",
            "<html>about",
        ),
    ]);
    assert_eq!(
        page(&fixture, "GET", "/", &[DESKTOP]).await,
        "200 identity <html>home"
    );
    assert_eq!(
        page(&fixture, "HEAD", "/", &[DESKTOP]).await,
        "200 identity 0 bytes"
    );
    let test_cookie = ("Cookie", "wordpress_test_cookie=1; _ga=2");
    assert_eq!(
        page(&fixture, "GET", "/", &[DESKTOP, test_cookie]).await,
        "200 identity <html>home"
    );
    for fields in [
        ("Cookie", "wordpress_logged_in_0=a"),
        ("Cookie", "a=b; wp-postpass_0=x"),
        ("Cookie", "woocommerce_items_in_cart=1"),
        ("Cookie", "comment_author_0=x"),
        ("Authorization", "Basic x"),
        ("Accept", "application/json"),
        ("Accept", "*/*"),
        ("Cookie", "wordpress.logged_in_0=a"),
        ("Profile", "x"),
    ] {
        assert_eq!(
            page(&fixture, "GET", "/", &[DESKTOP, fields]).await,
            "php",
            "{fields:?}"
        );
    }
    for (method, target) in [
        ("POST", "/"),
        ("PUT", "/"),
        ("OPTIONS", "/"),
        ("GET", "/?s=a"),
        ("GET", "/?utm_source=a"),
        ("GET", "/about"),
        ("GET", "/About/"),
        ("GET", "/%61bout/"),
        ("GET", "/x/../about/"),
        ("GET", "/about//"),
        ("GET", "//about/"),
        ("GET", "/about/feed/"),
        ("GET", "/about/%2e%2e/about/"),
        ("GET", "/about%2f/"),
    ] {
        assert_eq!(
            page(&fixture, method, target, &[DESKTOP]).await,
            "php",
            "{method} {target}"
        );
    }
    fixture.write(".maintenance", "<?php $upgrading = 1;");
    fixture.hand.advance(std::time::Duration::from_secs(600));
    assert_eq!(page(&fixture, "GET", "/", &[DESKTOP]).await, "php");
}

#[tokio::test]
async fn a_phone_never_gets_a_page_that_is_not_for_it() {
    let rocket = |apart: &str| {
        format!(
            "<?php\n$rocket_cache_mobile = '1';\n$rocket_do_caching_mobile_files = '{apart}';\n\
             $rocket_cache_reject_cookies = 'wordpress_logged_in_.+';\n"
        )
    };
    for (apart, desktop, phone, tablet) in [
        ("0", "<html>desktop", "<html>desktop", "<html>desktop"),
        ("1", "<html>desktop", "<html>phone", "php"),
    ] {
        let fixture = with(&[
            (
                "wp-content/wp-rocket-config/example.com.php",
                &rocket(apart),
            ),
            (
                "wp-content/cache/wp-rocket/example.com/index.html",
                "<html>desktop",
            ),
            (
                "wp-content/cache/wp-rocket/example.com/index-mobile.html",
                "<html>phone",
            ),
        ]);
        for (device, expected) in [(DESKTOP, desktop), (PHONE, phone), (TABLET, tablet)] {
            let found = page(&fixture, "GET", "/", &[device]).await;
            let expected = match expected {
                "php" => "php".to_owned(),
                content => format!("200 identity {content}"),
            };
            assert_eq!(found, expected, "{apart} {device:?}");
        }
    }
}

#[tokio::test]
async fn the_coding_is_one_that_the_client_takes() {
    let fixture = with(&[
        SUPER_CACHE,
        (
            "wp-content/cache/supercache/example.com/index.html",
            "<html>home",
        ),
        (
            "wp-content/cache/supercache/example.com/index.html.gz",
            "zipped",
        ),
    ]);
    for (accepted, expected) in [
        ("gzip, br", "200 gzip zipped"),
        ("br", "200 identity <html>home"),
        ("gzip;q=0", "200 identity <html>home"),
        ("identity, gzip;q=0.5", "200 identity <html>home"),
        ("br, identity;q=0", "php"),
        ("gzip, identity;q=0", "200 gzip zipped"),
    ] {
        let fields = [DESKTOP, ("Accept-Encoding", accepted)];
        assert_eq!(
            page(&fixture, "GET", "/", &fields).await,
            expected,
            "{accepted}"
        );
    }
}

#[tokio::test]
async fn what_is_out_of_date_cut_or_no_page_is_left_to_php() {
    let stored = "wp-content/cache/supercache/example.com/index.html";
    let lifetime = |seconds: u64| {
        format!(
            "<?php\n$cache_enabled = true;\n$super_cache_enabled = true;\n$cache_max_time = {seconds};\n"
        )
    };
    let fixture = with(&[(SUPER_CACHE.0, &lifetime(1)), (stored, "<html>home")]);
    assert_eq!(
        page(&fixture, "GET", "/", &[DESKTOP]).await,
        "php",
        "years old"
    );
    for content in ["", "<?xml version='1.0'?><rss/>", " {\"a\": 1}"] {
        let fixture = with(&[SUPER_CACHE, (stored, content)]);
        assert_eq!(
            page(&fixture, "GET", "/", &[DESKTOP]).await,
            "php",
            "{content}"
        );
    }
    let fixture = with(&[
        (SUPER_CACHE.0, "<?php\n$cache_enabled = false;\n"),
        (stored, "<html>home"),
    ]);
    assert_eq!(
        page(&fixture, "GET", "/", &[DESKTOP]).await,
        "php",
        "switched off"
    );
    let fixture = with(&[(stored, "<html>home")]);
    assert_eq!(
        page(&fixture, "GET", "/", &[DESKTOP]).await,
        "php",
        "no settings"
    );
}

#[tokio::test]
async fn a_plugin_that_is_not_active_or_a_network_is_left_to_php() {
    let stored = "wp-content/cache/supercache/example.com/index.html";
    let files = [SUPER_CACHE, (stored, "<html>home")];
    let usual = "200 identity <html>home";
    assert_eq!(page(&with(&files), "GET", "/", &[DESKTOP]).await, usual);
    let other = with(&files);
    other.write("wp-content/advanced-cache.php", "W3 Total Cache");
    assert_eq!(
        page(&other, "GET", "/", &[DESKTOP]).await,
        "php",
        "another plugin"
    );
    let none = with(&files);
    std::fs::remove_file(none.root.join("wp-content/advanced-cache.php")).unwrap();
    assert_eq!(
        page(&none, "GET", "/", &[DESKTOP]).await,
        "php",
        "no drop-in"
    );
    let gone = with(&files);
    std::fs::remove_dir_all(gone.root.join("wp-content/plugins/wp-super-cache")).unwrap();
    assert_eq!(
        page(&gone, "GET", "/", &[DESKTOP]).await,
        "php",
        "no plugin"
    );
    let network = with(&files);
    network.write("wp-content/uploads/sites/2/a.jpg", "a");
    assert_eq!(
        page(&network, "GET", "/", &[DESKTOP]).await,
        "php",
        "a network"
    );
    let rocket = (
        "wp-content/wp-rocket-config/example.com.php",
        "<?php\n$rocket_cache_mobile = '1';\n$rocket_cache_reject_cookies = 'wordpress_logged_in_.+';\n\
         $rocket_cache_reject_ua = 'WhatsApp';\n$rocket_permalink_structure = '/%postname%/';\n",
    );
    let shop = "wp-content/cache/wp-rocket/example.com/shop/index.html";
    let files = [rocket, (shop, "<html>shop")];
    let fixture = with(&files);
    assert_eq!(
        page(&fixture, "GET", "/shop/", &[DESKTOP]).await,
        "200 identity <html>shop"
    );
    let agent = ("User-Agent", "WhatsApp/2 (X11; Linux)");
    assert_eq!(
        page(&fixture, "GET", "/shop/", &[agent]).await,
        "php",
        "a refused agent"
    );
    let within = with(&files);
    within.write("wp-content/wp-rocket-config/example.com.shop.php", "<?php");
    assert_eq!(
        page(&within, "GET", "/shop/", &[DESKTOP]).await,
        "php",
        "settings of its own"
    );
}

#[tokio::test]
async fn fields_by_path_are_those_of_the_path_asked_for() {
    let stored = "wp-content/cache/supercache/example.com/about/index.html";
    let fixture = with(&[SUPER_CACHE, (stored, "<html>about")]);
    let mut settings = fixture.settings(Preset::Wordpress);
    settings.page_cache = PageCache::Auto;
    settings.headers = vec![crate::site::settings::HeaderRule {
        pattern: "/about/".into(),
        set: vec![("X-Frame-Options".into(), "DENY".into())],
    }];
    let site = fixture.site(&settings);
    for (target, has_field) in [("/about/", true), ("/About/", false), ("/about/", true)] {
        let answer = site
            .page("GET", target, "example.com", false, &[DESKTOP])
            .await;
        let found = answer.is_some_and(|answer| {
            String::from_utf8_lossy(&answer.head).contains("X-Frame-Options: DENY")
        });
        assert_eq!(found, has_field, "{target}");
    }
}

#[tokio::test]
async fn hosts_that_are_no_names_find_nothing() {
    let fixture = with(&[
        SUPER_CACHE,
        ("wp-content/cache/index.html", "<html>not a page"),
    ]);
    let mut settings = fixture.settings(Preset::Wordpress);
    settings.page_cache = PageCache::Auto;
    let site = fixture.site(&settings);
    for host in ["..", ".", "", "...", "[::1]", "a:b"] {
        assert!(
            site.page("GET", "/", host, false, &[DESKTOP])
                .await
                .is_none(),
            "{host}"
        );
    }
}
