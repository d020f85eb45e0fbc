#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::Precondition::{Failed, NotModified, Proceed};
use super::*;

const MODIFIED: i64 = 1_704_164_645;
const NOW: i64 = MODIFIED + 1000;

const OURS: Validators<'static> = Validators {
    etag: Some(EntityTag {
        weak: false,
        opaque: b"ours",
    }),
    last_modified: Some(MODIFIED),
    date: NOW,
};

const OURS_WEAK: Validators<'static> = Validators {
    etag: Some(EntityTag {
        weak: true,
        opaque: b"ours",
    }),
    ..OURS
};

const NONE: Validators<'static> = Validators {
    etag: None,
    last_modified: None,
    date: NOW,
};

fn date(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap());
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

fn fields(lines: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

fn get(lines: &[(&str, &str)]) -> Precondition {
    evaluate(true, &fields(lines)[..], &OURS)
}

fn post(lines: &[(&str, &str)]) -> Precondition {
    evaluate(false, &fields(lines)[..], &OURS)
}

#[test]
fn without_a_condition_there_is_none() {
    assert_eq!(get(&[]), Proceed);
    assert_eq!(get(&[("Accept", "*/*")]), Proceed);
}

#[test]
fn if_match_compares_strongly() {
    assert_eq!(get(&[("If-Match", "\"ours\"")]), Proceed);
    assert_eq!(get(&[("If-Match", "\"x\", \"ours\"")]), Proceed);
    assert_eq!(
        get(&[("If-Match", "\"x\""), ("if-match", "\"ours\"")]),
        Proceed
    );
    assert_eq!(get(&[("If-Match", "*")]), Proceed);
    assert_eq!(get(&[("If-Match", "\"x\"")]), Failed);
    assert_eq!(get(&[("If-Match", "W/\"ours\"")]), Failed);
    assert_eq!(get(&[("If-Match", "")]), Failed);
    assert_eq!(get(&[("If-Match", "ours")]), Failed);
    assert_eq!(post(&[("If-Match", "\"x\"")]), Failed);
    let weak = fields(&[("If-Match", "W/\"ours\"")]);
    assert_eq!(evaluate(true, &weak[..], &OURS_WEAK), Failed);
    let star = fields(&[("If-Match", "*")]);
    assert_eq!(evaluate(true, &star[..], &NONE), Proceed);
}

#[test]
fn if_unmodified_since_counts_only_without_if_match() {
    assert_eq!(get(&[("If-Unmodified-Since", &date(MODIFIED))]), Proceed);
    assert_eq!(
        get(&[("If-Unmodified-Since", &date(MODIFIED + 1))]),
        Proceed
    );
    assert_eq!(get(&[("If-Unmodified-Since", &date(MODIFIED - 1))]), Failed);
    assert_eq!(
        post(&[("If-Unmodified-Since", &date(MODIFIED - 1))]),
        Failed
    );
    assert_eq!(get(&[("If-Unmodified-Since", "yesterday")]), Proceed);
    assert_eq!(
        get(&[
            ("If-Unmodified-Since", &date(MODIFIED - 1)),
            ("If-Match", "\"ours\"")
        ]),
        Proceed
    );
    let before = fields(&[("If-Unmodified-Since", &date(1))]);
    assert_eq!(evaluate(true, &before[..], &NONE), Proceed);
}

#[test]
fn if_none_match_compares_weakly_over_all_lines() {
    for value in [
        "\"ours\"",
        "W/\"ours\"",
        "\"a\", W/\"ours\", \"b\"",
        "\"a\",\"ours\"",
        "*",
        ", ,\"ours\"",
    ] {
        assert_eq!(get(&[("If-None-Match", value)]), NotModified, "{value}");
        assert_eq!(post(&[("If-None-Match", value)]), Failed, "{value}");
    }
    assert_eq!(
        get(&[("If-None-Match", "\"a\""), ("If-None-Match", "\"ours\"")]),
        NotModified
    );
    for value in [
        "\"x\"",
        "\"a,ours\"",
        "ours",
        "\"ours",
        "",
        "\"*\"",
        "'ours'",
    ] {
        assert_eq!(get(&[("If-None-Match", value)]), Proceed, "{value}");
    }
    let weak = fields(&[("If-None-Match", "\"ours\"")]);
    assert_eq!(evaluate(true, &weak[..], &OURS_WEAK), NotModified);
    assert_eq!(evaluate(true, &weak[..], &NONE), Proceed);
}

#[test]
fn if_none_match_wins_over_if_modified_since() {
    assert_eq!(
        get(&[
            ("If-None-Match", "\"x\""),
            ("If-Modified-Since", &date(MODIFIED))
        ]),
        Proceed
    );
    assert_eq!(
        get(&[
            ("If-None-Match", "\"ours\""),
            ("If-Modified-Since", &date(MODIFIED - 9))
        ]),
        NotModified
    );
}

#[test]
fn if_modified_since_is_for_get_and_head_with_a_date_that_is_past() {
    assert_eq!(get(&[("If-Modified-Since", &date(MODIFIED))]), NotModified);
    assert_eq!(get(&[("If-Modified-Since", &date(NOW))]), NotModified);
    assert_eq!(get(&[("If-Modified-Since", &date(MODIFIED - 1))]), Proceed);
    assert_eq!(get(&[("If-Modified-Since", &date(NOW + 1))]), Proceed);
    assert_eq!(get(&[("If-Modified-Since", "0")]), Proceed);
    assert_eq!(post(&[("If-Modified-Since", &date(MODIFIED))]), Proceed);
    assert_eq!(
        get(&[
            ("If-Modified-Since", &date(MODIFIED)),
            ("If-Modified-Since", &date(MODIFIED))
        ]),
        Proceed
    );
    let some = fields(&[("If-Modified-Since", &date(MODIFIED))]);
    assert_eq!(evaluate(true, &some[..], &NONE), Proceed);
}

#[test]
fn a_failed_first_step_wins_over_a_match_of_the_third() {
    assert_eq!(
        get(&[("If-None-Match", "\"ours\""), ("If-Match", "\"x\"")]),
        Failed
    );
    assert_eq!(
        get(&[("If-None-Match", "\"ours\""), ("If-Match", "\"ours\"")]),
        NotModified
    );
}

fn allows(value: &str, validators: &Validators<'_>) -> bool {
    if_range_allows(&fields(&[("If-Range", value)])[..], validators)
}

#[test]
fn if_range_takes_strong_tags_only() {
    assert!(if_range_allows(&fields(&[])[..], &OURS));
    assert!(allows("\"ours\"", &OURS));
    assert!(!allows("\"x\"", &OURS));
    assert!(!allows("W/\"ours\"", &OURS));
    assert!(!allows("W/\"ours\"", &OURS_WEAK));
    assert!(!allows("\"ours\"", &OURS_WEAK));
    assert!(!allows("\"x\", \"ours\"", &OURS));
    assert!(!allows("*", &OURS));
    assert!(!allows("", &OURS));
    assert!(!allows("\"ours\"", &NONE));
    let twice = fields(&[("If-Range", "\"ours\""), ("If-Range", "\"ours\"")]);
    assert!(!if_range_allows(&twice[..], &OURS));
}

#[test]
fn if_range_takes_the_very_date_when_it_is_old_enough_to_be_strong() {
    assert!(allows(&date(MODIFIED), &OURS));
    assert!(!allows(&date(MODIFIED + 1), &OURS));
    assert!(!allows(&date(MODIFIED - 1), &OURS));
    assert!(!allows(&date(MODIFIED), &NONE));
    let at = |date| Validators { date, ..OURS };
    assert!(!allows(&date(MODIFIED), &at(MODIFIED + 1)));
    assert!(allows(&date(MODIFIED), &at(MODIFIED + 2)));
    assert!(!allows(&date(MODIFIED), &at(MODIFIED - 100)));
}

proptest! {
    #[test]
    fn any_values_are_judged_without_a_panic(
        values in proptest::collection::vec((0_usize..5, proptest::collection::vec(any::<u8>(), 0..30)), 0..6),
        get in any::<bool>(),
    ) {
        let names = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
        let lines: Vec<_> = values
            .into_iter()
            .map(|(name, value)| (names.get(name).unwrap().as_bytes().to_vec(), value))
            .collect();
        let _ = evaluate(get, &lines[..], &OURS);
        let _ = if_range_allows(&lines[..], &OURS);
    }

    /// The five steps as the standard writes them, against every mix of fields.
    #[test]
    fn every_mix_of_fields_follows_the_order_of_the_standard(
        if_match in proptest::option::of(any::<bool>()),
        unmodified in proptest::option::of(any::<bool>()),
        none_match in proptest::option::of(any::<bool>()),
        modified in proptest::option::of(any::<bool>()),
        get in any::<bool>(),
    ) {
        let tag = |matches| if matches { "\"ours\"" } else { "\"x\"" };
        let (early, late) = (date(MODIFIED - 1), date(MODIFIED));
        let mut lines = Vec::new();
        if let Some(it) = if_match { lines.push(("If-Match", tag(it))); }
        if let Some(it) = unmodified { lines.push(("If-Unmodified-Since", if it { &late } else { &early })); }
        if let Some(it) = none_match { lines.push(("If-None-Match", tag(it))); }
        if let Some(it) = modified { lines.push(("If-Modified-Since", if it { &early } else { &late })); }

        let expected = if if_match == Some(false) || (if_match.is_none() && unmodified == Some(false)) {
            Failed
        } else if none_match == Some(true) {
            if get { NotModified } else { Failed }
        } else if none_match.is_none() && get && modified == Some(false) {
            NotModified
        } else {
            Proceed
        };
        prop_assert_eq!(evaluate(get, &fields(&lines)[..], &OURS), expected);
    }
}
