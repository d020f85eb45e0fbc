//! The answer of a representation to one request: whole, 304, 412, 206 or 416 (RFC 9110 §13, §14).

use crate::descriptor_cache::{FileFound, HeadPair, PreparedHeads};
use crate::request::fields::Fields;
use crate::request::head::Method;
use crate::request::preconditions::{
    EntityTag, Precondition, Validators, evaluate, if_range_allows,
};
use crate::request::range::{RangeSet, resolve};
use crate::site::decision::Request;
use crate::site::partial;
use crate::site::response::{Answer, Body, local_answer, not_satisfiable};

/// A representation that was chosen for a request.
#[derive(Debug)]
pub struct Selected<'h> {
    /// The file.
    pub found: &'h FileFound,
    /// All that was prepared for it.
    pub heads: &'h PreparedHeads,
    /// Its heads for this request.
    pub pair: &'h HeadPair,
    /// The value of Content-Type.
    pub media_type: &'h [u8],
}

impl Selected<'_> {
    /// The answer to a request that reads it: GET, HEAD, or a method whose answer PHP has left to this file.
    pub fn answer<F: Fields + ?Sized>(&self, request: &Request<'_, F>) -> Answer {
        if request.conditional
            && let Some(answer) = self.conditional(request)
        {
            return answer;
        }
        let body = match request.method {
            Method::Head => Body::Empty,
            _ => partial::whole(self.found),
        };
        Answer {
            status: 200,
            head: self.pair.ok.clone(),
            body,
            outcome: None,
        }
    }

    /// None: answered as if there were no condition.
    fn conditional<F: Fields + ?Sized>(&self, request: &Request<'_, F>) -> Option<Answer> {
        let validators = self.validators(request.now.seconds);
        if request.reads() {
            match evaluate(true, request.fields, &validators) {
                Precondition::Proceed => {}
                Precondition::NotModified => return Some(self.not_modified()),
                Precondition::Failed if request.method == Method::Head => {
                    return Some(local_answer(412).without_body());
                }
                Precondition::Failed => return Some(local_answer(412)),
            }
        }
        // RFC 9110 §14.2: only GET has ranges. Several Range lines are no valid field.
        let range = (request.method == Method::Get).then(|| request.fields.only("range"))??;
        if !if_range_allows(request.fields, &validators) {
            return None;
        }
        match resolve(range, self.found.entry.size()) {
            RangeSet::Ignored => None,
            RangeSet::Single(range) => Some(partial::single(self, range)),
            RangeSet::Multiple(ranges) => Some(partial::multiple(self, &ranges)),
            RangeSet::NotSatisfiable => Some(not_satisfiable(self.found.entry.size())),
        }
    }

    /// A racy file is not confirmed by its entity-tag: the content behind it may be another one by now.
    fn validators(&self, now: i64) -> Validators<'_> {
        let etag = self
            .heads
            .etag
            .as_deref()
            .filter(|_| !self.found.entry.racy);
        Validators {
            etag: etag.and_then(EntityTag::parse),
            last_modified: self.heads.last_modified,
            date: now,
        }
    }

    fn not_modified(&self) -> Answer {
        Answer {
            status: 304,
            head: self.pair.not_modified.clone(),
            body: Body::Empty,
            outcome: None,
        }
    }
}

#[cfg(test)]
mod tests;
