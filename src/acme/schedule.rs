//! When a certificate is ordered: in time before the old one ends, and not too soon after a failure. All times are seconds of
//! Unix time, as they outlive the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::tls::certificate::Certificate;

/// What has gone wrong with an order, by whom it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The authority could not be reached, or did not let us begin: no host has anything to do with it, and nothing was used up.
    Authority,
    /// The order of one host. Authorities count these: Let's Encrypt lets a host be proved wrongly five times an hour.
    Host,
}

/// Failures one after the other, as they are kept over restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setback {
    /// How many.
    pub failures: u32,
    /// Not before this second it is tried again.
    pub until: i64,
    /// Why the last one has failed.
    pub why: String,
}

impl Setback {
    /// This one, and one more failure at `now`. `chance` is 0 to 1; `asked` is how long the authority wants to be left alone.
    #[must_use]
    pub fn one_more(
        &self,
        failure: Failure,
        why: String,
        now: i64,
        chance: f64,
        asked: Option<Duration>,
    ) -> Setback {
        let wait = wait(failure, self.failures, chance).max(asked.unwrap_or_default());
        let wait = i64::try_from(wait.min(LONGEST).as_secs()).unwrap_or(i64::MAX);
        Setback {
            failures: self.failures.saturating_add(1),
            until: now.saturating_add(wait),
            why,
        }
    }

    /// Not before this second it is tried again. Where the clock was set back that is not for ever.
    #[must_use]
    pub fn until(&self, now: i64) -> i64 {
        let longest = i64::try_from(LONGEST.as_secs()).unwrap_or(i64::MAX);
        self.until.min(now.saturating_add(longest))
    }
}

/// How long is waited after so many failures and one more.
fn wait(failure: Failure, before: u32, chance: f64) -> Duration {
    let (first, most) = match failure {
        Failure::Authority => (Duration::from_secs(10), Duration::from_secs(3600)),
        Failure::Host => (Duration::from_secs(300), Duration::from_secs(6 * 3600)),
    };
    let doubled = first.saturating_mul(1_u32.checked_shl(before.min(20)).unwrap_or(u32::MAX));
    // Those that have failed together are not to come back together.
    doubled
        .min(most)
        .mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0)
}

/// The second from which on a host's certificate is renewed: a third of its life before its end, and up to a thirtieth earlier,
/// so that those that were ordered together are not renewed together. It is always the same for one certificate.
#[must_use]
pub fn renewal(host: &str, certificate: &Certificate) -> i64 {
    let (begins, ends) = (certificate.begins.seconds, certificate.expires.seconds);
    let life = ends.saturating_sub(begins).max(0);
    let spread = u64::try_from(life / 30).unwrap_or_default().max(1);
    let own = xxh3_64(format!("{host} {begins}").as_bytes()) % spread;
    ends.saturating_sub(life / 3)
        .saturating_sub(i64::try_from(own).unwrap_or_default())
}

/// An authority that says it wants to be left alone for longer is not believed: certificates end.
pub const LONGEST: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;
    use crate::clock::{Clock, UnixTime};

    fn lasting(begins: i64, days: i64) -> Certificate {
        let made = Certificate::self_signed(vec!["a.test".to_owned()], &default_provider());
        let time = |seconds| UnixTime { seconds, nanos: 0 };
        Certificate {
            begins: time(begins),
            expires: time(begins + days * DAY),
            ..made.expect("made")
        }
    }

    const DAY: i64 = 86_400;

    #[test]
    fn a_third_of_its_life_is_left_and_not_all_are_renewed_at_once() {
        let begins = 1_800_000_000;
        for days in [6, 45, 90, 365] {
            let certificate = lasting(begins, days);
            let ends = begins + days * DAY;
            let (earliest, latest) = (ends - days * DAY * 11 / 30, ends - days * DAY / 3);
            let times: std::collections::HashSet<i64> = (0..20)
                .map(|site| renewal(&format!("{site}.test"), &certificate))
                .inspect(|time| assert!((earliest - 1..=latest).contains(time), "{days}: {time}"))
                .collect();
            assert!(times.len() > 10, "{times:?}");
            assert_eq!(
                renewal("a.test", &certificate),
                renewal("a.test", &certificate)
            );
        }
        // Whatever a certificate says of itself.
        let odd = Certificate {
            begins: UnixTime {
                seconds: i64::MAX,
                nanos: 0,
            },
            expires: UnixTime {
                seconds: i64::MIN,
                nanos: 0,
            },
            ..lasting(begins, 1)
        };
        assert_eq!(renewal("a.test", &odd), i64::MIN);
    }

    /// The seconds from the first failure on at which it is tried again, failing each time.
    fn attempts(failure: Failure, chance: f64, count: usize) -> Vec<i64> {
        let (clock, hand) = Clock::manual();
        let began = clock.unix().seconds;
        let mut setback = Setback::default();
        let mut times = vec![0];
        while times.len() < count {
            let now = clock.unix().seconds;
            setback = setback.one_more(failure, String::new(), now, chance, None);
            let wait = u64::try_from(setback.until(now) - now).expect("later");
            hand.advance(Duration::from_secs(wait));
            times.push(clock.unix().seconds - began);
        }
        times
    }

    #[test]
    fn a_host_is_proved_less_than_five_times_an_hour() {
        for chance in [0.0, 0.5, 1.0] {
            let times = attempts(Failure::Host, chance, 40);
            for window in times.windows(5) {
                assert!(window[4] - window[0] > 3600, "{window:?}");
            }
            let last = times[39] - times[38];
            assert!((6 * 3600..=6 * 3600 * 5 / 4).contains(&last), "{last}");
        }
    }

    #[test]
    fn an_authority_that_is_not_there_is_asked_soon_and_then_seldom() {
        let times = attempts(Failure::Authority, 0.0, 40);
        assert_eq!(times[..5], [0, 10, 30, 70, 150]);
        assert_eq!(times[39] - times[38], 3600);
    }

    #[test]
    fn what_the_authority_asks_for_counts_within_reason_and_a_clock_set_back_does_not() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        let after = |asked| {
            let setback = Setback::default();
            setback.one_more(Failure::Host, "why".to_owned(), 1000, 0.0, asked)
        };
        assert_eq!(after(asked(7200)).until, 1000 + 7200);
        assert_eq!(after(asked(1)).until, 1000 + 300);
        assert_eq!(after(asked(u64::MAX)).until, 1000 + DAY);
        assert_eq!(after(None).why, "why");
        let far = Setback {
            until: i64::MAX,
            ..Setback::default()
        };
        assert_eq!(far.until(1000), 1000 + DAY);
    }
}
