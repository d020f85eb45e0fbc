use super::*;

use Verdict::{Denied, Granted, Unsaid};

#[track_caller]
fn check(text: &str, expected: &[(&str, Verdict)]) {
    let rules = Rules::parse(text.as_bytes());
    for (name, verdict) in expected {
        assert_eq!(
            evaluate([&rules].into_iter(), name.as_bytes()),
            *verdict,
            "{name} by\n{text}"
        );
    }
}

fn folder(text: &str) -> Verdict {
    evaluate([&Rules::parse(text.as_bytes())].into_iter(), b"any.txt")
}

#[test]
fn both_dialects_deny_and_grant_all() {
    for text in [
        "deny from all",
        "Deny from all",
        "DENY FROM ALL\r\n",
        "Order deny,allow\nDeny from all",
        "Order allow,deny",
        "order Allow,Deny\nAllow from all\nDeny from all",
        "Require all denied",
        "require ALL Denied",
        "Require not all granted",
        "\u{feff}Deny from all",
        "Deny \\\n from \\\n all",
        "  Deny\tfrom\tall  ",
    ] {
        assert_eq!(folder(text), Denied, "{text}");
    }
    for text in [
        "Allow from all",
        "Order allow,deny\nAllow from all",
        "Order deny,allow\nDeny from all\nAllow from all",
        "Order deny,allow",
        "Require all granted",
        "Require all \"granted\"",
    ] {
        assert_eq!(folder(text), Granted, "{text}");
    }
}

#[test]
fn other_directives_and_comments_say_nothing() {
    for text in [
        "",
        "# Deny from all",
        "   # Require all denied",
        "Options -Indexes\nRewriteEngine On\nRewriteRule ^ - [F]",
        "<IfModule mod_rewrite.c>\nRewriteRule . /index.php [L]\n</IfModule>",
        "Denyfrom all",
        "Deny all",
        "<If \"%{REQUEST_METHOD} == 'PUT'\">\nRequire all denied\n</If>",
        "<Nonsense>\n<IfModule x>\nDeny from all\n</IfModule>\n</Nonsense>",
        "</Files>\n</IfModule>",
        "<",
        ">",
        "<>",
        "</>",
    ] {
        assert_eq!(folder(text), Unsaid, "{text}");
    }
}

#[test]
fn both_dialects_within_ifmodule() {
    let woocommerce = "<IfModule !mod_authz_core.c>\nOrder deny,allow\nDeny from all\n</IfModule>\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n";
    assert_eq!(folder(woocommerce), Denied);
}

#[test]
fn akismet_denies_all_and_grants_its_css_and_js() {
    check(
        r#"# Only allow direct access to specific Web-available files.
# Apache 2.2
<IfModule !mod_authz_core.c>
	Order Deny,Allow
	Deny from all
</IfModule>
# Apache 2.4
<IfModule mod_authz_core.c>
	Require all denied
</IfModule>
# Akismet CSS and JS
<FilesMatch "^(form\.js|akismet(-frontend|-admin)?\.js|akismet(-admin)?(-rtl)?\.css|inter\.css)$">
	<IfModule !mod_authz_core.c>
		Allow from all
	</IfModule>
	<IfModule mod_authz_core.c>
		Require all granted
	</IfModule>
</FilesMatch>"#,
        &[
            ("akismet.php", Denied),
            ("readme.txt", Denied),
            ("form.js", Granted),
            ("akismet-admin-rtl.css", Granted),
            ("xform.js", Denied),
        ],
    );
}

#[test]
fn files_sections_by_wildcard_expression_and_tilde() {
    check(
        "<Files \"*.log\">\nRequire all denied\n</Files>",
        &[("a.log", Denied), ("a.logx", Unsaid), ("a.css", Unsaid)],
    );
    check(
        "<Files wp-config.php>\norder allow,deny\ndeny from all\n</Files>",
        &[("wp-config.php", Denied), ("wp-config-php", Unsaid)],
    );
    check(
        "<Files debug?.l[ao]g>\nDeny from all\n</Files>",
        &[
            ("debug1.log", Denied),
            ("debug1.lag", Denied),
            ("debug.log", Unsaid),
        ],
    );
    check(
        "<Files ~ \"\\.(xml|css)$\">\nAllow from all\n</Files>\nDeny from all",
        &[("a.css", Granted), ("a.zip", Denied)],
    );
    check(
        "<FilesMatch '(?i)\\.ZIP$'>\nDeny from all\n</FilesMatch>",
        &[("a.zip", Denied), ("a.ZiP", Denied), ("a.css", Unsaid)],
    );
    check(
        "<filesmatch \\.pdf$>\nrequire all denied\n</FILESMATCH>",
        &[("a.pdf", Denied), ("a.css", Unsaid)],
    );
}

