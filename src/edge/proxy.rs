//! Pingora's side of a lent request: its body is taken in, PHP-FPM or the origin asked, the answer passed on, a line logged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use pingora_cache::key::CacheKey;
use pingora_cache::{CacheMeta, ForcedFreshness, HitHandler, NoCacheReason, RespCacheable};
use pingora_core::modules::http::HttpModules;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, HttpProxy, ProxyHttp, ProxyWarnLogContext, RangeType, Session};

use crate::edge::attempts::{Attempts, Circumstances};
use crate::edge::caching;
use crate::edge::close_delimited::CloseDelimited;
use crate::edge::compressing::{Compressing, Compressor};
use crate::edge::failure::{CLIENT_GONE, cause_of, limit_of, status_error, status_of};
use crate::edge::handed::{Handed, Inward};
use crate::edge::http2_head::Lending;
use crate::edge::log_entry::Outcome;
use crate::edge::rendered::{answer_locally, stay_with_https};
use crate::edge::seen_before_the_end::SeenBeforeTheEnd;
use crate::edge::tunnel::Grant;
use crate::edge::{compressing, intake, upstream_request, upstream_response};
use crate::fastcgi::session::{Responder, ResponderRequest};
use crate::fastcgi::spool;
use crate::fastcgi::trace::Trace;
use crate::hot_paths::Sighting;
use crate::metrics::Kind;
use crate::page_cache::PageOutcome;
use crate::page_cache::page::is_ahead;
use crate::page_cache::storable::Refusal;
use crate::rate_limits::Asker;
use crate::request::accept_encoding::Coding;
use crate::request::secret_arguments::hidden;
use crate::site::Backend;
use crate::snapshot::State;

/// Pingora's proxy with PHP-FPM as one of its upstream protocols.
pub type Door = HttpProxy<Proxy, Responder>;

/// The filters of a lent request.
pub struct Proxy {
    state: Arc<State>,
}

/// A request on its way through Pingora.
#[derive(Default)]
pub struct Passage {
    handed: Option<Box<Handed>>,
    /// The whole body, for PHP.
    body: Option<spool::Body>,
    /// Bytes of the body passed on to an origin so far.
    body_bytes: u64,
    /// Where it has been at an origin.
    attempts: Attempts,
    /// What FastCGI did.
    trace: Option<Arc<Trace>>,
    started: Option<tokio::time::Instant>,
    upstream_done: Option<Duration>,
    /// Why its answer does not become a page.
    refusal: Option<Refusal>,
    /// The fields of an answer that has confirmed an old page.
    confirmed: Option<HeaderMap>,
    /// The coding in the client's tags.
    tagged: Option<Coding>,
}

impl Proxy {
    /// Filters over the process' state.
    pub fn new(state: Arc<State>) -> Proxy {
        Proxy { state }
    }
}

