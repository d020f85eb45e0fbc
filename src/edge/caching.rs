//! Pingora's cache between a request that fills a page and the application: what is kept, what is told, what is forgotten.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, LOCATION, TRANSFER_ENCODING, VARY,
};
use pingora_cache::lock::{CacheKeyLockImpl, CacheLock};
use pingora_cache::{CacheOptionOverrides, CachePhase, NoCacheReason, RespCacheable};
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;

use crate::clock::UnixTime;
use crate::edge::handed::Handed;
use crate::fastcgi::session::FromFile;
use crate::metrics::Kind;
use crate::page_cache::key::{bare_host, plain_path};
use crate::page_cache::page::{OWN_CACHE_CONTROL, is_own_tag, vary};
use crate::page_cache::purge::What;
use crate::page_cache::storable::{Refusal, judge};
use crate::page_cache::storage::Fill;
use crate::page_cache::{PageOutcome, PageStore, Purge};
use crate::request::head::Method;
use crate::request::target::Target;

/// Has Pingora's cache take part.
pub fn enable(session: &mut Session, store: &'static PageStore) {
    static LOCK: LazyLock<Box<CacheKeyLockImpl>> =
        LazyLock::new(|| CacheLock::new_boxed(LONGEST_FILL));
    let mut overrides = CacheOptionOverrides::default();
    overrides.wait_timeout = Some(LONGEST_WAIT);
    session
        .cache
        .enable(store, None, None, Some(&**LOCK), Some(overrides));
}

/// Has the next request fill the page when this one has ended and not said whether it did.
///
/// A write lock that is merely dropped trips an assertion of Pingora's in debug builds, before
/// those that wait for it are told.
pub fn let_others_fill(session: &mut Session) {
    session
        .cache
        .release_write_lock(NoCacheReason::InternalError);
}

/// What is kept of an answer.
pub fn judged(
    store: &PageStore,
    fill: &Fill,
    header: &ResponseHeader,
    now: UnixTime,
) -> (RespCacheable, Option<Refusal>) {
    let judged = match header.extensions.get::<FromFile>() {
        // Files have a cache of their own.
        Some(FromFile) => Err(Refusal::Content),
        None => judge(fill.pages.rules(), header, now.system()),
    };
    match judged {
        Ok(meta) => (RespCacheable::Cacheable(meta), None),
        Err(why) => {
            fill.pages.counters().refusal(why);
            fill.is_waited_for.store(false, Ordering::Relaxed);
            if let Some(old) = fill.shown.get()
                && header.status.as_u16() < 500
            {
                store.supersede(old);
            }
            if why.is_lasting() {
                store.refuse(&fill.key.text, fill.now);
            }
            (
                RespCacheable::Uncacheable(NoCacheReason::OriginNotCache),
                Some(why),
            )
        }
    }
}

/// The head of an old page with the fields of the answer that has confirmed it (RFC 9111 §3.2).
pub fn renewed(page: &ResponseHeader, by: &HeaderMap) -> ResponseHeader {
    let mut head = page.clone();
    for name in by.keys().filter(|name| !OF_CONTENT.contains(name)) {
        head.remove_header(name);
        for value in by.get_all(name) {
            // They have been fields before.
            let _ = head.append_header(name.clone(), value.clone());
        }
    }
    head
}

/// Entity-tags of ours mean nothing to the application.
pub fn forget_own_tag(request: &mut RequestHeader) {
    let is_own = |value: &http::HeaderValue| is_own_tag(value.as_bytes());
    if request.headers.get(IF_NONE_MATCH).is_some_and(is_own) {
        request.remove_header(&IF_NONE_MATCH);
    }
}

/// Whether an old page may be sent: when the application fails, not when somebody else does.
pub fn may_send_stale(fill: &Fill, error: Option<&Error>) -> bool {
    let failed = error.is_some_and(|error| {
        let by_status = matches!(error.etype(), ErrorType::HTTPStatus(500..=599));
        by_status || error.esource() != &ErrorSource::Downstream
    });
    failed && !fill.is_refresh
}

/// What the client and caches before us are told beside the application's fields.
///
/// # Errors
/// None, as all of it are fields.
pub fn tell(
    session: &Session,
    handed: &Handed,
    refusal: Option<Refusal>,
    response: &mut ResponseHeader,
) -> Result<()> {
    // An instruction for us.
    response.remove_header("x-accel-expires");
    if response.status.is_informational() {
        return Ok(());
    }
    if handed.site.pages().is_none() {
        return Ok(());
    }
    if let Some(why) = handed.bypass {
        return response.insert_header(
            "Cache-Status",
            format!("Nostat; fwd=bypass; detail={}", why.as_str()),
        );
    }
    if handed.fill.is_none() {
        return Ok(());
    }
    let status = match (refusal, session.cache.phase()) {
        (Some(why), _) => format!("Nostat; fwd=miss; detail={}", why.as_str()),
        (None, CachePhase::Hit | CachePhase::Stale | CachePhase::StaleUpdating) => {
            "Nostat; hit".to_owned()
        }
        (None, CachePhase::Revalidated) => "Nostat; hit; fwd=stale".to_owned(),
        (None, CachePhase::Expired) => "Nostat; fwd=stale; stored".to_owned(),
        (None, _) if session.cache.enabled() => "Nostat; fwd=miss; stored".to_owned(),
        (None, _) => "Nostat; fwd=miss".to_owned(),
    };
    if let Some(left_out) = handed
        .fill
        .as_ref()
        .and_then(|fill| fill.left_out.as_deref())
        && response.status.is_redirection()
        && let Some(location) = response.headers.get(LOCATION)
        && let Some(with) = with_arguments(location.as_bytes(), left_out)
    {
        response.insert_header(LOCATION, with)?;
    }
    if session.cache.enabled() {
        response.insert_header(VARY, vary(response))?;
        if !response.headers.contains_key(CACHE_CONTROL) && !response.headers.contains_key(EXPIRES)
        {
            response.insert_header(CACHE_CONTROL, OWN_CACHE_CONTROL)?;
        }
    }
    response.insert_header("Cache-Status", status)
}

