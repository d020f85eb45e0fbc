//! The way of a lookup: from the table when it can, else by a look that a task of its own makes and all who ask for the
//! same path share.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::{Instant, timeout_at};

use super::DescriptorCache;
use super::counters::increment;
use super::epochs::Voucher;
use super::finding::Recalled;
use super::flight::{Flight, Landed};
use super::found::{Found, Looked, LookupError, Outcome, Source, Want};
use super::freshness::{Moment, Trust};
use super::key::{Key, Probe};
use super::names::RootNames;
use super::root::RootGeneration;
use super::settings::Settings;
use super::siblings::Siblings;
use super::store::Need;
use crate::request::TreePath;

/// The answer of a lookup.
pub type Answer = Result<Looked, LookupError>;

/// What a look tells all who wait for it.
#[derive(Clone, Debug)]
pub struct Told {
    pub(super) answer: Answer,
    pub(super) trust: Trust,
}

impl Told {
    fn unvouched(answer: Answer) -> Self {
        Self {
            answer,
            trust: Trust::Local(None),
        }
    }
}

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
        let need = match want {
            Want::Facts => Need::Facts,
            Want::Content | Want::Script => Need::All,
        };
        if let Some((answer, ())) = self.recall(&probe, need, |_| ())
            && (!is_sent_from_descriptor(&answer) || self.still_holds(&probe, need))
        {
            return answer;
        }
        self.join(root, path, &probe).await.answer
    }

    /// The same with the voucher that the answer rests on: what is made from the answer may be used while it
    /// [is current](Self::is_current). `None`: no watch vouches for it.
    pub async fn lookup_vouched(
        self: &Arc<Self>,
        root: &Arc<RootGeneration>,
        path: TreePath<'_>,
        want: Want,
    ) -> (Answer, Option<Voucher>) {
        let probe = self.hashing.probe(root.id(), want, path.as_bytes());
        let told = match self.recall(&probe, Need::All, Trust::clone) {
            Some((answer, trust)) => Told { answer, trust },
            None => self.join(root, path, &probe).await,
        };
        (told.answer, told.trust.voucher().cloned())
    }

    /// Whether nothing has happened to what the voucher is for; no system call.
    pub fn is_current(&self, voucher: &Voucher) -> bool {
        voucher.is_current(self.watching.overflows())
    }

    /// Which of a file's coded siblings there are, if nothing has happened since that was seen.
    pub(super) fn current_siblings(&self, siblings: &Siblings) -> Option<u8> {
        siblings.current(self.watching.overflows())
    }

    /// Takes in what has happened in watched directories until now, so that every lookup that begins after this is
    /// answered by it: to be called before the answer of a program is passed on that may have changed files. One system
    /// call when nothing has happened.
    pub async fn take_in_events(self: &Arc<Self>) {
        self.take_in_pending();
        if self.watching.has_marks() {
            let cache = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || cache.resolve_marked()).await;
        }
    }

    /// The same but for the way to roots, where a new release is looked at soon after.
    pub fn take_in_pending(&self) {
        if self.watching.is_listening() {
            self.watching.take_in();
        }
    }

    /// Whether a file that is sent from its descriptor is what it was, as far as events have told until now. Bytes in
    /// memory stay what they were, but those behind a descriptor are new as soon as they are written, and must not leave
    /// under the head of before.
    fn still_holds(&self, probe: &Probe<'_>, need: Need) -> bool {
        self.take_in_pending();
        let settings = self.settings.load();
        let recalled = self
            .store
            .recall(probe, &self.moment(&settings), need, |_| ());
        recalled.is_some()
    }

    /// Shares a look, or has one made.
    async fn join(
        self: &Arc<Self>,
        root: &Arc<RootGeneration>,
        path: TreePath<'_>,
        probe: &Probe<'_>,
    ) -> Told {
        if exceeds_limits(path) {
            return Told::unvouched(Ok(Looked {
                found: Found::Missing,
                outcome: Outcome::Negative,
            }));
        }
        let mut joined = 0;
        loop {
            let mut own = false;
            let landing = self.flights.board(probe.to_key(), |flight| {
                own = true;
                tokio::spawn(fly(
                    Arc::clone(self),
                    Arc::clone(root),
                    probe.to_key(),
                    flight,
                ));
            });
            let told = match landing.wait().await {
                Landed::First(told) => told,
                Landed::Shared(mut told) => {
                    if let Ok(looked) = &mut told.answer {
                        looked.outcome = Outcome::Waited;
                        increment(&self.counters.events.waited);
                    }
                    told
                }
                // The task has panicked, or its runtime is being shut down.
                Landed::Lost => Told::unvouched(Err(BROKEN)),
            };
            // A look that others began may be older than a change that this request follows.
            let stale = told.trust.is_stale(self.watching.overflows());
            if own || !stale || joined == JOINED {
                return told;
            }
            joined += 1;
            if let Some((answer, trust)) = self.recall(probe, Need::All, Trust::clone) {
                return Told { answer, trust };
            }
        }
    }

    /// The names in the root directory: the present ones while a watch vouches for them, else as they were at most
    /// `errors_valid` ago.
    ///
    /// Answered at the first poll and without a system call while they are remembered; else a task looks.
    pub async fn root_names(self: &Arc<Self>, root: &Arc<RootGeneration>) -> RootNames {
        let mut joined = 0;
        loop {
            if let Some(names) = root.names().recall(&self.moment(&self.settings.load())) {
                return names;
            }
            let mut own = false;
            let landing = self.name_flights.board(root.id(), |flight| {
                own = true;
                tokio::spawn(fly_for_names(Arc::clone(self), Arc::clone(root), flight));
            });
            let names = match landing.wait().await {
                Landed::First(names) | Landed::Shared(names) => names,
                Landed::Lost => RootNames::Unknown,
            };
            let stale = root.names().is_stale(self.watching.overflows());
            if own || !stale || joined == JOINED {
                return names;
            }
            joined += 1;
        }
    }

    /// What freshness is judged by now.
    pub(super) fn moment<'a>(&self, settings: &'a Settings) -> Moment<'a> {
        Moment {
            settings,
            now: self.clock.now(),
            overflows: self.watching.overflows(),
        }
    }

    /// What the table answers.
    pub(super) fn recall<T>(
        &self,
        probe: &Probe<'_>,
        need: Need,
        also: impl FnOnce(&Trust) -> T,
    ) -> Option<(Answer, T)> {
        let (recalled, also) =
            self.store
                .recall(probe, &self.moment(&self.settings.load()), need, also)?;
        let answer = match recalled {
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
        };
        Some((answer, also))
    }
}

