//! Apache's MD5 crypt (`$apr1$`), as `htpasswd -m` and `openssl passwd -apr1` write it.

use md5::{Digest as _, Md5};

/// The sixteen bytes that a password makes with this salt.
#[must_use]
pub fn digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut outer = Md5::new()
        .chain_update(password)
        .chain_update(MAGIC)
        .chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        outer.update(inner.get(..chunk.len()).unwrap_or_default());
    }
    let mut length = password.len();
    while length > 0 {
        if length & 1 == 1 {
            outer.update([0]);
        } else {
            outer.update(password.get(..1).unwrap_or_default());
        }
        length >>= 1;
    }
    let mut result: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        let mut next = Md5::new();
        let odd = round & 1 == 1;
        next.update(if odd { password } else { &result[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &result[..] } else { password });
        result = next.finalize().into();
    }
    result
}

/// The bytes that the last part of such a hash stands for.
#[must_use]
pub fn decode(text: &[u8]) -> Option<[u8; 16]> {
    let sextet = |byte: u8| {
        let at = ALPHABET.iter().position(|&known| known == byte)?;
        u32::try_from(at).ok()
    };
    if text.len() != 22 {
        return None;
    }
    let mut out = [0; 16];
    for (group, places) in text.chunks(4).zip(ORDER) {
        let mut bits = 0;
        for (index, &byte) in group.iter().enumerate() {
            bits |= sextet(byte)? << (6 * index);
        }
        let [_, high, middle, low] = bits.to_be_bytes();
        for (place, byte) in places.iter().zip([low, middle, high]) {
            *out.get_mut(*place)? = byte;
        }
    }
    Some(out)
}

const MAGIC: &[u8] = b"$apr1$";
const ROUNDS: usize = 1000;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Which bytes a group of characters stands for, from the lowest bits.
const ORDER: [&[usize]; 6] = [
    &[12, 6, 0],
    &[13, 7, 1],
    &[14, 8, 2],
    &[15, 9, 3],
    &[5, 10, 4],
    &[11],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_openssl() {
        // openssl passwd -apr1 -salt SALT PASSWORD
        for (password, salt, hash) in VECTORS {
            assert_eq!(
                decode(hash.as_bytes()),
                Some(digest(password.as_bytes(), salt.as_bytes())),
                "{password}"
            );
        }
        assert_eq!(decode(b"short"), None);
        assert_eq!(decode(&[b'*'; 22]), None);
    }

    const VECTORS: [(&str, &str, &str); 4] = [
        ("secret", "saltsalt", "LrttParrLPdxvgutaSXWJ0"),
        ("a", "saltsalt", "OEnK0QmmvoDzFw9W2yFYT/"),
        ("0123456789abcdef", "saltsalt", "noZiBycUL1t9WTQEO7/nr1"),
        (
            "a much longer password than sixteen bytes",
            "saltsalt",
            "4YdsMdvaQmZ0TvJbACAEe0",
        ),
    ];
}
