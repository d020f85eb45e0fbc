//! One look at a host's certificate, and the order if it is due. Whatever comes of it, the certificate in use stays until a better one
//! is there.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::Account;
use rustls::crypto::ring::default_provider;

use crate::clock::{Clock, UnixTime};
use crate::tls::certificate::Certificate;
use crate::tls::settings::Acme;

use super::challenges::Challenges;
use super::client::Client;
use super::order::{Refused, order};
use super::schedule::{Failure, Setback, renewal};
use super::store::{Lock, Store, StoreError};
use super::{account, aside, issued};

/// A host, and what is ordered for it.
pub struct Attempt<'a> {
    /// Where of.
    pub acme: &'a Acme,
    /// The host.
    pub host: &'a str,
    /// Where the authority finds its proof.
    pub challenges: &'a Arc<Challenges>,
    /// The time.
    pub clock: &'a Clock,
}

/// What has come of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not due, another process is at it, or nothing could be kept.
    NotDue,
    /// There is a new certificate.
    Issued,
    /// The authority did not issue what was ordered.
    Refused,
    /// The authority could not be reached, or did not want to have to do with us.
    Unreachable,
}

/// What has come of it, and what is next.
#[derive(Debug)]
pub struct Made {
    /// What has come of it.
    pub outcome: Outcome,
    /// The second of Unix time at which to look again.
    pub next: i64,
    /// Why there is no new certificate though one is wanted, this time or the last.
    pub why: Option<String>,
}

/// What the disk says, which another process may have written, and the right to change it.
struct Found {
    store: Store,
    certificate: Option<Certificate>,
    host: Setback,
    authority: Setback,
    _lock: Lock,
}

/// Why there is no certificate.
struct Failed {
    failure: Failure,
    why: String,
    /// How long the authority wants to be left alone.
    asked: Option<Duration>,
}

impl Attempt<'_> {
    /// Orders the certificate if it is due.
    pub async fn make(&self) -> Made {
        match self.try_make().await {
            Ok(made) => made,
            Err(why) => {
                tracing::warn!("{}: no certificate can be kept: {why}", self.host);
                Made {
                    outcome: Outcome::NotDue,
                    next: self.now().saturating_add(DISK_AGAIN),
                    why: Some(why),
                }
            }
        }
    }

    async fn try_make(&self) -> Result<Made, String> {
        let now = self.now();
        let (acme, host) = (self.acme.clone(), self.host.to_owned());
        let Some(found) = aside(move || find(&acme, &host)).await? else {
            return Ok(Made {
                outcome: Outcome::NotDue,
                next: now.saturating_add(LOCKED_AGAIN),
                why: None,
            });
        };
        let wanted = found.certificate.as_ref();
        let wanted = wanted.map_or(i64::MIN, |certificate| renewal(self.host, certificate));
        let held_up = match found.host.until(now) >= found.authority.until(now) {
            true => &found.host,
            false => &found.authority,
        };
        let allowed = held_up.until(now);
        if wanted.max(allowed) > now {
            return Ok(Made {
                outcome: Outcome::NotDue,
                next: wanted.max(allowed),
                why: (wanted <= now).then(|| held_up.why.clone()),
            });
        }
        match self.order(&found).await {
            Ok(certificate) => {
                let next = renewal(self.host, &certificate);
                let (ends, renewed) = (date(certificate.expires.seconds), date(next));
                tracing::info!(
                    "{}: a certificate until {ends}, to be renewed on {renewed}",
                    self.host
                );
                let (store, name) = (found.store.clone(), setback_of(self.host));
                aside(move || {
                    store
                        .remove(&name)
                        .and_then(|()| store.remove(OF_AUTHORITY))
                })
                .await?;
                Ok(Made {
                    outcome: Outcome::Issued,
                    next,
                    why: None,
                })
            }
            Err(failed) => self.note(&found, failed).await,
        }
    }

    /// Keeps what has failed, and says it.
    async fn note(&self, found: &Found, failed: Failed) -> Result<Made, String> {
        let Failed {
            failure,
            why,
            asked,
        } = failed;
        let (now, chance) = (self.now(), rand::random());
        let (outcome, before, name) = match failure {
            Failure::Authority => (
                Outcome::Unreachable,
                &found.authority,
                OF_AUTHORITY.to_owned(),
            ),
            Failure::Host => (Outcome::Refused, &found.host, setback_of(self.host)),
        };
        let setback = before.one_more(failure, printable(&why), now, chance, asked);
        let (host, directory) = (self.host, &self.acme.directory);
        let (why, again) = (&setback.why, date(setback.until));
        let shown = found.certificate.as_ref().map_or_else(
            || "another certificate is shown until then".to_owned(),
            |certificate| {
                format!(
                    "the one in use ends on {}",
                    date(certificate.expires.seconds)
                )
            },
        );
        match failure {
            Failure::Authority => {
                tracing::warn!(
                    "{host}: no certificate, as {directory} cannot be ordered of: {why}; tried again on {again}, {shown}"
                );
            }
            Failure::Host => {
                tracing::warn!(
                    "{host}: no certificate of {directory}: {why}; tried again on {again}, {shown}"
                );
            }
        }
        let store = found.store.clone();
        let made = Made {
            outcome,
            next: setback.until,
            why: Some(setback.why.clone()),
        };
        aside(move || {
            if failure == Failure::Host {
                store.remove(OF_AUTHORITY)?;
            }
            store.write_value(&name, &setback)
        })
        .await?;
        Ok(made)
    }

    /// Orders, looks at what has come, and keeps it.
    async fn order(&self, found: &Found) -> Result<Certificate, Failed> {
        let ca = self.acme.ca.clone();
        let client = aside(move || Client::new(ca.as_deref())).await;
        let client = client.map_err(|why| Failed::of(Failure::Authority, why))?;
        let ordered = async {
            let account = self.account(found, &client).await?;
            // A process that does not come to the end of it has had its turn, too; and it is better known now than at the end that
            // nothing can be written.
            let (store, name) = (found.store.clone(), setback_of(self.host));
            let begun = Setback {
                until: self.now().saturating_add(CUT_OFF_AGAIN),
                why: "was cut off".to_owned(),
                ..found.host.clone()
            };
            aside(move || store.write_value(&name, &begun))
                .await
                .map_err(|why| Failed::of(Failure::Host, why))?;
            let refused = |why| Failed {
                failure: Failure::Host,
                why,
                asked: client.asked(),
            };
            match order(&account, self.host, self.challenges).await {
                Ok(pem) => Ok(pem),
                Err(Refused::Order(why)) => Err(refused(why)),
                Err(Refused::Account(why)) => {
                    tracing::info!("the account is not known any more, another one is made: {why}");
                    let forgotten = account::forget(&found.store).await;
                    forgotten.map_err(|why| Failed::of(Failure::Authority, why))?;
                    let account = self.account(found, &client).await?;
                    match order(&account, self.host, self.challenges).await {
                        Ok(pem) => Ok(pem),
                        Err(Refused::Order(why) | Refused::Account(why)) => Err(refused(why)),
                    }
                }
            }
        };
        let pem = tokio::time::timeout(PATIENCE, ordered).await;
        let late = || {
            let why = format!("not done after {} minutes", PATIENCE.as_secs() / 60);
            Err(Failed::of(Failure::Host, why))
        };
        let pem = pem.unwrap_or_else(|_| late())?;
        let before = found.certificate.as_ref();
        let checked = issued::check(
            pem.as_bytes(),
            self.host,
            before,
            self.now(),
            &default_provider(),
        );
        let certificate = checked.map_err(|why| {
            Failed::of(
                Failure::Host,
                format!("what was issued is not used, it {why}"),
            )
        })?;
        let (store, name) = (found.store.clone(), format!("{}.pem", self.host));
        let kept = aside(move || store.write(&name, pem.as_bytes())).await;
        kept.map_err(|why| Failed::of(Failure::Host, why))?;
        Ok(certificate)
    }

    async fn account(&self, found: &Found, client: &Client) -> Result<Account, Failed> {
        let opened = account::open(self.acme, &found.store, client).await;
        opened.map_err(|why| Failed {
            failure: Failure::Authority,
            why,
            asked: client.asked(),
        })
    }

    fn now(&self) -> i64 {
        self.clock.unix().seconds
    }
}

