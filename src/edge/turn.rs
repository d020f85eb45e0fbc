//! What the bytes read so far ask for: the decision on one request, without writing a byte.

use std::future::Future;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use crate::clock::UnixTime;
use crate::edge::compressing;
use crate::edge::date::Persistence;
use crate::edge::handed::{Handed, Inward, head_for_origin, head_for_php};
use crate::edge::handed_stream::OnEnd;
use crate::edge::listener::Arrival;
use crate::edge::log_entry::LogEntry;
use crate::edge::pages::{self, PurgeAsked, Way};
use crate::edge::per_address::Place;
use crate::edge::tunnel::{self, Grant};
use crate::fastcgi::ClientAbort;
use crate::limited::Limit;
use crate::metrics::Kind;
use crate::page_cache::storage::Fill;
use crate::page_cache::{Bypass, purge};
use crate::rate_limits::{Asker, TooMany};
use crate::request::authority::Authority;
use crate::request::client::{Client, FORWARDED_FIELDS, identify};
use crate::request::fields::Fields as _;
use crate::request::head::{
    Framing, HeadError, HeadScan, MAX_FIELDS, Method, Parsed, RequestHead, Version, parse_resumed,
};
use crate::request::target::Target;
use crate::site::auth::User;
use crate::site::redirect_hosts::{is_challenge, location};
use crate::site::response::{healthy, method_not_allowed, redirect};
use crate::site::{
    Answer, Backend, Body, Decision, Request, Sendfile, StaticSite, local_answer, too_many_requests,
};
use crate::snapshot::Snapshot;

/// What the bytes read so far ask for.
pub enum Turn {
    /// The head is not complete.
    Incomplete,
    /// An answer that is made here.
    Answer(Answered),
    /// A request for Pingora.
    Lend(Box<Lent>),
    /// An answer that is made here of a page that is to be fetched anew.
    Renew(Box<(Answered, Lent)>),
    /// Pages are to be forgotten, then it is answered how many.
    Purge(Box<(purge::Asked, Answered)>),
}

/// An answer that is made here, and what comes after it.
pub struct Answered {
    /// Who has answered.
    pub kind: Kind,
    /// The answer.
    pub answer: Answer,
    /// Bytes of the request's head.
    pub head: usize,
    /// What becomes of its body.
    pub rest: Rest,
    /// What becomes of the connection.
    pub persistence: Persistence,
    /// Which files leave by sendfile.
    pub sendfile: Sendfile,
    /// The log line's first half, when a log is written.
    pub log: Option<LogEntry>,
}

/// What becomes of the body of a request that was answered without it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// There is none.
    Nothing,
    /// So many bytes are read and dropped: less than a new connection costs.
    Skip(u64),
    /// The connection is closed after the answer.
    Close,
}

/// A request for Pingora.
pub struct Lent {
    /// Bytes of the head in the buffer.
    pub head: usize,
    /// The head that Pingora reads.
    pub lent_head: Bytes,
    /// How its body is framed.
    pub framing: Framing,
    /// What the client's end means.
    pub on_end: OnEnd,
    /// All else that is known of it.
    pub handed: Handed,
}

/// The circumstances of a request.
pub struct Asked<'a> {
    /// The settings in force.
    pub snapshot: &'a Arc<Snapshot>,
    /// Now, in Unix time.
    pub now: UnixTime,
    /// Where the connection comes from, and how.
    pub arrival: &'a Arrival,
    /// Whether it came by HTTP/2.
    pub http2: bool,
    /// The address it came in at.
    pub local: &'a (dyn Fn() -> Option<SocketAddr> + Sync),
    /// Whether the connection ends with this request, whatever the client wants.
    pub is_last: bool,
    /// Whether the process is about to end.
    pub draining: bool,
}

