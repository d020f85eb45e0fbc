//! The page cache: who gets a kept page and who does not, how long, and what is forgotten.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::support::client::Response;
use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::fake_origin::{FakeOrigin, OriginRequest};
use crate::support::fake_responder::{FakeResponder, Gate, Script};
use crate::support::nostat::{Config, Nostat};

const HTML: &str = "Content-Type: text/html; charset=UTF-8\r\n";

struct Shop {
    _root: DocumentRoot,
    responder: FakeResponder,
    server: Nostat,
}

/// A WordPress with a page cache of these settings.
fn shop_with(page_cache: &str) -> Shop {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-comments-post.php", b"<?php");
    let config = Config::wordpress(&root, &responder).site("page_cache", page_cache);
    Shop {
        server: Nostat::start(&config),
        _root: root,
        responder,
    }
}

fn shop() -> Shop {
    shop_with("memory")
}

impl Shop {
    /// What PHP says to this REQUEST_URI from now on.
    fn page(&self, uri: &str, fields: &str, body: &str) {
        let text = format!("{HTML}{fields}\r\n{body}");
        self.responder.on(uri, Script::answers(text));
    }

    /// A page that is kept.
    fn kept(&self, uri: &str, body: &str) {
        self.page(uri, "", body);
        self.body(uri, &[], body);
        self.page(uri, "", "made anew");
        self.body(uri, &[], body);
        self.responder.forget();
    }

    #[track_caller]
    fn body(&self, uri: &str, fields: &[(&str, &str)], expected: &str) -> Response {
        let response = self.server.get_with(uri, fields);
        assert_eq!(
            String::from_utf8_lossy(&response.body),
            expected,
            "{uri} {fields:?}"
        );
        response
    }

    #[track_caller]
    fn purge(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        self.server.send(method, target, fields, b"")
    }
}

#[track_caller]
fn says(response: &Response, cache_status: &str) {
    assert_eq!(response.field("cache-status"), Some(cache_status));
}

#[test]
fn a_page_is_made_once_and_sent_to_everybody() {
    let shop = shop();
    shop.page("/about/", "X-Pingback: x\r\n", "<html>first");
    let first = shop.body("/about/", &[], "<html>first");
    says(&first, "Nostat; fwd=miss; stored");
    shop.page("/about/", "", "<html>second");
    let second = shop.body("/about/", &[], "<html>first");
    says(&second, "Nostat; hit");
    assert_eq!(second.status, 200);
    assert_eq!(
        second.field("content-type"),
        Some("text/html; charset=UTF-8")
    );
    assert_eq!(second.field("x-pingback"), Some("x"));
    assert_eq!(second.field("vary"), Some("Accept-Encoding, Cookie"));
    assert_eq!(
        second.field("cache-control"),
        Some("public, max-age=0, must-revalidate")
    );
    assert!(
        second
            .field("age")
            .is_some_and(|age| age.parse::<u64>().is_ok())
    );
    assert_eq!(second.field("content-length"), Some("11"));
    let head = shop.server.send("HEAD", "/about/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.field("content-length"), Some("11"));
    assert_eq!(shop.responder.requests().len(), 1);
}

#[test]
fn browsers_are_told_that_nothing_changed() {
    let shop = shop();
    shop.kept("/about/", "<html>kept");
    let tag = shop.body("/about/", &[], "<html>kept").etag().to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    let again = shop.server.get_with("/about/", &[("If-None-Match", &tag)]);
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.field("etag"), Some(&*tag));
    assert_eq!(again.field("content-length"), None);
    let other = shop
        .server
        .get_with("/about/", &[("If-None-Match", "\"other\"")]);
    assert_eq!(other.status, 200);
    let failed = shop
        .server
        .get_with("/about/", &[("If-Match", "\"other\"")]);
    assert_eq!(failed.status, 412);
    let part = shop.server.get_with("/about/", &[("Range", "bytes=0-3")]);
    part.assert(200, b"<html>kept");
    shop.responder.assert_not_called();
}

#[test]
fn who_is_known_gets_a_page_of_php() {
    let shop = shop();
    shop.kept("/about/", "<html>kept");
    for field in [
        ("Cookie", "wordpress_logged_in_0=me"),
        ("Cookie", "a=b; wp-postpass_0=x"),
        ("Cookie", "comment_author_0=x"),
        ("Cookie", "woocommerce_items_in_cart=1"),
        ("Cookie", "_ga=1; wp_woocommerce_session_0=1"),
        ("Cookie", "PHPSESSID=1"),
        ("Cookie", "currency=EUR"),
        ("Authorization", "Basic eDp5"),
        ("X-Requested-With", "XMLHttpRequest"),
        ("Accept", "application/json"),
        ("Accept", "application/activity+json, text/html"),
        ("Accept", "image/png"),
        ("Cache-Control", "no-store"),
    ] {
        let answer = shop.body("/about/", &[field], "made anew");
        assert!(
            answer
                .field("cache-status")
                .is_some_and(|status| status.starts_with("Nostat; fwd=bypass")),
            "{field:?}"
        );
        // PHP sees what the visitor has sent.
        let name = format!("HTTP_{}", field.0.to_ascii_uppercase().replace('-', "_"));
        assert_eq!(shop.responder.last_request().param(&name), field.1);
        shop.body("/about/", &[], "<html>kept");
    }
    for field in [
        (
            "Cookie",
            "_ga=GA1.2; _fbp=x; wordpress_test_cookie=WP%20Cookie%20check",
        ),
        ("Accept", "*/*"),
        (
            "Accept",
            "text/html,application/xhtml+xml,image/avif,*/*;q=0.8",
        ),
        ("Accept-Language", "de"),
        ("Referer", "http://example.org/"),
        ("Cache-Control", "no-cache"),
    ] {
        shop.body("/about/", &[field], "<html>kept");
    }
}

