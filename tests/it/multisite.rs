//! WordPress networks in subdirectories and subdomains.

use crate::support::document_root::{DocumentRoot, STYLE_BYTES};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

#[test]
fn in_subdirectories_the_first_segment_is_a_sites_name() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/uploads/sites/2/a.jpg", b"of site 2");
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).site("multisite", "subdirectory"));
    server
        .get("/shop/wp-content/themes/t/style.css")
        .assert(200, STYLE_BYTES);
    server
        .get("/wp-content/themes/t/style.css")
        .assert(200, STYLE_BYTES);
    server
        .get("/shop/wp-content/uploads/sites/2/a.jpg")
        .assert(200, b"of site 2");
    server
        .get("/shop/wp-includes/js/jquery/jquery.min.js")
        .assert(200, b"jQuery");
    for (target, script) in [
        ("/shop/wp-login.php?x=1", "/wp-login.php"),
        ("/shop/wp-admin/", "/wp-admin/index.php"),
        ("/shop/wp-admin/admin-ajax.php", "/wp-admin/admin-ajax.php"),
        ("/shop/xmlrpc.php", "/xmlrpc.php"),
        ("/shop/2024/hello/", "/index.php"),
        ("/shop/", "/index.php"),
        ("/wp-admin/", "/wp-admin/index.php"),
    ] {
        assert_eq!(server.get(target).status, 200, "{target}");
        let seen = responder.last_request();
        assert_eq!(
            (seen.param("SCRIPT_NAME"), seen.param("REQUEST_URI")),
            (script, target)
        );
        assert_eq!(
            seen.param("SCRIPT_FILENAME"),
            format!("{}{script}", root.path().display())
        );
    }
    responder.forget();
    let redirect = server.get("/shop/wp-admin?x=1");
    assert!(matches!(redirect.status, 301 | 308), "{redirect}");
    assert_eq!(redirect.field("location"), Some("/shop/wp-admin/?x=1"));
    for path in [
        "/shop/wp-config.php",
        "/shop/wp-content/gone.css",
        "/shop/wp-content/uploads/x.php",
    ] {
        assert!(matches!(server.get(path).status, 403 | 404), "{path}");
    }
    responder.assert_not_called();
}

#[test]
fn without_a_network_no_segment_is_taken_away() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for mode in ["off", "subdomain"] {
        let server = Nostat::start(&Config::wordpress(&root, &responder).site("multisite", mode));
        assert_eq!(
            server.get("/shop/wp-content/themes/t/style.css").status,
            404,
            "{mode}"
        );
        assert_eq!(server.get("/shop/wp-login.php").status, 404, "{mode}");
        server
            .get("/wp-content/themes/t/style.css")
            .assert(200, STYLE_BYTES);
        server.get("/shop/").assert(200, b"php GET /shop/ 0");
    }
}

#[test]
fn php_never_runs_below_the_files_of_a_network() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("files/x.php", b"<?php");
    root.write("shop/files/x.php", b"<?php");
    for (mode, paths) in [
        ("subdirectory", &["/files/x.php", "/shop/files/x.php"][..]),
        ("subdomain", &["/files/x.php"]),
    ] {
        let server = Nostat::start(&Config::wordpress(&root, &responder).site("multisite", mode));
        for path in paths {
            let response = server.get(path);
            assert!(
                matches!(response.status, 403 | 404),
                "{mode} {path}: {response}"
            );
        }
    }
    responder.assert_not_called();
}
