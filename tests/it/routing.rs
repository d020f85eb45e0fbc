//! Which paths are files, which are PHP, which are nobody's.

use crate::support::client::Response;
use crate::support::document_root::{
    DocumentRoot, PHP_SOURCE, STYLE_BYTES, STYLE_MODIFIED, STYLE_PATH,
};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

/// The responder's answer to this request.
#[track_caller]
fn assert_by_php(responder: &FakeResponder, response: &Response, script: &str) {
    assert!(
        response.status == 200 && response.text().starts_with("php "),
        "not by PHP: {response}"
    );
    assert_eq!(responder.last_request().param("SCRIPT_NAME"), script);
}

#[test]
fn a_file_is_sent_with_type_length_validators_and_caching() {
    let (_root, responder, server) = Nostat::wordpress();
    let style = server.get(STYLE_PATH);
    style.assert(200, STYLE_BYTES);
    assert_eq!(style.field("content-length"), Some("10"));
    assert_eq!(
        style
            .field("content-type")
            .map(str::to_ascii_lowercase)
            .as_deref(),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(style.last_modified(), STYLE_MODIFIED);
    assert!(style.etag().ends_with('"'), "{style}");
    assert_eq!(style.field("x-content-type-options"), Some("nosniff"));
    assert!(
        style
            .field("vary")
            .is_some_and(|value| value.eq_ignore_ascii_case("accept-encoding")),
        "{style}"
    );
    assert!(style.field("date").is_some(), "{style}");
    let photo = server.get("/wp-content/uploads/2024/01/photo.jpg");
    assert_eq!(
        (photo.status, photo.field("content-type")),
        (200, Some("image/jpeg"))
    );
    assert_eq!(photo.field("vary"), None, "a picture has no variants");
    responder.assert_not_called();
}

#[test]
fn a_script_that_exists_is_run_and_a_directory_runs_its_index() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("docs/index.html", b"<p>docs");
    root.write("both/index.html", b"<p>both");
    root.write("both/index.php", PHP_SOURCE);
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for (path, script) in [
        ("/", "/index.php"),
        ("/index.php", "/index.php"),
        ("/wp-login.php?action=lostpassword", "/wp-login.php"),
        ("/wp-admin/", "/wp-admin/index.php"),
        ("/wp-admin/admin-ajax.php", "/wp-admin/admin-ajax.php"),
        ("/both/", "/both/index.php"),
        ("/wp-content/", "/wp-content/index.php"),
        ("/xmlrpc.php", "/xmlrpc.php"),
    ] {
        assert_by_php(&responder, &server.get(path), script);
    }
    server.get("/docs/").assert(200, b"<p>docs");
}

#[test]
fn what_does_not_exist_is_asked_of_the_front_controller() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.folder("plain");
    root.write("wp-content/cache/kept.css", b"kept");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for path in [
        "/2024/hello/",
        "/2024/hello?p=1",
        "/wp-json/wp/v2/posts",
        "/robots.txt",
        "/favicon.ico",
        "/sitemap.xml",
        "/wp-sitemap-posts-post-1.xml",
        "/feed/",
        "/plain/",
        "/category/a.b/",
        // W3 Total Cache makes these when they are first asked for.
        "/wp-content/cache/minify/1.css",
        "/nowhere/photo.jpg",
    ] {
        assert_by_php(&responder, &server.get(path), "/index.php");
    }
}

#[test]
fn a_missing_asset_of_wordpress_is_not_found_without_php() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.folder("wp-content/plugins/noindex");
    root.folder("wp-includes/css");
    root.folder("wp-admin/css");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for path in [
        "/wp-content/uploads/2024/01/gone.jpg",
        "/wp-content/themes/t/gone.css",
        "/wp-content/themes/gone/style.css?ver=6.5",
        "/wp-includes/js/gone.js",
        "/wp-admin/css/gone.css",
        "/WP-Content/themes/t/gone.woff2",
        "/blog/wp-content/themes/t/gone.png",
        // Folders without an index.
        "/wp-content/plugins/noindex/",
        "/wp-includes/css/",
        "/wp-admin/css/",
        // A script that is not there.
        "/gone.php",
        "/wp-admin/gone.php?x=1",
        "/wp-content/plugins/gone/ajax.php",
    ] {
        let response = server.get(path);
        assert_eq!(response.status, 404, "{path}: {response}");
        assert_eq!(response.field("cache-control"), Some("no-store"), "{path}");
    }
    responder.assert_not_called();
}

#[test]
fn missing_assets_and_scripts_go_to_php_where_a_site_says_so() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .site("missing_php", "wordpress")
        .site("missing_assets", "php");
    let server = Nostat::start(&config);
    assert_by_php(&responder, &server.get("/gone.php"), "/index.php");
    assert_by_php(
        &responder,
        &server.get("/wp-content/uploads/gone.jpg"),
        "/index.php",
    );
    let config = Config::wordpress(&root, &responder)
        .site("missing_assets_php", "[\"/wp-content/uploads/thumbs/**\"]");
    let server = Nostat::start(&config);
    assert_by_php(
        &responder,
        &server.get("/wp-content/uploads/thumbs/a/1.jpg"),
        "/index.php",
    );
    assert_eq!(server.get("/wp-content/uploads/1.jpg").status, 404);
}

