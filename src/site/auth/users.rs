//! A file of users, as `htpasswd` writes it: a line for each, `name:hash`.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{Params, PasswordVerifier as _, ShaCrypt};
use sha1::{Digest as _, Sha1};
use subtle::ConstantTimeEq as _;

use crate::followed_file::BadLine;
use crate::site::auth::User;
use crate::site::auth::apr1;
use crate::site::auth::verifier::Remembered;

/// The users of a file.
pub struct Users {
    hashes: HashMap<User, Arc<Hash>>,
    /// What an unknown user's password is compared with: the costliest of the file.
    decoy: Arc<Hash>,
    /// Whose password was right; goes with the file's version.
    pub(super) remembered: Remembered,
}

/// A password's hash.
#[derive(Debug)]
pub enum Hash {
    /// `$2y$`, `$2b$`, `$2a$`. Bytes of a password beyond the 72nd do not count.
    Bcrypt(String, u32),
    /// `$5$` (SHA-256) and `$6$` (SHA-512), with the number of rounds.
    ShaCrypt(sha_crypt::PasswordHash, u32),
    /// `$apr1$`.
    Apr1 {
        /// Its salt.
        salt: Vec<u8>,
        /// What must come out.
        digest: [u8; 16],
    },
    /// `{SHA}`: SHA-1 without a salt.
    Sha1([u8; 20]),
}

impl Users {
    /// Reads the file: `#` begins a comment, what follows a second colon does not count.
    ///
    /// # Errors
    /// The first line that is wrong. Its hash is not repeated.
    pub fn parse(bytes: &[u8]) -> Result<Users, BadLine> {
        let mut hashes: HashMap<User, Arc<Hash>> = HashMap::new();
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let bad = |reason: &str| BadLine {
                line: index + 1,
                reason: reason.to_owned(),
            };
            let mut parts = line.split(|&byte| byte == b':');
            let (name, hash) = match (parts.next(), parts.next()) {
                (Some(name), Some(hash)) if !name.is_empty() => (name, hash),
                _ => return Err(bad("is not NAME:HASH")),
            };
            if name.iter().any(u8::is_ascii_control) {
                return Err(bad("the name has control characters"));
            }
            let hash = Hash::parse(hash).map_err(bad)?;
            if hashes.insert(name.into(), Arc::new(hash)).is_some() {
                return Err(bad("names a user that is there already"));
            }
        }
        let costliest = hashes.values().max_by_key(|hash| hash.cost()).cloned();
        let decoy = costliest.unwrap_or_else(|| Arc::new(Hash::Sha1([0; 20])));
        Ok(Users {
            hashes,
            decoy,
            remembered: Remembered::default(),
        })
    }

    /// The hash of a user's password. None: there is no such user; the other one is to be computed all the same.
    pub(super) fn hash_of(&self, user: &[u8]) -> (Option<User>, Arc<Hash>) {
        match self.hashes.get_key_value(user) {
            Some((user, hash)) => (Some(user.clone()), hash.clone()),
            None => (None, self.decoy.clone()),
        }
    }
}

