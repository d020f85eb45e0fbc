//! What one `.htaccess` says that is not followed: text in, directives by topic out, each with the rule that does the same.
//!
//! Access rules are followed ([`crate::site::htaccess`]), and what WordPress writes between its own marks is what the preset
//! does anyway. The rest is sorted by what it is about.

use super::moved;
use crate::settings::scalar::format_size;
use crate::site::htaccess::{logical_lines, words};

/// What a directive is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Refuses paths by a rewrite.
    Refusal,
    /// Sends clients elsewhere.
    Redirect,
    /// Answers a path by another file.
    Rewrite,
    /// Sets fields of answers.
    Header,
    /// Asks for a login.
    Login,
    /// Knows clients by their addresses.
    Addresses,
    /// Sets what PHP is told.
    Php,
    /// Cache lifetimes.
    Lifetime,
    /// Media types.
    Types,
    /// Compression.
    Compression,
    /// Pages for errors.
    ErrorPages,
    /// Who runs which files.
    Handlers,
    /// Bounds of request bodies.
    BodyLimit,
    /// Anything else.
    Other,
}

/// One directive that is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// What it is about.
    pub topic: Topic,
    /// The line it begins on, roughly: continued lines count as one.
    pub line: usize,
    /// Its name as written.
    pub name: String,
    /// All of it as written.
    pub text: String,
    /// The item of the list that does the same; empty: not to be said in a line.
    pub item: String,
    /// Whose block it stands in, by a comment `# BEGIN`.
    pub block: Option<String>,
}

/// The directives of a text that are not followed. `folder` is where it stands, below the root, with slashes around.
#[must_use]
pub fn unfollowed(text: &[u8], folder: &str) -> Vec<Unfollowed> {
    let mut block: Option<String> = None;
    let mut sections: Vec<Section> = Vec::new();
    let mut found = Vec::new();
    let mut is_conditional = false;
    for (index, line) in logical_lines(text).iter().enumerate() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim();
            if let Some(name) = comment.strip_prefix("BEGIN ") {
                block = Some(name.trim().to_owned());
            } else if comment.starts_with("END ") {
                block = None;
            }
            continue;
        }
        if line.starts_with("</") {
            sections.pop();
            continue;
        }
        if let Some(opened) = line.strip_prefix('<') {
            sections.push(Section::of(opened.trim_end_matches('>')));
            continue;
        }
        let is_skipped =
            block.as_deref() == Some("WordPress") || sections.contains(&Section::Elsewhere);
        let words = words(line);
        let Some((name, arguments)) = words.split_first().filter(|_| !is_skipped) else {
            continue;
        };
        let patterns = patterns(&sections, folder);
        let meant = meaning(name, arguments, &patterns, folder);
        let is_rule = name.eq_ignore_ascii_case("RewriteRule");
        let was_conditional = is_conditional;
        is_conditional = name.eq_ignore_ascii_case("RewriteCond") || (is_conditional && !is_rule);
        if let Some((topic, item)) = meant {
            // No row has a condition.
            let item = match is_rule && was_conditional && topic == Topic::Redirect {
                true => String::new(),
                false => item,
            };
            found.push(Unfollowed {
                topic,
                line: index + 1,
                name: name.clone(),
                text: line.to_owned(),
                item,
                block: block.clone(),
            });
        }
    }
    found
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Section {
    /// Its content counts as if it stood outside.
    Transparent,
    /// Its content is for another server.
    Elsewhere,
    /// Its content is for these names; none: an expression that is no list of suffixes.
    Names(Vec<String>),
}

impl Section {
    fn of(text: &str) -> Self {
        let words = words(text);
        let Some((name, arguments)) = words.split_first() else {
            return Section::Transparent;
        };
        match (name.to_ascii_lowercase().as_str(), arguments) {
            ("ifmodule", [module, ..]) if module.eq_ignore_ascii_case("litespeed") => {
                Section::Elsewhere
            }
            ("files", [tilde, expression, ..]) if tilde == "~" => {
                Section::Names(suffixes(expression))
            }
            ("filesmatch", [expression, ..]) => Section::Names(suffixes(expression)),
            ("files", [wildcard, ..]) => Section::Names(vec![wildcard.clone()]),
            _ => Section::Transparent,
        }
    }
}

