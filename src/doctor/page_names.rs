//! The files that a page or a style sheet names, of its own host: text in, paths out.

use std::sync::LazyLock;

use regex::Regex;

/// Paths with their queries, each once, in the order of the text. `base` is the path of the text itself.
#[must_use]
pub fn names(text: &str, host: &str, base: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if let Some(path) = path(name, host, base)
            && is_asset(&path)
            && !found.contains(&path)
        {
            found.push(path);
        }
    };
    for captures in NAMES.captures_iter(text) {
        if let Some(list) = captures.name("list") {
            // Candidates of srcset: `URL 300w, URL 2x`.
            for candidate in list.as_str().split(',') {
                add(candidate
                    .split_ascii_whitespace()
                    .next()
                    .unwrap_or_default());
            }
        } else if let Some(one) = ["one", "bare", "css"]
            .iter()
            .find_map(|group| captures.name(group))
        {
            add(one.as_str());
        }
    }
    found
}

/// The path of a name on this host; none: it is elsewhere, or no path at all.
fn path(name: &str, host: &str, base: &str) -> Option<String> {
    let name = name
        .trim()
        .replace("&amp;", "&")
        .replace("&#038;", "&")
        .replace("&#38;", "&");
    let name = name.split('#').next().unwrap_or_default();
    if name.is_empty() || name.contains(|c: char| c.is_control() || c == ' ' || !c.is_ascii()) {
        return None;
    }
    let below = name
        .strip_prefix("https:")
        .or_else(|| name.strip_prefix("http:"))
        .unwrap_or(name);
    if let Some(rest) = below.strip_prefix("//") {
        let (authority, path) = rest.split_once('/')?;
        return authority
            .eq_ignore_ascii_case(host)
            .then(|| format!("/{path}"));
    }
    if below.starts_with('/') {
        return Some(below.to_owned());
    }
    // Another scheme: data, mailto, javascript.
    if below
        .split(['/', '?'])
        .next()
        .is_some_and(|first| first.contains(':'))
    {
        return None;
    }
    let base = base.split('?').next().unwrap_or_default();
    let mut segments: Vec<&str> = base.split('/').collect();
    segments.pop();
    let (name, query) = match below.split_once('?') {
        Some((name, query)) => (name, Some(query)),
        None => (below, None),
    };
    for segment in name.split('/') {
        match segment {
            "." => {}
            ".." if segments.len() > 1 => drop(segments.pop()),
            ".." => {}
            segment => segments.push(segment),
        }
    }
    let path = segments.join("/");
    Some(match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    })
}

fn is_asset(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let Some((_, extension)) = path.rsplit_once('.') else {
        return false;
    };
    ASSETS
        .split(' ')
        .any(|asset| extension.eq_ignore_ascii_case(asset))
}

static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(?:\bsrcset\s*=\s*["'](?<list>[^"']*)["'])|(?:\b(?:src|href|poster)\s*=\s*(?:["'](?<one>[^"']*)["']|(?<bare>[^"'\s>]+)))|(?:\burl\(\s*["']?(?<css>[^"')]*))"#,
    )
    .expect("invariant: a valid expression")
});

const ASSETS: &str = "css js mjs png jpg jpeg gif webp avif svg ico bmp woff woff2 ttf otf eot mp4 webm mp3 ogg pdf txt xml json map";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_files_of_its_host() {
        let page = r#"<link href="/a.css?ver=1&#038;x=2"><script src='//example.com/b.js'></script>
            <img src="https://EXAMPLE.com/c.png" srcset="/c-300.png 300w, d.png 2x"><img src="https://cdn.example/e.png">
            <a href="/page/">x</a><img src=/bare.png><a href="mailto:a@b.css">y</a><style>@font-face{src:url('f.woff2#i')}</style><img src="/a.css?ver=1&#038;x=2">"#;
        assert_eq!(
            names(page, "example.com", "/blog/"),
            [
                "/a.css?ver=1&x=2",
                "/b.js",
                "/c.png",
                "/c-300.png",
                "/blog/d.png",
                "/bare.png",
                "/blog/f.woff2"
            ]
        );
    }

    #[test]
    fn a_style_sheet_names_files_beside_it() {
        let css = "a{background:url(../img/x.svg)}b{background:url(data:image/png;base64,AA.png)}";
        let found = names(css, "example.com", "/wp-content/css/style.css?ver=3");
        assert_eq!(found, ["/wp-content/img/x.svg"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,64}", name in "[./?#:a-z]{0,16}") {
            let _ = names(&text, "h", "/");
            let _ = path(&name, "h", "/a/b");
        }
    }
}
