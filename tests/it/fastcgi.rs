//! The parameters PHP is told about a request (RFC 3875 §4.1).

use std::sync::Arc;

use crate::support::document_root::{DocumentRoot, PHP_SOURCE};
use crate::support::fake_responder::{FakeResponder, Seen};
use crate::support::nostat::{Config, Nostat};

#[test]
fn scripts_and_permalinks_are_told_by_name_path_and_query() {
    let (root, responder, server) = Nostat::wordpress();
    // Target; SCRIPT_NAME, PATH_INFO, QUERY_STRING.
    for (target, script, path_info, query) in [
        ("/", "/index.php", "", ""),
        ("/?p=1", "/index.php", "", "p=1"),
        ("/2024/hello/", "/index.php", "", ""),
        (
            "/2024/hello/?a=%20b&c=%2F",
            "/index.php",
            "",
            "a=%20b&c=%2F",
        ),
        ("/caf%C3%A9/%2525/", "/index.php", "", ""),
        (
            "/index.php/wp-json/x?y=1",
            "/index.php",
            "/wp-json/x",
            "y=1",
        ),
        ("/index.php/a%20b/c", "/index.php", "/a b/c", ""),
        ("/index.php/", "/index.php", "/", ""),
        ("/index.php/x.php/y", "/index.php", "/x.php/y", ""),
        ("/wp-admin/", "/wp-admin/index.php", "", ""),
        ("/wp-admin/?page=x", "/wp-admin/index.php", "", "page=x"),
        ("/wp-login.php", "/wp-login.php", "", ""),
        ("//wp-login.php", "/wp-login.php", "", ""),
        ("/x/../wp-login.php?q=a?b", "/wp-login.php", "", "q=a?b"),
        ("/%77p-login.php", "/wp-login.php", "", ""),
    ] {
        assert_eq!(server.get(target).status, 200, "{target}");
        let seen = responder.last_request();
        assert_eq!(seen.param("REQUEST_URI"), target);
        assert_eq!(
            (
                seen.param("SCRIPT_NAME"),
                seen.param("PATH_INFO"),
                seen.param("QUERY_STRING")
            ),
            (script, path_info, query),
            "{target}"
        );
        let document_root = root.path().display().to_string();
        assert_eq!(
            seen.param("SCRIPT_FILENAME"),
            format!("{document_root}{script}")
        );
        assert_eq!(seen.param("DOCUMENT_ROOT"), document_root);
        if path_info.is_empty() {
            assert_eq!(seen.param("PATH_TRANSLATED"), "", "{target}");
        } else {
            assert_eq!(
                seen.param("PATH_TRANSLATED"),
                format!("{document_root}{path_info}"),
                "{target}"
            );
        }
        assert_eq!(
            seen.param("DOCUMENT_URI"),
            format!("{script}{path_info}"),
            "{target}"
        );
    }
}

#[test]
fn a_line_end_in_a_path_info_changes_no_script_name() {
    let (_root, responder, server) = Nostat::wordpress();
    let query = "Q".repeat(1750);
    for target in [
        "/index.php/PHP%0Ais",
        "/index.php/PHP%0ais",
        "/index.php/%0a",
        "/index.php%0a/x",
        "/index.php/PHP%0D%0Ais",
    ] {
        responder.forget();
        let response = server.get(&format!("{target}?{query}"));
        for seen in responder.requests() {
            assert_eq!(seen.param("SCRIPT_NAME"), "/index.php", "{target}");
            assert!(!seen.param("SCRIPT_FILENAME").contains('\n'), "{target}");
            let split = target.starts_with("/index.php/");
            assert!(
                !split || seen.param("PATH_INFO").contains('\n'),
                "{target}: empty PATH_INFO"
            );
        }
        assert!(
            response.status == 400 || responder.requests().len() == 1,
            "{target}: {response}"
        );
    }
}