impl Passage {
    fn handed(&self) -> Result<&Handed> {
        self.handed.as_deref().ok_or_else(not_from_the_lane)
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = Passage;

    fn init_downstream_modules(&self, modules: &mut HttpModules) {
        modules.add_module(Box::new(CloseDelimited));
        modules.add_module(Box::new(Compressing));
        modules.add_module(Box::new(SeenBeforeTheEnd(self.state.cache.clone())));
    }

    fn new_ctx(&self) -> Passage {
        Passage::default()
    }

    /// The lane's word on this request arrives as the connection's context.
    fn on_connection_reuse(
        &self,
        session: &mut Session,
        passage: &mut Passage,
        context: Box<dyn std::any::Any + Send + Sync>,
    ) {
        if let Ok(handed) = context.downcast::<Handed>() {
            if handed.close {
                session.set_keepalive(None);
            }
            passage.handed = Some(handed);
            passage.started = Some(tokio::time::Instant::now());
        }
    }

    async fn request_filter(&self, session: &mut Session, passage: &mut Passage) -> Result<bool> {
        if passage.handed.is_none() {
            passage.handed = Lending::take_from(session.req_header_mut());
            passage.started = Some(tokio::time::Instant::now());
        }
        passage.handed()?;
        Ok(false)
    }

    /// Takes the body in whole before a PHP worker is taken: PHP would run the script on a cut body, and a slow upload
    /// would hold a worker.
    async fn proxy_upstream_filter(
        &self,
        session: &mut Session,
        passage: &mut Passage,
    ) -> Result<bool> {
        let handed = passage.handed()?;
        if handed.http10 {
            session.set_ignore_info_resp(true);
        }
        if handed.expect_continue && !session.is_body_empty() {
            session.write_continue_response().await?;
            // Pingora takes the body that is still to come for a reason to close.
            if !handed.close {
                session.set_keepalive(Some(0));
            }
        }
        if matches!(handed.inward, Inward::Php(_)) {
            let most = handed.most_body();
            let patience = handed.snapshot.limits.for_body();
            let body = intake::take_body(session, &self.state, most, patience).await?;
            passage.body = Some(body);
        }
        Ok(true)
    }

    async fn upstream_peer(&self, _: &mut Session, passage: &mut Passage) -> Result<Box<HttpPeer>> {
        let handed = passage.handed.as_deref().ok_or_else(not_from_the_lane)?;
        match (&handed.inward, &handed.site.settings().backend) {
            (Inward::Php(_), Backend::Php(php)) => Responder::peer(&php.address),
            (Inward::Origin, _) => {
                let (origin, pool) = handed.origin()?;
                let now = self.state.clock.now();
                let address = passage.attempts.next(pool, handed.client.address, now)?;
                // The body may be sent once more.
                passage.body_bytes = 0;
                Ok(Box::new(origin.http_peer(address, handed.tunnel.is_some())))
            }
            _ => Err(Error::explain(ErrorType::InternalError, "no such upstream")),
        }
    }

    async fn upstream_request_filter(
        &self,
        _: &mut Session,
        request: &mut RequestHeader,
        passage: &mut Passage,
    ) -> Result<()> {
        let handed = passage.handed()?;
        if handed.fill.is_some() {
            caching::forget_own_tag(request);
        }
        passage.tagged = match handed.site.settings().compression.dynamic {
            true => compressing::unmark_tags(request)?,
            false => None,
        };
        let handed = passage.handed()?;
        match &handed.inward {
            Inward::Origin => upstream_request::for_origin(handed, request),
            Inward::Php(script) => {
                let body = passage.body.clone().unwrap_or_else(spool::Body::empty);
                let asked = upstream_request::for_php(&self.state, handed, script, request, body)?;
                passage.trace = Some(asked.trace());
                request
                    .extensions_mut()
                    .insert(ResponderRequest::new(asked));
                Ok(())
            }
        }
    }

    /// The body's limit, where it is passed on while it comes.
    async fn request_body_filter(
        &self,
        _: &mut Session,
        body: &mut Option<Bytes>,
        _: bool,
        passage: &mut Passage,
    ) -> Result<()> {
        let handed = passage.handed()?;
        if handed.tunnel.as_ref().is_some_and(Grant::is_given) {
            return Ok(());
        }
        let most = handed.most_body();
        passage.body_bytes += body.as_ref().map_or(0, |piece| piece.len() as u64);
        if passage.body_bytes > most {
            return Err(status_error(413, "the request body is too large"));
        }
        Ok(())
    }

    /// Read your writes: what the application changed before it answered is seen by whoever has its answer.
    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        passage: &mut Passage,
    ) -> Result<()> {
        self.state.cache.take_in_events().await;
        passage.attempts.answered();
        let handed = passage.handed()?;
        if matches!(handed.inward, Inward::Origin) {
            upstream_response::of_origin(response);
        }
        upstream_response::judge_switch(handed, response)?;
        if response.status == http::StatusCode::NOT_FOUND {
            handed.snapshot.rate_limits.was_missing(Asker {
                client: &handed.client,
                peer: handed.peer,
            });
        }
        if handed.fill.is_some() && response.status == http::StatusCode::NOT_MODIFIED {
            // A page keeps the tag of its content.
            response.remove_header(&http::header::ETAG);
            passage.confirmed = Some(response.headers.clone());
        }
        let method = &session.req_header().method;
        let now = self.state.clock.unix();
        caching::forget_changed(self.state.pages, passage.handed()?, method, response, now).await;
        Ok(())
    }

    /// Only a request that fills a page has to do with Pingora's cache.
    fn request_cache_filter(&self, session: &mut Session, passage: &mut Passage) -> Result<()> {
        if passage.handed()?.fill.is_some() {
            caching::enable(session, self.state.pages);
        }
        Ok(())
    }

    fn cache_key_callback(&self, _: &Session, passage: &mut Passage) -> Result<CacheKey> {
        let fill = passage.handed()?.fill.as_ref();
        fill.map(|fill| fill.cache_key())
            .ok_or_else(|| Error::explain(ErrorType::InternalError, "a key for no page"))
    }

