//! How many requests of a kind one client may make: a bucket for each address and rule, which fills at the rule's rate and
//! holds its burst.
//!
//! - [`rule`] is what the settings say;
//! - [`limiter`] are the buckets of one rule, which outlive a reload that leaves the rule as it is;
//! - [`unnamed_proxies`] are peers that speak for many clients without being trusted: their limits are wider.
//!
//! A request for a file that is there meets only the rules that can mean files, which by default is none.

pub mod limiter;
pub mod rule;
pub mod unnamed_proxies;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::request::client::Client;
use crate::request::client_network::ClientNetwork;
use crate::request::fields::Fields;
use crate::request::pattern::{Pattern, PatternError};

use limiter::Limiter;
pub use rule::{Match, Rate, Rule};
use unnamed_proxies::UnnamedProxies;

/// What all rules of the process count by; outlives reloads.
pub struct Counting {
    clock: Clock,
    limiters: Mutex<HashMap<Rule, Arc<Limiter>>>,
    proxies: UnnamedProxies,
}

impl Counting {
    /// Nothing has been counted.
    pub fn new(clock: Clock) -> Counting {
        Counting {
            clock,
            limiters: Mutex::default(),
            proxies: UnnamedProxies::default(),
        }
    }

    /// The buckets of these rules: those of rules that were there before are kept, those of others are let go of.
    fn of(&self, rules: &[Rule]) -> Vec<Arc<Limiter>> {
        let mut limiters = self.limiters.lock();
        limiters.retain(|rule, _| rules.contains(rule));
        let kept = rules.iter().map(|rule| {
            let made = || Arc::new(Limiter::new(rule.clone(), self.clock.clone()));
            limiters.entry(rule.clone()).or_insert_with(made).clone()
        });
        kept.collect()
    }

    /// The buckets in use.
    pub fn all(&self) -> Vec<Arc<Limiter>> {
        self.limiters.lock().values().cloned().collect()
    }
}

/// The rules in force.
pub struct RateLimits {
    paths: Vec<PathLimit>,
    missing: Vec<Arc<Limiter>>,
    counting: Arc<Counting>,
}

struct PathLimit {
    pattern: Pattern,
    /// Whether the pattern can mean a file that is sent as it is.
    means_files: bool,
    limiter: Arc<Limiter>,
}

/// Who asks, as far as the limits go.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The client.
    pub client: &'a Client,
    /// The other end of the connection.
    pub peer: IpAddr,
}

/// A request that is one too many; it may come again after this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany(pub Duration);

impl TooMany {
    /// The time in seconds, at least one.
    pub fn seconds(self) -> u64 {
        let whole = self.0.as_secs();
        let begun = u64::from(self.0.subsec_nanos() > 0);
        whole.saturating_add(begun).max(1)
    }
}

impl RateLimits {
    /// These rules over what has been counted so far.
    ///
    /// # Errors
    /// A pattern cannot be used.
    pub fn new(rules: &[Rule], counting: &Arc<Counting>) -> Result<RateLimits, PatternError> {
        let mut made = RateLimits {
            paths: Vec::new(),
            missing: Vec::new(),
            counting: counting.clone(),
        };
        for (rule, limiter) in rules.iter().zip(counting.of(rules)) {
            match &rule.matches {
                Match::Missing => made.missing.push(limiter),
                Match::Path(pattern) => made.paths.push(PathLimit {
                    means_files: !is_script(pattern.as_bytes()),
                    pattern: Pattern::parse(pattern)?,
                    limiter,
                }),
            }
        }
        Ok(made)
    }

    /// Whether any rule can mean a file.
    pub fn mean_files(&self) -> bool {
        self.paths.iter().any(|rule| rule.means_files)
    }

    /// A file is asked for, which is there.
    ///
    /// # Errors
    /// It is one too many.
    pub fn file<'a, F: Fields + ?Sized>(
        &self,
        path: &[u8],
        fields: &F,
        asker: impl FnOnce() -> Asker<'a>,
    ) -> Result<(), TooMany> {
        let rules = self.paths.iter().filter(|rule| rule.means_files);
        let meant = rules.filter(|rule| rule.pattern.matches(path));
        self.charge(meant.map(|rule| &*rule.limiter), fields, asker)
    }

    /// A script is asked for, or the origin. `path` is the request's, `script` the one that runs, if that is known.
    ///
    /// # Errors
    /// It is one too many.
    pub fn application<'a, F: Fields + ?Sized>(
        &self,
        path: &[u8],
        script: Option<&[u8]>,
        fields: &F,
        asker: impl FnOnce() -> Asker<'a>,
    ) -> Result<(), TooMany> {
        // `/wp-login.php/anything` runs that script, too.
        let asked = script_part(path);
        let meant = self.paths.iter().filter(|rule| {
            let means = |path: &[u8]| rule.pattern.matches(path);
            means(path) || means(asked) || script.is_some_and(means)
        });
        self.charge(meant.map(|rule| &*rule.limiter), fields, asker)
    }

    /// The application is to be started: whoever has asked for too much that is not there waits before that.
    ///
    /// # Errors
    /// It is one too many.
    pub fn start<'a>(&self, asker: impl FnOnce() -> Asker<'a>) -> Result<(), TooMany> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let Asker { client, peer } = asker();
        let who = ClientNetwork::from(client.address);
        let speaks_for_many = || self.counting.proxies.knows(peer);
        for limiter in &self.missing {
            limiter.look(who, speaks_for_many)?;
        }
        Ok(())
    }

    /// Something was asked for that is not there.
    ///
    /// # Errors
    /// It is one too many.
    pub fn missing<'a, F: Fields + ?Sized>(
        &self,
        fields: &F,
        asker: impl FnOnce() -> Asker<'a>,
    ) -> Result<(), TooMany> {
        self.charge(self.missing.iter().map(|limiter| &**limiter), fields, asker)
    }

    /// The application has answered that it is not there, and was asked for it already: the next one waits.
    pub fn was_missing(&self, asker: Asker<'_>) {
        let Asker { client, peer } = asker;
        let many = !client.trusted_peer && self.counting.proxies.knows(peer);
        let who = ClientNetwork::from(client.address);
        for limiter in &self.missing {
            limiter.take(who, many);
        }
    }

    fn charge<'a, 'l, F: Fields + ?Sized>(
        &self,
        limiters: impl Iterator<Item = &'l Limiter>,
        fields: &F,
        asker: impl FnOnce() -> Asker<'a>,
    ) -> Result<(), TooMany> {
        let mut limiters = limiters.peekable();
        if limiters.peek().is_none() {
            return Ok(());
        }
        let asker = asker();
        let Asker { client, peer } = asker;
        let many = !client.trusted_peer && self.counting.proxies.sees(peer, fields);
        let who = ClientNetwork::from(client.address);
        limiters.try_for_each(|limiter| limiter.charge(who, many, asker))
    }
}

fn is_script(path: &[u8]) -> bool {
    let end = path.len().saturating_sub(SCRIPT.len());
    path.get(end..)
        .is_some_and(|end| end.eq_ignore_ascii_case(SCRIPT))
}

/// The path up to the first segment that names a script; else all of it.
fn script_part(path: &[u8]) -> &[u8] {
    let ends = memchr::memchr_iter(b'/', path).filter_map(|end| path.get(..end));
    ends.into_iter()
        .find(|start| is_script(start))
        .unwrap_or(path)
}

const SCRIPT: &[u8] = b".php";

#[cfg(test)]
mod tests;
