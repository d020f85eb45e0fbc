//! Orders as they are due, one at a time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::tls::settings::Acme;

use super::attempt::{Attempt, Outcome};
use super::challenges::Challenges;

/// The orders of the process.
pub struct Renewals {
    clock: Clock,
    /// What authorities ask for.
    pub challenges: Arc<Challenges>,
    counters: Counters,
    plans: Mutex<HashMap<PathBuf, Plan>>,
    under_way: Mutex<Option<JoinHandle<()>>>,
}

/// When a certificate is looked at next.
#[derive(Clone, Debug)]
struct Plan {
    acme: Arc<Acme>,
    host: String,
    /// A second of Unix time; none: nobody has looked at the disk yet.
    next: Option<i64>,
    why: Option<String>,
}

/// The next look at a host's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLook {
    /// The authority's directory.
    pub directory: String,
    /// The host.
    pub host: String,
    /// A second of Unix time.
    pub at: i64,
    /// Why the last one has failed.
    pub why: Option<String>,
}

/// Orders counted.
#[derive(Debug, Default)]
struct Counters {
    issued: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
}

impl Renewals {
    /// No orders yet.
    #[must_use]
    pub fn new(clock: Clock) -> Renewals {
        Renewals {
            clock,
            challenges: Arc::default(),
            counters: Counters::default(),
            plans: Mutex::default(),
            under_way: Mutex::default(),
        }
    }

    /// Orders by what came of them: `refused`, of one host; `unreachable`, the authority itself.
    #[must_use]
    pub fn counted(&self) -> [(&'static str, u64); 3] {
        let counters = &self.counters;
        [
            ("issued", &counters.issued),
            ("refused", &counters.refused),
            ("unreachable", &counters.unreachable),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }

    /// When each certificate is renewed, or tried again.
    #[must_use]
    pub fn next_looks(&self) -> Vec<NextLook> {
        let plans = self.plans.lock();
        let mut looks: Vec<NextLook> = plans
            .values()
            .filter_map(|plan| {
                Some(NextLook {
                    directory: plan.acme.directory.clone(),
                    host: plan.host.clone(),
                    at: plan.next?,
                    why: plan.why.clone(),
                })
            })
            .collect();
        looks.sort_by(|one, other| {
            (&one.host, &one.directory).cmp(&(&other.host, &other.directory))
        });
        looks
    }

    /// Begins what is due of what is `wanted`, unless something is under way; for once a second. It ends with the order to stop: an
    /// order that is cut off is begun anew by whoever comes next.
    pub fn begin_due(
        self: &Arc<Self>,
        wanted: impl FnOnce() -> Vec<Acme>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut under_way = self.under_way.lock();
        if *stop.borrow() || under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let due = self.due(&wanted());
        if due.is_empty() {
            return;
        }
        let renewals = self.clone();
        *under_way = Some(tokio::spawn(async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = renewals.look_at(due) => {}
            }
        }));
    }

    /// Takes note of what is wanted; what is due of it, that first which waits longest.
    fn due(&self, wanted: &[Acme]) -> Vec<Plan> {
        let now = self.clock.unix().seconds;
        let mut plans = self.plans.lock();
        let mut still: HashMap<PathBuf, Plan> = HashMap::new();
        for acme in wanted {
            let shared = Arc::new(acme.clone());
            for host in &acme.hosts {
                let file = acme.file(host);
                let before = plans.get(&file);
                let (next, why) = before.map_or((None, None), |it| (it.next, it.why.clone()));
                still.entry(file).or_insert_with(|| Plan {
                    acme: shared.clone(),
                    host: host.clone(),
                    next,
                    why,
                });
            }
        }
        *plans = still;
        let is_due = |plan: &&Plan| plan.next.is_none_or(|next| next <= now);
        let mut due: Vec<Plan> = plans.values().filter(is_due).cloned().collect();
        due.sort_by(|one, other| (one.next, &one.host).cmp(&(other.next, &other.host)));
        due
    }

