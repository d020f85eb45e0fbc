//! What an authority has issued, looked at before it is used.

use rustls::crypto::CryptoProvider;

use crate::tls::certificate::Certificate;

/// The certificate of `pem`, which has a key and the chain for it, when it is better than none at `now` and than the one `before`.
///
/// # Errors
/// What is wrong with it.
pub fn check(
    pem: &[u8],
    host: &str,
    before: Option<&Certificate>,
    now: i64,
    provider: &CryptoProvider,
) -> Result<Certificate, String> {
    let issued = Certificate::from_pem(pem, provider)?;
    if !issued.is_for(host) {
        return Err(format!(
            "is for {}, not for {host}",
            issued.names.join(", ")
        ));
    }
    if issued.expires.seconds <= now {
        return Err("has ended already, or the clock here is wrong".to_owned());
    }
    // A clock that is a little slow here is the clients' affair as little as it is a reason to have none.
    if issued.begins.seconds > now.saturating_add(SLOW) {
        return Err("has not begun yet, or the clock here is wrong".to_owned());
    }
    if before.is_some_and(|before| before.is_for(host) && before.expires > issued.expires) {
        return Err("ends sooner than the one in use".to_owned());
    }
    Ok(issued)
}

/// Seconds that the clock here may be behind that of the authority.
const SLOW: i64 = 3600;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::crypto::ring::default_provider;

    use super::*;

    /// Key and certificate for this name, from the first day of one year to that of another.
    fn issued(name: &str, from: i32, to: i32) -> String {
        let key = KeyPair::generate().expect("a key");
        key.serialize_pem() + &certificate(name, from, to, &key)
    }

    fn certificate(name: &str, from: i32, to: i32, key: &KeyPair) -> String {
        let mut wanted = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        wanted.not_before = date_time_ymd(from, 1, 1);
        wanted.not_after = date_time_ymd(to, 1, 1);
        wanted.self_signed(key).expect("made").pem()
    }

    const NOW: i64 = 1_800_000_000; // 2027-01-15

    fn checked(pem: &str, before: Option<&Certificate>) -> Result<Certificate, String> {
        check(pem.as_bytes(), "a.test", before, NOW, &default_provider())
    }

    #[test]
    fn one_that_is_right_is_taken_and_nothing_else() {
        let good = checked(&issued("a.test", 2027, 2028), None).expect("right");
        assert!(good.is_for("a.test"));
        let (key, other) = (
            KeyPair::generate().expect("a key"),
            KeyPair::generate().expect("a key"),
        );
        let of_another_key = other.serialize_pem() + &certificate("a.test", 2027, 2028, &key);
        for (pem, said) in [
            (
                issued("b.test", 2027, 2028),
                "is for b.test, not for a.test",
            ),
            (issued("a.test", 2025, 2026), "has ended already"),
            (issued("a.test", 2028, 2029), "has not begun yet"),
            (of_another_key, "do not belong together"),
            (key.serialize_pem(), "holds no certificate"),
            (
                certificate("a.test", 2027, 2028, &key),
                "holds no private key",
            ),
            ("<html>".to_owned(), "holds no certificate"),
        ] {
            let refused = checked(&pem, None).map(|_| ()).expect_err(said);
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_worse_one_does_not_take_the_place_of_a_better_one() {
        let long = checked(&issued("a.test", 2026, 2029), None).expect("right");
        let short = issued("a.test", 2027, 2028);
        let refused = checked(&short, Some(&long)).map(|_| ()).expect_err("worse");
        assert!(refused.contains("ends sooner"), "{refused}");
        let longer = issued("a.test", 2027, 2030);
        assert!(checked(&longer, Some(&long)).is_ok());
        let of_another = Certificate {
            names: vec!["b.test".to_owned()],
            ..long
        };
        assert!(checked(&short, Some(&of_another)).is_ok());
    }

    #[test]
    fn a_key_of_the_authority_is_not_used() {
        let own = KeyPair::generate().expect("a key");
        let theirs = issued("a.test", 2027, 2028);
        let refused = checked(&(own.serialize_pem() + &theirs), None);
        assert!(refused.is_err(), "the first key counts");
    }
}