/// Names as patterns of an expression such as `\.(css|js)$`; none when it is any other.
fn suffixes(expression: &str) -> Vec<String> {
    let text = expression.trim_start_matches("(?i)");
    let Some(text) = text
        .trim_start_matches(".*")
        .strip_prefix("\\.")
        .and_then(|text| text.strip_suffix('$'))
    else {
        return Vec::new();
    };
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or(text);
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    let names: Vec<&str> = inner.split('|').collect();
    let is_plain =
        |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    match names.iter().all(is_plain) {
        true => names.iter().map(|name| format!("*.{name}")).collect(),
        false => Vec::new(),
    }
}

/// The paths that a directive is for, as patterns of the settings.
fn patterns(sections: &[Section], folder: &str) -> Vec<String> {
    let names = sections.iter().rev().find_map(|section| match section {
        Section::Names(names) => Some(names),
        _ => None,
    });
    match names.map(Vec::as_slice) {
        None | Some([]) => vec![folder.to_owned()],
        Some(names) => names
            .iter()
            .map(|name| match (folder, name.starts_with('*')) {
                ("/", true) => name.clone(),
                ("/", false) => format!("**/{name}"),
                _ => format!("{folder}**/{name}"),
            })
            .collect(),
    }
}

/// What a directive is about, and the item that does the same. None: it is followed, or nothing is lost.
fn meaning(
    name: &str,
    arguments: &[String],
    patterns: &[String],
    folder: &str,
) -> Option<(Topic, String)> {
    let lower = name.to_ascii_lowercase();
    let first = arguments.first().map_or("", String::as_str);
    match lower.as_str() {
        "rewriterule" => rewrite(arguments, folder),
        "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" => {
            Some((Topic::Redirect, moved::by_redirect(&lower, arguments)))
        }
        "header" => header(arguments, patterns),
        "requestheader" => Some((Topic::Other, String::new())),
        "expiresbytype" => Some((Topic::Lifetime, lifetime(arguments))),
        "expiresdefault" => {
            let value = arguments.join(" ");
            let items = seconds(&value).map(|seconds| {
                let item = |pattern: &String| {
                    format!("{{match: \"{pattern}\", value: \"public, max-age={seconds}\"}}")
                };
                patterns.iter().map(item).collect::<Vec<_>>().join(", ")
            });
            Some((Topic::Lifetime, items.unwrap_or_default()))
        }
        "addtype" | "forcetype" | "defaulttype" | "adddefaultcharset" | "addcharset" => {
            Some((Topic::Types, String::new()))
        }
        "addencoding" | "deflatecompressionlevel" | "brotlicompressionquality" => {
            Some((Topic::Compression, String::new()))
        }
        "addoutputfilterbytype" | "setoutputfilter" | "addoutputfilter"
            if ["deflate", "brotli_compress"].iter().any(|filter| {
                first
                    .to_ascii_lowercase()
                    .split(';')
                    .any(|one| one == *filter)
            }) =>
        {
            Some((Topic::Compression, String::new()))
        }
        "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
            let value = arguments.get(1).map_or("", String::as_str);
            // PHP never runs in these folders anyway, or `no_php` says so.
            match (first.eq_ignore_ascii_case("engine"), value) {
                (true, "off" | "Off" | "0") => Some((Topic::Handlers, format!("\"{folder}\""))),
                _ => Some((Topic::Php, format!("{first} = {value}"))),
            }
        }
        "errordocument" => Some((Topic::ErrorPages, String::new())),
        "authuserfile" => Some((Topic::Login, users(first, patterns))),
        "authtype" | "authgroupfile" | "authname" => Some((Topic::Login, String::new())),
        "require"
            if ["valid-user", "user", "group"]
                .iter()
                .any(|word| first.eq_ignore_ascii_case(word)) =>
        {
            Some((Topic::Login, String::new()))
        }
        "require"
            if ["ip", "host", "local"]
                .iter()
                .any(|word| first.eq_ignore_ascii_case(word)) =>
        {
            Some((Topic::Addresses, String::new()))
        }
        "allow" | "deny" if is_about_addresses(arguments) => {
            Some((Topic::Addresses, String::new()))
        }
        "addhandler" | "sethandler" | "removehandler" | "action" | "removetype" => {
            Some((Topic::Handlers, format!("\"{folder}\"")))
        }
        "limitrequestbody" => {
            let bytes = first.parse().ok().filter(|&bytes: &u64| bytes > 0)?;
            Some((Topic::BodyLimit, format_size(bytes)))
        }
        _ if NOTHING.contains(&lower.as_str()) => None,
        _ => Some((Topic::Other, String::new())),
    }
}

