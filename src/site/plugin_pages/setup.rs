//! What a cache plugin has been told, read from its own settings file.
//!
//! The few values that decide whether a page may be sent without PHP must be known for certain. Where one is unclear, or a
//! plugin was told more than is followed here, it is left to PHP altogether.

use serde_json::Value;

use super::layout::Layout;
use super::php_text::{PhpText, Unclear, is_empty, number, switch};

/// A plugin that is switched on and told nothing that only PHP could follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Whether phones get pages of their own.
    pub phones_apart: bool,
    /// Seconds after which a page is out of date; none: the plugin itself removes what is.
    pub lifetime: Option<u64>,
    /// Whether a visitor with any cookie at all gets a page of his own.
    pub any_cookie_bypasses: bool,
    /// Whether the site's pages end in a slash. Else only the front page, which always does, is taken.
    pub pages_end_in_slash: bool,
    /// Words in user agents, in lower case, that get no stored page.
    pub refused_agents: Vec<String>,
}

impl Setup {
    /// What the settings file of this plugin says; none where pages are to be left to PHP.
    pub fn read(layout: Layout, text: &[u8]) -> Option<Setup> {
        let text = std::str::from_utf8(text).ok()?;
        let setup = match layout {
            Layout::SuperCache => super_cache(&PhpText::read(text)?),
            Layout::CacheEnabler => cache_enabler(&PhpText::read(text)?),
            Layout::TotalCache => Ok(total_cache(text)),
            Layout::Rocket => rocket(&PhpText::read(text)?),
        };
        setup.ok().flatten()
    }
}

/// `wp-cache-config.php` of WP Super Cache: assignments.
fn super_cache(text: &PhpText) -> Result<Option<Setup>, Unclear> {
    let is_on = |name| switch(text.assigned(name)?);
    let path = text.plainly_assigned("cache_path").unwrap_or_default();
    let path: String = path.chars().filter(|c| !c.is_whitespace()).collect();
    let followed = matches!(path.as_str(), "" | "WP_CONTENT_DIR.'/cache/'")
        && is_on("cache_enabled")?
        && is_on("super_cache_enabled")?
        && !is_on("wp_cache_mfunc_enabled")?
        && !is_on("wpsc_save_headers")?
        // Which agents are phones is a list of the site's own.
        && !is_on("wp_cache_mobile_enabled")?
        && is_empty(text.assigned("wpsc_rejected_cookies")?)
        && is_empty(text.assigned("wpsc_cookies")?);
    if !followed {
        return Ok(None);
    }
    let lifetime = number(text.assigned("cache_max_time")?)?;
    Ok(Some(Setup {
        phones_apart: false,
        lifetime: lifetime.filter(|&seconds| seconds > 0),
        any_cookie_bypasses: number(text.assigned("wp_cache_not_logged_in")?)? == Some(1),
        pages_end_in_slash: is_on("wp_cache_slash_check")?,
        refused_agents: Vec::new(),
    }))
}

/// `settings/cache-enabler/<host>.php` of Cache Enabler: an array.
fn cache_enabler(text: &PhpText) -> Result<Option<Setup>, Unclear> {
    let is_on = |name| switch(text.element(name)?);
    let followed = text.element("version")?.is_some()
        && is_empty(text.element("excluded_cookies")?)
        && is_empty(text.element("excluded_page_paths")?)
        && is_empty(text.element("excluded_query_strings")?)
        // Pages with images in WebP are files of their own, chosen by Accept.
        && !is_on("convert_image_urls_to_webp")?;
    if !followed {
        return Ok(None);
    }
    let hours = number(text.element("cache_expiry_time")?)?;
    let lifetime = match is_on("cache_expires")? {
        true => Some(hours.ok_or(Unclear)?.saturating_mul(3600)),
        false => None,
    };
    Ok(Some(Setup {
        phones_apart: is_on("mobile_cache")?,
        lifetime,
        any_cookie_bypasses: false,
        pages_end_in_slash: is_on("use_trailing_slashes")?,
        refused_agents: Vec::new(),
    }))
}

