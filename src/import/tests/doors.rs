//! Addresses, certificates, and blocks that only send on.

use super::*;

const TLS: &str = "ssl_certificate /c/a.pem; ssl_certificate_key /c/a.key;";
const TO_HTTPS: &str = "return 301 https://$host$request_uri;";

/// The settings for a configuration, which they must be read as.
#[track_caller]
fn whole(text: &str) -> Imported {
    let imported = imported("n.conf", text);
    assert_eq!(imported.refused, [], "{text}\n{}", imported.yaml);
    imported
}

#[track_caller]
fn says(imported: &Imported, lines: &[&str]) {
    for line in lines {
        assert!(
            imported.yaml.contains(line),
            "{line:?} in {}",
            imported.yaml
        );
    }
}

#[track_caller]
fn says_not(imported: &Imported, words: &[&str]) {
    let keys = imported.yaml.lines();
    let keys: Vec<_> = keys
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    for word in words {
        assert!(
            !keys.iter().any(|line| line.contains(word)),
            "{word:?} in {}",
            imported.yaml
        );
    }
}

#[test]
fn one_address_shows_the_certificates_of_all_its_blocks() {
    let imported = whole(
        "http { ssl_certificate /c/all.pem; ssl_certificate_key /c/all.key; ssl_session_cache shared:S:1m; ssl_ciphers HIGH;\n\
         server { listen 443 ssl; server_name b; root /srv/b; ssl_certificate /c/b.pem; ssl_certificate_key /c/b.key; }\n\
         server { listen 443 ssl default_server; server_name a; root /srv/a; }\n\
         server { listen 443 ssl; server_name c; root /srv/c; }\n\
         server { listen 8443 ssl; server_name d; root /srv/d; ssl_certificate /c/rsa.pem; ssl_certificate_key /c/rsa.key;\n\
         ssl_certificate /c/ec.pem; ssl_certificate_key /c/ec.key; } }",
    );
    assert!(!imported.is_partial(), "{}", imported.summary());
    says(
        &imported,
        &[
            "  - address: \"0.0.0.0:443\"\n    tls:\n      certificates:\n        \
             - {certificate: \"/c/all.pem\", key: \"/c/all.key\"}\n        \
             - {certificate: \"/c/b.pem\", key: \"/c/b.key\"}\n",
            "  - address: \"0.0.0.0:8443\"\n    tls:\n      certificates:\n        \
             - {certificate: \"/c/rsa.pem\", key: \"/c/rsa.key\"}\n        \
             - {certificate: \"/c/ec.pem\", key: \"/c/ec.key\"}\n",
        ],
    );
}

#[test]
fn versions_hsts_and_http2_are_those_of_the_address() {
    let server = |inner: &str| {
        format!("server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} {inner} }}")
    };
    for (inner, lines, not) in [
        ("ssl_protocols TLSv1.3;", &["min: \"1.3\""][..], &[][..]),
        ("ssl_protocols TLSv1 TLSv1.2;", &[], &["min:"]),
        ("http2 off;", &["http2: off"], &[]),
        ("http2 on;", &[], &["http2"]),
        (
            "add_header Strict-Transport-Security max-age=31536000 always;",
            &["hsts: 365d"],
            &["headers"],
        ),
        (
            "add_header Strict-Transport-Security \"max-age=31536000; includeSubDomains\";",
            &["Strict-Transport-Security: \"max-age=31536000; includeSubDomains\""],
            &["hsts"],
        ),
        (
            "add_header Strict-Transport-Security max-age=60; add_header X-A b;",
            &["hsts: 1m", "set: {X-A: \"b\"}"],
            &["Strict"],
        ),
    ] {
        let imported = whole(&server(inner));
        says(&imported, lines);
        says_not(&imported, not);
    }
    // One lifetime is for all sites of an address.
    let two = format!(
        "{} server {{ listen 443 ssl; server_name b; root /srv/b; {TLS} }}",
        server("add_header Strict-Transport-Security max-age=60;")
    );
    says_not(&whole(&two), &["hsts"]);
}