#[test]
fn later_files_sections_win_and_stand_above_the_folder() {
    check(
        "<Files *.css>\nAllow from all\n</Files>\n<Files a.*>\nDeny from all\n</Files>\nRequire all granted",
        &[("a.css", Denied), ("b.css", Granted), ("c.txt", Granted)],
    );
}

#[test]
fn what_cannot_be_verified_denies() {
    for text in [
        "Require ip 10.0.0.0/8",
        "Require valid-user",
        "Require host example.org",
        "Require user admin",
        "Order deny,allow\nDeny from all\nAllow from 10.0.0.1",
        "Order allow,deny\nDeny from 10.0.0.1",
        "Deny from env=bad",
        "Deny from env=!good",
        "Deny from 0.0.0.0/0",
        "Deny from ::/0",
        "Deny from 0.0.0.0/0.0.0.0",
        "Order allow,deny\nAllow from 10.0.0.1",
        "<RequireAll>\nRequire all granted\nRequire ip 10.0.0.1\n</RequireAll>",
        "<RequireAll>\nRequire not ip 10.0.0.1\n</RequireAll>",
        "<RequireNone>\nRequire all granted\n</RequireNone>",
    ] {
        assert_eq!(folder(text), Denied, "{text}");
    }
}

#[test]
fn a_list_of_unwanted_addresses_does_not_close_what_is_granted_to_all() {
    for text in [
        "Order allow,deny\nAllow from all\nDeny from 192.0.2.1 192.0.2.7",
        "Order Allow,Deny\nDeny from env=bad_bot\nAllow from all",
        "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.1\n</RequireAll>",
        "<RequireAny>\nRequire ip 10.0.0.1\nRequire all granted\n</RequireAny>",
        "Require ip 10.0.0.1\nRequire all granted",
        "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 192.0.2.1\n</RequireNone>",
    ] {
        assert_eq!(folder(text), Granted, "{text}");
    }
}

#[test]
fn a_list_of_unwanted_addresses_alone_says_nothing_of_everybody_else() {
    // As a hoster's panel writes it into the root.
    check(
        "<Files 403.shtml>\norder allow,deny\nallow from all\n</Files>\n\ndeny from 192.0.2.5\ndeny from 198.51.100.0/24 10. .example.org 2001:db8::/32",
        &[("index.php", Unsaid), ("a.css", Unsaid)],
    );
    assert_eq!(
        folder("Order deny,allow\nDeny from 192.0.2.5"),
        Granted,
        "an order is a word on everybody"
    );
    let outer = Rules::parse(b"Deny from all");
    let inner = Rules::parse(b"Deny from 192.0.2.5");
    assert_eq!(evaluate([&outer, &inner].into_iter(), b"a.css"), Denied);
}

#[test]
fn an_expression_may_begin_with_what_must_not_follow() {
    check(
        "<FilesMatch \"^(?!index\\.php$).*\\.php$\">\nDeny from all\n</FilesMatch>",
        &[
            ("index.php", Unsaid),
            ("a.php", Denied),
            ("index.php.php", Denied),
            ("a.css", Unsaid),
        ],
    );
    check(
        "<FilesMatch \"(?i)^(?!(?:a|[)]b)\\.css)(?=.*c)\">\nDeny from all\n</FilesMatch>",
        &[
            ("a.css", Unsaid),
            (")B.CSS", Unsaid),
            ("ab.css", Denied),
            ("x.txt", Unsaid),
        ],
    );
    for unreadable in ["^(?!a)b|c", "^(?!a", "^(?!a)?b", "^(?!a\\)", "^(?!(a)b"] {
        check(
            &format!("<FilesMatch \"{unreadable}\">\nDeny from all\n</FilesMatch>"),
            &[("zzz", Denied)],
        );
    }
}

#[test]
fn wildcards_escape_and_negate_as_fnmatch_does() {
    check(
        "<Files *\\.zip>\nDeny from all\n</Files>",
        &[("a.zip", Denied), ("azip", Unsaid)],
    );
    check(
        "<Files \"[!a]?[*].zip\">\nDeny from all\n</Files>",
        &[
            ("bx*.zip", Denied),
            ("ax*.zip", Unsaid),
            ("bxx.zip", Unsaid),
        ],
    );
    check(
        "<Files \"[0-9]*.log\">\nDeny from all\n</Files>",
        &[("7.log", Denied), ("a.log", Unsaid), ("-.log", Unsaid)],
    );
    check(
        "<Files \"[a.log\">\nDeny from all\n</Files>",
        &[("x", Denied)],
    );
}

