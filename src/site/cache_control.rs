//! Cache-Control of static files (DESIGN section 6): the site's own rules first, then the preset's table.
//!
//! Nothing is called `immutable` unless the settings say so: WordPress rewrites files under the same version.

use crate::request::pattern::{Pattern, PatternError};
use crate::site::media_type::Kind;
use crate::site::settings::{CacheControlRule, Preset};

/// The Cache-Control rules of one site.
#[derive(Debug)]
pub struct CacheControl {
    rules: Vec<(Pattern, String)>,
    preset: Preset,
}

impl CacheControl {
    /// Compiles the rules.
    ///
    /// # Errors
    /// A pattern that cannot be used.
    pub fn new(rules: &[CacheControlRule], preset: Preset) -> Result<CacheControl, PatternError> {
        let compile =
            |rule: &CacheControlRule| Ok((Pattern::parse(&rule.pattern)?, rule.value.clone()));
        Ok(CacheControl {
            rules: rules
                .iter()
                .map(compile)
                .collect::<Result<_, PatternError>>()?,
            preset,
        })
    }

    /// The value for the file at `path`, of this kind, asked for with or without a version in the query.
    #[must_use]
    pub fn select(&self, path: &[u8], kind: Kind, version: Version) -> Option<&str> {
        if let Some((_, value)) = self.rules.iter().find(|(pattern, _)| pattern.matches(path)) {
            return Some(value.as_str()).filter(|value| !value.is_empty());
        }
        if self.preset != Preset::Wordpress {
            return None;
        }
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        match (version, kind) {
            (Version::InQuery, _) => Some(VERSIONED),
            _ if has_digest(name) => Some(VERSIONED),
            (_, Kind::Code) => Some(REVALIDATED),
            (_, Kind::Media) => Some(MEDIA),
            (_, Kind::Other) => None,
        }
    }
}

/// Whether the query names a version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// It does: `?ver=6.1` or `?v=3`.
    InQuery,
    /// It does not.
    None,
}

impl Version {
    /// Reads the query of a request.
    #[must_use]
    pub fn of_query(query: Option<&[u8]>) -> Version {
        let Some(query) = query else {
            return Version::None;
        };
        let named = query
            .split(|&b| b == b'&')
            .any(|pair| pair.starts_with(b"ver=") || pair.starts_with(b"v="));
        if named {
            Version::InQuery
        } else {
            Version::None
        }
    }
}

/// Whether a part of the name is a digest: eight or more hexadecimal digits between other characters than letters
/// and digits.
fn has_digest(name: &[u8]) -> bool {
    name.split(|b| !b.is_ascii_alphanumeric())
        .any(|part| part.len() >= DIGEST && part.iter().all(u8::is_ascii_hexdigit))
}

const DIGEST: usize = 8;
const VERSIONED: &str = "public, max-age=2592000";
const REVALIDATED: &str = "public, max-age=0, must-revalidate";
const MEDIA: &str = "public, max-age=86400";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn rules(preset: Preset) -> CacheControl {
        let rule = |pattern: &str, value: &str| CacheControlRule {
            pattern: pattern.into(),
            value: value.into(),
        };
        CacheControl::new(&[rule("/own/", "private"), rule("*.none", "")], preset).unwrap()
    }

    #[test]
    fn the_table_of_the_wordpress_preset() {
        let rules = rules(Preset::Wordpress);
        let value = |path: &str, kind, version| rules.select(path.as_bytes(), kind, version);
        assert_eq!(
            value("a.css", Kind::Code, Version::InQuery),
            Some(VERSIONED)
        );
        assert_eq!(
            value("a.0a1b2c3d.css", Kind::Code, Version::None),
            Some(VERSIONED)
        );
        assert_eq!(
            value("app-0A1B2C3D4E.js", Kind::Code, Version::None),
            Some(VERSIONED)
        );
        assert_eq!(value("a.css", Kind::Code, Version::None), Some(REVALIDATED));
        assert_eq!(value("a.jpg", Kind::Media, Version::None), Some(MEDIA));
        assert_eq!(value("a.pdf", Kind::Other, Version::None), None);
        assert_eq!(
            value("abcdefgh.css", Kind::Code, Version::None),
            Some(REVALIDATED)
        );
    }

    #[test]
    fn the_sites_own_rules_come_first_in_every_preset() {
        for preset in [Preset::Wordpress, Preset::Php, Preset::Static] {
            let rules = rules(preset);
            assert_eq!(
                rules.select(b"own/a.css", Kind::Code, Version::InQuery),
                Some("private")
            );
            assert_eq!(rules.select(b"a.none", Kind::Media, Version::InQuery), None);
        }
        assert_eq!(
            rules(Preset::Static).select(b"a.css", Kind::Code, Version::InQuery),
            None
        );
    }

    #[test]
    fn versions_in_the_query() {
        let versioned = |query: &str| Version::of_query(Some(query.as_bytes())) == Version::InQuery;
        assert!(versioned("ver=6.1.9") && versioned("a=1&v=2") && versioned("ver="));
        assert!(
            !versioned("over=1") && !versioned("") && !versioned("ver") && !versioned("a=ver=1")
        );
        assert_eq!(Version::of_query(None), Version::None);
    }
}
