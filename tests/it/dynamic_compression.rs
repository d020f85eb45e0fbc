//! Answers of PHP and of origins are compressed as they pass, and only those that may be.

use std::io::{Read, Write};

use crate::admin::{ask, sample, with_socket};
use crate::support::client::{Connection, Response, request};
use crate::support::document_root::DocumentRoot;
use crate::support::fake_origin::FakeOrigin;
use crate::support::fake_responder::script::stdout;
use crate::support::fake_responder::{FakeResponder, Gate, Script, Step};
use crate::support::nostat::{Config, Nostat};

const HTML: &str = "Content-Type: text/html; charset=UTF-8\r\n";
const BROWSER: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br, zstd");
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

fn page() -> String {
    let line = |number: u32| format!("<p class=\"line\">This is line {number} of the page.</p>\n");
    (0..600).map(line).collect()
}

fn started(fields: &str, site: &[(&str, &str)]) -> (DocumentRoot, FakeResponder, Nostat) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/page/", Script::answers(format!("{fields}\r\n{}", page())));
    let config = Config::wordpress(&root, &responder);
    let config = site
        .iter()
        .fold(config, |config, (key, value)| config.site(key, value));
    let server = Nostat::start(&config);
    (root, responder, server)
}

#[track_caller]
fn decoded(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        Some("gzip") => {
            let mut decoder = flate2::read::GzDecoder::new(body);
            decoder.read_to_end(&mut plain).expect("whole");
            assert!(decoder.into_inner().is_empty(), "bytes behind the end");
        }
        Some("zstd") => plain = zstd::decode_all(body).expect("whole"),
        None => plain.extend_from_slice(body),
        other => panic!("{other:?}"),
    }
    plain
}

/// The coding of a whole, right answer.
#[track_caller]
fn coding_of(answer: &Response, content: &str) -> Option<String> {
    let coding = answer.field("content-encoding");
    assert!(
        decoded(coding, &answer.body) == content.as_bytes(),
        "{coding:?}: another content"
    );
    coding.map(str::to_owned)
}

#[test]
fn the_client_chooses() {
    let (_root, _responder, server) = started(HTML, &[]);
    for (asked, given) in [
        ("gzip", Some("gzip")),
        ("zstd", Some("zstd")),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, zstd;q=0.5", Some("gzip")),
        ("br, gzip;q=0.1", Some("gzip")),
        ("*", Some("zstd")),
        ("br", None),
        ("deflate", None),
        ("identity", None),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=0, zstd;q=0", None),
        ("gzipped", None),
        ("", None),
    ] {
        let answer = server.get_with("/page/", &[("Accept-Encoding", asked)]);
        assert_eq!(answer.status, 200, "{asked}");
        assert_eq!(coding_of(&answer, &page()).as_deref(), given, "{asked}");
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{asked}");
        assert!(given.is_none() || answer.field("content-length").is_none());
        assert!(given.is_none() || answer.body.len() < page().len() / 5);
    }
    assert_eq!(
        coding_of(&server.get("/page/"), &page()),
        None,
        "not asked for"
    );
}

#[test]
fn it_is_counted() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    responder.on("/page/", Script::answers(format!("{HTML}\r\n{}", page())));
    let (config, socket) = with_socket(&root, Config::wordpress(&root, &responder));
    let server = Nostat::start(&config);
    server.get("/page/");
    let answer = server.get_with("/page/", &[GZIP]);
    let metrics = ask(&socket, "GET", "/metrics").1;
    for (side, length) in [("in", page().len()), ("out", answer.body.len())] {
        let name = format!("nostat_dynamic_compression_bytes_total{{side=\"{side}\"}}");
        assert_eq!(sample(&metrics, &name), Some(length as u64));
    }
}

