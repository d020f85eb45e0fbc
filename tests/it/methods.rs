//! GET, HEAD, OPTIONS and the methods that a file does not have.

use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

#[test]
fn head_has_the_head_of_get_and_no_body() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/big.js", &vec![b'x'; 300_000]);
    root.write("wp-content/empty.js", b"");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    server.settled("/wp-content/big.js");
    let mut connection = server.connect();
    for path in [
        STYLE_PATH,
        "/wp-content/big.js",
        "/wp-content/empty.js",
        "/wp-content/gone.js",
        "/wp-admin",
        "/a.php",
    ] {
        let head = connection.request("HEAD", path, &[], b"");
        let get = connection.get(path);
        assert_eq!(head.status, get.status, "{path}");
        let fields = |fields: &[(String, String)]| -> Vec<(String, String)> {
            fields
                .iter()
                .filter(|(name, _)| !name.eq_ignore_ascii_case("date"))
                .cloned()
                .collect()
        };
        assert_eq!(fields(&head.fields), fields(&get.fields), "{path}");
        assert_eq!(
            get.field("content-length"),
            Some(get.body.len().to_string().as_str()),
            "{path}"
        );
    }
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn options_on_a_file_is_204() {
    let root = DocumentRoot::wordpress();
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    let response = connection.request("OPTIONS", STYLE_PATH, &[], b"");
    assert_eq!(response.status, 204);
    assert!(
        response
            .field("allow")
            .is_some_and(|allow| allow.contains("GET")),
        "{response}"
    );
    assert!(matches!(
        connection.request("OPTIONS", "*", &[], b"").status,
        200 | 204
    ));
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn other_methods_on_a_file_are_405_with_allow() {
    let (_root, responder, server) = Nostat::wordpress();
    for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND", "get"] {
        let response = server.send(method, STYLE_PATH, &[], b"");
        assert_eq!(response.status, 405, "{method}");
        let allow = response.field("allow").unwrap_or_default();
        assert!(
            allow.contains("GET") && allow.contains("HEAD"),
            "{method}: {response}"
        );
    }
    // A body is not the next request, whatever is done with the connection.
    let mut connection = server.connect();
    let body = b"GET /wp-login.php HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let response = connection.request("POST", STYLE_PATH, &[], body);
    assert_eq!(response.status, 405);
    if response.closes() {
        connection.expect_end();
    } else {
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
    responder.assert_not_called();
}

#[test]
fn trace_and_connect_are_405_and_reach_nobody() {
    let (_root, responder, server) = Nostat::wordpress();
    for (method, target) in [
        ("TRACE", "/"),
        ("TRACE", STYLE_PATH),
        ("CONNECT", "example.com:443"),
        ("CONNECT", "127.0.0.1:22"),
    ] {
        let mut connection = server.connect();
        let response = connection.request(method, target, &[("X-Private", "kept-here")], b"");
        assert_eq!(response.status, 405, "{method} {target}: {response}");
        assert!(!response.text().contains("kept-here"), "{response}");
    }
    responder.assert_not_called();
}

#[test]
fn every_other_method_reaches_php_as_it_is() {
    let (_root, responder, server) = Nostat::wordpress();
    for method in [
        "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "REPORT",
    ] {
        let response = server.send(method, "/wp-json/x", &[], b"");
        response.assert(200, format!("php {method} /wp-json/x 0").as_bytes());
        assert_eq!(responder.last_request().param("REQUEST_METHOD"), method);
    }
    let mut connection = server.connect();
    let head = connection.request("HEAD", "/wp-json/x", &[], b"");
    assert_eq!(
        (
            head.status,
            responder.last_request().param("REQUEST_METHOD")
        ),
        (200, "HEAD")
    );
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}
