//! Names in the request target: escapes, dots, slashes, bytes.

use crate::support::client::Response;
use crate::support::document_root::{DocumentRoot, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

/// A GET whose target is these bytes.
#[track_caller]
fn get_bytes(server: &Nostat, target: &[u8]) -> Response {
    server.send_raw(
        &[
            b"GET ",
            target,
            b" HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        ]
        .concat(),
    )
}

#[track_caller]
fn assert_only_index_ran(responder: &FakeResponder) {
    for seen in responder.requests() {
        assert_eq!(
            seen.param("SCRIPT_NAME"),
            "/index.php",
            "{}",
            seen.param("REQUEST_URI")
        );
    }
}

#[test]
fn space_plus_and_bytes_beyond_ascii_name_their_own_files() {
    let root = DocumentRoot::empty();
    root.write("a b.css", b"space");
    root.write("a+b.css", b"plus");
    root.write("caf\u{e9}.jpg", b"utf-8");
    root.write_named(b"caf\xe9.jpg", b"latin-1");
    root.write("100%.txt", b"percent");
    root.write("semi;colon,a'(b)!$&=@~*.txt", b"marks");
    let server = Nostat::start(&Config::static_files(&root));
    for (target, body) in [
        (&b"/a%20b.css"[..], &b"space"[..]),
        (b"/a+b.css", b"plus"),
        (b"/a%2Bb.css", b"plus"),
        (b"/a%2bb.css?q=a%20b", b"plus"),
        (b"/caf%C3%A9.jpg", b"utf-8"),
        (b"/caf%c3%a9.jpg", b"utf-8"),
        (b"/caf\xc3\xa9.jpg", b"utf-8"),
        (b"/caf%E9.jpg", b"latin-1"),
        (b"/100%25.txt", b"percent"),
        (b"/semi;colon,a'(b)!$&=@~*.txt", b"marks"),
        (b"/%61%2b%62.css", b"plus"),
    ] {
        get_bytes(&server, target).assert(200, body);
    }
    root.remove("a+b.css");
    let fresh = Nostat::start(&Config::static_files(&root));
    assert_eq!(fresh.get("/a+b.css").status, 404, "a plus is no space");
}

#[test]
fn a_target_is_decoded_once() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("%2e%2e.css", b"a strange name");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    server.get("/%252e%252e.css").assert(200, b"a strange name");
    for target in [
        "/%252e%252e%252fwp-config.php",
        "/wp-content/%252e%252e/wp-config.php",
        "/%2577p-config.php",
    ] {
        let response = server.get(target);
        assert!(!response.text().contains(SECRET), "{target}");
    }
    assert_only_index_ran(&responder);
}

#[test]
fn bad_escapes_and_nul_are_refused() {
    let (_root, responder, server) = Nostat::wordpress();
    for target in [
        &b"/index.php%00.jpg"[..],
        b"/wp-content/themes/t/style.css%00",
        b"/%00",
        b"/wp-content/themes/t/style.css\x00",
        b"/%zz",
        b"/%4",
        b"/a%",
        b"/%%35",
        b"/a\x01b",
        b"/a\x7fb",
        b"/a\tb",
        b"wp-login.php",
        b"",
    ] {
        let response = get_bytes(&server, target);
        assert_eq!(
            (response.status, response.closes()),
            (400, true),
            "{}",
            target.escape_ascii()
        );
    }
    responder.assert_not_called();
}

#[test]
fn dot_segments_are_removed_and_never_leave_the_root() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    std::fs::write(root.outside().join("outside.css"), SECRET).unwrap();
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for target in [
        "/./wp-content/themes/t/style.css",
        "/a/./b/../../wp-content/themes/t/style.css",
        "/wp-content/themes/t/x/../style.css",
        "/wp-content/themes/t/%2e/style.css",
        "/wp-content/themes/t/x/%2E%2e/style.css",
        "//wp-content///themes/t//style.css",
    ] {
        server.get(target).assert(200, STYLE_BYTES);
    }
    for target in [
        "/../../../etc/passwd",
        "/../outside.css",
        "/wp-content/../../outside.css",
        "/%2e%2e/outside.css",
        "/%2e%2e%2foutside.css",
        "/..%2foutside.css",
        "/wp-content/..%2f..%2foutside.css",
        "/..",
        "/wp-content/../..",
    ] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {response}");
        assert!(!response.text().contains(SECRET), "{target}");
    }
    responder.assert_not_called();
}

