//! The way of a lookup: from the table when it can, else by a look that a task of its own makes and all who ask for the
//! same path share.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::{Instant, timeout_at};

use super::DescriptorCache;
use super::counters::increment;
use super::finding::Recalled;
use super::flight::{Flight, Landed};
use super::found::{Found, Looked, LookupError, Outcome, Want};
use super::key::{Key, Probe};
use super::names::RootNames;
use super::root::RootGeneration;
use crate::request::TreePath;

/// What a look answers to all who wait for it.
pub(super) type Answer = Result<Looked, LookupError>;

impl DescriptorCache {
    /// What stands at `path` below the root.
    ///
    /// A hit is answered at the first poll, without a system call, a lock for writing or an allocation. Otherwise a task
    /// looks; this future may be dropped at any time without harm to the look or to others that wait for it.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub async fn lookup(
        self: &Arc<Self>,
        root: &Arc<RootGeneration>,
        path: TreePath<'_>,
        want: Want,
    ) -> Answer {
        let probe = self.hashing.probe(root.id(), want, path.as_bytes());
        if let Some(answer) = self.recall(&probe) {
            return answer;
        }
        if exceeds_limits(path) {
            return Ok(Looked {
                found: Found::Missing,
                outcome: Outcome::Negative,
            });
        }
        let landing = self.flights.board(probe.to_key(), |flight| {
            tokio::spawn(fly(
                Arc::clone(self),
                Arc::clone(root),
                probe.to_key(),
                flight,
            ));
        });
        match landing.wait().await {
            Landed::First(answer) => answer,
            Landed::Shared(mut answer) => {
                if let Ok(looked) = &mut answer {
                    looked.outcome = Outcome::Waited;
                    increment(&self.counters.events.waited);
                }
                answer
            }
            // The task has panicked, or its runtime is being shut down.
            Landed::Lost => Err(BROKEN),
        }
    }

    /// The names in the root directory, as they were at most `errors_valid` ago.
    ///
    /// Answered at the first poll and without a system call while they are remembered; else a task looks.
    pub async fn root_names(self: &Arc<Self>, root: &Arc<RootGeneration>) -> RootNames {
        if let Some(names) = root.names().recall(&self.settings.load(), self.clock.now()) {
            return names;
        }
        let landing = self.name_flights.board(root.id(), |flight| {
            tokio::spawn(fly_for_names(Arc::clone(self), Arc::clone(root), flight));
        });
        match landing.wait().await {
            Landed::First(names) | Landed::Shared(names) => names,
            Landed::Lost => RootNames::Unknown,
        }
    }

    /// What the table answers.
    pub(super) fn recall(&self, probe: &Probe<'_>) -> Option<Answer> {
        let recalled = self
            .store
            .recall(probe, &self.settings.load(), self.clock.now())?;
        Some(match recalled {
            Recalled::Found(found) => {
                self.counters.hits.increment();
                Ok(Looked {
                    found,
                    outcome: Outcome::Hit,
                })
            }
            Recalled::Missed(error) => {
                self.counters.negatives.increment();
                match error {
                    None => Ok(Looked {
                        found: Found::Missing,
                        outcome: Outcome::Negative,
                    }),
                    Some(error) => Err(error),
                }
            }
        })
    }
}

async fn fly(
    cache: Arc<DescriptorCache>,
    root: Arc<RootGeneration>,
    key: Key,
    flight: Flight<Key, Answer>,
) {
    let deadline = Instant::now() + root.gate().patience();
    let Some(permit) = root.gate().enter().await else {
        increment(&cache.counters.events.unavailable);
        flight.land(Err(LookupError::Unavailable));
        return;
    };
    let mut looking = tokio::task::spawn_blocking(move || {
        let answer = cache.look(&root, &key);
        drop(permit);
        answer
    });
    match timeout_at(deadline, &mut looking).await {
        Ok(answer) => flight.land(answer.unwrap_or(Err(BROKEN))),
        Err(_) => {
            // Whoever asks for the path while the call hangs is told at once.
            flight.announce(Err(LookupError::Unavailable));
            let late = looking.await;
            drop(late);
        }
    }
}

async fn fly_for_names(
    cache: Arc<DescriptorCache>,
    root: Arc<RootGeneration>,
    flight: Flight<u64, RootNames>,
) {
    let deadline = Instant::now() + root.gate().patience();
    let Some(permit) = root.gate().enter().await else {
        return;
    };
    let mut looking = tokio::task::spawn_blocking(move || {
        let names = root.names().look(&cache.opener, &cache.clock, &root);
        drop(permit);
        names
    });
    match timeout_at(deadline, &mut looking).await {
        Ok(names) => flight.land(names.unwrap_or(RootNames::Unknown)),
        Err(_) => {
            flight.announce(RootNames::Unknown);
            let late = looking.await;
            drop(late);
        }
    }
}

/// Whether the kernel would answer ENAMETOOLONG without looking.
fn exceeds_limits(path: TreePath<'_>) -> bool {
    path.as_bytes().len() > LONGEST_PATH
        || path.segments().any(|segment| segment.len() > LONGEST_NAME)
}

/// What waiters get when a look ended without an answer.
pub(super) const BROKEN: LookupError = LookupError::Io(Errno::IO.raw_os_error());
/// PATH_MAX and NAME_MAX of Linux, without the final NUL.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