impl Failed {
    fn of(failure: Failure, why: String) -> Failed {
        Failed {
            failure,
            why,
            asked: None,
        }
    }
}

/// None: another process is at it.
fn find(acme: &Acme, host: &str) -> Result<Option<Found>, StoreError> {
    let store = Store::open(acme.folder())?;
    let Some(lock) = store.lock()? else {
        return Ok(None);
    };
    // Why one cannot be read the door has said.
    let certificate = Certificate::read_whole(&acme.file(host), &default_provider()).ok();
    Ok(Some(Found {
        certificate: certificate.filter(|certificate| certificate.is_for(host)),
        host: store.read(&setback_of(host))?.unwrap_or_default(),
        authority: store.read(OF_AUTHORITY)?.unwrap_or_default(),
        store,
        _lock: lock,
    }))
}

fn setback_of(host: &str) -> String {
    format!("{host}.json")
}

/// What an authority says, in one line of a log.
fn printable(why: &str) -> String {
    let plain = why.chars().map(|it| if it.is_control() { ' ' } else { it });
    plain.take(LONGEST_WHY).collect()
}

/// A second of Unix time as people read it.
fn date(seconds: i64) -> impl Display {
    let seconds = seconds.clamp(0, LAST_DATE);
    httpdate::fmt_http_date(UnixTime { seconds, nanos: 0 }.system())
}

const LONGEST_WHY: usize = 1000;
/// The last second of the year 9999, after which dates have no such form.
const LAST_DATE: i64 = 253_402_300_799;
/// No host has an underscore.
const OF_AUTHORITY: &str = "_setback.json";
/// A whole order, whatever the authority does.
const PATIENCE: Duration = Duration::from_secs(300);
/// Seconds until another look while another process has the lock.
const LOCKED_AGAIN: i64 = 10;
/// The same when nothing could be kept.
const DISK_AGAIN: i64 = 300;
/// The same when an order was cut off by the end of the process.
const CUT_OFF_AGAIN: i64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_says_is_one_line() {
        let said = "no\nINFO all is well\r\u{1b}[2J";
        assert_eq!(printable(said), "no INFO all is well  [2J");
        assert_eq!(printable(&"x".repeat(5000)).len(), LONGEST_WHY);
    }

    #[test]
    fn any_second_has_a_date() {
        for (second, expected) in [
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_800_000_000, "Fri, 15 Jan 2027 08:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(date(second).to_string(), expected);
        }
    }
}
