//! What `listen: [{tls: …}]` says.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// How TLS is spoken on a listener.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Certificates with their keys; the first is for clients that name no host, or none of these.
    pub certificates: Vec<Files>,
    /// A certificate made at start, for trials: no client trusts it. Default: no.
    pub self_signed: bool,
    /// Certificates that are ordered of an authority, and renewed, by this process. Default: none is.
    pub acme: Option<Acme>,
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

/// What is ordered by ACME (RFC 8555), and where of. Each host gets a certificate of its own, so that one that cannot be had
/// stops no other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Acme {
    /// An e-mail address by which the authority may reach the administrator. Default: none.
    pub contact: Option<String>,
    /// The URL of the authority's directory (§7.1.1). Default: Let's Encrypt.
    pub directory: String,
    /// Authorities that the directory's own certificate may be of, in a PEM file. Default: those of the machine.
    pub ca: Option<PathBuf>,
    /// The host names, in lower case. Default: all names of the sites that can be proved.
    pub hosts: Vec<String>,
    /// Where accounts, certificates and keys are kept, of all authorities.
    pub dir: PathBuf,
}

impl Acme {
    /// The folder of this authority: what one has issued is not shown in the name of another.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let url = self.directory.strip_prefix("https://");
        let url = url.unwrap_or(&self.directory);
        let name = utf8_percent_encode(url, NOT_IN_NAMES).to_string();
        self.dir.join(name)
    }

    /// The file of a host's certificate, the chain behind it and its key, all of it PEM: it is replaced as one.
    #[must_use]
    pub fn file(&self, host: &str) -> PathBuf {
        self.folder().join(format!("{host}.pem"))
    }
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

/// Everything but letters, digits and what names of hosts are made of beside them.
const NOT_IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_authority_has_a_folder_of_its_own_below_the_one_for_all() {
        let folder = |directory: &str| {
            let acme = Acme {
                directory: directory.to_owned(),
                dir: "/var/lib/nostat/acme".into(),
                ..Acme::default()
            };
            acme.file("www.example.com")
        };
        let expected = "/var/lib/nostat/acme/ca.test%3A14000%2Fdir/www.example.com.pem";
        assert_eq!(folder("https://ca.test:14000/dir"), PathBuf::from(expected));
        assert_ne!(
            folder("https://ca.test/a/b"),
            folder("https://ca.test/a%2Fb")
        );
    }
}
