#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use proptest::prelude::*;

use super::*;

fn range(first: u64, last: u64) -> ByteRange {
    ByteRange { first, last }
}

fn single(field: &str, length: u64) -> (u64, u64) {
    match resolve(field.as_bytes(), length) {
        RangeSet::Single(it) => (it.first, it.last),
        other => panic!("{field}: {other:?}"),
    }
}

fn multiple(field: &str, length: u64) -> Vec<(u64, u64)> {
    match resolve(field.as_bytes(), length) {
        RangeSet::Multiple(them) => them.iter().map(|it| (it.first, it.last)).collect(),
        other => panic!("{field}: {other:?}"),
    }
}

#[test]
fn one_range_is_resolved_and_clamped() {
    for (field, expected) in [
        ("bytes=0-0", (0, 0)),
        ("bytes=2-5", (2, 5)),
        ("bytes=0-", (0, 9)),
        ("bytes=9-", (9, 9)),
        ("bytes=5-9000", (5, 9)),
        ("bytes=-1", (9, 9)),
        ("bytes=-10", (0, 9)),
        ("bytes=-1000", (0, 9)),
        ("bytes=0-99999999999999999999999999", (0, 9)),
        ("bytes=-99999999999999999999999999", (0, 9)),
        ("bytes=0-18446744073709551615", (0, 9)),
        ("Bytes=0-1", (0, 1)),
        (" \tbytes= 0-1\t ", (0, 1)),
        ("bytes=,0-1,", (0, 1)),
        ("bytes=00000000000000000000000000001-2", (1, 2)),
    ] {
        assert_eq!(single(field, 10), expected, "{field}");
    }
    assert_eq!(range(2, 5).length(), 4);
    assert_eq!(single("bytes=0-", u64::MAX), (0, u64::MAX - 1));
}

#[test]
fn beyond_the_end_is_not_satisfiable() {
    for field in [
        "bytes=10-",
        "bytes=50-60",
        "bytes=-0",
        "bytes=-0, 10-",
        "bytes=99999999999999999999999999-",
    ] {
        assert_eq!(
            resolve(field.as_bytes(), 10),
            RangeSet::NotSatisfiable,
            "{field}"
        );
    }
}

#[test]
fn malformed_values_and_other_units_are_ignored() {
    for field in [
        "",
        "bytes",
        "bytes=",
        "bytes= , ",
        "bytes=-",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=1-2-3",
        "bytes=+1-2",
        "bytes=--1",
        "bytes=1",
        "bytes=0x1-2",
        "bytes=1 -2",
        "bytes=1- 2",
        "bytes =0-1",
        "bytes=0-1;2-3",
        "bytes=0-1, x",
        "bytes=0-1, 5-2",
        "bytes:0-1",
        "items=0-5",
        "=0-1",
        "0-1",
        "bytes=\u{661}-",
    ] {
        assert_eq!(resolve(field.as_bytes(), 10), RangeSet::Ignored, "{field}");
    }
}

#[test]
fn an_empty_representation_has_no_ranges() {
    for field in [
        "bytes=0-",
        "bytes=0-1023",
        "bytes=-5",
        "bytes=-0",
        "bytes=7-",
    ] {
        assert_eq!(resolve(field.as_bytes(), 0), RangeSet::Ignored, "{field}");
    }
}

#[test]
fn several_ranges_keep_the_order_asked_for() {
    assert_eq!(multiple("bytes=0-1,4-5", 10), [(0, 1), (4, 5)]);
    assert_eq!(multiple("bytes=8-, 0-0 ,-0, 99-", 10), [(8, 9), (0, 0)]);
    assert_eq!(multiple("bytes=-2,4-5,0-1", 10), [(8, 9), (4, 5), (0, 1)]);
}