#[test]
fn what_is_not_text_or_must_stay_is_left_alone() {
    let (_root, responder, server) = started(HTML, &[]);
    let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coded.write_all(page().as_bytes()).unwrap();
    let coded = coded.finish().unwrap();
    for (fields, is_compressed, varies) in [
        ("Content-Type: TEXT/HTML\r\n", true, true),
        ("Content-Type: application/json\r\n", true, true),
        (
            "Content-Type: application/rss+xml; charset=UTF-8\r\n",
            true,
            true,
        ),
        ("Content-Type: text/css\r\nVary: Cookie\r\n", true, true),
        ("Status: 404\r\nContent-Type: text/html\r\n", true, true),
        ("Status: 500\r\nContent-Type: text/html\r\n", true, true),
        ("Content-Type: image/png\r\n", false, false),
        ("Content-Type: application/zip\r\n", false, false),
        ("Content-Type: text/event-stream\r\n", false, false),
        ("X-Nothing: 1\r\n", false, false),
        (
            "Content-Type: text/html\r\nCache-Control: private, No-Transform\r\n",
            false,
            false,
        ),
        (
            "Status: 206\r\nContent-Type: text/html\r\nContent-Range: bytes 0-1/3\r\n",
            false,
            false,
        ),
        (
            "Content-Type: text/html\r\nRepr-Digest: sha-256=:AA==:\r\n",
            false,
            false,
        ),
        (
            "Content-Type: text/html\r\nContent-MD5: AA==\r\n",
            false,
            false,
        ),
    ] {
        responder.on("/x", Script::answers(format!("{fields}\r\n{}", page())));
        let answer = server.get_with("/x", &[GZIP]);
        assert_eq!(
            coding_of(&answer, &page()).is_some(),
            is_compressed,
            "{fields}"
        );
        let vary = answer.lines("vary").collect::<Vec<_>>().join(", ");
        assert_eq!(
            vary.contains("Accept-Encoding"),
            varies,
            "{fields}: {vary:?}"
        );
        assert_eq!(vary.contains("Cookie"), fields.contains("Cookie"));
    }
    let own = [
        b"Content-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n",
        &*coded,
    ]
    .concat();
    responder.on("/coded", Script::answers(own));
    let answer = server.get_with("/coded", &[BROWSER]);
    assert_eq!(answer.body, coded, "coded by the application: not again");
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
}

#[test]
fn short_answers_stay_as_they_are() {
    let (_root, responder, server) = started(HTML, &[]);
    for (length, is_compressed) in [(0, false), (1, false), (1023, false), (1024, true)] {
        let body = "a".repeat(length);
        let text = format!("{HTML}Content-Length: {length}\r\n\r\n{body}");
        responder.on("/short", Script::answers(text));
        let answer = server.get_with("/short", &[GZIP]);
        assert_eq!(
            coding_of(&answer, &body).is_some(),
            is_compressed,
            "{length}"
        );
        let said = answer.field("content-length").map(str::to_owned);
        assert_eq!(said, (!is_compressed).then(|| length.to_string()));
    }
}

#[test]
fn answers_without_content_get_no_trailer() {
    let (_root, responder, server) = started(&format!("{HTML}Content-Length: 90000\r\n"), &[]);
    let mut connection = server.connect();
    let head = connection.request("HEAD", "/page/", &[GZIP], b"");
    assert_eq!(head.field("content-encoding"), Some("gzip"));
    assert_eq!(head.field("content-length"), None);
    for status in [204, 205, 304] {
        let text = format!("Status: {status}\r\nContent-Type: text/html\r\n\r\n");
        responder.on("/none", Script::answers(text));
        let answer = connection.get_with("/none", &[GZIP]);
        assert_eq!((answer.status, answer.body.len()), (status, 0));
        assert_eq!(answer.field("content-encoding"), None);
    }
    responder.on("/redirect", Script::answers("Location: /page/\r\n\r\n"));
    assert_eq!(connection.get_with("/redirect", &[GZIP]).status, 302);
    connection.expect_in_step("/after", b"php GET /after 0");
}

#[test]
fn what_is_flushed_leaves_at_once() {
    for coding in ["gzip", "zstd"] {
        let (_root, responder, server) = started(HTML, &[]);
        let gate = Gate::default();
        responder.on(
            "/flushed",
            Script::new(vec![
                stdout(format!("{HTML}\r\n<html>the head")),
                Step::Wait(gate.clone()),
                stdout(" the rest"),
                Step::End,
            ]),
        );
        let mut connection = server.connect();
        connection.send(&request(
            "GET",
            "/flushed",
            &[("Accept-Encoding", coding)],
            b"",
        ));
        let head = connection.read_head_only();
        assert_eq!(head.field("content-encoding"), Some(coding));
        let first = chunk(&mut connection);
        // The gate is shut still.
        assert_eq!(beginning(coding, &first), b"<html>the head");
        gate.open();
        let mut all = first;
        loop {
            match chunk(&mut connection) {
                piece if piece.is_empty() => break,
                piece => all.extend_from_slice(&piece),
            }
        }
        assert_eq!(decoded(Some(coding), &all), b"<html>the head the rest");
        connection.expect_in_step("/after", b"php GET /after 0");
    }
}

