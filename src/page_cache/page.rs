//! A kept answer, and what a request gets of it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, ETAG, LAST_MODIFIED, TRANSFER_ENCODING, VARY};
use pingora_cache::CacheMeta;
use pingora_http::{HeaderNameVariant, ResponseHeader};
use xxhash_rust::xxh3::xxh3_128;

use crate::page_cache::coded::Coded;
use crate::page_cache::storable;
use crate::request::accept_encoding::{Coding, acceptable};
use crate::request::fields::Fields;
use crate::request::http_date;
use crate::request::preconditions::{EntityTag, Precondition, Validators, evaluate};

/// A kept answer.
#[derive(Debug)]
pub struct Page {
    /// Its key.
    pub key: Box<[u8]>,
    /// Where it belongs to, for purges.
    pub place: Place,
    /// The head as the application gave it, with a length and an entity-tag of ours where it had none.
    pub header: ResponseHeader,
    /// The content, not coded.
    pub body: Bytes,
    /// When it was made.
    pub born: SystemTime,
    /// Until when it is fresh.
    pub fresh_until: SystemTime,
    /// How long after that it is sent while a new one is fetched, in seconds.
    pub stale_while_revalidate: u32,
    /// How long after that it is sent when the application fails, in seconds.
    pub stale_if_error: u32,
    etag: Bytes,
    last_modified: Option<i64>,
    coded: OnceLock<Coded>,
    coding_begun: AtomicBool,
    /// The second from which on it may be fetched anew aside.
    refresh_from: AtomicI64,
    heads: ArcSwapOption<Heads>,
}

/// Where a page belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The site's name.
    pub site: Arc<str>,
    /// The host in lower case, without the usual port.
    pub host: Box<[u8]>,
    /// The path: see [`plain_path`](crate::page_cache::key::plain_path).
    pub path: Box<[u8]>,
    /// The words that it was given by the application.
    pub tags: Vec<Box<[u8]>>,
}

/// What a request gets of a page.
#[derive(Debug, Clone)]
pub struct Served {
    /// 200 and the like, 304 or 412.
    pub status: u16,
    /// Status line and fields, each line ended; without Date, Connection and the final empty line.
    pub head: Bytes,
    /// The content, also for HEAD.
    pub body: Bytes,
}

/// How old a page is for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It is fresh.
    Fresh,
    /// It may be sent while a new one is fetched. The one who is told `true` is to fetch it.
    Stale(bool),
    /// It is of use only when the application confirms it, or fails.
    Old,
}

/// The heads of one second.
#[derive(Debug)]
struct Heads {
    age: u64,
    /// The coded forms were there.
    is_coded: bool,
    identity: Pair,
    gzip: Pair,
    brotli: Pair,
}

#[derive(Debug)]
struct Pair {
    whole: Bytes,
    not_modified: Bytes,
}

impl Page {
    /// A page of what Pingora's cache knows of an answer, and its content.
    #[must_use]
    pub fn new(key: Box<[u8]>, place: Place, meta: &CacheMeta, body: Bytes) -> Page {
        let mut header = meta.response_header_copy();
        for name in [&CONNECTION, &TRANSFER_ENCODING] {
            header.remove_header(name);
        }
        // A number is a value.
        let _ = header.insert_header(CONTENT_LENGTH, body.len().to_string());
        let own_tag = header
            .headers
            .get(ETAG)
            .map(|tag| Bytes::copy_from_slice(tag.as_bytes()));
        let etag =
            own_tag.unwrap_or_else(|| format!("\"{OWN_TAG}{:032x}\"", xxh3_128(&body)).into());
        let _ = header.insert_header(ETAG, &etag[..]);
        let dated = header
            .headers
            .get(LAST_MODIFIED)
            .map(|date| date.as_bytes());
        Page {
            last_modified: dated.and_then(http_date::parse),
            place: Place {
                tags: storable::tags(&header),
                ..place
            },
            key,
            header,
            body,
            born: meta.epoch(),
            fresh_until: meta.fresh_until(),
            stale_while_revalidate: meta.stale_while_revalidate_sec(),
            stale_if_error: meta.stale_if_error_sec(),
            etag,
            coded: OnceLock::new(),
            coding_begun: AtomicBool::new(false),
            refresh_from: AtomicI64::new(0),
            heads: ArcSwapOption::empty(),
        }
    }

    /// What Pingora's cache knows of it.
    #[must_use]
    pub fn meta(&self) -> CacheMeta {
        CacheMeta::new(
            self.fresh_until,
            self.born,
            self.stale_while_revalidate,
            self.stale_if_error,
            self.header.clone(),
        )
    }

