//! Thousands of ways to spell what is never sent and never run: none of them is a way to it.

use crate::support::client::request;
use crate::support::document_root::DocumentRoot;
use crate::support::fake_responder::{FakeResponder, Script};
use crate::support::nostat::{Config, Nostat};
use crate::support::numbers::Numbers;

/// Stands in every file that nobody may have.
const MARK: &str = "MARK-of-a-secret";

/// What is never sent, in any folder that WordPress may stand in.
const PRIVATE: &[&str] = &[
    "wp-config.php",
    "wp-config.php.bak",
    "wp-config-sample.php",
    "WP-CONFIG.txt",
    ".env",
    ".git/config",
    ".htaccess",
    ".user.ini",
    "error_log",
    "php.ini",
    "composer.json",
    "package-lock.json",
    "dump.sql",
    "dump.sql.gz",
    "index.php~",
    "index.php.old",
    "index.php.swp",
    "debug.log",
    "wp-content/debug.log",
    "wp-content/updraft/b.zip",
    "wp-content/ai1wm-backups/b.wpress",
    "wp-content/backups-dup-lite/b.zip",
    "wp-content/wflogs/config.txt",
    "wp-content/uploads/wc-logs/a.txt",
    "wp-content/uploads/backwpup-1/a.txt",
    "wp-content/uploads/sucuri/a.txt",
    "wp-content/uploads/evil.php",
    "wp-content/uploads/evil.PhP",
    "wp-content/uploads/evil.php5",
    "wp-content/uploads/evil.phtml",
    "wp-content/uploads/evil.phar",
    "wp-content/uploads/evil.pht",
    "wp-content/uploads/evil.inc",
    "wp-content/plugins/p/source.inc",
    "wp-content/plugins/p/source.PHP",
    "wp-content/cache/page.php",
    "wp-content/denied/a.css",
    "wp-content/backup-db/b.txt",
    "wp-content/uploads/sub/.htpasswd",
    "wp-content/uploads/2024/evil.php",
    "wp-content/upgrade-temp-backup/p/p.php",
    "wp-content/blogs.dir/2/files/evil.php",
    ".well-known/evil.php",
    "nginx.conf",
    "web.config",
    "debug.log.1",
    "error_log.2.gz",
    "style.css.orig",
    "style.css.save",
    "style.css.dist",
    "style.css.swo",
];

/// The same in the root alone: elsewhere they may be meant for visitors.
const PRIVATE_IN_ROOT: &[&str] = &["site.zip", "site.tar.gz", "readme.html", "license.txt"];

/// A path spelt in another way: some of its bytes escaped, once or twice, in another case, with a few things before, behind or
/// between.
fn spelt(path: &str, numbers: &mut Numbers) -> Vec<u8> {
    const BEHIND: &[&[u8]] = &[
        b"",
        b"",
        b"",
        b"/",
        b"//",
        b"/x",
        b"/x.php",
        b"/.",
        b"/..",
        b".",
        b"%20",
        b"%2e",
        b"%00",
        b"%00.jpg",
        b";x",
        b";.css",
        b"?x",
        b"%3fx",
        b"#",
        b"::$DATA",
        b"%0a",
        b"\\",
        b"/index.php",
        b".css",
        b"~",
        b"%ef%bc%8e",
        b"\xc0\xae",
    ];
    const BEFORE: &[&[u8]] = &[
        b"/",
        b"/",
        b"/",
        b"//",
        b"/./",
        b"/x/../",
        b"/%2e/",
        b"/wp-content/../",
        b"/wp-content/%2e%2e/",
        b"/\\",
        b"/%5c",
        b"/..;/",
        b"/index.php/../",
        b"http://example.com/",
        b"/wp-admin/..%2f",
        b"/%252e%252e/",
    ];
    let mut bytes = BEFORE[numbers.below(BEFORE.len())].to_vec();
    let often = numbers.below(4);
    for byte in path.bytes() {
        match numbers.below(if often == 0 { 4 } else { 24 }) {
            0 => bytes.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            1 => bytes.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            2 => bytes.extend_from_slice(format!("%25{byte:02x}").as_bytes()),
            3 => bytes.push(byte ^ if byte.is_ascii_alphabetic() { 0x20 } else { 0 }),
            4 if byte == b'/' => bytes.extend_from_slice(b"//"),
            5 if byte == b'/' => bytes.extend_from_slice(b"/./"),
            6 if byte == b'/' => bytes.push(b'\\'),
            7 if byte == b'.' => bytes.extend_from_slice("\u{ff0e}".as_bytes()),
            8 if byte == b'p' => bytes.extend_from_slice("\u{0440}".as_bytes()),
            _ => bytes.push(byte),
        }
    }
    bytes.extend_from_slice(BEHIND[numbers.below(BEHIND.len())]);
    bytes
}

#[test]
fn no_spelling_shows_a_secret_or_runs_what_must_not_run() {
    assert_nothing_shown(|config| config, &["", "blog/", "wp/", "../"], 7);
}

/// The first segment may be a site's name, and the rest of the path then leads elsewhere.
#[test]
fn no_spelling_shows_a_secret_of_a_network() {
    let folders = [
        "",
        "site/",
        "site/blog/",
        "files/",
        "site/files/",
        "site/../",
        "../",
    ];
    for (kind, seed) in [("subdirectory", 13), ("subdomain", 17)] {
        assert_nothing_shown(|config| config.site("multisite", kind), &folders, seed);
    }
}

