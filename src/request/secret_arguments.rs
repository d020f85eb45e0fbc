//! Passwords and keys among the arguments of a URL, which must not stand in a log.
//!
//! WordPress takes a password-reset key by GET, WooCommerce its API's credentials, and people type a login into an address.

use std::borrow::Cow;

/// A target or URL with `***` in the place of what is secret in its query.
#[must_use]
pub fn hidden(url: &[u8]) -> Cow<'_, [u8]> {
    let Some(start) = memchr::memchr(b'?', url) else {
        return Cow::Borrowed(url);
    };
    let (before, query) = url.split_at_checked(start + 1).unwrap_or((url, &[]));
    if !query.split(is_between).any(is_secret) {
        return Cow::Borrowed(url);
    }
    let mut kept = before.to_vec();
    for argument in query.split_inclusive(is_between) {
        match memchr::memchr(b'=', argument) {
            Some(equals) if is_secret(argument) => {
                kept.extend_from_slice(argument.get(..=equals).unwrap_or_default());
                kept.extend_from_slice(b"***");
                kept.extend(argument.last().filter(|byte| is_between(byte)));
            }
            _ => kept.extend_from_slice(argument),
        }
    }
    Cow::Owned(kept)
}

fn is_between(byte: &u8) -> bool {
    matches!(byte, b'&' | b';' | b'#')
}

fn is_secret(argument: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'=', argument) else {
        return false;
    };
    let name = argument.get(..end).unwrap_or_default();
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// `key`: of a password reset, and of a WooCommerce order.
const NAMES: [&[u8]; 17] = [
    b"access_token",
    b"api_key",
    b"apikey",
    b"client_secret",
    b"consumer_key",
    b"consumer_secret",
    b"key",
    b"pass",
    b"pass1",
    b"pass2",
    b"passwd",
    b"password",
    b"post_password",
    b"pwd",
    b"secret",
    b"token",
    b"user_pass",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_nothing_else() {
        for (url, logged) in [
            ("/a.css?ver=6.1", "/a.css?ver=6.1"),
            ("/a.css", "/a.css"),
            ("/?", "/?"),
            (
                "/wp-login.php?log=admin&pwd=se%20cret&x=1",
                "/wp-login.php?log=admin&pwd=***&x=1",
            ),
            ("/?PWD=a", "/?PWD=***"),
            ("/?pwd=", "/?pwd=***"),
            ("/?pwd", "/?pwd"),
            ("/?pwd=a=b&key=c#d", "/?pwd=***&key=***#d"),
            ("/?keys=a&monkey=b", "/?keys=a&monkey=b"),
            (
                "/wp-json/wc/v3/orders?consumer_key=ck_1&consumer_secret=cs_2",
                "/wp-json/wc/v3/orders?consumer_key=***&consumer_secret=***",
            ),
            ("http://h/?a;token=x;b", "http://h/?a;token=***;b"),
            ("/pwd=a", "/pwd=a"),
        ] {
            assert_eq!(hidden(url.as_bytes()), logged.as_bytes(), "{url}");
        }
    }
}
