//! Rules, answers and the store, without a socket.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pingora_http::ResponseHeader;

use super::key::plain_path;
use super::page::{Age, Page, Place};
use super::purge::{Asked, Sender, What, is_allowed, read};
use super::settings::{NamePattern, Rules, Store, StoreSettings};
use super::site_pages::{Bypass, PageRequest, SitePages};
use super::storable::{Refusal, judge, tags};
use super::store::PageStore;
use super::{Purge, key::Key};
use crate::request::head::Method;
use crate::request::target::Target;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

fn lines(fields: &[(&str, &str)]) -> Lines {
    let line = |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    fields.iter().map(line).collect()
}

fn pages(rules: Rules) -> SitePages {
    SitePages::new("shop", &rules, "php", true, Arc::default()).unwrap()
}

fn rules() -> Rules {
    Rules::new(Store::Memory)
}

fn key(pages: &SitePages, target: &str, fields: &[(&str, &str)]) -> Result<Key, Bypass> {
    let target = Target::parse(&Method::Get, target.as_bytes()).unwrap();
    pages.key(&PageRequest {
        method: Method::Get,
        target: &target,
        fields: &lines(fields)[..],
        host: b"example.com",
        https: false,
        port: None,
        trusted_peer: false,
        has_body: false,
    })
}

fn names(texts: &[&str]) -> Vec<NamePattern> {
    texts
        .iter()
        .map(|text| NamePattern::parse(text).unwrap())
        .collect()
}

#[test]
fn queries_are_part_of_a_page_left_out_or_passed_by() {
    let pages = pages(Rules {
        query: names(&["page", "filter_*"]),
        ignore_query: names(&["ref"]),
        ..rules()
    });
    let target =
        |text| key(&pages, text, &[]).map(|key| String::from_utf8(key.target.into()).unwrap());
    for (asked, of_page) in [
        ("/a/", "/a/"),
        ("/a/?", "/a/"),
        ("/a/?&&", "/a/"),
        ("/a/?utm_source=x&ref=y&gclid", "/a/"),
        (
            "/a/?page=2&utm_x=1&filter_color=red",
            "/a/?page=2&filter_color=red",
        ),
        ("/a/?fbclid=1&page", "/a/?page"),
    ] {
        assert_eq!(target(asked).as_deref(), Ok(of_page), "{asked}");
    }
    for asked in [
        "/a/?s=x",
        "/a/?page=2&s=x",
        "/a/?%75tm_source=x",
        "/a/?pages=2",
        "/a/?x;page=2",
        "/a/?=1",
    ] {
        assert_eq!(target(asked), Err(Bypass::Query), "{asked}");
    }
}

#[test]
fn paths_that_are_no_pages() {
    let pages = pages(Rules {
        bypass: vec!["/basket/".into(), "*.pdf".into()],
        ..rules()
    });
    for path in [
        "/wp-admin/",
        "/wp-admin/index.php",
        "/blog/WP-ADMIN/x/",
        "/wp-json/",
        "/CART/",
        "/shop/cart/",
        "/checkout",
        "/my-account/orders/",
        "/basket/x/",
        "/a.pdf",
        "/a%2Fb/",
    ] {
        assert_eq!(key(&pages, path, &[]).err(), Some(Bypass::Path), "{path}");
    }
    for path in [
        "/",
        "/about",
        "/carts/",
        "/feed/",
        "/sitemap.xml",
        "/2024/01/",
    ] {
        assert!(key(&pages, path, &[]).is_ok(), "{path}");
    }
    // Feeds are for readers that ask for anything.
    let accept = [("Accept", "application/rss+xml")];
    assert!(key(&pages, "/feed/", &accept).is_ok());
    assert_eq!(key(&pages, "/about/", &accept).err(), Some(Bypass::Accept));
}

#[test]
fn cookies_that_are_told() {
    let pages = pages(Rules {
        bypass_cookies: names(&["_ga_vip"]),
        ignore_cookies: names(&["theme", "my_*"]),
        ..rules()
    });
    let of = |cookie| key(&pages, "/", &[("Cookie", cookie)]).err();
    assert_eq!(of("theme=dark; MY_stats=1; _ga=2"), None);
    assert_eq!(of("_ga_vip=1"), Some(Bypass::Cookie));
    assert_eq!(of("themes=dark"), Some(Bypass::UnknownCookie));
    assert_eq!(of("theme=dark; wordpress_sec_0=1"), Some(Bypass::Cookie));
    // Ignoring everything that is not known never ignores a login.
    let all = SitePages::new(
        "shop",
        &Rules {
            ignore_cookies: names(&["*"]),
            ..rules()
        },
        "php",
        true,
        Arc::default(),
    )
    .unwrap();
    assert_eq!(key(&all, "/", &[("Cookie", "x=1")]).err(), None);
    assert_eq!(
        key(&all, "/", &[("Cookie", "x=1; wordpress_logged_in_0=1")]).err(),
        Some(Bypass::Cookie)
    );
}