    /// A page that is fetched anew is the very one that is to be replaced. One of a time that has not come yet counts as old.
    async fn cache_hit_filter(
        &self,
        _: &mut Session,
        page: &CacheMeta,
        _: &mut HitHandler,
        _: bool,
        passage: &mut Passage,
    ) -> Result<Option<ForcedFreshness>> {
        let is_refresh = passage
            .handed()?
            .fill
            .as_ref()
            .is_some_and(|fill| fill.is_refresh);
        if is_refresh {
            return Ok(Some(ForcedFreshness::ForceExpired));
        }
        let now = self.state.clock.unix();
        let is_ahead = is_ahead(page.epoch(), now.seconds);
        Ok(is_ahead.then(|| ForcedFreshness::ForceExpiredServeStale {
            expired_at: Some(now.system()),
        }))
    }

    fn response_cache_filter(
        &self,
        _: &Session,
        response: &ResponseHeader,
        passage: &mut Passage,
    ) -> Result<RespCacheable> {
        let Some(fill) = passage.handed()?.fill.as_ref() else {
            return Ok(RespCacheable::Uncacheable(NoCacheReason::NeverEnabled));
        };
        // Pingora takes over but a few of them.
        let renewed = passage.confirmed.as_ref();
        let renewed = renewed.map(|by| caching::renewed(response, by));
        let response = renewed.as_ref().unwrap_or(response);
        let (judged, refusal) =
            caching::judged(self.state.pages, fill, response, self.state.clock.unix());
        passage.refusal = refusal;
        Ok(judged)
    }

