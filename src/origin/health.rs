//! Whether a peer is well, asked of it by a request of our own.

use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_load_balancing::Backend;
use pingora_load_balancing::health_check::{self, HttpHealthCheck};

use crate::origin::peer::Peer;
use crate::origin::pool::KnownPeers;
use crate::origin::settings;

/// Pingora's check with a time limit for the whole of it, and with its findings told to the [`Peer`].
pub struct Check {
    http: HttpHealthCheck,
    settings: settings::HealthCheck,
    known: KnownPeers,
}

impl Check {
    /// The check of these peers, asking for `host` where the settings name none.
    ///
    /// # Errors
    /// The path or the host cannot stand in a request.
    pub fn new(settings: &settings::HealthCheck, host: &str, known: KnownPeers) -> Result<Check> {
        let host = settings.host.as_deref().unwrap_or(host);
        let mut request = RequestHeader::build("GET", settings.path.as_bytes(), None)?;
        request.append_header("Host", host)?;
        request.append_header("User-Agent", "nostat-health")?;
        request.append_header("Connection", "close")?;
        let mut http = HttpHealthCheck::new("", false);
        http.req = request;
        http.consecutive_failure = settings.unhealthy;
        http.consecutive_success = settings.healthy;
        http.peer_template.options.connection_timeout = Some(settings.timeout);
        http.peer_template.options.read_timeout = Some(settings.timeout);
        http.validator = Some(Box::new(is_well));
        Ok(Check {
            http,
            settings: settings.clone(),
            known,
        })
    }

    fn peer(&self, backend: &Backend) -> Option<Arc<Peer>> {
        let address = backend.addr.as_inet()?;
        self.known.load().get(address).cloned()
    }
}

/// A redirect is an answer too: WordPress sends one to whoever asks for another host than its own.
fn is_well(head: &ResponseHeader) -> Result<()> {
    match head.status.as_u16() {
        200..=399 => Ok(()),
        status => Error::e_explain(
            ErrorType::CustomCode("status", status),
            "the health check was answered so",
        ),
    }
}

#[async_trait]
impl health_check::HealthCheck for Check {
    async fn check(&self, target: &Backend) -> Result<()> {
        // Pingora limits each read alone: a peer that drips would hold up the round for all.
        let checked = tokio::time::timeout(self.settings.timeout, self.http.check(target)).await;
        checked.unwrap_or_else(|_| Error::e_explain(ErrorType::ReadTimedout, "health check"))?;
        if let Some(peer) = self.peer(target) {
            peer.answered();
        }
        Ok(())
    }

    async fn health_status_change(&self, target: &Backend, healthy: bool) {
        if let Some(peer) = self.peer(target) {
            peer.checked(!healthy);
        }
    }

    fn health_threshold(&self, success: bool) -> usize {
        self.http.health_threshold(success)
    }
}
