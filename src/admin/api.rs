//! The admin endpoints.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::access::{self, Peer};
use super::cache::{self, Query};
use super::{exposition, overview, status_page};
use crate::signals::Order;
use crate::snapshot::State;
use crate::token::Token;

/// What the endpoints answer from.
pub struct Api {
    state: Arc<State>,
    orders: UnboundedSender<Order>,
}

impl Api {
    /// The endpoints of this process.
    pub fn new(state: Arc<State>, orders: UnboundedSender<Order>) -> Arc<Api> {
        Arc::new(Api { state, orders })
    }

    /// Answers a request, if its sender may ask that.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        token: Option<&Token>,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Err(status) = access::check(peer, request.method(), path, request.headers(), token) {
            let asks_for_token = get && path == "/" && token.is_some();
            return match status {
                // A browser cannot say it by itself: the page, which knows nothing yet, asks for it.
                StatusCode::UNAUTHORIZED if asks_for_token => page(status),
                _ => refused(status),
            };
        }
        let post = *request.method() == Method::POST;
        match request.uri().path() {
            "/" if get => page(StatusCode::OK),
            "/overview" if get => self.overview().await,
            "/healthz" if get => text(StatusCode::OK, "ok\n".into()),
            "/readyz" if get => self.ready(),
            "/metrics" if get => self.metrics().await,
            "/reload" if post => self.reload().await,
            "/upgrade" if post => self.upgrade().await,
            "/cache" if get => {
                let (state, query) = (self.state.clone(), Query::parse(request.uri().query()));
                // The table's locks are taken one after the other.
                let listed = tokio::task::spawn_blocking(move || cache::list(&state, &query)).await;
                listed.map_or_else(|error| told(Err(failed(&error))), told)
            }
            "/cache/entry" if get => {
                told(cache::entry(&self.state, &Query::parse(request.uri().query())).await)
            }
            "/cache/purge" if post => {
                told(cache::purge(&self.state, &Query::parse(request.uri().query())).await)
            }
            "/cache/warm" if post => {
                told(cache::warm(&self.state, &Query::parse(request.uri().query())).await)
            }
            "/" | "/overview" | "/healthz" | "/readyz" | "/metrics" | "/cache" | "/cache/entry" => {
                not_allowed("GET, HEAD")
            }
            "/reload" | "/upgrade" | "/cache/purge" | "/cache/warm" => not_allowed("POST"),
            _ => text(StatusCode::NOT_FOUND, "no such endpoint\n".into()),
        }
    }

    /// Ready while connections are accepted and no stop was ordered.
    fn ready(&self) -> Response<Full<Bytes>> {
        if self.state.lifecycle.draining() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".into());
        }
        text(StatusCode::OK, "ready\n".into())
    }

    async fn overview(&self) -> Response<Full<Bytes>> {
        let state = Arc::clone(&self.state);
        let made = tokio::task::spawn_blocking(move || overview::overview(&state)).await;
        let made = made.map(|value| (StatusCode::OK, value));
        let mut response = told(made.map_err(|error| failed(&error)));
        set_own(&mut response);
        response
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        let state = Arc::clone(&self.state);
        // Counting the table's entries takes its locks one after the other.
        let rendered = tokio::task::spawn_blocking(move || exposition::render(&state)).await;
        match rendered {
            Ok(rendered) => {
                let mut response = text(StatusCode::OK, rendered);
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }

    /// Waits for the reload: 200, or 422 with what is wrong.
    async fn reload(&self) -> Response<Full<Bytes>> {
        let (tell, told) = oneshot::channel();
        if self.orders.send(Order::Reload(Some(tell))).is_err() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".into());
        }
        match told.await {
            Ok(Ok(())) => text(StatusCode::OK, "reloaded\n".into()),
            Ok(Err(why)) => text(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".into()),
        }
    }

    /// Waits until another process serves: 200 with its number; or 422 with why this one goes on.
    async fn upgrade(&self) -> Response<Full<Bytes>> {
        let (tell, told) = oneshot::channel();
        if self.orders.send(Order::Upgrade(tell)).is_err() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".into());
        }
        match told.await {
            Ok(Ok(process)) => text(StatusCode::OK, format!("process {process} serves\n")),
            Ok(Err(why)) => text(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")),
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".into()),
        }
    }
}

fn refused(status: StatusCode) -> Response<Full<Bytes>> {
    let why = match status {
        StatusCode::UNAUTHORIZED => {
            "expected Authorization: Bearer and the word of admin.token_file\n"
        }
        _ => "expected an address or localhost as Host\n",
    };
    let mut response = text(status, why.into());
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

fn page(status: StatusCode) -> Response<Full<Bytes>> {
    let (page, policy) = status_page::page();
    let mut response = text(status, page);
    set_own(&mut response);
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    let none = HeaderValue::from_static("no-referrer");
    headers.insert(REFERRER_POLICY, none);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// No other site's page may use it, nor a browser take it for something else.
fn set_own(response: &mut Response<Full<Bytes>>) {
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    let own = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(own, HeaderValue::from_static("same-origin"));
}

fn told(told: Result<cache::Told, cache::Told>) -> Response<Full<Bytes>> {
    let (status, value) = told.unwrap_or_else(|wrong| wrong);
    let mut response = text(status, format!("{value:#}\n"));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn failed(error: &tokio::task::JoinError) -> cache::Told {
    let why = serde_json::json!({ "error": error.to_string() });
    (StatusCode::INTERNAL_SERVER_ERROR, why)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("expected {allowed}\n"),
    );
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
