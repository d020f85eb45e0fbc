//! Entity-tags, alone and in lists (RFC 9110 §8.8.3).

use super::fields::trim;

/// An entity-tag.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntityTag<'a> {
    /// Whether it is prefixed `W/`.
    pub weak: bool,
    /// What stands between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads exactly one entity-tag, with its quotes and nothing around them.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (tag, rest) = EntityTag::split_from(value)?;
        rest.is_empty().then_some(tag)
    }

    /// The well-formed entity-tags of one line of a list field.
    ///
    /// A malformed member is passed over: it can be equal to no tag there is. `*` is no tag.
    pub fn list(line: &'a [u8]) -> EntityTagList<'a> {
        EntityTagList { rest: line }
    }

    /// Strong comparison (RFC 9110 §8.8.3.2): equal, and neither of them weak.
    pub fn strong_eq(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison (RFC 9110 §8.8.3.2): equal, weak or not.
    pub fn weak_eq(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// The tag that the value begins with, and what follows it.
    fn split_from(value: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, quoted) = match value.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, value),
        };
        let inside = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inside.split_at_checked(memchr::memchr(b'"', inside)?)?;
        let tag = EntityTag { weak, opaque };
        opaque
            .iter()
            .all(|&byte| byte > b' ' && byte != 0x7f)
            .then_some((tag, rest.strip_prefix(b"\"")?))
    }
}

/// The entity-tags of one line, see [`EntityTag::list`].
#[derive(Clone, Debug)]
pub struct EntityTagList<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTagList<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        loop {
            self.rest = trim(self.rest);
            let (member, after) = match self.rest {
                [] => return None,
                [b',', rest @ ..] => {
                    self.rest = rest;
                    continue;
                }
                rest => match EntityTag::split_from(rest) {
                    Some((tag, after)) => (Some(tag), trim(after)),
                    None => (None, rest),
                },
            };
            let end = memchr::memchr(b',', after).unwrap_or(after.len());
            self.rest = after.get(end..).unwrap_or_default();
            // Something between a tag and the comma spoils the member.
            if let Some(tag) = member
                && end == 0
            {
                return Some(tag);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn tag(weak: bool, opaque: &[u8]) -> EntityTag<'_> {
        EntityTag { weak, opaque }
    }

    fn list(line: &[u8]) -> Vec<EntityTag<'_>> {
        EntityTag::list(line).collect()
    }

    #[test]
    fn one_tag_is_read() {
        assert_eq!(EntityTag::parse(b"\"\""), Some(tag(false, b"")));
        assert_eq!(EntityTag::parse(b"\"a,b\""), Some(tag(false, b"a,b")));
        assert_eq!(EntityTag::parse(b"W/\"a\""), Some(tag(true, b"a")));
        assert_eq!(EntityTag::parse(b"\"\xff\""), Some(tag(false, b"\xff")));
        for bad in [
            &b""[..],
            b"a",
            b"\"a",
            b"a\"",
            b"\"a\"b",
            b"\"a\" ",
            b"w/\"a\"",
            b"W\"a\"",
            b"W/a",
            b"\"a b\"",
            b"\"a\x7f\"",
            b"*",
        ] {
            assert_eq!(EntityTag::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn comparison_is_strong_only_between_strong_tags() {
        let (strong, weak) = (tag(false, b"1"), tag(true, b"1"));
        assert!(strong.strong_eq(&strong));
        assert!(!strong.strong_eq(&weak) && !weak.strong_eq(&strong) && !weak.strong_eq(&weak));
        assert!(strong.weak_eq(&weak) && weak.weak_eq(&weak));
        assert!(!strong.weak_eq(&tag(false, b"2")));
    }

    #[test]
    fn lists_are_read_with_white_space_and_empty_members() {
        assert_eq!(
            list(b" ,\"a\",\t W/\"b\" ,, \"c,d\","),
            [tag(false, b"a"), tag(true, b"b"), tag(false, b"c,d")]
        );
        assert_eq!(list(b""), []);
        assert_eq!(list(b" , ,"), []);
    }

    #[test]
    fn a_malformed_member_spoils_only_itself() {
        assert_eq!(list(b"a, \"b\""), [tag(false, b"b")]);
        assert_eq!(list(b"\"a\"x, \"b\""), [tag(false, b"b")]);
        assert_eq!(list(b"\"a\" \"x\", \"b\""), [tag(false, b"b")]);
        assert_eq!(list(b"*, \"b\""), [tag(false, b"b")]);
        assert_eq!(list(b"\"a"), []);
        assert_eq!(list(b"\"a b\""), []);
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(line in "[\"W/a*, \\t\\x7f\u{e9}]{0,40}") {
            let found = EntityTag::list(line.as_bytes()).count();
            prop_assert!(found <= line.len());
        }

        #[test]
        fn what_is_written_is_found_again(
            tags in proptest::collection::vec((any::<bool>(), "[!#-~]{0,8}"), 0..6)
        ) {
            let line = tags
                .iter()
                .map(|(weak, opaque)| format!("{}\"{opaque}\"", if *weak { "W/" } else { "" }))
                .collect::<Vec<_>>()
                .join(" , ");
            let expected: Vec<_> = tags.iter().map(|(weak, it)| tag(*weak, it.as_bytes())).collect();
            prop_assert_eq!(list(line.as_bytes()), expected);
        }
    }
}
