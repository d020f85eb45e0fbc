//! Which paths are refused and where PHP may run, before anything is looked up.
//!
//! Judged per request on the decoded path, never stored with a file. A refused path is refused whether or not it
//! exists, so the answer tells nothing about the tree.

use crate::request::pattern::{Pattern, PatternError};
use crate::site::settings::{Multisite, Preset, SiteSettings};
use crate::site::wordpress::{self, Layout};

/// The access rules of one site.
#[derive(Debug)]
pub struct Access {
    preset: Preset,
    multisite: Multisite,
    layout: Layout,
    deny: Vec<Pattern>,
    no_php: Vec<Pattern>,
}

/// Why a path is refused to everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A segment begins with a dot.
    #[error("a segment of it begins with a dot")]
    Hidden,
    /// `deny` of the settings.
    #[error("the key deny names it")]
    Deny,
    /// The preset's list.
    #[error("the preset never sends such: settings, dumps, logs, backups, private folders")]
    Preset,
}

impl Access {
    /// Compiles a site's rules.
    ///
    /// # Errors
    /// A pattern of `deny` or `no_php` that cannot be used.
    pub fn new(settings: &SiteSettings) -> Result<Access, PatternError> {
        let patterns = |texts: &[String]| -> Result<Vec<_>, _> {
            texts.iter().map(|text| Pattern::parse(text)).collect()
        };
        Ok(Access {
            preset: settings.preset,
            multisite: settings.multisite,
            layout: Layout::new(&settings.content_dir),
            deny: patterns(&settings.deny)?,
            no_php: patterns(&settings.no_php)?,
        })
    }

    /// Whether this path is refused to everybody.
    #[must_use]
    pub fn denies(&self, path: &[u8]) -> bool {
        self.refusal(path).is_some()
    }

    /// Why this path is refused to everybody; none: it is not.
    #[must_use]
    pub fn refusal(&self, path: &[u8]) -> Option<Refusal> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        if has_dot_segment(path) {
            return Some(Refusal::Hidden);
        }
        if self.deny.iter().any(|pattern| pattern.matches(path)) {
            return Some(Refusal::Deny);
        }
        let of_preset = match self.preset {
            Preset::Wordpress => {
                wordpress::is_sensitive(path)
                    || wordpress::is_private_in_root(path)
                    || self.layout.is_private(path)
            }
            Preset::Php => wordpress::is_sensitive(path),
            Preset::Static => false,
        };
        of_preset.then_some(Refusal::Preset)
    }

    /// Whether PHP may run this script.
    #[must_use]
    pub fn php_runs(&self, script: &[u8]) -> bool {
        let script = script.strip_prefix(b"/").unwrap_or(script);
        if self.no_php.iter().any(|pattern| pattern.matches(script)) {
            return false;
        }
        match self.preset {
            Preset::Wordpress => {
                !self.layout.is_without_php(script) && !self.is_network_file(script)
            }
            Preset::Php => true,
            Preset::Static => false,
        }
    }

    /// The folders of this site's WordPress.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn is_network_file(&self, script: &[u8]) -> bool {
        self.multisite != Multisite::Off
            && wordpress::network_file(script, self.multisite == Multisite::Subdirectory).is_some()
    }
}

/// Whether the path has a hidden segment. `.well-known` (RFC 8615) is none.
#[must_use]
pub fn has_dot_segment(path: &[u8]) -> bool {
    wordpress::segments(path).any(|segment| segment.starts_with(b".") && segment != b".well-known")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::path::PathBuf;

    use super::*;

    fn settings(preset: Preset) -> SiteSettings {
        SiteSettings::new(PathBuf::from("/srv/.data/site"), preset)
    }

    #[test]
    fn dotfiles_are_refused_in_every_preset() {
        for preset in [Preset::Wordpress, Preset::Php, Preset::Static] {
            let access = Access::new(&settings(preset)).unwrap();
            for path in [
                "/.git/config",
                "/.env",
                "/a/.htaccess",
                "/.well-known/.env",
                "/...",
                "/.wellknown/x",
            ] {
                assert!(access.denies(path.as_bytes()), "{path}");
            }
            assert!(!access.denies(b"/.well-known/acme-challenge/t"));
            assert!(!access.denies(b"/a.b/c"));
        }
    }

    #[test]
    fn the_wordpress_list_is_for_wordpress() {
        let wordpress = Access::new(&settings(Preset::Wordpress)).unwrap();
        let plain = Access::new(&settings(Preset::Static)).unwrap();
        for path in [
            "/wp-config.php",
            "/readme.html",
            "/backup.zip",
            "/wp-content/updraft/a",
            "/debug.log",
        ] {
            assert!(wordpress.denies(path.as_bytes()), "{path}");
            assert!(!plain.denies(path.as_bytes()), "{path}");
        }
        assert!(!wordpress.denies(b"/xmlrpc.php"));
        assert!(!wordpress.denies(b"/"));
    }

    #[test]
    fn patterns_of_the_settings_count() {
        let mut settings = settings(Preset::Wordpress);
        settings.deny = vec!["/xmlrpc.php".into(), "*.key".into()];
        settings.no_php = vec!["/media/".into()];
        let access = Access::new(&settings).unwrap();
        assert!(access.denies(b"/xmlrpc.php"));
        assert!(access.denies(b"/a/b.key"));
        assert!(!access.php_runs(b"/media/x.php"));
        assert!(access.php_runs(b"/index.php"));
        settings.deny = vec![String::new()];
        assert!(Access::new(&settings).is_err());
    }

    #[test]
    fn files_of_a_network_run_no_php() {
        let mut settings = settings(Preset::Wordpress);
        assert!(Access::new(&settings).unwrap().php_runs(b"files/x.php"));
        settings.multisite = Multisite::Subdirectory;
        let access = Access::new(&settings).unwrap();
        assert!(!access.php_runs(b"files/x.php"));
        assert!(!access.php_runs(b"site/files/x.php"));
        assert!(access.php_runs(b"site/wp-login.php"));
    }
}
