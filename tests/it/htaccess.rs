//! Access rules of `.htaccess` files.

use crate::support::document_root::{DocumentRoot, PHP_SOURCE, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat};

const AKISMET: &str = "# Only allow direct access to specific Web-available files.\n\
    # Apache 2.2\n<IfModule !mod_authz_core.c>\n\tOrder Deny,Allow\n\tDeny from all\n</IfModule>\n\
    # Apache 2.4\n<IfModule mod_authz_core.c>\n\tRequire all denied\n</IfModule>\n\
    # Akismet CSS and JS\n<FilesMatch \"^(form\\.js|akismet(-frontend|-admin)?\\.js|akismet\\.css)$\">\n\
    \t<IfModule !mod_authz_core.c>\n\t\tAllow from all\n\t</IfModule>\n\
    \t<IfModule mod_authz_core.c>\n\t\tRequire all granted\n\t</IfModule>\n</FilesMatch>\n";

const WORDPRESS: &str = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\n\
    RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n";

#[test]
fn a_folder_that_denies_is_denied_with_all_below_it() {
    for rule in [
        "deny from all",
        "Order deny,allow\nDeny from all",
        "Require all denied",
        "<IfModule mod_authz_core.c>\n  Require all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\n  Order allow,deny\n  Deny from all\n</IfModule>",
        "\u{20}\tDENY FROM ALL\r\n",
        "Options -Indexes\nDeny from all\nErrorDocument 403 /",
    ] {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        root.write(".htaccess", WORDPRESS.as_bytes());
        let folder = "wp-content/uploads/woocommerce_uploads";
        root.write(format!("{folder}/.htaccess"), rule.as_bytes());
        root.write(format!("{folder}/book.pdf"), SECRET.as_bytes());
        root.write(format!("{folder}/2024/book.pdf"), SECRET.as_bytes());
        root.write("wp-content/plugins/closed/.htaccess", rule.as_bytes());
        root.write("wp-content/plugins/closed/run.php", PHP_SOURCE);
        let server = Nostat::start(&Config::wordpress(&root, &responder));
        for path in [
            "book.pdf",
            "2024/book.pdf",
            "2024//book.pdf",
            "%62ook.pdf",
            "x/../book.pdf",
        ] {
            let response = server.get(&format!("/{folder}/{path}"));
            assert_eq!(response.status, 403, "{rule:?} {path}");
            assert!(!response.text().contains(SECRET));
        }
        assert_eq!(
            server.get("/wp-content/plugins/closed/run.php").status,
            403,
            "{rule:?}"
        );
        responder.assert_not_called();
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
        server.get("/a/page/").assert(200, b"php GET /a/page/ 0");
    }
}

#[test]
fn what_a_folder_grants_within_a_denial_is_sent() {
    let root = DocumentRoot::wordpress();
    let folder = "wp-content/plugins/akismet/_inc";
    root.write("wp-content/plugins/akismet/.htaccess", AKISMET.as_bytes());
    for name in [
        "akismet.css",
        "akismet.js",
        "akismet-admin.js",
        "form.js",
        "other.js",
        "akismet.css.map",
    ] {
        root.write(format!("{folder}/{name}"), name.as_bytes());
    }
    let server = Nostat::start(&Config::wordpress_alone(&root));
    for name in ["akismet.css", "akismet.js", "akismet-admin.js", "form.js"] {
        server
            .get(&format!("/{folder}/{name}"))
            .assert(200, name.as_bytes());
    }
    for name in ["other.js", "akismet.css.map"] {
        assert_eq!(
            server.get(&format!("/{folder}/{name}")).status,
            403,
            "{name}"
        );
    }
}

#[test]
fn files_sections_deny_by_name() {
    let root = DocumentRoot::wordpress();
    root.write("wp-content/f/.htaccess", b"<Files \"*.zip\">\nDeny from all\n</Files>\n<FilesMatch \"\\.(key|pem)$\">\nRequire all denied\n</FilesMatch>\n<Files one.css>\nRequire all denied\n</Files>\n");
    for name in [
        "a.zip",
        "a.key",
        "a.pem.css",
        "one.css",
        "two.css",
        "sub/one.css",
    ] {
        root.write(format!("wp-content/f/{name}"), name.as_bytes());
    }
    let server = Nostat::start(&Config::wordpress_alone(&root));
    for (name, status) in [
        ("a.zip", 403),
        ("a.key", 403),
        ("one.css", 403),
        ("sub/one.css", 403),
        ("a.pem.css", 200),
        ("two.css", 200),
    ] {
        assert_eq!(
            server.get(&format!("/wp-content/f/{name}")).status,
            status,
            "{name}"
        );
    }
}

#[test]
fn a_denial_that_comes_or_goes_counts_from_then_on() {
    let root = DocumentRoot::wordpress();
    root.write("wp-content/p/a.css", b"a");
    let server = Nostat::start(&Config::wordpress_alone(&root));
    for _ in 0..3 {
        server.get("/wp-content/p/a.css").assert(200, b"a");
    }
    root.write("wp-content/p/.htaccess", b"Deny from all\n");
    eventually("the denial counts", || {
        (server.get("/wp-content/p/a.css").status == 403).then_some(())
    });
    root.remove("wp-content/p/.htaccess");
    eventually("it is gone", || {
        (server.get("/wp-content/p/a.css").status == 200).then_some(())
    });
}

#[test]
fn a_site_may_ignore_them_all() {
    let root = DocumentRoot::wordpress();
    root.write("wp-content/p/.htaccess", b"Deny from all\n");
    root.write("wp-content/p/a.css", b"a");
    let server = Nostat::start(&Config::wordpress_alone(&root).site("htaccess", "ignore"));
    server.get("/wp-content/p/a.css").assert(200, b"a");
}

#[test]
fn a_rule_file_that_is_no_file_harms_nobody() {
    let root = DocumentRoot::wordpress();
    root.folder("wp-content/d/.htaccess");
    root.write("wp-content/d/a.css", b"a");
    root.write("wp-content/l/a.css", b"a");
    root.fifo("wp-content/l/.htaccess");
    root.write("wp-content/b/a.css", SECRET.as_bytes());
    root.write(
        "wp-content/b/.htaccess",
        &[b"Deny from all\n".as_slice(), &vec![b'#'; 1 << 20]].concat(),
    );
    let server = Nostat::start(&Config::wordpress_alone(&root));
    for path in ["/wp-content/d/a.css", "/wp-content/l/a.css"] {
        assert!(matches!(server.get(path).status, 200 | 403), "{path}");
    }
    assert_eq!(
        server.get("/wp-content/b/a.css").status,
        403,
        "too long to be read is no grant"
    );
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}
