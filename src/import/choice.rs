//! Which location nginx takes for a path: exact ones, then the longest beginning, but expressions before it unless `^~`.

use regex::{Regex, RegexBuilder};

use super::matcher::{Matcher, without_well_known};
use super::nginx::directives::Directive;

/// The locations of a server block, without those within others.
#[derive(Debug, Default)]
pub struct Choice<'t> {
    locations: Vec<Candidate<'t>>,
}

#[derive(Debug)]
struct Candidate<'t> {
    directive: &'t Directive,
    matcher: Matcher,
    /// No expression is looked at where this is the longest beginning.
    is_final: bool,
    /// None: one that cannot be tried.
    expression: Option<Regex>,
}

impl<'t> Choice<'t> {
    /// Reads the locations of a block.
    #[must_use]
    pub fn of(block: &'t Directive) -> Choice<'t> {
        let candidate = |directive: &'t Directive| {
            let matcher = Matcher::parse(&directive.args);
            Candidate {
                directive,
                is_final: directive.arg(0).starts_with("^~"),
                expression: match &matcher {
                    Matcher::Regex(text) => compiled(text, ignores_case(directive)),
                    _ => None,
                },
                matcher,
            }
        };
        let locations = block.children().iter().filter(|d| d.name == "location");
        Choice {
            locations: locations.map(candidate).collect(),
        }
    }

    /// Whether nginx surely takes this location for this path.
    #[must_use]
    pub fn takes(&self, path: &str, location: &Directive) -> bool {
        self.taken(path)
            .is_some_and(|taken| std::ptr::eq(taken, location))
    }

    /// Whether nginx surely takes this location for all paths that begin so.
    #[must_use]
    pub fn takes_all(&self, beginning: &str, location: &Directive) -> bool {
        let Some(own) = self
            .locations
            .iter()
            .find(|c| std::ptr::eq(c.directive, location))
        else {
            return false;
        };
        let Matcher::Prefix(prefix) = &own.matcher else {
            return false;
        };
        let is_regex = |c: &Candidate<'_>| matches!(c.matcher, Matcher::Regex(_));
        let is_between = |c: &Candidate<'_>| match &c.matcher {
            Matcher::Exact(text) => text.starts_with(beginning),
            Matcher::Prefix(text) => {
                !std::ptr::eq(c.directive, location)
                    && (text.starts_with(beginning)
                        || beginning.starts_with(text) && text.len() >= prefix.len())
            }
            _ => false,
        };
        beginning.starts_with(prefix)
            && (own.is_final || !self.locations.iter().any(is_regex))
            && !self.locations.iter().any(is_between)
    }

    /// Other locations that begin so, of which nginx may take one.
    pub fn others_below(
        &self,
        beginning: &str,
        location: &Directive,
    ) -> impl Iterator<Item = &'t Directive> {
        let is_below = move |c: &&Candidate<'_>| {
            !std::ptr::eq(c.directive, location)
                && match &c.matcher {
                    Matcher::Exact(text) | Matcher::Prefix(text) => text.starts_with(beginning),
                    _ => false,
                }
        };
        self.locations.iter().filter(is_below).map(|c| c.directive)
    }

    /// The location for this path alone.
    #[must_use]
    pub fn exact(&self, path: &str) -> Option<&'t Directive> {
        let is = |c: &&Candidate<'_>| matches!(&c.matcher, Matcher::Exact(text) if text == path);
        self.locations.iter().find(is).map(|c| c.directive)
    }

    /// The location for a path; none: there is none, or it is not sure.
    fn taken(&self, path: &str) -> Option<&'t Directive> {
        if let Some(found) = self.exact(path) {
            return Some(found);
        }
        let length = |c: &&Candidate<'_>| match &c.matcher {
            Matcher::Prefix(text) if path.starts_with(text.as_str()) => Some(text.len()),
            _ => None,
        };
        let longest = self
            .locations
            .iter()
            .filter_map(|c| Some((length(&c)?, c)))
            .max_by_key(|(length, _)| *length)
            .map(|(_, c)| c);
        if let Some(found) = longest.filter(|c| c.is_final) {
            return Some(found.directive);
        }
        for candidate in &self.locations {
            if matches!(candidate.matcher, Matcher::Regex(_))
                && candidate.expression.as_ref()?.is_match(path)
            {
                return Some(candidate.directive);
            }
        }
        longest.map(|c| c.directive)
    }
}

/// Where nginx would look at a location sooner: a smaller one comes first. `order` is its place among its like.
#[must_use]
pub fn rank(location: &Directive, order: usize) -> (u8, usize) {
    let is_final = location.arg(0).starts_with("^~");
    match Matcher::parse(&location.args) {
        Matcher::Exact(_) => (1, order),
        Matcher::Prefix(text) if is_final => (2, usize::MAX - text.len()),
        Matcher::Regex(_) => (3, order),
        Matcher::Prefix(text) => (4, usize::MAX - text.len()),
        Matcher::Named(_) => (5, order),
    }
}

/// Whether case does not count in the expression of a location.
#[must_use]
pub fn ignores_case(location: &Directive) -> bool {
    location.arg(0).starts_with("~*") && {
        let text = location.args.concat();
        text.bytes().any(|byte| byte.is_ascii_alphabetic())
    }
}

/// An expression of nginx's, to be tried on a path. A look-ahead for `.well-known` is left out: it finds more then.
#[must_use]
pub fn compiled(text: &str, ignores_case: bool) -> Option<Regex> {
    let build = |text: &str| {
        RegexBuilder::new(text)
            .case_insensitive(ignores_case)
            .size_limit(SIZE_LIMIT)
            .build()
            .ok()
    };
    build(text).or_else(|| build(&without_well_known(text)))
}

const SIZE_LIMIT: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::rc::Rc;

    use super::*;
    use crate::import::nginx::directives::parse;

    #[test]
    fn locations_are_taken_as_nginx_does() {
        let text = "server { location / { } location /a/ { } location ^~ /s/ { } location = /a/x.php { }\n\
                    location ~ \\.php$ { } location ~* \\.CSS$ { } location /.x { } location ~ /\\.(?!well-known) { } }";
        let tree = parse(&Rc::from("n"), text.as_bytes()).unwrap();
        let server = tree.first().unwrap();
        let choice = Choice::of(server);
        for (path, expected) in [
            ("/", "/"),
            ("/a", "/"),
            ("/a/b", "/a/"),
            ("/a/b.php", "~ \\.php$"),
            ("/a/x.php", "= /a/x.php"),
            ("/s/b.php", "^~ /s/"),
            ("/a.css", "~* \\.CSS$"),
            ("/.x", "~ /\\.(?!well-known)"),
        ] {
            let taken = choice.taken(path).unwrap();
            assert_eq!(taken.args.join(" "), expected, "{path}");
        }
        let of = |text: &str| {
            let mut children = server.children().iter();
            children.find(|d| d.args.join(" ") == text).unwrap()
        };
        assert!(choice.takes_all("/s/", of("^~ /s/")));
        assert!(!choice.takes_all("/a/", of("/a/")));
        assert!(!choice.takes_all("/s/", of("/")));
    }

    #[test]
    fn what_cannot_be_tried_is_not_sure() {
        let text = "server { location ~ (a)\\1 { } location /b { } }";
        let tree = parse(&Rc::from("n"), text.as_bytes()).unwrap();
        assert!(Choice::of(tree.first().unwrap()).taken("/b").is_none());
    }
}
