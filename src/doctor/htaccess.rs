//! The `.htaccess` files of a root: for each topic of what is not followed, what to do instead.

use std::collections::BTreeMap;
use std::path::Path;

use super::directive::{Topic, Unfollowed, unfollowed};
use super::finding::{Finding, SHELL, Severity};
use super::identity::Identity;
use super::survey::Survey;
use super::{Site, machine};
use crate::site::htaccess::Rules;
use crate::site::settings::{Htaccess, PageCache};

/// Judges every `.htaccess` that the walk has met.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path, survey: &Survey, identity: &Identity) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut followed = 0_usize;
    for path in &survey.htaccess {
        let is_readable = machine::facts(path).is_none_or(|facts| identity.may(facts, 4));
        let Some(text) = machine::text(path).filter(|_| is_readable) else {
            let found = format!(
                "{} cannot be read by user {}: everything below its folder is 403",
                path.display(),
                identity.name
            );
            let line = format!("chmod o+r {}", path.display());
            findings.push(Finding::problem("htaccess", found).put(SHELL, line));
            continue;
        };
        let below = path.strip_prefix(root).unwrap_or(path);
        let shown = format!("/{}", below.display());
        let folder = match below.parent() {
            Some(parent) if parent != Path::new("") => format!("/{}/", parent.display()),
            _ => "/".to_owned(),
        };
        let rules = Rules::parse(text.as_bytes());
        followed += usize::from(!rules.is_empty());
        if let Some(expression) = rules.unreadable() {
            let found = format!(
                "{shown}: the expression {expression} is not understood: what it would deny is denied for every name there"
            );
            findings.push(Finding::warning("htaccess", found));
        }
        let mut directives = unfollowed(text.as_bytes(), &folder);
        // What PHP-FPM does read may say the same already.
        let user_ini = machine::text(path.with_file_name(".user.ini")).unwrap_or_default();
        directives.retain(|one| one.topic != Topic::Php || !is_in_user_ini(&user_ini, &one.item));
        findings.extend(judge(site, &shown, &directives));
    }
    if site.settings.htaccess == Htaccess::Ignore && followed > 0 {
        let found = format!(
            "{followed} .htaccess files deny something, and htaccess: ignore lets everybody have it"
        );
        findings.push(Finding::problem("htaccess", found).put(site.place(), "htaccess: deny"));
    } else {
        let cut = match survey.is_cut {
            true => " of those that were found in time",
            false => "",
        };
        let found = format!(
            "{} .htaccess files{cut}, {followed} with access rules, which are followed",
            survey.htaccess.len()
        );
        findings.push(Finding::ok("htaccess", found));
    }
    findings
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

/// One finding for each topic of a file.
fn judge(site: Site<'_>, shown: &str, directives: &[Unfollowed]) -> Vec<Finding> {
    let mut topics: BTreeMap<Topic, Vec<&Unfollowed>> = BTreeMap::new();
    for directive in directives.iter().filter(|one| !is_done(site, one)) {
        topics.entry(directive.topic).or_default().push(directive);
    }
    topics
        .iter()
        .map(|(topic, directives)| one(site, shown, *topic, directives))
        .collect()
}

/// Whether the settings do already what it says.
fn is_done(site: Site<'_>, directive: &Unfollowed) -> bool {
    let settings = site.settings;
    match directive.topic {
        Topic::Header => settings.headers.iter().any(|rule| {
            let is_in = |name: &str| {
                let name = format!("{{{name}:");
                directive
                    .item
                    .to_ascii_lowercase()
                    .contains(&name.to_ascii_lowercase())
            };
            rule.set.iter().any(|(name, _)| is_in(name))
        }),
        Topic::Lifetime => !settings.cache_control.is_empty(),
        Topic::BodyLimit => settings.max_body.is_some(),
        Topic::Compression => settings.compression.files && settings.compression.dynamic,
        Topic::Redirect => settings.redirects.iter().any(|rule| {
            let from = format!("{{from: \"{}\"", rule.from);
            directive.item.contains(&from)
        }),
        // What the file asks for is 403 as long as the file counts.
        Topic::Login => settings.htaccess == Htaccess::Ignore && !settings.auth.is_empty(),
        Topic::Refusal => settings
            .deny
            .iter()
            .any(|pattern| directive.item == format!("\"{pattern}\"")),
        Topic::Handlers => {
            // The preset's own, and those of the settings.
            let folder = directive.item.trim_matches('"');
            folder.contains("/uploads/") || settings.no_php.iter().any(|known| known == folder)
        }
        Topic::Rewrite => match &directive.block {
            Some(block) if is_page_cache(block) => settings.page_cache != PageCache::Off,
            _ => false,
        },
        _ => false,
    }
}

/// Whether a `.user.ini` sets what `item`, a line of that kind, sets: to whatever value.
fn is_in_user_ini(text: &str, item: &str) -> bool {
    let name = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    text.lines().any(|line| name(line) == name(item))
}

