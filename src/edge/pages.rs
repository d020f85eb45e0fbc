//! What the page cache says to a request, before Pingora is asked.

use bytes::Bytes;

use crate::edge::handed::{Inward, push_escaped};
use crate::page_cache::page::{Age, Served};
use crate::page_cache::site_pages::{Bypass, PageRequest};
use crate::page_cache::storage::Fill;
use crate::page_cache::{PageOutcome, PageStore};
use crate::request::client::Client;
use crate::request::fields::Fields as _;
use crate::request::forwarded;
use crate::request::head::{Framing, Method, RequestHead};
use crate::request::target::Target;
use crate::site::{Answer, Body, Cached, Preset, StaticSite, local_answer};

/// What becomes of a request that PHP or an origin would answer.
pub enum Way {
    /// A page is sent; with it goes a request that fetches it anew, where one is due.
    Page(Answer, Option<Box<Fill>>),
    /// It fills a page: the application is asked as for everybody.
    Fill(Box<Fill>),
    /// It is passed on as it is.
    Pass(Option<Bypass>),
}

/// A request whose head was read.
pub struct Seen<'a> {
    /// The head.
    pub head: &'a RequestHead<'a, 'a>,
    /// Its target.
    pub target: &'a Target<'a>,
    /// The host asked for.
    pub host: &'a [u8],
    /// Who asks.
    pub client: &'a Client,
    /// The port that it came in at, where the application is told that.
    pub port: Option<u16>,
    /// The second of Unix time.
    pub now: i64,
}

impl Seen<'_> {
    /// Notes that a user's request passes by the page cache, where the site has one.
    pub fn bypass_for_user(&self, site: &StaticSite) -> Option<Bypass> {
        let pages = site.pages()?;
        pages.counters().bypass(Bypass::Field);
        Some(Bypass::Field)
    }

    /// Asks the page cache of a site, if it has one and whoever answers makes pages.
    pub fn ask(&self, store: &PageStore, site: &StaticSite, inward: &Inward) -> Way {
        let Some(pages) = site.pages() else {
            return Way::Pass(None);
        };
        let pass = |why| {
            pages.counters().bypass(why);
            Way::Pass(Some(why))
        };
        if !makes_pages(site.settings().preset, inward, self.target) {
            return pass(Bypass::Path);
        }
        let key = match pages.key(&self.request()) {
            Ok(key) => key,
            Err(why) => return pass(why),
        };
        let fill = |key| {
            let since = store.purges_so_far();
            Box::new(Fill::new(
                pages,
                key,
                self.host,
                self.client.https,
                since,
                self.now,
            ))
        };
        if let Some(page) = store.get(&key.text) {
            if key.left_out.is_some() && page.header.status.is_redirection() {
                // It leads on without what the visitor came with.
                return pass(Bypass::Query);
            }
            let (outcome, is_due) = match page.age(self.now) {
                Age::Fresh => (PageOutcome::Hit, false),
                Age::Stale(is_due) => (PageOutcome::Stale, is_due),
                Age::Old => return Way::Fill(fill(key)),
            };
            store.compress(&page);
            pages.counters().outcome(outcome);
            let served = page.serve(self.head, self.head.conditional, self.now);
            let refresh = is_due.then(|| {
                let mut fill = fill(key);
                fill.is_refresh = true;
                fill
            });
            return Way::Page(self.answer(served, outcome), refresh);
        }
        if store.is_refused(&key.text, self.now) {
            return pass(Bypass::NotStorable);
        }
        Way::Fill(fill(key))
    }

    /// What a trusted proxy has said, as it was understood: what it passes on of its clients' own words is theirs alone.
    fn forwarded(
        &self,
        fill: &Fill,
        client_ip_header: Option<&str>,
        mut line: impl FnMut(&str, &[u8]),
    ) {
        let said = |name| self.head.first(name).is_some();
        if said("x-forwarded-proto") {
            let scheme = if self.client.https { "https" } else { "http" };
            line("X-Forwarded-Proto", scheme.as_bytes());
        }
        if said("x-forwarded-port")
            && let Some(port) = self.client.server_port
        {
            line("X-Forwarded-Port", port.to_string().as_bytes());
        }
        if said("x-forwarded-host") {
            line("X-Forwarded-Host", &fill.place.host);
        }
        let address = self.client.address.to_string();
        for name in ["x-forwarded-for", "x-real-ip"]
            .into_iter()
            .chain(client_ip_header)
        {
            if !said(name) {
                continue;
            }
            if name.eq_ignore_ascii_case(forwarded::NAME) {
                line(
                    name,
                    &forwarded::rendered(self.client.address, self.client.https),
                );
            } else {
                line(name, address.as_bytes());
            }
        }
    }

    fn request(&self) -> PageRequest<'_, RequestHead<'_, '_>> {
        PageRequest {
            method: self.head.method,
            target: self.target,
            fields: self.head,
            host: self.host,
            https: self.client.https,
            port: self.client.server_port.or(self.port),
            trusted_peer: self.client.trusted_peer,
            has_body: self.head.framing != Framing::None || self.head.expect_continue,
        }
    }

    fn answer(&self, served: Served, outcome: PageOutcome) -> Answer {
        let answer = match served.status {
            412 => local_answer(412),
            status => Answer {
                status,
                head: served.head,
                body: match served.body.is_empty() {
                    true => Body::Empty,
                    false => Body::Memory(served.body),
                },
                outcome: None,
            },
        };
        let answer = match self.head.method {
            Method::Head => answer.without_body(),
            _ => answer,
        };
        Answer {
            outcome: Some(Cached::Page(outcome)),
            ..answer
        }
    }

    /// The head that Pingora reads of a request that fills a page: for this request's method and version, with the fields
    /// that all such requests have, and those of trusted proxies.
    pub fn head_for_page(
        &self,
        fill: &Fill,
        inward: &Inward,
        client_ip_header: Option<&str>,
    ) -> Bytes {
        let method = if fill.is_refresh {
            "GET"
        } else {
            self.head.method.as_str()
        };
        let mut lent = Vec::with_capacity(512);
        lent.extend_from_slice(method.as_bytes());
        lent.push(b' ');
        match inward {
            Inward::Php(_) => lent.push(b'/'),
            Inward::Origin => push_escaped(&mut lent, &fill.key.target),
        }
        lent.push(b' ');
        let version = if fill.is_refresh {
            "HTTP/1.1"
        } else {
            self.head.version.as_str()
        };
        lent.extend_from_slice(version.as_bytes());
        lent.extend_from_slice(b"\r\n");
        let mut line = |name: &str, value: &[u8]| {
            for text in [name.as_bytes(), b": ", value, b"\r\n"] {
                lent.extend_from_slice(text);
            }
        };
        line("Host", &fill.place.host);
        if !fill.is_refresh
            && self.head.version == crate::request::head::Version::Http10
            && self.head.keep_alive
        {
            line("Connection", b"keep-alive");
        }
        for (name, value) in fill.pages.fields_seen(self.head, fill.key.is_mobile) {
            line(name, value);
        }
        if self.client.trusted_peer {
            self.forwarded(fill, client_ip_header, line);
        }
        lent.extend_from_slice(b"\r\n");
        lent.into()
    }
}

