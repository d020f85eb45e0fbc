//! What the WordPress preset never sends and never runs.

use crate::support::document_root::{DocumentRoot, PHP_SOURCE, SECRET};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};

/// 403 or 404, and not a byte of the file.
#[track_caller]
fn assert_refused(server: &Nostat, path: &str) {
    let response = server.get(path);
    assert!(matches!(response.status, 403 | 404), "{path}: {response}");
    assert!(!response.text().contains(SECRET), "{path}: {response}");
}

#[test]
fn dotfiles_are_refused_save_well_known() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for name in [
        ".git/config",
        ".env",
        ".htpasswd",
        "wp-content/.htaccess",
        "wp-content/.hidden/a.css",
        ".ht.css",
        ".user.ini",
        "a/.DS_Store",
    ] {
        root.write(name, SECRET.as_bytes());
    }
    root.write(".well-known/acme-challenge/t", b"token");
    root.write(".well-known/.secret", SECRET.as_bytes());
    let server = Nostat::start(&Config::wordpress(&root, &responder).site("htaccess", "ignore"));
    for path in [
        "/.git/config",
        "/.env",
        "/%2egit/config",
        "/%2Eenv",
        "/.htpasswd",
        "/wp-content/.htaccess",
        "/wp-content/.hidden/a.css",
        "/.ht.css",
        "/.user.ini",
        "/a/.DS_Store",
        "//.env",
        "/x/../.env",
        "/.well-known/.secret",
    ] {
        assert_refused(&server, path);
    }
    server
        .get("/.well-known/acme-challenge/t")
        .assert(200, b"token");
    responder.assert_not_called();
}

#[test]
fn a_root_below_a_hidden_folder_is_served() {
    let folder = DocumentRoot::empty();
    folder.write(".data/site/style.css", b"css");
    let server = Nostat::start(&Config::preset("static", &folder.path().join(".data/site")));
    server.get("/style.css").assert(200, b"css");
    server.get("/./style.css").assert(200, b"css");
}

#[test]
fn configuration_sources_and_backups_are_refused() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let names = [
        "wp-config.php~",
        "wp-config.php.bak",
        "wp-config-sample.php",
        "wp-config.txt",
        "WP-CONFIG.PHP",
        "sub/wp-config.old",
        "error_log",
        "php.ini",
        "nginx.conf",
        "web.config",
        "composer.json",
        "composer.lock",
        "package.json",
        "package-lock.json",
        "dump.sql",
        "dump.sql.gz",
        "wp-content/db.sqlite",
        "wp-content/themes/t/functions.bak",
        "a.old",
        "a.orig",
        "a.save",
        "a.dist",
        "a.swp",
        "wp-content/debug.log",
        "style.css~",
        "backup.zip",
        "site.tar.gz",
        "readme.html",
        "license.txt",
        "wp-content/updraft/b.txt",
        "wp-content/ai1wm-backups/b.wpress",
        "wp-content/backups-dup-lite/b.txt",
        "wp-content/backup-db/b.txt",
        "wp-content/wflogs/b.txt",
        "wp-content/uploads/wc-logs/b.txt",
        "wp-content/uploads/backwpup-1/b.txt",
        "wp-content/uploads/sucuri/b.txt",
        "index.PHP",
        "a.phtml",
        "a.phar",
        "a.phps",
        "a.pht",
        "a.inc",
        "a.php5",
        "wp-content/uploads/a.pHp",
        "sub/wp-content/uploads/wc-logs/c.txt",
    ];
    for name in names {
        root.write(name, SECRET.as_bytes());
    }
    root.write("wp-content/uploads/archive.zip", b"an upload");
    root.write("wp-content/plugins/p/readme.html", b"a plugin's");
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for name in names {
        let response = server.get(&format!("/{name}"));
        let refused = matches!(response.status, 403 | 404);
        assert!(
            refused && !response.text().contains(SECRET),
            "{name}: {response}"
        );
    }
    assert_refused(&server, "/wp-config.php");
    assert_refused(&server, "/%77p-config.php");
    assert_refused(&server, "/wp-content/../wp-config.php");
    server
        .get("/wp-content/uploads/archive.zip")
        .assert(200, b"an upload");
    server
        .get("/wp-content/plugins/p/readme.html")
        .assert(200, b"a plugin's");
    responder.assert_not_called();
}