fn header(status: u16, fields: &[(&'static str, &str)]) -> ResponseHeader {
    let mut header = ResponseHeader::build(status, None).unwrap();
    for (name, value) in fields {
        header.append_header(*name, *value).unwrap();
    }
    header
}

/// Seconds of freshness, of stale-while-revalidate and of stale-if-error.
fn life(
    rules: &Rules,
    status: u16,
    fields: &[(&'static str, &str)],
) -> Result<(u64, u32, u32), Refusal> {
    let now = SystemTime::now();
    let meta = judge(rules, &header(status, fields), now)?;
    let fresh = meta.fresh_until().duration_since(now).unwrap() + Duration::from_millis(500);
    Ok((
        fresh.as_secs(),
        meta.stale_while_revalidate_sec(),
        meta.stale_if_error_sec(),
    ))
}

#[test]
fn how_long_answers_are_kept() {
    let told = Rules {
        valid: Duration::from_secs(30),
        not_found: Some(Duration::from_secs(5)),
        ..rules()
    };
    for (status, fields, expected) in [
        (200, &[][..], (30, 60, 3600)),
        (301, &[], (30, 60, 3600)),
        (404, &[], (5, 60, 0)),
        (410, &[], (5, 60, 0)),
        (
            404,
            &[("Cache-Control", "no-cache, must-revalidate, max-age=0")],
            (5, 0, 0),
        ),
        (200, &[("Cache-Control", "max-age=100")], (100, 60, 3600)),
        (
            200,
            &[("Cache-Control", "max-age=100"), ("Age", "40")],
            (60, 60, 3600),
        ),
        (
            200,
            &[("Cache-Control", "s-maxage=9, max-age=100")],
            (9, 0, 0),
        ),
        (200, &[("Cache-Control", "public")], (30, 60, 3600)),
        (
            200,
            &[("Cache-Control", "max-age=10, must-revalidate")],
            (10, 0, 0),
        ),
        (
            200,
            &[(
                "Cache-Control",
                "max-age=10, stale-while-revalidate=7, stale-if-error=8",
            )],
            (10, 7, 8),
        ),
        (
            200,
            &[("X-Accel-Expires", "70"), ("Cache-Control", "max-age=5")],
            (70, 60, 3600),
        ),
        (
            200,
            &[("Vary", "Accept-Encoding, Cookie, User-Agent")],
            (30, 60, 3600),
        ),
        (200, &[("Content-Encoding", "identity")], (30, 60, 3600)),
        (
            200,
            &[("Cache-Control", "max-age=100"), ("Age", "40, 90")],
            (60, 60, 3600),
        ),
        // By the sender's clock, which is late.
        (
            200,
            &[
                ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
                ("Expires", "Mon, 01 Jan 2024 00:00:20 GMT"),
            ],
            (20, 60, 3600),
        ),
    ] {
        assert_eq!(
            life(&told, status, fields),
            Ok(expected),
            "{status} {fields:?}"
        );
    }
    for (status, fields, expected) in [
        (302, &[][..], Refusal::Redirect),
        (307, &[], Refusal::Redirect),
        (
            404,
            &[("Cache-Control", "no-cache, no-store")],
            Refusal::CacheControl,
        ),
        (206, &[], Refusal::Status),
        (500, &[], Refusal::Status),
        (200, &[("Set-Cookie", "a=b")], Refusal::SetCookie),
        (200, &[("Cache-Control", "private")], Refusal::CacheControl),
        (200, &[("Cache-Control", "no-cache")], Refusal::CacheControl),
        (
            200,
            &[("Cache-Control", "no-cache=\"x\"")],
            Refusal::CacheControl,
        ),
        (
            200,
            &[
                ("Cache-Control", "max-age=60"),
                ("Cache-Control", "no-store"),
            ],
            Refusal::CacheControl,
        ),
        (200, &[("Pragma", "no-cache")], Refusal::CacheControl),
        (200, &[("X-Accel-Expires", "0")], Refusal::CacheControl),
        (200, &[("X-Accel-Expires", "@1")], Refusal::CacheControl),
        (200, &[("Cache-Control", "max-age=0")], Refusal::Stale),
        (200, &[("Cache-Control", "max-age=-1")], Refusal::Stale),
        (200, &[("Cache-Control", "max-age=abc")], Refusal::Stale),
        (200, &[("Cache-Control", "max-age=")], Refusal::Stale),
        (200, &[("Cache-Control", "max-age")], Refusal::Stale),
        (200, &[("Cache-Control", "max-age =0")], Refusal::Stale),
        (
            200,
            &[("Cache-Control", "s-maxage=x, max-age=60")],
            Refusal::Stale,
        ),
        (
            200,
            &[("Cache-Control", "max-age=0, max-age=60")],
            Refusal::Stale,
        ),
        (200, &[("Cache-Control", "public private")], Refusal::Stale),
        (200, &[("Cache-Control", "\"no-store\"")], Refusal::Stale),
        (200, &[("Pragma", "x, No-Cache")], Refusal::CacheControl),
        (
            200,
            &[("Cache-Control", "max-age=10"), ("Age", "10")],
            Refusal::Stale,
        ),
        (200, &[("Expires", "0")], Refusal::Stale),
        (
            200,
            &[
                ("Date", "Mon, 01 Jan 2120 00:00:00 GMT"),
                ("Expires", "Tue, 01 Jan 2115 00:00:00 GMT"),
            ],
            Refusal::Stale,
        ),
        (200, &[("Vary", "Accept-Language")], Refusal::Vary),
        (200, &[("Vary", "*")], Refusal::Vary),
        (200, &[("Content-Encoding", "br")], Refusal::Content),
        (200, &[("Content-Range", "bytes 0-1/2")], Refusal::Content),
    ] {
        assert_eq!(
            life(&told, status, fields),
            Err(expected),
            "{status} {fields:?}"
        );
    }
    assert_eq!(life(&rules(), 404, &[]), Err(Refusal::Status));
    let varying = Rules {
        vary: vec!["accept-language".into()],
        ..rules()
    };
    assert!(life(&varying, 200, &[("Vary", "Accept-Language")]).is_ok());
}

#[test]
fn words_of_all_fields_with_tags() {
    let header = header(
        200,
        &[
            ("Cache-Tag", "a,b, c"),
            ("Surrogate-Key", "d  a"),
            ("xkey", "e"),
        ],
    );
    let expected: Vec<Box<[u8]>> = [b"a", b"b", b"c", b"d", b"e"]
        .map(|tag| Box::from(&tag[..]))
        .into();
    assert_eq!(tags(&header), expected);
}

fn made(path: &str, body: &str, fields: &[(&'static str, &str)]) -> Page {
    let meta = judge(&rules(), &header(200, fields), SystemTime::now()).unwrap();
    let place = Place {
        site: "shop".into(),
        host: Box::from(&b"example.com"[..]),
        path: plain_path(path.as_bytes()).into(),
        tags: Vec::new(),
    };
    Page::new(
        path.as_bytes().into(),
        place,
        &meta,
        Bytes::copy_from_slice(body.as_bytes()),
    )
}

fn now() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

#[test]
fn an_old_page_is_fetched_anew_by_one() {
    let page = made("/", "x", &[]);
    let end = now() + 61;
    assert_eq!(page.age(now()), Age::Fresh);
    assert_eq!(page.age(end), Age::Stale(true));
    assert_eq!(page.age(end), Age::Stale(false));
    assert_eq!(
        page.age(end + 11),
        Age::Stale(true),
        "the first one has failed"
    );
    assert_eq!(page.age(end + 61), Age::Old);
    assert_eq!(
        page.expired(SystemTime::now()).age(now() + 1),
        Age::Stale(true)
    );
}

#[test]
fn a_clock_set_back_makes_no_page_last() {
    const DAY: i64 = 86_400;
    let page = made("/a/", "<html>", &[]);
    assert_eq!(page.age(now() - DAY), Age::Old);
    // Told of while the clock was ahead: others are told when it is right again.
    let end = now() + 61;
    assert_eq!(page.age(end + 10), Age::Stale(true));
    assert_eq!(page.age(end + 10), Age::Stale(false));
    assert_eq!(page.age(end + 11), Age::Stale(false));
    assert_eq!(page.age(end + 40), Age::Stale(true));
    assert_eq!(page.age(end + 10), Age::Stale(true));
    let store = store(1 << 20);
    store.refuse(b"key", now() + DAY);
    assert!(store.is_refused(b"key", now() + DAY));
    assert!(!store.is_refused(b"key", now()));
}

#[test]
fn heads_of_a_page() {
    let page = made(
        "/",
        "<html>",
        &[
            ("Content-Type", "text/html"),
            ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("X-A", "1"),
            ("X-A", "2"),
        ],
    );
    let served = page.serve(&lines(&[])[..], false, now() + 7);
    let head = String::from_utf8(served.head.to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for line in [
        "Content-Length: 6\r\n",
        "Age: 7\r\n",
        "X-A: 1\r\nX-A: 2\r\n",
        "Cache-Status: Nostat; hit\r\n",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(!head.contains("Date:") && head.ends_with("\r\n") && !head.ends_with("\r\n\r\n"));
    for condition in [
        ("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("If-None-Match", "*"),
    ] {
        let served = page.serve(&lines(&[condition])[..], true, now());
        assert_eq!((served.status, served.body.len()), (304, 0));
        let head = String::from_utf8(served.head.to_vec()).unwrap();
        assert!(head.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{head}");
        assert!(
            head.contains("ETag: ") && !head.contains("Content-") && !head.contains("X-A"),
            "{head}"
        );
    }
    let later = ("If-Modified-Since", "Mon, 01 Jan 2023 00:00:00 GMT");
    assert_eq!(page.serve(&lines(&[later])[..], true, now()).status, 200);
}

fn store(memory: u64) -> PageStore {
    PageStore::new(&StoreSettings {
        memory,
        disk: 0,
        dir: "/nonexistent".into(),
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn purge(what: What) -> Purge {
    Purge {
        site: None,
        host: None,
        what,
    }
}

#[test]
fn memory_is_bounded_and_a_scan_leaves_what_is_asked_for() {
    let store = store(4 << 20);
    let body = "x".repeat(10_000);
    let hot: Vec<String> = (0..20).map(|n| format!("/hot/{n}/")).collect();
    for path in &hot {
        assert!(store.admit(Arc::new(made(path, &body, &[])), 0, false));
    }
    for round in 0..2000 {
        for path in &hot {
            let _ = store.get(path.as_bytes());
        }
        store.admit(
            Arc::new(made(&format!("/scan/{round}/"), &body, &[])),
            0,
            false,
        );
    }
    let held = store.held();
    assert!(held.bytes <= 4 << 20 && held.pages > 50, "{held:?}");
    let kept = hot
        .iter()
        .filter(|path| store.get(path.as_bytes()).is_some())
        .count();
    assert!(kept >= 18, "{kept} of 20");
}

#[test]
fn what_was_begun_before_a_purge_is_not_admitted_after_it() {
    run(async {
        let store = store(1 << 20);
        let begun = store.purges_so_far();
        store.purge(purge(What::Path(Box::from(&b"/a"[..])))).await;
        assert!(!store.admit(Arc::new(made("/a/", "x", &[])), begun, false));
        assert!(store.admit(Arc::new(made("/b/", "x", &[])), begun, false));
        assert!(store.admit(
            Arc::new(made("/a/", "x", &[])),
            store.purges_so_far(),
            false
        ));
        // More purges than are remembered: one of them may have meant it.
        for n in 0..2000 {
            let path = format!("/other/{n}");
            store
                .purge(purge(What::Path(path.into_bytes().into())))
                .await;
        }
        assert!(!store.admit(Arc::new(made("/c/", "x", &[])), begun, false));
    });
}

#[test]
fn purges_mean_what_they_say() {
    let page = made("/a/b/", "x", &[("Cache-Tag", "one two")]);
    let means = |what| purge(what).means(&page.place);
    let text = |text: &str| Box::<[u8]>::from(text.as_bytes());
    assert!(means(What::All));
    assert!(means(What::Path(text("/a/b"))) && !means(What::Path(text("/a"))));
    assert!(means(What::Prefix(text("/a"))) && !means(What::Prefix(text("/b"))));
    assert!(
        means(What::Tags(vec![text("x"), text("two")])) && !means(What::Tags(vec![text("tw")]))
    );
    let elsewhere = Purge {
        site: Some("blog".into()),
        ..purge(What::All)
    };
    assert!(!elsewhere.means(&page.place));
    let other_host = Purge {
        host: Some(text("example.org")),
        ..purge(What::All)
    };
    assert!(!other_host.means(&page.place));
}

fn asked(pages: &SitePages, method: &str, target: &str, fields: &[(&str, &str)]) -> Option<Asked> {
    let method = Method::from_token(method);
    let target = Target::parse(&method, target.as_bytes()).unwrap();
    read(
        pages,
        &method,
        &target,
        &lines(fields)[..],
        b"Example.com:443",
    )
}

#[test]
fn what_plugins_ask_to_be_forgotten() {
    let pages = pages(rules());
    let text = |text: &str| Box::<[u8]>::from(text.as_bytes());
    let what = |method, target, fields: &[(&str, &str)]| {
        asked(&pages, method, target, fields).unwrap().purge.what
    };
    let regex = [("X-Purge-Method", "regex")];
    for (target, fields, expected) in [
        ("/a/", &[][..], What::Path(text("/a"))),
        ("/a/?b=c", &[], What::Path(text("/a"))),
        ("/", &[], What::Path(text("/"))),
        ("/.*", &regex, What::All),
        ("/.*", &[], What::All),
        ("/a/.*", &regex, What::Prefix(text("/a"))),
        ("/a.b/", &regex, What::Path(text("/a.b"))),
        ("/a(b|c)/.*", &regex, What::Prefix(text("/a"))),
        ("/ab*", &regex, What::Prefix(text("/a"))),
        ("/purgeall", &[], What::All),
        ("/", &[("X-Purge-Regex", ".*")], What::All),
        (
            "/",
            &[("Cache-Tag", "a,b")],
            What::Tags(vec![text("a"), text("b")]),
        ),
    ] {
        assert_eq!(
            what("PURGE", target, fields),
            expected,
            "{target} {fields:?}"
        );
    }
    assert_eq!(what("GET", "/purge/a/b/", &[]), What::Path(text("/a/b")));
    assert_eq!(asked(&pages, "GET", "/purgeall", &[]), None);
    assert_eq!(asked(&pages, "GET", "/purges/", &[]), None);
    assert_eq!(asked(&pages, "POST", "/purge/a/", &[]), None);
    let purge = asked(&pages, "PURGE", "/", &[]).unwrap().purge;
    assert_eq!(purge.host, Some(text("example.com")));
    assert_eq!(purge.site.as_deref(), Some("shop"));
}

#[test]
fn who_may_purge() {
    let pages = pages(rules());
    let may = |peer: &str, is_trusted, local: Option<&str>, fields: &[(&str, &str)]| {
        let sender = Sender {
            peer: peer.parse().unwrap(),
            is_trusted,
            local: local.map(|local| local.parse().unwrap()),
            ip_field: Some("x-client"),
        };
        is_allowed(&pages, &lines(fields)[..], sender)
    };
    let here = "127.0.0.1";
    assert!(may(here, false, None, &[]) && may(here, true, None, &[]));
    assert!(may("::1", false, None, &[]));
    assert!(may("::ffff:127.0.0.1", false, None, &[]));
    // PHP on this machine asks for the site by its public address.
    assert!(may("192.0.2.7", false, Some("192.0.2.7:80"), &[]));
    assert!(!may("192.0.2.8", false, Some("192.0.2.7:80"), &[]));
    // A server in front that is not trusted passes on whatever comes.
    assert!(!may(here, false, None, &[("X-Forwarded-For", here)]));
    // One that is trusted names for whom it asks: each of these must be one that may.
    assert!(may(here, true, None, &[("X-Forwarded-For", here)]));
    assert!(may(here, true, None, &[("X-Real-IP", "127.0.0.1")]));
    for field in [
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-For", "127.0.0.1, 192.0.2.1"),
        ("X-Forwarded-For", "unknown"),
        ("X-Real-IP", "192.0.2.1"),
        ("CF-Connecting-IP", "192.0.2.1"),
        ("True-Client-IP", "192.0.2.1"),
        ("X-Client", "192.0.2.1"),
        ("Forwarded", "for=127.0.0.1"),
        ("Via", "1.1 x"),
    ] {
        assert!(!may(here, true, None, &[field]), "{field:?}");
        let both = [("X-Forwarded-For", here), field];
        assert!(
            field.0 == "Via" || !may(here, true, None, &both),
            "{field:?}"
        );
    }
    assert!(!may("10.0.0.1", true, None, &[("X-Purge-Token", "")]));
}
