//! The way in through TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderValue;
use parking_lot::Mutex;
use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::Stream;
use pingora_core::protocols::l4::stream::Stream as Socket;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::Semaphore;

use super::certificate::{self, Certificate, CertificateError};
use super::names::Names;
use super::ordered::ordered;
use super::settings::{Settings, Version};

/// TLS on one listener. What it has for clients can be replaced while it is open.
pub struct TlsDoor {
    provider: Arc<CryptoProvider>,
    names: Arc<Names>,
    http2: bool,
    acceptor: ArcSwap<Acceptor>,
    shown: Mutex<Shown>,
    places: Semaphore,
    /// What has been counted.
    pub counters: Counters,
}

/// What clients are shown now.
struct Shown {
    settings: Settings,
    chosen: Chosen,
    authorities: Option<Vec<CertificateDer<'static>>>,
}

/// The certificates to choose from.
#[derive(Clone, Default)]
pub(super) struct Chosen {
    pub(super) certificates: Vec<Certificate>,
    /// For hosts whose certificate is ordered and not there yet.
    pub(super) stand_in: Option<Certificate>,
}

impl Chosen {
    fn all(&self) -> impl Iterator<Item = &Certificate> {
        self.certificates.iter().chain(&self.stand_in)
    }
}

/// What a door is to show next.
pub struct Prepared {
    shown: Shown,
    config: Option<Arc<ServerConfig>>,
}

/// Handshakes counted.
#[derive(Debug, Default)]
pub struct Counters {
    done: AtomicU64,
    failed: AtomicU64,
    late: AtomicU64,
    refused: AtomicU64,
}

/// What came of a connection that owed a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// It was not done in time, or did not even begin.
    Late,
    /// There were too many at a time.
    Refused,
}

