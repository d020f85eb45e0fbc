//! Byte ranges (RFC 9110 §14), resolved against a complete length.
//!
//! A server may ignore any `Range` (§14.2). Here it does so for what is malformed, and for sets
//! that would cost more than the whole representation (§17.15).

use super::fields::{members, trim};

/// A range of bytes, both ends included.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte, not before `first`.
    pub last: u64,
}

impl ByteRange {
    /// Bytes in the range.
    pub fn length(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Whether both share a byte or nothing lies between them.
    fn touches(&self, other: &ByteRange) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

/// What a `Range` field asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangeSet {
    /// Answer as if there were no `Range`.
    Ignored,
    /// 206 with one part.
    Single(ByteRange),
    /// 206 with `multipart/byteranges`: at least two parts, no two of them touching, in the order
    /// they were asked for.
    Multiple(Vec<ByteRange>),
    /// 416.
    NotSatisfiable,
}

/// Resolves the value of a single `Range` field line against the complete length.
///
/// Unknown units and malformed values are ignored (§14.2), and so is every range of an empty
/// representation: 200 without content says all there is. Ends are clamped to the length (§14.1.2).
/// Ranges that touch are made one (§15.3.7.2). The work is bounded by the length of the value.
pub fn resolve(field: &[u8], complete_length: u64) -> RangeSet {
    let Some(set) = range_set(field) else {
        return RangeSet::Ignored;
    };
    let Some(end) = complete_length.checked_sub(1) else {
        return RangeSet::Ignored;
    };

    let mut specs = 0_usize;
    let mut only = None;
    let mut several = Vec::new();
    for member in members(set) {
        specs = specs.saturating_add(1);
        let Some(spec) = RangeSpec::parse(member) else {
            return RangeSet::Ignored;
        };
        if specs > MAX_RANGES {
            return RangeSet::Ignored;
        }
        let Some(range) = spec.resolve(end) else {
            continue;
        };
        // One range, the usual case, needs no list.
        match (only, several.is_empty()) {
            (None, true) => only = Some(range),
            (Some(first), true) => several.extend([first, range]),
            _ => several.push(range),
        }
    }
    match (specs, only, several.is_empty()) {
        (0, _, _) => RangeSet::Ignored,
        (_, None, _) => RangeSet::NotSatisfiable,
        (_, Some(range), true) => RangeSet::Single(range),
        (_, Some(_), false) => settle(&several, complete_length),
    }
}

/// The text behind `bytes=`; `None` for another unit, or none.
fn range_set(field: &[u8]) -> Option<&[u8]> {
    let field = trim(field);
    let (unit, set) = field.split_at_checked(memchr::memchr(b'=', field)?)?;
    if unit.eq_ignore_ascii_case(b"bytes") {
        set.strip_prefix(b"=")
    } else {
        None
    }
}

/// One member of a range set (§14.1.1).
#[derive(Copy, Clone, Debug)]
enum RangeSpec {
    /// `first-` or `first-last`.
    From { first: u64, last: u64 },
    /// `-length`.
    Suffix { length: u64 },
}

impl RangeSpec {
    fn parse(member: &[u8]) -> Option<Self> {
        let (before, after) = member.split_at_checked(memchr::memchr(b'-', member)?)?;
        let after = after.strip_prefix(b"-")?;
        match (before, after) {
            ([], length) => Some(RangeSpec::Suffix {
                length: parse_position(length)?,
            }),
            (first, []) => Some(RangeSpec::From {
                first: parse_position(first)?,
                last: u64::MAX,
            }),
            (first, last) => {
                let (first, last) = (parse_position(first)?, parse_position(last)?);
                (first <= last).then_some(RangeSpec::From { first, last })
            }
        }
    }

    /// The part of it that lies before or at `end`, the last byte there is.
    fn resolve(self, end: u64) -> Option<ByteRange> {
        match self {
            RangeSpec::From { first, last } => (first <= end).then_some(ByteRange {
                first,
                last: last.min(end),
            }),
            RangeSpec::Suffix { length: 0 } => None,
            RangeSpec::Suffix { length } => Some(ByteRange {
                first: end.saturating_sub(length.saturating_sub(1)),
                last: end,
            }),
        }
    }
}

/// `1*DIGIT`; what is too large for any file stands for the largest number there is.
fn parse_position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = u64::from(digit.checked_sub(b'0').filter(|value| *value <= 9)?);
        Some(number.saturating_mul(10).saturating_add(value))
    })
}

/// Judges the cost of several ranges, and makes one of those that touch.
fn settle(asked: &[ByteRange], complete_length: u64) -> RangeSet {
    let total = asked
        .iter()
        .fold(0_u64, |sum, range| sum.saturating_add(range.length()));
    if total > complete_length || is_hostile(asked, total, complete_length) {
        return RangeSet::Ignored;
    }

    let mut sorted: Vec<(usize, ByteRange)> = asked.iter().copied().enumerate().collect();
    sorted.sort_unstable_by_key(|(_, range)| range.first);
    let mut merged: Vec<(usize, ByteRange)> = Vec::with_capacity(sorted.len());
    let mut overlaps = 0_usize;
    for (place, range) in sorted {
        match merged.last_mut() {
            Some((first_place, before)) if before.touches(&range) => {
                if range.first <= before.last {
                    overlaps = overlaps.saturating_add(1);
                }
                before.last = before.last.max(range.last);
                *first_place = place.min(*first_place);
            }
            _ => merged.push((place, range)),
        }
    }
    if overlaps > MAX_OVERLAPS {
        return RangeSet::Ignored;
    }
    merged.sort_unstable_by_key(|(place, _)| *place);
    match merged.as_slice() {
        [(_, range)] => RangeSet::Single(*range),
        _ => RangeSet::Multiple(merged.into_iter().map(|(_, range)| range).collect()),
    }
}

/// §14.2: many ranges that are out of order, or so small that their part heads outweigh them.
fn is_hostile(asked: &[ByteRange], total: u64, complete_length: u64) -> bool {
    if asked.len() <= FEW_RANGES {
        return false;
    }
    let parts = u64::try_from(asked.len()).unwrap_or(u64::MAX);
    total.saturating_add(parts.saturating_mul(PART_HEAD)) > complete_length
        || !asked.is_sorted_by_key(|range| range.first)
}

/// The most ranges in a set.
const MAX_RANGES: usize = 100;

/// Ranges that are never too many.
const FEW_RANGES: usize = 10;

/// Two ranges may overlap, "more than two" (§14.2) may not.
const MAX_OVERLAPS: usize = 1;

/// About what the head of one part of `multipart/byteranges` takes, in bytes.
const PART_HEAD: u64 = 120;

#[cfg(test)]
mod tests;
