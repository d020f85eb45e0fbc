#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

use proptest::prelude::*;

use super::*;

fn get(raw: &[u8]) -> Result<Target<'_>, TargetError> {
    Target::parse(&Method::Get, raw)
}

fn path_of(raw: &str) -> String {
    let target = get(raw.as_bytes()).unwrap_or_else(|error| panic!("{raw}: {error}"));
    String::from_utf8_lossy(&target.path).into_owned()
}

#[test]
fn a_plain_target_is_borrowed() {
    let target = get(b"/wp-content/a.b+c~d.css?ver=%2F../&x#"
        .strip_suffix(b"#")
        .unwrap())
    .unwrap();
    assert!(matches!(target.path, Cow::Borrowed(_)));
    assert_eq!(&*target.path, b"/wp-content/a.b+c~d.css");
    assert_eq!(target.raw_path, b"/wp-content/a.b+c~d.css");
    assert_eq!(target.query, Some(&b"ver=%2F../&x"[..]));
    assert_eq!(
        target.tree_path().unwrap().as_bytes(),
        b"wp-content/a.b+c~d.css"
    );
    assert!(!target.trailing_slash());
    assert!(!target.separator_in_segment);
}

#[test]
fn what_stays_the_same_is_borrowed_also_when_it_has_dots() {
    let target = get(b"/.well-known/acme-challenge/...").unwrap();
    assert!(matches!(target.path, Cow::Borrowed(_)));
}

#[test]
fn the_first_question_mark_begins_the_query() {
    let query = |raw: &'static [u8]| get(raw).unwrap().query;
    assert_eq!(query(b"/a"), None);
    assert_eq!(query(b"/a?"), Some(&b""[..]));
    assert_eq!(query(b"/a?b?c"), Some(&b"b?c"[..]));
    assert_eq!(query(b"/a%3Fb"), None);
    assert_eq!(path_of("/a%3Fb"), "/a?b");
    assert_eq!(path_of("/?/../../.."), "/");
}

#[test]
fn escapes_are_undone_once() {
    for (raw, path) in [
        ("/a%20b.css", "/a b.css"),
        ("/a+b.css", "/a+b.css"),
        ("/a%2Bb.css", "/a+b.css"),
        ("/caf%C3%A9.jpg", "/caf\u{e9}.jpg"),
        ("/caf%c3%a9.jpg", "/caf\u{e9}.jpg"),
        ("/caf\u{e9}.jpg", "/caf\u{e9}.jpg"),
        ("/100%25.txt", "/100%.txt"),
        ("/%252e%252e%252fwp-config.php", "/%2e%2e%2fwp-config.php"),
        ("/%2egit/config", "/.git/config"),
        ("/%41%5a", "/AZ"),
    ] {
        assert_eq!(path_of(raw), path, "{raw}");
    }
    assert_eq!(&*get(b"/%ff\xfe").unwrap().path, b"/\xff\xfe");
}

#[test]
fn bad_escapes_are_refused() {
    for raw in [
        "/%", "/%4", "/%zz", "/100%", "/%%41", "/% 41", "/a%2/b", "/%+1",
    ] {
        assert!(get(raw.as_bytes()).is_err(), "{raw}");
    }
    assert_eq!(get(b"/?%zz").unwrap().query, Some(&b"%zz"[..]));
}

#[test]
fn control_bytes_are_refused_raw_and_encoded() {
    for byte in (0_u8..0x20).chain([0x7f]) {
        let encoded = format!("/index.php%{byte:02x}.jpg");
        assert_eq!(
            get(encoded.as_bytes()),
            Err(TargetError::Control),
            "{encoded}"
        );
        assert_eq!(get(&[b'/', b'a', byte, b'b']), Err(TargetError::Byte));
        assert_eq!(get(&[b'/', b'?', byte]), Err(TargetError::Byte));
    }
    assert_eq!(get(b"/a b"), Err(TargetError::Byte));
    assert!(get(b"/?%00%0a").is_ok());
}

#[test]
fn fragments_are_refused() {
    for raw in ["/a#b", "/a?b#c", "http://x/#"] {
        assert_eq!(get(raw.as_bytes()), Err(TargetError::Byte), "{raw}");
    }
    assert_eq!(path_of("/a%23b"), "/a#b");
}

