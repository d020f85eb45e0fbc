//! `Redirect`, `RedirectMatch` and `RewriteRule` of an `.htaccess` as items of `redirects`, where they are simple.

use crate::import::redirects::{self, Query, Row};

/// A `RewriteRule` that sends on as an item of `redirects`; empty: there is no such.
#[must_use]
pub fn by_rewrite(pattern: &str, target: &str, flags: &[String], folder: &str) -> String {
    let is = |name: &str| flags.iter().any(|flag| flag == name);
    let status = flags
        .iter()
        .find_map(|flag| {
            let (name, status) = flag.split_once('=').unwrap_or((flag, "302"));
            matches!(name, "R" | "REDIRECT").then(|| status_of(status))
        })
        .unwrap_or(Some(302));
    // Expressions see what follows the folder.
    let expression = match pattern.strip_prefix('^') {
        Some(rest) => format!("^{folder}{}", rest.trim_start_matches('/')),
        None => return String::new(),
    };
    let query = match is("QSA") || is("QSAPPEND") {
        true => Query::IsAdded,
        false => Query::IsReplaced,
    };
    let target = match is("QSD") || is("QSDISCARD") {
        true => format!("{target}?"),
        false => target.to_owned(),
    };
    let ignores_case = is("NC") || is("NOCASE");
    status
        .filter(|_| !ignores_case)
        .and_then(|status| redirects::of_expression(&expression, &target, status, query))
        .map_or_else(String::new, |(_, row)| item_of(&row))
}

/// `Redirect [STATUS] PATH URL` and its like as items of `redirects`; empty: there are no such.
#[must_use]
pub fn by_redirect(name: &str, arguments: &[String]) -> String {
    let default = match name {
        "redirectpermanent" => 301,
        _ => 302,
    };
    let (status, rest) = match arguments {
        [first, rest @ ..] if !first.starts_with(['/', '^', '(', 'h']) => (status_of(first), rest),
        rest => (Some(default), rest),
    };
    let row = |from: &str, to: Option<&str>, status| {
        item_of(&Row {
            from: from.to_owned(),
            to: to.map(ToOwned::to_owned),
            status,
            is_wider: false,
        })
    };
    match (name, status, rest) {
        ("redirectmatch", Some(status), [expression, to]) => {
            redirects::of_expression(expression, to, status, Query::IsReplaced)
                .map_or_else(String::new, |(_, row)| item_of(&row))
        }
        ("redirectmatch", ..) => String::new(),
        (_, Some(410), [from]) if redirects::one_path(from).is_some() => {
            let folder = format!("{}/", from.trim_end_matches('/'));
            row(&folder, None, 410)
        }
        // What is below goes along.
        (_, Some(status), [from, to]) if status != 410 => {
            let Some(to) = redirects::destination(to) else {
                return String::new();
            };
            let bare = from.trim_end_matches('/');
            if from != "/" && redirects::one_path(from).is_none() || to.contains('?') {
                return String::new();
            }
            let is_file = bare
                .rsplit('/')
                .next()
                .is_some_and(|name| name.contains('.'));
            match (to.ends_with('/'), is_file) {
                (_, true) => row(bare, Some(&to), status),
                (true, false) => row(&format!("{bare}/"), Some(&to), status),
                (false, false) if bare.is_empty() => row("/", Some(&format!("{to}/")), status),
                (false, false) => format!(
                    "{}, {}",
                    row(bare, Some(&to), status),
                    row(&format!("{bare}/"), Some(&format!("{to}/")), status)
                ),
            }
        }
        _ => String::new(),
    }
}

/// The number of a status that `redirects` has.
fn status_of(text: &str) -> Option<u16> {
    match text.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number
            .parse()
            .ok()
            .filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308 | 410)),
    }
}

fn item_of(row: &Row) -> String {
    let to = row
        .to
        .as_ref()
        .map(|to| format!(", to: \"{to}\""))
        .unwrap_or_default();
    let status = match row.status {
        301 => String::new(),
        status => format!(", status: {status}"),
    };
    format!("{{from: \"{}\"{to}{status}}}", row.from)
}

#[cfg(test)]
mod tests {
    use crate::doctor::directive::{Topic, unfollowed};

    fn found(text: &str) -> Vec<(Topic, String)> {
        unfollowed(text.as_bytes(), "/")
            .into_iter()
            .map(|one| (one.topic, one.item))
            .collect()
    }

    #[test]
    fn what_has_moved_is_an_item_of_redirects() {
        for (line, item) in [
            (
                "Redirect /a.html /b",
                "{from: \"/a.html\", to: \"/b\", status: 302}",
            ),
            (
                "Redirect permanent /a/ https://b.example/",
                "{from: \"/a/\", to: \"https://b.example/\"}",
            ),
            (
                "RedirectPermanent / https://b.example",
                "{from: \"/\", to: \"https://b.example/\"}",
            ),
            ("Redirect gone /a", "{from: \"/a/\", status: 410}"),
            ("Redirect 410 /a /b", ""),
            ("Redirect 301 /a b", ""),
            ("Redirect 200 /a /b", ""),
            ("Redirect 301 /a \"/b c\"", ""),
            (
                "RedirectMatch 301 ^/a/(.*)$ /b/$1",
                "{from: \"/a/\", to: \"/b/\"}",
            ),
            (
                "RedirectMatch ^/a$ /b",
                "{from: \"/a\", to: \"/b\", status: 302}",
            ),
            ("RedirectMatch 301 (.*)\\.gif$ $1.png", ""),
            (
                "RewriteRule ^a/?$ /b [R=301,L]",
                "{from: \"/a\", to: \"/b\"}",
            ),
            (
                "RewriteRule ^a$ /b?x=y [R]",
                "{from: \"/a\", to: \"/b?x=y\", status: 302}",
            ),
            (
                "RewriteRule ^a$ /b [R=308,QSD]",
                "{from: \"/a\", to: \"/b?\", status: 308}",
            ),
            ("RewriteRule ^a$ https://b.example/a?x=y [R=301,QSA]", ""),
            ("RewriteRule ^a$ /b [R=301,NC]", ""),
            ("RewriteRule ^a$ /%1 [R=301]", ""),
            ("RewriteCond %{HTTPS} off\nRewriteRule ^a$ /b [R=301]", ""),
            (
                "RewriteCond %{HTTPS} off\nRewriteRule ^index\\.php$ - [L]\nRewriteRule ^a$ /b [R=301]",
                "{from: \"/a\", to: \"/b\"}",
            ),
        ] {
            assert_eq!(found(line), [(Topic::Redirect, item.to_owned())], "{line}");
        }
        let below = unfollowed(b"RewriteRule ^a/(.*)$ /b/$1 [R=301]", "/c/");
        assert_eq!(below[0].item, "{from: \"/c/a/\", to: \"/b/\"}");
    }
}
