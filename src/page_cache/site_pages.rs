//! Whether a request may be answered by a page, and by which: the rules of one site.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::page_cache::counters::PageCounters;
use crate::page_cache::key::{Key, Parts};
use crate::page_cache::settings::{NamePattern, Rules};
use crate::request::cookies;
use crate::request::fields::{Fields, members, weighed};
use crate::request::head::Method;
use crate::request::pattern::{Pattern, PatternError};
use crate::request::target::Target;
use crate::request::user_agent;
use crate::token::Token;

/// The page cache of one site: its rules, ready for requests.
#[derive(Debug)]
pub struct SitePages {
    name: Arc<str>,
    rules: Rules,
    /// Of all that its pages depend on and no request tells: pages that were made by other rules are others.
    fingerprint: u64,
    is_wordpress: bool,
    bypass: Vec<Pattern>,
    ignored_query: Vec<NamePattern>,
    token: Option<Token>,
    counters: Arc<PageCounters>,
    /// Unknown cookies that the log has named.
    said: Mutex<BTreeSet<Vec<u8>>>,
}

/// Why a site's page cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// A pattern of `bypass`.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The file of the token.
    #[error("page_cache.purge.token_file {0}: {1}")]
    Token(String, String),
}

/// A request for a page.
#[derive(Debug)]
pub struct PageRequest<'a, F: ?Sized> {
    /// The method.
    pub method: Method<'a>,
    /// The target, decoded once.
    pub target: &'a Target<'a>,
    /// The fields.
    pub fields: &'a F,
    /// The host asked for.
    pub host: &'a [u8],
    /// Whether the client came by https, as trusted proxies tell it.
    pub https: bool,
    /// The port that a trusted proxy names.
    pub port: Option<u16>,
    /// Whether it comes from a trusted proxy.
    pub trusted_peer: bool,
    /// Whether it has a body, or its sender waits for leave to send one.
    pub has_body: bool,
}

/// Why a request passes by the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// Neither GET nor HEAD, or with a body.
    Method,
    /// The path is one of those that never are pages, or the settings say so.
    Path,
    /// A query argument that is neither known nor told.
    Query,
    /// A cookie of a visitor that the application knows.
    Cookie,
    /// A cookie that is not known.
    UnknownCookie,
    /// Credentials, or a field that asks for something else than the page.
    Field,
    /// Something else than HTML is asked for.
    Accept,
    /// The application has said that this page is not to be kept.
    NotStorable,
}

impl Bypass {
    /// All of them.
    pub const ALL: [Bypass; 8] = [
        Bypass::Method,
        Bypass::Path,
        Bypass::Query,
        Bypass::Cookie,
        Bypass::UnknownCookie,
        Bypass::Field,
        Bypass::Accept,
        Bypass::NotStorable,
    ];

    /// The word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Bypass::Method => "method",
            Bypass::Path => "path",
            Bypass::Query => "query",
            Bypass::Cookie => "cookie",
            Bypass::UnknownCookie => "unknown_cookie",
            Bypass::Field => "field",
            Bypass::Accept => "accept",
            Bypass::NotStorable => "not_storable",
        }
    }
}

impl SitePages {
    /// The page cache of the site of this name, whose pages `maker` makes: any text that tells it from others.
    ///
    /// # Errors
    /// A pattern, or the token's file.
    pub fn new(
        name: &str,
        rules: &Rules,
        maker: &str,
        is_wordpress: bool,
        counters: Arc<PageCounters>,
    ) -> Result<SitePages, PagesError> {
        let token = match &rules.purge_token {
            Some(path) => Some(Token::read(path).map_err(|error| {
                PagesError::Token(path.display().to_string(), error.to_string())
            })?),
            None => None,
        };
        let known = IGNORED_QUERY
            .iter()
            .filter_map(|text| NamePattern::parse(text));
        let told = format!("{rules:?} {maker} {is_wordpress}");
        Ok(SitePages {
            fingerprint: xxh3_64(told.as_bytes()),
            name: name.into(),
            is_wordpress,
            bypass: rules
                .bypass
                .iter()
                .map(|text| Pattern::parse(text))
                .collect::<Result<_, _>>()?,
            ignored_query: rules.ignore_query.iter().cloned().chain(known).collect(),
            token,
            rules: rules.clone(),
            counters,
            said: Mutex::default(),
        })
    }

    /// The site's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it was told.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What is counted of it.
    #[must_use]
    pub fn counters(&self) -> &PageCounters {
        &self.counters
    }

