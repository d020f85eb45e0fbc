//! Who answers behind a site: `fastcgi_pass` and `proxy_pass`, their timeouts and buffers.

use std::time::Duration;

use crate::fastcgi::Address;
use crate::settings::hosts;

use super::inherited::Inherited;
use super::nginx::directives::Directive;
use super::note::Notes;
use super::values::{self, DAY, HOUR};
use super::yaml::{Entry, Value};

/// The `upstream` blocks of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Upstreams<'t>(pub Vec<&'t Directive>);

/// A backend, as the value of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// `php` or `origin`.
    pub key: &'static str,
    /// Its address.
    pub address: String,
    /// The other keys.
    pub keys: Vec<(&'static str, Value)>,
}

impl Backend {
    /// The key with its value.
    #[must_use]
    pub fn entry(&self) -> Entry {
        let is_php = self.key == "php";
        let address = match is_php {
            true => Value::Text(self.address.clone()),
            false => Value::Texts(vec![self.address.clone()]),
        };
        if self.keys.is_empty() {
            return Entry::new(self.key, address);
        }
        let named = Entry::new(if is_php { "address" } else { "peers" }, address);
        let others = self
            .keys
            .iter()
            .map(|(key, value)| Entry::new(key, value.clone()));
        Entry::new(
            self.key,
            Value::Section(std::iter::once(named).chain(others).collect()),
        )
    }
}

/// What a `fastcgi_pass` makes of the settings that count where it stands.
pub fn php(
    pass: &Directive,
    scope: &Inherited,
    upstreams: &Upstreams<'_>,
    notes: &mut Notes,
) -> Backend {
    let (target, keep) = upstreams.resolve(pass, &scope.expanded(pass.arg(0)), notes);
    let target = match target.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => target,
    };
    let address = match target.parse::<Address>() {
        Ok(Address::Tcp(address)) if address.port() == 0 => None,
        Ok(address) => {
            Some(address.to_string()).filter(|text| text.chars().all(super::yaml::is_text))
        }
        Err(_) => None,
    };
    let address = address.unwrap_or_else(|| {
        notes.left_out(
            pass,
            "php",
            "PHP-FPM is reached at unix:PATH or IP:PORT: put the address here",
        );
        "127.0.0.1:9000".to_owned()
    });
    let mut keys = Vec::new();
    if let Some(root) = root_of_php(scope) {
        keys.push(("root", Value::Text(root)));
    }
    timeouts(&mut keys, scope, "fastcgi");
    if keep
        && scope
            .get("fastcgi_keep_conn")
            .is_some_and(|keep| keep.arg(0) == "on")
    {
        keys.push(("keep_alive", Value::Word("60s".to_owned())));
    }
    if let Some(buffer) = buffer(scope) {
        keys.push(("buffer", Value::Word(buffer)));
    }
    let temp = scope
        .get("fastcgi_max_temp_file_size")
        .and_then(|temp| values::size(temp.arg(0)));
    if let Some(temp) = temp {
        keys.push((
            "temp_max",
            Value::Word(values::size_within(temp, 0..=1 << 44)),
        ));
    }
    for param in scope.list("fastcgi_param") {
        parameter(param, notes);
    }
    Backend {
        key: "php",
        address,
        keys,
    }
}

/// What a `proxy_pass` makes of them.
pub fn origin(
    pass: &Directive,
    scope: &Inherited,
    upstreams: &Upstreams<'_>,
    notes: &mut Notes,
) -> Backend {
    let url = scope.expanded(pass.arg(0));
    if url.starts_with("https://") {
        notes.left_out(
            pass,
            "origin",
            "an origin is spoken to without TLS: give its plain port",
        );
    }
    let target = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
        .unwrap_or(&url);
    let (host, path) = target.split_once('/').unwrap_or((target, ""));
    if !path.is_empty() {
        notes.left_out(
            pass,
            "origin",
            "paths are passed on as they are, without this one before them",
        );
    }
    let (host, _) = upstreams.resolve(pass, host, notes);
    let peer = match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host,
        _ => format!("{host}:80"),
    };
    let is_peer = match peer.parse::<std::net::SocketAddr>() {
        Ok(address) => address.port() != 0,
        Err(_) => peer.rsplit_once(':').is_some_and(|(name, port)| {
            hosts::is_name(name) && name.parse::<std::net::IpAddr>().is_err() && port != "0"
        }),
    };
    let address = match is_peer {
        true => peer,
        false => {
            notes.left_out(
                pass,
                "origin",
                "an origin is a host and a port: put it here",
            );
            "127.0.0.1:8081".to_owned()
        }
    };
    for field in scope.list("proxy_set_header") {
        let usual = USUAL_FIELDS
            .iter()
            .any(|usual| field.arg(0).eq_ignore_ascii_case(usual));
        if !usual {
            notes.left_out(
                field,
                "origin",
                "the origin gets the client's fields, and X-Forwarded-*; no further ones are set",
            );
        }
    }
    let mut keys = Vec::new();
    timeouts(&mut keys, scope, "proxy");
    Backend {
        key: "origin",
        address,
        keys,
    }
}

