//! Whether an answer may be kept, and for how long (RFC 9111 §3, §4.2, §5.2).

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, DATE, PRAGMA, SET_COOKIE, VARY,
};
use pingora_cache::CacheMeta;
use pingora_cache::CacheMetaDefaults;
use pingora_cache::cache_control::{CacheControl, DirectiveKey, InterpretCacheControl as _};
use pingora_cache::filters::{calculate_expires_header_time, calculate_serve_stale_durations};
use pingora_http::ResponseHeader;

use crate::page_cache::settings::Rules;
use crate::request::fields::members;

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its status.
    Status,
    /// It leads elsewhere for now, perhaps for this visitor alone.
    Redirect,
    /// It sets a cookie.
    SetCookie,
    /// It says so: `private`, `no-store`, `no-cache`, `X-Accel-Expires: 0`.
    CacheControl,
    /// It is not fresh from the beginning.
    Stale,
    /// It depends on a field that pages do not depend on here.
    Vary,
    /// It is a part, or coded.
    Content,
    /// It is larger than pages may be.
    Size,
    /// Something that it may have been made of was purged meanwhile.
    Purged,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 9] = [
        Refusal::Status,
        Refusal::Redirect,
        Refusal::SetCookie,
        Refusal::CacheControl,
        Refusal::Stale,
        Refusal::Vary,
        Refusal::Content,
        Refusal::Size,
        Refusal::Purged,
    ];

    /// The word for metrics and for Cache-Status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::Status => "status",
            Refusal::Redirect => "redirect",
            Refusal::SetCookie => "set_cookie",
            Refusal::CacheControl => "cache_control",
            Refusal::Stale => "stale",
            Refusal::Vary => "vary",
            Refusal::Content => "content",
            Refusal::Size => "size",
            Refusal::Purged => "purged",
        }
    }

    /// Whether the next answer to the same request will most likely not be kept either, so that it need not wait for this
    /// one nor be asked without its own fields.
    #[must_use]
    pub fn is_lasting(self) -> bool {
        !matches!(self, Refusal::Status | Refusal::Purged)
    }
}

/// What is kept of an answer with this head, received `now`, beside its content.
///
/// # Errors
/// Why it is not kept.
pub fn judge(
    rules: &Rules,
    header: &ResponseHeader,
    now: SystemTime,
) -> Result<CacheMeta, Refusal> {
    let own = own_life(rules, header.status).ok_or(match header.status.as_u16() {
        302 | 303 | 307 => Refusal::Redirect,
        _ => Refusal::Status,
    })?;
    let headers = &header.headers;
    if headers.contains_key(SET_COOKIE) {
        return Err(Refusal::SetCookie);
    }
    if headers.contains_key(CONTENT_RANGE) || is_coded(header) {
        return Err(Refusal::Content);
    }
    let varies = headers.get_all(VARY).into_iter();
    if !varies
        .flat_map(|line| members(line.as_bytes()))
        .all(|name| is_in_key(rules, name))
    {
        return Err(Refusal::Vary);
    }
    let control = CacheControl::from_resp_headers(header);
    // Also of single fields: `private="set-cookie"`.
    let forbids = |keys: &[DirectiveKey]| {
        let has = |control: &CacheControl| keys.iter().any(|key| control.has_directive(key));
        control.as_ref().is_some_and(has)
    };
    if forbids(&[DirectiveKey::NoStore, DirectiveKey::Private]) {
        return Err(Refusal::CacheControl);
    }
    // WordPress says no-cache of everything that is not there; how long that is kept all the same is told by the settings.
    let is_missing = matches!(header.status.as_u16(), 404 | 410);
    let fresh_until = match is_missing && forbids(&[DirectiveKey::NoCache]) {
        true => now + own,
        false => fresh_until(header, control.as_ref(), own, now)?,
    };
    let before = Duration::from_secs(number(header, AGE.as_str()).unwrap_or(0));
    let fresh_until = fresh_until - before.min(A_YEAR);
    if fresh_until <= now {
        return Err(Refusal::Stale);
    }
    let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let defaults = CacheMetaDefaults::new(
        |_| None,
        seconds(rules.stale_while_revalidate),
        seconds(rules.stale_if_error),
    );
    let (while_revalidate, mut if_error) =
        calculate_serve_stale_durations(control.as_ref(), &defaults);
    // What is not there any more is not told of when nobody answers.
    if is_missing {
        if_error = 0;
    }
    let mut kept = header.clone();
    kept.remove_header("x-accel-expires");
    kept.remove_header(&AGE);
    // Between the application and us (RFC 9111 §3.1).
    for name in ["proxy-authenticate", "proxy-authentication-info"] {
        kept.remove_header(name);
    }
    Ok(CacheMeta::new(
        fresh_until,
        now - before.min(A_YEAR),
        while_revalidate,
        if_error,
        kept,
    ))
}