fn is_about_addresses(arguments: &[String]) -> bool {
    arguments
        .iter()
        .skip(1)
        .any(|whom| !whom.eq_ignore_ascii_case("all") && !whom.starts_with("env="))
}

/// `RewriteRule PATTERN TARGET [FLAGS]`. What WordPress itself writes is what the preset does.
fn rewrite(arguments: &[String], folder: &str) -> Option<(Topic, String)> {
    let [pattern, target, rest @ ..] = arguments else {
        return None;
    };
    let flags = rest.first().map_or("", String::as_str);
    let flags: Vec<String> = flags
        .trim_matches(['[', ']'])
        .split(',')
        .map(|flag| flag.trim().to_ascii_uppercase())
        .collect();
    let has = |name: &str| {
        flags
            .iter()
            .any(|flag| flag.split('=').next() == Some(name))
    };
    if has("F") || has("FORBIDDEN") || has("G") || has("GONE") {
        return Some((Topic::Refusal, plain_path(pattern, folder)));
    }
    let is_wordpress = target == "-"
        || target.trim_start_matches('/') == "index.php"
        || (target == "wp-admin/" || target == "$1wp-admin/")
        || (pattern.contains("wp-(content|admin|includes)") && target.starts_with('$'))
        || (target.starts_with('$') && pattern.ends_with("\\.php)$"));
    if is_wordpress {
        return None;
    }
    match has("R") || has("REDIRECT") || target.contains("://") {
        true => Some((
            Topic::Redirect,
            moved::by_rewrite(pattern, target, &flags, folder),
        )),
        false => Some((Topic::Rewrite, String::new())),
    }
}

/// An `AuthUserFile` as what an item of `auth` begins with; empty: it is no absolute path.
fn users(file: &str, patterns: &[String]) -> String {
    let is_plain = file.starts_with('/') && file.chars().all(|c| !c.is_control());
    let patterns: Vec<String> = patterns
        .iter()
        .map(|pattern| format!("\"{}\"", quotable(pattern)))
        .collect();
    let pattern = match patterns.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    match is_plain {
        true => format!("{{match: {pattern}, users_file: \"{}\"}}", quotable(file)),
        false => String::new(),
    }
}

/// The path that an expression such as `^xmlrpc\.php$` means; empty: it is no plain one.
fn plain_path(pattern: &str, folder: &str) -> String {
    let text = pattern.trim_start_matches('^');
    let (text, end) = match text.strip_suffix('$') {
        Some(text) => (text, ""),
        None => (text, "**"),
    };
    let text = text.replace("\\.", ".");
    let is_plain = !text.is_empty()
        && pattern.starts_with('^')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    match is_plain {
        true => format!("\"{folder}{}{end}\"", text.trim_start_matches('/')),
        false => String::new(),
    }
}

