//! What `listen: [{tls: …}]` says.

use std::path::PathBuf;
use std::time::Duration;

/// How TLS is spoken on a listener.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Certificates with their keys; the first is for clients that name no host, or none of these.
    pub certificates: Vec<Files>,
    /// A certificate made at start, for trials: no client trusts it. Default: no.
    pub self_signed: bool,
    /// The oldest version spoken. Default: 1.2.
    pub min: Version,
    /// Authorities, in a PEM file: clients must bring a certificate of one of them. Default: none is asked for.
    pub client_ca: Option<PathBuf>,
    /// How long browsers are to use nothing but https for the host (RFC 6797). Default: they are told nothing.
    pub hsts: Option<Duration>,
}

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate and the chain behind it, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}