#[test]
fn php_never_runs_where_files_are_uploaded() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let scripts = [
        "wp-content/uploads/x.php",
        "wp-content/uploads/2024/x.php",
        "wp-content/cache/x.php",
        "wp-content/upgrade/x.php",
        "wp-content/upgrade-temp-backup/x.php",
        "wp-content/blogs.dir/1/files/x.php",
        ".well-known/x.php",
        "app/uploads/x.php",
        "sub/wp-content/uploads/x.php",
        "WP-Content/Uploads/x.php",
        "private/x.php",
        "wp-content/uploads/index.php",
    ];
    for script in scripts {
        root.write(script, PHP_SOURCE);
    }
    root.write("wp-content/plugins/uploads-tool/run.php", PHP_SOURCE);
    let server =
        Nostat::start(&Config::wordpress(&root, &responder).site("no_php", "[\"/private/\"]"));
    for script in scripts {
        assert_refused(&server, &format!("/{script}"));
    }
    responder.assert_not_called();
    assert_eq!(
        server
            .get("/wp-content/plugins/uploads-tool/run.php")
            .status,
        200,
        "a name that only begins alike"
    );
}

#[test]
fn an_upload_is_no_script_whatever_follows_it() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("wp-content/uploads/evil.jpg", PHP_SOURCE);
    root.write("uploads/evil.jpg", PHP_SOURCE);
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for path in [
        "/wp-content/uploads/evil.jpg/x.php",
        "/uploads/evil.jpg/x.php",
        "/uploads/evil.jpg%00.php",
        "/index.php/../uploads/evil.jpg/.php",
        "/wp-content/uploads/evil.jpg/.php",
        "/uploads/evil.jpg/x.php/y",
        "/uploads/evil.jpg%2Fx.php",
    ] {
        let response = server.get(path);
        assert!(
            matches!(response.status, 400 | 403 | 404),
            "{path}: {response}"
        );
    }
    responder.assert_not_called();
}

#[test]
fn no_preset_sends_php_sources() {
    let root = DocumentRoot::empty();
    let names = [
        "a.php",
        "a.PHP",
        "a.php3",
        "a.php8",
        "a.phtml",
        "a.phar",
        "a.phps",
        "a.pht",
        "a.inc",
        "deep/er/a.php",
    ];
    for name in names {
        root.write(name, PHP_SOURCE);
    }
    let server = Nostat::start(&Config::static_files(&root));
    for name in names {
        assert_refused(&server, &format!("/{name}"));
        assert_refused(&server, &format!("/{name}/"));
    }
    let responder = FakeResponder::start();
    let config =
        Config::preset("php", root.path()).site("php", &format!("\"{}\"", responder.address()));
    let server = Nostat::start(&config);
    for name in ["a.PHP", "a.phtml", "a.phar", "a.phps", "a.inc"] {
        let response = server.get(&format!("/{name}"));
        assert!(!response.text().contains(SECRET), "{name}: {response}");
    }
}

#[test]
fn a_sites_own_denials_are_refused() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("private/a.css", SECRET.as_bytes());
    let server = Nostat::start(
        &Config::wordpress(&root, &responder).site("deny", "[\"/xmlrpc.php\", \"/private/\"]"),
    );
    assert_refused(&server, "/xmlrpc.php");
    assert_refused(&server, "//xmlrpc.php?rsd");
    assert_refused(&server, "/%78mlrpc.php");
    assert_refused(&server, "/private/a.css");
    responder.assert_not_called();
}

#[test]
fn a_password_in_a_query_is_told_by_no_log() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let target = format!("/login/?log=vera&pwd={SECRET}");
    responder.on(&target, Script::closes_after(""));
    let server = Nostat::start(
        &Config::wordpress(&root, &responder).top("access_log", "{path: \"-\", format: combined}"),
    );
    let referer = format!("http://example.com/?key={SECRET}");
    let failed = server.get_with(&target, &[("Referer", &referer)]);
    assert_eq!(failed.status, 502);
    eventually("the access log has it", || {
        server
            .output()
            .contains("/login/?log=vera&pwd=***")
            .then_some(())
    });
    for (name, log) in [("access log", server.output()), ("log", server.log())] {
        assert!(log.contains("/login/"), "{name}: {log}");
        assert!(!log.contains(SECRET), "{name}: {log}");
    }
}
