//! Resolved ranges lie inside the representation and never cost more than it does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nostat::request::range::{RangeSet, resolve};

fuzz_target!(|input: (u64, &[u8])| {
    let (complete_length, field) = input;
    let ranges = match resolve(field, complete_length) {
        RangeSet::Single(range) => vec![range],
        RangeSet::Multiple(ranges) => {
            assert!(ranges.len() > 1);
            ranges
        }
        RangeSet::Ignored | RangeSet::NotSatisfiable => return,
    };
    let mut total = 0_u128;
    for range in ranges {
        assert!(range.first <= range.last && range.last < complete_length);
        total += u128::from(range.length());
    }
    assert!(total <= u128::from(complete_length));
});
