//! Preconditions and If-Range: any fields have one meaning, which a second reading confirms.

use nostat::request::entity_tag::EntityTag;
use nostat::request::preconditions::{Precondition, Validators, evaluate, if_range_allows};

const NAMES: [&str; 5] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
];

/// One input: lines, each with a byte for the field's name before its value; the first line is the entity-tag of what is there.
pub fn run(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let tag = lines.next().unwrap_or_default();
    let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
        .filter_map(|line| {
            let (name, value) = line.split_first()?;
            let name = NAMES.get(usize::from(*name) % NAMES.len())?;
            Some((name.as_bytes().to_vec(), value.to_vec()))
        })
        .collect();
    let validators = Validators {
        etag: EntityTag::parse(tag),
        last_modified: Some(784_111_777),
        date: 1_700_000_000,
    };
    let reads = evaluate(true, &fields[..], &validators);
    let writes = evaluate(false, &fields[..], &validators);
    // Only a method that reads is told that nothing was modified (RFC 9110 §13.2.2).
    assert_ne!(writes, Precondition::NotModified);
    if writes == Precondition::Proceed {
        assert_ne!(reads, Precondition::Failed);
    }
    let has = |name: &str| fields.iter().any(|(known, _)| known == name.as_bytes());
    if !NAMES[..4].iter().any(|name| has(name)) {
        assert_eq!(reads, Precondition::Proceed);
    }
    let allows = if_range_allows(&fields[..], &validators);
    assert!(allows || has("if-range"));
    // A weak tag never allows a range (RFC 9110 §13.1.5).
    let is_weak = |(name, value): &(Vec<u8>, Vec<u8>)| {
        name == b"if-range" && value.trim_ascii().starts_with(b"W/")
    };
    if fields.iter().any(is_weak) {
        assert!(!allows);
    }
}