#[test]
fn only_pages_are_kept() {
    let shop = shop();
    for (method, uri) in [
        ("POST", "/about/"),
        ("GET", "/about/?s=x"),
        ("GET", "/about/?add-to-cart=7"),
        ("GET", "/about/?preview=true&_thumbnail_id=-1"),
        ("GET", "/wp-json/wp/v2/posts"),
        ("GET", "/cart/"),
        ("GET", "/checkout/order-received/7/"),
        ("GET", "/my-account/"),
        ("GET", "/wp-login.php"),
        ("GET", "/about/?utm_source=x&s=y"),
        ("GET", "/about%2Fx/"),
    ] {
        shop.page(uri, "", "one");
        shop.server.send(method, uri, &[], b"");
        shop.page(uri, "", "two");
        let answer = shop.server.send(method, uri, &[], b"");
        assert_eq!(
            String::from_utf8_lossy(&answer.body),
            "two",
            "{method} {uri}"
        );
    }
}

#[test]
fn answers_that_say_so_are_not_kept() {
    let shop = shop();
    for (uri, fields) in [
        ("/private/", "Cache-Control: private\r\n"),
        (
            "/no-store/",
            "Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private\r\n",
        ),
        ("/no-cache/", "Cache-Control: no-cache\r\n"),
        ("/zero/", "Cache-Control: max-age=0\r\n"),
        ("/expired/", "Expires: Wed, 11 Jan 1984 05:00:00 GMT\r\n"),
        ("/pragma/", "Pragma: no-cache\r\n"),
        ("/cookie/", "Set-Cookie: a=b\r\n"),
        ("/vary/", "Vary: Accept-Language\r\n"),
        ("/any/", "Vary: *\r\n"),
        ("/accel/", "X-Accel-Expires: 0\r\n"),
        ("/coded/", "Content-Encoding: gzip\r\n"),
        ("/found/", "Status: 302 Found\r\nLocation: /x/\r\n"),
        ("/missing/", "Status: 404 Not Found\r\n"),
        ("/failed/", "Status: 500 Internal Server Error\r\n"),
    ] {
        shop.page(uri, fields, "one");
        let first = shop.body(uri, &[("Accept-Language", "de")], "one");
        assert!(
            first
                .field("cache-status")
                .is_some_and(|status| status.contains("detail=")),
            "{uri}: {:?}",
            first.field("cache-status")
        );
        shop.page(uri, fields, "two");
        shop.body(uri, &[("Accept-Language", "de")], "two");
    }
    // What is known not to be kept is asked for as the visitor has asked.
    shop.body("/vary/", &[("Accept-Language", "fr")], "two");
    assert_eq!(
        shop.responder.last_request().param("HTTP_ACCEPT_LANGUAGE"),
        "fr"
    );
}

