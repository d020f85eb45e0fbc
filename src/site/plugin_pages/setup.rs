//! What a cache plugin has been told, read from its own settings file.
//!
//! The files are PHP or JSON made by the plugins. They are not run but looked through for the few values that decide whether a
//! page may be sent without PHP. Where a plugin was told more than is followed here, it is left to PHP altogether.

use serde_json::Value;

use super::layout::Layout;

/// A plugin that is switched on and told nothing that only PHP could follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Whether phones get pages of their own.
    pub phones_apart: bool,
    /// Seconds after which a page is out of date; none: the plugin itself removes what is.
    pub lifetime: Option<u64>,
    /// Whether a visitor with any cookie at all gets a page of his own.
    pub any_cookie_bypasses: bool,
}

impl Setup {
    /// What the settings file of this plugin says; none where pages are to be left to PHP.
    pub fn read(layout: Layout, text: &[u8]) -> Option<Setup> {
        let text = std::str::from_utf8(text).ok()?;
        match layout {
            Layout::SuperCache => super_cache(text),
            Layout::CacheEnabler => cache_enabler(text),
            Layout::TotalCache => total_cache(text),
            Layout::Rocket => rocket(text),
        }
    }
}

/// `wp-cache-config.php` of WP Super Cache: assignments.
fn super_cache(text: &str) -> Option<Setup> {
    let value = |name| assigned(text, name);
    let is_on = |name| value(name).is_some_and(is_true);
    let usual_place = value("cache_path").is_none_or(|path| {
        let path: String = path.chars().filter(|c| !c.is_whitespace()).collect();
        path == "WP_CONTENT_DIR.'/cache/'" || path.ends_with("/wp-content/cache/'")
    });
    let followed = usual_place
        && !is_on("wp_cache_mfunc_enabled")
        && value("wpsc_rejected_cookies").is_none_or(is_empty)
        && value("wpsc_cookies").is_none_or(is_empty);
    (is_on("cache_enabled") && is_on("super_cache_enabled") && followed).then(|| Setup {
        phones_apart: is_on("wp_cache_mobile_enabled"),
        lifetime: value("cache_max_time")
            .and_then(number)
            .filter(|&seconds| seconds > 0),
        any_cookie_bypasses: value("wp_cache_not_logged_in").and_then(number) == Some(1),
    })
}

/// `settings/cache-enabler/<host>.php` of Cache Enabler: an array.
fn cache_enabler(text: &str) -> Option<Setup> {
    let value = |name: &str| element(text, name);
    let is_on = |name| value(name).is_some_and(is_true);
    let followed = value("version").is_some() && value("excluded_cookies").is_none_or(is_empty);
    followed
        .then(|| Setup {
            phones_apart: is_on("mobile_cache"),
            lifetime: is_on("cache_expires")
                .then(|| value("cache_expiry_time").and_then(number))
                .flatten()
                .map(|hours| hours.saturating_mul(3600)),
            any_cookie_bypasses: false,
        })
        // Pages with images in WebP are files of their own, chosen by Accept.
        .filter(|_| !is_on("convert_image_urls_to_webp"))
}

/// `w3tc-config/master.php` of W3 Total Cache: JSON behind a line of PHP.
fn total_cache(text: &str) -> Option<Setup> {
    let settings: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let is_on = |name: &str| settings.get(name).and_then(Value::as_bool);
    let usual_cookies = match settings.get("pgcache.reject.cookie") {
        None | Some(Value::Null) => true,
        Some(Value::Array(names)) => names
            .iter()
            .all(|name| name.as_str() == Some("wptouch_switch_toggle")),
        Some(_) => false,
    };
    let followed = settings.get("pgcache.engine").and_then(Value::as_str) == Some("file_generic")
        && is_on("pgcache.reject.logged") != Some(false)
        && is_on("pgcache.cookiegroups.enabled") != Some(true)
        && is_on("referrer.enabled") != Some(true)
        && is_on("pgcache.debug") != Some(true)
        && usual_cookies;
    (is_on("pgcache.enabled") == Some(true) && followed).then(|| Setup {
        phones_apart: is_on("mobile.enabled") == Some(true),
        lifetime: None,
        any_cookie_bypasses: false,
    })
}

/// `wp-rocket-config/<host>.php` of WP Rocket: assignments.
fn rocket(text: &str) -> Option<Setup> {
    let value = |name| assigned(text, name);
    let is_on = |name| value(name).is_some_and(is_true);
    let usual_cookies = value("rocket_cache_reject_cookies").is_some_and(|pattern| {
        let names = pattern.trim_matches(['\'', '"']).split('|');
        names
            .map(|name| name.trim_end_matches(".+"))
            .all(|name| ROCKET_COOKIES.contains(&name))
    });
    let followed = usual_cookies
        && value("rocket_cache_mandatory_cookies").is_none_or(is_empty)
        && value("rocket_cache_dynamic_cookies").is_none_or(is_empty)
        && !is_on("rocket_cache_webp");
    followed.then(|| Setup {
        phones_apart: is_on("rocket_do_caching_mobile_files") || !is_on("rocket_cache_mobile"),
        lifetime: None,
        any_cookie_bypasses: false,
    })
}

/// What stands behind `$name =` at the beginning of a line, up to the semicolon.
fn assigned<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    let mut found = None;
    while let Some(at) = rest.find('$') {
        let before = rest.get(..at).unwrap_or_default();
        rest = rest.get(at + 1..).unwrap_or_default();
        let starts_line = before
            .rsplit('\n')
            .next()
            .is_some_and(|line| line.trim().is_empty());
        if let Some(value) = rest
            .strip_prefix(name)
            .map(str::trim_start)
            .and_then(|behind| behind.strip_prefix('='))
            .filter(|behind| starts_line && !behind.starts_with('='))
        {
            // The last assignment counts, as it does for PHP.
            found = value.split(';').next().map(str::trim);
        }
    }
    found
}

