//! Plugins that want a key of the settings, or do with `.htaccess` what is not followed: told by their folders.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::{Site, machine};
use crate::site::settings::{PageCache, Preset};

/// Looks into the plugin folders of a WordPress.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path) -> Vec<Finding> {
    if site.settings.preset != Preset::Wordpress {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for content in content_folders(root, &site.settings.content_dir) {
        let names = machine::names(&content.join("plugins"));
        let has = |name: &str| names.iter().any(|plugin| plugin == name);
        findings.extend(page_cache(site, &content, &names));
        for (plugin, title) in IMAGES {
            if has(plugin) {
                let found = format!(
                    "{title}: its rewrites by .htaccess, which give WebP or AVIF for a JPEG, are not followed; let it write <picture> or URLs into pages"
                );
                findings.push(Finding::note("plugins", found));
            }
        }
        for (plugin, title) in HIDERS {
            if has(plugin) {
                let found = format!(
                    "{title} gives files other paths by rewrites of .htaccess, which are not followed: those paths would be 404"
                );
                findings.push(Finding::warning("plugins", found));
            }
        }
        for (plugin, title) in RULE_WRITERS {
            if has(plugin) {
                let found = format!(
                    "{title} writes rules for the server into .htaccess: its denies are followed, the rest is listed under .htaccess"
                );
                findings.push(Finding::note("plugins", found));
            }
        }
        if has("woocommerce") {
            let found = "WooCommerce: private downloads are denied by their .htaccess, and who has a cart passes by every page cache";
            findings.push(Finding::ok("plugins", found));
        }
        if has("redirection") {
            let found = "Redirection: set to \"WordPress only\" its redirects are made by PHP; those it writes for a server are not followed";
            findings.push(Finding::note("plugins", found));
        }
    }
    findings.extend(firewall(root));
    findings
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

/// The content folders that are there, in the root or in one folder below it.
fn content_folders(root: &Path, names: &[String]) -> Vec<PathBuf> {
    names
        .iter()
        .map(|name| root.join(name.trim_matches('/')))
        .filter(|folder| machine::is_there(&folder.join("plugins")))
        .collect()
}

/// Cache plugins against `page_cache`.
fn page_cache(site: Site<'_>, content: &Path, names: &[String]) -> Vec<Finding> {
    // What a plugin does to pages it does by this file.
    if !machine::is_there(&content.join("advanced-cache.php")) {
        return Vec::new();
    }
    let of = |list: &'static [(&'static str, &'static str)]| {
        list.iter()
            .filter(|(plugin, _)| names.iter().any(|name| name == plugin))
            .map(|(_, title)| *title)
    };
    let mut findings = Vec::new();
    for title in of(READ) {
        findings.push(match &site.settings.page_cache {
            PageCache::Auto => Finding::ok(
                "plugins",
                format!("{title}: the pages that it writes are sent without PHP"),
            ),
            PageCache::Off => Finding::note(
                "plugins",
                format!("{title} writes pages that could be sent without PHP"),
            )
            .put(site.place(), "page_cache: auto"),
            PageCache::Own(_) => two(site, title, "page_cache: auto"),
        });
    }
    for title in of(NOT_READ) {
        findings.push(match &site.settings.page_cache {
            PageCache::Own(_) => two(site, title, "page_cache: off"),
            PageCache::Auto | PageCache::Off => Finding::note(
                "plugins",
                format!("{title}: PHP reads its pages; with its page cache off, page_cache: memory could keep them here"),
            ),
        });
    }
    findings
}

fn two(site: Site<'_>, title: &str, line: &str) -> Finding {
    let found = format!(
        "{title} keeps pages, and page_cache keeps them once more: a purge of one leaves the other's; switch its page cache off, or"
    );
    Finding::warning("plugins", found).put(site.place(), line)
}

