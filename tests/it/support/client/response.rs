//! One answer: its head read strictly (RFC 9112 §4, §5), its fields by name.

use std::fmt;

use super::Cut;

/// One whole answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The head as it came, with the empty line.
    pub head: Vec<u8>,
}

impl Response {
    /// The value of the only line of this field; two lines are an error of the test or the server.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines: Vec<&str> = self
            .fields
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        assert!(lines.len() < 2, "more than one {name} in {self}");
        lines.first().copied()
    }

    /// The values of every line of this field, in order.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let fields = self.fields.iter();
        fields
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn etag(&self) -> &str {
        self.field("etag")
            .unwrap_or_else(|| panic!("no ETag in {self}"))
    }

    #[track_caller]
    pub fn last_modified(&self) -> &str {
        self.field("last-modified")
            .unwrap_or_else(|| panic!("no Last-Modified in {self}"))
    }

    pub fn closes(&self) -> bool {
        self.lines("connection")
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case("close"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status and body at once, for one readable comparison.
    #[track_caller]
    pub fn assert(&self, status: u16, body: &[u8]) {
        assert!(
            self.status == status && self.body == body,
            "awaited {status} with {} bytes {:?}, got {self}",
            body.len(),
            String::from_utf8_lossy(&body[..body.len().min(80)])
        );
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = &self.body[..self.body.len().min(120)];
        write!(
            f,
            "{}{} bytes: {}",
            String::from_utf8_lossy(&self.head),
            self.body.len(),
            body.escape_ascii()
        )
    }
}

/// Reads a head that ends with its empty line.
pub fn parse_head(head: Vec<u8>) -> Result<Response, Cut> {
    let malformed = |why: &str| Cut::Malformed(format!("{why}: {}", head.escape_ascii()));
    // 8-bit values are kept byte by byte.
    let text: String = head.iter().copied().map(char::from).collect();
    let mut lines = text.strip_suffix("\r\n\r\n").unwrap_or(&text).split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| status_line.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.split_once(' '))
        .filter(|(code, _)| code.len() == 3)
        .and_then(|(code, _)| code.parse().ok())
        .ok_or_else(|| malformed("status line"))?;
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("field line"))?;
        let token = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        if !token || value.bytes().any(|b| b < 0x20 && b != b'\t' || b == 0x7f) {
            return Err(malformed("field line"));
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    for single in [
        "content-length",
        "content-type",
        "content-range",
        "date",
        "etag",
        "last-modified",
        "location",
        "transfer-encoding",
        "retry-after",
    ] {
        if fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(single))
            .count()
            > 1
        {
            return Err(malformed("field sent twice"));
        }
    }
    Ok(Response {
        status,
        fields,
        body: Vec::new(),
        head,
    })
}
