//! Paths that a site gives to nobody, less those that its preset refuses anyway.
//!
//! The preset's own rules are asked with paths that a pattern stands for, so that both always agree.

use std::path::PathBuf;

use crate::request::pattern::Pattern;
use crate::site::access::Access;
use crate::site::settings::{Multisite, Preset, SiteSettings};

/// What is left of `patterns` for the key `deny`.
#[must_use]
pub fn beyond_preset(patterns: &[String], preset: Preset, multisite: Multisite) -> Vec<String> {
    let settings = SiteSettings {
        multisite,
        ..SiteSettings::new(PathBuf::from("/srv"), preset)
    };
    let Ok(access) = Access::new(&settings) else {
        return patterns.to_vec();
    };
    let mut left: Vec<String> = Vec::new();
    for pattern in patterns {
        let refused = |path: &String| {
            access.denies(path.as_bytes())
                || (is_script(path)
                    && (preset == Preset::Static || !access.php_runs(path.as_bytes())))
        };
        let usable = Pattern::parse(pattern).is_ok() && pattern.chars().all(super::yaml::is_text);
        if usable && !probes(pattern).iter().all(refused) && !left.contains(pattern) {
            left.push(pattern.clone());
        }
    }
    left
}

/// Paths that the pattern matches, with different text for its stars.
fn probes(pattern: &str) -> Vec<String> {
    let rooted = match pattern.starts_with('/') {
        true => pattern.to_owned(),
        false => format!("/q/{pattern}"),
    };
    let whole = match rooted.ends_with('/') {
        true => format!("{rooted}**"),
        false => rooted,
    };
    let fill = |deep: &str, flat: &str| whole.replace("**", deep).replace('*', flat);
    vec![fill("q", "q"), fill("q/z", "qz"), fill("z.q", "z.q")]
}

fn is_script(path: &str) -> bool {
    [".php", ".phtml", ".phar"]
        .iter()
        .any(|suffix| path.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pattern: &str, preset: Preset) -> Vec<String> {
        beyond_preset(&[pattern.to_owned()], preset, Multisite::Off)
    }

    #[test]
    fn what_the_preset_refuses_is_not_said_again() {
        for pattern in [
            "/**/.**",
            "/.**",
            "/**/uploads/**.php",
            "/wp-config.php",
            "*.sql",
            "/wp-content/updraft/",
        ] {
            assert_eq!(left(pattern, Preset::Wordpress), [""; 0], "{pattern}");
        }
        for pattern in ["/xmlrpc.php", "/private/", "*.txt", "/**/files/**.php"] {
            assert_eq!(left(pattern, Preset::Wordpress), [pattern], "{pattern}");
        }
        assert_eq!(left("*.sql", Preset::Static), ["*.sql"]);
    }
}