#[test]
fn php_sees_nothing_of_the_one_visitor_whose_request_fills_a_page() {
    let shop = shop_with("{store: memory, query: [page], vary: [Accept-Language]}");
    shop.page("/about/?page=2", "Vary: Accept-Language\r\n", "<html>zwei");
    let german = [
        ("Host", "Example.COM:80"),
        ("Cookie", "_ga=1; _fbp=2"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) secret"),
        ("Referer", "http://example.org/secret"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Original-URL", "/secret"),
        ("Accept-Encoding", "deflate"),
        ("If-None-Match", "\"x\""),
        ("Range", "bytes=0-1"),
        ("Accept-Language", "de"),
    ];
    let answer = shop.server.get_with(
        "/about/?utm_source=secret&page=2&fbclid=secret",
        &german[..4]
            .iter()
            .chain(&german[5..])
            .copied()
            .collect::<Vec<_>>(),
    );
    answer.assert(200, b"<html>zwei");
    let seen = shop.responder.only_request();
    assert_eq!(seen.param("REQUEST_URI"), "/about/?page=2");
    assert_eq!(seen.param("QUERY_STRING"), "page=2");
    assert_eq!(seen.param("HTTP_HOST"), "example.com");
    assert_eq!(seen.param("HTTP_ACCEPT_LANGUAGE"), "de");
    for name in [
        "COOKIE",
        "REFERER",
        "X_ORIGINAL_URL",
        "ACCEPT_ENCODING",
        "IF_NONE_MATCH",
        "RANGE",
    ] {
        assert!(!seen.has(&format!("HTTP_{name}")), "{name}");
    }
    assert!(!seen.param("HTTP_USER_AGENT").contains("secret"));
    // Another language is another page; one that another host is forced upon is none.
    shop.page("/about/?page=2", "Vary: Accept-Language\r\n", "<html>deux");
    shop.body("/about/?page=2", &[("Accept-Language", "fr")], "<html>deux");
    shop.body("/about/?page=2", &[("Accept-Language", "de")], "<html>zwei");
    let forced = shop.body("/about/?page=2", &german[4..5], "<html>deux");
    says(&forced, "Nostat; fwd=bypass; detail=field");
}

#[test]
fn phones_have_pages_of_their_own() {
    let shop = shop();
    shop.kept("/about/", "<html>desktop");
    let phone = (
        "User-Agent",
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile Safari/537.36",
    );
    shop.page("/about/", "", "<html>phone");
    shop.body("/about/", &[phone], "<html>phone");
    assert!(
        shop.responder
            .only_request()
            .param("HTTP_USER_AGENT")
            .contains("Mobile")
    );
    shop.page("/about/", "", "made anew");
    shop.body("/about/", &[phone], "<html>phone");
    shop.body("/about/", &[], "<html>desktop");
}

#[test]
fn many_who_wait_for_one_page_cost_one_run() {
    let shop = Arc::new(shop());
    let gate = Gate::default();
    let text = format!("{HTML}\r\n<html>made once");
    shop.responder
        .on("/sale/", Script::answers_after(&gate, text));
    let done = Arc::new(AtomicUsize::new(0));
    let visitors: Vec<_> = (0..20)
        .map(|_| {
            let (shop, done) = (shop.clone(), done.clone());
            thread::spawn(move || {
                shop.body("/sale/", &[], "<html>made once");
                done.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    gate.wait_until_reached();
    eventually("all are connected", || {
        (shop.server.established() >= 20).then_some(())
    });
    assert_eq!(done.load(Ordering::SeqCst), 0);
    gate.open();
    visitors
        .into_iter()
        .for_each(|visitor| visitor.join().unwrap());
    assert_eq!(shop.responder.requests().len(), 1);
}

#[test]
fn an_old_page_is_sent_while_a_new_one_is_fetched() {
    let shop = shop_with("{store: memory, valid: 1s, stale_while_revalidate: 1h}");
    shop.kept("/about/", "<html>old");
    let gate = Gate::default();
    let text = format!("{HTML}\r\n<html>new");
    shop.responder
        .on("/about/", Script::answers_after(&gate, text));
    // PHP is asked, and nobody waits for it.
    eventually("PHP is asked", || {
        shop.body("/about/", &[], "<html>old");
        (shop.responder.running() > 0).then_some(())
    });
    for _ in 0..20 {
        shop.body("/about/", &[], "<html>old");
    }
    assert_eq!(shop.responder.requests().len(), 1);
    assert!(!shop.responder.last_request().has("HTTP_COOKIE"));
    gate.open();
    eventually("the new page", || {
        (shop.server.get("/about/").body == b"<html>new").then_some(())
    });
}

#[test]
fn a_stop_waits_for_a_page_that_is_fetched_anew() {
    let shop = shop_with("{store: memory, valid: 1s, stale_while_revalidate: 1h}");
    shop.kept("/about/", "<html>old");
    let gate = Gate::default();
    let text = format!("{HTML}\r\n<html>new");
    shop.responder
        .on("/about/", Script::answers_after(&gate, text));
    eventually("PHP is asked", || {
        shop.body("/about/", &[], "<html>old");
        (shop.responder.running() > 0).then_some(())
    });
    let mut server = shop.server;
    server.signal(Signal::TERM);
    server.wait_for_log(0, "waiting for pages that are fetched anew");
    gate.open();
    assert!(server.wait().success());
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    let asked = shop.responder.last_request();
    assert!(!asked.closed_early(), "the script was cut off");
}

#[test]
fn an_old_page_is_sent_when_php_fails_but_not_when_it_is_gone() {
    let shop = shop_with("{store: memory, valid: 1s, stale_while_revalidate: 0s}");
    shop.kept("/about/", "<html>old");
    for failure in [
        Script::closes_after(""),
        Script::answers(format!("Status: 503\r\n{HTML}\r\nbusy")),
    ] {
        shop.responder.on("/about/", failure);
        let answer = eventually("PHP fails", || {
            let answer = shop.body("/about/", &[], "<html>old");
            (!shop.responder.requests().is_empty()).then_some(answer)
        });
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("warning"), None);
        shop.responder.forget();
    }
    shop.page("/about/", "Status: 404\r\n", "gone");
    let gone = shop.server.get("/about/");
    gone.assert(404, b"gone");
}

#[test]
fn a_page_that_was_cut_is_not_kept() {
    let shop = shop();
    let cut = format!("{HTML}Content-Length: 100\r\n\r\n<html>half");
    shop.responder.on("/about/", Script::closes_after(cut));
    let mut connection = shop.server.connect();
    connection.send(b"GET /about/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let cut = connection.try_read("GET");
    assert!(cut.is_err() || cut.is_ok_and(|answer| answer.status == 502));
    shop.page("/about/", "", "<html>whole");
    shop.body("/about/", &[], "<html>whole");
}

#[test]
fn purges_as_plugins_send_them() {
    let shop = shop();
    let by = |method: &str, target: &str, fields: &[(&str, &str)], gone: &[&str], stay: &[&str]| {
        let all: Vec<&str> = gone.iter().chain(stay).copied().collect();
        for uri in &all {
            shop.kept(uri, "kept");
        }
        let purged = shop.purge(method, target, fields);
        assert_eq!(purged.status, 200, "{method} {target}");
        for uri in gone {
            shop.body(uri, &[], "made anew");
        }
        for uri in stay {
            shop.body(uri, &[], "kept");
        }
        shop.purge("PURGE", "/.*", &[]);
    };
    by("PURGE", "/a/", &[], &["/a/"], &["/", "/a/b/", "/ab/"]);
    by(
        "PURGE",
        "/a/",
        &[("X-Purge-Method", "default")],
        &["/a/"],
        &["/a/b/"],
    );
    by(
        "PURGE",
        "/caf%c3%a9/",
        &[],
        &["/caf%C3%A9/", "/caf%c3%a9/"],
        &["/cafe/"],
    );
    by(
        "PURGE",
        "/a/.*",
        &[("X-Purge-Method", "regex")],
        &["/a/", "/a/b/"],
        &["/b/"],
    );
    by(
        "PURGE",
        "/.*",
        &[("X-Purge-Method", "regex")],
        &["/a/", "/", "/b/"],
        &[],
    );
    by("PURGE", "/.*", &[], &["/a/", "/"], &[]);
    by("PURGE", "/purgeall", &[], &["/a/", "/"], &[]);
    by("GET", "/purge/a/", &[], &["/a/"], &["/", "/a/b/"]);
    by("GET", "/purge/", &[], &["/"], &["/a/"]);
    // Another host's pages stay, and what is not there is told to who asks that way.
    by("PURGE", "/a/", &[("Host", "example.org")], &[], &["/a/"]);
    assert_eq!(shop.purge("GET", "/purge/a/", &[]).status, 404);
}

#[test]
fn purges_by_tag() {
    let shop = shop();
    for (uri, fields) in [
        ("/a/", "Cache-Tag: post-1, front\r\n"),
        ("/b/", "Surrogate-Key: post-2 front\r\n"),
        ("/c/", "xkey: post-3\r\n"),
    ] {
        shop.page(uri, fields, "kept");
        shop.body(uri, &[], "kept");
        shop.page(uri, fields, "made anew");
    }
    assert_eq!(
        shop.purge("PURGE", "/", &[("Surrogate-Key", "post-2 post-9")])
            .body,
        b"1 purged\n"
    );
    shop.body("/a/", &[], "kept");
    shop.body("/b/", &[], "made anew");
    assert_eq!(
        shop.purge("PURGE", "/", &[("xkey-purge", "front post-3")])
            .body,
        b"3 purged\n"
    );
    shop.body("/a/", &[], "made anew");
    shop.body("/c/", &[], "made anew");
}

#[test]
fn who_may_not_purge_changes_nothing() {
    let shop = shop();
    shop.kept("/a/", "kept");
    for field in [
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-For", "127.0.0.1, 192.0.2.1"),
    ] {
        assert_eq!(shop.purge("PURGE", "/a/", &[field]).status, 403);
        // This may be a page's name, and is PHP's to answer.
        assert_eq!(
            shop.purge("GET", "/purge/a/", &[field]).body,
            b"php GET /purge/a/ 0"
        );
    }
    shop.body("/a/", &[], "kept");

    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "0123456789abcdef0123\n").unwrap();
    let path = tokens.path().display();
    let shop = shop_with(&format!(
        "{{store: memory, purge: {{from: [192.0.2.0/24], token_file: \"{path}\"}}}}"
    ));
    shop.kept("/a/", "kept");
    for fields in [
        &[][..],
        &[("X-Purge-Token", "0123456789abcdef012")],
        &[("Authorization", "Bearer 0123456789abcdef0124")],
    ] {
        assert_eq!(shop.purge("PURGE", "/a/", fields).status, 403, "{fields:?}");
        shop.body("/a/", &[], "kept");
    }
    let by_address = shop.purge("PURGE", "/b/", &[("X-Forwarded-For", "192.0.2.1")]);
    assert_eq!(by_address.status, 200);
    let by_token = shop.purge(
        "PURGE",
        "/a/",
        &[("Authorization", "Bearer 0123456789abcdef0123")],
    );
    assert_eq!(by_token.body, b"1 purged\n");
    shop.body("/a/", &[], "made anew");
}

#[test]
fn what_was_being_made_when_it_was_purged_is_not_kept() {
    let shop = Arc::new(shop());
    let gate = Gate::default();
    let text = format!("{HTML}\r\n<html>before");
    shop.responder
        .on("/sale/", Script::answers_after(&gate, text));
    let early = {
        let shop = shop.clone();
        thread::spawn(move || shop.body("/sale/", &[], "<html>before"))
    };
    gate.wait_until_reached();
    assert_eq!(shop.purge("PURGE", "/sale/", &[]).status, 200);
    // Who comes after the purge does not wait for what was begun before.
    shop.page("/sale/", "", "<html>after");
    shop.body("/sale/", &[], "<html>after");
    gate.open();
    early.join().unwrap();
    shop.page("/sale/", "", "made anew");
    shop.body("/sale/", &[], "<html>after");
}

#[test]
fn a_comment_is_seen_where_its_sender_is_led_to() {
    let shop = shop();
    shop.kept("/post/", "kept");
    shop.kept("/other/", "kept");
    shop.responder.on(
        "/wp-comments-post.php",
        Script::answers("Status: 302\r\nLocation: http://Example.com:8443/post/#comment-7\r\n\r\n"),
    );
    let answer = shop
        .server
        .send("POST", "/wp-comments-post.php", &[], b"comment=x");
    assert_eq!(answer.status, 302);
    shop.body("/post/", &[], "made anew");
    shop.body("/other/", &[], "kept");
    // A page that is posted to is sent once more, then made anew.
    shop.server.send("POST", "/other/", &[], b"add-to-cart=7");
    eventually("the page is made anew", || {
        (shop.server.get("/other/").body == b"made anew").then_some(())
    });
}

#[test]
fn kept_pages_are_sent_compressed() {
    let shop = shop();
    let long = format!("<html>{}", "all the same ".repeat(500));
    shop.kept("/long/", &long);
    for (asked, coding) in [("gzip, deflate", "gzip"), ("gzip, deflate, br", "br")] {
        let answer = eventually("a compressed page", || {
            let answer = shop
                .server
                .get_with("/long/", &[("Accept-Encoding", asked)]);
            (answer.field("content-encoding") == Some(coding)).then_some(answer)
        });
        assert!(answer.body.len() < 500);
        assert!(
            answer.etag().ends_with(&format!("-{coding}\"")),
            "{}",
            answer.etag()
        );
        if coding == "gzip" {
            let mut text = String::new();
            flate2::read::GzDecoder::new(&answer.body[..])
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, long);
        }
        let tag = answer.etag().to_owned();
        let again = [("Accept-Encoding", asked), ("If-None-Match", &*tag)];
        assert_eq!(shop.server.get_with("/long/", &again).status, 304);
        // The same tag does not stand for the plain form.
        assert_eq!(shop.server.get_with("/long/", &again[1..]).status, 200);
    }
    shop.body("/long/", &[("Accept-Encoding", "br;q=0, gzip;q=0")], &long);
    shop.body("/long/", &[], &long);
}

#[test]
fn pages_on_disk_are_there_after_a_restart_unless_they_were_purged() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let pages = tempfile::tempdir().unwrap();
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "{store: disk, valid: 1h}")
        .pages_in(pages.path());
    let shop = |server| Shop {
        _root: DocumentRoot::empty(),
        responder: FakeResponder::start(),
        server,
    };
    let say = |body: &str| {
        for uri in ["/a/", "/b/", "/c/"] {
            responder.on(
                uri,
                Script::answers(format!("{HTML}Cache-Tag: c{uri}\r\n\r\n{body}")),
            );
        }
    };
    // By https, as the port that one listens on is another one each time.
    let https = [("X-Forwarded-Proto", "https")];
    say("kept");
    let first = shop(Nostat::start(&config));
    for uri in ["/a/", "/b/", "/c/"] {
        first.body(uri, &https, "kept");
    }
    say("made anew");
    // A purge waits until the disk has it, and so for what was written before.
    assert_eq!(first.purge("PURGE", "/b/", &[]).body, b"1 purged\n");
    assert!(first.server.stop().status.success());

    let second = shop(Nostat::start(&config));
    says(&second.body("/a/", &https, "kept"), "Nostat; hit");
    second.body("/a/", &https, "kept");
    second.body("/b/", &https, "made anew");
    assert_eq!(
        second.purge("PURGE", "/", &[("Cache-Tag", "c/c/")]).body,
        b"1 purged\n"
    );
    second.body("/c/", &https, "made anew");
    second.body("/a/", &https, "kept");
    // Purged at once after it was written, and the process killed: no page comes back.
    say("late");
    second.body("/d/", &https, "php GET /d/ 0");
    second.purge("PURGE", "/.*", &[]);
    second.server.signal(Signal::KILL);
    drop(second);
    let third = shop(Nostat::start(&config));
    third.body("/a/", &https, "late");
}

#[test]
fn what_is_purged_while_pages_are_not_kept_on_disk_is_not_found_there_later() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let pages = tempfile::tempdir().unwrap();
    let with = |page_cache: &str| {
        Config::wordpress(&root, &responder)
            .site("page_cache", page_cache)
            .pages_in(pages.path())
    };
    let server = Nostat::start(&with("{store: disk, valid: 1h}"));
    let reload = |config: &Config| {
        let from = server.log().len();
        server.rewrite(config);
        server.signal(Signal::HUP);
        server.wait_for_log(from, "reloaded");
    };
    let say = |body: &str| responder.on("/a/", Script::answers(format!("{HTML}\r\n{body}")));
    for (other, method) in [
        ("{store: memory, valid: 1h}", "PURGE"),
        ("off", "GET"),
        ("elsewhere", "PURGE"),
    ] {
        say("old");
        server.send("PURGE", "/.*", &[], b"");
        server.get("/a/").assert(200, b"old");
        server.get("/a/").assert(200, b"old");
        // Also when the settings do not name the folder any more.
        let elsewhere =
            Config::wordpress(&root, &responder).site("page_cache", "{store: memory, valid: 1h}");
        reload(&if other == "elsewhere" {
            elsewhere
        } else {
            with(other)
        });
        // Where there is no page cache nobody heeds it.
        server.send(method, "/a/", &[], b"");
        say("new");
        reload(&with("{store: disk, valid: 1h}"));
        let answer = eventually("pages are kept on disk again", || {
            let answer = server.get("/a/");
            (answer.body == b"new").then_some(answer)
        });
        assert_eq!(answer.status, 200);
        server.get("/a/").assert(200, b"new");
    }
}

