//! Files in content codings beside their originals: `.br`, `.zst`, `.gz`.

use std::time::{Duration, SystemTime};

use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::mode::{Mode, in_each_mode};
use crate::support::nostat::{Config, Nostat};

const ORIGINAL: &str = "wp-content/themes/t/style.css";

/// The bytes of a coded file need not be coded here: nobody decodes them.
fn write_coded(root: &DocumentRoot, suffix: &str, bytes: &[u8]) {
    root.write(format!("{ORIGINAL}{suffix}"), bytes);
}

fn serve(mode: Mode, root: &DocumentRoot) -> Nostat {
    Nostat::start(&mode.config(Config::wordpress_alone(root)))
}

fn in_coding(server: &Nostat, coding: &str) -> crate::support::client::Response {
    server.get_with(STYLE_PATH, &[("Accept-Encoding", coding)])
}

#[test]
fn the_client_gets_the_coding_that_it_likes_best() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        write_coded(&root, ".br", b"brotli, and longer than the original");
        write_coded(&root, ".zst", b"zstd");
        write_coded(&root, ".gz", b"gz");
        let server = serve(mode, &root);
        for _ in 0..3 {
            for (asked, coding, body) in [
                (
                    "gzip, deflate, br, zstd",
                    Some("br"),
                    &b"brotli, and longer than the original"[..],
                ),
                ("gzip, zstd", Some("zstd"), b"zstd"),
                ("gzip", Some("gzip"), b"gz"),
                ("br;q=0.5, gzip;q=0.6", Some("gzip"), b"gz"),
                ("gzip;q=0, br;q=0.000", None, STYLE_BYTES),
                ("identity, br;q=0.9", None, STYLE_BYTES),
                (
                    "*;q=0.5",
                    Some("br"),
                    b"brotli, and longer than the original",
                ),
                ("deflate", None, STYLE_BYTES),
                ("", None, STYLE_BYTES),
            ] {
                let answer = in_coding(&server, asked);
                answer.assert(200, body);
                assert_eq!(answer.field("content-encoding"), coding, "{asked}");
                assert_eq!(
                    answer.field("content-type"),
                    Some("text/css; charset=utf-8")
                );
                assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{asked}");
            }
            let plain = server.get(STYLE_PATH);
            plain.assert(200, STYLE_BYTES);
            assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
        }
    });
}

#[test]
fn each_form_has_a_tag_and_ranges_of_its_own() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        let hour = SystemTime::now() - Duration::from_secs(3600);
        root.write_at(ORIGINAL, STYLE_BYTES, hour);
        // As long as the original, and as old.
        root.write_at(format!("{ORIGINAL}.br"), b"abcdefghij", hour);
        root.write_at(format!("{ORIGINAL}.gz"), b"klmnopqrst", hour);
        let server = serve(mode, &root);
        // Each of the files was written a moment ago, and each at a moment of its own.
        let settled = |coding| {
            eventually("its entity-tag is strong", || {
                let tag = in_coding(&server, coding).etag().to_owned();
                (!tag.starts_with("W/")).then_some(tag)
            })
        };
        let tags: Vec<String> = ["identity", "br", "gzip"].map(settled).into();
        assert!(tags.iter().all(|tag| !tag.starts_with("W/")), "{tags:?}");
        assert!(
            tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2],
            "{tags:?}"
        );
        for (number, coding) in ["identity", "br", "gzip"].iter().enumerate() {
            for (other, tag) in tags.iter().enumerate() {
                let fields = [("Accept-Encoding", *coding), ("If-None-Match", &**tag)];
                let answer = server.get_with(STYLE_PATH, &fields);
                let expected = if number == other { 304 } else { 200 };
                assert_eq!(answer.status, expected, "{coding} with {tag}");
                assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
                if expected == 304 {
                    assert_eq!(answer.field("content-encoding"), None);
                    assert_eq!(answer.etag(), tag);
                }
                let fields = [
                    ("Accept-Encoding", *coding),
                    ("If-Range", &**tag),
                    ("Range", "bytes=2-4"),
                ];
                let ranged = server.get_with(STYLE_PATH, &fields);
                assert_eq!(ranged.status, if number == other { 206 } else { 200 });
            }
        }
        let ranged = server.get_with(
            STYLE_PATH,
            &[("Accept-Encoding", "br"), ("Range", "bytes=2-4")],
        );
        ranged.assert(206, b"cde");
        assert_eq!(ranged.field("content-encoding"), Some("br"));
        assert_eq!(ranged.field("content-range"), Some("bytes 2-4/10"));
        let head = server.send("HEAD", STYLE_PATH, &[("Accept-Encoding", "gzip")], b"");
        assert_eq!(head.field("content-length"), Some("10"));
        assert_eq!(head.field("content-encoding"), Some("gzip"));
    });
}

