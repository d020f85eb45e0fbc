//! Which certificate a client is shown.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// Certificates by the names they are for. Others can be put in place of them at any time; handshakes under way keep theirs.
#[derive(Debug, Default)]
pub struct Names(ArcSwap<Table>);

#[derive(Debug, Default)]
struct Table {
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By what follows the first label.
    wildcards: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// All of them, in order; the first is for whoever names no host, or none of these.
    all: Vec<Arc<CertifiedKey>>,
}

impl Names {
    /// Puts these in place of those before.
    pub fn replace<'c>(&self, certificates: impl IntoIterator<Item = &'c Certificate>) {
        let mut table = Table::default();
        for certificate in certificates {
            for name in &certificate.names {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut table.wildcards, parent),
                    None => (&mut table.exact, name.as_str()),
                };
                names
                    .entry(name.to_owned())
                    .or_default()
                    .push(certificate.key.clone());
            }
            table.all.push(certificate.key.clone());
        }
        self.0.store(Arc::new(table));
    }

    /// The certificate for a host that signs by one of these schemes: exact names before wildcards (one label, RFC 6125
    /// §6.4.3), the first listed before others.
    fn choose(&self, host: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let table = self.0.load();
        let signs = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let for_host = host.and_then(|host| {
            // Not in a name that is sent (RFC 6066 §3), but in some that are.
            let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            let exact = table.exact.get(&host);
            let wildcard = || table.wildcards.get(host.split_once('.')?.1);
            exact.or_else(wildcard)?.iter().find(signs)
        });
        let chosen = for_host.or_else(|| table.all.iter().find(signs));
        chosen.or(table.all.first()).cloned()
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = hello.server_name();
        self.choose(host, hello.signature_schemes())
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;

    const SCHEMES: &[SignatureScheme] = &[
        SignatureScheme::ECDSA_NISTP256_SHA256,
        SignatureScheme::RSA_PSS_SHA256,
    ];

    #[test]
    fn exact_names_then_wildcards_of_one_label_then_the_first() {
        let certificate = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Certificate::self_signed(names, &default_provider()).expect("made")
        };
        let (first, exact) = (
            certificate(&["first.test"]),
            certificate(&["www.shop.test"]),
        );
        let wild = certificate(&["*.shop.test", "shop.test"]);
        let names = Names::default();
        assert!(names.choose(Some("first.test"), SCHEMES).is_none());
        names.replace(&[first.clone(), wild.clone(), exact.clone()]);
        for (host, expected) in [
            (Some("www.shop.test"), &exact),
            (Some("WWW.Shop.Test"), &exact),
            (Some("www.shop.test."), &exact),
            (Some("img.shop.test."), &wild),
            (Some("."), &first),
            (Some("img.shop.test"), &wild),
            (Some("shop.test"), &wild),
            (Some("a.b.shop.test"), &first),
            (Some("other.test"), &first),
            (Some("test"), &first),
            (None, &first),
        ] {
            let chosen = names.choose(host, SCHEMES).expect("one");
            assert!(Arc::ptr_eq(&chosen, &expected.key), "{host:?}");
        }
        names.replace(&[wild]);
        let chosen = names.choose(Some("first.test"), SCHEMES).expect("one");
        assert!(!Arc::ptr_eq(&chosen, &first.key), "the old one is gone");
    }
}
