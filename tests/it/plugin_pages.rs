//! Pages that a cache plugin has written are answered without PHP, for as long as the plugin leaves them there.

use std::fs;

use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::mode::{Mode, in_each_mode};
use crate::support::nostat::{Config, Nostat};

const STORED: &str = "wp-content/cache/supercache/example.com/about/index.html";
const SETTINGS: &[u8] =
    b"<?php\n$cache_enabled = true;\n$super_cache_enabled = true;\n$wp_cache_slash_check = 1;\n";
const DESKTOP: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0",
);

/// A page that WP Super Cache has stored, and PHP's own.
fn with_a_stored_page() -> (DocumentRoot, FakeResponder) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/wp-cache-config.php", SETTINGS);
    root.write("wp-content/advanced-cache.php", b"<?php // WP SUPER CACHE");
    root.folder("wp-content/plugins/wp-super-cache");
    root.write(STORED, b"<html>stored");
    let made = Script::answers("Content-Type: text/html\r\n\r\n<html>made");
    responder.on("/about/", made);
    (root, responder)
}

fn started(mode: Mode) -> (DocumentRoot, FakeResponder, Nostat) {
    let (root, responder) = with_a_stored_page();
    let config = Config::wordpress(&root, &responder).site("page_cache", "auto");
    let server = Nostat::start(&mode.config(config));
    // Settings that were written a moment ago are not trusted yet.
    eventually("the stored page", || {
        (body(&server, &[DESKTOP]) == "<html>stored").then_some(())
    });
    responder.forget();
    (root, responder, server)
}

fn body(server: &Nostat, fields: &[(&str, &str)]) -> String {
    let response = server.get_with("/about/", fields);
    assert_eq!(response.status, 200);
    String::from_utf8(response.body).unwrap()
}

#[test]
fn a_stored_page_needs_no_php_and_is_revalidated() {
    in_each_mode(|mode| {
        let (_root, responder, server) = started(mode);
        let stored = server.get_with("/about/", &[DESKTOP]);
        stored.assert(200, b"<html>stored");
        assert_eq!(
            stored.field("content-type"),
            Some("text/html; charset=UTF-8")
        );
        assert_eq!(stored.field("vary"), Some("Accept-Encoding, Cookie"));
        // Its tag is weak while the file is new.
        let settled = eventually("a settled page", || {
            let page = server.get_with("/about/", &[DESKTOP]);
            let tag = page.field("etag")?.to_owned();
            (!tag.starts_with("W/")).then_some(tag)
        });
        let again = server.get_with("/about/", &[DESKTOP, ("If-None-Match", &settled)]);
        assert_eq!(again.status, 304);
        responder.assert_not_called();
        assert_eq!(
            body(&server, &[DESKTOP, ("Cookie", "wordpress_logged_in_0=me")]),
            "<html>made"
        );
        assert_eq!(
            body(
                &server,
                &[DESKTOP, ("Cookie", "woocommerce_items_in_cart=1")]
            ),
            "<html>made"
        );
    });
}

#[test]
fn what_the_plugin_removes_or_writes_anew_is_seen() {
    in_each_mode(|mode| {
        let (root, _responder, server) = started(mode);
        assert_eq!(body(&server, &[DESKTOP]), "<html>stored");
        root.replace(STORED, b"<html>stored anew");
        mode.soon("the new page", || {
            body(&server, &[DESKTOP]) == "<html>stored anew"
        });
        // WP Super Cache's way of putting a page aside.
        let aside = root.path().join(format!("{STORED}.needs-rebuild"));
        fs::rename(root.path().join(STORED), aside).unwrap();
        mode.soon("no page", || body(&server, &[DESKTOP]) == "<html>made");
        root.write(STORED, b"<html>once more");
        mode.soon("the page is back", || {
            body(&server, &[DESKTOP]) == "<html>once more"
        });
        fs::remove_dir_all(root.path().join("wp-content/cache/supercache")).unwrap();
        mode.soon("all are gone", || body(&server, &[DESKTOP]) == "<html>made");
    });
}

#[test]
fn a_change_of_the_plugins_settings_counts() {
    in_each_mode(|mode| {
        let (root, _responder, server) = started(mode);
        assert_eq!(body(&server, &[DESKTOP]), "<html>stored");
        root.replace(
            "wp-content/wp-cache-config.php",
            b"<?php\n$cache_enabled = false;\n$super_cache_enabled = true;\n",
        );
        mode.soon("the plugin is off", || {
            body(&server, &[DESKTOP]) == "<html>made"
        });
    });
}

#[test]
fn pages_are_left_alone_unless_asked_for() {
    let (root, responder) = with_a_stored_page();
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    assert_eq!(body(&server, &[DESKTOP]), "<html>made");
}