#[test]
fn a_coded_file_that_appears_changes_or_goes_is_seen() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        let server = serve(mode, &root);
        for _ in 0..3 {
            in_coding(&server, "br").assert(200, STYLE_BYTES);
        }
        write_coded(&root, ".br", b"first");
        let sent = |body: &[u8]| in_coding(&server, "br").body == body;
        mode.soon("the new one is sent", || sent(b"first"));
        root.replace(&format!("{ORIGINAL}.br"), b"second, longer");
        mode.soon("the changed one is sent", || sent(b"second, longer"));
        root.remove(&format!("{ORIGINAL}.br"));
        mode.soon("the original is sent again", || sent(STYLE_BYTES));
    });
}

#[test]
fn one_that_is_older_than_its_original_or_has_none_is_never_sent() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        let now = SystemTime::now();
        write_coded(&root, ".br", b"of the original");
        let server = serve(mode, &root);
        in_coding(&server, "br").assert(200, b"of the original");
        root.write_at(
            ORIGINAL,
            b"a new original",
            now + Duration::from_millis(1500),
        );
        mode.soon("the new original is sent", || {
            in_coding(&server, "br").body == b"a new original"
        });
        root.remove(ORIGINAL);
        mode.soon("nothing is sent", || in_coding(&server, "br").status == 404);
        // An empty one is a tool's that has failed.
        root.write(ORIGINAL, STYLE_BYTES);
        write_coded(&root, ".br", b"");
        mode.soon("the original is sent", || {
            in_coding(&server, "br").body == STYLE_BYTES
        });
    });
}

#[test]
fn it_is_no_way_round_a_rule_and_no_link_out() {
    let root = DocumentRoot::wordpress();
    let secret = root.outside().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    root.link(&format!("{ORIGINAL}.br"), &secret);
    root.folder(&format!("{ORIGINAL}.gz"));
    root.write("wp-content/private/a.css", b"private");
    root.write("wp-content/private/a.css.br", b"private");
    root.write("wp-content/private/.htaccess", b"Deny from all\n");
    root.write("wp-config.php.br", b"secret");
    root.write("image.png", b"image");
    root.write("image.png.br", b"never");
    let server = serve(Mode::Polled, &root);
    in_coding(&server, "br, gzip").assert(200, STYLE_BYTES);
    let status = |path: &str| server.get_with(path, &[("Accept-Encoding", "br")]).status;
    assert_eq!(status("/wp-content/private/a.css"), 403);
    assert_eq!(status("/wp-config.php"), 403);
    // What no coding makes smaller is not looked for in any.
    let image = server.get_with("/image.png", &[("Accept-Encoding", "br")]);
    image.assert(200, b"image");
    assert_eq!(image.field("vary"), None);
    let off = Nostat::start(&Config::wordpress_alone(&root).site("precompressed", "off"));
    root.remove(&format!("{ORIGINAL}.br"));
    write_coded(&root, ".br", b"coded");
    in_coding(&off, "br").assert(200, STYLE_BYTES);
}