impl Counters {
    /// Counts one.
    pub fn count(&self, came: Came) {
        let counter = match came {
            Came::Done => &self.done,
            Came::Failed => &self.failed,
            Came::Late => &self.late,
            Came::Refused => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Their numbers, by what came of them.
    pub fn counted(&self) -> [(&'static str, u64); 4] {
        [
            ("done", &self.done),
            ("failed", &self.failed),
            ("late", &self.late),
            ("refused", &self.refused),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// Why the door cannot be opened so.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authorities of clients.
    #[error("client_ca: {0}")]
    ClientCa(String),
    /// The rest.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl TlsDoor {
    /// Opens a door; `http2`: clients may choose it. `hosts` are the names that a self-signed certificate is made for.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it should be.
    pub fn open(settings: &Settings, http2: bool, hosts: &[String]) -> Result<TlsDoor, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let names = Arc::new(Names::default());
        let chosen = choose(settings, hosts, &Chosen::default(), &provider)?;
        let authorities = authorities(settings)?;
        let config = server_config(settings, authorities.as_deref(), http2, &provider, &names)?;
        names.replace(chosen.all());
        Ok(TlsDoor {
            provider,
            names,
            http2,
            acceptor: ArcSwap::from_pointee(Acceptor::from_server_config(config)),
            shown: Mutex::new(Shown {
                settings: settings.clone(),
                chosen,
                authorities,
            }),
            places: Semaphore::new(MOST_HANDSHAKES),
            counters: Counters::default(),
        })
    }

    /// Reads what other settings want, and the certificates again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn prepare(&self, settings: &Settings, hosts: &[String]) -> Result<Prepared, TlsError> {
        let before = self.settings();
        let shown = self.shown.lock().chosen.clone();
        let shown = match before.self_signed {
            true => Chosen {
                stand_in: shown.certificates.into_iter().next(),
                certificates: Vec::new(),
            },
            false => shown,
        };
        let chosen = choose(settings, hosts, &shown, &self.provider)?;
        let authorities = authorities(settings)?;
        let is_same = *settings == before && authorities == self.shown.lock().authorities;
        let config = match is_same {
            true => None,
            false => Some(server_config(
                settings,
                authorities.as_deref(),
                self.http2,
                &self.provider,
                &self.names,
            )?),
        };
        Ok(Prepared {
            shown: Shown {
                settings: settings.clone(),
                chosen,
                authorities,
            },
            config,
        })
    }

    /// Puts in force what was prepared. Connections go on with what they have.
    pub fn put(&self, prepared: Prepared) {
        if let Some(config) = prepared.config {
            self.acceptor
                .store(Arc::new(Acceptor::from_server_config(config)));
        }
        self.names.replace(prepared.shown.chosen.all());
        *self.shown.lock() = prepared.shown;
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.shown.lock().settings.clone()
    }

    /// The names of each certificate, and the second of Unix time when it ends.
    pub fn certificates(&self) -> Vec<(Vec<String>, i64)> {
        let shown = self.shown.lock();
        let told = shown.chosen.certificates.iter();
        told.map(|it| (it.names.clone(), it.expires.seconds))
            .collect()
    }

    /// What `Strict-Transport-Security` says, if anything.
    pub fn hsts(&self) -> Option<HeaderValue> {
        let hsts = self.shown.lock().settings.hsts?;
        HeaderValue::from_str(&format!("max-age={}", hsts.as_secs())).ok()
    }

    /// Handshakes under way.
    pub fn in_flight(&self) -> usize {
        MOST_HANDSHAKES - self.places.available_permits()
    }

    /// Whether places for handshakes are about to run out.
    pub fn is_crowded(&self) -> bool {
        self.in_flight() >= MANY_HANDSHAKES
    }

    /// Does the handshake on a connection of which `read`, its first bytes, have been read already; the client has `patience`
    /// for it. None: it is to be closed.
    pub async fn accept(&self, stream: Stream, read: &[u8], patience: Duration) -> Option<Stream> {
        let mut socket = stream.into_any().downcast::<Socket>().ok()?;
        // So many at a time are more than the processors do in a second: who comes then is told at once.
        let Ok(_place) = self.places.try_acquire() else {
            self.counters.count(Came::Refused);
            return None;
        };
        socket.rewind(read);
        let acceptor = self.acceptor.load_full();
        let (came, stream) =
            match tokio::time::timeout(patience, acceptor.tls_handshake(*socket)).await {
                Ok(Ok(stream)) => (Came::Done, Some(Box::new(stream) as Stream)),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    (Came::Failed, None)
                }
                Err(_) => (Came::Late, None),
            };
        self.counters.count(came);
        stream
    }
}

/// The certificates that these settings want, where `before` were shown until now.
fn choose(
    settings: &Settings,
    hosts: &[String],
    before: &Chosen,
    provider: &CryptoProvider,
) -> Result<Chosen, TlsError> {
    if let Some(acme) = &settings.acme {
        return ordered(acme, before, provider);
    }
    if settings.self_signed {
        // Who has let it pass would be asked again.
        let made = match &before.stand_in {
            Some(made) => made.clone(),
            None => self_signed(hosts, provider)?,
        };
        return Ok(Chosen {
            certificates: vec![made],
            stand_in: None,
        });
    }
    let read = settings
        .certificates
        .iter()
        .map(|files| Certificate::read(files, provider));
    Ok(Chosen {
        certificates: read.collect::<Result<_, _>>()?,
        stand_in: None,
    })
}

/// A certificate made here for these hosts, and for this machine.
pub(super) fn self_signed(
    hosts: &[String],
    provider: &CryptoProvider,
) -> Result<Certificate, CertificateError> {
    let hosts = hosts.iter().filter(|host| !host.starts_with("*."));
    let mut names: Vec<String> = hosts.cloned().collect();
    names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    Certificate::self_signed(names, provider)
}

/// The authorities of clients, where they must bring a certificate.
fn authorities(settings: &Settings) -> Result<Option<Vec<CertificateDer<'static>>>, TlsError> {
    let Some(path) = &settings.client_ca else {
        return Ok(None);
    };
    let read = certificate::authorities(path);
    read.map(Some)
        .map_err(|what| TlsError::ClientCa(format!("{}: {what}", path.display())))
}

/// Sessions begun under other settings are not resumed: who resumes is not asked for a certificate again, so a ticket from
/// before would let in whoever the new authorities do not know.
fn server_config(
    settings: &Settings,
    authorities: Option<&[CertificateDer<'static>]>,
    http2: bool,
    provider: &Arc<CryptoProvider>,
    names: &Arc<Names>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let versions: &[_] = match settings.min {
        Version::Tls12 => &[&rustls::version::TLS12, &rustls::version::TLS13],
        Version::Tls13 => &[&rustls::version::TLS13],
    };
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add(authority.clone())?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| TlsError::ClientCa(error.to_string()))?,
            )
        }
    };
    let mut config = builder.with_cert_resolver(names.clone());
    // Its keys change every six hours.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    config.alpn_protocols = match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(Arc::new(config))
}

/// Handshakes at a time, for each listener.
const MOST_HANDSHAKES: usize = 1024;
const MANY_HANDSHAKES: usize = MOST_HANDSHAKES - MOST_HANDSHAKES / 8;
/// Sessions of TLS 1.2 clients that take no tickets.
const SESSIONS: usize = 4096;