impl Upstreams<'_> {
    /// The address that a name stands for, and whether connections to it are kept.
    fn resolve(&self, pass: &Directive, target: &str, notes: &mut Notes) -> (String, bool) {
        let Some(upstream) = self.0.iter().find(|upstream| upstream.arg(0) == target) else {
            return (target.to_owned(), false);
        };
        let servers = || upstream.children().iter().filter(|d| d.name == "server");
        let key = if pass.name == "proxy_pass" {
            "origin"
        } else {
            "php"
        };
        if servers().count() > 1 {
            notes.left_out(
                upstream,
                key,
                "one address is asked by this version: the first was taken",
            );
        }
        let keep = upstream
            .children()
            .iter()
            .any(|d| d.name == "keepalive" && d.arg(0) != "0");
        let first = servers().next().map(|server| server.arg(0).to_owned());
        (first.unwrap_or_else(|| target.to_owned()), keep)
    }
}

fn timeouts(keys: &mut Vec<(&'static str, Value)>, scope: &Inherited, module: &str) {
    let time = |name: &str, most: Duration| {
        let found = scope.get(&format!("{module}_{name}"))?;
        values::duration_within(found.arg(0), Duration::from_millis(1)..=most)
    };
    if let Some(connect) = time("connect_timeout", HOUR) {
        keys.push(("connect", Value::Word(connect)));
    }
    // nginx has one time for both: between two reads of the answer.
    if let Some(read) = time("read_timeout", DAY) {
        keys.push(("first_byte", Value::Word(read.clone())));
        keys.push(("between_bytes", Value::Word(read)));
    }
}

/// The bytes that nginx keeps of an answer, where they are more than the default here.
fn buffer(scope: &Inherited) -> Option<String> {
    let buffers = scope.get("fastcgi_buffers")?;
    let number = buffers.arg(0).parse::<u64>().ok()?;
    let first = scope
        .get("fastcgi_buffer_size")
        .and_then(|size| values::size(size.arg(0)));
    let whole = values::size(buffers.arg(1))?
        .checked_mul(number)?
        .checked_add(first.unwrap_or(0))?;
    (whole > 1 << 20).then(|| values::size_within(whole, 4 << 10..=1 << 30))
}

/// The root as PHP sees it, where the script's name says another one than `root`.
fn root_of_php(scope: &Inherited) -> Option<String> {
    let mut scripts = scope
        .list("fastcgi_param")
        .iter()
        .filter(|param| param.arg(0) == "SCRIPT_FILENAME");
    let script = scripts.next_back()?.arg(1);
    let folder = script
        .strip_suffix("$fastcgi_script_name")
        .or_else(|| script.strip_suffix("$uri"))?;
    let folder = folder.trim_end_matches('/');
    let same = scope
        .get("root")
        .is_some_and(|root| root.arg(0).trim_end_matches('/') == folder);
    (folder.starts_with('/') && !folder.contains('$') && !same).then(|| folder.to_owned())
}

fn parameter(param: &Directive, notes: &mut Notes) {
    let name = param.arg(0);
    match name {
        "PHP_VALUE" | "PHP_ADMIN_VALUE" => {
            notes.left_out(
                param,
                "php",
                "put it into the pool (php_value, php_admin_value) or into .user.ini",
            );
        }
        _ if USUAL_PARAMS.contains(&name)
            || name.starts_with("SERVER_")
            || name.starts_with("HTTP_") => {}
        _ => notes.left_out(
            param,
            "php",
            "PHP gets the usual parameters only: put it into the pool as env[…]",
        ),
    }
}

const USUAL_PARAMS: [&str; 19] = [
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "REQUEST_URI",
    "REQUEST_SCHEME",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REDIRECT_STATUS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "SERVER_NAME",
];

const USUAL_FIELDS: [&str; 15] = [
    "Host",
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Scheme",
    "Connection",
    "Upgrade",
    "Proxy",
    "Accept-Encoding",
    "X-NginX-Proxy",
    "X-Accel-Internal",
];
