//! Paths that are sent on, asked for, limited.

use super::*;

/// The keys that a site with these directives has, without comments.
#[track_caller]
fn keys(inner: &str) -> (String, Imported) {
    let imported = of_site(&format!("listen 80;\n{inner}"));
    assert_eq!(imported.refused, [], "{inner}\n{}", imported.yaml);
    let lines = imported
        .yaml
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    (lines.collect::<Vec<_>>().join("\n"), imported)
}

const PHP: &str = "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }";

#[test]
fn paths_that_have_moved() {
    let (yaml, imported) = keys(&format!(
        "location / {{ try_files $uri /index.php?$args; }} {PHP}\n\
         location = /a {{ return 301 /b; }}\n\
         location ^~ /gone/ {{ return 410; }}\n\
         location ~ ^/c/?$ {{ return 302 https://other.example/c; }}\n\
         location ^~ /d/ {{ return 301 /e/$is_args$args; }}\n\
         rewrite ^/old$ /new permanent;\n\
         rewrite ^/f/(.*)$ /g/$1 redirect;"
    ));
    let expected = "    redirects:
      - {from: \"/old\", to: \"/new\"}
      - {from: \"/f/\", to: \"/g/\", status: 302}
      - {from: \"/a\", to: \"/b?\"}
      - {from: \"/gone/\", status: 410}
      - {from: \"/d/**\", to: \"/e/\"}
      - {from: \"/c\", to: \"https://other.example/c?\", status: 302}";
    assert!(yaml.contains(expected), "{yaml}");
    assert!(!yaml.contains("deny"), "{yaml}");
    assert!(!imported.is_partial(), "{}", imported.summary());
    assert!(
        imported.summary().contains("with and without a slash"),
        "{}",
        imported.summary()
    );
}

#[test]
fn what_nginx_would_send_otherwise_is_left_out() {
    for inner in [
        // Another location, or an earlier rule, takes some of these paths.
        "location /a/ { return 301 /b; } location ~ \\.css$ { expires 1d; }",
        "location ^~ /a/ { return 301 /b; } location = /a/c { expires 1d; }",
        "location ~ ^/a$ { expires 1d; } location ~ ^/a$ { return 301 /b; }",
        "location ~ (x)\\1 { expires 1d; } location ~ ^/a$ { return 301 /b; }",
        "location = /a { return 301 /b; } location = /a/ { expires 1d; }",
        "rewrite ^/(a|x) /y last; rewrite ^/a$ /b permanent;",
        "if ($args ~ z) { return 301 /y; } rewrite ^/a$ /b permanent;",
        "if (!-e $request_filename) { rewrite ^ /index.php last; } rewrite ^/a$ /b permanent;",
        "rewrite ^/a /y last; location = /a { return 301 /b; }",
        // No pattern, or no destination, says the same.
        "location ~* ^/a$ { return 301 /b; }",
        "location ~ ^/a\\d$ { return 301 /b; }",
        "location = /a { return 301 https://$host/b; }",
        "location = /a { return 301 /b?$args; }",
        "location = /a { return 301 $uri/; }",
        "location = /a { return 301 //evil.example; }",
        "location = / { return 301 /b; }",
        "location ^~ /a/ { rewrite ^/a/(.*)$ /b/$1?x=y permanent; }",
        "location ^~ /x/ { rewrite ^/a$ /b permanent; }",
        "location ^~ /a/ { location = /a/b { return 301 /c; } }",
        "location @named { rewrite ^/a$ /b permanent; }\nlocation /x { try_files $uri @named; }",
        "rewrite ^/a/(.*)$ /b-$1 permanent;",
        "rewrite \"^/a b$\" /b permanent;",
        "rewrite ^/a$ \"/b c\" permanent;",
        // A client would go round for ever here.
        "location = /a { return 301 /a/; }",
        "rewrite ^/a$ /b permanent; rewrite ^/b/?$ /a permanent;",
        "rewrite ^/a/(.*)$ /a/b/$1 permanent;",
        "rewrite ^/a$ http://a.example/a/ permanent;",
    ] {
        let (yaml, imported) = keys(inner);
        assert!(!yaml.contains("redirects"), "{inner}\n{yaml}");
        assert!(imported.is_partial(), "{inner}\n{}", imported.summary());
    }
}

#[test]
fn scripts_that_are_gone_are_closed() {
    let (yaml, _) = keys(&format!(
        "{PHP} location = /old.php {{ return 410; }} location ~ /x(.)\\1 {{ return 410; }}"
    ));
    assert!(
        yaml.contains("deny: [\"/old.php\"]") && !yaml.contains("redirects"),
        "{yaml}"
    );
}

#[test]
fn passwords_are_asked_for() {
    let users = "auth_basic_user_file /etc/nginx/users;";
    let (yaml, imported) = keys(&format!(
        "{PHP} location / {{ try_files $uri /index.php?$args; }}\n\
         location = /wp-login.php {{ auth_basic Staff; {users} fastcgi_pass 127.0.0.1:9000; }}\n\
         location ~ ^/(a|b)/ {{ auth_basic \"A and B\"; {users} }}\n\
         location ^~ /c/ {{ auth_basic C; {users} location /c/d/ {{ auth_basic D; auth_basic_user_file /etc/d; }} }}"
    ));
    let expected = "    auth:
      - {match: \"/c/d/\", users_file: \"/etc/d\", realm: \"D\"}
      - {match: \"/wp-login.php\", users_file: \"/etc/nginx/users\", realm: \"Staff\"}
      - {match: \"/c/\", users_file: \"/etc/nginx/users\", realm: \"C\"}
      - {match: [\"/a/\", \"/b/\"], users_file: \"/etc/nginx/users\", realm: \"A and B\"}";
    assert!(yaml.contains(expected), "{yaml}");
    assert!(!yaml.contains("deny"), "{yaml}");
    assert!(!imported.is_partial(), "{}", imported.summary());
}

#[test]
fn a_site_that_asks_frees_only_what_nginx_surely_does() {
    let whole = format!("auth_basic Site; auth_basic_user_file /etc/u; {PHP}");
    let (yaml, imported) = keys(&format!(
        "{whole} location = /health {{ auth_basic off; }} location ^~ /.well-known/acme-challenge/ {{ auth_basic off; }}"
    ));
    let expected = "    auth:
      - {match: \"/health\", users_file: off}
      - {match: \"/.well-known/acme-challenge/**\", users_file: off}
      - {match: \"/\", users_file: \"/etc/u\", realm: \"Site\"}";
    assert!(yaml.contains(expected), "{yaml}");
    assert!(!imported.is_partial(), "{}", imported.summary());
    for inner in [
        // Scripts below it are taken by the other location, which asks.
        "location /api/ { auth_basic off; }",
        "location ~ ^/api/ { auth_basic off; }",
        "location = / { auth_basic off; }",
        "location = /api/ { auth_basic off; }",
        "location ^~ /api/ { auth_basic off; } location ^~ /api/v2/ { expires 1d; }",
        "location ^~ /api/ { auth_basic off; location ~ x { auth_basic x; } }",
        "location ^~ /api/ { location /api/x { auth_basic off; } }",
        "location ^~ /a*/ { auth_basic off; }",
    ] {
        let (yaml, imported) = keys(&format!("{whole} {inner}"));
        assert!(!yaml.contains("users_file: off"), "{inner}\n{yaml}");
        assert!(
            yaml.contains("{match: \"/\", users_file: \"/etc/u\""),
            "{yaml}"
        );
        assert!(imported.is_partial(), "{inner}");
    }
    // Of `location /` alone: what stands beside it is free.
    let (yaml, _) = keys(
        "location / { auth_basic Site; auth_basic_user_file /etc/u; } location ^~ /.well-known/ { root /srv/a; }",
    );
    let expected = "- {match: \"/.well-known/**\", users_file: off}\n      - {match: \"/\"";
    assert!(yaml.contains(expected), "{yaml}");
    // An origin may have the same page with a slash at its end.
    let (yaml, imported) = keys(
        "auth_basic S; auth_basic_user_file /etc/u; location / { proxy_pass http://127.0.0.1:81; } location = /health { auth_basic off; proxy_pass http://127.0.0.1:81; }",
    );
    assert!(
        !yaml.contains("users_file: off") && imported.is_partial(),
        "{yaml}"
    );
}

#[test]
fn what_cannot_be_asked_for_stays_closed() {
    let users = "auth_basic_user_file /etc/u;";
    for (inner, deny) in [
        ("location /p/ { auth_basic x; }", "\"/p/\""),
        (
            "location /p/ { auth_basic x; auth_basic_user_file users; }",
            "\"/p/\"",
        ),
        (
            "location /p/ { auth_basic x; auth_basic_user_file /etc/$host; }",
            "\"/p/\"",
        ),
        (
            "location /p/ { auth_basic x; auth_basic_user_file /srv/a/.htpasswd; }",
            "\"/p/\"",
        ),
        (
            &format!("location /p/ {{ auth_basic $realm; {users} }}"),
            "\"/p/\"",
        ),
        (
            &format!("location /p/ {{ auth_basic x; {users} satisfy any; }}"),
            "\"/p/\"",
        ),
        (
            &format!(
                "satisfy any; location /p/ {{ auth_basic x; {users} allow 10.0.0.0/8; deny all; }}"
            ),
            "\"/p/\"",
        ),
        (
            &format!("location /p/ {{ auth_basic x; {users} deny 10.0.0.1; }}"),
            "\"/p/\"",
        ),
        (
            &format!("location /p/ {{ auth_basic x; {users} auth_request /ask; }}"),
            "\"/p/\"",
        ),
        (
            &format!("location ~* ^/p/ {{ auth_basic x; {users} }}"),
            "\"/p/\"",
        ),
        (
            &format!("location ~ ^/p.q$ {{ auth_basic x; {users} }}"),
            "\"/p.q\"",
        ),
        (
            &format!("location ~ ^/o/ {{ location ~ /p$ {{ auth_basic x; {users} }} }}"),
            "\"/**/p\"",
        ),
        // What has no pattern is closed from its folder on.
        ("location ~ ^/p/\\d+ { deny all; }", "\"/p**\""),
        ("location ~ ^/p/q/?\\d+ { deny all; }", "\"/p/q**\""),
        (
            &format!("location ~ ^/p/q(?<n>.) {{ auth_basic x; {users} }}"),
            "\"/p/**\"",
        ),
        // All of the site.
        ("auth_basic x;", "\"/\""),
        ("auth_basic x; auth_basic_user_file /srv/a/users;", "\"/\""),
        (
            &format!("auth_basic x; {users} satisfy any; allow 10.0.0.0/8; deny all;"),
            "\"/\"",
        ),
        ("allow 10.0.0.0/8; deny all;", "\"/\""),
        ("auth_request /ask;", "\"/\""),
        ("location / { allow 10.0.0.0/8; deny all; }", "\"/\""),
        (
            "location / { deny all; } location /p/ { expires 1d; }",
            "\"/\"",
        ),
        (
            "location / { auth_basic x; auth_basic_user_file users; }",
            "\"/\"",
        ),
    ] {
        let (yaml, _) = keys(inner);
        assert!(yaml.contains(&format!("deny: [{deny}]")), "{inner}\n{yaml}");
        assert!(!yaml.contains("auth:"), "{inner}\n{yaml}");
    }
    let text = "http { deny all; allow 10.0.0.1; server { listen 80; root /srv/a; } }";
    assert!(imported("n", text).yaml.contains("deny: [\"/\"]"));
    // Other roots count, too: each is a place to be sent from.
    let text = "server { listen 80; server_name a; root /srv/a; location /p/ { auth_basic x; auth_basic_user_file /srv/b/u; } }\n\
                server { listen 80; server_name b; root /srv/b; }";
    let imported = imported("n", text);
    assert_eq!(imported.refused, []);
    assert!(
        imported.yaml.contains("deny: [\"/p/\"]"),
        "{}",
        imported.yaml
    );
}

#[test]
fn a_realm_that_cannot_be_sent_is_the_default_one() {
    let (yaml, _) = keys("location /p/ { auth_basic Geschützt; auth_basic_user_file /etc/u; }");
    assert!(
        yaml.contains("- {match: \"/p/\", users_file: \"/etc/u\"}"),
        "{yaml}"
    );
}

#[test]
fn compression_is_what_differs() {
    for (inner, expected) in [
        ("gzip off;", "compression: off"),
        (
            "gzip on; gzip_min_length 256;",
            "compression: {min_size: 256B}",
        ),
        ("gzip_static off;", "precompressed: off"),
    ] {
        let (yaml, imported) = keys(inner);
        assert!(yaml.contains(expected), "{inner}\n{yaml}");
        assert!(!imported.is_partial());
    }
    for inner in [
        "gzip on; gzip_vary on; gzip_comp_level 6; gzip_proxied any; gzip_static on;",
        "gzip off; brotli on; brotli_comp_level 4;",
        "gzip_min_length 256;",
        "",
    ] {
        let (yaml, imported) = keys(inner);
        assert!(!yaml.contains("compress"), "{inner}\n{yaml}");
        assert!(!imported.is_partial(), "{}", imported.summary());
    }
}

#[test]
fn limits_are_for_each_address() {
    let of = |zones: &str, inner: &str| {
        let text = format!("http {{ {zones} server {{ listen 80; root /srv/a; {inner} }} }}");
        let imported = imported("n", &text);
        assert_eq!(imported.refused, [], "{text}\n{}", imported.yaml);
        imported
    };
    let zones = "limit_req_zone $binary_remote_addr zone=r:1m rate=30r/m; limit_conn_zone $binary_remote_addr zone=c:1m;\n\
                 limit_req_zone $server_name zone=s:1m rate=1r/s; limit_conn_zone $server_name zone=t:1m;";
    let imported = of(
        zones,
        "limit_conn c 20; location = /search { limit_req zone=r burst=5 nodelay; }",
    );
    for line in [
        "connections_per_address: 20",
        "- {match: \"/search\", rate: 30/min, burst: 6}",
        "- {match: \"/**/wp-login.php\", rate: 10/min, burst: 10}",
        "- {match: \"missing\", rate: 20/s, burst: 100}",
    ] {
        assert!(imported.yaml.contains(line), "{line} in {}", imported.yaml);
    }
    assert!(!imported.is_partial(), "{}", imported.summary());
    for inner in [
        "limit_conn t 20;",
        "limit_conn x 20;",
        "location /a/ { limit_conn c 2; }",
        "limit_req zone=r;",
        "location / { limit_req zone=r; }",
        "location = /a { limit_req zone=s; }",
        "location = /a { limit_req zone=x; }",
        "location ~* ^/a$ { limit_req zone=r; }",
        "location ~ ^/(a|b)$ { limit_req zone=r; }",
        // One bucket for both.
        "location = /a { limit_req zone=r; } location = /b { limit_req zone=r; }",
    ] {
        let imported = of(zones, inner);
        let said = imported.yaml.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with("rate_limits:") || line.starts_with("connections_per_address:")
        });
        assert!(!said, "{inner}\n{}", imported.yaml);
        assert!(imported.is_partial(), "{inner}");
    }
}
