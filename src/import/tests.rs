#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::PathBuf;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

mod doors;
mod paths;

/// Configurations as they are met, each with the name of its file.
const SAMPLES: [(&str, &str); 9] = [
    ("bedrock", include_str!("samples/bedrock.conf")),
    (
        "debian_wordpress",
        include_str!("samples/debian_wordpress.conf"),
    ),
    ("fastcgi_cache", include_str!("samples/fastcgi_cache.conf")),
    ("multisite", include_str!("samples/multisite.conf")),
    ("panel_proxy", include_str!("samples/panel_proxy.conf")),
    ("plugin_pages", include_str!("samples/plugin_pages.conf")),
    ("restrictions", include_str!("samples/restrictions.conf")),
    ("static_site", include_str!("samples/static_site.conf")),
    ("tls_redirect", include_str!("samples/tls_redirect.conf")),
];

fn imported(name: &str, text: &str) -> Imported {
    let tree = nginx::directives::parse(&Rc::from(name), text.as_bytes()).unwrap();
    of_tree(&tree, None).unwrap()
}

fn of_site(inner: &str) -> Imported {
    imported(
        "n.conf",
        &format!("server {{ server_name a.example; root /srv/a;\n{inner}\n}}"),
    )
}

/// What the samples amount to. `IMPORT_SAMPLES=write` in the environment writes them anew, to be read before they are kept.
#[test]
fn samples_amount_to_what_is_written() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/import/samples");
    for (name, text) in SAMPLES {
        let imported = imported(&format!("{name}.conf"), text);
        assert_eq!(imported.refused, [], "{name}: {}", imported.yaml);
        let file = folder.join(format!("{name}.yaml"));
        if std::env::var("IMPORT_SAMPLES").is_ok_and(|word| word == "write") {
            std::fs::write(&file, &imported.yaml).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap();
        assert_eq!(imported.yaml, expected, "{name}");
    }
}

/// A directive is a key, needs nothing, or is told; none is lost.
#[test]
fn nothing_is_dropped_in_silence() {
    let whole = of_site("listen 80; index index.php; sendfile on; types { a b; }");
    assert!(!whole.is_partial(), "{}", whole.summary());
    assert!(
        whole
            .summary()
            .contains("needs nothing: index, sendfile, types"),
        "{}",
        whole.summary()
    );
    let partial = of_site("listen 80;\nfoo_bar on;\nlocation / { sub_filter a b; }");
    assert!(partial.is_partial());
    for said in [
        "n.conf:3: foo_bar on: not known",
        "n.conf:4: sub_filter a b: answers are not rewritten",
    ] {
        assert!(partial.summary().contains(said), "{}", partial.summary());
        assert!(
            partial.yaml.contains(&format!("# left out: {said}")),
            "{}",
            partial.yaml
        );
    }
}

/// What was open to some only is open to nobody, until somebody decides.
#[test]
fn what_was_guarded_is_closed() {
    for guard in [
        "allow 10.0.0.0/8; deny all;",
        "auth_basic x;",
        "deny 10.0.0.1;",
    ] {
        let imported = of_site(&format!("location /private/ {{ {guard} }}"));
        assert!(
            imported.yaml.contains("deny: [\"/private/\"]"),
            "{guard}: {}",
            imported.yaml
        );
        assert!(imported.is_partial(), "{guard}");
    }
    let open = of_site("location /private/ { allow all; }");
    assert!(!open.yaml.contains("deny"), "{}", open.yaml);
}

#[test]
fn pages_pass_by_the_cache_as_they_did() {
    let yaml = of_site(
        "set $skip 0; if ($http_cookie ~* \"wordpress_logged_in|seen_it\") { set $skip 1; }\n\
         location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_cache A; fastcgi_cache_valid 5m;\n\
         fastcgi_no_cache $skip $cookie_currency $arg_x; }",
    )
    .yaml;
    assert!(
        yaml.contains("bypass_cookies: [\"seen_it*\", \"currency*\"]"),
        "{yaml}"
    );
    assert!(yaml.contains("valid: 5m"), "{yaml}");
}

#[test]
fn values_are_handed_down() {
    let text = "http { fastcgi_read_timeout 10; add_header X-A a; upstream p { server 127.0.0.1:9001; keepalive 2; }\n\
                server { listen 80; root /srv/a; location = /wp-login.php { fastcgi_pass p; }\n\
                location ~ \\.php$ { fastcgi_pass p; fastcgi_keep_conn on; fastcgi_buffers 256 16k; } } }";
    let yaml = imported("n", text).yaml;
    for line in [
        "address: 127.0.0.1:9001",
        "first_byte: 10s",
        "keep_alive: 60s",
        "buffer: 4MiB",
        "- {match: \"/\", set: {X-A: \"a\"}}",
    ] {
        assert!(yaml.contains(line), "{line} in {yaml}");
    }
}