/// `w3tc-config/master.php` of W3 Total Cache: JSON behind a line of PHP.
fn total_cache(text: &str) -> Option<Setup> {
    let settings: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    // Absent: as the plugin comes.
    let is = |name: &str, usual: bool| match settings.get(name) {
        None => Some(usual),
        Some(value) => value.as_bool(),
    };
    let is_list_of = |name: &str, usual: &[&str]| match settings.get(name) {
        None => true,
        Some(Value::Array(items)) => items
            .iter()
            .all(|item| item.as_str().is_some_and(|text| usual.contains(&text))),
        Some(_) => false,
    };
    let followed = is("pgcache.enabled", false)?
        && settings.get("pgcache.engine").and_then(Value::as_str) == Some("file_generic")
        && is("pgcache.reject.logged", true)?
        && is("pgcache.cache.ssl", true)?
        && !is("pgcache.debug", false)?
        && !is("pgcache.cookiegroups.enabled", false)?
        && !is("referrer.enabled", false)?
        // Its groups are expressions of the site's own, and may mean any agent.
        && !is("mobile.enabled", false)?
        && is_list_of("pgcache.reject.cookie", &["wptouch_switch_toggle"])
        && is_list_of("pgcache.reject.ua", &[]);
    followed.then_some(Setup {
        phones_apart: false,
        lifetime: None,
        any_cookie_bypasses: false,
        // Its names tell both apart.
        pages_end_in_slash: true,
        refused_agents: Vec::new(),
    })
}

/// `wp-rocket-config/<host>.php` of WP Rocket: assignments.
fn rocket(text: &PhpText) -> Result<Option<Setup>, Unclear> {
    let is_on = |name| switch(text.assigned(name)?);
    let cookies = text.assigned("rocket_cache_reject_cookies")?;
    let usual_cookies = cookies.is_some_and(|pattern| {
        let names = pattern.trim_matches(['\'', '"']).split('|');
        names
            .map(|name| name.trim_end_matches(".+"))
            .all(|name| ROCKET_COOKIES.contains(&name))
    });
    let agents = text.assigned("rocket_cache_reject_ua")?.unwrap_or_default();
    let agents = words(agents.trim_matches(['\'', '"']));
    let followed = usual_cookies
        && is_empty(text.assigned("rocket_cache_mandatory_cookies")?)
        && is_empty(text.assigned("rocket_cache_dynamic_cookies")?)
        && !is_on("rocket_cache_webp")?;
    let (true, Some(refused_agents)) = (followed, agents) else {
        return Ok(None);
    };
    let permalinks = text.assigned("rocket_permalink_structure")?;
    Ok(Some(Setup {
        phones_apart: is_on("rocket_do_caching_mobile_files")? || !is_on("rocket_cache_mobile")?,
        lifetime: None,
        any_cookie_bypasses: false,
        pages_end_in_slash: permalinks.is_some_and(|structure| structure.ends_with("/'")),
        refused_agents,
    }))
}