fn chunk(connection: &mut Connection) -> Vec<u8> {
    let mut size = Vec::new();
    while !size.ends_with(b"\r\n") {
        size.extend(connection.read_bytes(1));
    }
    let size = str::from_utf8(&size).unwrap().trim();
    let size = usize::from_str_radix(size, 16).expect("a chunk's length");
    let mut chunk = connection.read_bytes(size + 2);
    chunk.truncate(size);
    chunk
}

/// What can be decoded of a stream that has not ended.
fn beginning(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let _ = match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
        _ => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut plain),
    };
    plain
}

#[test]
fn an_answer_that_is_not_whole_never_looks_whole() {
    let (_root, responder, server) = started(HTML, &[]);
    let long = page();
    for script in [
        Script::closes_after(format!("{HTML}\r\n{long}")),
        Script::answers(format!("{HTML}Content-Length: 90000\r\n\r\n{long}")),
    ] {
        responder.on("/cut", script);
        for coding in ["gzip", "zstd"] {
            let mut connection = server.connect();
            connection.send(&request("GET", "/cut", &[("Accept-Encoding", coding)], b""));
            match connection.try_read("GET") {
                Err(_) => {}
                Ok(answer) => assert_eq!(answer.status, 502, "{coding}"),
            }
        }
    }
}

#[test]
fn http_1_0_clients_get_it_plain() {
    let (_root, _responder, server) = started(HTML, &[]);
    let answer = server
        .send_raw(b"GET /page/ HTTP/1.0\r\nHost: example.com\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(coding_of(&answer, &page()), None);
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
}

#[test]
fn the_applications_tag_comes_back_to_it() {
    let (_root, responder, server) = started(&format!("{HTML}ETag: \"v1\"\r\n"), &[]);
    let answer = server.get_with("/page/", &[GZIP]);
    assert_eq!(answer.field("etag"), Some("W/\"v1-gzip\""));
    assert_eq!(server.get("/page/").field("etag"), Some("\"v1\""));
    responder.on(
        "/page/",
        Script::answers("Status: 304\r\nETag: \"v1\"\r\n\r\n"),
    );
    for (sent, seen, told) in [
        ("W/\"v1-gzip\"", "\"v1\"", "W/\"v1-gzip\""),
        ("W/\"v1-zstd\"", "\"v1\"", "W/\"v1-zstd\""),
        ("\"v1\"", "\"v1\"", "\"v1\""),
        ("W/\"v1\"", "W/\"v1\"", "\"v1\""),
        ("\"v1-gzip\"", "\"v1-gzip\"", "\"v1\""),
        (
            "\"a,b\", W/\"v1-gzip\" , W/\"c\"",
            "\"a,b\", \"v1\" , W/\"c\"",
            "W/\"v1-gzip\"",
        ),
        ("*", "*", "\"v1\""),
        ("W/\"v1-gzip", "W/\"v1-gzip", "\"v1\""),
    ] {
        let answer = server.get_with("/page/", &[GZIP, ("If-None-Match", sent)]);
        assert_eq!(answer.status, 304, "{sent}");
        let request = responder.last_request();
        assert_eq!(request.param("HTTP_IF_NONE_MATCH"), seen, "{sent}");
        assert_eq!(answer.field("etag"), Some(told), "{sent}");
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{sent}");
    }
    responder.on(
        "/page/",
        Script::answers(format!("{HTML}ETag: W/\"v2\"\r\n\r\n{}", page())),
    );
    let answer = server.get_with("/page/", &[GZIP]);
    assert_eq!(answer.field("etag"), Some("W/\"v2\""), "weak as it was");
}

#[test]
fn ranges_are_not_promised_of_what_is_compressed() {
    let (_root, _responder, server) = started(&format!("{HTML}Accept-Ranges: bytes\r\n"), &[]);
    let answer = server.get_with("/page/", &[GZIP]);
    assert_eq!(answer.field("accept-ranges"), None);
    let plain = server.get("/page/");
    assert_eq!(plain.field("accept-ranges"), Some("bytes"));
}

#[test]
fn another_site_cannot_measure_a_users_page() {
    let (_root, _responder, server) = started(HTML, &[]);
    for (fields, is_compressed) in [
        (&[("Cookie", "a=1")][..], true),
        (
            &[("Cookie", "a=1"), ("Sec-Fetch-Site", "same-origin")],
            true,
        ),
        (&[("Cookie", "a=1"), ("Sec-Fetch-Site", "none")], true),
        (
            &[("Cookie", "a=1"), ("Sec-Fetch-Site", "cross-site")],
            false,
        ),
        (&[("Cookie", "a=1"), ("Sec-Fetch-Site", "same-site")], false),
        (
            &[
                ("Cookie", "a=1"),
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-User", "?1"),
            ],
            true,
        ),
        (&[("Sec-Fetch-Site", "cross-site")], true),
    ] {
        let mut sent = vec![GZIP];
        sent.extend_from_slice(fields);
        let answer = server.get_with("/page/", &sent);
        assert_eq!(
            coding_of(&answer, &page()).is_some(),
            is_compressed,
            "{fields:?}"
        );
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    }
}

#[test]
fn a_page_is_kept_as_it_was_made() {
    let (_root, responder, server) = started(HTML, &[("page_cache", "memory")]);
    let first = server.get_with("/page/", &[BROWSER]);
    assert_eq!(coding_of(&first, &page()).as_deref(), Some("zstd"));
    assert!(first.field("cache-status").unwrap().contains("stored"));
    let vary: Vec<_> = first.lines("vary").collect();
    assert_eq!(vary, ["Accept-Encoding, Cookie"]);
    let plain = server.get("/page/");
    assert!(plain.field("cache-status").unwrap().contains("hit"));
    assert_eq!(coding_of(&plain, &page()), None);
    assert_eq!(responder.requests().len(), 1);
    let asked = responder.only_request();
    assert!(!asked.has("HTTP_ACCEPT_ENCODING"), "a page is for all");
}

#[test]
fn those_who_wait_for_a_page_get_it_in_their_coding() {
    let (_root, responder, server) = started(HTML, &[("page_cache", "memory")]);
    let gate = Gate::default();
    let text = format!("{HTML}\r\n{}", page());
    responder.on("/page/", Script::answers_after(&gate, text));
    let mut clients = Vec::new();
    for fields in [&[BROWSER][..], &[GZIP], &[]] {
        let mut connection = server.connect();
        connection.send(&request("GET", "/page/", fields, b""));
        clients.push(connection);
        responder.wait_for(1);
    }
    gate.open();
    let codings: Vec<_> = clients
        .iter_mut()
        .map(|client| coding_of(&client.read("GET"), &page()))
        .collect();
    let codings: Vec<_> = codings.iter().map(Option::as_deref).collect();
    assert_eq!(codings, [Some("zstd"), Some("gzip"), None]);
}

#[test]
fn an_origins_answers_too() {
    let root = DocumentRoot::wordpress();
    let answer = |length: usize| {
        let body = page();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nETag: \"o\"\r\n\r\n{body}"
        )
        .into_bytes()
    };
    let origin = FakeOrigin::start(move |request| match request.request_line() {
        line if line.contains("/short") => answer(page().len() + 1),
        _ => answer(page().len()),
    });
    let config = Config::preset("wordpress", root.path())
        .site("origin", &format!("[\"{}\"]", origin.address()));
    let server = Nostat::start(&config);
    let answer = server.get_with("/page/", &[GZIP]);
    assert_eq!(coding_of(&answer, &page()).as_deref(), Some("gzip"));
    assert_eq!(answer.field("etag"), Some("W/\"o-gzip\""));
    server.get_with("/page/", &[GZIP, ("If-None-Match", "W/\"o-gzip\"")]);
    let asked = origin.requests();
    assert_eq!(asked[1].field("if-none-match"), Some("\"o\""));
}