/// Until when an answer is fresh, by what it says itself, else for its own life.
fn fresh_until(
    header: &ResponseHeader,
    control: Option<&CacheControl>,
    own: Duration,
    now: SystemTime,
) -> Result<SystemTime, Refusal> {
    if control.is_some_and(|control| control.has_directive(&DirectiveKey::NoCache)) {
        return Err(Refusal::CacheControl);
    }
    // RFC 9111 §5.4: it means no-cache where Cache-Control says nothing.
    let pragmas = header.headers.get_all(PRAGMA).into_iter();
    let mut pragmas = pragmas.flat_map(|line| members(line.as_bytes()));
    if control.is_none() && pragmas.any(|word| word.eq_ignore_ascii_case(b"no-cache")) {
        return Err(Refusal::CacheControl);
    }
    // RFC 9111 §4.2.1: what is unclear is better taken for stale.
    if control.is_some_and(|control| control.max_age().is_err() || control.s_maxage().is_err())
        || is_unclear(header)
    {
        return Err(Refusal::Stale);
    }
    // nginx's own field for its caches comes first, as it does there.
    match accel_expires(header, now) {
        Some(until) if until <= now => return Err(Refusal::CacheControl),
        Some(until) => return Ok(until),
        None => {}
    }
    Ok(match control.and_then(|control| control.fresh_duration()) {
        Some(life) => now + life.min(A_YEAR),
        None => expires(header, now).unwrap_or(now + own),
    })
}

/// Whether Cache-Control says something of a lifetime twice, without a number, or in a spelling that is none.
fn is_unclear(header: &ResponseHeader) -> bool {
    let lines = header.headers.get_all(CACHE_CONTROL).into_iter();
    let directives = lines.flat_map(|line| members(line.as_bytes()));
    let (mut ages, mut shared) = (0, 0);
    for directive in directives {
        let directive = directive.to_ascii_lowercase();
        let (age, of_shared) = (
            directive.starts_with(b"max-age"),
            directive.starts_with(b"s-maxage"),
        );
        ages += u32::from(age);
        shared += u32::from(of_shared);
        let mut parts = directive.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let value = parts
            .next()
            .filter(|_| matches!(name, b"max-age" | b"s-maxage"));
        let is_number = value.is_some_and(|value| {
            let bare = value
                .strip_prefix(b"\"")
                .and_then(|value| value.strip_suffix(b"\""));
            let digits = bare.unwrap_or(value);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        });
        let says_private = memchr::memmem::find(&directive, b"private").is_some()
            || memchr::memmem::find(&directive, b"no-store").is_some();
        if ((age || of_shared) && !is_number) || says_private {
            return true;
        }
    }
    ages > 1 || shared > 1
}

/// How long answers of this status are fresh where they do not say so; none: they are never kept.
fn own_life(rules: &Rules, status: StatusCode) -> Option<Duration> {
    match status.as_u16() {
        200 | 301 | 308 => Some(rules.valid),
        404 | 410 => rules.not_found,
        _ => None,
    }
}

/// Whether pages are told apart by this field, or all requests that fill pages send the same of it.
fn is_in_key(rules: &Rules, name: &[u8]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    SAME_FOR_ALL.iter().any(|known| is(known)) || rules.vary.iter().any(|known| is(known))
}

fn is_coded(header: &ResponseHeader) -> bool {
    let mut codings = header.headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// What Expires says, by the sender's own clock (RFC 9111 §4.2.1); what is no date is over (§5.3).
fn expires(header: &ResponseHeader, now: SystemTime) -> Option<SystemTime> {
    let until = calculate_expires_header_time(header)?;
    let date = header.headers.get(DATE).and_then(|date| date.to_str().ok());
    let sent = date.and_then(|date| httpdate::parse_http_date(date).ok());
    Some(match sent {
        Some(sent) => now + until.duration_since(sent).unwrap_or_default().min(A_YEAR),
        None => until.min(now + A_YEAR),
    })
}

/// `X-Accel-Expires`: seconds, or `@` and seconds since 1970.
fn accel_expires(header: &ResponseHeader, now: SystemTime) -> Option<SystemTime> {
    let value = header.headers.get("x-accel-expires")?.to_str().ok()?.trim();
    match value.strip_prefix('@') {
        Some(at) => {
            let at = Duration::from_secs(at.parse().ok()?);
            SystemTime::UNIX_EPOCH.checked_add(at)
        }
        None => now.checked_add(Duration::from_secs(value.parse().ok()?).min(A_YEAR)),
    }
}

fn number(header: &ResponseHeader, name: &str) -> Option<u64> {
    // The first one counts (RFC 9111 §5.1).
    let value = header.headers.get(name)?.to_str().ok()?;
    value.split(',').next()?.trim().parse().ok()
}

/// The words that group pages, of the fields that purges by them are known by: Cache-Tag (members), Surrogate-Key and xkey
/// (words).
#[must_use]
pub fn tags(header: &ResponseHeader) -> Vec<Box<[u8]>> {
    let mut tags: Vec<Box<[u8]>> = TAG_FIELDS
        .iter()
        .flat_map(|name| header.headers.get_all(*name))
        .flat_map(|line| words(line.as_bytes()))
        .map(Into::into)
        .take(MOST_TAGS)
        .collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// The words of a line of tags.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| matches!(byte, b',' | b' ' | b'\t'))
        .filter(|word| !word.is_empty())
}

const A_YEAR: Duration = Duration::from_secs(365 * 86400);
/// Cookies are left out or pass by, codings are made here, and one user agent asks for all phones, one for all others.
const SAME_FOR_ALL: [&str; 6] = [
    "accept-encoding",
    "cookie",
    "user-agent",
    "sec-ch-ua-mobile",
    "x-forwarded-proto",
    "host",
];
/// Fields with tags, in answers and in purges.
pub const TAG_FIELDS: [&str; 5] = [
    "cache-tag",
    "surrogate-key",
    "xkey",
    "x-key",
    "x-cache-tags",
];
const MOST_TAGS: usize = 1024;
