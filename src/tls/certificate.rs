//! A certificate and its key, from PEM files or made for a trial.

#![expect(
    clippy::disallowed_methods,
    reason = "reads what the settings name, which is no part of a tree"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::clock::UnixTime;

use super::settings::Files;

/// A certificate that can be shown.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The chain, and the key that signs.
    pub key: Arc<CertifiedKey>,
    /// The host names it is for, in lower case; `*.` begins a wildcard.
    pub names: Vec<String>,
    /// When it begins.
    pub begins: UnixTime,
    /// When it ends.
    pub expires: UnixTime,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} {what}", path.display())]
    Wrong {
        /// Which one.
        path: PathBuf,
        /// What it is, or is not.
        what: String,
    },
    /// None could be made.
    #[error("no certificate could be made: {0}")]
    NotMade(String),
}

impl Certificate {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// One of the files cannot be read or holds no such thing, or they do not belong together.
    pub fn read(files: &Files, provider: &CryptoProvider) -> Result<Certificate, CertificateError> {
        let wrong = |path: &Path, what: String| CertificateError::Wrong {
            path: path.to_owned(),
            what,
        };
        let chain = chain_of(&bytes_of(&files.certificate)?);
        let chain = chain.map_err(|what| wrong(&files.certificate, what))?;
        let key = key_of(&bytes_of(&files.key)?).map_err(|what| wrong(&files.key, what))?;
        Certificate::of(chain, key, provider).map_err(|what| wrong(&files.certificate, what))
    }

    /// Reads a certificate, the chain behind it and its key from one file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_whole(
        path: &Path,
        provider: &CryptoProvider,
    ) -> Result<Certificate, CertificateError> {
        let read = Certificate::from_pem(&bytes_of(path)?, provider);
        read.map_err(|what| CertificateError::Wrong {
            path: path.to_owned(),
            what,
        })
    }

    /// The same from the text of such a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_pem(pem: &[u8], provider: &CryptoProvider) -> Result<Certificate, String> {
        Certificate::of(chain_of(pem)?, key_of(pem)?, provider)
    }

    /// Makes one for these names that nobody trusts. An address may be among them.
    ///
    /// # Errors
    /// It could not be made.
    pub fn self_signed(
        names: Vec<String>,
        provider: &CryptoProvider,
    ) -> Result<Certificate, CertificateError> {
        let failed = |what: String| CertificateError::NotMade(what);
        let made =
            rcgen::generate_simple_self_signed(names).map_err(|error| failed(error.to_string()))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        Certificate::of(chain, key.into(), provider).map_err(failed)
    }

    /// Whether it is for this host: by name, or by a wildcard in place of one label (RFC 6125 §6.4.3).
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|name| {
            let wild = name.strip_prefix("*.");
            name == host || (wild.is_some() && wild == parent)
        })
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        provider: &CryptoProvider,
    ) -> Result<Certificate, String> {
        let leaf = chain.first().and_then(|leaf| described(leaf));
        let leaf = leaf.ok_or("is not a certificate of X.509")?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => "and its key do not belong together".to_owned(),
            other => format!("cannot be used: {other}"),
        })?;
        Ok(Certificate {
            key: Arc::new(key),
            names: leaf.names,
            begins: leaf.begins,
            expires: leaf.expires,
        })
    }
}

/// The certificates of authorities in a PEM file.
///
/// # Errors
/// It cannot be read, or holds none.
pub fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    // Whose words are these is said by who asks.
    let bytes = bytes_of(path).map_err(|error| match error {
        CertificateError::Unreadable { source, .. } => source.to_string(),
        CertificateError::Wrong { what, .. } | CertificateError::NotMade(what) => what,
    })?;
    chain_of(&bytes)
}

fn chain_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| format!("is no PEM file: {error}"))?;
    match chain.is_empty() {
        true => Err(NO_CERTIFICATE.to_owned()),
        false => Ok(chain),
    }
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| NO_KEY.to_owned())
}

/// What a certificate says of itself.
struct Leaf {
    names: Vec<String>,
    begins: UnixTime,
    expires: UnixTime,
}

fn described(leaf: &CertificateDer<'_>) -> Option<Leaf> {
    let (_, parsed) = parse_x509_certificate(leaf).ok()?;
    let alternatives = parsed.subject_alternative_name().ok()?;
    let names = alternatives.map(|names| {
        let names = names.value.general_names.iter();
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        names.collect()
    });
    let time = |seconds| UnixTime { seconds, nanos: 0 };
    let validity = parsed.validity();
    Some(Leaf {
        names: names.unwrap_or_default(),
        begins: time(validity.not_before.timestamp()),
        expires: time(validity.not_after.timestamp()),
    })
}

/// A file's bytes, as long as it is no larger than any chain of certificates. A pipe would be waited for, and a device has no end.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let wrong = |what: &str| CertificateError::Wrong {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(wrong("is no regular file"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(wrong("is larger than 1 MiB"));
    }
    fs::read(path).map_err(failed)
}

const MOST_BYTES: u64 = 1 << 20;
const NO_CERTIFICATE: &str = "holds no certificate (-----BEGIN CERTIFICATE-----)";
const NO_KEY: &str = "holds no private key (-----BEGIN PRIVATE KEY-----) that is not encrypted";

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;

    struct Written {
        folder: tempfile::TempDir,
        files: Files,
    }

    fn written(names: &[&str]) -> Written {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("made");
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files {
            certificate: folder.path().join("fullchain.pem"),
            key: folder.path().join("privkey.pem"),
        };
        fs::write(&files.certificate, made.cert.pem()).expect("written");
        fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
        Written { folder, files }
    }

    #[test]
    fn names_and_end_are_known() {
        let written = written(&["Example.com", "*.example.com"]);
        let read = Certificate::read(&written.files, &default_provider()).expect("read");
        assert_eq!(read.names, ["example.com", "*.example.com"]);
        assert!(read.expires.seconds > 1_700_000_000);
        drop(written.folder);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        let (one, other) = (written(&["a.test"]), written(&["b.test"]));
        let said = |certificate: &Path, key: &Path| {
            let files = Files {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            };
            let read = Certificate::read(&files, &default_provider());
            read.map(|_| ()).expect_err("refused").to_string()
        };
        let mixed = said(&one.files.certificate, &other.files.key);
        assert!(mixed.contains("do not belong together"), "{mixed}");
        let swapped = said(&one.files.key, &one.files.certificate);
        assert!(
            swapped.contains("privkey.pem holds no certificate"),
            "{swapped}"
        );
        let no_key = said(&one.files.certificate, &one.files.certificate);
        assert!(
            no_key.contains("fullchain.pem holds no private key"),
            "{no_key}"
        );
        let pipe = one.folder.path().join("pipe.pem");
        let owner = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, owner).expect("made");
        for odd in [&*pipe, Path::new("/dev/zero"), one.folder.path()] {
            assert!(said(odd, &one.files.key).contains("is no regular file"));
            assert!(said(&one.files.certificate, odd).contains("is no regular file"));
            let refused = authorities(odd).expect_err("no file");
            assert_eq!(refused, "is no regular file");
        }
        let gone = one.folder.path().join("gone.pem");
        assert!(said(&gone, &one.files.key).contains("cannot be read"));
    }
}
