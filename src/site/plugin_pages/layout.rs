//! Where each cache plugin keeps a page: the name it makes of host, path, scheme, device and coding.
//!
//! What is written here follows the plugins' own sources (WP Super Cache 1.12: `get_current_url_supercache_dir`,
//! `supercache_filename`; Cache Enabler 1.8: `get_cache_dir`, `get_cache_file_name`; W3 Total Cache 2.10: `_get_page_key`; WP
//! Rocket 3.17: `get_request_cache_path`, `get_cache_path`).

use crate::request::accept_encoding::Coding;

/// A plugin's way of naming pages.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// WP Super Cache.
    SuperCache,
    /// Cache Enabler.
    CacheEnabler,
    /// W3 Total Cache, `Disk: Enhanced`.
    TotalCache,
    /// WP Rocket.
    Rocket,
}

/// A page as a plugin tells pages apart.
#[derive(Copy, Clone, Debug)]
pub struct Page<'a> {
    /// The host asked for, with its port where one was sent, in lower case.
    pub host: &'a [u8],
    /// The path as sent, ending in a slash.
    pub raw_path: &'a [u8],
    /// The path decoded.
    pub path: &'a [u8],
    /// Whether the visitor speaks TLS.
    pub https: bool,
    /// Whether the page for phones is meant.
    pub phone: bool,
}

impl Layout {
    /// The plugin's settings file below the content folder.
    pub fn settings_file(self, host: &[u8]) -> Vec<u8> {
        let host = without_port(host);
        match self {
            Layout::SuperCache => b"wp-cache-config.php".to_vec(),
            Layout::CacheEnabler => [b"settings/cache-enabler/", host, b".php"].concat(),
            Layout::TotalCache => b"w3tc-config/master.php".to_vec(),
            Layout::Rocket => [b"wp-rocket-config/", host, b".php"].concat(),
        }
    }

    /// The settings file of a site that lives in this first folder of the host, where the plugin may have one.
    pub fn settings_file_within(self, host: &[u8], folder: &[u8]) -> Option<Vec<u8>> {
        let host = without_port(host);
        match self {
            Layout::SuperCache | Layout::TotalCache => None,
            Layout::CacheEnabler => {
                Some([b"settings/cache-enabler/", host, b".", folder, b".php"].concat())
            }
            Layout::Rocket => Some([b"wp-rocket-config/", host, b".", folder, b".php"].concat()),
        }
    }

    /// The plugin's own folder below the content folder.
    pub fn plugin_folder(self) -> &'static [u8] {
        match self {
            Layout::SuperCache => b"plugins/wp-super-cache",
            Layout::CacheEnabler => b"plugins/cache-enabler",
            Layout::TotalCache => b"plugins/w3-total-cache",
            Layout::Rocket => b"plugins/wp-rocket",
        }
    }

    /// The plugin that has written this `advanced-cache.php`, which WordPress starts before all else. It is there while the
    /// plugin is active; none: it is another's.
    pub fn of_drop_in(text: &[u8]) -> Option<Layout> {
        let says = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
        let mut found = [
            ("WP SUPER CACHE", Layout::SuperCache),
            ("Cache Enabler", Layout::CacheEnabler),
            ("W3 Total Cache", Layout::TotalCache),
            ("WP_ROCKET_ADVANCED_CACHE", Layout::Rocket),
        ]
        .into_iter()
        .filter(|(word, _)| says(word))
        .map(|(_, layout)| layout);
        let layout = found.next()?;
        found.next().is_none().then_some(layout)
    }

    /// Whether two spellings that differ in case are one page to the plugin.
    fn folds_case(self) -> bool {
        matches!(self, Layout::SuperCache | Layout::TotalCache)
    }

    /// Whether a page is written where it is read, and not renamed to there when it is whole.
    pub fn writes_in_place(self) -> bool {
        self == Layout::CacheEnabler
    }

    /// The file of a page in a coding, below the content folder; none where the plugin has no such file.
    pub fn file(self, page: &Page<'_>, coding: Coding) -> Option<Vec<u8>> {
        // One spelling of a page is enough: rules of the site for its path are by letter.
        if self.folds_case() && page.path.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let bare = without_port(page.host);
        let (folder, host, path) = match self {
            Layout::SuperCache => {
                // It takes these out of the path, so that two paths would be one page.
                if page
                    .raw_path
                    .iter()
                    .any(|byte| b" <>'\"()\\".contains(byte))
                {
                    return None;
                }
                let mut path = page.raw_path.to_ascii_lowercase();
                escapes(&mut path, u8::to_ascii_uppercase);
                (&b"cache/supercache/"[..], bare, path)
            }
            Layout::CacheEnabler => (&b"cache/cache-enabler/"[..], bare, page.raw_path.to_vec()),
            Layout::TotalCache => (
                &b"cache/page_enhanced/"[..],
                page.host,
                page.path.to_ascii_lowercase(),
            ),
            Layout::Rocket => {
                let mut path = page.raw_path.to_vec();
                escapes(&mut path, u8::to_ascii_lowercase);
                (&b"cache/wp-rocket/"[..], bare, path)
            }
        };
        let name = self.file_name(page, coding)?;
        Some([folder, host, &path, name.as_bytes()].concat())
    }

    fn file_name(self, page: &Page<'_>, coding: Coding) -> Option<String> {
        let https = page.https;
        let phone = if page.phone { "-mobile" } else { "" };
        let suffix = match (self, coding) {
            (_, Coding::Identity) => "",
            (Layout::SuperCache | Layout::CacheEnabler, Coding::Gzip) => ".gz",
            (Layout::CacheEnabler, Coding::Brotli) => ".br",
            (Layout::TotalCache | Layout::Rocket, Coding::Gzip) => "_gzip",
            (Layout::TotalCache, Coding::Brotli) => "_br",
            (_, Coding::Zstd) | (Layout::SuperCache | Layout::Rocket, Coding::Brotli) => {
                return None;
            }
        };
        Some(match self {
            Layout::SuperCache => {
                format!("index{}.html{suffix}", if https { "-https" } else { "" })
            }
            Layout::CacheEnabler => {
                let scheme = if https { "https" } else { "http" };
                format!("{scheme}-index{phone}.html{suffix}")
            }
            Layout::TotalCache => {
                let scheme = if https { "_ssl" } else { "" };
                format!("_index_slash{scheme}.html{suffix}")
            }
            Layout::Rocket => {
                let scheme = if https { "-https" } else { "" };
                format!("index{phone}{scheme}.html{suffix}")
            }
        })
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    let end = memchr::memchr(b':', host).unwrap_or(host.len());
    host.get(..end).unwrap_or_default()
}