#[test]
fn the_connection_and_the_server_are_told() {
    let (_root, responder, server) = Nostat::wordpress();
    server.get_with("/", &[("Host", "shop.example.com:8080")]);
    let seen = responder.last_request();
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "http"),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_NAME", "shop.example.com"),
        ("HTTP_HOST", "shop.example.com:8080"),
        ("HTTPS", ""),
    ] {
        assert_eq!(seen.param(name), value, "{name}");
    }
    assert_eq!(seen.param("SERVER_PORT"), server.port().to_string());
    assert!(
        seen.param("REMOTE_PORT").parse::<u16>().is_ok(),
        "REMOTE_PORT"
    );
    assert!(
        seen.param("SERVER_SOFTWARE").contains("nginx"),
        "WordPress looks for it"
    );
    assert!(!seen.keep, "connections are not kept by default");
    server.send_raw(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(
        responder.last_request().param("SERVER_PROTOCOL"),
        "HTTP/1.0"
    );
}

#[test]
fn fields_become_variables_save_those_that_could_deceive() {
    let (_root, responder, server) = Nostat::wordpress();
    let fields = [
        ("Accept-Language", "de"),
        ("Cookie", "a=1"),
        ("X-Many", "one"),
        ("Cookie", "b=2; c=3"),
        ("X-Many", "two, three"),
        ("Authorization", "Basic dTpw"),
        ("X_Under", "spoofed"),
        ("X-Under", "right"),
        ("Proxy", "http://evil:1"),
        ("proxy", "http://evil:2"),
        ("If-None-Match", "\"php's own\""),
        ("Range", "bytes=0-1"),
        ("Content-Type", "text/weird"),
    ];
    server.send("POST", "/wp-json/", &fields, b"body");
    let seen = responder.last_request();
    for (name, value) in [
        ("HTTP_ACCEPT_LANGUAGE", "de"),
        ("HTTP_COOKIE", "a=1; b=2; c=3"),
        ("HTTP_X_MANY", "one, two, three"),
        ("HTTP_AUTHORIZATION", "Basic dTpw"),
        ("HTTP_X_UNDER", "right"),
        ("HTTP_IF_NONE_MATCH", "\"php's own\""),
        ("CONTENT_TYPE", "text/weird"),
        ("CONTENT_LENGTH", "4"),
    ] {
        assert_eq!(seen.param(name), value, "{name}");
    }
    for name in ["HTTP_PROXY", "HTTP_TRANSFER_ENCODING"] {
        assert!(!seen.has(name), "{name}={}", seen.param(name));
    }
    server.get_with(
        "/",
        &[
            ("X_Under", "spoofed"),
            ("Content_Length", "7"),
            ("X.Dot", "d"),
            ("Script-Name", "/evil.php"),
            ("Https", "on"),
        ],
    );
    let seen = responder.last_request();
    assert!(
        !seen.has("HTTP_X_UNDER") && !seen.has("HTTP_CONTENT_LENGTH"),
        "names with an underscore"
    );
    assert_eq!(
        (
            seen.param("SCRIPT_NAME"),
            seen.param("HTTPS"),
            seen.param("CONTENT_LENGTH")
        ),
        ("/index.php", "", "")
    );
    server.send_raw(
        b"GET / HTTP/1.1\r\nHost: example.com\r\nX-Latin: caf\xe9\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(responder.last_request().params["HTTP_X_LATIN"], b"caf\xe9");
}

fn forwarded(server: &Nostat, responder: &FakeResponder, fields: &[(&str, &str)]) -> Arc<Seen> {
    assert_eq!(server.get_with("/", fields).status, 200);
    responder.last_request()
}

const FORWARDED: [(&str, &str); 6] = [
    ("X-Forwarded-For", "203.0.113.9, 198.51.100.7"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Port", "8443"),
    ("X-Forwarded-Host", "evil.org"),
    ("X-Real-IP", "203.0.113.9"),
    ("Forwarded", "for=203.0.113.9;proto=https"),
];

#[test]
fn forwarded_fields_of_a_stranger_are_dropped_and_logged_once() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let server = Nostat::start(&Config::wordpress(&root, &responder).top("trusted_proxies", "[]"));
    let seen = forwarded(&server, &responder, &FORWARDED);
    assert_eq!(
        (
            seen.param("REMOTE_ADDR"),
            seen.param("HTTPS"),
            seen.param("SERVER_PORT")
        ),
        ("127.0.0.1", "", server.port().to_string().as_str())
    );
    let names: Vec<&String> = seen
        .params
        .keys()
        .filter(|name| name.contains("FORWARDED") || *name == "HTTP_X_REAL_IP")
        .collect();
    assert!(names.is_empty(), "{names:?}");
    forwarded(&server, &responder, &FORWARDED);
    server.wait_for_log(0, "trusted_proxies");
    assert_eq!(
        server.log().matches("trusted_proxies").count(),
        1,
        "{}",
        server.log()
    );
}

#[test]
fn forwarded_fields_of_a_trusted_proxy_tell_client_scheme_and_port() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .top("trusted_proxies", "[\"127.0.0.1/32\", \"198.51.100.0/24\"]");
    let server = Nostat::start(&config);
    let seen = forwarded(&server, &responder, &FORWARDED);
    assert_eq!(
        (
            seen.param("REMOTE_ADDR"),
            seen.param("HTTPS"),
            seen.param("SERVER_PORT")
        ),
        ("203.0.113.9", "on", "8443")
    );
    assert_eq!(seen.param("REQUEST_SCHEME"), "https");
    // The right-most address that is not trusted; what the client wrote before it is no address of its own.
    let seen = forwarded(
        &server,
        &responder,
        &[
            ("X-Forwarded-For", "10.0.0.1, 192.0.2.5"),
            ("X-Forwarded-Proto", "https"),
        ],
    );
    assert_eq!(
        (seen.param("REMOTE_ADDR"), seen.param("SERVER_PORT")),
        ("192.0.2.5", "443")
    );
    let seen = forwarded(
        &server,
        &responder,
        &[
            ("X-Forwarded-For", "not an address"),
            ("X-Forwarded-Proto", "gopher"),
        ],
    );
    assert_eq!(
        (seen.param("REMOTE_ADDR"), seen.param("HTTPS")),
        ("127.0.0.1", "")
    );
    let server = Nostat::start(&config.site("client_ip_header", "CF-Connecting-IP"));
    let seen = forwarded(
        &server,
        &responder,
        &[
            ("CF-Connecting-IP", "2001:db8::1"),
            ("X-Forwarded-For", "203.0.113.9"),
        ],
    );
    assert_eq!(seen.param("REMOTE_ADDR"), "2001:db8::1");
}