/// Asks for what is never sent, below these folders and in thousands of spellings.
#[track_caller]
fn assert_nothing_shown(change: impl Fn(Config) -> Config, folders: &[&str], seed: u64) {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for folder in ["", "blog/", "wp/"] {
        for name in PRIVATE {
            root.write(
                format!("{folder}{name}"),
                format!("<?php {MARK}").as_bytes(),
            );
        }
        root.write(
            format!("{folder}wp-content/denied/.htaccess"),
            b"Require all denied\n",
        );
    }
    root.write("wp-includes/ms-files.php", b"<?php");
    for name in PRIVATE_IN_ROOT {
        root.write(name, MARK.as_bytes());
    }
    std::fs::write(root.outside().join("outside.txt"), MARK).unwrap();
    let server = Nostat::start(&change(Config::wordpress(&root, &responder)));
    let mut numbers = Numbers(seed);
    let rounds = std::env::var("SPELLINGS").map_or(4_000, |rounds| rounds.parse().unwrap());
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    for round in 0..rounds {
        let folder = folders[numbers.below(folders.len())];
        let name = match folder {
            "../" => "outside.txt",
            "" if numbers.below(8) == 0 => PRIVATE_IN_ROOT[numbers.below(PRIVATE_IN_ROOT.len())],
            _ => PRIVATE[numbers.below(PRIVATE.len())],
        };
        let target = spelt(&format!("{folder}{name}"), &mut numbers);
        let method = if numbers.below(4) == 0 { "HEAD" } else { "GET" };
        let mut bytes = [
            method.as_bytes(),
            b" ",
            &target,
            b" HTTP/1.1\r\nHost: example.com\r\n",
        ]
        .concat();
        match numbers.below(4) {
            0 => bytes.extend_from_slice(b"Range: bytes=0-100\r\n"),
            1 => bytes.extend_from_slice(b"Accept-Encoding: br, gzip\r\n"),
            _ => {}
        }
        bytes.extend_from_slice(b"\r\n");
        let mut connection = server.connect();
        connection.send_lossy(&bytes);
        connection.half_close();
        let answer = connection.read_to_end();
        let text = String::from_utf8_lossy(&answer);
        assert!(
            !text.contains(MARK),
            "round {round}: {} shows {text}",
            shown(&target)
        );
        assert!(
            text.starts_with("HTTP/1.1 "),
            "round {round}: {}: {text}",
            shown(&target)
        );
    }
    let root_path = root.path().to_str().unwrap();
    for seen in responder.requests() {
        let script = seen.param("SCRIPT_FILENAME");
        let below = script
            .strip_prefix(root_path)
            .unwrap_or_else(|| panic!("{script} is outside"));
        let is_allowed = [
            "/index.php",
            "/wp-login.php",
            "/wp-config.php",
            "/wp-config-sample.php",
            "/wp-admin/index.php",
            "/wp-content/index.php",
            // What a network sends its old files through.
            "/wp-includes/ms-files.php",
        ];
        let inner = ["/blog", "/wp"]
            .iter()
            .find_map(|folder| below.strip_prefix(folder))
            .unwrap_or(below);
        assert!(
            is_allowed.contains(&below) || is_allowed.contains(&inner),
            "{script} for {}",
            seen.param("REQUEST_URI")
        );
        assert!(
            !script.contains("wp-config"),
            "{script} for {}",
            seen.param("REQUEST_URI")
        );
    }
    assert!(!responder.requests().is_empty(), "some of them are pages");
}

#[test]
fn a_script_cannot_have_sent_what_nobody_may_have() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    for name in PRIVATE {
        root.write(name, format!("<?php {MARK}").as_bytes());
    }
    root.write("wp-content/denied/.htaccess", b"Require all denied\n");
    std::fs::write(root.outside().join("outside.txt"), MARK).unwrap();
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    let mut numbers = Numbers(11);
    // Those that only visitors may not have are an application's to send: its own backups, logs and archives.
    let sources = PRIVATE.iter().filter(|name| {
        let name = name.to_ascii_lowercase();
        name.contains(".ph")
            || name.ends_with(".inc")
            || name.contains("wp-config")
            || name.starts_with('.')
    });
    let sources: Vec<&str> = sources.copied().chain(["../outside.txt"]).collect();
    for round in 0..400 {
        let name = sources[numbers.below(sources.len())];
        let mut target = spelt(name, &mut numbers);
        target.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        let field = if numbers.below(2) == 0 {
            "X-Accel-Redirect"
        } else {
            "X-Sendfile"
        };
        let path = match field {
            "X-Sendfile" => format!("{}/{name}", root.path().display()).into_bytes(),
            _ => target,
        };
        let uri = format!("/download-{round}/");
        responder.on(
            &uri,
            Script::answers([field.as_bytes(), b": ", &path, b"\r\n\r\n"].concat()),
        );
        let mut connection = server.connect();
        connection.send(&request("GET", &uri, &[("Connection", "close")], b""));
        let answer = connection.read_to_end();
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.contains(MARK), "{field}: {}", path.escape_ascii());
    }
}