#[test]
fn a_file_of_pages_that_is_none_is_begun_anew() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let pages = tempfile::tempdir().unwrap();
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "{store: disk, valid: 1h}")
        .pages_in(pages.path());
    for junk in [&b""[..], b"junk", &[0; 100_000], &[0xff; 5000]] {
        std::fs::write(pages.path().join("pages.redb"), junk).unwrap();
        let server = Nostat::start(&config);
        server.get("/a/").assert(200, b"php GET /a/ 0");
        assert_eq!(server.send("PURGE", "/a/", &[], b"").body, b"1 purged\n");
        assert!(server.stop().status.success());
    }
}

#[test]
fn many_slow_clients_are_held_for_within_a_bound() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "{store: memory, query: [n]}")
        .top("page_store", "{memory: 4MiB}");
    let server = Nostat::start(&config);
    let body = "x".repeat(1_500_000);
    let mut clients = Vec::new();
    for number in 0..40 {
        let uri = format!("/long/?n={number}");
        responder.on(&uri, Script::answers(format!("{HTML}\r\n{body}")));
        let mut client = server.connect();
        client.send(format!("GET {uri} HTTP/1.1\r\nHost: example.com\r\n\r\n").as_bytes());
        clients.push(client);
    }
    responder.wait_for(40);
    // Others are served meanwhile, and everybody gets the whole answer.
    server.get("/other/").assert(200, b"php GET /other/ 0");
    for client in &mut clients {
        let answer = client.read("GET");
        assert_eq!((answer.status, answer.body.len()), (200, body.len()));
    }
}

