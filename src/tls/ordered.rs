//! Certificates that are ordered: those that are there, and another one in place of those that are not.

use std::io::ErrorKind;

use rustls::crypto::CryptoProvider;

use super::certificate::{Certificate, CertificateError};
use super::door::{Chosen, TlsError, self_signed};
use super::settings::Acme;

/// The certificates of these hosts. One that is not there, or cannot be used, gives way to what was shown for its host `before`,
/// and where there was none to a self-signed one: the server starts, and goes on, whatever has become of an order.
pub(super) fn ordered(
    acme: &Acme,
    before: &Chosen,
    provider: &CryptoProvider,
) -> Result<Chosen, TlsError> {
    let (mut certificates, mut missing) = (Vec::new(), Vec::new());
    for host in &acme.hosts {
        let kept = || before.certificates.iter().find(|kept| kept.is_for(host));
        match read(acme, host, provider).or_else(|| kept().cloned()) {
            Some(certificate) => certificates.push(certificate),
            None => missing.push(host.clone()),
        }
    }
    let stand_in = match &before.stand_in {
        _ if missing.is_empty() => None,
        Some(made) if missing.iter().all(|host| made.is_for(host)) => Some(made.clone()),
        _ => Some(self_signed(&missing, provider)?),
    };
    Ok(Chosen {
        certificates,
        stand_in,
    })
}

fn read(acme: &Acme, host: &str, provider: &CryptoProvider) -> Option<Certificate> {
    let path = acme.file(host);
    match Certificate::read_whole(&path, provider) {
        Ok(certificate) if certificate.is_for(host) => Some(certificate),
        Ok(_) => {
            tracing::warn!("{} is for another host, and not used", path.display());
            None
        }
        Err(CertificateError::Unreadable { source, .. })
            if source.kind() == ErrorKind::NotFound =>
        {
            None
        }
        Err(error) => {
            tracing::warn!("an ordered certificate cannot be used: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::crypto::ring::default_provider;

    use super::*;

    fn put(acme: &Acme, host: &str, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("made");
        let text = made.cert.pem() + &made.signing_key.serialize_pem();
        fs::create_dir_all(acme.folder()).expect("made");
        fs::write(acme.file(host), text).expect("written");
    }

    fn shown(chosen: &Chosen) -> (Vec<&str>, bool) {
        let names = chosen.certificates.iter();
        let names = names.flat_map(|certificate| &certificate.names);
        (
            names.map(String::as_str).collect(),
            chosen.stand_in.is_some(),
        )
    }

    #[test]
    fn what_is_there_is_shown_and_nothing_good_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let acme = Acme {
            directory: "https://ca.test/dir".to_owned(),
            hosts: ["a.test", "b.test"].map(String::from).to_vec(),
            dir: folder.path().join("acme"),
            ..Acme::default()
        };
        let provider = default_provider();
        let look = |before: &Chosen| ordered(&acme, before, &provider).expect("some");
        let nothing = look(&Chosen::default());
        assert_eq!(shown(&nothing), (vec![], true));
        let made = nothing.stand_in.clone().expect("one");
        assert!(acme.hosts.iter().all(|host| made.is_for(host)));

        put(&acme, "a.test", "a.test");
        let one = look(&nothing);
        assert_eq!(shown(&one), (vec!["a.test"], true));
        let kept = one.stand_in.as_ref().expect("one");
        assert!(std::sync::Arc::ptr_eq(&kept.key, &made.key), "asked again");

        put(&acme, "b.test", "b.test");
        let both = look(&one);
        assert_eq!(shown(&both), (vec!["a.test", "b.test"], false));

        // Broken, of another name, gone: what was there stays.
        fs::write(acme.file("a.test"), "-----BEGIN").expect("written");
        assert_eq!(shown(&look(&both)), (vec!["a.test", "b.test"], false));
        put(&acme, "a.test", "c.test");
        assert_eq!(shown(&look(&both)), (vec!["a.test", "b.test"], false));
        fs::remove_file(acme.file("a.test")).expect("there");
        assert_eq!(shown(&look(&both)), (vec!["a.test", "b.test"], false));
        // A process that has just started has nothing to keep.
        assert_eq!(shown(&look(&Chosen::default())), (vec!["b.test"], true));
    }
}