#[test]
fn folders_of_plugins_as_plugins_write_them() {
    let backwpup = "<Files \"*\">\n<IfModule mod_access.c>\nDeny from all\n</IfModule>\n<IfModule !mod_access_compat>\n<IfModule mod_authz_host.c>\nDeny from all\n</IfModule>\n</IfModule>\n<IfModule mod_access_compat>\nDeny from all\n</IfModule>\n</Files>";
    assert_eq!(folder(backwpup), Denied);
    check(
        "Options -Indexes\ndeny from all\n<FilesMatch '\\.(jpg|jpeg|png|gif|mp3|ogg)$'>\n    Order Allow,Deny\n    Allow from all\n</FilesMatch>",
        &[("a.jpg", Granted), ("a.zip", Denied)],
    );
    let gravity_forms = "<Files *>\nSetHandler none\nOptions -ExecCGI\nRemoveHandler .cgi .php\n</Files>\n<IfModule headers_module>\nHeader set X-Robots-Tag \"noindex\"\n</IfModule>";
    assert_eq!(folder(gravity_forms), Unsaid);
}

#[test]
fn limit_counts_where_it_names_what_is_served_here() {
    assert_eq!(folder("<Limit GET POST>\nDeny from all\n</Limit>"), Denied);
    assert_eq!(
        folder("<Limit PUT DELETE>\nDeny from all\n</Limit>"),
        Unsaid
    );
    assert_eq!(
        folder("<LimitExcept GET POST>\nDeny from all\n</LimitExcept>"),
        Unsaid
    );
    assert_eq!(
        folder("<LimitExcept PUT>\nDeny from all\n</LimitExcept>"),
        Denied
    );
}

#[test]
fn inner_folders_override_outer_ones_but_not_their_files_sections() {
    let outer = Rules::parse(b"Deny from all\n<Files *.log>\nRequire all denied\n</Files>");
    let inner = Rules::parse(b"Require all granted");
    let verdict = |name: &[u8]| evaluate([&outer, &inner].into_iter(), name);
    assert_eq!(verdict(b"a.css"), Granted);
    assert_eq!(verdict(b"a.log"), Denied);
    assert_eq!(evaluate([&outer].into_iter(), b"a.css"), Denied);
    assert_eq!(evaluate(std::iter::empty(), b"a.css"), Unsaid);
}

#[test]
fn an_expression_that_cannot_be_compiled_denies_and_never_grants() {
    check(
        "<FilesMatch \"^((?!index).)*$\">\nDeny from all\n</FilesMatch>",
        &[("a", Denied), ("index.php", Denied)],
    );
    assert_eq!(
        Rules::parse(b"<FilesMatch \"(?<!index)\\.php$\">\nDeny from all\n</FilesMatch>")
            .unreadable(),
        Some("(?<!index)\\.php$")
    );
    check(
        "Deny from all\n<FilesMatch \"(\">\nAllow from all\n</FilesMatch>",
        &[("a", Denied)],
    );
    check(
        "<FilesMatch>\nDeny from all\n</FilesMatch>",
        &[("a", Denied)],
    );
}

#[test]
fn sections_left_open_end_with_the_file() {
    check(
        "<Files *.css>\nDeny from all",
        &[("a.css", Denied), ("b.txt", Unsaid)],
    );
    check(
        "<IfModule x>\n<Files *.css>\nDeny from all\n</IfModule>\nAllow from all",
        &[("a.css", Denied), ("b.txt", Granted)],
    );
}

#[test]
fn deny_all_denies_all() {
    assert_eq!(evaluate([&Rules::deny_all()].into_iter(), b"x"), Denied);
    assert!(!Rules::deny_all().is_empty());
    assert!(Rules::parse(b"# nothing").is_empty());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..400), name in proptest::collection::vec(proptest::num::u8::ANY, 0..20)) {
        let rules = Rules::parse(&text);
        let _ = evaluate([&rules].into_iter(), &name);
    }

    #[test]
    fn any_directives_are_read_without_panic(lines in proptest::collection::vec(
        proptest::sample::select(vec!["<Files *.a>", "</Files>", "<RequireAll>", "</RequireAll>", "<RequireNone>", "</RequireNone>", "<IfModule x>", "</IfModule>", "<X>", "</X>", "Deny from all", "Require all granted", "Order allow,deny", "a\\"]), 0..40)) {
        let rules = Rules::parse(lines.join("\n").as_bytes());
        let _ = evaluate([&rules].into_iter(), b"b.a");
    }
}