#[test]
fn long_heads_reach_php_whole_and_a_pair_too_long_is_431() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config =
        Config::wordpress(&root, &responder).top("limits", "{head_size: 512KiB, headers: 200}");
    let server = Nostat::start(&config);
    let wide = "w".repeat(3000);
    let fields: Vec<(String, String)> = (0..100)
        .map(|n| (format!("X-Wide-{n}"), format!("{n}{wide}")))
        .collect();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(server.get_with("/", &fields).status, 200);
    let seen = responder.last_request();
    for (number, (_, value)) in fields.iter().enumerate() {
        assert_eq!(seen.param(&format!("HTTP_X_WIDE_{number}")), *value);
    }
    for length in [126, 127, 128, 129, 60_000, 65_500] {
        let value = "v".repeat(length);
        assert_eq!(
            server.get_with("/", &[("X-V", &value)]).status,
            200,
            "{length}"
        );
        assert_eq!(responder.last_request().param("HTTP_X_V").len(), length);
    }
    responder.forget();
    let long = "v".repeat(70_000);
    assert_eq!(server.get_with("/", &[("X-V", &long)]).status, 431);
    responder.assert_not_called();
}

#[test]
fn php_may_see_the_tree_at_another_path() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).site(
        "php",
        &format!("{{address: \"{}\", root: /srv/www}}", responder.address()),
    );
    let server = Nostat::start(&config);
    server.get("/wp-admin/?x");
    let seen = responder.last_request();
    assert_eq!(
        (seen.param("SCRIPT_FILENAME"), seen.param("DOCUMENT_ROOT")),
        ("/srv/www/wp-admin/index.php", "/srv/www")
    );
    server.get("/index.php/a");
    assert_eq!(
        responder.last_request().param("PATH_TRANSLATED"),
        "/srv/www/a"
    );
}

#[test]
fn a_script_that_appears_is_run_as_itself() {
    let (root, responder, server) = Nostat::wordpress();
    assert_eq!(server.get("/new.php").status, 404);
    root.write("new.php", PHP_SOURCE);
    crate::support::eventually("the new script is run", || {
        (server.get("/new.php?x").status == 200).then_some(())
    });
    assert_eq!(responder.last_request().param("SCRIPT_NAME"), "/new.php");
}