/// What stands behind `'name' =>`, up to the comma or the line's end.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let quoted = format!("'{name}'");
    let behind = text.split_once(&quoted)?.1.trim_start();
    let value = behind.strip_prefix("=>")?;
    value.split([',', '\n', ')']).next().map(str::trim)
}

fn is_true(value: &str) -> bool {
    matches!(
        value
            .trim_matches(['\'', '"'])
            .to_ascii_lowercase()
            .as_str(),
        "1" | "true"
    )
}

fn number(value: &str) -> Option<u64> {
    value.trim_matches(['\'', '"']).parse().ok()
}

fn is_empty(value: &str) -> bool {
    let bare: String = value.chars().filter(|c| !c.is_whitespace()).collect();
    matches!(
        bare.to_ascii_lowercase().as_str(),
        "''" | "\"\"" | "array()" | "[]" | "false" | "0" | "null" | "array('')"
    )
}

/// What WP Rocket has in its list of cookies as it comes; all of them bypass here.
const ROCKET_COOKIES: [&str; 5] = [
    "wordpress_logged_in_",
    "wp-postpass_",
    "wptouch_switch_toggle",
    "comment_author_",
    "comment_author_email_",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(layout: Layout, text: &str) -> Option<Setup> {
        Setup::read(layout, text.as_bytes())
    }

    const TOGETHER: Setup = Setup {
        phones_apart: false,
        lifetime: None,
        any_cookie_bypasses: false,
    };

    #[test]
    fn super_cache_by_its_assignments() {
        let usual = "<?php\n$cache_enabled = true;\n  $super_cache_enabled = true;\n$cache_max_time = 3600;\n\
                     $cache_path = WP_CONTENT_DIR . '/cache/';\n$wp_cache_mobile_enabled = 0;\n";
        let setup = Setup {
            lifetime: Some(3600),
            ..TOGETHER
        };
        assert_eq!(read(Layout::SuperCache, usual), Some(setup));
        let also = |line: &str| read(Layout::SuperCache, &format!("{usual}{line}\n"));
        assert_eq!(also("$cache_enabled = false;"), None);
        assert_eq!(also("// $cache_enabled = false;"), Some(setup));
        assert_eq!(also("$wp_cache_mfunc_enabled = 1;"), None);
        assert_eq!(also("$wpsc_rejected_cookies = array( 'a' );"), None);
        assert_eq!(also("$wpsc_rejected_cookies = array( '' );"), Some(setup));
        assert_eq!(also("$cache_path = '/var/cache/';"), None);
        assert!(also("$wp_cache_mobile_enabled = 1;").is_some_and(|setup| setup.phones_apart));
        assert!(also("$wp_cache_not_logged_in = 1;").is_some_and(|s| s.any_cookie_bypasses));
        assert_eq!(read(Layout::SuperCache, "<?php"), None);
    }

    #[test]
    fn cache_enabler_by_its_array() {
        let text = |more: &str| {
            format!(
                "<?php\nreturn array (\n  'version' => '1.8',\n  'cache_expires' => 1,\n  'cache_expiry_time' => 2,\n{more})"
            )
        };
        let setup = Setup {
            lifetime: Some(7200),
            ..TOGETHER
        };
        assert_eq!(read(Layout::CacheEnabler, &text("")), Some(setup));
        assert_eq!(
            read(
                Layout::CacheEnabler,
                &text("  'excluded_cookies' => '/^x/',\n")
            ),
            None
        );
        let webp = text("  'convert_image_urls_to_webp' => 1,\n");
        assert_eq!(read(Layout::CacheEnabler, &webp), None);
        assert_eq!(read(Layout::CacheEnabler, ""), None);
    }

    #[test]
    fn total_cache_by_its_json() {
        let text = |more: &str| {
            format!(
                "<?php exit; ?>{{\"pgcache.enabled\":true,\"pgcache.engine\":\"file_generic\"{more}}}"
            )
        };
        assert_eq!(read(Layout::TotalCache, &text("")), Some(TOGETHER));
        for more in [
            ",\"pgcache.enabled\":false",
            ",\"pgcache.engine\":\"redis\"",
            ",\"pgcache.cookiegroups.enabled\":true",
            ",\"pgcache.reject.cookie\":[\"mine\"]",
            ",",
        ] {
            assert_eq!(read(Layout::TotalCache, &text(more)), None, "{more}");
        }
    }

    #[test]
    fn rocket_by_its_assignments() {
        let text = |more: &str| {
            format!(
                "<?php\n$rocket_cache_mobile = '1';\n$rocket_cache_reject_cookies = \
                 'wordpress_logged_in_.+|wp-postpass_|wptouch_switch_toggle|comment_author_|comment_author_email_';\n\
                 $rocket_cache_mandatory_cookies = '';\n$rocket_cache_dynamic_cookies = array (\n);\n{more}"
            )
        };
        assert_eq!(read(Layout::Rocket, &text("")), Some(TOGETHER));
        let apart = text("$rocket_do_caching_mobile_files = '1';\n");
        assert!(read(Layout::Rocket, &apart).is_some_and(|setup| setup.phones_apart));
        let dynamic = text("$rocket_cache_dynamic_cookies = array ( 0 => 'lang' );\n");
        assert_eq!(read(Layout::Rocket, &dynamic), None);
        let cookies = text("$rocket_cache_reject_cookies = 'mine';\n");
        assert_eq!(read(Layout::Rocket, &cookies), None);
        assert_eq!(read(Layout::Rocket, "<?php"), None);
    }
}
