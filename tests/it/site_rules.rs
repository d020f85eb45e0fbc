//! What a site says of its paths before any file is looked for: hosts and paths that have moved, who may have what, its health.

use std::process::Command;

use crate::support::client::Response;
use crate::support::document_root::{DocumentRoot, SECRET};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{BINARY, Config, Nostat};

/// `secret`, by PHP's password_hash with cost 4.
const HASH: &str = "$2y$04$uT3abvrMVSDs41QbJiVxU.6qYTeMeY6v9w1qm87Q5VFyvpkkZJCkG";
/// `anna:secret`, `anna:wrong`, `carl:secret`.
const ANNA: &str = "Basic YW5uYTpzZWNyZXQ=";
const WRONG: &str = "Basic YW5uYTp3cm9uZw==";
const CARL: &str = "Basic Y2FybDpzZWNyZXQ=";

fn ask(server: &Nostat, raw: &str) -> Response {
    let mut connection = server.connect();
    connection.send(raw.as_bytes());
    connection.read("GET")
}

/// What `nostat check` says.
fn check(root: &DocumentRoot, config: &Config) -> String {
    let file = root.outside().join("checked.yaml");
    std::fs::write(&file, config.render("127.0.0.1:8080", root.outside())).unwrap();
    let output = Command::new(BINARY)
        .args(["check", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn get_of(server: &Nostat, host: &str, target: &str, fields: &str) -> Response {
    ask(
        server,
        &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"),
    )
}

#[test]
fn other_hosts_are_sent_to_the_first() {
    let root = DocumentRoot::empty();
    root.write("a.css", b"a");
    root.write(".well-known/acme-challenge/t", b"token");
    let config = Config::static_files(&root)
        .site("hosts", "[example.com]")
        .site("redirect_hosts", "[www.example.com, \"*.example.net\"]");
    let server = Nostat::start(&config);
    let port = server.address().port();
    get_of(&server, "example.com", "/a.css", "").assert(200, b"a");
    let location = |host: &str, target: &str, fields: &str| {
        let answer = get_of(&server, host, target, fields);
        assert_eq!(answer.status, 301, "{answer}");
        answer.field("location").unwrap().to_owned()
    };
    let direct = format!("http://example.com:{port}");
    assert_eq!(
        location("www.example.com", "/a.css?x=%0D%0A", ""),
        format!("{direct}/a.css?x=%0D%0A")
    );
    assert_eq!(
        location("x.example.net:1", "//evil.example/%2e%2e/", ""),
        format!("{direct}//evil.example/%2e%2e/")
    );
    assert_eq!(
        location("www.example.com", "/", "X-Forwarded-Proto: https\r\n"),
        "https://example.com/"
    );
    assert_eq!(
        location(
            "www.example.com",
            "/",
            "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\nX-Forwarded-Host: evil.example\r\n"
        ),
        "https://example.com:8443/"
    );
    get_of(
        &server,
        "www.example.com",
        "/.well-known/acme-challenge/t",
        "",
    )
    .assert(200, b"token");
    assert_eq!(get_of(&server, "evil.example", "/", "").status, 421);
    // Its first byte is Unicode's: no host that anybody has.
    let odd = get_of(&server, "www\u{e9}.example.com", "/", "");
    assert!(matches!(odd.status, 400 | 421), "{odd}");
}

#[test]
fn moved_paths_are_told_before_files_and_php_and_after_deny() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("old/file.css", b"still there");
    root.write("old/secret.txt", SECRET.as_bytes());
    let config = Config::wordpress(&root, &responder)
        .site("deny", "[/old/secret.txt]")
        .site(
            "redirects",
            "[{from: /old/, to: /new/}, {from: \"*.html\", to: \"https://other.example/?from=html\", status: 307}, \
             {from: /gone, status: 410}, {from: /, to: /wp-admin/, status: 302}]",
        );
    // The last one means every path: it may not lead to one of its own.
    let refused = check(&root, &config);
    assert!(
        refused.contains("redirects[3].to: leads back to from"),
        "{refused}"
    );

    let config = config.site(
        "redirects",
        "[{from: /old/, to: /new/}, {from: \"*.html\", to: \"https://other.example/?from=html\", status: 307}, \
         {from: /gone, status: 410}, {from: /.env, to: /elsewhere}]",
    );
    let server = Nostat::start(&config);
    for (target, status, location) in [
        ("/old/file.css?v=1", 301, "/new/file.css?v=1"),
        ("/old/%2F/evil.example", 301, "/new/evil.example"),
        ("/old/%C3%A9%20x", 301, "/new/%C3%A9%20x"),
        ("/x/page.html?a", 307, "https://other.example/?from=html"),
    ] {
        let answer = server.get(target);
        assert_eq!(answer.status, status, "{answer}");
        assert_eq!(answer.field("location"), Some(location));
    }
    assert_eq!(server.get("/gone").status, 410);
    assert_eq!(server.get("/old/secret.txt").status, 403);
    assert_eq!(server.get("/.env").status, 403);
    assert_eq!(server.get("/old/%0D%0AX:1").status, 400);
    responder.assert_not_called();
}

#[test]
fn a_password_is_asked_for_under_every_name_of_a_path() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    root.write("private/a.pdf", SECRET.as_bytes());
    let users = root.outside().join("users");
    std::fs::write(&users, format!("anna:{HASH}\n")).unwrap();
    let users = users.display();
    let server = Nostat::start(&Config::wordpress(&root, &responder).site(
        "auth",
        &format!("{{match: [/wp-login.php, /private/], users_file: {users}, realm: \"Staff \\\"only\\\"\"}}"),
    ));
    for target in [
        "/wp-login.php",
        "//wp-login.php",
        "/%77p-login.php",
        "/./wp-login.php",
        "/x/../wp-login.php",
        "/wp-login.php/",
        "/wp-login.php/x",
        "/wp-login.php%2Fx",
        "/wp-login.php?action=x",
        "http://example.com/wp-login.php",
        "/private/a.pdf",
        "/private//a.pdf",
        "/private/%61.pdf",
        "/private/missing",
        "/private",
    ] {
        for credentials in [
            "",
            WRONG,
            CARL,
            "Basic",
            "Basic ****",
            "Basic YW5uYTpzZWNyZXQA",
            "Bearer x",
        ] {
            let fields = match credentials {
                "" => String::new(),
                value => format!("Authorization: {value}\r\n"),
            };
            let answer = get_of(&server, "example.com", target, &fields);
            assert_eq!(answer.status, 401, "{target} {credentials}: {answer}");
            assert_eq!(
                answer.field("www-authenticate"),
                Some("Basic realm=\"Staff \\\"only\\\"\", charset=\"UTF-8\"")
            );
            assert_eq!(answer.field("cache-control"), Some("no-store"));
        }
    }
    let twice = format!("Authorization: {ANNA}\r\nAuthorization: {ANNA}\r\n");
    assert_eq!(
        get_of(&server, "example.com", "/private/a.pdf", &twice).status,
        401
    );
    let long = format!("Authorization: Basic {}\r\n", "YWFh".repeat(3000));
    assert_eq!(
        get_of(&server, "example.com", "/private/a.pdf", &long).status,
        401
    );
    responder.assert_not_called();

    let fields = format!("Authorization: {ANNA}\r\n");
    let file = get_of(&server, "example.com", "/private/a.pdf", &fields);
    file.assert(200, SECRET.as_bytes());
    assert_eq!(
        get_of(&server, "example.com", "/wp-login.php/x", &fields).status,
        200
    );
    let asked = responder.only_request();
    assert_eq!(asked.param("REMOTE_USER"), "anna");
    assert_eq!(asked.param("AUTH_TYPE"), "Basic");
    assert_eq!(asked.param("HTTP_AUTHORIZATION"), ANNA);
}

#[test]
fn users_are_read_again_when_their_file_changes_and_a_bad_one_changes_nothing() {
    let root = DocumentRoot::empty();
    root.write("a.txt", b"a");
    let file = root.outside().join("users");
    std::fs::write(&file, format!("anna:{HASH}\n")).unwrap();
    let config = Config::static_files(&root)
        .top("access_log", "{path: \"-\", format: combined}")
        .site(
            "auth",
            &format!(
                "[{{match: /free.txt, users_file: off}}, {{match: /, users_file: {}}}]",
                file.display()
            ),
        );
    root.write("free.txt", b"free");
    let server = Nostat::start(&config);
    let get = |credentials: &str| {
        server
            .get_with("/a.txt", &[("Authorization", credentials)])
            .status
    };
    server.get("/free.txt").assert(200, b"free");
    assert_eq!((get(ANNA), get(CARL)), (200, 401));
    std::fs::write(&file, format!("carl:{HASH}\n")).unwrap();
    eventually("carl is known and anna is not", || {
        ((get(ANNA), get(CARL)) == (401, 200)).then_some(())
    });
    std::fs::write(&file, "carl:no hash\n").unwrap();
    let log = server.wait_for_log(0, "users:1: ");
    assert!(!log.contains("no hash"), "{log}");
    assert_eq!((get(ANNA), get(CARL)), (401, 200));
    let output = eventually("the log is written", || {
        let output = server.output();
        output.contains(" - carl [").then_some(output)
    });
    for secret in ["secret", ANNA, CARL, HASH] {
        assert!(
            !output.contains(secret) && !server.log().contains(secret),
            "{output}"
        );
    }
}

#[test]
fn files_of_users_that_are_served_or_wrong_are_refused() {
    let root = DocumentRoot::empty();
    root.write(".htpasswd", format!("anna:{HASH}\n").as_bytes());
    let bad = root.outside().join("bad");
    std::fs::write(&bad, format!("anna:{HASH}\nbert:plain\n")).unwrap();
    let said = |file: &std::path::Path| {
        let rule = format!("[{{match: /, users_file: {}}}]", file.display());
        check(&root, &Config::static_files(&root).site("auth", &rule))
    };
    let below = said(&root.path().join(".htpasswd"));
    assert!(below.contains("lies below the root"), "{below}");
    let wrong = said(&bad);
    assert!(
        wrong.contains("bad:2: the hash is of no kind") && !wrong.contains("plain"),
        "{wrong}"
    );
    let missing = said(&root.outside().join("missing"));
    assert!(missing.contains("cannot be read"), "{missing}");
}

#[test]
fn a_page_behind_a_password_is_kept_for_nobody() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let users = root.outside().join("users");
    std::fs::write(&users, format!("anna:{HASH}\n")).unwrap();
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "memory")
        .site(
            "auth",
            &format!("{{match: /members/, users_file: {}}}", users.display()),
        );
    let server = Nostat::start(&config);
    for count in 1..=3 {
        let answer = server.get_with("/members/page/", &[("Authorization", ANNA)]);
        assert_eq!(answer.status, 200, "{answer}");
        assert_eq!(responder.requests().len(), count);
        assert_eq!(server.get("/members/page/").status, 401);
    }
}