/// Whether who answers makes pages: the front controller does, scripts that are asked for by name do not.
fn makes_pages(preset: Preset, inward: &Inward, target: &Target<'_>) -> bool {
    match inward {
        Inward::Origin => true,
        Inward::Php(script) => {
            let is_index = match preset {
                Preset::Wordpress => script.script_name == b"/index.php",
                Preset::Php | Preset::Static => script.script_name.ends_with(b"/index.php"),
            };
            is_index
                && script.path_info.is_empty()
                && script.query.is_none()
                && !target.path.to_ascii_lowercase().ends_with(b".php")
        }
    }
}

/// Whether a site's page cache is to be purged by a request, and may be.
pub enum PurgeAsked {
    /// It is.
    Allowed(crate::page_cache::purge::Asked),
    /// Its sender may not.
    Refused,
}

/// Reads a request to purge. None: it is another request.
pub fn purge_asked(
    site: &StaticSite,
    head: &RequestHead<'_, '_>,
    target: &Target<'_>,
    host: &[u8],
    peer: std::net::IpAddr,
    client: impl FnOnce() -> Client,
    local: impl FnOnce() -> Option<std::net::SocketAddr>,
) -> Option<PurgeAsked> {
    use crate::page_cache::purge;
    let pages = site.pages()?;
    let asked = purge::read(pages, &head.method, target, head, host)?;
    let sender = purge::Sender {
        peer,
        is_trusted: client().trusted_peer,
        local: local(),
        ip_field: site.settings().client_ip_header.as_deref(),
    };
    match purge::is_allowed(pages, head, sender) {
        true => Some(PurgeAsked::Allowed(asked)),
        // A page of that name may be meant.
        false if asked.tells_missing => None,
        false => Some(PurgeAsked::Refused),
    }
}

/// The answer to a purge of this many pages.
#[must_use]
pub fn purged(count: u64, tells_missing: bool) -> Answer {
    if count == 0 && tells_missing {
        return local_answer(404);
    }
    let body = format!("{count} purged\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n",
        body.len()
    );
    Answer {
        status: 200,
        head: head.into(),
        body: Body::Memory(body.into()),
        outcome: None,
    }
}