    /// The word that lets anybody purge.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The page that a request asks for.
    ///
    /// # Errors
    /// Why it is to be passed to the application as it is.
    pub fn key<F: Fields + ?Sized>(&self, request: &PageRequest<'_, F>) -> Result<Key, Bypass> {
        if request.has_body || !matches!(request.method, Method::Get | Method::Head) {
            return Err(Bypass::Method);
        }
        let kind = self.kind_of_path(request.target)?;
        let (target, left_out) = self.target(request.target)?;
        self.check_fields(request)?;
        self.check_cookies(request.fields)?;
        let varies_by_accept = self.rules.vary.iter().any(|name| name == "accept");
        if kind == Kind::Page && !varies_by_accept && !takes_html(request.fields) {
            return Err(Bypass::Accept);
        }
        let parts = Parts {
            site: &self.name,
            fingerprint: self.fingerprint,
            https: request.https,
            port: request.port,
            is_mobile: user_agent::is_mobile(request.fields),
            host: request.host,
            target: target.as_deref().unwrap_or(request.target.raw_path),
        };
        let vary = self.rules.vary.iter();
        let key = parts.key(vary.map(|name| request.fields.lines(name)));
        Ok(Key {
            left_out: (!left_out.is_empty()).then(|| left_out.into()),
            ..key
        })
    }

    /// The fields that the application sees of a request that fills a page, in order, beside Host and those that tell of
    /// the client.
    pub fn fields_seen<'a, F: Fields + ?Sized>(
        &'a self,
        fields: &'a F,
        is_mobile: bool,
    ) -> Vec<(&'a str, &'a [u8])> {
        let vary = self.rules.vary.iter();
        let mut seen: Vec<(&str, &[u8])> = vary
            .flat_map(|name| fields.lines(name).map(move |value| (name.as_str(), value)))
            .collect();
        let has = |seen: &[(&str, &[u8])], name| seen.iter().any(|(known, _)| *known == name);
        if !has(&seen, "accept") {
            seen.push(("accept", ACCEPT));
        }
        if !has(&seen, "user-agent") {
            seen.push(("user-agent", if is_mobile { MOBILE_AGENT } else { AGENT }));
        }
        seen
    }

    fn kind_of_path(&self, target: &Target<'_>) -> Result<Kind, Bypass> {
        let path = &target.path;
        if target.separator_in_segment || self.bypass.iter().any(|pattern| pattern.matches(path)) {
            return Err(Bypass::Path);
        }
        if !self.is_wordpress {
            return Ok(Kind::Any);
        }
        let mut kind = match path.rsplit(|&byte| byte == b'.').next() {
            Some(b"xml" | b"xsl" | b"txt") => Kind::Any,
            _ => Kind::Page,
        };
        for segment in path.split(|&byte| byte == b'/') {
            if segment.eq_ignore_ascii_case(b"feed") {
                kind = Kind::Any;
            }
            let is = |known: &&[u8]| segment.eq_ignore_ascii_case(known);
            if NEVER_PAGES.iter().any(is) || segment.to_ascii_lowercase().starts_with(b"wp-admin") {
                return Err(Bypass::Path);
            }
        }
        Ok(kind)
    }

    /// Path and query as the application is asked for them (none: the path alone), and the arguments left out.
    fn target(&self, target: &Target<'_>) -> Result<(Option<Vec<u8>>, Vec<u8>), Bypass> {
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        let Some(query) = target.query else {
            return Ok((None, left_out));
        };
        for argument in query.split(|&byte| byte == b'&') {
            let end = memchr::memchr(b'=', argument).unwrap_or(argument.len());
            let name = argument.get(..end).unwrap_or_default();
            let is = |patterns: &[NamePattern]| patterns.iter().any(|known| known.matches(name));
            if is(&self.rules.query) {
                kept.push(if kept.is_empty() { b'?' } else { b'&' });
                kept.extend_from_slice(argument);
            } else if is(&self.ignored_query) {
                if !left_out.is_empty() {
                    left_out.push(b'&');
                }
                left_out.extend_from_slice(argument);
            } else if !argument.is_empty() {
                return Err(Bypass::Query);
            }
        }
        let with_query = (!kept.is_empty()).then(|| [target.raw_path, &kept].concat());
        Ok((with_query, left_out))
    }

    fn check_fields<F: Fields + ?Sized>(&self, request: &PageRequest<'_, F>) -> Result<(), Bypass> {
        let fields = request.fields;
        let says_other = |name: &&str| fields.first(name).is_some() && !self.varies_by(name);
        // RFC 9111 §5.2.1.5.
        let no_store = || {
            let mut directives = fields.lines("cache-control").flat_map(members);
            directives.any(|directive| directive.eq_ignore_ascii_case(b"no-store"))
        };
        // From others than trusted proxies it is dropped.
        let other_host = || {
            let mut named = fields.lines("x-forwarded-host");
            request.trusted_peer && named.any(|named| !named.eq_ignore_ascii_case(request.host))
        };
        match OTHER_THINGS.iter().any(says_other) || no_store() || other_host() {
            true => Err(Bypass::Field),
            false => Ok(()),
        }
    }

    fn varies_by(&self, name: &str) -> bool {
        self.rules.vary.iter().any(|known| known == name)
    }

    fn check_cookies<F: Fields + ?Sized>(&self, fields: &F) -> Result<(), Bypass> {
        let is = |patterns: &[NamePattern], name: &[u8]| {
            patterns.iter().any(|pattern| pattern.matches(name))
        };
        let mut unknown = false;
        for name in fields.lines("cookie").flat_map(cookies::names) {
            if cookies::is_personal(&name) || is(&self.rules.bypass_cookies, &name) {
                return Err(Bypass::Cookie);
            }
            if !cookies::is_harmless(&name) && !is(&self.rules.ignore_cookies, &name) {
                unknown = true;
                self.say(name);
            }
        }
        match unknown {
            true => Err(Bypass::UnknownCookie),
            false => Ok(()),
        }
    }

    /// Names of cookies that visitors have brought and that are not known, the first ones.
    pub fn unknown_cookies(&self) -> Vec<String> {
        let said = self.said.lock();
        said.iter()
            .map(|name| name.escape_ascii().to_string())
            .collect()
    }

    /// Names an unknown cookie in the log, once, and not more of them than clients should be able to fill it with.
    fn say(&self, name: Vec<u8>) {
        let mut said = self.said.lock();
        if said.len() < MOST_SAID && said.insert(name.clone()) {
            tracing::info!(
                "{}: visitors with the cookie `{}` get their pages from the application, as it is not known; if \
                 no page depends on it: page_cache: {{ignore_cookies: [\"{}\"]}}",
                self.name,
                name.escape_ascii(),
                name.escape_ascii()
            );
        }
    }
}

