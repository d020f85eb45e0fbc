//! A `location` block: read into what it holds, then judged as a whole.

use super::advice::{self, Advice};
use super::inherited::Inherited;
use super::matcher::Matcher;
use super::nginx::directives::Directive;
use super::nginx::glob;
use super::note::Notes;
use super::page_cache::is_of_bypass;

/// What stands in a location.
#[derive(Debug)]
pub struct Location<'t> {
    /// The block itself.
    pub directive: &'t Directive,
    /// What it matches.
    pub matcher: Matcher,
    /// The patterns of it, below those of the block around it.
    pub patterns: Option<Vec<String>>,
    /// What counts within it.
    pub scope: Inherited,
    /// `fastcgi_pass` or `proxy_pass`.
    pub pass: Option<&'t Directive>,
    /// `deny all`, `return 403` or `404`, `internal`.
    pub closed: bool,
    /// Whether some may pass where others may not.
    pub guarded: Option<&'t Directive>,
    /// `try_files`.
    pub try_files: Option<&'t Directive>,
    /// `return` with anything else.
    pub returns: Option<&'t Directive>,
    /// `rewrite` and `if`, for the server to judge.
    pub rules: Vec<&'t Directive>,
    /// Blocks within it.
    pub inner: Vec<&'t Directive>,
    /// Its own bound on bodies.
    pub max_body: Option<&'t Directive>,
    /// `return 410`.
    pub gone: Option<&'t Directive>,
    /// `limit_req`.
    pub limits: Vec<&'t Directive>,
    /// Blocks around it.
    pub depth: usize,
    /// Whether one of those is no plain path: then its patterns mean more than it does.
    pub is_within_expression: bool,
}

impl<'t> Location<'t> {
    /// Reads a block that stands in one where `outer` counts.
    pub fn read(
        directive: &'t Directive,
        outer: &Inherited,
        around: Option<&Location<'_>>,
        notes: &mut Notes,
    ) -> Location<'t> {
        let matcher = Matcher::parse(&directive.args);
        let mut location = Location {
            directive,
            patterns: below(around, &matcher),
            matcher,
            scope: outer.within(),
            pass: None,
            closed: false,
            guarded: None,
            try_files: None,
            returns: None,
            rules: Vec::new(),
            inner: Vec::new(),
            max_body: None,
            gone: None,
            limits: Vec::new(),
            depth: around.map_or(0, |around| around.depth + 1),
            is_within_expression: around.is_some_and(|around| {
                around.is_within_expression || !matches!(around.matcher, Matcher::Prefix(_))
            }),
        };
        let mut allows = None;
        let mut denies = None;
        for child in directive.children() {
            match child.name.as_str() {
                _ if location.scope.take(child) => {}
                "fastcgi_pass" | "proxy_pass" => location.pass = Some(child),
                "deny" if child.arg(0) == "all" => {
                    location.closed = true;
                    denies = Some(child);
                }
                "deny" => location.guarded = Some(child),
                "auth_request" | "auth_jwt" if child.arg(0) != "off" => {
                    location.guarded = Some(child)
                }
                "allow" if child.arg(0) != "all" => allows = Some(child),
                "allow" => {}
                "internal" => location.closed = true,
                "return" if child.arg(0) == "410" => location.gone = Some(child),
                "return" if matches!(child.arg(0), "403" | "404" | "444") => location.closed = true,
                "return" if location.returns.is_none() => location.returns = Some(child),
                "return" => {}
                "try_files" => location.try_files = Some(child),
                "rewrite" | "if" => location.rules.push(child),
                name if is_of_bypass(name) => location.rules.push(child),
                "location" => location.inner.push(child),
                "limit_req" => location.limits.push(child),
                "client_max_body_size" => location.max_body = Some(child),
                _ => told(child, "", notes),
            }
        }
        if denies.is_some() && allows.is_some() {
            location.guarded = allows;
        }
        location
    }
}

/// What the list of advice says of a directive.
pub fn told(directive: &Directive, key: &'static str, notes: &mut Notes) {
    let known = directive.name == "include" && is_of_distribution(directive.arg(0));
    if known || advice::is_default(&directive.name, directive.arg(0)) {
        return notes.idle(directive);
    }
    match advice::on(&directive.name) {
        Advice::Nothing => notes.idle(directive),
        Advice::Note(said) => notes.note(directive, key, said),
        Advice::LeftOut(said) => notes.left_out(directive, key, said),
    }
}

/// Files that come with nginx, of which nothing is needed; a pattern for which no file was there.
fn is_of_distribution(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    glob::has_wildcards(name)
        || matches!(
            name,
            "mime.types"
                | "fastcgi_params"
                | "fastcgi.conf"
                | "fastcgi-php.conf"
                | "proxy_params"
                | "options-ssl-nginx.conf"
        )
}

/// The patterns of a block within another one: `*.css` within `/a/` is `/a/**/*.css`.
fn below(around: Option<&Location<'_>>, matcher: &Matcher) -> Option<Vec<String>> {
    let patterns = matcher.patterns()?;
    let Some(around) = around.filter(|around| !around.matcher.is_all()) else {
        return Some(patterns);
    };
    let outer = match &around.matcher {
        Matcher::Prefix(path) if path.ends_with('/') => path.clone(),
        Matcher::Prefix(path) => format!("{path}/"),
        _ => return Some(patterns),
    };
    let join = |pattern: String| match pattern.strip_prefix("/**") {
        _ if pattern.starts_with(&outer) => pattern,
        Some(rest) => format!("{}**{rest}", outer),
        None if pattern.starts_with('*') => format!("{outer}**/{pattern}"),
        None => pattern,
    };
    Some(patterns.into_iter().map(join).collect())
}