#[test]
fn an_answer_that_is_not_kept_takes_the_old_page_with_it() {
    for (fields, status) in [
        ("Status: 404 Not Found\r\n", 404),
        ("Status: 302 Found\r\nLocation: /login/\r\n", 302),
        ("Cache-Control: private\r\n", 200),
    ] {
        let shop =
            shop_with("{store: memory, valid: 1s, stale_while_revalidate: 1h, stale_if_error: 1h}");
        shop.kept("/about/", "old");
        shop.page("/about/", fields, "other");
        // Seen aside first: the page is sent once more at most after that.
        eventually("the old page is gone", || {
            (shop.server.get("/about/").status == status
                && shop.server.get("/about/").body == b"other")
                .then_some(())
        });
        shop.responder.on("/about/", Script::closes_after(""));
        assert_eq!(shop.server.get("/about/").status, 502, "{fields}");
    }
}

#[test]
fn a_confirmation_is_of_the_page_that_was_asked_about() {
    let gate = Gate::default();
    let (held, version) = (gate.clone(), Arc::new(AtomicUsize::new(1)));
    let made = version.clone();
    let (_root, origin, server) = before_origin(
        "{store: memory, valid: 1s, stale_while_revalidate: 0s}",
        move |request| {
            if request.field("if-none-match") == Some("\"1\"") && made.load(Ordering::SeqCst) == 2 {
                held.pass();
                return b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec();
            }
            let made = made.load(Ordering::SeqCst);
            format!("HTTP/1.1 200 OK\r\nETag: \"{made}\"\r\nContent-Length: 2\r\n\r\nv{made}")
                .into_bytes()
        },
    );
    server.get("/x").assert(200, b"v1");
    version.store(2, Ordering::SeqCst);
    let asking = thread::scope(|scope| {
        let confirmed = scope.spawn(|| {
            // Until the page is old and the origin is asked about it.
            while origin.requests().len() < 2 {
                server.get("/x").assert(200, b"v1");
            }
        });
        gate.wait_until_reached();
        server.send("PURGE", "/x", &[], b"");
        server.get("/x").assert(200, b"v2");
        gate.open();
        confirmed.join()
    });
    asking.unwrap();
    let answer = server.get("/x");
    answer.assert(200, b"v2");
    assert_eq!(answer.etag(), "\"2\"");
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let shop = shop();
    let long = format!("<html>{}", "x".repeat(1_500_000));
    shop.page("/long/", "", &long);
    let mut slow = shop.server.connect();
    slow.send(b"GET /long/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
    shop.responder.wait_for(1);
    shop.page("/long/", "", "made anew");
    shop.body("/long/", &[], &long);
    let answer = slow.read("GET");
    assert_eq!((answer.status, answer.body.len()), (200, long.len()));
}

#[test]
fn what_a_proxy_passes_on_of_its_clients_words_makes_no_page() {
    let shop = shop();
    let fields = [
        ("X-Forwarded-For", "192.0.2.1, 192.0.2.2"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Port", "80\"><script>"),
        ("Forwarded", "host=evil.example;proto=https"),
        ("X-Forwarded-Host", "example.com"),
    ];
    shop.page("/about/", "", "kept");
    shop.body("/about/", &fields, "kept");
    let seen = shop.responder.only_request();
    for (name, value) in [
        ("HTTP_X_FORWARDED_FOR", "192.0.2.2"),
        ("HTTP_X_FORWARDED_HOST", "example.com"),
        ("HTTP_X_FORWARDED_PORT", ""),
        ("HTTP_FORWARDED", ""),
    ] {
        assert_eq!(seen.param(name), value, "{name}");
    }
    let scheme = if seen.param("HTTPS") == "on" {
        "https"
    } else {
        "http"
    };
    assert_eq!(seen.param("HTTP_X_FORWARDED_PROTO"), scheme);
    for host in [
        &[("X-Forwarded-Host", "evil.example")][..],
        &[
            ("X-Forwarded-Host", "example.com"),
            ("X-Forwarded-Host", "evil.example"),
        ],
    ] {
        let answer = shop.body("/about/", host, "kept");
        says(&answer, "Nostat; fwd=bypass; detail=field");
    }
}

#[test]
fn a_page_that_is_fetched_anew_is_made_as_the_first_one_was() {
    let shop = shop_with("{store: memory, valid: 1s, stale_while_revalidate: 1h}");
    shop.page("/about/", "", "one");
    shop.body("/about/", &[], "one");
    shop.page("/about/", "", "two");
    eventually("the new page", || {
        (shop.server.get("/about/").body == b"two").then_some(())
    });
    let requests = shop.responder.requests();
    for name in [
        "SERVER_PORT",
        "SERVER_ADDR",
        "SERVER_NAME",
        "HTTP_HOST",
        "SERVER_PROTOCOL",
        "REQUEST_URI",
        "HTTP_USER_AGENT",
    ] {
        assert_eq!(requests[0].param(name), requests[1].param(name), "{name}");
    }
    assert_eq!(
        requests[0].param("SERVER_PORT"),
        shop.server.port().to_string()
    );
}

#[test]
fn a_redirect_keeps_what_the_visitor_came_with() {
    let shop = shop();
    let moved = "Status: 301 Moved Permanently\r\nLocation: http://example.com/a/\r\n";
    shop.page("/a", moved, "");
    let location = |target: &str| {
        let answer = shop.server.get(target);
        assert_eq!(answer.status, 301);
        answer.field("location").unwrap().to_owned()
    };
    assert_eq!(
        location("/a?utm_source=x&fbclid=y"),
        "http://example.com/a/?utm_source=x&fbclid=y"
    );
    assert_eq!(location("/a"), "http://example.com/a/");
    assert_eq!(shop.responder.requests().len(), 1);
    // From memory it would lead on without them.
    shop.server.get("/a?utm_source=x");
    assert_eq!(
        shop.responder.last_request().param("REQUEST_URI"),
        "/a?utm_source=x"
    );
}

#[test]
fn a_reload_keeps_pages_and_heeds_other_rules() {
    let shop = shop();
    shop.kept("/about/", "kept");
    let other = Config::wordpress(&shop._root, &shop.responder)
        .site("page_cache", "{store: memory, bypass: [/about/]}");
    shop.server.rewrite(&other);
    shop.server.signal(Signal::HUP);
    eventually("the page passes by", || {
        (shop.server.get("/about/").body == b"made anew").then_some(())
    });
    let same = Config::wordpress(&shop._root, &shop.responder).site("page_cache", "memory");
    shop.server.rewrite(&same);
    shop.server.signal(Signal::HUP);
    eventually("the page is still there", || {
        (shop.server.get("/about/").body == b"kept").then_some(())
    });
}

#[test]
fn the_log_and_the_metrics_tell_what_the_page_cache_did() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "memory")
        .top("access_log", "{path: \"-\", format: json}");
    let server = Nostat::start(&config);
    responder.on("/about/", Script::answers(format!("{HTML}\r\nx")));
    server.get("/about/");
    server.get("/about/");
    server.get("/about/?s=x");
    let outcomes = eventually("three lines", || {
        let output = server.output();
        let lines: Vec<serde_json::Value> = output
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &serde_json::Value| line["method"] == "GET")
            .filter(|line| {
                line["target"]
                    .as_str()
                    .is_some_and(|target| target.starts_with("/about/"))
            })
            .collect();
        (lines.len() == 3).then(|| {
            lines
                .iter()
                .map(|line| format!("{} {}", line["cache"], line["upstream"]))
                .collect::<Vec<_>>()
        })
    });
    assert_eq!(
        outcomes,
        [
            "\"page_miss\" \"php\"",
            "\"page_hit\" null",
            "\"page_bypass\" \"php\""
        ]
    );
}

