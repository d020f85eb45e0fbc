//! A request head is judged alike whole and cut in two.
#![no_main]

use std::mem::MaybeUninit;

use libfuzzer_sys::fuzz_target;
use nostat::request::head::{HeadError, HeadLimits, HeadScan, MAX_FIELDS, Parsed, parse_resumed};

const LIMITS: HeadLimits = HeadLimits {
    head_size: 1024,
    url: 128,
    fields: 16,
};

fuzz_target!(|input: (usize, &[u8])| {
    let (cut, buf) = input;
    let whole = length(&mut HeadScan::default(), buf);

    let mut scan = HeadScan::default();
    let begun = buf.get(..cut).unwrap_or(buf);
    let mut split = length(&mut scan, begun);
    if split == Ok(None) {
        split = length(&mut scan, buf);
    }
    assert_eq!(split, whole);
});

fn length(scan: &mut HeadScan, buf: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    Ok(match parse_resumed(scan, buf, &mut slots, &LIMITS)? {
        Parsed::Incomplete => None,
        Parsed::Complete { head, length } => {
            assert!(length <= buf.len());
            assert!(head.fields.len() <= LIMITS.fields);
            Some(length)
        }
    })
}