#[test]
fn an_encoded_slash_or_a_backslash_separates_nothing() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("back\\slash.css", SECRET.as_bytes());
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for target in [
        "/wp-content%2fthemes/t/style.css",
        "/wp-content/themes/t%2Fstyle.css",
        "/wp-content/themes/t%5cstyle.css",
        "/wp-content\\themes\\t\\style.css",
        "/wp-content/..\\..\\wp-config.php",
        "/%5c..%5c",
        "/..%5c..%5cwp-config.php",
        "/index.php%2f..%2fwp-config.php",
        "/back%5cslash.css",
    ] {
        let response = server.get(target);
        let refused = matches!(response.status, 400 | 403 | 404);
        assert!(
            refused || response.text().starts_with("php "),
            "{target}: {response}"
        );
    }
    assert_only_index_ran(&responder);
}

#[test]
fn a_directory_is_redirected_to_its_slash_with_the_query_and_no_host() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("a b/index.html", b"x");
    root.write("evil.org/index.html", b"x");
    root.write("x\r\nSet-Cookie: a/index.html", b"x");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for (target, location) in [
        ("/wp-admin?x=1", "/wp-admin/?x=1"),
        ("/wp-admin", "/wp-admin/"),
        ("//wp-admin?x=1&y=//z", "/wp-admin/?x=1&y=//z"),
        ("/a%20b?q=%20", "/a%20b/?q=%20"),
        ("//evil.org", "/evil.org/"),
        ("///evil.org?", "/evil.org/"),
        ("/x/..//evil.org", "/evil.org/"),
    ] {
        let response = server.get(target);
        assert!(matches!(response.status, 301 | 308), "{target}: {response}");
        let sent = response.field("location").unwrap_or_default();
        // Escapes may be written anew, and an empty query kept or dropped.
        let same = sent.trim_end_matches('?').eq_ignore_ascii_case(location)
            || sent.replace("%3A", ":").eq_ignore_ascii_case(location);
        assert!(same, "{target}: {sent}");
    }
    // A line end in a name splits no head.
    let response = server.get("/x%0d%0aSet-Cookie:%20a");
    assert!(
        matches!(response.status, 301 | 308 | 400 | 404),
        "{response}"
    );
    assert_eq!(response.field("set-cookie"), None);
    responder.assert_not_called();
}

#[test]
fn a_file_with_something_behind_it_is_not_that_file() {
    let (_root, _responder, server) = Nostat::wordpress();
    for round in 0..2 {
        for target in [
            "/wp-content/themes/t/style.css/",
            "/wp-content/themes/t/style.css/foo",
            "/wp-content/themes/t/style.css/foo.css",
            "/wp-content/themes/t/style.css//",
        ] {
            let response = server.get(target);
            let right = response.status == 404 || response.text().starts_with("php ");
            assert!(right, "{target} in round {round}: {response}");
        }
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
}

#[test]
fn an_absolute_target_names_host_and_path() {
    let (one, other) = (DocumentRoot::empty(), DocumentRoot::empty());
    one.write("who.txt", b"one");
    other.write("who.txt", b"other");
    other.write("index.html", b"home");
    let config = Config::static_files(&one)
        .site("hosts", "[\"one.org\"]")
        .also("static", other.path())
        .site("hosts", "[\"other.org\"]");
    let server = Nostat::start(&config);
    for (target, host, body) in [
        ("http://other.org/who.txt", "other.org", "other"),
        ("http://other.org/who.txt", "one.org", "other"),
        ("HTTP://OTHER.org:80/who.txt?x", "one.org", "other"),
        ("http://other.org", "one.org", "home"),
        ("/who.txt", "one.org", "one"),
    ] {
        let response = server.get_with(target, &[("Host", host)]);
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, body),
            "{target} with Host {host}"
        );
    }
    for target in [
        "ftp://other.org/who.txt",
        "http:///who.txt",
        "http://",
        "http://user@other.org/who.txt",
        "*",
        "other.org:80",
    ] {
        let response = server.get_with(target, &[("Host", "one.org")]);
        assert!(
            matches!(response.status, 400 | 404 | 421),
            "{target}: {response}"
        );
    }
}

#[test]
fn a_name_longer_than_any_file_is_not_found() {
    let root = DocumentRoot::empty();
    root.write("short.css", b"css");
    let server = Nostat::start(&Config::static_files(&root));
    assert_eq!(server.get(&format!("/{}.css", "n".repeat(300))).status, 404);
    assert_eq!(
        server.get(&format!("/{}x.css", "a/".repeat(3000))).status,
        404
    );
    server.get("/short.css").assert(200, b"css");
}
