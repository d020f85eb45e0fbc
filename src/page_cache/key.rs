//! The name of a page: all that it may depend on, in one text.

use crate::request::authority::Authority;

/// What a page is known by. Two requests of one key get the same page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name itself.
    pub text: Box<[u8]>,
    /// The path and query that the application is asked for.
    pub target: Box<[u8]>,
    /// Whether it is the page for phones.
    pub is_mobile: bool,
    /// The arguments of the query that were left out, with `&` between them.
    pub left_out: Option<Box<[u8]>>,
}

/// What goes into a [`Key`].
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The site's name.
    pub site: &'a str,
    /// Of the rules that its pages are made by, and of who makes them.
    pub fingerprint: u64,
    /// Whether the client came by https.
    pub https: bool,
    /// The port that the application is told, where a proxy names one.
    pub port: Option<u16>,
    /// Whether WordPress would take the client for a phone.
    pub is_mobile: bool,
    /// The host asked for.
    pub host: &'a [u8],
    /// Path and query, as the application is asked for them.
    pub target: &'a [u8],
}

impl Parts<'_> {
    /// The key, with the lines of the fields that pages depend on: all lines of the first, then of the second …
    pub fn key<'v, L>(&self, vary: impl Iterator<Item = L>) -> Key
    where
        L: Iterator<Item = &'v [u8]>,
    {
        let mut text =
            Vec::with_capacity(64 + self.site.len() + self.host.len() + self.target.len());
        text.extend_from_slice(self.site.as_bytes());
        text.push(0);
        text.extend_from_slice(&self.fingerprint.to_be_bytes());
        text.extend_from_slice(match (self.https, self.is_mobile) {
            (false, false) => b"\0h\0",
            (true, false) => b"\0s\0",
            (false, true) => b"\0hm\0",
            (true, true) => b"\0sm\0",
        });
        if let Some(port) = self.port {
            text.extend_from_slice(&port.to_be_bytes());
        }
        text.push(0);
        push_host(&mut text, self.host, self.https);
        text.push(0);
        text.extend_from_slice(self.target);
        // No value of a field holds either of these bytes.
        for lines in vary {
            text.push(0);
            for value in lines {
                text.push(1);
                text.extend_from_slice(value);
            }
        }
        Key {
            text: text.into(),
            target: self.target.into(),
            is_mobile: self.is_mobile,
            left_out: None,
        }
    }
}

/// A host as pages know it: in lower case, without the port that its scheme has anyway.
pub fn push_host(into: &mut Vec<u8>, host: &[u8], https: bool) {
    let usual: &[u8] = if https { b":443" } else { b":80" };
    let host = host.strip_suffix(usual).unwrap_or(host);
    into.extend(host.iter().map(u8::to_ascii_lowercase));
}

/// A host as purges know it: without its port and without the dot that a full name may end in.
#[must_use]
pub fn bare_host(host: &[u8]) -> &[u8] {
    let name = Authority::parse(host).map_or(host, |authority| authority.host);
    name.strip_suffix(b".").unwrap_or(name)
}

/// A path as purges know it: decoded, without its last slash and with runs of slashes as one, so that however a page is spelt
/// in links or in a purge it is found.
#[must_use]
pub fn plain_path(decoded: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(decoded.len());
    for segment in decoded
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
    {
        plain.push(b'/');
        plain.extend_from_slice(segment);
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts {
        site: "a",
        fingerprint: 1,
        https: false,
        port: None,
        is_mobile: false,
        host: b"example.com",
        target: b"/x/",
    };

    #[test]
    fn whatever_a_page_depends_on_makes_another_key() {
        let key = |parts: Parts<'_>| parts.key(std::iter::empty::<std::iter::Empty<_>>()).text;
        let plain = key(PARTS);
        for other in [
            Parts { site: "b", ..PARTS },
            Parts {
                fingerprint: 2,
                ..PARTS
            },
            Parts {
                https: true,
                ..PARTS
            },
            Parts {
                port: Some(8080),
                ..PARTS
            },
            Parts {
                is_mobile: true,
                ..PARTS
            },
            Parts {
                host: b"example.org",
                ..PARTS
            },
            Parts {
                host: b"example.com:81",
                ..PARTS
            },
            Parts {
                target: b"/x",
                ..PARTS
            },
        ] {
            assert_ne!(key(other), plain, "{other:?}");
        }
        assert_eq!(
            key(Parts {
                host: b"EXAMPLE.com:80",
                ..PARTS
            }),
            plain
        );
        let values = |fields: &[&[&[u8]]]| {
            PARTS
                .key(fields.iter().map(|lines| lines.iter().copied()))
                .text
        };
        assert_ne!(values(&[&[]]), values(&[&[b""]]));
        assert_ne!(values(&[&[b"a"], &[]]), values(&[&[], &[b"a"]]));
        assert_ne!(values(&[&[b"a"]]), values(&[&[b"a", b"b"]]));
        assert_ne!(values(&[&[b"a", b"b"]]), values(&[&[b"a"], &[b"b"]]));
    }

    #[test]
    fn bare_hosts() {
        for (host, bare) in [
            ("example.com", "example.com"),
            ("example.com.", "example.com"),
            ("example.com:8080", "example.com"),
            ("example.com.:80", "example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("", ""),
        ] {
            let of = bare_host(host.as_bytes());
            assert_eq!(String::from_utf8_lossy(of), bare, "{host}");
        }
    }

    #[test]
    fn plain_paths() {
        for (path, plain) in [
            (&b"/"[..], &b"/"[..]),
            (b"", b"/"),
            (b"/a/", b"/a"),
            (b"//a///b", b"/a/b"),
        ] {
            assert_eq!(plain_path(path), plain);
        }
    }
}
