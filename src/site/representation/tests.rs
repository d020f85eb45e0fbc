#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::PathBuf;

use super::*;
use crate::descriptor_cache::Identity;

const NOW: UnixTime = UnixTime {
    seconds: 1_710_000_000,
    nanos: 0,
};

fn settings(preset: Preset) -> SiteSettings {
    SiteSettings::new(PathBuf::from("/srv"), preset)
}

fn header(pattern: &str, set: &[(&str, &str)]) -> HeaderRule {
    HeaderRule {
        pattern: pattern.into(),
        set: set
            .iter()
            .map(|&(name, value)| (name.into(), value.into()))
            .collect(),
    }
}

fn entry(racy: bool) -> FileEntry {
    let modified = UnixTime {
        seconds: 1_704_164_645,
        nanos: 500_000_000,
    };
    FileEntry::new(
        Identity {
            device: 1,
            inode: 2,
            size: 10,
            modified,
            changed: modified,
            links: 1,
            mode: 0o100_644,
        },
        racy,
    )
}

fn rendered(settings: &SiteSettings, path: &str) -> PreparedHeads {
    let path = TreePath::new(path.as_bytes()).unwrap();
    HeadRules::new(settings)
        .unwrap()
        .render(path, &entry(false), NOW, Coding::Identity)
}

fn text(head: &Bytes) -> &str {
    std::str::from_utf8(head).unwrap()
}

#[test]
fn a_style_sheet_of_wordpress() {
    let heads = rendered(
        &settings(Preset::Wordpress),
        "wp-content/themes/t/style.css",
    );
    let etag = format!("\"{:x}-a\"", 1_704_164_645_500_000_000_u64);
    assert_eq!(
        text(&heads.plain.ok),
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/css; charset=utf-8\r\nContent-Length: 10\r\n\
             Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: {etag}\r\nAccept-Ranges: bytes\r\n\
             Cache-Control: public, max-age=0, must-revalidate\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n"
        )
    );
    assert_eq!(
        text(&heads.plain.not_modified),
        format!(
            "HTTP/1.1 304 Not Modified\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: {etag}\r\n\
             Cache-Control: public, max-age=0, must-revalidate\r\nVary: Accept-Encoding\r\n"
        )
    );
    assert_eq!(
        text(&heads.versioned.partial),
        format!(
            "Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: {etag}\r\nAccept-Ranges: bytes\r\n\
             Cache-Control: public, max-age=2592000\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\n"
        )
    );
    assert_eq!(&*heads.media_type, b"text/css; charset=utf-8");
    assert_eq!(heads.last_modified, Some(1_704_164_645));
    assert_eq!(heads.etag.as_deref(), Some(etag.as_bytes()));
}

#[test]
fn what_is_not_compressible_does_not_vary() {
    let heads = rendered(&settings(Preset::Wordpress), "wp-content/uploads/a.jpg");
    assert!(!text(&heads.plain.ok).contains("Vary"));
    assert!(text(&heads.plain.ok).contains("Cache-Control: public, max-age=86400\r\n"));
}

#[test]
fn only_the_wordpress_preset_has_a_table() {
    for preset in [Preset::Static, Preset::Php] {
        assert!(
            !text(&rendered(&settings(preset), "a.css").versioned.ok).contains("Cache-Control")
        );
    }
}

#[test]
fn configured_fields_replace_ours_and_vary_adds_to_it() {
    let mut settings = settings(Preset::Wordpress);
    settings.headers = vec![
        header(
            "/fonts/",
            &[
                ("Access-Control-Allow-Origin", "*"),
                ("Vary", "Origin"),
                ("cache-control", "private"),
            ],
        ),
        header("*.woff", &[("Content-Type", "application/x-own")]),
    ];
    let heads = rendered(&settings, "fonts/a.woff");
    let ok = text(&heads.plain.ok);
    assert!(ok.contains("Access-Control-Allow-Origin: *\r\n") && ok.contains("Vary: Origin\r\n"));
    assert_eq!(ok.to_ascii_lowercase().matches("cache-control:").count(), 1);
    assert!(ok.contains(": private\r\n") && ok.contains("Content-Type: application/x-own\r\n"));
    assert_eq!(&*heads.media_type, b"application/x-own");
    assert!(text(&heads.plain.not_modified).contains("Access-Control-Allow-Origin: *\r\n"));
    let svg = rendered(&settings, "fonts/a.svg");
    assert_eq!(text(&svg.plain.ok).matches("Vary: ").count(), 2);
    assert!(!text(&rendered(&settings, "a.woff2").plain.ok).contains("Access-Control"));
}

#[test]
fn fields_that_cannot_be_sent_are_refused() {
    for (name, value) in [
        ("Content-Length", "1"),
        ("etag", "x"),
        ("X A", "1"),
        ("", "1"),
        ("X-A", "a\r\nB: c"),
        ("X-A", " a"),
        ("X-A", "\0"),
    ] {
        let mut settings = settings(Preset::Static);
        settings.headers = vec![header("/", &[(name, value)])];
        assert!(HeadRules::new(&settings).is_err(), "{name}: {value:?}");
    }
    let mut settings = settings(Preset::Static);
    settings.cache_control = vec![CacheControlRule {
        pattern: "/".into(),
        value: "a\nb".into(),
    }];
    assert!(HeadRules::new(&settings).is_err());
}

#[test]
fn equal_rules_have_one_number() {
    let id = |settings: &SiteSettings| HeadRules::new(settings).unwrap().file_id(Coding::Identity);
    let one = settings(Preset::Wordpress);
    let mut other = settings(Preset::Wordpress);
    other.root = PathBuf::from("/elsewhere");
    other.deny = vec!["/x".into()];
    assert_eq!(id(&one), id(&other));
    other.etag = EtagMode::Content;
    assert_ne!(id(&one), id(&other));
    assert_ne!(id(&one), id(&settings(Preset::Static)));
}