impl Asked<'_> {
    /// Decides without waiting: `Pending` when the cache has not all that is needed.
    pub fn decide_now(&self, scan: &mut HeadScan, buffer: &[u8]) -> Poll<Turn> {
        if buffer.is_empty() {
            return Poll::Ready(Turn::Incomplete);
        }
        let decision = pin!(self.decide(scan, buffer));
        decision.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Reads a head and decides what it gets. May be dropped and started again; `scan` remembers how far was looked.
    pub async fn decide(&self, scan: &mut HeadScan, buffer: &[u8]) -> Turn {
        let snapshot = self.snapshot;
        let started = snapshot.access_log.enabled().then(Instant::now);
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let limits = &snapshot.head_limits;
        let (head, length) = match parse_resumed(scan, buffer, &mut fields, limits) {
            Ok(Parsed::Incomplete) => return Turn::Incomplete,
            Ok(Parsed::Complete { head, length }) => (head, length),
            Err(error) => {
                if let Some(limit) = limit_of(&error) {
                    snapshot.limited.count(limit);
                }
                return Turn::Answer(self.refused(error.status(), buffer));
            }
        };
        let mut seen = Seen {
            asked: self,
            buffer,
            head: &head,
            length,
            site: None,
            user: None,
            started,
        };
        if head.method == Method::Connect {
            return seen.refuse(405);
        }
        let Ok(target) = Target::parse(&head.method, head.target) else {
            return seen.refuse(400);
        };
        // Before all that a site says of its requests: it is the machine that is asked.
        if matches!(head.method, Method::Get | Method::Head)
            && let Some(proof) = snapshot.challenges.answer(&target.path)
        {
            return seen.answer(Kind::Static, seen.as_asked(proof));
        }
        let host = target.authority.or(head.host);
        let Some(site) = snapshot.sites.select(host) else {
            return seen.refuse(421);
        };
        seen.site = Some(site);
        if let Some(health) = &site.settings().health
            && *target.path == *health.as_bytes()
        {
            return seen.health();
        }
        let place = self.arrival.place.as_ref();
        if place.is_some_and(|place| seen.is_one_too_many(place)) {
            return seen.too_many_connections();
        }
        let host = host.unwrap_or_default();
        let peer = self.arrival.peer.ip();
        match pages::purge_asked(
            site,
            &head,
            &target,
            host,
            peer,
            || seen.client(),
            self.local,
        ) {
            None => {}
            Some(PurgeAsked::Refused) => return seen.refuse(403),
            Some(PurgeAsked::Allowed(asked)) => return seen.purge(asked),
        }
        if let Some(hosts) = site.redirect_hosts()
            && hosts.sends_on(host, &target)
        {
            let client = seen.client();
            let answer = hosts.answer(&target, client.https, seen.public_port(&client));
            return seen.answer(Kind::Static, seen.as_asked(answer));
        }
        if self.arrival.listener.redirects
            && let Some(answer) = seen.to_https(host, &target)
        {
            return seen.answer(Kind::Static, seen.as_asked(answer));
        }
        let request = Request {
            method: head.method,
            target: &target,
            fields: &head,
            conditional: head.conditional,
            now: self.now,
        };
        let (inward, client) = match site.decide_for(&request, &mut seen.user).await {
            Decision::Answer(answer) => return seen.answer_limited(Kind::Static, answer, &target),
            Decision::Script(script) => {
                let client = seen.client();
                match site.page(&request, &script, host, client.https).await {
                    Some(answer) => return seen.answer_limited(Kind::Page, answer, &target),
                    None => (Inward::Php(script), client),
                }
            }
            Decision::Origin => (Inward::Origin, seen.client()),
        };
        let script = match &inward {
            Inward::Php(script) => Some(&*script.script_name),
            Inward::Origin => None,
        };
        let asker = || seen.asker(&client);
        let limits = &snapshot.rate_limits;
        if let Err(many) = limits.application(&target.path, script, &head, asker) {
            return seen.too_many(many);
        }
        let most = site.settings().max_body.unwrap_or(snapshot.limits.max_body);
        if matches!(head.framing, Framing::Length(body) if body > most) {
            snapshot.limited.count(Limit::MaxBody);
            return seen.refuse(413);
        }
        let asked = pages::Seen {
            head: &head,
            target: &target,
            host,
            client: &client,
            port: match site.pages() {
                Some(_) if !client.https => (self.local)().map(|local| local.port()),
                _ => None,
            },
            now: self.now.seconds,
        };
        let lending = Lending {
            seen: &seen,
            asked: &asked,
            site,
            host,
        };
        let tunnel = matches!(inward, Inward::Origin) && tunnel::is_asked(&head);
        let way = match (tunnel, &seen.user) {
            (true, _) => Way::Pass(None),
            // What asks for a password is kept for nobody.
            (false, Some(_)) => Way::Pass(asked.bypass_for_user(site)),
            (false, None) => asked.ask(snapshot.pages, site, &inward),
        };
        // A page that is kept starts nothing.
        if !matches!(way, Way::Page(..))
            && let Err(many) = limits.start(asker)
        {
            return seen.too_many(many);
        }
        let (fill, bypass) = match way {
            Way::Page(answer, refresh) => {
                let refresh = refresh.and_then(|fill| lending.lent(inward, Some(fill), None));
                return match (seen.answered(Kind::Page, answer), refresh) {
                    (answered, Some(lent)) => Turn::Renew(Box::new((answered, lent))),
                    (answered, None) => Turn::Answer(answered),
                };
            }
            Way::Fill(fill) => (Some(fill), None),
            Way::Pass(bypass) => (None, bypass),
        };
        match lending.lent(inward, fill, bypass) {
            Some(lent) => Turn::Lend(Box::new(lent)),
            None => seen.refuse(414),
        }
    }

    /// The answer to something that is no request, or cannot be taken for one; the last on its connection.
    pub fn refused(&self, status: u16, read: &[u8]) -> Answered {
        self.snapshot.unplaced.count(Kind::Refused, status);
        let log = self
            .snapshot
            .access_log
            .enabled()
            .then(|| LogEntry::unreadable(self.arrival.peer.ip(), Instant::now()));
        let mut answer = local_answer(status);
        if read.trim_ascii_start().starts_with(b"HEAD ") {
            answer.body = Body::Empty;
        }
        Answered {
            kind: Kind::Refused,
            answer,
            head: 0,
            rest: Rest::Close,
            persistence: Persistence::Close,
            sendfile: Sendfile::Off,
            log,
        }
    }
}

