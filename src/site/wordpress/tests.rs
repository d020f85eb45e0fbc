use super::*;

fn layout() -> Layout {
    Layout::new(&[
        "wp-content".to_owned(),
        "app".to_owned(),
        "/public/content/".to_owned(),
    ])
}

#[track_caller]
fn check(what: impl Fn(&[u8]) -> bool, yes: &[&str], no: &[&str]) {
    for path in yes {
        assert!(what(path.as_bytes()), "{path}");
    }
    for path in no {
        assert!(!what(path.as_bytes()), "{path}");
    }
}

#[test]
fn folders_of_wordpress_are_whole_segments_at_any_depth() {
    let layout = layout();
    check(
        |path| layout.is_of_wordpress(path),
        &[
            "wp-content/x",
            "wp-content",
            "blog/wp-includes/a",
            "WP-ADMIN/",
            "app/uploads/a",
            "public/content/a",
            "x/Public/Content/a",
        ],
        &[
            "wp-contents/x",
            "xwp-content/x",
            "2024/hello",
            "",
            "public/x",
            "application/x",
        ],
    );
}

#[test]
fn private_folders_of_plugins() {
    let layout = layout();
    check(
        |path| layout.is_private(path),
        &[
            "wp-content/updraft/a.zip",
            "wp-content/updraft",
            "wp-content/ai1wm-backups/x",
            "app/backups-dup-pro/x",
            "wp-content/BACKUP-DB/x",
            "wp-content/wflogs/",
            "wp-content/uploads/wc-logs/x",
            "uploads/backwpup-1a2b/x",
            "blog/wp-content/uploads/sucuri/x",
            "wp-content/x/wp-content/updraft/y",
        ],
        &[
            "updraft/x",
            "wp-content/plugins/updraft/x",
            "wp-content/updraftplus/x",
            "wp-content/uploads/2024/wc-logs/x",
        ],
    );
}

#[test]
fn php_never_runs_where_uploads_and_updates_write() {
    let layout = layout();
    check(
        |path| layout.is_without_php(path),
        &[
            "wp-content/uploads/evil.php",
            "wp-content/UPLOADS/2024/evil.php",
            "app/uploads/x.php",
            "uploads/x.php",
            "wp-content/cache/x.php",
            "wp-content/upgrade/x/x.php",
            "wp-content/upgrade-temp-backup/x.php",
            "wp-content/blogs.dir/2/files/x.php",
            ".well-known/x.php",
        ],
        &[
            "wp-content/plugins/a/cache/x.php",
            "wp-admin/upgrade.php",
            "index.php",
            "uploads.php",
            "wp-content/uploads.php",
            "wp-content/plugins/upgrade/x.php",
            "wp-content/uploader/x.php",
        ],
    );
}

#[test]
fn names_that_are_never_given_away() {
    check(
        is_sensitive,
        &[
            "wp-config.php",
            "WP-CONFIG.PHP",
            "wp-config.php~",
            "wp-config.php.bak",
            "wp-config-sample.php",
            "a/wp-config.txt",
            "wp-config.php/",
            "wp-config.php/x.css",
            "wp-content/debug.log.1",
            "wp-content/debug.log.2.gz",
            "error_log.1",
            "a.bak.3",
            "wp-content/error_log",
            "php.ini",
            "nginx.conf",
            "web.config",
            "composer.json",
            "composer.lock",
            "package.json",
            "package-lock.json",
            "dump.sql",
            "dump.sql.gz",
            "a/db.SQLite3",
            "a.bak",
            "a.old",
            "a.orig",
            "a.save",
            "a.dist",
            "a.swp",
            "wp-content/debug.log",
            "style.css~",
        ],
        &[
            "wp-content/plugins/wp-config-editor/style.css",
            "a/mysql.css",
            "wp-config-explained/",
            "jquery.3.7.1",
            "style.css.gz",
            ".1",
            "1.2.3",
            "log",
            "composer",
            "packages.js",
            "style.css",
            "",
        ],
    );
}

#[test]
fn what_the_root_alone_hides() {
    check(
        is_private_in_root,
        &[
            "readme.html",
            "README.html",
            "license.txt",
            "backup.zip",
            "site.tar.gz",
            "export.xml.gz",
            "sitemap.zip",
            "a.7z",
            "a.wpress",
        ],
        &[
            "wp-content/uploads/a.zip",
            "docs/readme.html",
            "sitemap.xml.gz",
            "post-sitemap1.xml.gz",
            "index.html",
            "licenses.txt",
            "",
        ],
    );
}

#[test]
fn missing_assets_worth_no_start() {
    let layout = layout();
    check(
        |path| layout.is_asset(path),
        &[
            "wp-content/uploads/a.jpg",
            "wp-includes/x.JS",
            "wp-admin/css/x.css",
            "app/themes/x.woff2",
        ],
        &[
            "a.jpg",
            "robots.txt",
            "sitemap.xml",
            "favicon.ico",
            "wp-content/cache/minify/a.css",
            "wp-content/x/Cache/a.js",
            "wp-content/uploads/a",
            "wp-content/uploads/page/",
            "wp-content/x.php",
        ],
    );
}

#[test]
fn paths_of_sites_in_subdirectories() {
    assert_eq!(
        without_site(b"site/wp-content/a.css"),
        Some(&b"wp-content/a.css"[..])
    );
    assert_eq!(without_site(b"site/wp-admin"), Some(&b"wp-admin"[..]));
    assert_eq!(
        without_site(b"site/wp-login.php"),
        Some(&b"wp-login.php"[..])
    );
    assert_eq!(
        without_site(b"site/wp/wp-admin/css/a.css"),
        Some(&b"wp/wp-admin/css/a.css"[..])
    );
    assert_eq!(without_site(b"site/index.php/a"), Some(&b"index.php/a"[..]));
    assert_eq!(without_site(b"si.te/wp-login.php"), None);
    assert_eq!(without_site(b"wp-login.php"), None);
    assert_eq!(without_site(b"site/2024/hello"), None);
    assert_eq!(without_site(b"site/wp-contents/a"), None);
}

#[test]
fn files_of_old_networks() {
    assert_eq!(
        network_file(b"files/2010/a.jpg", false),
        Some(&b"2010/a.jpg"[..])
    );
    assert_eq!(network_file(b"site/files/a.jpg", true), Some(&b"a.jpg"[..]));
    assert_eq!(network_file(b"site/files/a.jpg", false), None);
    assert_eq!(network_file(b"files/", true), None);
    assert_eq!(network_file(b"files", true), None);
}
