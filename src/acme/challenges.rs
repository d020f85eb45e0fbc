//! What an authority asks for to see that a host is ours: HTTP-01 (RFC 8555 §8.3).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::site::Answer;
use crate::site::response::octets;

/// The tokens that are waited for, with what proves them. Any other is none of ours: who has put its file below the root of a
/// site, is served from there.
#[derive(Debug, Default)]
pub struct Challenges(RwLock<HashMap<Box<[u8]>, Bytes>>);

/// A token that is waited for until this is dropped.
#[derive(Debug)]
pub struct Waiting {
    challenges: Arc<Challenges>,
    token: Box<[u8]>,
}

impl Challenges {
    /// Waits for this token, to be answered by `proof`. None: it is no token (§8.3: base64url, as it stands in a path), and nobody
    /// asks for it by that.
    #[must_use]
    pub fn expect(self: &Arc<Self>, token: &str, proof: &str) -> Option<Waiting> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(is_token) {
            return None;
        }
        let token: Box<[u8]> = token.as_bytes().into();
        let proof = Bytes::copy_from_slice(proof.as_bytes());
        self.0.write().insert(token.clone(), proof);
        Some(Waiting {
            challenges: self.clone(),
            token,
        })
    }

    /// The answer to a request for this path; none: it is for the site.
    #[inline]
    #[must_use]
    pub fn answer(&self, path: &[u8]) -> Option<Answer> {
        let token = path.strip_prefix(FOLDER)?;
        let proof = self.0.read().get(token)?.clone();
        Some(octets(proof))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.challenges.0.write().remove(&self.token);
    }
}

const FOLDER: &[u8] = b"/.well-known/acme-challenge/";
/// The authorities' tokens have 43 bytes.
const LONGEST_TOKEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Body;

    #[test]
    fn only_tokens_that_are_waited_for_are_answered_and_only_so_long() {
        let challenges = Arc::new(Challenges::default());
        let proof = |path: &[u8]| {
            challenges.answer(path).map(|answer| match answer.body {
                Body::Memory(bytes) => bytes,
                other => panic!("{other:?}"),
            })
        };
        let path: &[u8] = b"/.well-known/acme-challenge/a-B_9";
        assert_eq!(proof(path), None);
        let waiting = challenges.expect("a-B_9", "a-B_9.thumb").expect("a token");
        assert_eq!(proof(path).as_deref(), Some(&b"a-B_9.thumb"[..]));
        for other in [
            &b"/.well-known/acme-challenge/a-B_"[..],
            b"/.well-known/acme-challenge/a-B_9/",
            b"/.well-known/acme-challenge/",
            b"/a-B_9",
        ] {
            assert_eq!(proof(other), None, "{}", other.escape_ascii());
        }
        drop(waiting);
        assert_eq!(proof(path), None);
    }

    #[test]
    fn what_is_no_token_is_not_waited_for() {
        let challenges = Arc::new(Challenges::default());
        let longest = "a".repeat(LONGEST_TOKEN);
        assert!(challenges.expect(&longest, "x").is_some());
        for token in ["", "..", "a/b", "a b", "a.b", "<a>", "ü", &(longest + "a")] {
            assert!(challenges.expect(token, "x").is_none(), "{token}");
        }
    }
}