    /// Preconditions are for pages in memory, which are answered before this.
    fn cache_not_modified_filter(
        &self,
        _: &Session,
        _: &ResponseHeader,
        _: &mut Passage,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Asked only where the cache takes part: pages are sent whole.
    fn range_header_filter(
        &self,
        _: &mut Session,
        _: &mut ResponseHeader,
        _: &mut Passage,
    ) -> RangeType {
        RangeType::None
    }

    fn should_serve_stale(
        &self,
        session: &mut Session,
        passage: &mut Passage,
        error: Option<&Error>,
    ) -> bool {
        let fill = passage
            .handed()
            .ok()
            .and_then(|handed| handed.fill.as_ref());
        let may = fill.is_some_and(|fill| caching::may_send_stale(fill, error));
        if may && error.is_some_and(|error| !matches!(error.etype(), ErrorType::HTTPStatus(_))) {
            // Pingora closes the connection then, and the client is to know.
            session.set_keepalive(None);
        }
        may
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        passage: &mut Passage,
    ) -> Result<()> {
        if !response.status.is_informational() {
            let handed = passage.handed()?;
            let settings = &handed.site.settings().compression;
            let is_head = session.req_header().method == http::Method::HEAD;
            let compressor = Compressor::begin(settings, handed.coding, is_head, response)?;
            compressing::mark_confirmed(response, passage.tagged)?;
            compressing::compress(session, compressor);
        }
        // Without a length an HTTP/1.0 client sees the answer's end by the connection's: see `close_delimited`.
        let ends_by_close =
            passage.handed()?.http10 && !response.headers.contains_key("content-length");
        if ends_by_close || self.state.lifecycle.draining() {
            session.set_keepalive(None);
        }
        stay_with_https(response, passage.handed()?.hsts.as_ref())?;
        caching::tell(session, passage.handed()?, passage.refusal, response)
    }

    fn response_body_filter(
        &self,
        _: &mut Session,
        _: &mut Option<Bytes>,
        end: bool,
        passage: &mut Passage,
    ) -> Result<Option<Duration>> {
        if end {
            passage.upstream_done = passage.started.map(|started| started.elapsed());
        }
        Ok(None)
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        passage: &mut Passage,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some((origin, pool)) = passage.handed.as_deref().and_then(|it| it.origin().ok()) {
            let now = self.state.clock.now();
            passage
                .attempts
                .not_connected(pool, origin, now, &mut error);
        }
        error
    }

    /// FastCGI has done its own retries.
    fn error_while_proxy(
        &self,
        _: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        passage: &mut Passage,
        reused: bool,
    ) -> Box<Error> {
        let Some((_, pool)) = passage.handed.as_deref().and_then(|it| it.origin().ok()) else {
            error.set_retry(false);
            return error;
        };
        let of = Circumstances {
            now: self.state.clock.now(),
            reused,
            may_repeat: session.req_header().method.is_idempotent()
                && session.response_written().is_none()
                && !session.as_ref().retry_buffer_truncated(),
        };
        passage.attempts.failed(pool, of, &mut error);
        error
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        passage: &mut Passage,
    ) -> FailToProxy {
        let status = status_of(error);
        if error.esource() != &ErrorSource::Downstream {
            let target = passage.handed().map(|handed| hidden(&handed.target));
            let target = target.unwrap_or_default();
            let target = target.escape_ascii();
            let method = &session.req_header().method;
            tracing::warn!(status, "{method} {target}: {}", cause_of(error));
        }
        if let Some(limit) = limit_of(error) {
            self.state.limited.count(limit);
        }
        let begun = session.response_written().is_some_and(is_final);
        if begun && let Ok(handed) = passage.handed() {
            handed.cut.store(true, Ordering::Relaxed);
        }
        if status == CLIENT_GONE || begun {
            return FailToProxy {
                error_code: status,
                can_reuse_downstream: false,
            };
        }
        let goes_on = error.esource() != &ErrorSource::Downstream
            && session.is_body_done()
            && session.get_keepalive().is_some()
            && !self.state.lifecycle.draining();
        if !goes_on {
            session.set_keepalive(None);
        }
        if answer_locally(session, status).await.is_ok()
            && goes_on
            && let Ok(handed) = passage.handed()
        {
            handed.answered_here.store(true, Ordering::Relaxed);
        }
        FailToProxy {
            error_code: status,
            can_reuse_downstream: false,
        }
    }

    fn suppress_proxy_warn_log(
        &self,
        _: &Session,
        _: &Passage,
        _: &Error,
        context: ProxyWarnLogContext,
    ) -> bool {
        // A peer that goes out is said once; one request each few seconds then meets it.
        context == ProxyWarnLogContext::UpstreamRetry
    }

    fn suppress_error_log(&self, _: &Session, _: &Passage, _: &Error) -> bool {
        // fail_to_proxy has said it, once and with the right level.
        true
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, passage: &mut Passage) {
        let Some(handed) = &passage.handed else {
            return;
        };
        caching::let_others_fill(session);
        let status = match (session.response_written(), error) {
            (Some(header), None) => header.status.as_u16(),
            (Some(header), Some(error)) if status_of(error) != CLIENT_GONE => {
                header.status.as_u16()
            }
            (_, Some(error)) => status_of(error),
            (None, None) => 0,
        };
        let mut kind = match &handed.inward {
            Inward::Php(_) => Kind::Php,
            Inward::Origin => Kind::Origin,
        };
        let mut cache = handed.bypass.map_or("-", |_| PageOutcome::Bypass.logged());
        if let Some(fill) = &handed.fill {
            if fill.is_refresh {
                fill.pages
                    .counters()
                    .refresh(error.is_none() && status < 500);
                return;
            }
            let (outcome, answered_by) = caching::outcome(session, kind);
            fill.pages.counters().outcome(outcome);
            (kind, cache) = (answered_by, outcome.logged());
        }
        handed.site.requests().count(kind, status);
        let (name, took) = match &handed.inward {
            Inward::Php(_) => (
                "php",
                passage.trace.as_ref().and_then(|trace| trace.ended()),
            ),
            Inward::Origin => ("origin", passage.upstream_done),
        };
        if let Some(started) = passage.started {
            let elapsed = started.elapsed();
            self.state.durations.count(kind, elapsed);
            if kind != Kind::Page {
                let (host, target) = (&handed.host, &handed.target);
                let sighting = Sighting::of_target(host, target, kind, status);
                // Without the time that a slow client takes.
                let took = took.unwrap_or(elapsed);
                let now = self.state.clock.now();
                self.state.hot_paths.answered_behind(took, now, &sighting);
            }
        }
        let Some((log, head)) = &handed.log else {
            return;
        };
        let micros = took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        log.write(
            &handed.snapshot.access_log,
            head,
            self.state.clock.unix(),
            Outcome {
                status,
                body_bytes: session.body_bytes_sent() as u64,
                cache,
                upstream: (kind != Kind::Page).then_some((name, micros)),
            },
        );
    }
}

fn not_from_the_lane() -> Box<Error> {
    Error::explain(ErrorType::InternalError, "a request not from the lane")
}

/// Nothing of ours can follow such a head: 101 begins a tunnel.
fn is_final(header: &ResponseHeader) -> bool {
    !header.status.is_informational() || header.status == http::StatusCode::SWITCHING_PROTOCOLS
}