/// The words of an expression that is nothing but words; none: it is more.
fn words(pattern: &str) -> Option<Vec<String>> {
    let parts = pattern.split('|').filter(|word| !word.is_empty());
    parts
        .map(|word| {
            let plain = word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '/'));
            plain.then(|| word.to_ascii_lowercase())
        })
        .collect()
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

    fn usual() -> Setup {
        Setup {
            phones_apart: false,
            lifetime: None,
            any_cookie_bypasses: false,
            pages_end_in_slash: true,
            refused_agents: Vec::new(),
        }
    }

    #[test]
    fn super_cache_by_its_assignments() {
        let text = "<?php\n/* Sample */\n$cache_enabled = true;\n  $super_cache_enabled = true; // on\n$cache_max_time = 3600; //in seconds\n\
                    $cache_path = WP_CONTENT_DIR . '/cache/';\nif ( '/' != substr($cache_path, -1)) {\n\t$cache_path .= '/';\n}\n\n\
                    $wp_cache_slash_check = 1;\n$wp_cache_mobile_enabled = 0;\n";
        let setup = Setup {
            lifetime: Some(3600),
            ..usual()
        };
        assert_eq!(read(Layout::SuperCache, text), Some(setup.clone()));
        let also = |line: &str| read(Layout::SuperCache, &format!("{text}{line}\n"));
        for line in [
            "// $cache_enabled = false;",
            "/*\n$cache_enabled = false;\n*/",
            "$wpsc_rejected_cookies = array( '' );",
        ] {
            assert_eq!(also(line), Some(setup.clone()), "{line}");
        }
        for line in [
            "$cache_enabled = false;",
            "$a = 1; $cache_enabled = false;",
            "if (isset($_COOKIE['m'])) $cache_enabled = false;",
            "$wp_cache_mfunc_enabled = 1 /* on */;",
            "$wp_cache_mfunc_enabled = 2;",
            "$wpsc_save_headers = 1;",
            "$wp_cache_mobile_enabled = 1;",
            "$wpsc_rejected_cookies = array( 'a' );",
            "$wpsc_cookies[] = 'member';",
            "$cache_path = '/srv/other/wp-content/cache/';",
            "$cache_max_time = 60 * 60;",
        ] {
            assert_eq!(also(line), None, "{line}");
        }
        assert!(also("$wp_cache_not_logged_in = 1;").is_some_and(|s| s.any_cookie_bypasses));
        assert!(also("$wp_cache_slash_check = 0;").is_some_and(|s| !s.pages_end_in_slash));
        assert_eq!(read(Layout::SuperCache, "<?php"), None);
    }

    #[test]
    fn cache_enabler_by_its_array() {
        let text = |more: &str| {
            format!(
                "<?php\n/**\n * @since 'cache_expires' => 9,\n */\nreturn array (\n  'version' => '1.8',\n  'use_trailing_slashes' => 1,\n  \
                 'cache_expires' => 1,\n  'cache_expiry_time' => 2,\n{more});"
            )
        };
        let setup = Setup {
            lifetime: Some(7200),
            ..usual()
        };
        assert_eq!(read(Layout::CacheEnabler, &text("")), Some(setup));
        for more in [
            "  'excluded_cookies' => '/^x/',\n",
            "  'excluded_page_paths' => '/^x/',\n",
            "  'excluded_query_strings' => '/^x/',\n",
            "  'convert_image_urls_to_webp' => 1,\n",
            "  'cache_expires' => 0,\n",
        ] {
            assert_eq!(read(Layout::CacheEnabler, &text(more)), None, "{more}");
        }
        assert_eq!(read(Layout::CacheEnabler, ""), None);
    }

    #[test]
    fn total_cache_by_its_json() {
        let text = |more: &str| {
            format!(
                "<?php exit; ?>{{\"pgcache.enabled\":true,\"pgcache.engine\":\"file_generic\"{more}}}"
            )
        };
        assert_eq!(read(Layout::TotalCache, &text("")), Some(usual()));
        for more in [
            ",\"pgcache.enabled\":false",
            ",\"pgcache.enabled\":1",
            ",\"pgcache.engine\":\"redis\"",
            ",\"pgcache.cookiegroups.enabled\":true",
            ",\"pgcache.cache.ssl\":false",
            ",\"mobile.enabled\":true",
            ",\"pgcache.reject.cookie\":[\"mine\"]",
            ",\"pgcache.reject.ua\":[\"bot\"]",
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
                 $rocket_cache_mandatory_cookies = '';\n$rocket_cache_dynamic_cookies = array (\n);\n\
                 $rocket_cache_reject_ua = 'facebookexternalhit|WhatsApp';\n$rocket_permalink_structure = '/%postname%/';\n{more}"
            )
        };
        let setup = Setup {
            refused_agents: vec!["facebookexternalhit".into(), "whatsapp".into()],
            ..usual()
        };
        assert_eq!(read(Layout::Rocket, &text("")), Some(setup));
        let apart = text("$rocket_do_caching_mobile_files = '1';\n");
        assert!(read(Layout::Rocket, &apart).is_some_and(|setup| setup.phones_apart));
        for more in [
            "$rocket_cache_dynamic_cookies = array ( 0 => 'lang' );\n",
            "$rocket_cache_reject_cookies = 'mine';\n",
            "$rocket_cache_reject_ua = 'bot.*';\n",
            "$rocket_cache_webp = '1';\n",
        ] {
            assert_eq!(read(Layout::Rocket, &text(more)), None, "{more}");
        }
        let bare = text("$rocket_permalink_structure = '/%postname%';\n");
        assert!(read(Layout::Rocket, &bare).is_some_and(|setup| !setup.pages_end_in_slash));
        assert_eq!(read(Layout::Rocket, "<?php"), None);
    }
}
