//! `ssl_…` of a server block: the certificates it shows, the versions it speaks, and whether it asks its clients for one.

use super::inherited::Inherited;
use super::note::Notes;
use super::yaml;

/// How a block speaks TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates and their keys, as absolute paths.
    pub certificates: Vec<(String, String)>,
    /// Whether nothing older than TLS 1.3 is spoken.
    pub only_13: bool,
    /// Whether clients must bring a certificate.
    pub client: ClientCertificate,
    /// What `http2` says, where it is there.
    pub http2: Option<bool>,
}

/// What a block asks its clients for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Nothing.
    #[default]
    NotAsked,
    /// A certificate of an authority in this file.
    Of(String),
    /// One that is judged in a way that cannot be said here.
    Otherwise,
}

/// Reads what counts in a block that has an address with TLS.
pub fn read(scope: &Inherited, notes: &mut Notes) -> Tls {
    Tls {
        certificates: certificates(scope, notes),
        only_13: only_13(scope, notes),
        client: client(scope, notes),
        http2: scope.get("http2").map(|http2| http2.arg(0) == "on"),
    }
}

/// The seconds of a `Strict-Transport-Security` that says nothing else, of the list that counts in a block.
#[must_use]
pub fn hsts(scope: &Inherited) -> Option<u64> {
    let mut said = scope
        .list("add_header")
        .iter()
        .filter(|header| is_hsts(header.arg(0)));
    let (only, None) = (said.next()?, said.next()) else {
        return None;
    };
    let value = only.arg(1).trim().trim_end_matches(';').trim_end();
    let (name, seconds) = value.split_once('=')?;
    let seconds: u64 = seconds.trim().trim_matches('"').parse().ok()?;
    let is_said_here =
        name.trim().eq_ignore_ascii_case("max-age") && (1..=MOST_HSTS).contains(&seconds);
    is_said_here.then_some(seconds)
}

/// Whether this is the name of that field.
#[must_use]
pub fn is_hsts(name: &str) -> bool {
    name.eq_ignore_ascii_case("Strict-Transport-Security")
}

fn certificates(scope: &Inherited, notes: &mut Notes) -> Vec<(String, String)> {
    let (certificates, keys) = (
        scope.list("ssl_certificate"),
        scope.list("ssl_certificate_key"),
    );
    let mut found = Vec::new();
    for (index, certificate) in certificates.iter().enumerate() {
        let key = keys.get(index).map(|key| key.arg(0));
        match (file(certificate.arg(0)), key.and_then(file)) {
            (Some(certificate), Some(key)) => found.push((certificate, key)),
            _ => notes.left_out(
                certificate,
                "listen",
                "certificate and key are files with absolute paths: put them into certificates: [{certificate, key}]",
            ),
        }
    }
    found
}

fn only_13(scope: &Inherited, notes: &mut Notes) -> bool {
    let Some(protocols) = scope.get("ssl_protocols") else {
        return false;
    };
    let says = |name: &str| {
        let mut words = protocols.args.iter();
        words.any(|word| word.eq_ignore_ascii_case(name))
    };
    let is_spoken = |word: &String| {
        word.eq_ignore_ascii_case("TLSv1.2") || word.eq_ignore_ascii_case("TLSv1.3")
    };
    if !protocols.args.iter().all(is_spoken) {
        notes.note(protocols, "listen", "nothing older than TLS 1.2 is spoken");
    } else if !says("TLSv1.3") {
        notes.note(protocols, "listen", "TLS 1.3 is always spoken, too");
    }
    says("TLSv1.3") && protocols.args.len() == 1
}

fn client(scope: &Inherited, notes: &mut Notes) -> ClientCertificate {
    let Some(verify) = scope.get("ssl_verify_client") else {
        return ClientCertificate::NotAsked;
    };
    match verify.arg(0) {
        "off" => ClientCertificate::NotAsked,
        "on" => {
            let is_judged_further = ["ssl_crl", "ssl_ocsp"]
                .iter()
                .filter_map(|name| scope.get(name))
                .any(|further| further.arg(0) != "off");
            let authorities = scope.get("ssl_client_certificate");
            match authorities.and_then(|authorities| file(authorities.arg(0))) {
                Some(authorities) if !is_judged_further => ClientCertificate::Of(authorities),
                _ => ClientCertificate::Otherwise,
            }
        }
        _ => {
            let said =
                "a certificate of the client is asked for or not (client_ca), and not told to PHP";
            notes.left_out(verify, "listen", said);
            ClientCertificate::NotAsked
        }
    }
}

/// A path that does not depend on where nginx is, nor on the request.
#[must_use]
pub fn file(path: &str) -> Option<String> {
    let is_plain = path.starts_with('/')
        && !path.ends_with('/')
        && !path.contains('$')
        && path.chars().all(yaml::is_text);
    is_plain.then(|| path.to_owned())
}

/// Two years, the most that the key `hsts` takes.
const MOST_HSTS: u64 = 2 * 365 * 86_400;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::rc::Rc;

    use super::*;
    use crate::import::nginx::directives::parse;

    fn scope(text: &str) -> Inherited {
        let mut scope = Inherited::default();
        for directive in parse(&Rc::from("n"), text.as_bytes()).unwrap() {
            scope.take(&directive);
        }
        scope
    }

    #[test]
    fn only_a_lifetime_is_hsts() {
        for (value, seconds) in [
            ("max-age=31536000", Some(31_536_000)),
            ("Max-Age = \"60\" ;", Some(60)),
            ("max-age=31536000; includeSubDomains", None),
            ("max-age=0", None),
            ("max-age=63072001", None),
            ("$hsts", None),
        ] {
            let text = format!("add_header strict-transport-security '{value}' always;");
            assert_eq!(hsts(&scope(&text)), seconds, "{value}");
        }
        let twice = "add_header Strict-Transport-Security max-age=1; add_header Strict-Transport-Security max-age=2;";
        assert_eq!(hsts(&scope(twice)), None);
    }

    #[test]
    fn what_cannot_be_asked_of_clients_is_not_taken_for_nothing() {
        let client = |text: &str| client(&scope(text), &mut Notes::default());
        let of = "ssl_client_certificate /ca.pem;";
        assert_eq!(
            client(&format!("ssl_verify_client on; {of}")),
            ClientCertificate::Of("/ca.pem".to_owned())
        );
        for text in [
            "ssl_verify_client on;".to_owned(),
            "ssl_verify_client on; ssl_client_certificate ca.pem;".to_owned(),
            format!("ssl_verify_client on; {of} ssl_crl /revoked.pem;"),
        ] {
            assert_eq!(client(&text), ClientCertificate::Otherwise, "{text}");
        }
        assert_eq!(client(of), ClientCertificate::NotAsked);
    }
}