/// A page cache before an HTTP origin that says this.
fn before_origin(
    page_cache: &str,
    answer: impl Fn(&OriginRequest) -> Vec<u8> + Send + Sync + 'static,
) -> (DocumentRoot, FakeOrigin, Nostat) {
    let (root, origin) = (DocumentRoot::empty(), FakeOrigin::start(answer));
    let config = Config::preset("static", root.path())
        .site("origin", &format!("[\"{}\"]", origin.address()))
        .site("page_cache", page_cache);
    let server = Nostat::start(&config);
    (root, origin, server)
}

#[test]
fn an_origin_confirms_a_page_and_its_fields_are_renewed() {
    let (_root, origin, server) = before_origin(
        "{store: memory, valid: 1s, stale_while_revalidate: 0s}",
        |request| {
            match request.field("if-none-match") {
            Some("\"v1\"") => {
                b"HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\nX-A: 2\r\nX-B: new\r\n\r\n".to_vec()
            }
            _ => b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nX-A: 1\r\nX-C: old\r\nContent-Length: 4\r\n\r\nbody"
                .to_vec(),
        }
        },
    );
    server.get("/x").assert(200, b"body");
    let renewed = eventually("the origin is asked again", || {
        let answer = server.get("/x");
        answer.assert(200, b"body");
        (answer.field("x-a") == Some("2")).then_some(answer)
    });
    for answer in [renewed, server.get("/x")] {
        assert_eq!(answer.field("x-b"), Some("new"));
        assert_eq!(answer.field("x-c"), Some("old"));
        assert_eq!(answer.etag(), "\"v1\"");
    }
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn fields_of_the_origins_connection_are_not_for_clients() {
    let (_root, _origin, server) = before_origin("{store: memory, query: [\"*\"]}", |_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\n\
          Proxy-Connection: x\r\nTrailer: x\r\nUpgrade: h2c\r\nX-Stays: 1\r\n\r\nx"
            .to_vec()
    });
    for target in ["/x", "/x", "/y"] {
        let answer = server.get(target);
        for name in [
            "x-hop",
            "keep-alive",
            "proxy-connection",
            "trailer",
            "upgrade",
            "accept-ranges",
        ] {
            assert_eq!(answer.field(name), None, "{name}");
        }
        assert_eq!(answer.field("x-stays"), Some("1"));
    }
}