impl Hash {
    fn parse(text: &[u8]) -> Result<Hash, &'static str> {
        let text = str::from_utf8(text).map_err(|_| "the hash is not text")?;
        if let Some(encoded) = text.strip_prefix("{SHA}") {
            let bytes = STANDARD.decode(encoded).ok();
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            return bytes.map(Hash::Sha1).ok_or("{SHA} is followed by no SHA-1");
        }
        if let Some(rest) = text.strip_prefix("$apr1$") {
            let (salt, digest) = rest.split_once('$').ok_or("$apr1$ has no salt")?;
            if salt.len() > 8 {
                return Err("the salt of $apr1$ has more than eight characters");
            }
            let digest = apr1::decode(digest.as_bytes()).ok_or("$apr1$ has no whole hash")?;
            let salt = salt.as_bytes().to_vec();
            return Ok(Hash::Apr1 { salt, digest });
        }
        if ["$2y$", "$2b$", "$2a$"]
            .iter()
            .any(|kind| text.starts_with(kind))
        {
            let cost = bcrypt::HashParts::from_str(text)
                .map_err(|_| "the hash is no whole one of bcrypt")?
                .get_cost();
            if !(4..=MAX_BCRYPT_COST).contains(&cost) {
                return Err("the cost of bcrypt is not between 4 and 15");
            }
            return Ok(Hash::Bcrypt(text.to_owned(), cost));
        }
        if text.starts_with("$5$") || text.starts_with("$6$") {
            let fields = text.get(3..).unwrap_or_default();
            let rounds = match fields.split_once('$') {
                Some((first, _)) if first.starts_with("rounds=") => {
                    let rounds = first.get(7..).and_then(|digits| digits.parse().ok());
                    rounds
                        .filter(|rounds| (Params::ROUNDS_MIN..=MAX_ROUNDS).contains(rounds))
                        .ok_or("rounds= is not between 1000 and 1000000")?
                }
                _ => 5000,
            };
            let hash = sha_crypt::PasswordHash::new(text)
                .map_err(|_| "the hash is no whole one of SHA-crypt")?;
            // Only a whole one can be compared with.
            let length = if text.starts_with("$5$") { 43 } else { 86 };
            let last = text.rsplit('$').next().unwrap_or_default();
            let parts = text.split('$').count();
            if last.len() != length || parts != if fields.starts_with("rounds=") { 5 } else { 4 } {
                return Err("the hash is no whole one of SHA-crypt");
            }
            return Ok(Hash::ShaCrypt(hash, rounds));
        }
        Err(
            "the hash is of no kind that is known: expected bcrypt ($2y$), $5$, $6$, $apr1$ or {SHA}",
        )
    }

    /// Whether this is the password. Slow on purpose, save {SHA}.
    #[must_use]
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Hash::Bcrypt(hash, _) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::ShaCrypt(hash, _) => ShaCrypt::default().verify_password(password, hash).is_ok(),
            Hash::Apr1 { salt, digest } => apr1::digest(password, salt).ct_eq(digest).into(),
            Hash::Sha1(digest) => {
                let computed: [u8; 20] = Sha1::digest(password).into();
                computed.ct_eq(digest).into()
            }
        }
    }

    /// Roughly how long it takes, in microseconds.
    fn cost(&self) -> u64 {
        match self {
            Hash::Bcrypt(_, cost) => 40 << cost.min(&MAX_BCRYPT_COST),
            Hash::ShaCrypt(_, rounds) => u64::from(*rounds) / 2,
            Hash::Apr1 { .. } => 300,
            Hash::Sha1(_) => 1,
        }
    }
}

/// Two seconds on most machines; more would let one request hold a processor.
const MAX_BCRYPT_COST: u32 = 15;
const MAX_ROUNDS: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    /// The password `secret`, by htpasswd, openssl passwd and PHP's password_hash.
    const LINES: [&str; 6] = [
        "$2y$04$uT3abvrMVSDs41QbJiVxU.6qYTeMeY6v9w1qm87Q5VFyvpkkZJCkG",
        "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
        "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "$2b$04$uT3abvrMVSDs41QbJiVxU.6qYTeMeY6v9w1qm87Q5VFyvpkkZJCkG",
    ];

    #[test]
    fn every_kind_of_hash_is_verified() {
        for line in LINES {
            let hash = Hash::parse(line.as_bytes()).unwrap();
            assert!(hash.is_of(b"secret"), "{line}");
            for wrong in [&b"Secret"[..], b"", b"secret ", b"secre"] {
                assert!(!hash.is_of(wrong), "{line}");
            }
        }
    }

    #[test]
    fn a_file_is_read_line_by_line() {
        let text = format!(
            "# users\r\n\nanna:{}\r\nbert:{}:Bert, 2nd floor\n",
            LINES[0], LINES[3]
        );
        let users = Users::parse(text.as_bytes()).unwrap();
        let (anna, hash) = users.hash_of(b"anna");
        assert_eq!(anna.as_deref(), Some(&b"anna"[..]));
        assert!(hash.is_of(b"secret"));
        assert!(users.hash_of(b"bert").0.is_some());
        let (nobody, decoy) = users.hash_of(b"carl");
        assert!(nobody.is_none() && matches!(*decoy, Hash::Bcrypt(..)));
        assert!(Users::parse(b"").unwrap().hash_of(b"").0.is_none());
    }

    #[test]
    fn a_bad_line_is_told_by_its_number_and_without_its_secret() {
        let good = format!("anna:{}\n", LINES[3]);
        for bad in [
            "anna",
            ":x",
            "bert:",
            "bert:plaintext",
            "bert:rl.3StKT.4T8M",
            "bert:$2y$04$short",
            "bert:$2y$20$uT3abvrMVSDs41QbJiVxU.6qYTeMeY6v9w1qm87Q5VFyvpkkZJCkG",
            "bert:$6$saltsalt$short",
            "bert:$6$rounds=999999999$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
            "bert:$5$",
            "bert:$apr1$saltsalt$plain",
            "bert:{SHA}plain",
            "b\0rt:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            &format!("anna:{}", LINES[0]),
        ] {
            let text = format!("{good}{bad}\n");
            let error = Users::parse(text.as_bytes()).err().unwrap();
            assert_eq!(error.line, 2, "{bad}");
            assert!(!error.reason.contains("plain"), "{error}");
        }
    }
}
