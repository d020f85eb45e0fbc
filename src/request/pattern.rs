//! Path patterns of the settings: `deny`, `no_php`, `cache_control`, `headers`, `missing_assets_php`.
//!
//! Paths are judged decoded, without their leading slash. `/xmlrpc.php` is that path alone, `/dir/` the folder and all
//! below it, `*` stands for anything within a segment, `**` for anything; a pattern without any slash is judged
//! against the last segment (`*.pdf`). Patterns compare bytes: case counts.

use regex::bytes::{Regex, RegexBuilder};

/// One compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    form: Form,
    folder: Box<[u8]>,
}

impl Pattern {
    /// Compiles a pattern as written in the settings.
    ///
    /// # Errors
    /// An empty pattern, one with control characters, or one too large to compile.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let refused = |reason| PatternError {
            pattern: text.to_owned(),
            reason,
        };
        if text.is_empty() {
            return Err(refused("is empty"));
        }
        if text.chars().any(char::is_control) {
            return Err(refused("has control characters"));
        }
        let path = text.strip_prefix('/').unwrap_or(text);
        let form = if !text.contains('/') {
            Form::Name(glob(text).ok_or_else(|| refused("is too large"))?)
        } else if path.contains('*') || !text.starts_with('/') {
            let anchored = if text.starts_with('/') { "" } else { "**/" };
            let below = if path.ends_with('/') { "**" } else { "" };
            let whole = format!("{anchored}{path}{below}");
            Form::Path(glob(&whole).ok_or_else(|| refused("is too large"))?)
        } else if path.is_empty() || path.ends_with('/') {
            Form::Below(path.as_bytes().into())
        } else {
            Form::Exact(path.as_bytes().into())
        };
        Ok(Pattern {
            form,
            folder: literal_folder(text),
        })
    }

    /// The folder that everything meant lies below, without slashes at its ends; empty: the root.
    #[must_use]
    pub fn folder(&self) -> &[u8] {
        &self.folder
    }

    /// Whether this is a folder and all below it, without any star.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        matches!(self.form, Form::Below(_))
    }

    /// What follows the folder in `path`; none: this is no folder, or `path` is not below it.
    #[must_use]
    pub fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        match &self.form {
            Form::Below(folder) => path.strip_prefix(&**folder),
            Form::Exact(_) | Form::Path(_) | Form::Name(_) => None,
        }
    }

    /// Whether `path` (decoded, with or without its leading slash) is meant.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let bare = path.strip_suffix(b"/").unwrap_or(path);
        match &self.form {
            Form::Exact(exact) => bare == &**exact,
            Form::Below(folder) => {
                path.starts_with(folder) || folder.strip_suffix(b"/") == Some(path)
            }
            Form::Path(glob) => glob.is_match(path),
            Form::Name(glob) => glob.is_match(bare.rsplit(|&b| b == b'/').next().unwrap_or(bare)),
        }
    }
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` {reason}")]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[derive(Debug, Clone)]
enum Form {
    Exact(Box<[u8]>),
    /// With its trailing slash; the root itself is empty.
    Below(Box<[u8]>),
    Path(Regex),
    Name(Regex),
}

/// The segments of an anchored pattern before the one that ends it or has a star.
fn literal_folder(text: &str) -> Box<[u8]> {
    let Some(path) = text.strip_prefix('/') else {
        return Box::default();
    };
    let literal = path.split('*').next().unwrap_or_default();
    let folder = literal.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.as_bytes().into()
}

/// A glob as a regular expression: matched in linear time whatever the path, and without an allocation.
fn glob(text: &str) -> Option<Regex> {
    let mut expression = String::from("^");
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            expression.push_str("(?:.*/)?");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("**") {
            expression.push_str(".*");
            rest = after;
        } else if let Some(after) = rest.strip_prefix('*') {
            expression.push_str("[^/]*");
            rest = after;
        } else {
            let (literal, after) = rest.split_at(character.len_utf8());
            expression.push_str(&regex::escape(literal));
            rest = after;
        }
    }
    expression.push('$');
    RegexBuilder::new(&expression)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(SIZE_LIMIT)
        .build()
        .ok()
}

/// Bytes of a compiled pattern.
const SIZE_LIMIT: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let pattern = Pattern::parse(pattern).unwrap();
        for path in yes {
            assert!(pattern.matches(path.as_bytes()), "{pattern:?} on {path}");
        }
        for path in no {
            assert!(!pattern.matches(path.as_bytes()), "{pattern:?} on {path}");
        }
    }

    #[test]
    fn a_plain_path_is_that_path_alone() {
        check(
            "/xmlrpc.php",
            &["/xmlrpc.php", "xmlrpc.php", "/xmlrpc.php/"],
            &["/xmlrpc.php.txt", "/a/xmlrpc.php", "/xmlrpc"],
        );
    }

    #[test]
    fn a_trailing_slash_means_the_folder_and_all_below() {
        check(
            "/private/",
            &["/private/", "/private", "/private/a/b.css"],
            &["/privateer", "/a/private/x"],
        );
        check("/", &["/", "/a", "/a/b"], &[]);
    }

    #[test]
    fn one_star_stays_within_a_segment() {
        check(
            "/a/*.css",
            &["/a/x.css", "/a/.css"],
            &["/a/b/x.css", "/b/x.css"],
        );
        check("/a/*/c/", &["/a/b/c/", "/a/b/c/d"], &["/a/b/x/c/"]);
    }

    #[test]
    fn two_stars_cross_segments() {
        check(
            "/a/**/x.css",
            &["/a/x.css", "/a/b/c/x.css"],
            &["/b/x.css", "/a/bx.css"],
        );
        check("/a/**", &["/a/x", "/a/x/y"], &["/ab/x"]);
        check(
            "cache/*.css",
            &["/cache/a.css", "/x/cache/a.css"],
            &["/xcache/a.css"],
        );
    }

    #[test]
    fn a_name_is_judged_in_every_folder() {
        check("*.pdf", &["/a.pdf", "/x/y/a.pdf"], &["/a.pdf/x", "/a.pdfx"]);
    }

    #[test]
    fn characters_of_regular_expressions_and_other_bytes_are_literal() {
        check("/a+(b).*", &["/a+(b).x"], &["/aab.x"]);
        check("*.café", &["/x.café"], &["/x.cafe"]);
        assert!(Pattern::parse("/*.css").unwrap().matches(b"/\xff.css"));
    }

    #[test]
    fn useless_patterns_are_refused() {
        assert!(Pattern::parse("").is_err());
        assert!(Pattern::parse("/a\nb").is_err());
        assert!(Pattern::parse(&"*x".repeat(100_000)).is_err());
    }
}