/// A reference with these arguments behind its own: those that a visitor came with, and that the application has not seen.
fn with_arguments(location: &[u8], arguments: &[u8]) -> Option<Vec<u8>> {
    let plain = memchr::memchr(b'#', location).is_none();
    let sign = if memchr::memchr(b'?', location).is_some() {
        b'&'
    } else {
        b'?'
    };
    plain.then(|| [location, &[sign], arguments].concat())
}

/// What the page cache did for a request that went through Pingora, and who is counted to have answered it.
pub fn outcome(session: &Session, answered_by: Kind) -> (PageOutcome, Kind) {
    match session.cache.phase() {
        CachePhase::Hit if session.cache.lock_duration().is_some() => {
            (PageOutcome::Waited, Kind::Page)
        }
        CachePhase::Hit => (PageOutcome::Hit, Kind::Page),
        CachePhase::Stale | CachePhase::StaleUpdating => (PageOutcome::StaleIfError, Kind::Page),
        CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => {
            (PageOutcome::Revalidated, answered_by)
        }
        _ => (PageOutcome::Miss, answered_by),
    }
}

/// Forgets what an unsafe request has changed (RFC 9111 §4.4): where its answer leads is fetched anew before it is sent again,
/// its own page is sent at most once more, as a cart that is posted to a page changes that page for its owner alone.
pub async fn forget_changed(
    store: &PageStore,
    handed: &Handed,
    method: &http::Method,
    response: &ResponseHeader,
    now: UnixTime,
) {
    let Some(pages) = handed.site.pages() else {
        return;
    };
    let succeeded = response.status.is_success() || response.status.is_redirection();
    if !succeeded || method.is_safe() || method == http::Method::TRACE {
        return;
    }
    let host = bare_host(&handed.host).to_ascii_lowercase();
    let purge = |path: &[u8]| Purge {
        site: Some(pages.name().clone()),
        host: Some(host.clone().into()),
        what: What::Path(plain_path(path).into()),
    };
    let page_of = |reference: &[u8]| {
        let target = resolved(reference, &handed.target, handed.client.https)?;
        let target = Target::parse(&Method::Get, &target).ok()?;
        let other = target.authority.map(bare_host);
        let of_host = other.is_none_or(|other| other.eq_ignore_ascii_case(&host));
        let is_page = !target.path.ends_with(b".php")
            && memchr::memmem::find(&target.path, b"/wp-admin").is_none();
        (of_host && is_page).then(|| purge(&target.path))
    };
    for name in [LOCATION, CONTENT_LOCATION] {
        let named = response.headers.get(name).map(|value| value.as_bytes());
        if let Some(purge) = named.and_then(page_of) {
            store.purge(purge).await;
        }
    }
    if let Some(purge) = page_of(&handed.target) {
        match response.status.is_redirection() || is_wordpress(handed) {
            true => store.expire(&purge, now.system()),
            false => {
                store.purge(purge).await;
            }
        }
    }
}

/// A reference as a target: absolute ones as they are, others by the path of the request (RFC 3986 §5.2).
fn resolved(reference: &[u8], base: &[u8], https: bool) -> Option<Vec<u8>> {
    let reference = reference.split(|&byte| byte == b'#').next()?;
    if let Some(network) = reference.strip_prefix(b"//") {
        let scheme = if https { &b"https://"[..] } else { b"http://" };
        return Some([scheme, network].concat());
    }
    let scheme_end = reference.iter().position(|byte| b":/?".contains(byte));
    let is_absolute = scheme_end.is_some_and(|end| reference.get(end) == Some(&b':'));
    if reference.starts_with(b"/") || is_absolute {
        return Some(reference.to_vec());
    }
    let path = base.split(|&byte| byte == b'?').next().unwrap_or_default();
    if reference.is_empty() || reference.starts_with(b"?") {
        return Some([path, reference].concat());
    }
    let folder = path.iter().rposition(|&byte| byte == b'/')?;
    Some([path.get(..=folder)?, reference].concat())
}

fn is_wordpress(handed: &Handed) -> bool {
    handed.site.settings().preset == crate::site::Preset::Wordpress
}

/// Fields that belong to the content that is kept.
const OF_CONTENT: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    ETAG,
    TRANSFER_ENCODING,
    VARY,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
];
/// The longest time that others wait for one who fills a page.
const LONGEST_FILL: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_by_the_path_of_the_request() {
        for (reference, target) in [
            ("/a/b#c", "/a/b"),
            ("http://h/a", "http://h/a"),
            ("//h/a", "https://h/a"),
            ("list", "/x/list"),
            ("./list", "/x/./list"),
            ("../z?q=a:b", "/x/../z?q=a:b"),
            ("?p=1", "/x/y?p=1"),
            ("", "/x/y"),
        ] {
            let resolved = resolved(reference.as_bytes(), b"/x/y?old=1", true);
            assert_eq!(resolved.as_deref(), Some(target.as_bytes()), "{reference}");
        }
    }

    #[test]
    fn arguments_go_on_with_a_redirect() {
        let with = |location: &str| with_arguments(location.as_bytes(), b"utm_a=b");
        assert_eq!(with("/a/").as_deref(), Some(&b"/a/?utm_a=b"[..]));
        assert_eq!(with("/a/?x=1").as_deref(), Some(&b"/a/?x=1&utm_a=b"[..]));
        assert_eq!(with("/a/#x"), None);
    }
}