#[test]
fn health_is_answered_here_and_not_logged() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder)
        .top("access_log", "{path: \"-\", format: combined}")
        .site("hosts", "[example.com]")
        .site("redirect_hosts", "[www.example.com]")
        .site("health", "{path: /healthz}");
    let server = Nostat::start(&config);
    for target in ["/healthz", "/healthz?x", "/%68ealthz"] {
        let answer = get_of(&server, "www.example.com", target, "");
        answer.assert(200, b"ok\n");
        assert_eq!(answer.field("cache-control"), Some("no-store"));
    }
    assert_eq!(server.send("HEAD", "/healthz", &[], b"").status, 200);
    assert_eq!(server.send("POST", "/healthz", &[], b"").status, 405);
    responder.assert_not_called();
    assert_eq!(server.get("/healthz/x").status, 200);
    let output = eventually("the log is written", || {
        let output = server.output();
        output.contains("/healthz/x").then_some(output)
    });
    let logged = output.lines().filter(|line| line.contains("ealthz"));
    assert_eq!(logged.count(), 1, "{output}");
}

#[test]
fn proxies_of_a_file_are_trusted_as_the_file_changes() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let file = root.outside().join("proxies");
    std::fs::write(&file, "set_real_ip_from 192.0.2.0/24;\n").unwrap();
    let config = Config::wordpress(&root, &responder)
        .top(
            "trusted_proxies",
            &format!("[{{file: {}}}]", file.display()),
        )
        .site("client_ip_header", "Forwarded");
    let server = Nostat::start(&config);
    let remote = || {
        let forwarded = ("Forwarded", "for=198.51.100.7;proto=https");
        assert_eq!(server.get_with("/page", &[forwarded]).status, 200);
        responder.last_request().param("REMOTE_ADDR").to_owned()
    };
    assert_eq!(remote(), "127.0.0.1");
    std::fs::write(&file, "# here\n127.0.0.0/8\n").unwrap();
    eventually("the proxy is trusted", || {
        (remote() == "198.51.100.7").then_some(())
    });
    assert_eq!(responder.last_request().param("HTTPS"), "on");
    std::fs::write(&file, "nonsense\n").unwrap();
    server.wait_for_log(0, "proxies:1: ");
    assert_eq!(remote(), "198.51.100.7");
    assert!(check(&root, &config).contains("proxies:1: \"nonsense\" is not a network"));
}