#[test]
fn an_address_without_a_certificate_is_left_out() {
    for certificate in [
        "",
        "ssl_certificate /c/a.pem;",
        "ssl_certificate conf/a.pem; ssl_certificate_key conf/a.key;",
        "ssl_certificate /c/$ssl_server_name.pem; ssl_certificate_key /c/$ssl_server_name.key;",
        "ssl_certificate data:$pem; ssl_certificate_key data:$key;",
    ] {
        let text = format!(
            "server {{ listen 443 ssl; server_name a; root /srv/a; {certificate} }}\n\
             server {{ listen 80; server_name a; {TO_HTTPS} }}"
        );
        let imported = whole(&text);
        says_not(&imported, &["443", "redirect: https"]);
        says(&imported, &["127.0.0.1:8080"]);
        assert!(
            imported.summary().contains("acme: you@example.com"),
            "{}",
            imported.summary()
        );
    }
}

#[test]
fn what_quic_wants_is_noted_and_proxy_protocol_taken() {
    let imported = whole(&format!(
        "server {{ listen 443 quic reuseport; listen 443 ssl proxy_protocol; listen 81 proxy_protocol; server_name a; root /srv/a; {TLS}\n\
         real_ip_header proxy_protocol; set_real_ip_from 10.0.0.1; http3 on; }}"
    ));
    says(
        &imported,
        &[
            "{address: \"0.0.0.0:81\", proxy_protocol: on}",
            "  - address: \"0.0.0.0:443\"\n    proxy_protocol: on\n    tls:",
            "trusted_proxies: [\"10.0.0.1/32\"]",
        ],
    );
    says_not(&imported, &["client_ip_header"]);
    assert!(
        imported.summary().contains("HTTP/3 is not spoken"),
        "{}",
        imported.summary()
    );
}

#[test]
fn http_is_sent_to_https_where_all_blocks_do() {
    let site = format!("server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} }}");
    for redirecting in [
        format!("server {{ listen 80; server_name a; {TO_HTTPS} }}"),
        format!("server {{ listen 80 default_server; server_name _; {TO_HTTPS} }}"),
        format!(
            "server {{ listen 80; server_name a; {TO_HTTPS} }} server {{ listen 80; return 444; }}"
        ),
        format!(
            "server {{ listen 80; server_name www.a; return 301 https://a$request_uri; }} server {{ listen 80; server_name a; {TO_HTTPS} }}"
        ),
    ] {
        let imported = whole(&format!("{site}\n{redirecting}"));
        says(&imported, &["{address: \"0.0.0.0:80\", redirect: https}"]);
        assert!(!imported.is_partial(), "{}", imported.summary());
    }
    // In one block, too.
    for condition in [
        "if ($scheme = http) { return 301 https://$host$request_uri; }",
        "if ($scheme != \"https\") { rewrite ^ https://$host$request_uri? permanent; }",
        "if ($server_port = 80) { return 301 https://a$request_uri; }",
    ] {
        let imported = whole(&format!(
            "server {{ listen 80; listen 443 ssl; server_name a; root /srv/a; {TLS} {condition} }}"
        ));
        says(&imported, &["{address: \"0.0.0.0:80\", redirect: https}"]);
        assert!(!imported.is_partial(), "{}", imported.summary());
    }
}

#[test]
fn http_is_not_sent_to_https_where_one_block_answers() {
    let imported = whole(&format!(
        "server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} }}\n\
         server {{ listen 80; server_name a; {TO_HTTPS} }}\n\
         server {{ listen 80; server_name b; root /srv/b; }}"
    ));
    says_not(&imported, &["redirect: https"]);
    says(
        &imported,
        &["  - \"0.0.0.0:80\"", "another block answers at 0.0.0.0:80"],
    );
    // For a while, to another port, or without the path: not what is done here. And nothing is served without TLS instead.
    for other in [
        "return 302 https://$host$request_uri;",
        "return 301 https://$host:8443$request_uri;",
        "return 301 https://$host/;",
    ] {
        let imported = whole(&format!(
            "server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} }} server {{ listen 80; server_name a; {other} }}"
        ));
        says_not(&imported, &["redirect: https", ":80\""]);
        assert!(imported.is_partial(), "{other}");
    }
    // Without TLS here, it is the server in front that is meant.
    let behind = whole(
        "server { listen 80; server_name a; root /srv/a; if ($http_x_forwarded_proto != https) { return 301 https://$host$request_uri; } }",
    );
    says_not(&behind, &["redirect: https"]);
    assert!(behind.is_partial());
}