#[test]
fn the_settings_count() {
    let fields = format!("{HTML}Content-Length: {}\r\n", page().len());
    let text = |config: &str| started(&fields, &[("compression", config)]);
    for (config, is_compressed) in [
        ("off", false),
        ("{dynamic: off}", false),
        ("{files: off}", true),
        ("{types: [\"text/*\"]}", true),
        ("{types: [application/json]}", false),
        ("{min_size: 1KiB}", true),
        ("{min_size: 1MiB}", false),
    ] {
        let (_root, _responder, server) = text(config);
        let answer = server.get_with("/page/", &[GZIP]);
        assert_eq!(
            coding_of(&answer, &page()).is_some(),
            is_compressed,
            "{config}"
        );
    }
}

#[test]
fn a_file_in_phps_stead_keeps_its_ranges() {
    let (root, responder, server) = started(HTML, &[]);
    root.write("wp-content/uploads/list.csv", page().as_bytes());
    responder.on(
        "/download",
        Script::answers(
            "Content-Type: text/csv\r\nX-Accel-Redirect: /wp-content/uploads/list.csv\r\n\r\n",
        ),
    );
    let answer = server.get_with("/download", &[BROWSER]);
    assert_eq!(coding_of(&answer, &page()), None);
    let length = page().len().to_string();
    assert_eq!(answer.field("content-length"), Some(&*length));
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
}
