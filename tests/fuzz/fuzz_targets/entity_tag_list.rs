//! Lists of entity-tags: every tag found is well-formed, and preconditions agree with the list.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nostat::request::entity_tag::EntityTag;
use nostat::request::preconditions::{Precondition, Validators, evaluate};

fuzz_target!(|line: &[u8]| {
    for tag in EntityTag::list(line) {
        assert!(!tag.opaque.contains(&b'"'));
        let validators = Validators {
            etag: Some(tag),
            last_modified: None,
            date: 0,
        };
        let fields = [(b"if-none-match".to_vec(), line.to_vec())];
        assert_eq!(
            evaluate(true, &fields[..], &validators),
            Precondition::NotModified
        );
    }
});
