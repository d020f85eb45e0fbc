//! The request target (RFC 9112 §3.2), its path decoded exactly once.
//!
//! Routing, lookup and the script's name all use that one value, so that no two of them can take
//! a request for different files.

mod path;

use std::borrow::Cow;

use thiserror::Error;

use super::authority::Authority;
use super::head::Method;
use super::tree_path::TreePath;

/// A request target, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target<'b> {
    /// The whole target as sent.
    pub raw: &'b [u8],
    /// The path as sent; `/` where an absolute target has none.
    pub raw_path: &'b [u8],
    /// What follows the first `?`, as sent.
    pub query: Option<&'b [u8]>,
    /// Host and port of an absolute target; they win over `Host` (RFC 9112 §3.2.2).
    pub authority: Option<&'b [u8]>,
    /// The scheme of an absolute target: `http` or `https` in any case.
    pub scheme: Option<&'b [u8]>,
    /// The path decoded, without dot segments, runs of slashes made one; begins with `/`.
    /// Borrowed when nothing had to change.
    pub path: Cow<'b, [u8]>,
    /// Whether a segment holds an encoded slash or any kind of backslash: no file of the tree is
    /// named so, though a script may be asked for such a path.
    pub separator_in_segment: bool,
}

impl<'b> Target<'b> {
    /// Reads the target of a request with this method.
    ///
    /// # Errors
    /// [`TargetError`], always answered 400: no form of RFC 9112 §3.2 that an origin server takes,
    /// a bad escape, a control byte (raw or encoded) in the path, a fragment, or a path that leaves
    /// the root.
    pub fn parse(method: &Method<'_>, raw: &'b [u8]) -> Result<Target<'b>, TargetError> {
        if *method == Method::Connect {
            return Err(TargetError::Form);
        }
        // No early exit: whole vectors of bytes are compared at once.
        if raw.iter().fold(false, |found, &byte| {
            found | (byte <= b' ') | (byte == 0x7f) | (byte == b'#')
        }) {
            return Err(TargetError::Byte);
        }
        match raw {
            [b'/', ..] => Target::from_path(raw, raw, None),
            b"*" if *method == Method::Options => Ok(Target {
                raw,
                raw_path: raw,
                query: None,
                authority: None,
                scheme: None,
                path: Cow::Borrowed(b"/"),
                separator_in_segment: false,
            }),
            _ => Target::from_absolute(raw),
        }
    }

    /// Whether this is the asterisk form, which names no resource but the server.
    pub fn is_asterisk(&self) -> bool {
        self.raw == b"*"
    }

    /// The target in origin form, as sent: what a script gets as `REQUEST_URI`.
    pub fn origin_form(&self) -> Cow<'b, [u8]> {
        let Some(authority) = self.authority else {
            return Cow::Borrowed(self.raw);
        };
        let before = self
            .scheme
            .map_or(0, <[u8]>::len)
            .saturating_add(SCHEME_END.len())
            .saturating_add(authority.len());
        match self.raw.get(before..).unwrap_or_default() {
            rest @ [b'/', ..] => Cow::Borrowed(rest),
            [] => Cow::Borrowed(b"/"),
            query => Cow::Owned([b"/", query].concat()),
        }
    }

    /// Where the path points below a document root; `None` when it can be no file of the tree.
    pub fn tree_path(&self) -> Option<TreePath<'_>> {
        if self.separator_in_segment {
            return None;
        }
        let path = self.path.strip_prefix(b"/")?;
        TreePath::new(path.strip_suffix(b"/").unwrap_or(path))
    }

    /// Whether the path ends with a slash, and so names a directory.
    pub fn trailing_slash(&self) -> bool {
        self.path.ends_with(b"/")
    }

    /// Origin form, and what an absolute target has behind its authority.
    fn from_path(
        raw: &'b [u8],
        path_and_query: &'b [u8],
        absolute: Option<(&'b [u8], &'b [u8])>,
    ) -> Result<Self, TargetError> {
        let (raw_path, query) = match memchr::memchr(b'?', path_and_query)
            .and_then(|at| path_and_query.split_at_checked(at))
        {
            Some((path, query)) => (path, query.strip_prefix(b"?")),
            None => (path_and_query, None),
        };
        let raw_path = if raw_path.is_empty() { b"/" } else { raw_path };
        let (path, separator_in_segment) = path::decode(raw_path)?;
        Ok(Target {
            raw,
            raw_path,
            query,
            authority: absolute.map(|(_, authority)| authority),
            scheme: absolute.map(|(scheme, _)| scheme),
            path,
            separator_in_segment,
        })
    }

    fn from_absolute(raw: &'b [u8]) -> Result<Self, TargetError> {
        let colon = memchr::memchr(b':', raw).ok_or(TargetError::Form)?;
        let (scheme, rest) = raw.split_at_checked(colon).ok_or(TargetError::Form)?;
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            return Err(TargetError::Form);
        }
        let rest = rest.strip_prefix(SCHEME_END).ok_or(TargetError::Form)?;
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at_checked(end).ok_or(TargetError::Form)?;
        if Authority::parse(authority).is_none() {
            return Err(TargetError::Authority);
        }
        Target::from_path(raw, path_and_query, Some((scheme, authority)))
    }
}

/// Why a target is refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum TargetError {
    /// Neither origin form, nor absolute form of `http` or `https`, nor `*` with OPTIONS.
    #[error("unknown form of request target")]
    Form,
    /// The authority of an absolute target is none.
    #[error("bad authority in the request target")]
    Authority,
    /// A space, a control byte or a `#` as it stands.
    #[error("forbidden byte in the request target")]
    Byte,
    /// A `%` without two hexadecimal digits.
    #[error("bad escape in the path")]
    Escape,
    /// An encoded control byte.
    #[error("encoded control byte in the path")]
    Control,
    /// A dot-dot segment above the root, or one made by an encoded slash or a backslash.
    #[error("the path leaves the root")]
    AboveRoot,
}

impl TargetError {
    /// The status code that tells the client.
    pub fn status(&self) -> u16 {
        400
    }
}

/// Between the scheme and the authority.
const SCHEME_END: &[u8] = b"://";

#[cfg(test)]
mod tests;
