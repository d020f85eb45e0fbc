//! Four constants of `wp-config.php` that want a key of the settings. Nothing else of the file is looked at, or ever told.

use std::path::Path;

use super::finding::Finding;
use super::{Site, machine};
use crate::site::settings::{Multisite, Preset};

/// Reads the constants of a WordPress, from the root or from the folder above, where WordPress looks as well.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path) -> Vec<Finding> {
    if site.settings.preset != Preset::Wordpress {
        return Vec::new();
    }
    let text = machine::text(root.join("wp-config.php")).or_else(|| {
        let above = root.parent()?;
        machine::text(above.join("wp-config.php"))
    });
    let Some(text) = text else {
        return Vec::new();
    };
    judge(site, &Constants::read(&text))
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

/// What the constants say; none: they are not defined, or not by a plain value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Constants {
    multisite: bool,
    subdomains: bool,
    /// The last segment of WP_CONTENT_DIR.
    content: Option<String>,
    /// UPLOADS, below the root.
    uploads: Option<String>,
}

impl Constants {
    fn read(text: &str) -> Self {
        let code = without_comments(text);
        let is_true = |name| {
            value(&code, name).is_some_and(|value| {
                let value = value.trim_matches(['\'', '"']).to_ascii_lowercase();
                value == "true" || value == "1"
            })
        };
        // Of an expression such as `__DIR__ . '/content'` the end is what counts.
        let last_text = |name| {
            let value = value(&code, name)?;
            let quote = value
                .chars()
                .last()
                .filter(|last| matches!(last, '\'' | '"'))?;
            let inner = value.strip_suffix(quote)?;
            let (_, text) = inner.rsplit_once(quote)?;
            let text = text.trim_matches('/');
            let is_plain = !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
            is_plain.then(|| text.to_owned())
        };
        Constants {
            multisite: is_true("MULTISITE"),
            subdomains: is_true("SUBDOMAIN_INSTALL"),
            content: last_text("WP_CONTENT_DIR")
                .and_then(|path| path.rsplit('/').next().map(str::to_owned)),
            uploads: last_text("UPLOADS"),
        }
    }
}

fn judge(site: Site<'_>, constants: &Constants) -> Vec<Finding> {
    let mut findings = Vec::new();
    let settings = site.settings;
    let told = match (constants.multisite, constants.subdomains) {
        (false, _) => Multisite::Off,
        (true, false) => Multisite::Subdirectory,
        (true, true) => Multisite::Subdomain,
    };
    if told != settings.multisite {
        findings.push(match told {
            Multisite::Off => Finding::warning(
                "wp_config",
                "multisite is set, and wp-config.php defines no MULTISITE",
            )
            .put(site.place(), "multisite: off"),
            Multisite::Subdirectory => Finding::problem(
                "wp_config",
                "wp-config.php defines MULTISITE in subdirectories: files and wp-admin of all sites but the first would be 404",
            )
            .put(site.place(), "multisite: subdirectory"),
            Multisite::Subdomain => Finding::problem(
                "wp_config",
                "wp-config.php defines MULTISITE and SUBDOMAIN_INSTALL: a network of sites told apart by host",
            )
            .put(site.place(), "multisite: subdomain"),
        });
    } else if told != Multisite::Off {
        findings.push(Finding::ok(
            "wp_config",
            "multisite is as wp-config.php has it",
        ));
    }
    if let Some(content) = &constants.content
        && !settings.content_dir.iter().any(|known| known == content)
    {
        let known = settings.content_dir.join(", ");
        let found = format!(
            "WP_CONTENT_DIR is a folder {content}, and content_dir has {known}: PHP would run in its caches, and missing assets would start WordPress"
        );
        let line = format!("content_dir: [{known}, {content}]");
        findings.push(Finding::warning("wp_config", found).put(site.place(), line));
    }
    if let Some(uploads) = &constants.uploads {
        let is_uploads = uploads
            .split('/')
            .any(|segment| segment.eq_ignore_ascii_case("uploads"));
        let pattern = format!("/{uploads}/");
        if !is_uploads && !settings.no_php.contains(&pattern) {
            let found = format!(
                "UPLOADS is {uploads}: PHP is kept from a folder named uploads, not from this one"
            );
            let line = format!("no_php: [\"{pattern}\"]");
            findings.push(Finding::warning("wp_config", found).put(site.place(), line));
        }
    }
    findings
}

