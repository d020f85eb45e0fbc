#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use regex::Regex;

use super::*;
use crate::request::pattern::Pattern;

fn patterns(expression: &str) -> Option<Vec<String>> {
    of_expression(expression)
}

#[test]
fn usual_expressions_have_patterns() {
    for (expression, expected) in [
        (r"\.(css|js)$", &["*.css", "*.js"][..]),
        (r"\.(?:jpe?g|png)$", &["*.jpeg", "*.jpg", "*.png"]),
        (r".(svg|woff2?)$", &["*.svg", "*.woff2", "*.woff"]),
        (r"^/private/", &["/private/"]),
        (r"^/private/.*", &["/private/"]),
        (r"^/a(b|c)\.txt$", &["/ab.txt", "/ac.txt"]),
        (
            r"/(?:uploads|files)/.*\.php$",
            &["/**/uploads/**.php", "/**/files/**.php"],
        ),
        (r"/\.", &["/**/.**"]),
        (r"/\.(?!well-known).*", &["/**/.**"]),
        (r"/\.(?!well-known(?:/|$))", &["/**/.**"]),
        (r"^/x/[^/]+/y$", &["/x/*/y"]),
        (r"^.+\.(css|js)$", &["*.css", "*.js"]),
        (r"\.php[345]$", &["*.php3", "*.php4", "*.php5"]),
        (r"wp-config\.php", &["/**wp-config.php**"]),
    ] {
        assert_eq!(patterns(expression).unwrap(), expected, "{expression}");
    }
}

#[test]
fn what_globs_cannot_say_has_none() {
    for expression in [
        r"^/(\d+)/",
        r"(a)\1",
        r"\h",
        "a{2}",
        "(a|b)+",
        "(?!x)",
        "(?<n>a)",
        "[^a]",
        "(",
        "a)",
        "*",
        "[",
        "\\",
    ] {
        assert_eq!(patterns(expression), None, "{expression}");
    }
    assert_eq!(patterns(&"(a|b)".repeat(30)), None);
    assert_eq!(patterns(&"(".repeat(10_000)), None);
}

#[test]
fn locations_are_read() {
    let parse = |words: &str| {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        Matcher::parse(&words)
    };
    assert_eq!(parse("= /a"), Matcher::Exact("/a".into()));
    assert_eq!(parse("=/a"), Matcher::Exact("/a".into()));
    assert_eq!(parse("^~ /a/").patterns().unwrap(), ["/a/"]);
    assert_eq!(parse("/a").patterns().unwrap(), ["/a**"]);
    assert_eq!(parse("~* \\.css$"), Matcher::Regex("\\.css$".into()));
    assert_eq!(parse("@a").patterns(), None);
    assert!(parse("/").is_all());
    assert!(parse("~ [^/]\\.php(/|$)").is_php());
}

proptest! {
    /// What the expression finds, one of the patterns matches.
    #[test]
    fn patterns_match_what_the_expression_does(
        expression in prop::sample::select(vec![
            r"\.(css|js)$", r"^/private/", r"/(?:uploads|files)/.*\.php$", r"/\.", r"^/x/[^/]+/y$", r"wp-config\.php",
            r"^/a(b|c)?\.txt$",
        ]),
        path in "/([abxy.]{0,2}|uploads|private|wp-config.php)(/[abxy.]{1,2}){0,2}(/?(\\.css|\\.php|\\.txt|y))?",
    ) {
        let found = Regex::new(expression).unwrap().is_match(&path);
        let patterns = of_expression(expression).unwrap();
        let matched = patterns.iter().any(|p| Pattern::parse(p).unwrap().matches(path.as_bytes()));
        prop_assert!(!found || matched, "{expression} {path} {patterns:?}");
    }

    #[test]
    fn any_text_is_read_or_has_none(text in "[\\^$.*+?(){}|\\[\\]a-c/\\\\-]{0,20}") {
        for pattern in of_expression(&text).unwrap_or_default() {
            prop_assert!(pattern.starts_with(['/', '*']), "{text}: {pattern}");
        }
    }
}
