//! `listen` and `server_name`: where a server block is reached, and by which names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::settings::hosts;

use super::nginx::directives::Directive;
use super::note::Notes;
use super::tls::Tls;

/// How a server block is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Its addresses.
    pub doors: Vec<Door>,
    /// Whether it takes requests that no other one takes.
    pub is_default: bool,
    /// Its names, as hosts of a site.
    pub hosts: Vec<String>,
    /// Whether it has a name that means any.
    pub any_host: bool,
    /// Whether it has a name that is not understood, such as an expression.
    pub has_other_names: bool,
}

/// An address of a server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The address.
    pub address: SocketAddr,
    /// Whether `listen` says `ssl`.
    pub ssl: bool,
    /// Whether `listen` says `http2`.
    pub http2: bool,
    /// Whether `listen` says `proxy_protocol`.
    pub proxy_protocol: bool,
    /// Whether the block is the one for hosts that no other one has.
    pub is_default: bool,
    /// How TLS is spoken, where it is.
    pub tls: Option<Tls>,
    /// What becomes of requests that come in here.
    pub does: Does,
    /// Where it stands.
    pub directive: Directive,
}

/// What becomes of requests at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// They are answered.
    Answer,
    /// They are sent to https, or to a host whose own are.
    SendToHttps,
    /// They are sent to another host, by the scheme they came.
    SendOn,
    /// They are refused, or it is not known what becomes of them.
    Nothing,
}

impl Reached {
    /// Takes a `listen`.
    pub fn listen(&mut self, directive: &Directive, notes: &mut Notes) {
        let flags = directive.args.get(1..).unwrap_or_default();
        let has = |flag: &str| flags.iter().any(|word| word == flag);
        if has("quic") || has("http3") {
            return notes.note(
                directive,
                "listen",
                "HTTP/3 is not spoken: clients take HTTP/2",
            );
        }
        let is_default = has("default_server") || has("default");
        self.is_default |= is_default;
        let Some(address) = address(directive.arg(0)) else {
            return notes.left_out(directive, "listen", "only IP addresses are listened on");
        };
        self.doors.push(Door {
            address,
            ssl: has("ssl"),
            http2: has("http2"),
            proxy_protocol: has("proxy_protocol"),
            is_default,
            tls: None,
            does: Does::Answer,
            directive: directive.clone(),
        });
    }

    /// Whether there is an address with TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.doors.iter().any(|door| door.tls.is_some())
    }

    /// Whether there is one without.
    #[must_use]
    pub fn has_plain(&self) -> bool {
        self.doors.iter().any(|door| door.tls.is_none())
    }

    /// Takes a `server_name`.
    pub fn names(&mut self, directive: &Directive, notes: &mut Notes) {
        for name in &directive.args {
            let name = name.to_ascii_lowercase();
            if matches!(
                name.as_str(),
                "_" | "" | "*" | "__" | "--" | "!@#" | "default"
            ) {
                self.any_host = true;
            } else if name.starts_with('~') {
                self.has_other_names = true;
                notes.left_out(
                    directive,
                    "hosts",
                    format!("hosts are no expressions: name those that {name} means"),
                );
            } else if let Some(domain) = name.strip_prefix('.') {
                self.host(directive, domain, notes);
                self.host(directive, &format!("*.{domain}"), notes);
            } else {
                self.host(directive, &name, notes);
            }
        }
    }

    fn host(&mut self, directive: &Directive, name: &str, notes: &mut Notes) {
        let bare = name.strip_prefix("*.").unwrap_or(name);
        let is_address = bare.parse::<IpAddr>().is_ok() && bare == name;
        if name == "localhost" || is_address || hosts::is_name(bare) {
            let bracketed = match name.parse::<Ipv6Addr>() {
                Ok(_) => format!("[{name}]"),
                Err(_) => name.to_owned(),
            };
            if !self.hosts.contains(&bracketed) {
                self.hosts.push(bracketed);
            }
        } else {
            self.has_other_names = true;
            let said =
                format!("{name:?} is no host here: exact names, or *. and a name (punycode)");
            notes.left_out(directive, "hosts", said);
        }
    }
}

/// `80`, `*:80`, `10.0.0.1`, `[::]:80`, `localhost:80`.
fn address(text: &str) -> Option<SocketAddr> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let with_port = |host: IpAddr, port: &str| {
        let port = port.parse().ok().filter(|port: &u16| *port > 0)?;
        Some(SocketAddr::new(host, port))
    };
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return with_port(any, text);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(host) = bare.parse::<IpAddr>() {
        return with_port(host, "80");
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "80"));
    match host {
        "*" => with_port(any, port),
        "localhost" => with_port(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        _ => None,
    }
}

/// The addresses of all sites as one list. Where the same port is wanted of both families, `[::]` alone takes both.
#[must_use]
pub fn merged(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let v6 = |port| SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
        // An address that is part of "all" cannot be bound beside it.
        let covering = if addresses.contains(&v6(address.port())) {
            v6(address.port())
        } else if address.is_ipv4() && addresses.contains(&any) {
            any
        } else {
            *address
        };
        if !found.contains(&covering) {
            found.push(covering);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    #[test]
    fn addresses_are_read_as_nginx_does() {
        for (text, expected) in [
            ("80", "0.0.0.0:80"),
            ("*:8080", "0.0.0.0:8080"),
            ("10.0.0.1", "10.0.0.1:80"),
            ("10.0.0.1:81", "10.0.0.1:81"),
            ("[::]:80", "[::]:80"),
            ("[::1]", "[::1]:80"),
            ("localhost:82", "127.0.0.1:82"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["unix:/run/a.sock", "example.com:80", "0", "70000", ""] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn one_address_for_what_it_covers() {
        let parsed = |list: &[&str]| -> Vec<SocketAddr> {
            list.iter().map(|a| a.parse().unwrap()).collect()
        };
        assert_eq!(
            merged(&parsed(&["0.0.0.0:80", "[::]:80", "10.0.0.1:80"])),
            parsed(&["[::]:80"])
        );
        assert_eq!(
            merged(&parsed(&["10.0.0.1:80", "0.0.0.0:80"])),
            parsed(&["0.0.0.0:80"])
        );
        assert_eq!(
            merged(&parsed(&["10.0.0.1:80", "0.0.0.0:81"])),
            parsed(&["10.0.0.1:80", "0.0.0.0:81"])
        );
    }
}