fn one(site: Site<'_>, shown: &str, topic: Topic, directives: &[&Unfollowed]) -> Finding {
    let mut names: Vec<&str> = directives.iter().map(|one| one.name.as_str()).collect();
    names.dedup();
    names.truncate(3);
    let line = directives.first().map_or(0, |one| one.line);
    let count = directives.len();
    let block = directives
        .iter()
        .find_map(|one| one.block.as_deref())
        .map(|block| format!(" of {block}"))
        .unwrap_or_default();
    let what = format!(
        "{shown}:{line}: {}{block} ({count} {}) is not followed",
        names.join(", "),
        if count == 1 { "line" } else { "lines" }
    );
    let (severity, why) = meaning(topic);
    let found = format!("{what}: {why}");
    let finding = Finding::new(severity, "htaccess", found);
    let mut items: Vec<&str> = directives
        .iter()
        .map(|one| one.item.as_str())
        .filter(|item| !item.is_empty())
        .collect();
    items.dedup();
    items.truncate(MOST_ITEMS);
    let list = |key: &str, else_what: &str| match items.is_empty() {
        true => format!("{key}: [{else_what}]"),
        false => format!("{key}: [{}]", items.join(", ")),
    };
    match topic {
        Topic::Header => finding.put(
            site.place(),
            list("headers", "{match: \"/\", set: {NAME: \"VALUE\"}}"),
        ),
        Topic::Lifetime => finding.put(
            site.place(),
            list(
                "cache_control",
                "{match: \"*.css\", value: \"public, max-age=2592000\"}",
            ),
        ),
        Topic::Refusal => finding.put(site.place(), list("deny", "\"/PATH\"")),
        Topic::Redirect if !items.is_empty() => finding.put(site.place(), list("redirects", "")),
        Topic::Login => match login(site, directives, &items) {
            Some(line) => finding.put(site.place(), line),
            None => finding,
        },
        Topic::Compression => finding.put(site.place(), "compression: auto"),
        Topic::Handlers => finding.put(site.place(), list("no_php", "\"/FOLDER/\"")),
        Topic::BodyLimit => finding.put(
            site.place(),
            format!("max_body: {}", items.first().unwrap_or(&"64MiB")),
        ),
        Topic::Php => finding.put(
            format!(
                "{}, below the root",
                shown.replace(".htaccess", ".user.ini")
            ),
            items.join("\n"),
        ),
        Topic::Rewrite
            if directives
                .iter()
                .any(|one| one.block.as_deref().is_some_and(is_page_cache)) =>
        {
            finding.put(site.place(), "page_cache: auto")
        }
        _ => finding,
    }
}

/// The line of `auth` for what a file asks for; none: it asks for more than a password of any user of one file.
fn login(site: Site<'_>, directives: &[&Unfollowed], items: &[&str]) -> Option<String> {
    let [item] = items else { return None };
    let asks_for_any = directives.iter().all(|one| {
        let words = one.text.to_ascii_lowercase();
        let mut words = words.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("authtype"), kind) => kind == Some("basic"),
            (Some("require"), whom) => whom == Some("valid-user"),
            (Some("authgroupfile"), _) => false,
            _ => true,
        }
    });
    let root = site.settings.root.display().to_string();
    let is_below_root = item.contains(&format!("users_file: \"{}/", root.trim_end_matches('/')));
    let line = match is_below_root {
        // Such a file is refused: it could be sent.
        true => format!(
            "{} users_file: \"/etc/nostat/users\"}}  # copy it there, out of the root",
            item.split(" users_file").next()?
        ),
        false => (*item).to_owned(),
    };
    asks_for_any.then(|| match is_below_root {
        true => format!("auth: {line}"),
        false => format!("auth: [{line}]"),
    })
}

/// How much it matters, and what to do.
fn meaning(topic: Topic) -> (Severity, &'static str) {
    use Severity::{Note, Warning};
    match topic {
        Topic::Header => (Warning, "these fields are not sent with files"),
        Topic::Lifetime => (Note, "the preset has lifetimes of its own"),
        Topic::Refusal => (Warning, "what it refuses is not refused"),
        Topic::Redirect => (
            Warning,
            "redirects are made by the key redirects; those to https by redirect: https of an address, those of hosts by redirect_hosts",
        ),
        Topic::Rewrite => (
            Warning,
            "a file is not answered by another one; let the plugin write URLs or <picture> into pages, or serve pages by page_cache",
        ),
        Topic::Login => (
            Warning,
            "what needs a login is 403 to everybody; auth asks for passwords, and Require has to be taken out of the file then",
        ),
        Topic::Addresses => (
            Note,
            "addresses are not asked for here: who is denied by his address is let in, and what is for some addresses only is 403",
        ),
        Topic::Php => (Warning, "PHP-FPM never reads it; it reads .user.ini"),
        Topic::Types => (Note, "media types come from a table of their own"),
        Topic::Compression => (
            Note,
            "files and PHP's answers are compressed by Nostat itself, unless compression is off",
        ),
        Topic::ErrorPages => (Note, "WordPress makes the page of a path that is nothing"),
        Topic::Handlers => (
            Warning,
            "who runs which file is the preset's to say; where PHP is not to run:",
        ),
        Topic::BodyLimit => (Note, "the bound of request bodies is the site's"),
        Topic::Other => (Note, "see whether the site needs it"),
    }
}

