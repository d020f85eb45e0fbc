//! Field lines by name, whoever holds them (RFC 9110 §5).

use http::HeaderMap;

use super::head::RequestHead;

/// A set of field lines that can be asked by name.
pub trait Fields {
    /// The values of every line of this field, in order, without the white space around them.
    ///
    /// The name is given in lower case; names of lines are compared without regard to ASCII case
    /// (RFC 9110 §5.1).
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a;

    /// The value of the first line of this field.
    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.lines(name).next()
    }

    /// The value of this field when it came in exactly one line.
    ///
    /// Fields that are no list have no meaning in several lines (RFC 9110 §5.3).
    fn only<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        let mut lines = self.lines(name);
        let value = lines.next()?;
        lines.next().is_none().then_some(value)
    }
}

impl Fields for [httparse::Header<'_>] {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| trim(field.value))
    }
}

impl Fields for RequestHead<'_, '_> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.fields.lines(name)
    }
}

impl Fields for [(Vec<u8>, Vec<u8>)] {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.iter()
            .filter(move |(line, _)| line.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| trim(value))
    }
}

impl Fields for HeaderMap {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.get_all(name)
            .into_iter()
            .map(|value| trim(value.as_bytes()))
    }
}

/// The members of one line of a list field, without the white space around them and without the
/// empty ones, which a recipient has to tolerate (RFC 9110 §5.6.1.2).
///
/// Commas inside quoted strings are not spared: only for lists of tokens, numbers and addresses.
pub fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}

/// A member's value without its parameters, and its weight in thousandths (RFC 9110 §12.4.2); a weight that is none refuses.
pub fn weighed(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|&byte| byte == b';').map(trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        part.strip_prefix(b"q=")
            .or_else(|| part.strip_prefix(b"Q="))
    });
    (
        name,
        weight.map_or(1000, |text| thousandths(text).unwrap_or(0)),
    )
}

fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text.split_at_checked(1)? {
        (whole, []) => (whole, &[][..]),
        (whole, [b'.', fraction @ ..]) if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let digits = str::from_utf8(fraction).ok()?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{digits:0<3}").parse().ok()?;
    match (whole, fraction) {
        (b"0", fraction) => Some(fraction),
        (b"1", 0) => Some(1000),
        _ => None,
    }
}

/// The bytes without optional white space (`OWS`, RFC 9110 §5.6.3) at both ends.
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether the byte may stand in a token (`tchar`, RFC 9110 §5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn values<'a, F: Fields + ?Sized>(fields: &'a F, name: &'a str) -> Vec<&'a [u8]> {
        fields.lines(name).collect()
    }

    #[test]
    fn every_holder_gives_all_lines_in_order_without_regard_to_case() {
        let pairs = [
            (b"X-A".to_vec(), b" 1\t".to_vec()),
            (b"x-b".to_vec(), b"2".to_vec()),
            (b"x-a".to_vec(), b"3".to_vec()),
        ];
        assert_eq!(values(&pairs[..], "x-a"), [b"1", b"3"]);

        let parsed = [
            httparse::Header {
                name: "X-A",
                value: b"1",
            },
            httparse::Header {
                name: "x-A",
                value: b"3 ",
            },
        ];
        assert_eq!(values(&parsed[..], "x-a"), [b"1", b"3"]);

        let mut map = HeaderMap::new();
        map.append("x-a", HeaderValue::from_static(" 1"));
        map.append("x-a", HeaderValue::from_static("3"));
        assert_eq!(values(&map, "x-a"), [b"1", b"3"]);
        assert_eq!(map.first("x-a"), Some(&b"1"[..]));
        assert_eq!(map.only("x-a"), None);
        assert_eq!(map.first("x-b"), None);
    }

    #[test]
    fn a_name_is_never_matched_by_its_beginning() {
        let pairs = [(b"range-unit".to_vec(), b"1".to_vec())];
        assert_eq!(pairs.lines("range").next(), None);
    }

    #[test]
    fn empty_members_of_a_list_are_skipped() {
        let found: Vec<_> = members(b", a ,,\tb,").collect();
        assert_eq!(found, [b"a", b"b"]);
        assert_eq!(members(b" ").count(), 0);
    }
}
