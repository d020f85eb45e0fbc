//! Faults once met, here or in other servers, each named by where it was reported.

use crate::support::client::request;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

/// Pingora before 0.8: bytes behind an Upgrade request went to the upstream as they were.
#[test]
fn cve_2026_2833_bytes_behind_an_upgrade_are_a_request_of_their_own() {
    let (_root, responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.send(
        b"GET /page HTTP/1.1\r\nHost: example.com\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nGET /wp-config.php HTTP/1.1\r\nHost: example.com\r\n\r\n",
    );
    connection.read("GET").assert(200, b"php GET /page 0");
    assert!(matches!(connection.read("GET").status, 403 | 404));
    assert_eq!(responder.only_request().param("REQUEST_URI"), "/page");
}

/// Pingora before 0.8: an HTTP/1.0 body that ends with the connection, and multiple codings, were framed wrongly.
#[test]
fn cve_2026_2835_odd_codings_frame_no_second_request() {
    let (_root, responder, server) = Nostat::wordpress();
    for head in [
        "POST /p HTTP/1.0\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n",
        "POST /p HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
        "POST /p HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        "POST /p HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let mut connection = server.connect();
        connection.send_lossy(
            format!("{head}0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n")
                .as_bytes(),
        );
        assert!(
            matches!(connection.read("POST").status, 400 | 501),
            "{head}"
        );
        connection.expect_end();
    }
    responder.assert_not_called();
}

/// Pingora before 0.8: the default cache key left the host out. Here two hosts over one root never share more than the file.
#[test]
fn cve_2026_2836_two_hosts_share_no_answer() {
    let (one, other) = (DocumentRoot::wordpress(), DocumentRoot::wordpress());
    other.write("wp-content/themes/t/style.css", b"other");
    let config = Config::static_files(&one)
        .site("hosts", "[\"one.org\"]")
        .also("static", other.path())
        .site("hosts", "[\"other.org\"]");
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    for _ in 0..5 {
        connection
            .get_with(STYLE_PATH, &[("Host", "one.org")])
            .assert(200, STYLE_BYTES);
        connection
            .get_with(STYLE_PATH, &[("Host", "other.org")])
            .assert(200, b"other");
    }
}

/// The same fault (CVE-2026-2836) in the page cache, in memory and on disk, asked by every way to name a host.
#[test]
fn cve_2026_2836_two_hosts_share_no_page() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let folder = root.outside().join("pages");
    std::fs::create_dir(&folder).unwrap();
    for kept in ["memory", "disk"] {
        let config = Config::wordpress(&root, &responder)
            .site("page_cache", kept)
            .pages_in(&folder);
        let server = Nostat::start(&config);
        let page = |host: &str| {
            responder.on(
                "/page/",
                Script::answers(format!("Content-Type: text/html\r\n\r\n{host}")),
            );
        };
        let hosts = ["one.org", "other.org", "one.org.other.org", "one.org:8080"];
        for host in hosts {
            page(host);
            let answer = server.get_with("/page/", &[("Host", host)]);
            assert_eq!(answer.text(), host, "{kept}");
        }
        page("nobody's");
        for host in hosts {
            let answer = server.get_with("/page/", &[("Host", host)]);
            // Kept for this host, or made anew; never what another one was told.
            assert!(
                [host, "nobody's"].contains(&&*answer.text()),
                "{kept}: {host}: {answer}"
            );
        }
        server
            .get_with("/page/", &[("Host", "one.org")])
            .assert(200, b"one.org");
        // The host of the target counts, not that of the field (RFC 9112 §3.2.2).
        let bytes =
            b"GET http://other.org/page/ HTTP/1.1\r\nHost: one.org\r\nConnection: close\r\n\r\n";
        server.send_raw(bytes).assert(200, b"other.org");
    }
}

