//! The text and its structure: encoding, syntax, duplicate and unknown keys.

use proptest::prelude::*;

use super::*;

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let text = format!("\u{feff}{SITE}").replace('\n', "\r\n");
    assert_eq!(read(&text), read(SITE));
    let wrong = format!("\u{feff}{SITE}workers: 0\n").replace('\n', "\r\n");
    assert_eq!(
        mistakes(wrong),
        ["nostat.yaml:4:10: workers: 0 is out of range; expected 1 to 1024, or auto"]
    );
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    assert_eq!(
        mistakes("a: 1\nb: \0"),
        ["nostat.yaml:2:4: a NUL character; expected text"]
    );
    assert_eq!(
        mistakes("a: é\u{2028}"),
        ["nostat.yaml:1:5: the invisible character U+2028; expected text"]
    );
    assert_eq!(
        mistakes(b"a: 1\nb: \xC3\xA9\xFF"),
        ["nostat.yaml:2:5: not UTF-8; expected the file to be saved as UTF-8"]
    );
    assert_eq!(
        mistakes("sites:\n\t- root: /srv\n  \tx: 1\n"),
        [
            "nostat.yaml:2:1: a tab in the indentation; expected spaces",
            "nostat.yaml:3:3: a tab in the indentation; expected spaces",
        ]
    );
    assert_eq!(mistakes(vec![b'#'; text::MAX_BYTES + 1]).len(), 1);
}

#[test]
fn a_file_that_says_nothing_is_told_what_is_needed() {
    for text in ["", "# nothing\n", "---\n", "\u{feff}", "~"] {
        let mistakes = mistakes(text);
        assert_eq!(mistakes.len(), 1, "{text:?}");
        assert!(
            mistakes[0].contains("says nothing; expected at least sites:"),
            "{mistakes:?}"
        );
    }
    assert!(mistakes("[]")[0].starts_with("nostat.yaml:1:1: a list is not a mapping"));
    assert!(mistakes("{}")[0].contains("the key sites is missing"));
}

#[test]
fn every_duplicate_key_is_told_with_both_places() {
    let text =
        format!("{SITE}workers: 1\nlimits: {{url: 1KiB, url: 2KiB}}\nworkers: 2\nworkers: 3\n");
    assert_eq!(
        mistakes(text),
        [
            "nostat.yaml:5:21: limits.url: the key \"url\" stands here a second time; \
             it was given first at 5:10; keep one of them",
            "nostat.yaml:6:1: workers: the key \"workers\" stands here a second time; \
             it was given first at 4:1; keep one of them",
            "nostat.yaml:7:1: workers: the key \"workers\" stands here a second time; \
             it was given first at 4:1; keep one of them",
        ]
    );
}

#[test]
fn a_duplicate_key_hides_no_other_mistake() {
    let text = format!("workers: 0\n{SITE}sites: []\nlimit: {{}}\n");
    assert_eq!(
        mistakes(text),
        [
            "nostat.yaml:1:10: workers: 0 is out of range; expected 1 to 1024, or auto",
            "nostat.yaml:5:1: sites: the key \"sites\" stands here a second time; \
             it was given first at 2:1; keep one of them",
            "nostat.yaml:6:1: limit: the key \"limit\" is not known here; did you mean limits?",
        ]
    );
}

#[test]
fn what_says_a_thing_at_another_place_is_refused() {
    for (extra, expected) in [
        ("limits: &a {}\n", "nostat.yaml:4:12: limits: an anchor (&)"),
        ("limits: *a\n", "nostat.yaml:4:9: not valid YAML: "),
        (
            "limits: {<<: {url: 1KiB}}\n",
            "nostat.yaml:4:10: limits.\"<<\": a merge key",
        ),
        ("limits: !x {}\n", "nostat.yaml:4:12: limits: a tag (!)"),
        ("workers: !!int 3\n", "nostat.yaml:4:16: workers: a tag (!)"),
        (
            "---\nlimits: {}\n",
            "nostat.yaml:4:1: a second document starts here",
        ),
        (
            "? [a]\n: 1\n",
            "nostat.yaml:4:3: a list or mapping as a key",
        ),
        (
            "limits: {? {a: {b: c}} : 1}\n",
            "nostat.yaml:4:12: limits: a list or mapping as a key",
        ),
    ] {
        let mistakes = mistakes_of(extra);
        assert!(mistakes[0].starts_with(expected), "{extra}: {mistakes:?}");
    }
    let mistakes = mistakes_of("spool: &a {}\nlimits: *a\n");
    assert!(mistakes[1].starts_with("nostat.yaml:5:9: limits: an alias; write the value"));
}

#[test]
fn syntax_errors_have_a_place() {
    for (text, place) in [
        ("sites: [", "nostat.yaml:"),
        ("a: b: c\n", "nostat.yaml:1:"),
        ("sites:\n  - root: \"/srv\n", "nostat.yaml:"),
        ("a\nb\n: c", "nostat.yaml:"),
        ("a: 1\n b: 2\n", "nostat.yaml:2:"),
        ("@", "nostat.yaml:1:1: "),
    ] {
        let mistakes = mistakes(text);
        assert!(mistakes[0].starts_with(place), "{text}: {mistakes:?}");
        assert!(
            mistakes[0].contains("not valid YAML: "),
            "{text}: {mistakes:?}"
        );
    }
}