/// `Header [always|onsuccess] ACTION NAME [VALUE]`.
fn header(arguments: &[String], patterns: &[String]) -> Option<(Topic, String)> {
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .skip_while(|word| {
            word.eq_ignore_ascii_case("always") || word.eq_ignore_ascii_case("onsuccess")
        })
        .collect();
    let (action, name) = match words.as_slice() {
        [action, name, ..] => (action.to_ascii_lowercase(), name.trim_end_matches(':')),
        _ => return Some((Topic::Header, String::new())),
    };
    let value = words.get(2).copied().unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    match (action.as_str(), lower.as_str()) {
        // Entity-tags and dates are right as they are made here.
        (_, "etag" | "last-modified" | "connection" | "vary") => None,
        ("unset", "x-powered-by" | "server" | "pragma" | "expires" | "cache-control") => None,
        (_, "cache-control") => {
            let item = |pattern: &String| {
                format!("{{match: \"{pattern}\", value: \"{}\"}}", quotable(value))
            };
            let items: Vec<String> = patterns.iter().map(item).collect();
            Some((Topic::Lifetime, items.join(", ")))
        }
        (_, "pragma" | "expires") => None,
        ("set" | "append" | "add" | "merge" | "setifempty", _)
            if !value.contains('%') && !value.is_empty() =>
        {
            let item = |pattern: &String| {
                format!(
                    "{{match: \"{pattern}\", set: {{{name}: \"{}\"}}}}",
                    quotable(value)
                )
            };
            let items: Vec<String> = patterns.iter().map(item).collect();
            Some((Topic::Header, items.join(", ")))
        }
        _ => Some((Topic::Header, String::new())),
    }
}

/// Within double quotes of YAML.
fn quotable(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// `ExpiresByType image/png "access plus 1 year"` as an item of `cache_control`.
fn lifetime(arguments: &[String]) -> String {
    let Some((media_type, when)) = arguments.split_first() else {
        return String::new();
    };
    let (Some(names), Some(seconds)) = (names_of(media_type), seconds(&when.join(" "))) else {
        return String::new();
    };
    let item =
        |name: &&str| format!("{{match: \"*.{name}\", value: \"public, max-age={seconds}\"}}");
    names.iter().map(item).collect::<Vec<_>>().join(", ")
}

/// The suffixes of the media types that such lists have.
fn names_of(media_type: &str) -> Option<&'static [&'static str]> {
    TYPES
        .iter()
        .find(|(name, _)| media_type.eq_ignore_ascii_case(name))
        .map(|(_, names)| *names)
}