#[test]
fn other_names_are_sent_to_the_first_host() {
    let https = format!(
        "server {{ listen 443 ssl; server_name a b; root /srv/a; {TLS} }}\n\
         server {{ listen 80; server_name a b www.a; {TO_HTTPS} }}\n\
         server {{ listen 443 ssl; server_name www.a *.w.a; {TLS} return 301 https://a$request_uri; }}"
    );
    let imported = whole(&https);
    says(
        &imported,
        &[
            "hosts: [\"a\", \"b\"]",
            "redirect_hosts: [\"www.a\", \"*.w.a\"]",
        ],
    );
    assert!(!imported.is_partial(), "{}", imported.summary());
    for inner in [
        "if ($host = www.a) { return 301 $scheme://a$request_uri; }",
        "if ($host != a) { rewrite ^/(.*)$ $scheme://a/$1 permanent; }",
        "if ($host = 'www.a') { return 301 http://a$request_uri; }",
    ] {
        let imported = whole(&format!(
            "server {{ listen 80; server_name a www.a; root /srv/a; {inner} }}"
        ));
        says(
            &imported,
            &["hosts: [\"a\"]", "redirect_hosts: [\"www.a\"]"],
        );
        assert!(!imported.is_partial(), "{}", imported.summary());
    }
}

#[test]
fn names_that_go_elsewhere_or_otherwise_are_not_sent_to_the_first_host() {
    let site = "server { listen 80; server_name a b; root /srv/a; }";
    for other in [
        // To https, and nothing here speaks it.
        "server { listen 80; server_name www.a; return 301 https://a$request_uri; }",
        "server { listen 80; server_name www.a; return 302 $scheme://a$request_uri; }",
        "server { listen 80; server_name www.a; return 301 $scheme://a; }",
        "server { listen 80; server_name www.a; return 301 $scheme://a:81$request_uri; }",
        // Not the first one, nobody's, anybody's.
        "server { listen 80; server_name www.a; return 301 $scheme://b$request_uri; }",
        "server { listen 80; server_name www.a; return 301 $scheme://c$request_uri; }",
        "server { listen 80; server_name _; return 301 $scheme://a$request_uri; }",
        "server { listen 80; server_name ~^www\\.; return 301 $scheme://a$request_uri; }",
        "server { listen 80; server_name b; return 301 $scheme://a$request_uri; }",
    ] {
        let imported = whole(&format!("{site}\n{other}"));
        says_not(&imported, &["redirect_hosts"]);
        assert!(imported.is_partial(), "{other}: {}", imported.yaml);
    }
}

#[test]
fn clients_that_need_certificates_are_not_let_in_without() {
    let asking = "ssl_verify_client on; ssl_client_certificate /c/ca.pem;";
    let site = |name: &str, listen: &str, inner: &str| {
        format!(
            "server {{ listen {listen}; server_name {name}; root /srv/{name}; {TLS} {inner} }}\n"
        )
    };
    let redirect = format!("server {{ listen 80; server_name a; {TO_HTTPS} }}");
    let open = whole(&format!("{}{redirect}", site("a", "443 ssl", asking)));
    says(&open, &["client_ca: /c/ca.pem", "redirect: https"]);
    says_not(&open, &["deny"]);
    assert!(!open.is_partial(), "{}", open.summary());
    for text in [
        site("a", "443 ssl", asking) + &site("b", "443 ssl", ""),
        site("a", "443 ssl", asking) + &site("b", "80", ""),
        site("a", "443 ssl", asking) + &site("b", "8443 ssl", ""),
        site("a", "443 ssl", asking)
            + &site(
                "b",
                "443 ssl",
                "ssl_verify_client on; ssl_client_certificate /c/other.pem;",
            ),
        site("a", "443 ssl", "ssl_verify_client on;"),
        site("a", "443 ssl", &format!("{asking} ssl_crl /c/revoked.pem;")),
        site(
            "a",
            "443 ssl",
            "ssl_verify_client optional; if ($ssl_client_verify != SUCCESS) { return 403; }",
        ),
        format!("server {{ listen 443 ssl; server_name a; root /srv/a; {asking} }}"),
    ] {
        let imported = whole(&text);
        says(&imported, &["root: /srv/a\n"]);
        let of_a = imported.yaml.split("/srv/a").nth(1).unwrap();
        let of_a = of_a.split("hosts:").next().unwrap();
        assert!(of_a.contains("deny: [\"/\"]"), "{text}\n{}", imported.yaml);
        says_not(&imported, &["client_ca"]);
        assert!(imported.is_partial());
    }
}