    /// Bytes that it takes in memory, its coded forms reckoned in.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let head: usize = self
            .header
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        let tags: usize = self.place.tags.iter().map(|tag| tag.len() + 16).sum();
        let coded = self.body.len() / CODED_SHARE;
        // Two heads of each form.
        (self.body.len() + coded + 8 * head + tags + self.key.len() * 2 + 1024) as u64
    }

    /// How old it is at this second of Unix time. A page that is to be fetched anew is told of once in [`RETRY`] seconds.
    #[must_use]
    pub fn age(&self, now: i64) -> Age {
        if is_ahead(self.born, now) {
            return Age::Old;
        }
        let fresh_until = unix(self.fresh_until);
        if now <= fresh_until {
            return Age::Fresh;
        }
        if now > fresh_until.saturating_add(self.stale_while_revalidate.into()) {
            return Age::Old;
        }
        let from = self.refresh_from.load(Ordering::Relaxed);
        let is_due = !(1..=RETRY).contains(&from.saturating_sub(now));
        let is_mine = is_due
            && self
                .refresh_from
                .compare_exchange(from, now + RETRY, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        Age::Stale(is_mine)
    }

    /// Makes it stale at once: it is sent while a new one is fetched, for as long as it may.
    #[must_use]
    pub fn expired(&self, now: SystemTime) -> Page {
        let mut meta = self.meta();
        meta.expire_at(now - Duration::from_secs(1));
        Page::new(
            self.key.clone(),
            self.place.clone(),
            &meta,
            self.body.clone(),
        )
    }

    /// What a request of GET or HEAD gets. `conditional`: there may be preconditions among the fields.
    pub fn serve<F: Fields + ?Sized>(&self, fields: &F, conditional: bool, now: i64) -> Served {
        let heads = self.heads(now);
        // Only forms that the heads know: they may have been made a moment ago.
        let coded = self.coded.get().filter(|_| heads.is_coded);
        let form = coded.and_then(|coded| {
            let mut liked = acceptable(fields);
            liked.find_map(|coding| Some((coding, coded.body(coding, &self.body)?)))
        });
        let (coding, body) = form.unwrap_or((Coding::Identity, self.body.clone()));
        let pair = match coding {
            Coding::Identity | Coding::Zstd => &heads.identity,
            Coding::Gzip => &heads.gzip,
            Coding::Brotli => &heads.brotli,
        };
        if conditional && matches!(self.header.status.as_u16(), 200) {
            let tag = coding.tag(&self.etag);
            let validators = Validators {
                etag: EntityTag::parse(&tag),
                last_modified: self.last_modified,
                date: now,
            };
            let status = match evaluate(true, fields, &validators) {
                Precondition::Proceed => None,
                Precondition::NotModified => Some(304),
                Precondition::Failed => Some(412),
            };
            if let Some(status) = status {
                return Served {
                    status,
                    head: pair.not_modified.clone(),
                    body: Bytes::new(),
                };
            }
        }
        Served {
            status: self.header.status.as_u16(),
            head: pair.whole.clone(),
            body,
        }
    }

    /// Whether coded forms are to be made; said once.
    #[must_use]
    pub fn begins_coding(&self) -> bool {
        !self.coding_begun.load(Ordering::Relaxed)
            && self.is_compressible()
            && !self.coding_begun.swap(true, Ordering::Relaxed)
    }

    /// Takes the coded forms, if they are not larger than what was reckoned for them.
    pub fn set_coded(&self, coded: Coded) {
        if coded.length() > self.body.len() / CODED_SHARE {
            return;
        }
        // Made once.
        let _ = self.coded.set(coded);
    }

    /// Whether coded forms are there.
    #[must_use]
    pub fn is_coded(&self) -> bool {
        self.coded.get().is_some()
    }

    fn is_compressible(&self) -> bool {
        let media_type = self.header.headers.get(http::header::CONTENT_TYPE);
        let text = media_type.is_some_and(|media_type| {
            let media_type = media_type.as_bytes().to_ascii_lowercase();
            media_type.starts_with(b"text/")
                || [&b"xml"[..], b"json", b"javascript"]
                    .iter()
                    .any(|kind| memchr::memmem::find(&media_type, kind).is_some())
        });
        let headers = &self.header.headers;
        let transform = |line: &http::HeaderValue| {
            memchr::memmem::find(&line.as_bytes().to_ascii_lowercase(), b"no-transform").is_some()
        };
        let stays = headers
            .get_all(http::header::CACHE_CONTROL)
            .iter()
            .any(transform);
        text && !stays && self.header.status == 200 && self.body.len() >= SHORTEST_CODED
    }

    fn heads(&self, now: i64) -> Arc<Heads> {
        let age = u64::try_from(now.saturating_sub(unix(self.born))).unwrap_or(0);
        let is_coded = self.is_coded();
        if let Some(heads) = &*self.heads.load()
            && heads.age == age
            && heads.is_coded == is_coded
        {
            return heads.clone();
        }
        let heads = Arc::new(self.render(age, is_coded));
        self.heads.store(Some(heads.clone()));
        heads
    }

    fn render(&self, age: u64, is_coded: bool) -> Heads {
        let coded = self.coded.get().filter(|_| is_coded);
        let pair = |coding| {
            let body = coded.and_then(|coded| coded.body(coding, &self.body));
            let length = body.map_or(self.body.len(), |body| body.len());
            Pair {
                whole: self.head(age, coding, Some(length)),
                not_modified: self.head(age, coding, None),
            }
        };
        Heads {
            age,
            is_coded,
            identity: pair(Coding::Identity),
            gzip: pair(Coding::Gzip),
            brotli: pair(Coding::Brotli),
        }
    }

    /// A head with this length, or that of a 304 (RFC 9110 §15.4.5: what a 200 would have of a few fields).
    fn head(&self, age: u64, coding: Coding, length: Option<usize>) -> Bytes {
        let status = match length {
            Some(_) => self.header.status,
            None => http::StatusCode::NOT_MODIFIED,
        };
        let reason = status.canonical_reason().unwrap_or("");
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        };
        // In the case that they came in.
        let _ = self.header.map(|name, value| {
            let name = match name {
                HeaderNameVariant::Case(name) => std::str::from_utf8(name.as_slice()).unwrap_or(""),
                HeaderNameVariant::Titled(name) => name,
            };
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let stays = length.is_some() || OF_NOT_MODIFIED.iter().any(|known| is(known));
            if stays && !OURS.iter().any(|ours| is(ours)) {
                line(name, value.as_bytes());
            }
            Ok(())
        });
        line("ETag", &coding.tag(&self.etag));
        line("Vary", &vary(&self.header));
        if let Some(length) = length {
            line("Content-Length", length.to_string().as_bytes());
            if let Some(name) = coding.name() {
                line("Content-Encoding", name.as_bytes());
            }
        }
        if !self
            .header
            .headers
            .contains_key(http::header::CACHE_CONTROL)
            && !self.header.headers.contains_key(http::header::EXPIRES)
        {
            line("Cache-Control", OWN_CACHE_CONTROL.as_bytes());
        }
        line("Age", age.to_string().as_bytes());
        line("Cache-Status", b"Nostat; hit");
        head.into()
    }
}