/// Wordfence's firewall is loaded by `.user.ini` under PHP-FPM.
fn firewall(root: &Path) -> Option<Finding> {
    let waf = root.join("wordfence-waf.php");
    if !machine::is_there(&waf) {
        return None;
    }
    let is_loaded = machine::text(root.join(".user.ini")).is_some_and(|text| {
        text.lines()
            .map(str::trim_start)
            .any(|line| line.starts_with("auto_prepend_file"))
    });
    if is_loaded {
        let found = "Wordfence: its firewall is loaded by .user.ini, which PHP-FPM reads";
        return Some(Finding::ok("plugins", found));
    }
    let found = "Wordfence: wordfence-waf.php is there, and no .user.ini loads it: under PHP-FPM its firewall does not run before WordPress";
    let line = format!("auto_prepend_file = '{}'", waf.display());
    let place = root.join(".user.ini").display().to_string();
    Some(Finding::warning("plugins", found).put(place, line))
}

type Titles = &'static [(&'static str, &'static str)];

/// Whose pages `page_cache: auto` reads.
const READ: Titles = &[
    ("wp-super-cache", "WP Super Cache"),
    ("cache-enabler", "Cache Enabler"),
    ("w3-total-cache", "W3 Total Cache"),
    ("wp-rocket", "WP Rocket"),
];
/// Whose pages it does not.
const NOT_READ: Titles = &[
    ("litespeed-cache", "LiteSpeed Cache"),
    ("wp-fastest-cache", "WP Fastest Cache"),
    ("wp-optimize", "WP-Optimize"),
    ("hyper-cache", "Hyper Cache"),
    ("comet-cache", "Comet Cache"),
    ("breeze", "Breeze"),
    ("sg-cachepress", "SiteGround Optimizer"),
    ("swift-performance-lite", "Swift Performance"),
    ("hummingbird-performance", "Hummingbird"),
    ("powered-cache", "Powered Cache"),
];
const IMAGES: Titles = &[
    ("webp-express", "WebP Express"),
    ("webp-converter-for-media", "Converter for Media"),
    ("ewww-image-optimizer", "EWWW Image Optimizer"),
    ("imagify", "Imagify"),
    ("shortpixel-image-optimiser", "ShortPixel"),
];
const HIDERS: Titles = &[
    ("wp-hide-security-enhancer", "WP Hide"),
    ("hide-my-wp", "Hide My WP Ghost"),
];
const RULE_WRITERS: Titles = &[
    ("all-in-one-wp-security-and-firewall", "All-In-One Security"),
    ("better-wp-security", "Solid Security"),
    ("sucuri-scanner", "Sucuri"),
    ("bulletproof-security", "BulletProof Security"),
    ("really-simple-ssl", "Really Simple Security"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs;

    use super::super::finding::Severity;
    use super::*;
    use crate::page_cache::{Rules, StoreKind};
    use crate::site::settings::SiteSettings;

    fn verdict(root: &Path, page_cache: PageCache) -> Vec<(Severity, Option<String>)> {
        let settings = SiteSettings {
            page_cache,
            ..SiteSettings::new(root.to_owned(), Preset::Wordpress)
        };
        let site = Site {
            index: 0,
            settings: &settings,
        };
        examine(site, root)
            .into_iter()
            .map(|finding| (finding.severity, finding.remedy.map(|remedy| remedy.line)))
            .collect()
    }

    #[test]
    fn a_cache_plugin_wants_its_pages_read_and_no_second_cache() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("wp-content/plugins/wp-super-cache")).unwrap();
        assert_eq!(verdict(root, PageCache::Off), []);
        fs::write(root.join("wp-content/advanced-cache.php"), "").unwrap();
        let auto = Some("page_cache: auto".to_owned());
        assert_eq!(
            verdict(root, PageCache::Off),
            [(Severity::Note, auto.clone())]
        );
        assert_eq!(verdict(root, PageCache::Auto), [(Severity::Ok, None)]);
        let own = PageCache::Own(Box::new(Rules::new(StoreKind::Memory)));
        assert_eq!(verdict(root, own), [(Severity::Warning, auto)]);
    }

    #[test]
    fn a_firewall_that_nothing_loads_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("wordfence-waf.php"), "").unwrap();
        assert_eq!(verdict(root, PageCache::Off)[0].0, Severity::Warning);
        fs::write(root.join(".user.ini"), "auto_prepend_file = '/x'\n").unwrap();
        assert_eq!(verdict(root, PageCache::Off)[0].0, Severity::Ok);
    }
}
