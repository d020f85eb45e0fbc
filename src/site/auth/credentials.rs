//! The field Authorization of HTTP Basic (RFC 7617 §2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// A user and a password, as sent. Neither has control characters, which RFC 7617 forbids.
pub struct Credentials {
    /// The user-id.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

impl Credentials {
    /// Reads the value of the field. None: it is another scheme, not base64, without a colon, too long, or has control characters.
    pub fn parse(value: &[u8]) -> Option<Credentials> {
        let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.starts_with(b" ") {
            return None;
        }
        let text = rest.trim_ascii();
        if text.len() > LONGEST {
            return None;
        }
        let engine = GeneralPurpose::new(
            &base64::alphabet::STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let pair = STANDARD
            .decode(text)
            .or_else(|_| engine.decode(text))
            .ok()?;
        if pair.iter().any(u8::is_ascii_control) {
            return None;
        }
        let colon = memchr::memchr(b':', &pair)?;
        let (user, password) = pair.split_at_checked(colon)?;
        if user.is_empty() {
            return None;
        }
        Some(Credentials {
            user: user.to_vec(),
            password: password.get(1..)?.to_vec(),
        })
    }
}

const SCHEME: &[u8] = b"basic";
/// Bytes of base64 that are read.
const LONGEST: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let found = Credentials::parse(value.as_bytes())?;
        let text = |bytes| String::from_utf8(bytes).ok();
        Some((text(found.user)?, text(found.password)?))
    }

    fn encoded(pair: &[u8]) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    #[test]
    fn user_and_password_are_read() {
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        // RFC 7617 §2 and §2.1.
        assert_eq!(
            read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            pair("Aladdin", "open sesame")
        );
        assert_eq!(read("basic dGVzdDoxMjPCow=="), pair("test", "123\u{a3}"));
        assert_eq!(read("BASIC  dGVzdDoxMjPCow"), pair("test", "123\u{a3}"));
        assert_eq!(read(&encoded(b"a:b:c")), pair("a", "b:c"));
        assert_eq!(read(&encoded(b"a:")), pair("a", ""));
    }

    #[test]
    fn what_is_no_basic_is_nobody() {
        for value in [
            "",
            "Basic",
            "Basic ",
            "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "BasicQWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Basic QWxh*GRpbjpv",
            "Basic QWxh GRpbjpv",
            "Basic QWxhZGRpbg==",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        for pair in [&b":x"[..], b"a\0:x", b"a:x\0", b"a:x\r\nX: 1", b"a\x7f:x"] {
            assert_eq!(read(&encoded(pair)), None, "{pair:?}");
        }
        assert_eq!(read(&encoded(&[b"a:", &[b'x'; 4000][..]].concat())), None);
    }
}
