//! The field `Forwarded` (RFC 7239 §4).

use std::net::IpAddr;

use super::fields::{is_token_byte, trim};

/// The field's name, in lower case.
pub const NAME: &str = "forwarded";

/// What one proxy has said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    /// `for`: an address, perhaps with a port, or a word that hides it.
    pub node: Option<Vec<u8>>,
    /// `proto`: whether it is `https`; none: it is not said.
    pub https: Option<bool>,
}

/// The value that tells this client.
#[must_use]
pub fn rendered(client: IpAddr, https: bool) -> Vec<u8> {
    let proto = if https { "https" } else { "http" };
    match client {
        IpAddr::V4(address) => format!("for={address};proto={proto}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";proto={proto}"),
    }
    .into_bytes()
}

/// The elements of one line, from left to right. What breaks the grammar is an element that says nothing, up to the next comma that
/// is outside of quotes.
pub fn elements(line: &[u8]) -> Vec<Option<Element>> {
    split(line, b',').into_iter().map(element).collect()
}

fn element(text: &[u8]) -> Option<Element> {
    let mut found = Element::default();
    for pair in split(text, b';') {
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = pair.split_at_checked(equals)?;
        if name.is_empty() || !name.iter().copied().all(is_token_byte) {
            return None;
        }
        let value = value_of(value.get(1..)?)?;
        if name.eq_ignore_ascii_case(b"for") {
            // Each parameter once (§4).
            if found.node.replace(value).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"proto")
            && found
                .https
                .replace(value.eq_ignore_ascii_case(b"https"))
                .is_some()
        {
            return None;
        }
    }
    Some(found)
}

/// A token, or what a quoted string says. A bare address with a port, which is no token, is taken as well: proxies write it.
fn value_of(text: &[u8]) -> Option<Vec<u8>> {
    let [b'"', inside @ .., b'"'] = text else {
        let plain = |byte: u8| is_token_byte(byte) || matches!(byte, b':' | b'[' | b']');
        return (!text.is_empty() && text.iter().copied().all(plain)).then(|| text.to_vec());
    };
    let mut value = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => value.push(*bytes.next()?),
            b'"' => return None,
            other => value.push(other),
        }
    }
    Some(value)
}

/// The non-empty parts between separators that are outside of quotes, without the white space around them.
fn split(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, &byte) in text.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if quoted && byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            quoted = !quoted;
        } else if byte == separator && !quoted {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + 1;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
        .into_iter()
        .map(trim)
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Vec<String> {
        let shown = |element: Option<Element>| match element {
            None => "?".to_owned(),
            Some(element) => {
                let node = element
                    .node
                    .map(|node| String::from_utf8_lossy(&node).into_owned());
                let https = element
                    .https
                    .map_or("", |https| if https { " https" } else { " http" });
                format!("{}{https}", node.unwrap_or_default())
            }
        };
        elements(line.as_bytes()).into_iter().map(shown).collect()
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7239 §4.
        assert_eq!(read("for=\"_gazonk\""), ["_gazonk"]);
        assert_eq!(
            read("For=\"[2001:db8:cafe::17]:4711\""),
            ["[2001:db8:cafe::17]:4711"]
        );
        assert_eq!(
            read("for=192.0.2.60;proto=http;by=203.0.113.43"),
            ["192.0.2.60 http"]
        );
        assert_eq!(
            read("for=192.0.2.43, for=198.51.100.17"),
            ["192.0.2.43", "198.51.100.17"]
        );
        assert_eq!(read("proto=HTTPS ; for=unknown ,,"), ["unknown https"]);
        assert_eq!(read("for=\"a\\\"b\";host=\"x,y;z\""), ["a\"b"]);
    }

    #[test]
    fn what_breaks_the_grammar_says_nothing() {
        assert_eq!(read("for=1.2.3.4;for=5.6.7.8"), ["?"]);
        assert_eq!(read("1.2.3.4, for=5.6.7.8"), ["?", "5.6.7.8"]);
        assert_eq!(read("for=, for =x, for= x"), ["?", "?", "?"]);
        // A quote that is never closed takes all that follows with it: nothing is believed.
        assert_eq!(read("for=\"_x, for=5.6.7.8"), ["?"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(line in prop::collection::vec(any::<u8>(), 0..100)) {
            for element in elements(&line).into_iter().flatten() {
                prop_assert!(element.node.is_none_or(|node| node.len() <= line.len()));
            }
        }

        #[test]
        fn what_is_quoted_comes_back(value in "[ -~]{0,20}", after in "[0-9.]{1,10}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!("for=\"{quoted}\";proto=https, for={after}");
            prop_assert_eq!(read(&line), [format!("{value} https"), after]);
        }
    }
}