/// The second argument of `define('NAME', …)`, as it is written.
fn value<'t>(code: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = code;
    while let Some((_, after)) = rest.split_once("define") {
        rest = after;
        let Some(arguments) = after.trim_start().strip_prefix('(') else {
            continue;
        };
        let arguments = arguments.trim_start();
        let named = ['\'', '"'].iter().find_map(|quote| {
            let inner = arguments.strip_prefix(*quote)?.strip_prefix(name)?;
            inner.strip_prefix(*quote)?.trim_start().strip_prefix(',')
        });
        if let Some(named) = named {
            let statement = named.split(';').next().unwrap_or_default().trim_end();
            return Some(statement.strip_suffix(')')?.trim());
        }
    }
    None
}

/// Comments out; strings stay as they are.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut quote: Option<char> = None;
    while let Some(character) = rest.chars().next() {
        if quote.is_none() {
            if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, after)| after);
                continue;
            }
            if rest.starts_with("//") || rest.starts_with('#') {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
                code.push('\n');
                continue;
            }
        }
        let mut length = character.len_utf8();
        match quote {
            None if matches!(character, '\'' | '"') => quote = Some(character),
            Some(open) if character == open => quote = None,
            // What follows a backslash ends no string.
            Some(_) if character == '\\' => {
                length += rest.chars().nth(1).map_or(0, char::len_utf8);
            }
            _ => {}
        }
        let (these, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        code.push_str(these);
        rest = after;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;
    use crate::site::settings::SiteSettings;

    fn verdict(text: &str) -> Vec<(Severity, String)> {
        let settings = SiteSettings::new("/srv/w".into(), Preset::Wordpress);
        let site = Site {
            index: 0,
            settings: &settings,
        };
        judge(site, &Constants::read(text))
            .into_iter()
            .map(|finding| {
                let line = finding.remedy.map(|remedy| remedy.line);
                (finding.severity, line.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn a_network_wants_its_kind() {
        let text = "<?php\ndefine( 'MULTISITE', true );\ndefine('SUBDOMAIN_INSTALL', false);";
        let expected = [(Severity::Problem, "multisite: subdirectory".to_owned())];
        assert_eq!(verdict(text), expected);
        let text = "define(\"MULTISITE\", 1); define('SUBDOMAIN_INSTALL', TRUE);";
        assert_eq!(verdict(text)[0].1, "multisite: subdomain");
    }

    #[test]
    fn comments_and_other_constants_say_nothing() {
        let text = "<?php // define('MULTISITE', true);\n/* define('MULTISITE', true); */\n\
                    define('DB_PASSWORD', 'x;#//y\\'');\ndefine('WP_ALLOW_MULTISITE', true);";
        assert_eq!(verdict(text), []);
    }

    #[test]
    fn folders_of_other_names_are_told() {
        let text = "define('WP_CONTENT_DIR', __DIR__ . '/content'); define('UPLOADS', 'media');";
        assert_eq!(
            verdict(text),
            [
                (
                    Severity::Warning,
                    "content_dir: [wp-content, app, content]".to_owned()
                ),
                (Severity::Warning, "no_php: [\"/media/\"]".to_owned()),
            ]
        );
        let text = "define('WP_CONTENT_DIR', dirname(__FILE__).'/app'); define('UPLOADS', $x);";
        assert_eq!(verdict(text), []);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(define\\(|'MULTISITE'|,|true|\\)|;|/\\*|#|\\\\|é|\"){0,24}") {
            Constants::read(&text);
        }
    }
}