#[test]
fn too_many_levels_are_refused() {
    let nested = |levels| format!("sites: {}{}", "[".repeat(levels), "]".repeat(levels));
    let expected = ["nostat.yaml:1:39: more than 32 levels within each other"];
    assert_eq!(mistakes(nested(40)), expected);
    assert_eq!(mistakes(nested(100_000)).len(), 1);
}

#[test]
fn unknown_keys_name_the_key_they_most_likely_mean() {
    assert_eq!(
        mistakes_of("open_file_cache: {inactiv: 1s, colour: red}\nLimits: {}\n8080: x\n"),
        [
            "nostat.yaml:4:19: open_file_cache.inactiv: the key \"inactiv\" is not known here; \
             did you mean inactive?",
            "nostat.yaml:4:32: open_file_cache.colour: the key \"colour\" is not known here; \
             expected one of max, descriptors, content, content_max_file, inactive, valid, \
             min_uses, errors, errors_valid, errors_max, watch",
            "nostat.yaml:5:1: Limits: the key \"Limits\" is not known here; did you mean limits?",
            "nostat.yaml:6:1: 8080: the key \"8080\" is not known here; expected one of listen, \
             workers, user, group, open_file_cache, sites, access_log, limits, rate_limits, trusted_proxies, spool, page_store, acme_store, watch_config, admin",
        ]
    );
    for (extra, expected) in [
        (
            "limits: {url: 1KiB}\nlimits.url: 2KiB\n",
            "5:1: \"limits.url\": the key \"limits.url\" is not known",
        ),
        ("\"\": 1\n", "4:1: \"\": the key \"\" is not known"),
        (
            "\"a\\nb\": 1\n",
            "4:1: \"a\\nb\": the key \"a\\nb\" is not known",
        ),
    ] {
        let mistakes = mistakes_of(extra);
        assert!(
            mistakes[0].starts_with(&format!("nostat.yaml:{expected}")),
            "{mistakes:?}"
        );
        assert_eq!(mistakes.len(), 1);
    }
}

#[test]
fn keys_of_later_versions_are_refused_unless_they_are_off() {
    let off = "listen: {address: \"[::]:80\", tls: off, http2: off, redirect: off}\n\
               open_file_cache: {watch: auto}\n";
    read(&format!(
        "{SITE}    precompressed: off\n    compression: off\n{off}"
    ));
    read("sites: [{root: /srv, origin: {peers: [\"a:1\"], accel: off}}]");

    let text = "sites: [{root: /srv, origin: {peers: [\"a:1\"], accel: on}}]";
    let mistakes = mistakes(text);
    let expected = "nostat.yaml:1:47: sites[0].origin.accel: is not supported by this version";
    assert!(mistakes[0].starts_with(expected), "{mistakes:?}");
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_mistake_without_a_place() {
    let mistakes = load(Path::new("/nonexistent/nostat.yaml")).unwrap_err();
    let text = mistakes[0].to_string();
    assert!(
        text.starts_with("/nonexistent/nostat.yaml: cannot be read: "),
        "{text}"
    );
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse("x", &bytes, Checks::TextOnly);
    }

    #[test]
    fn no_text_breaks_the_reader(text in "(?s).{0,200}") {
        let _ = parse("x", text.as_bytes(), Checks::TextOnly);
    }

    /// Pieces of YAML in any order, which get further than arbitrary text.
    #[test]
    fn no_pieces_of_yaml_break_the_reader(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)
    ) {
        let _ = parse("x", pieces.concat().as_bytes(), Checks::TextOnly);
    }

    /// A valid file with one piece put anywhere: what is still accepted is complete, and every
    /// mistake has a line of the file.
    #[test]
    fn a_piece_put_anywhere_is_accepted_or_told(
        at in 0..300_usize,
        piece in prop::sample::select(PIECES),
    ) {
        let mut text = format!("listen: [\"0.0.0.0:80\"]\nlimits: {{url: 8KiB}}\n{SITE}spool: {{total: 1GiB}}\n");
        text.insert_str(at.min(text.len()), piece);
        match parse("x", text.as_bytes(), Checks::TextOnly) {
            Ok(settings) => prop_assert!(!settings.sites.is_empty() && !settings.listen.is_empty()),
            Err(mistakes) => {
                prop_assert!(!mistakes.is_empty());
                // The end of the text is the line after its last one.
                let lines = text.split('\n').count() + 1;
                for mistake in mistakes {
                    prop_assert!((1..=lines).contains(&mistake.line), "{mistake} in {text:?}");
                    prop_assert!(!mistake.to_string().contains('\n'), "{mistake}");
                }
            }
        }
    }
}

const PIECES: &[&str] = &[
    "\n",
    " ",
    "  ",
    ":",
    ": ",
    "-",
    "- ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "#",
    "&a",
    "*a",
    "!t",
    "|",
    ">",
    "?",
    "? ",
    "<<",
    "'",
    "\"",
    "\\",
    "%",
    "@",
    "`",
    "---",
    "...",
    "\t",
    "\r\n",
    "~",
    "null",
    "on",
    "0",
    "1",
    "-1",
    "1.5",
    "1e999",
    ".inf",
    ".nan",
    "0x10",
    "5s",
    "10%",
    "64MiB",
    "é",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "sites",
    "root",
    "hosts",
    "php",
    "limits",
    "listen",
    "max_body",
    "/",
    "/srv",
    "127.0.0.1:80",
    "sites:\n",
    "root: /srv\n",
];
