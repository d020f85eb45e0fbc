//! `redirect_hosts` of a site: names whose requests are sent to its first host.

use crate::request::target::Target;
use crate::site::host_names::Names;
use crate::site::response::{Answer, QUERY, encode, redirect};
use crate::site::settings::SiteSettings;

/// The names, and where their requests are sent.
#[derive(Debug)]
pub struct RedirectHosts {
    /// Position 0: the site's own names, 1: those that are sent on.
    names: Names,
    to: String,
}

impl RedirectHosts {
    /// None: the site has none, or no host to send to.
    #[must_use]
    pub fn new(settings: &SiteSettings) -> Option<Box<RedirectHosts>> {
        let to = settings
            .hosts
            .first()
            .filter(|_| !settings.redirect_hosts.is_empty())?;
        let mut names = Names::default();
        names.add(OWN, settings.hosts.iter().chain(&settings.aliases));
        names.add(SENT_ON, settings.redirect_hosts.iter());
        Some(Box::new(RedirectHosts {
            names,
            to: to.clone(),
        }))
    }

    /// Whether a request for this host and target is sent on. Certificates are asked for by the name that was asked for, so what
    /// answers for it (RFC 8555 §8.3) is not.
    #[must_use]
    pub fn sends_on(&self, host: &[u8], target: &Target<'_>) -> bool {
        self.names.select(Some(host)) == Some(SENT_ON)
            && !target.is_asterisk()
            && !is_challenge(target)
    }

    /// 301 to the same path and query of the first host. `port` is put where it is not the scheme's own.
    #[must_use]
    pub fn answer(&self, target: &Target<'_>, https: bool, port: Option<u16>) -> Answer {
        redirect(301, &location(https, self.to.as_bytes(), port, target))
    }
}

/// Whether a certificate authority asks for what a client of ACME has put there (RFC 8555 §8.3).
#[must_use]
pub fn is_challenge(target: &Target<'_>) -> bool {
    target.path.starts_with(b"/.well-known/acme-challenge/")
}

/// The URL of the same path and query at `host`. `port` is put where it is not the scheme's own.
#[must_use]
pub fn location(https: bool, host: &[u8], port: Option<u16>, target: &Target<'_>) -> Vec<u8> {
    let (scheme, own_port) = if https { ("https", 443) } else { ("http", 80) };
    let mut location = format!("{scheme}://").into_bytes();
    location.extend_from_slice(host);
    if let Some(port) = port.filter(|&port| port != own_port) {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    encode(&target.origin_form(), QUERY, &mut location);
    location
}

const OWN: usize = 0;
const SENT_ON: usize = 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::request::head::Method;
    use crate::site::settings::Preset;

    fn hosts() -> Box<RedirectHosts> {
        RedirectHosts::new(&SiteSettings {
            hosts: vec!["example.com".to_owned()],
            aliases: vec!["shop.example.com".to_owned()],
            redirect_hosts: vec!["*.example.com".to_owned(), "example.net".to_owned()],
            ..SiteSettings::new("/srv".into(), Preset::Static)
        })
        .unwrap()
    }

    #[test]
    fn own_names_are_answered_and_the_others_sent_on() {
        let hosts = hosts();
        for (host, target, sent_on) in [
            ("example.com", "/", false),
            ("shop.example.com", "/", false),
            ("www.example.com", "/", true),
            ("WWW.example.com:8080", "/a", true),
            ("example.net.", "/", true),
            ("other.example", "/", false),
            ("www.example.com", "/.well-known/acme-challenge/t", false),
            ("www.example.com", "/.well-known/x", true),
            (
                "www.example.com",
                "/.well-known/acme-challenge/../../x",
                true,
            ),
        ] {
            let target = Target::parse(&Method::Get, target.as_bytes()).unwrap();
            assert_eq!(hosts.sends_on(host.as_bytes(), &target), sent_on, "{host}");
        }
    }

    #[test]
    fn path_and_query_go_along_and_the_host_is_ours() {
        let hosts = hosts();
        for (target, https, port, expected) in [
            (
                "/a%2Fb?x=%0d",
                false,
                None,
                "http://example.com/a%2Fb?x=%0d",
            ),
            (
                "//evil.example/",
                true,
                Some(443),
                "https://example.com//evil.example/",
            ),
            (
                "/@evil.example",
                false,
                Some(8080),
                "http://example.com:8080/@evil.example",
            ),
            (
                "http://www.example.com",
                false,
                Some(80),
                "http://example.com/",
            ),
            (
                "http://www.example.com?q",
                true,
                Some(80),
                "https://example.com:80/?q",
            ),
            ("/\u{e9}", false, None, "http://example.com/%C3%A9"),
        ] {
            let target = Target::parse(&Method::Get, target.as_bytes()).unwrap();
            let answer = hosts.answer(&target, https, port);
            let location = crate::site::fixture::field(&answer, "Location").unwrap();
            assert_eq!(location, expected);
        }
    }
}
