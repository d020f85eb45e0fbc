//! `X-Accel-Redirect` and `X-Sendfile` from PHP.

use std::fs;

use crate::support::document_root::{DocumentRoot, PHP_SOURCE, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

const BOOK: &str = "wp-content/uploads/woocommerce_uploads/my book.pdf";
const BOOK_BYTES: &[u8] = b"%PDF-1.4 0123456789";

/// A shop whose downloads are closed to all but PHP.
fn shop() -> (DocumentRoot, FakeResponder) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write(
        "wp-content/uploads/woocommerce_uploads/.htaccess",
        b"deny from all\n",
    );
    root.write(BOOK, BOOK_BYTES);
    root.write("private/a.bin", b"private");
    root.write(".env", SECRET.as_bytes());
    root.write("a.php.css", b"fine");
    (root, responder)
}

fn answers(fields: &str) -> Script {
    Script::answers(format!(
        "Content-Type: application/x-book\r\n{fields}\r\n\r\nnever sent {SECRET}"
    ))
}

#[test]
fn php_gives_a_file_away_that_is_closed_to_others() {
    let (root, responder) = shop();
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).site("deny", "[\"/private\"]"));
    assert_eq!(
        server
            .get("/wp-content/uploads/woocommerce_uploads/my%20book.pdf")
            .status,
        403
    );
    let kept = "Content-Disposition: attachment; filename=\"b.pdf\"\r\nCache-Control: private\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nExpires: 0";
    let absolute = root.path().join(BOOK).display().to_string();
    for field in [
        "X-Accel-Redirect: /wp-content/uploads/woocommerce_uploads/my%20book.pdf".to_owned(),
        format!("X-Sendfile: {absolute}"),
        format!("x-sendfile: {absolute}"),
    ] {
        responder.on("/download", answers(&format!("{kept}\r\n{field}")));
        let mut connection = server.connect();
        let response = connection.get("/download");
        response.assert(200, BOOK_BYTES);
        for (name, value) in [
            ("content-type", "application/x-book"),
            ("content-disposition", "attachment; filename=\"b.pdf\""),
            ("cache-control", "private"),
            ("expires", "0"),
        ] {
            assert_eq!(response.field(name), Some(value), "{field}");
        }
        assert_eq!(
            response.lines("set-cookie").collect::<Vec<_>>(),
            ["a=1", "b=2"],
            "{field}"
        );
        assert_eq!(
            (
                response.field("x-accel-redirect"),
                response.field("x-sendfile")
            ),
            (None, None)
        );
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
    responder.on("/download", answers("X-Accel-Redirect: /private/a.bin"));
    server.get("/download").assert(200, b"private");
}

#[test]
fn such_a_file_has_ranges_and_preconditions() {
    let (root, responder) = shop();
    responder.on(
        "/download",
        answers(&format!("X-Sendfile: {}", root.path().join(BOOK).display())),
    );
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let full = server.settled("/download");
    full.assert(200, BOOK_BYTES);
    let mut connection = server.connect();
    let part = connection.get_with("/download", &[("Range", "bytes=9-12")]);
    part.assert(206, b"0123");
    assert_eq!(part.field("content-range"), Some("bytes 9-12/19"));
    assert_eq!(
        connection
            .get_with("/download", &[("If-None-Match", full.etag())])
            .status,
        304
    );
    assert_eq!(
        connection
            .get_with("/download", &[("Range", "bytes=99-")])
            .status,
        416
    );
    let head = connection.request("HEAD", "/download", &[], b"");
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("19"))
    );
    connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
}

#[test]
fn php_gives_no_source_no_secret_and_nothing_outside_away() {
    let (root, responder) = shop();
    fs::write(root.outside().join("outside.txt"), SECRET).unwrap();
    root.write("wp-content/uploads/x.php", PHP_SOURCE);
    root.link(
        "wp-content/uploads/out.txt",
        root.outside().join("outside.txt"),
    );
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let inside = root.path().display();
    let outside = root.outside().join("outside.txt");
    for field in [
        "X-Accel-Redirect: /wp-config.php".to_owned(),
        "X-Accel-Redirect: /wp-content/uploads/x.php".to_owned(),
        "X-Accel-Redirect: /.env".to_owned(),
        "X-Accel-Redirect: /%2eenv".to_owned(),
        "X-Accel-Redirect: /../outside.txt".to_owned(),
        "X-Accel-Redirect: /wp-content/..%2f..%2foutside.txt".to_owned(),
        "X-Accel-Redirect: /wp-content/uploads/out.txt".to_owned(),
        "X-Accel-Redirect: wp-config.php".to_owned(),
        "X-Accel-Redirect: /nowhere.bin".to_owned(),
        "X-Accel-Redirect: ".to_owned(),
        "X-Accel-Redirect: /%00".to_owned(),
        format!("X-Sendfile: {inside}/wp-config.php"),
        format!("X-Sendfile: {inside}/.env"),
        format!("X-Sendfile: {inside}/../outside.txt"),
        format!("X-Sendfile: {inside}-other/outside.txt"),
        format!("X-Sendfile: {}", outside.display()),
        "X-Sendfile: /etc/passwd".to_owned(),
        "X-Sendfile: wp-config.php".to_owned(),
    ] {
        responder.on("/download", answers(&field));
        let mut connection = server.connect();
        let response = connection.get("/download");
        assert!(
            matches!(response.status, 403 | 404 | 500 | 502),
            "{field}: {response}"
        );
        assert!(
            !response.text().contains(SECRET) && !response.text().contains("root:"),
            "{field}: {response}"
        );
        assert_eq!(
            (
                response.field("x-accel-redirect"),
                response.field("x-sendfile")
            ),
            (None, None),
            "{field}"
        );
        connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
    }
    responder.on("/download", answers("X-Accel-Redirect: /a.php.css"));
    server.get("/download").assert(200, b"fine");
}

#[test]
fn a_file_is_found_by_the_path_that_php_sees() {
    let (root, responder) = shop();
    let config = Config::wordpress(&root, &responder).site(
        "php",
        &format!("{{address: \"{}\", root: /srv/www}}", responder.address()),
    );
    let server = Nostat::start(&config);
    responder.on(
        "/download",
        answers(&format!("X-Sendfile: /srv/www/{BOOK}")),
    );
    server.get("/download").assert(200, BOOK_BYTES);
}