#[test]
fn addresses_that_cannot_be_one_are_told() {
    let imported = whole(&format!(
        "server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} }}\n\
         server {{ listen 10.0.0.1:443; server_name b; root /srv/b; }}"
    ));
    assert!(
        imported
            .summary()
            .contains("is spoken to in another way there"),
        "{}",
        imported.summary()
    );
    let both = whole(&format!(
        "server {{ listen 443 ssl; listen [::]:443 ssl; server_name a; root /srv/a; {TLS} }}"
    ));
    says(&both, &["address: \"[::]:443\""]);
    says_not(&both, &["0.0.0.0"]);
}

#[test]
fn what_one_block_of_a_host_closes_the_other_does_not_open() {
    let guarded =
        "location /p/ { deny all; } location /q/ { auth_basic Q; auth_basic_user_file /etc/q; }";
    for (first, second) in [
        ("", guarded),
        (guarded, ""),
        ("location /x/ { deny all; }", guarded),
    ] {
        let imported = whole(&format!(
            "server {{ listen 80; server_name a; root /srv/a; {first} }}\n\
             server {{ listen 443 ssl; server_name a b; root /srv/a; {TLS} {second} }}"
        ));
        let of_a = imported.yaml.split("hosts: [\"b\"]").next().unwrap();
        assert!(of_a.contains("\"/p/\""), "{first}\n{}", imported.yaml);
        assert!(
            of_a.contains("match: \"/q/\""),
            "{first}\n{}",
            imported.yaml
        );
    }
    let imported = whole(&format!(
        "server {{ listen 80; server_name a; root /srv/a; location /r/ {{ auth_basic R; auth_basic_user_file /etc/r; }} }}\n\
         server {{ listen 443 ssl; server_name a; root /srv/a; {TLS} {guarded} }}"
    ));
    says(&imported, &["deny: [\"/\", \"/p/\"]"]);
    let imported = whole(&format!(
        "server {{ listen 80; server_name a; root /srv/a; }}\n\
         server {{ listen 443 ssl; server_name a b; root /srv/b; {TLS} ssl_verify_client on; ssl_client_certificate /ca; }}"
    ));
    assert_eq!(
        imported.yaml.matches("deny: [\"/\"]").count(),
        2,
        "{}",
        imported.yaml
    );
}

#[test]
fn a_site_of_this_machine_is_not_shown_to_others() {
    let imported = whole(
        "server { listen 127.0.0.1:8080; server_name inner; root /srv/i; }\nserver { listen 80; server_name a; root /srv/a; }",
    );
    let of_inner = imported.yaml.split("hosts: [\"a\"]").next().unwrap();
    assert!(of_inner.contains("deny: [\"/\"]"), "{}", imported.yaml);
    assert_eq!(
        imported.yaml.matches("deny:").count(),
        1,
        "{}",
        imported.yaml
    );
    let alone = whole("server { listen 127.0.0.1:8080; server_name inner; root /srv/i; }");
    says_not(&alone, &["deny"]);
}

#[test]
fn names_that_are_refused_are_told_where_a_site_has_them() {
    for (names, told) in [("_", true), ("*.a", true), ("a", false)] {
        let imported = whole(&format!(
            "server {{ listen 80; server_name {names}; root /srv/a; }} server {{ listen 80; server_name b.a; return 444; }}"
        ));
        assert_eq!(
            imported.is_partial(),
            told,
            "{names}: {}",
            imported.summary()
        );
    }
}