/// The limit that a head has met.
fn limit_of(error: &HeadError) -> Option<Limit> {
    match error {
        HeadError::TargetTooLong => Some(Limit::Url),
        HeadError::TooManyFields => Some(Limit::Headers),
        HeadError::TooLarge => Some(Limit::HeadSize),
        _ => None,
    }
}

/// What a request that is lent is made of.
struct Lending<'a> {
    seen: &'a Seen<'a>,
    asked: &'a pages::Seen<'a>,
    site: &'a Arc<StaticSite>,
    host: &'a [u8],
}

impl Lending<'_> {
    /// The request for whoever answers; none: its target is longer than Pingora takes.
    fn lent(
        &self,
        inward: Inward,
        fill: Option<Box<Fill>>,
        bypass: Option<Bypass>,
    ) -> Option<Lent> {
        let (seen, site, target) = (self.seen, self.site, self.asked.target);
        let (head, raw) = (
            seen.head,
            seen.buffer.get(..seen.length).unwrap_or_default(),
        );
        let own_ip_field = site.settings().client_ip_header.as_deref();
        let lent_head = match (&fill, &inward) {
            (Some(fill), _) => self.asked.head_for_page(fill, &inward, own_ip_field),
            (None, Inward::Php(_)) => head_for_php(head, raw),
            (None, Inward::Origin) => head_for_origin(head, target)?,
        };
        let is_refresh = fill.as_ref().is_some_and(|fill| fill.is_refresh);
        let (origin_form, query, host) = match &fill {
            Some(fill) => {
                let target = &fill.key.target;
                let query = memchr::memchr(b'?', target).and_then(|at| target.get(at + 1..));
                (Bytes::copy_from_slice(target), query, &*fill.place.host)
            }
            None => (
                Bytes::copy_from_slice(&target.origin_form()),
                target.query,
                self.host,
            ),
        };
        let tunnel = matches!(inward, Inward::Origin) && tunnel::is_asked(head);
        let tunnel = tunnel.then(Grant::default);
        let log = match is_refresh {
            true => None,
            false => seen.log(self.asked.client.address),
        };
        Some(Lent {
            head: seen.length,
            lent_head,
            framing: head.framing,
            on_end: match &site.settings().backend {
                Backend::Php(php) if php.client_abort == ClientAbort::Close => OnEnd::Abort,
                _ => OnEnd::Answer,
            },
            handed: Handed {
                log: log.map(|entry| (entry, Bytes::copy_from_slice(raw))),
                snapshot: seen.asked.snapshot.clone(),
                site: site.clone(),
                inward,
                client: *self.asked.client,
                peer: seen.asked.arrival.peer.ip(),
                local: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                target: origin_form,
                query: query.map(Bytes::copy_from_slice),
                host: Bytes::copy_from_slice(host),
                http2: seen.asked.http2,
                hsts: seen.asked.arrival.hsts.clone(),
                http10: head.version == Version::Http10 && !is_refresh,
                user: seen.user.clone(),
                expect_continue: head.expect_continue && head.version == Version::Http11,
                tunnel,
                close: seen.persistence() == Persistence::Close || is_refresh,
                fill,
                bypass,
                coding: match is_refresh || head.version == Version::Http10 {
                    true => None,
                    false => compressing::wished(&site.settings().compression, head),
                },
                answered_here: Arc::default(),
                cut: Arc::default(),
            },
        })
    }
}