/// What a path may be.
#[derive(PartialEq)]
enum Kind {
    /// A page for people.
    Page,
    /// That, or something for machines: feeds, sitemaps.
    Any,
}

/// Whether HTML is taken, and nothing that an application may answer with in its stead.
fn takes_html<F: Fields + ?Sized>(fields: &F) -> bool {
    let mut takes = None;
    for member in fields.lines("accept").flat_map(members) {
        let (range, weight) = weighed(member);
        let is = |known: &[u8]| range.eq_ignore_ascii_case(known);
        if memchr::memmem::find(&range.to_ascii_lowercase(), b"json").is_some() {
            return false;
        }
        let html = is(b"text/html") || is(b"*/*") || is(b"text/*") || is(b"application/xhtml+xml");
        takes = Some(takes.unwrap_or(false) || (html && weight > 0));
    }
    takes.unwrap_or(true)
}

/// Segments of paths below which WordPress and its shops have no page for everybody.
const NEVER_PAGES: [&[u8]; 8] = [
    b"wp-json",
    b"wc-api",
    b"cart",
    b"checkout",
    b"my-account",
    b"trackback",
    b"wp-login.php",
    b"wp-comments-post.php",
];

/// Fields that ask for something else than the page, or tell who asks.
const OTHER_THINGS: [&str; 13] = [
    "authorization",
    "x-requested-with",
    "x-wp-nonce",
    "x-http-method-override",
    "x-method-override",
    "x-pjax",
    "hx-request",
    "turbo-frame",
    "x-up-target",
    "x-inertia",
    "x-wap-profile",
    "profile",
    "upgrade",
];

/// Names of query arguments that pages do not depend on: links from advertisements and letters carry them, for scripts.
const IGNORED_QUERY: [&str; 33] = [
    "utm_*",
    "mtm_*",
    "pk_*",
    "piwik_*",
    "matomo_*",
    "hsa_*",
    "_hs*",
    "fbclid",
    "fb_action_ids",
    "fb_action_types",
    "fb_source",
    "gclid",
    "gclsrc",
    "gbraid",
    "wbraid",
    "gad_*",
    "gad",
    "srsltid",
    "dclid",
    "msclkid",
    "yclid",
    "twclid",
    "ttclid",
    "igshid",
    "igsh",
    "li_fat_id",
    "epik",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "_ke",
    "_kx",
];

/// What every request that fills a page accepts.
const ACCEPT: &[u8] = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// Who asks for pages: the same for all, so that none depends on more than [`user_agent::is_mobile`].
const AGENT: &[u8] = b"Mozilla/5.0 (compatible; Nostat page cache)";
const MOBILE_AGENT: &[u8] = b"Mozilla/5.0 (Mobile; compatible; Nostat page cache)";

const MOST_SAID: usize = 20;