async fn fly(
    cache: Arc<DescriptorCache>,
    root: Arc<RootGeneration>,
    key: Key,
    flight: Flight<Key, Told>,
) {
    let deadline = Instant::now() + root.gate().patience();
    let Some(permit) = root.gate().enter().await else {
        increment(&cache.counters.events.unavailable);
        flight.land(Told::unvouched(Err(LookupError::Unavailable)));
        return;
    };
    let mut looking = tokio::task::spawn_blocking(move || {
        let answer = cache.look(&root, &key);
        drop(permit);
        answer
    });
    match timeout_at(deadline, &mut looking).await {
        Ok(told) => flight.land(told.unwrap_or(Told::unvouched(Err(BROKEN)))),
        Err(_) => {
            // Whoever asks for the path while the call hangs is told at once.
            flight.announce(Told::unvouched(Err(LookupError::Unavailable)));
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
        let names = root
            .names()
            .look(&cache.opener, &cache.watching, &cache.clock, &root);
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

fn is_sent_from_descriptor(answer: &Answer) -> bool {
    let Ok(Looked {
        found: Found::File(file),
        ..
    }) = answer
    else {
        return false;
    };
    matches!(file.source, Source::Descriptor(_))
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
/// Looks of others that a request takes part in, one after the other, before it takes what it gets.
const JOINED: u32 = 2;
