//! The media type of a file by its name (RFC 9110 §8.3), and what follows from it.
//!
//! The table is `mime_guess`', with corrections where browsers or WordPress expect otherwise. Content is never
//! sniffed, and `nosniff` asks browsers not to.

use std::borrow::Cow;

/// The media type of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType {
    /// The value of Content-Type, with charset where the type is text.
    pub value: Cow<'static, str>,
    /// Whether a content coding makes it smaller: such an answer varies by Accept-Encoding.
    pub compressible: bool,
    /// Which line of the Cache-Control table it belongs to.
    pub kind: Kind,
}

/// What a file is to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// CSS or JavaScript.
    Code,
    /// An image, a font, sound or film.
    Media,
    /// Anything else.
    Other,
}

impl MediaType {
    /// The media type of a file of this name. Without an extension, or with an unknown one: `application/octet-stream`.
    #[must_use]
    pub fn of(file_name: &[u8]) -> MediaType {
        let extension = extension(file_name).and_then(|e| std::str::from_utf8(e).ok());
        let essence = extension.map_or(UNKNOWN, essence);
        let charset = has_charset(essence);
        MediaType {
            value: if charset {
                Cow::Owned(format!("{essence}; charset=utf-8"))
            } else {
                Cow::Borrowed(essence)
            },
            compressible: is_compressible(essence)
                && !extension.is_some_and(|e| e.eq_ignore_ascii_case("svgz")),
            kind: kind(essence),
        }
    }
}

/// The bytes after the last dot of a name that does not begin with it.
#[must_use]
pub fn extension(file_name: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memrchr(b'.', file_name).filter(|&at| at > 0)?;
    file_name.get(dot + 1..).filter(|e| !e.is_empty())
}

fn essence(extension: &str) -> &'static str {
    CORRECTIONS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(extension))
        .map(|&(_, value)| value)
        .or_else(|| mime_guess::from_ext(extension).first_raw())
        .unwrap_or(UNKNOWN)
}

fn has_charset(essence: &str) -> bool {
    essence.starts_with("text/") || essence == "application/xml" || essence.ends_with("+xml")
}

/// Whether a content coding makes content of this type smaller; the type in lower case, without parameters.
#[must_use]
pub fn is_compressible(essence: &str) -> bool {
    has_charset(essence)
        || essence.ends_with("+json")
        || matches!(
            essence,
            "application/json"
                | "application/javascript"
                | "application/x-javascript"
                | "application/wasm"
                | "application/vnd.ms-fontobject"
                | "font/ttf"
                | "font/otf"
                | "image/x-icon"
                | "image/bmp"
        )
}

fn kind(essence: &str) -> Kind {
    let media = ["image/", "font/", "audio/", "video/"];
    if matches!(essence, "text/css" | "text/javascript") {
        Kind::Code
    } else if media.iter().any(|prefix| essence.starts_with(prefix))
        || essence == "application/vnd.ms-fontobject"
    {
        Kind::Media
    } else {
        Kind::Other
    }
}

const UNKNOWN: &str = "application/octet-stream";

/// What `mime_guess` has otherwise, or may come to have otherwise.
const CORRECTIONS: [(&str, &str); 20] = [
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    ("css", "text/css"),
    ("svg", "image/svg+xml"),
    ("svgz", "image/svg+xml"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("eot", "application/vnd.ms-fontobject"),
    ("avif", "image/avif"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
    ("bmp", "image/bmp"),
    ("webmanifest", "application/manifest+json"),
    ("wasm", "application/wasm"),
    ("map", "application/json"),
    ("xml", "text/xml"),
    ("m4a", "audio/mp4"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> String {
        MediaType::of(name.as_bytes()).value.into_owned()
    }

    #[test]
    fn types_that_pages_need() {
        for (name, expected) in [
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.svg", "image/svg+xml; charset=utf-8"),
            ("a.woff2", "font/woff2"),
            ("a.avif", "image/avif"),
            ("a.webp", "image/webp"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.wasm", "application/wasm"),
            ("a.css.map", "application/json"),
            ("a.json", "application/json"),
            ("a.html", "text/html; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.pdf", "application/pdf"),
            ("a.mp4", "video/mp4"),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
    }

    #[test]
    fn case_of_the_extension_does_not_count() {
        assert_eq!(value("A.JPG"), "image/jpeg");
        assert_eq!(value("UPPER.CSS"), "text/css; charset=utf-8");
        assert_eq!(value("a.WebManifest"), "application/manifest+json");
    }

    #[test]
    fn unknown_names_are_bytes_not_pages() {
        for name in ["noext", ".html", "a.", "a.xyzzy", "html"] {
            assert_eq!(value(name), UNKNOWN, "{name}");
        }
        assert_eq!(MediaType::of(b"a.\xff\xfe").value, UNKNOWN);
    }

    #[test]
    fn only_what_shrinks_is_compressible() {
        for name in [
            "a.css",
            "a.js",
            "a.json",
            "a.svg",
            "a.xml",
            "a.wasm",
            "a.ttf",
            "a.otf",
            "a.eot",
            "a.ico",
            "a.bmp",
            "a.webmanifest",
        ] {
            assert!(MediaType::of(name.as_bytes()).compressible, "{name}");
        }
        for name in [
            "a.jpg", "a.png", "a.woff2", "a.zip", "a.mp4", "a.svgz", "noext",
        ] {
            assert!(!MediaType::of(name.as_bytes()).compressible, "{name}");
        }
    }

    #[test]
    fn kinds_of_the_cache_control_table() {
        assert_eq!(MediaType::of(b"a.js").kind, Kind::Code);
        assert_eq!(MediaType::of(b"a.woff2").kind, Kind::Media);
        assert_eq!(MediaType::of(b"a.eot").kind, Kind::Media);
        assert_eq!(MediaType::of(b"a.pdf").kind, Kind::Other);
    }
}
