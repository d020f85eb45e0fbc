//! `redirects` of a site: paths that have moved, or are gone.

use bytes::Bytes;

use crate::request::pattern::{Pattern, PatternError};
use crate::request::target::Target;
use crate::site::response::{Answer, QUERY, encode, local_answer, redirect};
use crate::site::settings::{Moved, RedirectRule};

/// The redirects of one site, in order; the first that means a path counts.
#[derive(Debug)]
pub struct Redirects(Vec<Redirect>);

#[derive(Debug)]
struct Redirect {
    from: Pattern,
    to: Option<Destination>,
}

#[derive(Debug)]
struct Destination {
    status: u16,
    /// What stands before the query; percent-encoded.
    base: Bytes,
    query: Option<Bytes>,
    fragment: Bytes,
    /// What follows the folder of `from` is put behind `base`.
    carries_rest: bool,
}

impl Redirects {
    /// Compiles the rules; none: there are none.
    ///
    /// # Errors
    /// A pattern that cannot be used.
    pub fn new(rules: &[RedirectRule]) -> Result<Option<Box<Redirects>>, PatternError> {
        if rules.is_empty() {
            return Ok(None);
        }
        let redirect = |rule: &RedirectRule| {
            let from = Pattern::parse(&rule.from)?;
            let to = match &rule.to {
                Moved::Gone => None,
                Moved::To { to, status } => Some(Destination::new(to, *status, &from)),
            };
            Ok(Redirect { from, to })
        };
        let all = rules.iter().map(redirect).collect::<Result<_, _>>()?;
        Ok(Some(Box::new(Redirects(all))))
    }

    /// The answer to a request for this target, if its path has moved.
    #[must_use]
    pub fn answer(&self, target: &Target<'_>) -> Option<Answer> {
        let found = self.0.iter().find(|rule| rule.from.matches(&target.path))?;
        Some(match &found.to {
            None => local_answer(410),
            Some(to) => to.answer(&found.from, target),
        })
    }

    /// The rule that means a path.
    #[must_use]
    pub fn position(&self, path: &[u8]) -> Option<usize> {
        self.0.iter().position(|rule| rule.from.matches(path))
    }
}

impl Destination {
    fn new(to: &str, status: u16, from: &Pattern) -> Destination {
        let (rest, fragment) = match to.split_once('#') {
            Some((rest, fragment)) => (rest, format!("#{fragment}")),
            None => (to, String::new()),
        };
        let (base, query) = match rest.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (rest, None),
        };
        let encoded = |text: &str| {
            let mut out = Vec::new();
            encode(text.as_bytes(), WRITTEN, &mut out);
            Bytes::from(out)
        };
        Destination {
            status,
            carries_rest: base == to && base.ends_with('/') && from.is_folder(),
            base: encoded(base),
            query: query.map(encoded),
            fragment: encoded(&fragment),
        }
    }

    fn answer(&self, from: &Pattern, target: &Target<'_>) -> Answer {
        let mut location = self.base.to_vec();
        if self.carries_rest {
            let rest = from.below(&target.path).unwrap_or_default();
            // Slashes at its beginning, which were escaped, would make `//host` of a base of `/`.
            let first = rest.iter().position(|&byte| byte != b'/');
            let rest = first
                .and_then(|first| rest.get(first..))
                .unwrap_or_default();
            encode(rest, crate::site::response::PATH, &mut location);
        }
        match (&self.query, target.query) {
            // A lone mark at the end drops the query, as in nginx's rewrites.
            (Some(own), _) if own.is_empty() => {}
            (Some(own), _) => {
                location.push(b'?');
                location.extend_from_slice(own);
            }
            (None, Some(query)) => {
                location.push(b'?');
                encode(query, QUERY, &mut location);
            }
            (None, None) => {}
        }
        location.extend_from_slice(&self.fragment);
        redirect(self.status, &location)
    }
}

/// What of a reference that the settings have stays as it is written.
const WRITTEN: &[u8] = b"-._~!$&'()*+,;=:@/?%#[]";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::request::head::Method;

    fn rule(from: &str, to: &str) -> RedirectRule {
        RedirectRule {
            from: from.to_owned(),
            to: match to {
                "" => Moved::Gone,
                to => Moved::To {
                    to: to.to_owned(),
                    status: 301,
                },
            },
        }
    }

    fn location(redirects: &Redirects, target: &str) -> String {
        let target = Target::parse(&Method::Get, target.as_bytes()).unwrap();
        match redirects.answer(&target) {
            None => "-".to_owned(),
            Some(answer) if answer.status == 410 => "gone".to_owned(),
            Some(answer) => crate::site::fixture::field(&answer, "Location").unwrap(),
        }
    }

    #[test]
    fn paths_folders_and_patterns_move() {
        let redirects = Redirects::new(&[
            rule("/a", "/b"),
            rule("/old/", "/new/"),
            rule("/shop/", "https://shop.example/?from=old#top"),
            rule("/x/*.html", "/y/"),
            rule("/gone/", ""),
            rule("/caf\u{e9}", "/k\u{e4}se"),
            rule("/all/", "/"),
            rule("/dropped", "/new?"),
            rule("/dropped/below/", "/new/?#top"),
        ])
        .unwrap()
        .unwrap();
        for (target, expected) in [
            ("/a", "/b"),
            ("/a/", "/b"),
            ("//a", "/b"),
            ("/%61", "/b"),
            ("/a?x=1&y=%20", "/b?x=1&y=%20"),
            ("/a/b", "-"),
            ("/old", "/new/"),
            ("/old/", "/new/"),
            ("/old/c%20d/%C3%A9?q", "/new/c%20d/%C3%A9?q"),
            ("/old/%2F%2Fevil.example", "/new/evil.example"),
            ("/old/../a", "/b"),
            ("/shop/x?y=1", "https://shop.example/?from=old#top"),
            ("/x/page.html", "/y/"),
            ("/gone/x", "gone"),
            ("/caf%C3%A9", "/k%C3%A4se"),
            ("/all/%2Fevil.example/", "/evil.example/"),
            ("/all/%5Cevil.example", "/%5Cevil.example"),
            ("/all/\\evil.example", "/%5Cevil.example"),
            ("/all//evil.example", "/evil.example"),
            ("/dropped?a=b", "/new"),
            ("/dropped", "/new"),
            ("/dropped/below/x?a=b", "/new/#top"),
        ] {
            assert_eq!(location(&redirects, target), expected, "{target}");
        }
        assert!(Redirects::new(&[]).unwrap().is_none());
    }
}