#[test]
fn after_an_old_page_for_a_dead_origin_the_connection_is_told_to_end() {
    let dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_dead = dead.clone();
    let (_root, _origin, server) = before_origin(
        "{store: memory, valid: 1s, stale_while_revalidate: 0s}",
        move |_| match is_dead.load(Ordering::SeqCst) {
            true => Vec::new(),
            false => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept".to_vec(),
        },
    );
    server.get("/x").assert(200, b"kept");
    dead.store(true, Ordering::SeqCst);
    eventually("an old page", || {
        let mut connection = server.connect();
        let answer = connection.get("/x");
        answer.assert(200, b"kept");
        let is_old = answer
            .field("age")
            .is_some_and(|age| age.parse::<u64>().is_ok_and(|age| age > 1));
        if answer.closes() {
            connection.expect_end();
        } else {
            connection.get("/x").assert(200, b"kept");
        }
        is_old.then_some(())
    });
}

#[test]
fn a_field_in_two_lines_is_another_page() {
    let shop = shop_with("{store: memory, vary: [Accept-Language]}");
    shop.page("/a/", "Vary: Accept-Language\r\n", "one");
    shop.body("/a/", &[("Accept-Language", "de")], "one");
    shop.page("/a/", "Vary: Accept-Language\r\n", "two");
    let both = [("Accept-Language", "de"), ("Accept-Language", "fr")];
    shop.body("/a/", &both, "two");
    shop.body("/a/", &both[..1], "one");
}