/// Blocks whose rewrites answer by a plugin's page.
fn is_page_cache(block: &str) -> bool {
    let block = block.to_ascii_lowercase();
    [
        "wpsupercache",
        "w3tc page cache",
        "wp rocket",
        "cache enabler",
    ]
    .iter()
    .any(|name| block.starts_with(name))
}

const MOST_ITEMS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::settings::{HeaderRule, Preset, SiteSettings};

    fn judged(settings: &SiteSettings, text: &str) -> Vec<Finding> {
        let site = Site { index: 0, settings };
        judge(site, "/.htaccess", &unfollowed(text.as_bytes(), "/"))
    }

    #[test]
    fn each_topic_has_one_finding_with_its_key() {
        let settings = SiteSettings::new("/srv/w".into(), Preset::Wordpress);
        let text = "Header set A b\nHeader set C d\nphp_value memory_limit 256M\n";
        let findings = judged(&settings, text);
        let lines: Vec<&str> = findings
            .iter()
            .filter_map(|finding| finding.remedy.as_ref())
            .map(|remedy| remedy.line.as_str())
            .collect();
        assert_eq!(
            lines,
            [
                "headers: [{match: \"/\", set: {A: \"b\"}}, {match: \"/\", set: {C: \"d\"}}]",
                "memory_limit = 256M"
            ]
        );
        assert!(
            findings[0]
                .found
                .starts_with("/.htaccess:1: Header (2 lines)"),
            "{}",
            findings[0].found
        );
    }

    #[test]
    fn logins_redirects_and_compression_have_their_keys() {
        let settings = SiteSettings::new("/srv/w".into(), Preset::Wordpress);
        let line = |text: &str| {
            let findings = judged(&settings, text);
            assert_eq!(findings.len(), 1, "{findings:?}");
            findings[0]
                .remedy
                .as_ref()
                .map(|remedy| remedy.line.clone())
        };
        let basic = "AuthType Basic\nAuthName \"Staff only\"\nRequire valid-user\n";
        for (text, expected) in [
            (
                format!("{basic}AuthUserFile /etc/users"),
                Some("auth: [{match: \"/\", users_file: \"/etc/users\"}]"),
            ),
            (
                format!("{basic}AuthUserFile /srv/w/.htpasswd"),
                Some(
                    "auth: {match: \"/\", users_file: \"/etc/nostat/users\"}  # copy it there, out of the root",
                ),
            ),
            (
                format!("<Files wp-login.php>\n{basic}AuthUserFile \"/etc/users\"\n</Files>"),
                Some("auth: [{match: \"**/wp-login.php\", users_file: \"/etc/users\"}]"),
            ),
            (format!("{basic}AuthUserFile users"), None),
            (
                format!("{basic}AuthUserFile /etc/users\nRequire user ann"),
                None,
            ),
            (
                "AuthType Digest\nAuthUserFile /etc/users\nRequire valid-user".to_owned(),
                None,
            ),
            (
                "Redirect 301 /a.html /b\nRewriteRule ^c$ /d [R=301]".to_owned(),
                Some("redirects: [{from: \"/a.html\", to: \"/b\"}, {from: \"/c\", to: \"/d\"}]"),
            ),
            (
                "RewriteCond %{HTTPS} off\nRewriteRule (.*) https://%{HTTP_HOST}/$1 [R=301]"
                    .to_owned(),
                None,
            ),
        ] {
            assert_eq!(line(&text).as_deref(), expected, "{text}");
        }
        assert_eq!(judged(&settings, "SetOutputFilter DEFLATE"), []);
        let mut off = settings.clone();
        off.compression.files = false;
        let findings = judged(&off, "SetOutputFilter DEFLATE");
        assert_eq!(
            findings[0].remedy.as_ref().unwrap().line,
            "compression: auto"
        );
    }

    #[test]
    fn a_user_ini_says_what_php_reads() {
        let text = "; for PHP-FPM\nmemory_limit=512M\n";
        assert!(is_in_user_ini(text, "memory_limit = 256M"));
        assert!(!is_in_user_ini(text, "post_max_size = 256M"));
    }

    #[test]
    fn what_the_settings_do_is_not_told_again() {
        let settings = SiteSettings {
            headers: vec![HeaderRule {
                pattern: "/**".into(),
                set: vec![("a".into(), "b".into())],
            }],
            page_cache: PageCache::Auto,
            deny: vec!["/xmlrpc.php".into()],
            ..SiteSettings::new("/srv/w".into(), Preset::Wordpress)
        };
        let text = "Header set A b\nRewriteRule ^xmlrpc\\.php$ - [F]\n# BEGIN WPSuperCache\nRewriteRule ^(.*) /c/$1 [L]\n# END WPSuperCache\n";
        assert_eq!(judged(&settings, text), []);
    }
}