    /// Looks at these until there was an order: the next time others may be due.
    async fn look_at(&self, due: Vec<Plan>) {
        for plan in due {
            let attempt = Attempt {
                acme: &plan.acme,
                host: &plan.host,
                challenges: &self.challenges,
                clock: &self.clock,
            };
            let made = attempt.make().await;
            let counter = match made.outcome {
                Outcome::NotDue => None,
                Outcome::Issued => Some(&self.counters.issued),
                Outcome::Refused => Some(&self.counters.refused),
                Outcome::Unreachable => Some(&self.counters.unreachable),
            };
            if let Some(plan) = self.plans.lock().get_mut(&plan.acme.file(&plan.host)) {
                (plan.next, plan.why) = (Some(made.next), made.why);
            }
            if let Some(counter) = counter {
                counter.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::acme::store::Store;

    /// An authority that is not there, and a certificate for the first host.
    struct Fixture {
        folder: tempfile::TempDir,
        acme: Acme,
    }

    impl Fixture {
        fn new(hosts: &[&str]) -> Fixture {
            let folder = tempfile::tempdir().expect("a folder");
            let ca = rcgen::generate_simple_self_signed(["ca.test".to_owned()]).expect("made");
            let path = folder.path().join("ca.pem");
            fs::write(&path, ca.cert.pem()).expect("written");
            let acme = Acme {
                // The port of tcpmux, where nobody is.
                directory: "https://127.0.0.1:1/dir".to_owned(),
                ca: Some(path),
                hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                dir: folder.path().join("acme"),
                ..Acme::default()
            };
            Fixture { folder, acme }
        }

        fn has_certificate(&self, host: &str) {
            let made = rcgen::generate_simple_self_signed([host.to_owned()]).expect("made");
            let store = Store::open(self.acme.folder()).expect("made");
            let text = made.signing_key.serialize_pem() + &made.cert.pem();
            let written = store.write(&format!("{host}.pem"), text.as_bytes());
            written.expect("written");
        }

        /// One turn of the timer, and all that comes of it.
        async fn turn(&self, renewals: &Arc<Renewals>) {
            let (_go_on, stop) = watch::channel(false);
            renewals.begin_due(|| vec![self.acme.clone()], stop);
            let task = renewals.under_way.lock().take();
            if let Some(task) = task {
                task.await.expect("no panic");
            }
        }
    }

    fn waits(renewals: &Renewals, now: i64) -> Vec<(String, i64)> {
        let looks = renewals.next_looks().into_iter();
        looks.map(|look| (look.host, look.at - now)).collect()
    }

    fn unreachable(renewals: &Renewals) -> u64 {
        renewals.counted()[2].1
    }

    #[tokio::test]
    async fn an_authority_that_is_not_there_is_asked_later_and_later_over_restarts_too() {
        let fixture = Fixture::new(&["a.test", "b.test"]);
        let (clock, hand) = Clock::manual();
        let mut wait = 10;
        for failures in 1..6 {
            // Each time another process, which knows what the disk says.
            let renewals = Arc::new(Renewals::new(clock.clone()));
            fixture.turn(&renewals).await;
            assert_eq!(unreachable(&renewals), 1, "{failures}");
            let now = clock.unix().seconds;
            // The other host is not tried where the first has met nobody.
            fixture.turn(&renewals).await;
            assert_eq!(unreachable(&renewals), 1, "{failures}");
            let all_say_why = renewals.next_looks().iter().all(|look| {
                let why = look.why.as_deref().unwrap_or_default();
                why.contains("refused")
            });
            assert!(all_say_why, "{:?}", renewals.next_looks());
            for (host, left) in waits(&renewals, now) {
                assert!((wait..=wait * 5 / 4).contains(&left), "{host}: {left}");
            }
            assert_eq!(waits(&renewals, now).len(), 2);
            let another = Arc::new(Renewals::new(clock.clone()));
            fixture.turn(&another).await;
            assert_eq!(unreachable(&another), 0, "{failures}");
            hand.advance(Duration::from_secs(
                u64::try_from(wait * 5 / 4 + 1).expect("positive"),
            ));
            wait *= 2;
        }
    }

    #[tokio::test]
    async fn a_certificate_with_life_left_is_not_ordered_again() {
        let fixture = Fixture::new(&["a.test"]);
        fixture.has_certificate("a.test");
        let (clock, _hand) = Clock::manual();
        let renewals = Arc::new(Renewals::new(clock.clone()));
        fixture.turn(&renewals).await;
        assert_eq!(renewals.counted().map(|(_, count)| count), [0, 0, 0]);
        let left = waits(&renewals, clock.unix().seconds);
        assert!(left[0].1 > 86_400 * 365, "{left:?}");
    }

    #[tokio::test]
    async fn one_that_cannot_be_read_is() {
        let fixture = Fixture::new(&["a.test"]);
        fixture.has_certificate("a.test");
        fs::write(fixture.acme.file("a.test"), "-----BEGIN").expect("written");
        let (clock, _hand) = Clock::manual();
        let renewals = Arc::new(Renewals::new(clock));
        fixture.turn(&renewals).await;
        assert_eq!(unreachable(&renewals), 1);
    }

    #[tokio::test]
    async fn two_processes_do_not_order_at_a_time() {
        let fixture = Fixture::new(&["a.test"]);
        let (clock, _hand) = Clock::manual();
        let other = Store::open(fixture.acme.folder()).expect("made");
        let lock = other.lock().expect("made").expect("free");
        let renewals = Arc::new(Renewals::new(clock.clone()));
        fixture.turn(&renewals).await;
        assert_eq!(unreachable(&renewals), 0);
        let left = waits(&renewals, clock.unix().seconds);
        assert!((1..=60).contains(&left[0].1), "{left:?}");
        drop(lock);
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_made_disturbs_nobody() {
        let fixture = Fixture::new(&["a.test"]);
        fs::write(&fixture.acme.dir, "a file").expect("written");
        let (clock, _hand) = Clock::manual();
        let renewals = Arc::new(Renewals::new(clock.clone()));
        fixture.turn(&renewals).await;
        assert_eq!(unreachable(&renewals), 0);
        let left = waits(&renewals, clock.unix().seconds);
        assert!(left[0].1 >= 60, "{left:?}");
        drop(fixture.folder);
    }

    #[tokio::test]
    async fn hosts_that_have_gone_are_forgotten_and_a_stop_begins_nothing() {
        let mut fixture = Fixture::new(&["a.test", "b.test"]);
        let (clock, _hand) = Clock::manual();
        let renewals = Arc::new(Renewals::new(clock));
        fixture.turn(&renewals).await;
        fixture.acme.hosts = vec!["b.test".to_owned()];
        fixture.turn(&renewals).await;
        let hosts: Vec<String> = renewals
            .next_looks()
            .into_iter()
            .map(|it| it.host)
            .collect();
        assert_eq!(hosts, ["b.test"]);
        let (_stopped, stop) = watch::channel(true);
        let another = Arc::new(Renewals::new(Clock::system()));
        another.begin_due(|| vec![fixture.acme.clone()], stop);
        assert!(another.under_way.lock().is_none());
    }
}
