//! Names of hosts, exact or `*.example.com`, to positions in a list.

use std::collections::HashMap;

/// Names to positions.
#[derive(Debug, Default)]
pub struct Names {
    exact: HashMap<Box<[u8]>, usize>,
    /// Without their star, with the dot behind it.
    wildcard: HashMap<Box<[u8]>, usize>,
    any: Option<usize>,
}

impl Names {
    /// Adds the names of one position; without any it takes every host. A name that is there stays where it is.
    pub fn add<'n>(&mut self, index: usize, hosts: impl Iterator<Item = &'n String>) {
        let mut named = false;
        for host in hosts {
            named = true;
            let name = without_port(host.as_bytes()).to_ascii_lowercase();
            match name.strip_prefix(b"*") {
                Some(suffix) if suffix.starts_with(b".") => {
                    self.wildcard.entry(suffix.into()).or_insert(index)
                }
                _ => self.exact.entry(name.into()).or_insert(index),
            };
        }
        if !named {
            self.any.get_or_insert(index);
        }
    }

    /// The position of a host, with or without a port.
    #[must_use]
    pub fn select(&self, host: Option<&[u8]>) -> Option<usize> {
        host.and_then(|host| self.named(host)).or(self.any)
    }

    fn named(&self, host: &[u8]) -> Option<usize> {
        let host = without_port(host);
        // No name in use is longer (RFC 1035 §2.3.4), and what is compared must not be allocated for each request.
        let mut lower = [0; LONGEST_NAME];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        self.exact.get(lower).copied().or_else(|| {
            memchr::memchr_iter(b'.', lower)
                .filter_map(|dot| lower.get(dot..))
                .find_map(|suffix| self.wildcard.get(suffix).copied())
        })
    }
}

/// The name alone: without port, the brackets of IPv6, and the dot that makes a name absolute.
fn without_port(host: &[u8]) -> &[u8] {
    if let Some(literal) = host.strip_prefix(b"[") {
        let end = memchr::memchr(b']', literal).unwrap_or(literal.len());
        return literal.get(..end).unwrap_or_default();
    }
    // One colon stands before a port; several are an IPv6 address without brackets, as settings may have it.
    let name = match memchr::memchr(b':', host) {
        Some(at) if memchr::memrchr(b':', host) == Some(at) => host.get(..at).unwrap_or_default(),
        _ => host,
    };
    name.strip_suffix(b".").unwrap_or(name)
}

const LONGEST_NAME: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sites: &[&[&str]]) -> Names {
        let mut names = Names::default();
        for (index, hosts) in sites.iter().enumerate() {
            let hosts: Vec<String> = hosts.iter().map(|&h| h.to_owned()).collect();
            names.add(index, hosts.iter());
        }
        names
    }

    fn select(names: &Names, host: &str) -> Option<usize> {
        names.select(Some(host.as_bytes()))
    }

    #[test]
    fn exact_then_longest_wildcard_then_the_site_without_hosts() {
        let names = names(&[
            &["*.example.com"],
            &["a.example.com"],
            &["*.b.example.com"],
            &[],
        ]);
        assert_eq!(select(&names, "a.example.com"), Some(1));
        assert_eq!(select(&names, "x.example.com"), Some(0));
        assert_eq!(select(&names, "y.x.example.com"), Some(0));
        assert_eq!(select(&names, "x.b.example.com"), Some(2));
        assert_eq!(select(&names, "b.example.com"), Some(0));
        assert_eq!(select(&names, "example.com"), Some(3));
        assert_eq!(select(&names, "other"), Some(3));
        assert_eq!(names.select(None), Some(3));
    }

    #[test]
    fn nothing_is_selected_where_no_site_takes_any_host() {
        let names = names(&[&["example.com"]]);
        assert_eq!(select(&names, "other"), None);
        assert_eq!(names.select(None), None);
        assert_eq!(select(&names, ""), None);
        assert_eq!(select(&names, &"a".repeat(300)), None);
    }

    #[test]
    fn case_port_and_trailing_dot_do_not_count() {
        let names = names(&[&["Example.COM", "[2001:db8::1]", "::1", "127.0.0.1"]]);
        for host in [
            "EXAMPLE.com",
            "example.com:8080",
            "example.com.",
            "example.com.:80",
            "[2001:DB8::1]",
            "[2001:db8::1]:443",
            "[::1]:80",
            "127.0.0.1:8080",
        ] {
            assert_eq!(select(&names, host), Some(0), "{host}");
        }
        assert_eq!(select(&names, "[2001:db8::2]"), None);
        assert_eq!(select(&names, "xexample.com"), None);
    }

    #[test]
    fn the_first_site_keeps_a_name_two_claim() {
        assert_eq!(select(&names(&[&["a"], &["a"]]), "a"), Some(0));
        assert_eq!(names(&[&[], &[]]).select(None), Some(0));
    }
}