#[test]
fn dot_segments_are_taken_out_however_they_are_written() {
    for (raw, path) in [
        ("/", "/"),
        ("/.", "/"),
        ("/./", "/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/.", "/a/"),
        ("/a/./b", "/a/b"),
        ("/a/b/..", "/a/"),
        ("/a/./b/../style.css", "/a/style.css"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b/%2e", "/b/"),
        ("/./style.css", "/style.css"),
        ("/a/...", "/a/..."),
        ("/a/..b/b..", "/a/..b/b.."),
        (
            "/index.php/../uploads/evil.jpg/.php",
            "/uploads/evil.jpg/.php",
        ),
    ] {
        assert_eq!(path_of(raw), path, "{raw}");
    }
}

#[test]
fn runs_of_slashes_are_one() {
    for (raw, path) in [
        ("//", "/"),
        ("//a", "/a"),
        ("/a//b///c", "/a/b/c"),
        ("/a//", "/a/"),
        ("/a//../b", "/b"),
        ("//evil.test/..", "/"),
    ] {
        assert_eq!(path_of(raw), path, "{raw}");
    }
    assert_eq!(get(b"//a").unwrap().raw_path, b"//a");
}

#[test]
fn nothing_climbs_above_the_root() {
    for raw in [
        "/..",
        "/../",
        "/../a",
        "/../../../etc/passwd",
        "/a/../../b",
        "/%2e%2e/a",
        "/.%2E/a",
        "/./../a",
        "//../a",
    ] {
        assert_eq!(get(raw.as_bytes()), Err(TargetError::AboveRoot), "{raw}");
    }
}

#[test]
fn dot_dot_by_another_separator_is_refused() {
    for raw in [
        "/%5c..%5c",
        "/wp-content/..\\..\\wp-config.php",
        "/a/..\\b",
        "/a\\..",
        "/..%2f..%2f..%2fetc/passwd",
        "/a/..%2Fb",
        "/a/b%2f%2e%2e",
        "/a/%2e%2e%5cb",
        "/a%5C../b",
        "/a%2Fb/../c",
        "/a%2F../b",
        "/..%5c",
    ] {
        assert_eq!(get(raw.as_bytes()), Err(TargetError::AboveRoot), "{raw}");
    }
}

#[test]
fn a_separator_in_a_segment_is_no_path_of_the_tree() {
    for (raw, path) in [
        ("/a%2Fb", "/a/b"),
        ("/a%2fb/c", "/a/b/c"),
        ("/a\\b", "/a\\b"),
        ("/a%5Cb", "/a\\b"),
        ("/a%2F", "/a/"),
        ("/index.php/a%2Fb", "/index.php/a/b"),
        (
            "/wp-content/uploads%2Fevil.php",
            "/wp-content/uploads/evil.php",
        ),
    ] {
        let target = get(raw.as_bytes()).unwrap();
        assert!(target.separator_in_segment, "{raw}");
        assert_eq!(target.tree_path(), None, "{raw}");
        assert_eq!(&*target.path, path.as_bytes(), "{raw}");
    }
    assert!(!get(b"/a?%2F\\").unwrap().separator_in_segment);
}

#[test]
fn the_tree_path_is_the_path_without_its_outer_slashes() {
    let of = |raw: &'static [u8]| {
        get(raw)
            .unwrap()
            .tree_path()
            .map(|it| it.as_bytes().to_vec())
    };
    assert_eq!(of(b"/"), Some(b"".to_vec()));
    assert_eq!(of(b"/a"), Some(b"a".to_vec()));
    assert_eq!(of(b"/a/"), Some(b"a".to_vec()));
    assert_eq!(of(b"/a/%41//.//b/"), Some(b"a/A/b".to_vec()));
    assert!(get(b"/a/").unwrap().trailing_slash());
    assert!(get(b"/").unwrap().trailing_slash());
}

#[test]
fn an_absolute_target_brings_its_authority() {
    let raw = b"HTTP://Example.com:81/a/../b?c";
    let target = get(raw).unwrap();
    assert_eq!(target.raw, raw);
    assert_eq!(target.scheme, Some(&b"HTTP"[..]));
    assert_eq!(target.authority, Some(&b"Example.com:81"[..]));
    assert_eq!(target.raw_path, b"/a/../b");
    assert_eq!(&*target.path, b"/b");
    assert_eq!(target.query, Some(&b"c"[..]));
    assert_eq!(&*target.origin_form(), b"/a/../b?c");

    let target = get(b"https://[::1]").unwrap();
    assert_eq!(target.raw_path, b"/");
    assert_eq!(&*target.path, b"/");
    assert_eq!(&*target.origin_form(), b"/");

    let target = get(b"http://x?a/b").unwrap();
    assert_eq!(&*target.path, b"/");
    assert_eq!(target.query, Some(&b"a/b"[..]));
    assert_eq!(&*target.origin_form(), b"/?a/b");

    assert_eq!(&*get(b"/a%41?b").unwrap().origin_form(), b"/a%41?b");
}

