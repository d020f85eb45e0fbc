//! The buckets of one rule.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::{NotUntil, Quota, RateLimiter};

use crate::clock::{Clock, Tick};
use crate::request::client_network::ClientNetwork;

use super::rule::Rule;
use super::{Asker, TooMany};

/// The buckets of one rule, by client.
pub struct Limiter {
    rule: Rule,
    clock: Time,
    buckets: Buckets,
    /// For peers that speak for many.
    wide: Buckets,
    refused: AtomicU64,
    pruned: AtomicU64,
    told: AtomicU64,
}

impl Limiter {
    /// Every bucket is full.
    pub fn new(rule: Rule, clock: Clock) -> Limiter {
        let clock = Time(clock);
        let per_one = rule.rate.per / rule.rate.count.get();
        let quota = |factor: NonZeroU32| {
            let period = (per_one / factor.get()).max(Duration::from_nanos(1));
            let quota =
                Quota::with_period(period).unwrap_or_else(|| Quota::per_second(NonZeroU32::MAX));
            quota.allow_burst(rule.burst.saturating_mul(factor))
        };
        Limiter {
            buckets: Buckets::new(quota(NonZeroU32::MIN), &clock),
            wide: Buckets::new(quota(WIDER), &clock),
            rule,
            clock,
            refused: AtomicU64::new(0),
            pruned: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Requests refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Clients that are remembered now.
    pub fn clients(&self) -> usize {
        self.buckets.table.len() + self.wide.table.len()
    }

    /// Takes one from the client's bucket. `many`: the client speaks for many.
    ///
    /// # Errors
    /// There is none.
    pub fn charge(&self, who: ClientNetwork, many: bool, asker: Asker<'_>) -> Result<(), TooMany> {
        let buckets = self.of(many);
        if !self.has_room(buckets, who) {
            // So many addresses at once are nobody's own: a limit for each would not hold them.
            return Ok(());
        }
        let taken = buckets.charge.check_key(&who);
        taken.map_err(|until| {
            self.tell(asker);
            self.too_many(&until)
        })
    }

    /// Takes one from the client's bucket, if there is one.
    pub fn take(&self, who: ClientNetwork, many: bool) {
        let buckets = self.of(many);
        if self.has_room(buckets, who) {
            let _ = buckets.charge.check_key(&who);
        }
    }

    /// Whether the client's bucket has one, which stays there.
    ///
    /// # Errors
    /// There is none.
    pub fn look(&self, who: ClientNetwork, many: impl FnOnce() -> bool) -> Result<(), TooMany> {
        let seen = self.buckets.look.check_key(&who);
        if seen.is_ok() {
            return Ok(());
        }
        let seen = match many() {
            true => self.wide.look.check_key(&who),
            false => seen,
        };
        seen.map_err(|until| self.too_many(&until))
    }

    fn of(&self, many: bool) -> &Buckets {
        match many {
            true => &self.wide,
            false => &self.buckets,
        }
    }

    fn too_many(&self, until: &NotUntil<Duration>) -> TooMany {
        self.refused.fetch_add(1, Ordering::Relaxed);
        TooMany(until.wait_time_from(governor::clock::Clock::now(&self.clock)))
    }

    /// Whether the client may have a bucket. Those that are full again are forgotten, at most once a second.
    fn has_room(&self, buckets: &Buckets, who: ClientNetwork) -> bool {
        if buckets.table.len() < MOST_CLIENTS || buckets.table.contains_key(&who) {
            return true;
        }
        if self.is_due(&self.pruned, PRUNED_EVERY) {
            buckets.charge.retain_recent();
        }
        buckets.table.len() < MOST_CLIENTS
    }

    fn is_due(&self, last: &AtomicU64, every: Duration) -> bool {
        let now = self.clock.0.now();
        let before = last.load(Ordering::Relaxed);
        (before == 0 || now.since(Tick(before)) >= every)
            && last
                .compare_exchange(before, now.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// A line for the log, now and then.
    fn tell(&self, asker: Asker<'_>) {
        if !self.is_due(&self.told, TOLD_EVERY) {
            return;
        }
        let (rule, address) = (self.rule.matches.as_str(), asker.client.address);
        if asker.client.trusted_peer && address == asker.peer.to_canonical() {
            tracing::warn!(
                "rate_limits: {address} is answered 429 for {rule}; it is a trusted proxy that names no client, so that all of \
                 its clients share one limit: have it set X-Forwarded-For"
            );
        } else {
            tracing::info!("rate_limits: {address} is answered 429 for {rule}");
        }
    }
}

/// The buckets of one width.
struct Buckets {
    table: Arc<Table>,
    charge: RateLimiter<ClientNetwork, Charging, Time, Plain>,
    look: RateLimiter<ClientNetwork, Looking, Time, Plain>,
}

type Plain = NoOpMiddleware<Duration>;
type Table = DashMapStateStore<ClientNetwork>;

impl Buckets {
    fn new(quota: Quota, clock: &Time) -> Buckets {
        let table = Arc::new(Table::default());
        Buckets {
            charge: RateLimiter::new(quota, Charging(table.clone()), clock.clone()),
            look: RateLimiter::new(quota, Looking(table.clone()), clock.clone()),
            table,
        }
    }
}

/// Takes from a bucket.
struct Charging(Arc<Table>);

impl StateStore for Charging {
    type Key = ClientNetwork;

    fn measure_and_replace<T, F, E>(&self, who: &ClientNetwork, judge: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        self.0.measure_and_replace(who, judge)
    }
}

impl ShrinkableKeyedStateStore<ClientNetwork> for Charging {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.retain_recent(drop_below);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Judges as if it took from a bucket, and leaves it as it is.
struct Looking(Arc<Table>);

impl StateStore for Looking {
    type Key = ClientNetwork;

    fn measure_and_replace<T, F, E>(&self, who: &ClientNetwork, judge: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        if !self.0.contains_key(who) {
            return judge(None).map(|(answer, _)| answer);
        }
        self.0.measure_and_replace(who, |level| {
            judge(level).map(|(answer, _)| (answer, level.unwrap_or_default()))
        })
    }
}

/// The injected clock, as the buckets read it.
#[derive(Clone, Debug)]
struct Time(Clock);

impl governor::clock::Clock for Time {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now().0)
    }
}

/// How much wider the limits of a peer are that speaks for many.
const WIDER: NonZeroU32 = NonZeroU32::new(32).unwrap();
/// Clients with a bucket at a time, in each width of each rule: some megabytes.
const MOST_CLIENTS: usize = 100_000;
const PRUNED_EVERY: Duration = Duration::from_secs(1);
const TOLD_EVERY: Duration = Duration::from_secs(60);
