//! What is to be forgotten, who may say so, and how plugins say it.
//!
//! Facts about the plugins' requests: Proxy Cache Purge, W3 Total Cache and WP Rocket's Varnish add-on send `PURGE` with the
//! page's path, or with a path ending in `.*` for all below; Nginx Helper sends `GET /purge/…` for a page and
//! `PURGE /purgeall` for everything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::page_cache::key::{bare_host, plain_path};
use crate::page_cache::page::Place;
use crate::page_cache::site_pages::SitePages;
use crate::page_cache::storable::{TAG_FIELDS, words};
use crate::request::fields::{Fields, members};
use crate::request::head::Method;
use crate::request::target::Target;

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Of this site only.
    pub site: Option<Arc<str>>,
    /// Of this host only, on any port; see [`bare_host`].
    pub host: Option<Box<[u8]>>,
    /// Which pages.
    pub what: What,
}

/// Which pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// All of them.
    All,
    /// Those of this path, whatever their query, scheme and device; plain.
    Path(Box<[u8]>),
    /// Those whose plain path begins so.
    Prefix(Box<[u8]>),
    /// Those with any of these words.
    Tags(Vec<Box<[u8]>>),
}

impl Purge {
    /// Whether a page is meant.
    #[must_use]
    pub fn means(&self, place: &Place) -> bool {
        let of_site = self.site.as_ref().is_none_or(|site| *site == place.site);
        let of_host = self
            .host
            .as_ref()
            .is_none_or(|host| **host == *bare_host(&place.host));
        of_site
            && of_host
            && match &self.what {
                What::All => true,
                What::Path(path) => *path == place.path,
                What::Prefix(start) => place.path.starts_with(start),
                // Those of a place are in order.
                What::Tags(tags) => tags.iter().any(|tag| place.tags.binary_search(tag).is_ok()),
            }
    }
}

/// A request to purge.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// What.
    pub purge: Purge,
    /// Whether who asks expects 404 where nothing was kept.
    pub tells_missing: bool,
}

/// Reads a request to purge; none: it is no such request.
pub fn read<F: Fields + ?Sized>(
    pages: &SitePages,
    method: &Method<'_>,
    target: &Target<'_>,
    fields: &F,
    host: &[u8],
) -> Option<Asked> {
    let below = target
        .path
        .strip_prefix(b"/purge/")
        .filter(|_| matches!(method, Method::Get | Method::Head));
    let is_purge = matches!(method, Method::Other("PURGE"));
    if below.is_none() && !is_purge {
        return None;
    }
    let named = ["x-purge-host", "x-vc-purge-host"]
        .into_iter()
        .find_map(|name| fields.first(name));
    let of_host = bare_host(named.unwrap_or(host)).to_ascii_lowercase();
    Some(Asked {
        purge: Purge {
            site: Some(pages.name().clone()),
            host: Some(of_host.into()),
            what: match below {
                Some(below) => What::Path(plain_path(below).into()),
                None => what(target, fields),
            },
        },
        tells_missing: below.is_some(),
    })
}

fn what<F: Fields + ?Sized>(target: &Target<'_>, fields: &F) -> What {
    let lines = TAG_FIELDS
        .iter()
        .chain(&TAGS_TO_PURGE)
        .flat_map(|name| fields.lines(name));
    let tags: Vec<Box<[u8]>> = lines.flat_map(words).map(Into::into).collect();
    if !tags.is_empty() {
        return What::Tags(tags);
    }
    let path = &target.path;
    if **path == *b"/purgeall" {
        return What::All;
    }
    let by_expression = ["x-purge-method", "x-vc-purge-method"]
        .into_iter()
        .any(|name| {
            fields
                .first(name)
                .is_some_and(|value| value.eq_ignore_ascii_case(b"regex"))
        });
    let regex = fields.first("x-purge-regex").is_some();
    match literal_start(path) {
        // Whatever else an expression says, it means some of what begins as it does: that is forgotten.
        Some(start) if path.ends_with(b".*") || by_expression || regex => match plain_path(start) {
            _ if start == b"/" || start.is_empty() => What::All,
            plain => What::Prefix(plain.into()),
        },
        _ if regex => What::All,
        _ => What::Path(plain_path(path).into()),
    }
}

/// What stands before the first sign of a regular expression. None: there is no sign.
fn literal_start(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_prefix(b"^").unwrap_or(path);
    let sign = path
        .iter()
        .position(|byte| b"*+?()[]{}|\\^$".contains(byte))?;
    let start = path.get(..sign).unwrap_or_default();
    // The sign may be about the character before it.
    Some(match path.get(sign) {
        Some(b'*' | b'?' | b'{') => start
            .get(..start.len().saturating_sub(1))
            .unwrap_or_default(),
        _ => start,
    })
}

/// Who sends a request to purge.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// Whether that is a trusted proxy.
    pub is_trusted: bool,
    /// The address that the request came in at.
    pub local: Option<SocketAddr>,
    /// The field in which the site's proxy names the client, beside the usual ones.
    pub ip_field: Option<&'a str>,
}

/// Whether the sender of a request may purge: by the site's token, or by address. A request that was passed on comes from all the
/// addresses that its fields name, and each of them must be one that may; one that was passed on by somebody who is not trusted
/// may not.
pub fn is_allowed<F: Fields + ?Sized>(pages: &SitePages, fields: &F, sender: Sender<'_>) -> bool {
    if let Some(token) = pages.token() {
        let is_borne = fields
            .first("authorization")
            .is_some_and(|value| token.is_borne_by(value));
        let is_said = TOKENS
            .iter()
            .any(|name| fields.first(name).is_some_and(|word| token.is(word)));
        if is_borne || is_said {
            return true;
        }
    }
    let may = |address: IpAddr| {
        let address = address.to_canonical();
        match &pages.rules().purge_from {
            Some(networks) => networks.iter().any(|network| network.contains(&address)),
            // A machine reaches its own public address from that very address.
            None => {
                let own = sender.local.map(|local| local.ip().to_canonical());
                address.is_loopback() || own == Some(address)
            }
        }
    };
    let mut named = PASSED_ON
        .into_iter()
        .chain(sender.ip_field)
        .flat_map(|name| fields.lines(name))
        .flat_map(members)
        .peekable();
    let is_passed_on = SIGNS.iter().any(|name| fields.first(name).is_some())
        || sender
            .ip_field
            .is_some_and(|name| fields.first(name).is_some());
    if !is_passed_on {
        return may(sender.peer);
    }
    let read = |member: &[u8]| std::str::from_utf8(member).ok()?.parse::<IpAddr>().ok();
    // Of a proxy that names nobody it is not known for whom it asks.
    sender.is_trusted
        && fields.first("forwarded").is_none()
        && named.peek().is_some()
        && named.all(|member| read(member).is_some_and(may))
}

/// Fields of a purge that name tags, beside those of answers.
const TAGS_TO_PURGE: [&str; 3] = ["xkey-purge", "x-cache-tag", "cache-tags"];
/// Fields that a token is said in.
const TOKENS: [&str; 3] = ["x-purge-token", "x-purge-key", "x-vc-purge-key"];
/// Fields that only proxies send, beside a site's own.
const SIGNS: [&str; 9] = [
    "x-forwarded-for",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "forwarded",
    "via",
];
/// Fields in which proxies name addresses.
const PASSED_ON: [&str; 4] = [
    "x-forwarded-for",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
];