#[test]
fn many_readers_and_purges_hang_nobody_and_show_nothing_old() {
    for store in ["memory", "disk"] {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        let pages = tempfile::tempdir().unwrap();
        let config = Config::wordpress(&root, &responder)
            .site("page_cache", &format!("{{store: {store}, valid: 1h}}"))
            .pages_in(pages.path());
        let (server, say) = (Nostat::start(&config), |version: usize| {
            let body = format!("{version:09}{}", "x".repeat(30_000));
            for uri in ["/a/", "/b/", "/c/"] {
                responder.on(uri, Script::answers(format!("{HTML}\r\n{body}")));
            }
        });
        say(0);
        let (least, stop) = (
            AtomicUsize::new(0),
            std::sync::atomic::AtomicBool::new(false),
        );
        thread::scope(|scope| {
            for number in 0..8 {
                let (server, least, stop) = (&server, &least, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let mut connection = server.connect();
                        for uri in ["/a/", "/b/", "/c/"].iter().cycle().take(3 + number) {
                            let expected = least.load(Ordering::SeqCst);
                            let answer = connection.get(uri);
                            assert_eq!(answer.status, 200);
                            let version = std::str::from_utf8(&answer.body[..9]).unwrap();
                            assert!(
                                version.parse::<usize>().unwrap() >= expected,
                                "{version} {expected}"
                            );
                            if answer.closes() {
                                break;
                            }
                        }
                    }
                });
            }
            let mut purger = server.connect();
            for version in 1..=STRESS {
                say(version);
                assert_eq!(purger.request("PURGE", "/.*", &[], b"").status, 200);
                least.store(version, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
        });
    }
}

/// Purges of a run with many readers.
const STRESS: usize = 300;