#[test]
fn one_range_left_is_a_single_one() {
    assert_eq!(single("bytes=0-1,50-60", 10), (0, 1));
    assert_eq!(single("bytes=50-60,0-1,-0", 10), (0, 1));
    assert_eq!(single("bytes=0-1,2-3", 10), (0, 3));
    assert_eq!(single("bytes=2-3,0-1", 10), (0, 3));
    assert_eq!(single("bytes=0-4,3-6", 10), (0, 6));
    assert_eq!(single("bytes=1-6,2-3", 10), (1, 6));
}

#[test]
fn touching_ranges_stand_where_the_first_of_them_stood() {
    assert_eq!(multiple("bytes=6-6,0-1,7-7", 10), [(6, 7), (0, 1)]);
    assert_eq!(multiple("bytes=0-1,7-7,6-6", 10), [(0, 1), (6, 7)]);
}

#[test]
fn hostile_sets_are_ignored() {
    let set = |ranges: Vec<String>| format!("bytes={}", ranges.join(","));
    let small = set((0..500).map(|k| format!("{k}-{k}")).collect());
    assert_eq!(resolve(small.as_bytes(), 1024), RangeSet::Ignored);
    let many = set((0..101)
        .map(|k| format!("{}-{}", k * 1000, k * 1000))
        .collect());
    assert_eq!(resolve(many.as_bytes(), 1 << 30), RangeSet::Ignored);
    let gaps = set((0..50).map(|k| format!("{}-{}", k * 3, k * 3)).collect());
    assert_eq!(resolve(gaps.as_bytes(), 1024), RangeSet::Ignored);
    let unsorted = set((0..20)
        .rev()
        .map(|k| format!("{}-{}", k * 1000, k * 1000))
        .collect());
    assert_eq!(resolve(unsorted.as_bytes(), 1 << 30), RangeSet::Ignored);
    let whole = set(vec!["0-".to_owned(); 90]);
    assert_eq!(resolve(whole.as_bytes(), 10 << 20), RangeSet::Ignored);
    assert_eq!(resolve(b"bytes=0-,0-", 10), RangeSet::Ignored);
    assert_eq!(resolve(b"bytes=0-9,5-14,10-19", 1000), RangeSet::Ignored);
    assert_eq!(resolve(b"bytes=0-9,0-1,3-4", 1000), RangeSet::Ignored);
}

#[test]
fn a_fair_set_of_many_is_answered() {
    let ranges: Vec<_> = (0..100)
        .map(|k| format!("{}-{}", k * 2000, k * 2000 + 999))
        .collect();
    let field = format!("bytes={}", ranges.join(","));
    assert_eq!(multiple(&field, 1 << 20).len(), 100);
}

proptest! {
    #[test]
    fn any_bytes_are_resolved_without_a_panic(
        field in proptest::collection::vec(any::<u8>(), 0..40),
        length in any::<u64>(),
    ) {
        let _ = resolve(&field, length);
    }

    #[test]
    fn resolved_ranges_lie_inside_apart_and_cost_no_more_than_the_whole(
        specs in proptest::collection::vec((proptest::option::of(0_u64..60), proptest::option::of(0_u64..60)), 1..8),
        length in 0_u64..50,
    ) {
        let specs: Vec<_> = specs
            .iter()
            .map(|(first, last)| {
                let text = |it: &Option<u64>| it.map(|n| n.to_string()).unwrap_or_default();
                format!("{}-{}", text(first), text(last))
            })
            .collect();
        let field = format!("bytes={}", specs.join(","));
        match resolve(field.as_bytes(), length) {
            RangeSet::Single(it) => prop_assert!(it.first <= it.last && it.last < length),
            RangeSet::Multiple(them) => {
                prop_assert!(them.len() >= 2);
                prop_assert!(them.iter().all(|it| it.first <= it.last && it.last < length));
                prop_assert!(them.iter().map(ByteRange::length).sum::<u64>() <= length);
                for (place, one) in them.iter().enumerate() {
                    prop_assert!(them.iter().skip(place + 1).all(|other| !one.touches(other)));
                }
            }
            RangeSet::Ignored | RangeSet::NotSatisfiable => {}
        }
    }
}
