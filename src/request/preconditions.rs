//! Conditional requests: the five steps of RFC 9110 §13.2.2, in their order.
//!
//! To be asked only where the answer without the condition would be 200 (RFC 9110 §13.2.1), and
//! only for what is answered here.

pub use super::entity_tag::EntityTag;
use super::fields::Fields;
use super::http_date;

/// The validators of the selected representation, and the time of the answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Validators<'a> {
    /// The entity-tag, when there is one.
    pub etag: Option<EntityTag<'a>>,
    /// The modification date in seconds since 1970, when there is one.
    pub last_modified: Option<i64>,
    /// The time of the answer, in seconds since 1970: a date too near to it is a weak validator
    /// (RFC 9110 §8.8.2.2).
    pub date: i64,
}

/// What the preconditions say.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Precondition {
    /// Answer as if there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Steps 1 to 4 of RFC 9110 §13.2.2.
///
/// `method_is_get_or_head` decides between 304 and 412, and whether `If-Modified-Since` counts.
pub fn evaluate<F: Fields + ?Sized>(
    method_is_get_or_head: bool,
    fields: &F,
    validators: &Validators<'_>,
) -> Precondition {
    // Step 1.
    if let Some(matches) = list_matches(fields, "if-match", validators, |ours, asked| {
        ours.strong_eq(asked)
    }) {
        if !matches {
            return Precondition::Failed;
        }
    // Step 2, only without If-Match.
    } else if unmodified_since(fields, validators) == Some(false) {
        return Precondition::Failed;
    }

    // Step 3.
    match list_matches(fields, "if-none-match", validators, |ours, asked| {
        ours.weak_eq(asked)
    }) {
        Some(true) if method_is_get_or_head => Precondition::NotModified,
        Some(true) => Precondition::Failed,
        Some(false) => Precondition::Proceed,
        // Step 4, only without If-None-Match.
        None if method_is_get_or_head && modified_since(fields, validators) == Some(false) => {
            Precondition::NotModified
        }
        None => Precondition::Proceed,
    }
}

/// Step 5 of RFC 9110 §13.2.2: whether a `Range` may be answered by a part; true without
/// `If-Range`.
pub fn if_range_allows<F: Fields + ?Sized>(fields: &F, validators: &Validators<'_>) -> bool {
    if fields.first("if-range").is_none() {
        return true;
    }
    let Some(value) = fields.only("if-range") else {
        return false;
    };
    if let Some(asked) = EntityTag::parse(value) {
        return validators.etag.is_some_and(|etag| etag.strong_eq(&asked));
    }
    // §13.1.5: the date has to be a strong validator, and to be the very same.
    validators.last_modified.is_some_and(|modified| {
        validators.date.saturating_sub(modified) >= STRONG_AFTER
            && http_date::parse(value) == Some(modified)
    })
}

/// Whether the list names the representation; `None` without the field.
fn list_matches<F: Fields + ?Sized>(
    fields: &F,
    name: &'static str,
    validators: &Validators<'_>,
    equal: fn(&EntityTag<'_>, &EntityTag<'_>) -> bool,
) -> Option<bool> {
    let mut present = false;
    for line in fields.lines(name) {
        present = true;
        let named = line == b"*"
            || validators
                .etag
                .is_some_and(|etag| EntityTag::list(line).any(|asked| equal(&etag, &asked)));
        if named {
            return Some(true);
        }
    }
    present.then_some(false)
}

/// §13.1.4: ignored without a valid date in the field, or without one of our own.
fn unmodified_since<F: Fields + ?Sized>(fields: &F, validators: &Validators<'_>) -> Option<bool> {
    let since = http_date::parse(fields.only("if-unmodified-since")?)?;
    Some(validators.last_modified? <= since)
}

/// §13.1.3: as [`unmodified_since`]; a date that is still to come is ignored too.
fn modified_since<F: Fields + ?Sized>(fields: &F, validators: &Validators<'_>) -> Option<bool> {
    let since = http_date::parse(fields.only("if-modified-since")?)?;
    if since > validators.date {
        return None;
    }
    Some(validators.last_modified? > since)
}

/// Seconds between a modification and the answer after which no second modification can have the
/// same date (RFC 9110 §8.8.2.2 asks for one; the clocks of file system and server are read to
/// the second only).
const STRONG_AFTER: i64 = 2;

#[cfg(test)]
mod tests;
