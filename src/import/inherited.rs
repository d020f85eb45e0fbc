//! Directives that a block hands down to those within it: `http` to `server` to `location`.
//!
//! A list such as `add_header` is handed down whole, or not at all once the inner block has one of its own.

use std::collections::BTreeMap;

use super::nginx::directives::Directive;
use super::note::Notes;

/// What counts in a block.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// Single values by name: timeouts, buffers, `root`, `expires`, cache zones.
    single: BTreeMap<String, Directive>,
    /// Lists by name: `add_header`, `fastcgi_cache_valid`, `fastcgi_param`, `set`.
    lists: BTreeMap<String, Vec<Directive>>,
    /// Names that this block itself has.
    own: Vec<String>,
}

impl Inherited {
    /// What a block within this one begins with.
    #[must_use]
    pub fn within(&self) -> Inherited {
        Inherited {
            own: Vec::new(),
            ..self.clone()
        }
    }

    /// Takes a directive that is handed down; false: it is none.
    pub fn take(&mut self, directive: &Directive) -> bool {
        let name = directive.name.as_str();
        if SINGLE.contains(&name) {
            self.single.insert(name.to_owned(), directive.clone());
        } else if LISTS.contains(&name) {
            let list = self.lists.entry(name.to_owned()).or_default();
            if !self.own.iter().any(|own| own == name) && name != "set" {
                list.clear();
            }
            list.push(directive.clone());
        } else {
            return false;
        }
        self.own.push(name.to_owned());
        true
    }

    /// The same, with all that was handed down as its own.
    #[must_use]
    pub fn counted(&self) -> Inherited {
        let names = self.single.keys().chain(self.lists.keys());
        Inherited {
            own: names.cloned().collect(),
            ..self.clone()
        }
    }

    /// The same, without what says how long browsers keep to https.
    #[must_use]
    pub fn without_hsts(mut self) -> Inherited {
        if let Some(list) = self.lists.get_mut("add_header") {
            list.retain(|header| !super::tls::is_hsts(header.arg(0)));
        }
        self
    }

    /// The directive that counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Directive> {
        self.single.get(name)
    }

    /// The directives that count.
    #[must_use]
    pub fn list(&self, name: &str) -> &[Directive] {
        self.lists.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the block has this directive itself.
    #[must_use]
    pub fn has_own(&self, name: &str) -> bool {
        self.own.iter().any(|own| own == name)
    }

    /// The text with its variables replaced, where all are `set` to plain text; else as it is.
    #[must_use]
    pub fn expanded(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Few steps: a variable may be set to another one, or to itself.
        for _ in 0..4 {
            for set in self.list("set") {
                let name = set.arg(0);
                if name.len() > 1 && text == name {
                    text = set.arg(1).to_owned();
                } else if name.len() > 1 && text.contains(name) && text.len() < MAX_TEXT {
                    text = text.replace(name, set.arg(1));
                }
            }
        }
        text
    }

    /// Says which of this block's own are never used: those of FastCGI where nothing goes there are no loss.
    pub fn unused(&self, notes: &mut Notes) {
        let own = self
            .own
            .iter()
            .filter(|name| !SPOKEN_FOR.contains(&name.as_str()));
        notes.idle.extend(own.cloned());
    }
}

/// Named in the notes of their own, not among what needs nothing.
const SPOKEN_FOR: [&str; 24] = [
    "root",
    "set",
    "add_header",
    "expires",
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "ssl_client_certificate",
    "ssl_verify_client",
    "ssl_reject_handshake",
    "ssl_crl",
    "ssl_ocsp",
    "http2",
    "auth_basic",
    "auth_basic_user_file",
    "satisfy",
    "allow",
    "deny",
    "gzip",
    "brotli",
    "zstd",
    "gzip_min_length",
    "gzip_static",
];

const SINGLE: [&str; 40] = [
    "ssl",
    "ssl_protocols",
    "ssl_client_certificate",
    "ssl_verify_client",
    "ssl_reject_handshake",
    "ssl_crl",
    "ssl_ocsp",
    "http2",
    "auth_basic",
    "auth_basic_user_file",
    "satisfy",
    "gzip",
    "brotli",
    "zstd",
    "gzip_min_length",
    "gzip_static",
    "root",
    "expires",
    "real_ip_header",
    "fastcgi_connect_timeout",
    "fastcgi_read_timeout",
    "fastcgi_send_timeout",
    "fastcgi_buffers",
    "fastcgi_buffer_size",
    "fastcgi_busy_buffers_size",
    "fastcgi_max_temp_file_size",
    "fastcgi_keep_conn",
    "fastcgi_cache",
    "fastcgi_cache_key",
    "fastcgi_ignore_headers",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "proxy_send_timeout",
    "proxy_cache",
    "proxy_cache_key",
    "proxy_ignore_headers",
    "fastcgi_intercept_errors",
    "proxy_intercept_errors",
    "fastcgi_next_upstream",
    "proxy_next_upstream",
];

const LISTS: [&str; 8] = [
    "ssl_certificate",
    "ssl_certificate_key",
    "add_header",
    "fastcgi_param",
    "fastcgi_cache_valid",
    "proxy_cache_valid",
    "proxy_set_header",
    "set",
];

const MAX_TEXT: usize = 4096;