/// Changes the two digits of each escape.
fn escapes(path: &mut [u8], change: impl Fn(&u8) -> u8) {
    let mut at = 0;
    while let Some(found) = path.get(at..).and_then(|rest| memchr::memchr(b'%', rest)) {
        at += found + 1;
        for digit in path.iter_mut().skip(at).take(2) {
            *digit = change(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(layout: Layout, https: bool, phone: bool, coding: Coding) -> Option<String> {
        let page = Page {
            host: b"example.com:8080",
            raw_path: b"/caf%c3%A9/",
            path: "/café/".as_bytes(),
            https,
            phone,
        };
        let file = layout.file(&page, coding)?;
        Some(String::from_utf8(file).expect("text"))
    }

    #[test]
    fn names_are_the_plugins_own() {
        for (layout, https, phone, coding, name) in [
            (
                Layout::SuperCache,
                false,
                false,
                Coding::Identity,
                "cache/supercache/example.com/caf%C3%A9/index.html",
            ),
            (
                Layout::SuperCache,
                true,
                false,
                Coding::Gzip,
                "cache/supercache/example.com/caf%C3%A9/index-https.html.gz",
            ),
            (
                Layout::CacheEnabler,
                false,
                true,
                Coding::Gzip,
                "cache/cache-enabler/example.com/caf%c3%A9/http-index-mobile.html.gz",
            ),
            (
                Layout::CacheEnabler,
                true,
                false,
                Coding::Brotli,
                "cache/cache-enabler/example.com/caf%c3%A9/https-index.html.br",
            ),
            (
                Layout::TotalCache,
                false,
                false,
                Coding::Gzip,
                "cache/page_enhanced/example.com:8080/café/_index_slash.html_gzip",
            ),
            (
                Layout::TotalCache,
                true,
                false,
                Coding::Identity,
                "cache/page_enhanced/example.com:8080/café/_index_slash_ssl.html",
            ),
            (
                Layout::Rocket,
                true,
                true,
                Coding::Gzip,
                "cache/wp-rocket/example.com/caf%c3%a9/index-mobile-https.html_gzip",
            ),
            (
                Layout::Rocket,
                false,
                false,
                Coding::Identity,
                "cache/wp-rocket/example.com/caf%c3%a9/index.html",
            ),
        ] {
            assert_eq!(file(layout, https, phone, coding).as_deref(), Some(name));
        }
        for layout in [Layout::SuperCache, Layout::Rocket] {
            assert_eq!(file(layout, false, false, Coding::Brotli), None);
        }
    }

    #[test]
    fn an_escape_that_is_cut_does_not_panic() {
        let mut path = b"/a%".to_vec();
        escapes(&mut path, u8::to_ascii_uppercase);
        assert_eq!(path, b"/a%");
    }
}