#[test]
fn caching_of_files_follows_version_kind_and_the_sites_rules() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/themes/t/app.3f2a9c41.js", b"app");
    root.write("wp-content/themes/t/font.woff2", b"font");
    root.write("wp-content/themes/t/film.mp4", b"film");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for (path, value) in [
        (
            "/wp-content/themes/t/style.css",
            "public, max-age=0, must-revalidate",
        ),
        (
            "/wp-content/themes/t/style.css?x=1",
            "public, max-age=0, must-revalidate",
        ),
        (
            "/wp-content/themes/t/style.css?ver=6.5.2",
            "public, max-age=2592000",
        ),
        (
            "/wp-content/themes/t/style.css?a=b&v=2",
            "public, max-age=2592000",
        ),
        (
            "/wp-includes/js/jquery/jquery.min.js",
            "public, max-age=0, must-revalidate",
        ),
        (
            "/wp-content/themes/t/app.3f2a9c41.js",
            "public, max-age=2592000",
        ),
        (
            "/wp-content/uploads/2024/01/photo.jpg",
            "public, max-age=86400",
        ),
        ("/wp-content/themes/t/font.woff2", "public, max-age=86400"),
        ("/wp-content/themes/t/film.mp4", "public, max-age=86400"),
    ] {
        let response = server.get(path);
        assert_eq!(
            (response.status, response.field("cache-control")),
            (200, Some(value)),
            "{path}"
        );
    }
    let config = Config::wordpress(&root, &responder)
        .site(
            "cache_control",
            "[{match: \"*.woff2\", value: \"public, max-age=5, immutable\"}]",
        )
        .site(
            "headers",
            "[{match: \"*.woff2\", set: {Access-Control-Allow-Origin: \"*\"}}]",
        );
    let server = Nostat::start(&config);
    let font = server.get("/wp-content/themes/t/font.woff2");
    assert_eq!(
        font.field("cache-control"),
        Some("public, max-age=5, immutable")
    );
    assert_eq!(font.field("access-control-allow-origin"), Some("*"));
    let style = server.get(STYLE_PATH);
    assert_eq!(
        style.field("cache-control"),
        Some("public, max-age=0, must-revalidate")
    );
    assert_eq!(style.field("access-control-allow-origin"), None);
}

#[test]
fn the_media_type_is_told_by_the_name_alone() {
    let root = DocumentRoot::empty();
    let names = [
        ("a.JPG", "image/jpeg"),
        ("a.mjs", "text/javascript"),
        ("a.js", "text/javascript"),
        ("a.svg", "image/svg+xml"),
        ("a.woff2", "font/woff2"),
        ("a.avif", "image/avif"),
        ("a.webp", "image/webp"),
        ("a.webmanifest", "application/manifest+json"),
        ("a.json", "application/json"),
        ("a.html", "text/html; charset=utf-8"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.xml", "text/xml"),
        ("a.pdf", "application/pdf"),
        ("a.wasm", "application/wasm"),
        ("a.ico", "image/"),
        ("none", "application/octet-stream"),
        ("a.nosuchtype", "application/octet-stream"),
        (".hidden.css", ""),
    ];
    for (name, _) in names {
        root.write(name, b"<html><script>alert(1)</script>");
    }
    let server = Nostat::start(&Config::static_files(&root));
    let mut connection = server.connect();
    for (name, media_type) in names
        .into_iter()
        .filter(|(_, media_type)| !media_type.is_empty())
    {
        let response = connection.get(&format!("/{name}"));
        let sent = response
            .field("content-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        assert!(
            response.status == 200 && sent.starts_with(media_type),
            "{name}: {sent}"
        );
        assert_eq!(
            response.field("x-content-type-options"),
            Some("nosniff"),
            "{name}"
        );
    }
}

#[test]
fn a_site_is_chosen_by_the_longest_match_of_its_hosts() {
    let roots: Vec<DocumentRoot> = (0..3).map(|_| DocumentRoot::empty()).collect();
    for (root, text) in roots.iter().zip(["exact", "wild", "deep"]) {
        root.write("who.txt", text.as_bytes());
    }
    let config = Config::static_files(&roots[0])
        .site("hosts", "[\"example.com\"]")
        .also("static", roots[1].path())
        .site("hosts", "[\"*.example.com\"]")
        .also("static", roots[2].path())
        .site("hosts", "[\"*.deep.example.com\", \"[::1]\"]");
    let server = Nostat::start(&config);
    for (host, text) in [
        ("example.com", "exact"),
        ("EXAMPLE.com", "exact"),
        ("example.com:8080", "exact"),
        ("example.com.", "exact"),
        ("a.example.com", "wild"),
        ("a.b.example.com", "wild"),
        ("a.deep.example.com", "deep"),
        ("[::1]:80", "deep"),
    ] {
        let response = server.get_with("/who.txt", &[("Host", host)]);
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, text),
            "{host}"
        );
    }
    for host in [
        "other.org",
        "example.com.org",
        "notexample.com",
        "127.0.0.1",
    ] {
        let mut connection = server.connect();
        let response = connection.get_with("/who.txt", &[("Host", host)]);
        assert_eq!((response.status, response.closes()), (421, true), "{host}");
        connection.expect_end();
    }
    // A site without hosts takes what no other one does.
    let server = Nostat::start(&config.also("static", roots[1].path()));
    assert_eq!(
        server.get_with("/who.txt", &[("Host", "other.org")]).text(),
        "wild"
    );
}

#[test]
fn the_php_preset_runs_scripts_and_has_no_front_controller_of_wordpress() {
    let (root, responder) = (DocumentRoot::empty(), FakeResponder::start());
    root.write("index.php", PHP_SOURCE);
    root.write("app/run.php", PHP_SOURCE);
    root.write("app/style.css", b"css");
    let config =
        Config::preset("php", root.path()).site("php", &format!("\"{}\"", responder.address()));
    let server = Nostat::start(&config);
    assert_by_php(&responder, &server.get("/app/run.php?x"), "/app/run.php");
    assert_by_php(&responder, &server.get("/"), "/index.php");
    server.get("/app/style.css").assert(200, b"css");
    assert_eq!(server.get("/app/gone.php").status, 404);
}