/// The application's Vary, and what pages depend on here: codings, and who has no cookies that count.
#[must_use]
pub fn vary(header: &ResponseHeader) -> Vec<u8> {
    let mut vary = b"Accept-Encoding, Cookie".to_vec();
    let lines = header.headers.get_all(VARY).into_iter();
    for name in lines.flat_map(|line| crate::request::fields::members(line.as_bytes())) {
        if !name.eq_ignore_ascii_case(b"accept-encoding") && !name.eq_ignore_ascii_case(b"cookie") {
            vary.extend_from_slice(b", ");
            vary.extend_from_slice(name);
        }
    }
    vary
}

/// Whether an entity-tag was made here: the application does not know it.
#[must_use]
pub fn is_own_tag(tag: &[u8]) -> bool {
    tag.strip_prefix(b"\"")
        .is_some_and(|tag| tag.starts_with(OWN_TAG.as_bytes()))
}

/// Whether a page was made later than now: the clock has been set back, and nobody knows how old the page is.
#[must_use]
pub fn is_ahead(born: SystemTime, now: i64) -> bool {
    // Who made it may have read a clock that is exacter.
    unix(born) > now.saturating_add(1)
}

fn unix(time: SystemTime) -> i64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What browsers and caches before this one are told where the application says nothing: they may keep a page, and ask each
/// time whether it is still the same, so that a purge here is seen there.
pub const OWN_CACHE_CONTROL: &str = "public, max-age=0, must-revalidate";
/// The part of a page's length that its coded forms may have together: the first over this.
const CODED_SHARE: usize = 2;
/// How tags made here begin.
const OWN_TAG: &str = "np-";
/// Fields that are said here.
const OURS: [&str; 6] = [
    "date",
    "age",
    "content-length",
    "etag",
    "content-encoding",
    "vary",
];
/// Fields of the application that a 304 repeats.
const OF_NOT_MODIFIED: [&str; 4] = [
    "cache-control",
    "content-location",
    "expires",
    "last-modified",
];
/// Shorter contents do not become shorter.
const SHORTEST_CODED: usize = 512;
/// Seconds until somebody else is told to fetch a page anew.
const RETRY: i64 = 10;