/// `access plus 1 month 2 days` or `A3600`, in seconds.
fn seconds(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some(number) = lower.strip_prefix('a')
        && let Ok(seconds) = number.parse()
    {
        return Some(seconds);
    }
    let words: Vec<&str> = lower
        .split_ascii_whitespace()
        .filter(|word| !matches!(*word, "access" | "now" | "plus"))
        .collect();
    let mut total = 0_u64;
    for pair in words.chunks(2) {
        let [number, unit] = pair else {
            return None;
        };
        let number: u64 = number.parse().ok()?;
        let unit = match unit.trim_end_matches('s') {
            "year" => 31_536_000,
            "month" => 2_592_000,
            "week" => 604_800,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    (!words.is_empty()).then_some(total)
}

const TYPES: &[(&str, &[&str])] = &[
    ("text/css", &["css"]),
    ("text/javascript", &["js"]),
    ("application/javascript", &["js"]),
    ("application/x-javascript", &["js"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/jpg", &["jpg"]),
    ("image/png", &["png"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/avif", &["avif"]),
    ("image/svg+xml", &["svg"]),
    ("image/x-icon", &["ico"]),
    ("video/mp4", &["mp4"]),
    ("video/webm", &["webm"]),
    ("application/pdf", &["pdf"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("application/font-woff", &["woff"]),
    ("application/font-woff2", &["woff2"]),
];

/// Followed as access rules, or nothing here to be switched.
const NOTHING: &[&str] = &[
    "order",
    "allow",
    "deny",
    "satisfy",
    "require",
    "options",
    "indexignore",
    "indexoptions",
    "directoryindex",
    "directoryslash",
    "rewriteengine",
    "rewritebase",
    "rewritecond",
    "rewriteoptions",
    "expiresactive",
    "fileetag",
    "serversignature",
    "setenvif",
    "setenvifnocase",
    "browsermatch",
    "setenv",
    "multiviews",
    "keepalive",
    "cgipassauth",
    "acceptpathinfo",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Topic, String)> {
        unfollowed(text.as_bytes(), "/")
            .into_iter()
            .map(|one| (one.topic, one.item))
            .collect()
    }

    #[test]
    fn what_wordpress_writes_is_what_the_preset_does() {
        let text = "# BEGIN WordPress\nRewriteEngine On\nRewriteRule . /other.php [L]\n# END WordPress\n\
                    RewriteRule ^index\\.php$ - [L]\nRewriteRule . /index.php [L]\n\
                    RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]\n\
                    <Files wp-config.php>\nDeny from all\n</Files>\nOptions -Indexes\n";
        assert_eq!(found(text), []);
    }

    #[test]
    fn fields_become_items_of_headers_and_cache_control() {
        let text = "Header always set X-Frame-Options \"SAMEORIGIN\"\n<FilesMatch \"\\.(woff|woff2)$\">\n\
                    Header set Cache-Control \"max-age=60\"\n</FilesMatch>\nHeader unset ETag\n";
        assert_eq!(
            found(text),
            [
                (
                    Topic::Header,
                    "{match: \"/\", set: {X-Frame-Options: \"SAMEORIGIN\"}}".to_owned()
                ),
                (
                    Topic::Lifetime,
                    "{match: \"*.woff\", value: \"max-age=60\"}, {match: \"*.woff2\", value: \"max-age=60\"}"
                        .to_owned()
                ),
            ]
        );
        let below = unfollowed(b"Header set A b", "/wp-content/");
        assert_eq!(below[0].item, "{match: \"/wp-content/\", set: {A: \"b\"}}");
    }

    #[test]
    fn lifetimes_are_counted_in_seconds() {
        assert_eq!(seconds("access plus 1 month 2 days"), Some(2_764_800));
        assert_eq!(seconds("A3600"), Some(3600));
        assert_eq!(seconds("modification plus 1 day"), None);
        assert_eq!(
            found("ExpiresByType text/css \"access plus 1 year\"\nExpiresByType x/y \"A1\""),
            [
                (
                    Topic::Lifetime,
                    "{match: \"*.css\", value: \"public, max-age=31536000\"}".to_owned()
                ),
                (Topic::Lifetime, String::new()),
            ]
        );
    }

    #[test]
    fn rewrites_refuse_send_elsewhere_or_answer_by_another_file() {
        let text = "RewriteRule ^xmlrpc\\.php$ - [F,L]\nRewriteRule (.*) https://example.com/$1 [R=301]\n\
                    RewriteRule ^(.+)\\.jpg$ $1.webp [T=image/webp]\nRedirect 301 /a /b\n";
        assert_eq!(
            found(text),
            [
                (Topic::Refusal, "\"/xmlrpc.php\"".to_owned()),
                (Topic::Redirect, String::new()),
                (Topic::Rewrite, String::new()),
                (
                    Topic::Redirect,
                    "{from: \"/a\", to: \"/b\"}, {from: \"/a/\", to: \"/b/\"}".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn filters_that_do_not_compress_are_told() {
        let text = "SetOutputFilter DEFLATE\nAddOutputFilterByType BROTLI_COMPRESS;DEFLATE text/html\nAddOutputFilter INCLUDES .shtml";
        let topics: Vec<Topic> = found(text).iter().map(|(topic, _)| *topic).collect();
        assert_eq!(
            topics,
            [Topic::Compression, Topic::Compression, Topic::Other]
        );
    }

    #[test]
    fn a_bound_of_bodies_has_a_unit() {
        assert_eq!(
            found("LimitRequestBody 1048576\nLimitRequestBody 0"),
            [(Topic::BodyLimit, "1MiB".to_owned())]
        );
    }

    #[test]
    fn logins_addresses_and_php_are_told() {
        let text = "AuthType Basic\nRequire valid-user\nDeny from 10.0.0.1\nphp_value memory_limit 256M\n\
                    php_flag engine off\n<IfModule LiteSpeed>\nCacheLookup on\n</IfModule>\nFooBar 1\n";
        let topics: Vec<Topic> = found(text).iter().map(|(topic, _)| *topic).collect();
        assert_eq!(
            topics,
            [
                Topic::Login,
                Topic::Login,
                Topic::Addresses,
                Topic::Php,
                Topic::Handlers,
                Topic::Other
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in proptest::prelude::any::<Vec<u8>>()) {
            let _ = unfollowed(&text, "/");
        }
    }
}