/// Pingora before 0.5 (CVE-2025-4366): the body of a request that was answered from the cache was the next request.
#[test]
fn cve_2025_4366_a_body_that_nobody_reads_is_no_request() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).site("page_cache", "memory");
    let server = Nostat::start(&config);
    responder.on(
        "/kept/",
        Script::answers("Content-Type: text/html\r\n\r\nkept"),
    );
    server.get("/kept/").assert(200, b"kept");
    server.get("/kept/").assert(200, b"kept");
    let tag = server.settled(STYLE_PATH).etag().to_owned();
    responder.forget();
    let smuggled = b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let length = smuggled.len().to_string();
    let chunked = [
        format!("{:x}\r\n", smuggled.len()).as_bytes(),
        smuggled,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    for (path, more, status) in [
        ("/kept/", None, 200),
        (STYLE_PATH, None, 200),
        (STYLE_PATH, Some(("If-None-Match", &*tag)), 304),
        ("/wp-content/missing.css", None, 404),
        ("/wp-config.php", None, 403),
        ("/wp-content", None, 301),
    ] {
        for (framing, body) in [
            (("Content-Length", &*length), &smuggled[..]),
            (("Transfer-Encoding", "chunked"), &chunked),
        ] {
            let mut fields = vec![framing];
            fields.extend(more);
            let mut connection = server.connect();
            let mut bytes = format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n").into_bytes();
            for (name, value) in fields {
                bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
            connection.send(&[&bytes, body].concat());
            let answer = connection.read("GET");
            // Only a page is asked of PHP anew, as its visitor has brought a body.
            if answer.status != 200 || path != "/kept/" {
                assert_eq!(answer.status, status, "{path}");
            }
            connection.expect_in_step_after(&answer, STYLE_PATH, STYLE_BYTES);
        }
    }
    let asked: Vec<String> = responder
        .requests()
        .iter()
        .map(|it| it.param("REQUEST_URI").to_owned())
        .collect();
    assert!(
        !asked.iter().any(|uri| uri.contains("smuggled")),
        "{asked:?}"
    );
}

/// Two sites over one root with rules of their own: the facts are shared, the heads are not.
#[test]
fn sites_that_share_a_root_keep_their_own_rules() {
    let root = DocumentRoot::wordpress();
    let config = Config::static_files(&root)
        .site("hosts", "[\"one.org\"]")
        .site(
            "cache_control",
            "[{match: \"*.css\", value: \"max-age=1\"}]",
        )
        .also("static", root.path())
        .site("hosts", "[\"two.org\"]")
        .site(
            "cache_control",
            "[{match: \"*.css\", value: \"max-age=2\"}]",
        )
        .also("static", root.path())
        .site("hosts", "[\"three.org\"]")
        .site("deny", "[\"/wp-content/\"]");
    let server = Nostat::start(&config);
    let mut connection = server.connect();
    for _ in 0..4 {
        assert_eq!(
            connection
                .get_with(STYLE_PATH, &[("Host", "one.org")])
                .field("cache-control"),
            Some("max-age=1")
        );
        assert_eq!(
            connection
                .get_with(STYLE_PATH, &[("Host", "two.org")])
                .field("cache-control"),
            Some("max-age=2")
        );
        assert!(matches!(
            connection
                .get_with(STYLE_PATH, &[("Host", "three.org")])
                .status,
            403 | 404
        ));
    }
}

/// pingora #447: the deadline of a head restarted with every byte; see also `hostile_requests`.
#[test]
fn pingora_447_a_request_line_in_single_bytes_is_one_request() {
    let (_root, _responder, server) = Nostat::wordpress();
    let mut connection = server.connect();
    connection.send_bytewise(&request("GET", STYLE_PATH, &[], b""));
    connection.read("GET").assert(200, STYLE_BYTES);
    connection.send_bytewise(&request("POST", "/p", &[], b"body"));
    connection.read("POST").assert(200, b"php POST /p 4");
}

/// haproxy #3316: an early answer to a large upload was lost to a reset.
#[test]
fn haproxy_3316_an_early_refusal_is_read_by_a_client_that_sends_on() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{max_body: 1MiB}"));
    for _ in 0..20 {
        let mut connection = server.connect();
        connection.send_lossy(
            b"POST /p HTTP/1.1\r\nHost: example.com\r\nContent-Length: 8000000\r\n\r\n",
        );
        for _ in 0..8 {
            connection.send_lossy(&[b'x'; 100_000]);
        }
        assert_eq!(connection.read("POST").status, 413);
    }
    responder.assert_not_called();
}

/// pingora #320: a 304 or 204 with a body put the connection out of step.
#[test]
fn pingora_320_a_body_behind_204_is_dropped() {
    let (_root, responder, server) = Nostat::wordpress();
    responder.on(
        "/b",
        Script::answers(
            "Status: 204\r\nContent-Length: 50\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
    );
    let mut connection = server.connect();
    assert_eq!(connection.get("/b").status, 204);
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

/// FASTCGI.md, trap of FPM's parser: a pair must not be cut by a record; the fake responder refuses one that is.
#[test]
fn parameters_are_cut_between_pairs_at_every_offset() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).top("limits", "{head_size: 256KiB}"));
    let mut connection = server.connect();
    for shift in 0..40 {
        let (first, second) = ("a".repeat(63_800 + shift * 37), "b".repeat(40_000));
        let response = connection.get_with("/p", &[("X-A", &first), ("X-B", &second)]);
        assert_eq!(response.status, 200, "{shift}");
        let seen = responder.last_request();
        assert_eq!(
            (seen.param("HTTP_X_A").len(), seen.param("HTTP_X_B").len()),
            (first.len(), second.len())
        );
    }
}