#[test]
fn other_forms_are_refused() {
    for raw in [
        "",
        "a",
        "*",
        "**",
        "a/b",
        "example.com:443",
        "http:",
        "http:/",
        "http:/a",
        "http:x/a",
        "ftp://x/a",
        "file:///etc/passwd",
        "://x/",
        "?a",
        "\\a",
        "%2Fa",
    ] {
        assert_eq!(get(raw.as_bytes()), Err(TargetError::Form), "{raw}");
    }
    for raw in [
        "http://",
        "http:///a",
        "http://u@x/",
        "http://x:y/",
        "http://x\\y/",
    ] {
        assert_eq!(get(raw.as_bytes()), Err(TargetError::Authority), "{raw}");
    }
    assert_eq!(TargetError::Form.status(), 400);
}

#[test]
fn asterisk_is_for_options_and_authority_form_for_nobody() {
    let target = Target::parse(&Method::Options, b"*").unwrap();
    assert!(target.is_asterisk());
    assert_eq!(&*target.path, b"/");
    assert_eq!(target.tree_path(), Some(TreePath::ROOT));
    assert!(!Target::parse(&Method::Options, b"/").unwrap().is_asterisk());
    for raw in [&b"x:443"[..], b"/", b"*"] {
        assert_eq!(Target::parse(&Method::Connect, raw), Err(TargetError::Form));
    }
}

/// Writes a path so that decoding gives it back.
fn encode(path: &[u8]) -> Vec<u8> {
    path.iter()
        .flat_map(|&byte| match byte {
            b'/' => vec![b'/'],
            _ => format!("%{byte:02X}").into_bytes(),
        })
        .collect()
}

fn nearly_a_path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"/"[..]),
        3 => Just(&b"a"[..]),
        2 => Just(&b"."[..]),
        2 => Just(&b".."[..]),
        1 => Just(&b"%2e"[..]),
        1 => Just(&b"%2F"[..]),
        1 => Just(&b"%5c"[..]),
        1 => Just(&b"\\"[..]),
        1 => Just(&b"%25"[..]),
        1 => Just(&b"%252e"[..]),
        1 => Just(&b"%C3%A9"[..]),
        1 => Just(&b"\xe9"[..]),
        1 => Just(&b"?"[..]),
    ];
    proptest::collection::vec(piece, 0..12)
        .prop_map(|pieces| [&b"/"[..], &pieces.concat()].concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(raw in proptest::collection::vec(any::<u8>(), 0..80)) {
        for method in [Method::Get, Method::Options, Method::Connect] {
            let _ = Target::parse(&method, &raw).map(|it| (it.origin_form().len(), it.trailing_slash()));
        }
    }

    #[test]
    fn a_path_without_separators_has_a_tree_path(raw in nearly_a_path()) {
        if let Ok(target) = get(&raw) {
            prop_assert!(target.path.starts_with(b"/"));
            prop_assert!(!target.path.iter().any(u8::is_ascii_control));
            // `TreePath::new` refuses every other shape, so `None` would show here.
            prop_assert_eq!(target.tree_path().is_none(), target.separator_in_segment);
        }
    }

    #[test]
    fn no_reading_of_a_path_leads_upwards(raw in nearly_a_path()) {
        if let Ok(target) = get(&raw) {
            prop_assert!(!target.path.split(|&b| b == b'/' || b == b'\\').any(|it| it == b".."));
        }
    }

    #[test]
    fn a_decoded_path_written_again_decodes_to_itself(raw in nearly_a_path()) {
        if let Ok(target) = get(&raw)
            && !target.separator_in_segment
        {
            let again = encode(&target.path);
            prop_assert_eq!(&get(&again).unwrap().path, &target.path);
        }
    }

    #[test]
    fn a_path_without_escapes_is_stable(segments in proptest::collection::vec("[a-z.]{0,3}", 0..6)) {
        let raw = format!("/{}", segments.join("/"));
        if let Ok(target) = get(raw.as_bytes()) {
            let once = target.path.into_owned();
            prop_assert_eq!(&*get(&once).unwrap().path, &once[..]);
        }
    }

    #[test]
    fn every_name_without_separators_can_be_asked_for(name in proptest::collection::vec(0x20_u8..=0xff, 1..20)) {
        let name: Vec<u8> = name.into_iter().filter(|b| !b"/\\\x7f".contains(b)).collect();
        if !matches!(&name[..], b"" | b"." | b"..") {
            let raw = encode(&[&b"/"[..], &name].concat());
            let target = get(&raw).unwrap();
            prop_assert_eq!(target.tree_path().unwrap().as_bytes(), &name[..]);
        }
    }
}