/// A request whose head has been read.
struct Seen<'a> {
    asked: &'a Asked<'a>,
    /// The bytes that the head was read from.
    buffer: &'a [u8],
    head: &'a RequestHead<'a, 'a>,
    length: usize,
    /// The site that it is for, once that is known.
    site: Option<&'a StaticSite>,
    /// Who has proved to be a user.
    user: Option<User>,
    /// When the deciding began; taken only for a log.
    started: Option<Instant>,
}

impl Seen<'_> {
    fn persistence(&self) -> Persistence {
        if !self.head.keep_alive || self.asked.is_last {
            Persistence::Close
        } else if self.head.version == Version::Http10 {
            Persistence::Stated
        } else {
            Persistence::Implied
        }
    }

    fn count(&self, kind: Kind, status: u16) {
        let requests = self.site.map(StaticSite::requests);
        let unplaced = &self.asked.snapshot.unplaced;
        requests.unwrap_or(unplaced).count(kind, status);
    }

    fn answer(&self, kind: Kind, answer: Answer) -> Turn {
        Turn::Answer(self.answered(kind, answer))
    }

    fn answered(&self, kind: Kind, answer: Answer) -> Answered {
        self.count(kind, answer.status);
        let rest = match self.head.framing {
            Framing::None | Framing::Length(0) => Rest::Nothing,
            Framing::Length(length) if length <= SKIPPED_BODY && !self.head.expect_continue => {
                Rest::Skip(length)
            }
            Framing::Length(_) | Framing::Chunked => Rest::Close,
        };
        Answered {
            kind,
            answer,
            head: self.length,
            rest,
            persistence: match rest {
                Rest::Close => Persistence::Close,
                _ => self.persistence(),
            },
            sendfile: self
                .site
                .map_or(Sendfile::Off, |site| site.settings().sendfile),
            log: self.log_for_peer(),
        }
    }

    /// An answer to a request that may be one too many of its kind.
    fn answer_limited(&self, kind: Kind, answer: Answer, target: &Target<'_>) -> Turn {
        let limits = &self.asked.snapshot.rate_limits;
        let result = match answer.status {
            404 => {
                let client = self.client();
                limits.missing(self.head, || self.asker(&client))
            }
            _ if limits.mean_files() => {
                let client = self.client();
                limits.file(&target.path, self.head, || self.asker(&client))
            }
            _ => Ok(()),
        };
        match result {
            Ok(()) => self.answer(kind, answer),
            Err(many) => self.too_many(many),
        }
    }

    fn asker<'a>(&self, client: &'a Client) -> Asker<'a> {
        Asker {
            client,
            peer: self.asked.arrival.peer.ip(),
        }
    }

    /// Whether the connection is one too many of its address. It does not count any more once it speaks for others.
    fn is_one_too_many(&self, place: &Place) -> bool {
        if !place.is_taken() {
            return false;
        }
        let client = self.client();
        if client.trusted_peer && client.address != self.asked.arrival.peer.ip().to_canonical() {
            place.give_back();
            return false;
        }
        let most = self.asked.snapshot.limits.connections_per_address;
        most.is_some_and(|most| place.count() > most)
    }

    fn too_many_connections(&self) -> Turn {
        let limited = &self.asked.snapshot.limited;
        limited.count(Limit::ConnectionsPerAddress);
        self.refuse(429)
    }

    /// The request is one too many.
    fn too_many(&self, many: TooMany) -> Turn {
        self.asked.snapshot.limited.count(Limit::RateLimits);
        let answer = too_many_requests(many.seconds());
        self.answer(Kind::Refused, self.as_asked(answer))
    }

    /// What the site's `health` says: not in the access log, which would be full of it.
    fn health(&self) -> Turn {
        let answer = match self.head.method {
            Method::Get | Method::Head if self.asked.draining => local_answer(503),
            Method::Get | Method::Head => healthy(),
            _ => method_not_allowed(),
        };
        Turn::Answer(Answered {
            log: None,
            ..self.answered(Kind::Static, self.as_asked(answer))
        })
    }

    fn as_asked(&self, answer: Answer) -> Answer {
        match self.head.method {
            Method::Head => answer.without_body(),
            _ => answer,
        }
    }

    /// The same by https, on the port that is usual; none: that is how it has come, or a certificate authority asks.
    fn to_https(&self, host: &[u8], target: &Target<'_>) -> Option<Answer> {
        if is_challenge(target) || target.is_asterisk() || self.client().https {
            return None;
        }
        let host = Authority::parse(host)?.host;
        let status = match self.head.method {
            Method::Get | Method::Head => 301,
            // The method and the body must stay.
            _ => 308,
        };
        Some(redirect(status, &location(true, host, None, target)))
    }

    /// The port that the client has connected to, as far as it is known: what a trusted proxy says of its own, ours where the
    /// client came straight to us.
    fn public_port(&self, client: &Client) -> Option<u16> {
        let passed_on = FORWARDED_FIELDS
            .into_iter()
            .any(|name| self.head.first(name).is_some());
        if client.trusted_peer && passed_on {
            return client.server_port;
        }
        (self.asked.local)().map(|local| local.port())
    }

    /// Pages to be forgotten.
    fn purge(&self, asked: purge::Asked) -> Turn {
        // Only the answer is still to come.
        let answered = self.answered(Kind::Page, local_answer(204));
        Turn::Purge(Box::new((asked, answered)))
    }

    /// An error after which the connection is closed.
    fn refuse(&self, status: u16) -> Turn {
        self.count(Kind::Refused, status);
        Turn::Answer(Answered {
            kind: Kind::Refused,
            answer: self.as_asked(local_answer(status)),
            head: self.length,
            rest: Rest::Close,
            persistence: Persistence::Close,
            sendfile: Sendfile::Off,
            log: self.log_for_peer(),
        })
    }

    fn client(&self) -> Client {
        let arrival = self.asked.arrival;
        let client = identify(
            arrival.peer,
            arrival.tls(),
            self.head,
            &self.asked.snapshot.trusted,
            self.site
                .and_then(|site| site.settings().client_ip_header.as_deref()),
        );
        // Without a word on it from a proxy in front.
        let connected_to = || match arrival.told.and_then(|told| told.client) {
            Some(ends) => Some(ends.destination.port()),
            None if arrival.listener.tls.is_some() => {
                (self.asked.local)().map(|local| local.port())
            }
            None => None,
        };
        Client {
            server_port: client.server_port.or_else(connected_to),
            ..client
        }
    }

    fn log_for_peer(&self) -> Option<LogEntry> {
        self.started?;
        self.log(self.client().address)
    }

    fn log(&self, client: IpAddr) -> Option<LogEntry> {
        self.started.map(|started| {
            let entry = LogEntry::of(self.head, self.buffer, client, started);
            let entry = entry.by(self.user.as_ref());
            match self.asked.http2 {
                true => entry.over_http2(),
                false => entry,
            }
        })
    }
}

/// A body up to this length is read and dropped when its request was answered without it; beyond it the connection is
/// closed instead.
const SKIPPED_BODY: u64 = 64 * 1024;

#[cfg(test)]
mod tests;