#[test]
fn one_site_of_several() {
    let text = "server { listen 80; server_name a; root /srv/a; }\nserver { listen 80; server_name b; root /srv/b; }";
    let tree = nginx::directives::parse(&Rc::from("n"), text.as_bytes()).unwrap();
    for name in ["b", "/srv/b"] {
        let yaml = of_tree(&tree, Some(name)).unwrap().yaml;
        assert!(
            yaml.contains("/srv/b") && !yaml.contains("/srv/a"),
            "{yaml}"
        );
    }
    assert!(of_tree(&tree, Some("c")).is_none());
}

#[test]
fn a_host_belongs_to_one_site() {
    let text = "server { listen 80; server_name a b; root /srv/a; }\nserver { listen 81; server_name b c; root /srv/c; }\n\
                server { listen 82; root /srv/d; }\nserver { listen 83; root /srv/e; }";
    let imported = imported("n", text);
    assert_eq!(imported.refused, []);
    assert!(
        imported.yaml.contains("hosts: [\"c\"]"),
        "{}",
        imported.yaml
    );
    assert_eq!(
        imported
            .notes
            .iter()
            .filter(|n| n.weight == Weight::LeftOut)
            .count(),
        2,
        "{}",
        imported.summary()
    );
}

proptest! {
    /// Whatever the directives say, what is written is read again.
    #[test]
    fn what_is_written_is_accepted(
        lines in prop::collection::vec((prop::sample::select(NAMES.to_vec()), "[ -~\u{e9}\t]{0,24}"), 0..8),
        inner in prop::collection::vec((prop::sample::select(NAMES.to_vec()), "[ -~]{0,24}"), 0..5),
        matched in "[ -~]{0,16}",
    ) {
        let quoted = |text: &str| text.replace(['\\', '\''], "");
        let line = |(name, value): &(&str, String)| match value.split_once(' ') {
            Some((a, b)) => format!("{name} '{}' '{}';\n", quoted(a), quoted(b)),
            None => format!("{name} '{}';\n", quoted(value)),
        };
        let outer: String = lines.iter().map(line).collect();
        let inner: String = inner.iter().map(line).collect();
        let text = format!(
            "server {{ listen 443 ssl; root /srv/a; ssl_certificate /a; ssl_certificate_key /b;\n{outer} location ~ '{}' {{ {inner} }} location '{}' {{ deny all; }} }}",
            quoted(&matched), quoted(&matched),
        );
        let tree = nginx::directives::parse(&Rc::from("n"), text.as_bytes()).unwrap();
        if let Some(imported) = of_tree(&tree, None) {
            prop_assert_eq!(&imported.refused, &[], "{}\n{}", text, imported.yaml);
        }
    }

    #[test]
    fn any_tree_is_understood_or_not(text in "(server|http|location|root|return|if|map|set|try_files|\\{|\\}|;| |/|~|[a-z$'\"]){0,60}") {
        if let Ok(tree) = nginx::directives::parse(&Rc::from("n"), text.as_bytes()) {
            let _ = of_tree(&tree, None);
        }
    }
}

/// Directives whose values become values of settings.
const NAMES: [&str; 47] = [
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "ssl_verify_client",
    "ssl_client_certificate",
    "http2",
    "auth_basic",
    "auth_basic_user_file",
    "satisfy",
    "allow",
    "deny",
    "limit_req_zone",
    "limit_conn_zone",
    "limit_req",
    "limit_conn",
    "gzip",
    "gzip_min_length",
    "gzip_static",
    "ssl",
    "listen",
    "server_name",
    "root",
    "client_max_body_size",
    "expires",
    "add_header",
    "fastcgi_pass",
    "proxy_pass",
    "fastcgi_read_timeout",
    "fastcgi_connect_timeout",
    "fastcgi_buffers",
    "fastcgi_cache",
    "fastcgi_cache_valid",
    "open_file_cache",
    "open_file_cache_valid",
    "keepalive_timeout",
    "large_client_header_buffers",
    "set_real_ip_from",
    "real_ip_header",
    "access_log",
    "try_files",
    "return",
    "rewrite",
    "set",
    "index",
    "unknown",
    "send_timeout",
    "fastcgi_max_temp_file_size",
];
