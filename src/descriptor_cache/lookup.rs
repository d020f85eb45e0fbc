//! The way of a lookup: from the table when it can, else by a look that a task of its own makes and all who ask for the
//! same path share.

use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::timeout;

use super::DescriptorCache;
use super::budget::Budget;
use super::counters::increment;
use super::entry::{FileEntry, Identity};
use super::file::OpenFile;
use super::flight::{Boarded, Flight};
use super::found::{FileFound, Found, Looked, LookupError, Outcome, Source, Want};
use super::key::{Key, KeyView, Probe};
use super::look::{Failure, Glass, Sight, look};
use super::names::RootNames;
use super::record::{Held, Missed};
use super::root::RootGeneration;
use super::settings::Settings;
use super::store::{Displaced, Finding, GivenUp, Known, Look, Pressure, Recalled};
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
        let boarded = self.flights.board(probe.to_key(), |flight| {
            tokio::spawn(fly(
                Arc::clone(self),
                Arc::clone(root),
                probe.to_key(),
                flight,
            ));
        });
        let (landing, joined) = match boarded {
            Boarded::Started(landing) => (landing, false),
            Boarded::Joined(landing) => (landing, true),
        };
        // Without a result the task has panicked, or its runtime is being shut down.
        let mut answer = landing.wait().await.unwrap_or(Err(BROKEN));
        if joined && let Ok(looked) = &mut answer {
            looked.outcome = Outcome::Waited;
            increment(&self.counters.events.waited);
        }
        answer
    }

    /// The names in the root directory, as they were at most `errors_valid` ago.
    ///
    /// Answered at the first poll and without a system call while they are remembered; else a task looks.
    pub async fn root_names(self: &Arc<Self>, root: &Arc<RootGeneration>) -> RootNames {
        if let Some(names) = root.names().recall(&self.settings.load(), self.clock.now()) {
            return names;
        }
        let boarded = self.name_flights.board(root.id(), |flight| {
            tokio::spawn(fly_for_names(Arc::clone(self), Arc::clone(root), flight));
        });
        let (Boarded::Started(landing) | Boarded::Joined(landing)) = boarded;
        landing.wait().await.unwrap_or(RootNames::Unknown)
    }

    fn recall(&self, probe: &Probe<'_>) -> Option<Answer> {
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

    /// Looks and enters what was found; blocks.
    fn look(&self, root: &RootGeneration, key: &Key) -> Answer {
        // The flight before this one may have landed just now.
        if let Some(answer) = self.recall(&key.view()) {
            return answer;
        }
        let settings = self.settings.load_full();
        // Taken before the look, so that nothing is ever taken for younger than it is.
        let look = Look {
            root,
            settings: &settings,
            started: self.clock.now(),
            epoch: self.store.epoch(),
        };
        let known = self.store.known(key, &settings, look.started);
        let (finding, answer) = match self.sight(&look, key, known.as_ref()) {
            Ok(sight) => self.judge(&look, key, sight, known),
            Err(failure) => judge_failure(&look, key, failure, known.is_some()),
        };
        self.count(&answer);
        if let Some(finding) = finding {
            self.release(self.store.settle(key.clone(), finding, &look));
        }
        answer
    }

    fn sight(&self, look: &Look<'_>, key: &Key, known: Option<&Known>) -> Result<Sight, Failure> {
        let glass = Glass {
            opener: &self.opener,
            settings: look.settings,
            content: &self.content,
            now: self.clock.unix_precise(),
        };
        // Only what a request can be served from needs no opening.
        let held = known
            .and_then(|known| known.file.as_ref())
            .filter(|(entry, source)| !entry.racy && !matches!(source, Source::None));
        let identity = held.map(|(entry, _)| &entry.identity);
        let see = || self::look(glass, look.root, key.path(), key.want(), identity);
        match see() {
            Err(Failure::Exhausted) => {
                self.relieve();
                see()
            }
            sight => sight,
        }
    }

    /// What a sight means for the table and for those who wait.
    fn judge(
        &self,
        look: &Look<'_>,
        key: &Key,
        sight: Sight,
        known: Option<Known>,
    ) -> (Option<Finding>, Answer) {
        let admitted = known
            .as_ref()
            .map_or(look.settings.min_uses <= 1, |known| known.is_admitted);
        let (identity, racy, opened) = match sight {
            Sight::Directory => {
                let outcome = match &known {
                    None => Outcome::Miss,
                    Some(Known { file: None, .. }) => Outcome::Retested,
                    Some(_) => Outcome::Replaced,
                };
                return (
                    Some(Finding::Directory),
                    Ok(Looked {
                        found: Found::Directory,
                        outcome,
                    }),
                );
            }
            Sight::Unchanged => {
                let Some(Known {
                    file: Some((entry, source)),
                    ..
                }) = known
                else {
                    return (None, Err(BROKEN));
                };
                let entry = with_room_for_heads(entry);
                let found = Found::File(FileFound {
                    entry: Arc::clone(&entry),
                    source,
                });
                return (
                    Some(Finding::Unchanged(entry)),
                    Ok(Looked {
                        found,
                        outcome: Outcome::Retested,
                    }),
                );
            }
            Sight::Script { identity, racy } => (identity, racy, None),
            Sight::File {
                identity,
                racy,
                file,
                bytes,
            } => (identity, racy, Some((file, bytes))),
        };
        let outcome = outcome_for(known.as_ref(), &identity);
        let entry = entry_for(known, identity, racy);
        let (source, held) = match opened {
            None => (Source::None, Held::Nothing),
            Some((file, bytes)) => self.hold(look, key, file, bytes, admitted && !racy),
        };
        let found = Found::File(FileFound {
            entry: Arc::clone(&entry),
            source,
        });
        (
            Some(Finding::File(entry, held)),
            Ok(Looked { found, outcome }),
        )
    }

    /// What a request is served from, and what the table holds of it: the bytes of a small file if they fit the budget,
    /// else the descriptor if that fits.
    fn hold(
        &self,
        look: &Look<'_>,
        key: &Key,
        file: OpenFile,
        bytes: Option<bytes::Bytes>,
        admitted: bool,
    ) -> (Source, Held) {
        if let Some(bytes) = bytes {
            let source = Source::Memory(bytes.clone());
            if admitted && self.make_room(&self.content, &self.counters.events.contents_given_up) {
                file.close();
                let hold = self.content.hold(key.clone(), look.started);
                return (source, Held::Memory(bytes, hold));
            }
            if !admitted {
                file.close();
                return (source, Held::Nothing);
            }
            return (source, self.hold_descriptor(look, key, Arc::new(file)));
        }
        let file = Arc::new(file);
        let source = Source::Descriptor(Arc::clone(&file));
        let held = if admitted {
            self.hold_descriptor(look, key, file)
        } else {
            Held::Nothing
        };
        (source, held)
    }

    fn hold_descriptor(&self, look: &Look<'_>, key: &Key, file: Arc<OpenFile>) -> Held {
        let charge = self.descriptors.charge(1);
        if self.make_room(
            &self.descriptors,
            &self.counters.events.descriptors_given_up,
        ) {
            let hold = self.descriptors.hold(key.clone(), look.started);
            Held::Descriptor(file, hold, charge)
        } else {
            Held::Nothing
        }
    }

    /// Makes others give up what is not in use until the budget is kept, a bounded number of times; whether it is.
    fn make_room(&self, budget: &Arc<Budget>, counter: &std::sync::atomic::AtomicU64) -> bool {
        let now = self.clock.now();
        for _ in 0..TURNS {
            if !budget.is_exceeded() {
                return true;
            }
            let Some(turn) = budget.next_holder(now) else {
                break;
            };
            if let GivenUp::Taken(held) = self.store.give_up(&turn, Pressure::Displacement, now) {
                increment(counter);
                held.release();
            }
        }
        !budget.is_exceeded()
    }

    /// Closes idle descriptors because the process has run out of them.
    fn relieve(&self) {
        let now = self.clock.now();
        let mut closed = 0;
        for _ in 0..self.descriptors.holders().min(RELIEF_TURNS) {
            let Some(turn) = self.descriptors.next_holder(now) else {
                return;
            };
            if let GivenUp::Taken(held) = self.store.give_up(&turn, Pressure::Exhaustion, now) {
                increment(&self.counters.events.descriptors_given_up);
                held.release();
                closed += 1;
            }
            if closed == RELIEF {
                return;
            }
        }
    }

    /// Drops what the table has let go of, where blocking is allowed.
    pub(super) fn release(&self, displaced: Displaced) {
        let events = &self.counters.events;
        events
            .evictions
            .fetch_add(displaced.evictions, std::sync::atomic::Ordering::Relaxed);
        events
            .negative_evictions
            .fetch_add(displaced.negatives, std::sync::atomic::Ordering::Relaxed);
        for record in displaced.records {
            record.release();
        }
    }

    fn count(&self, answer: &Answer) {
        let events = &self.counters.events;
        match answer {
            Ok(Looked {
                outcome: Outcome::Retested,
                ..
            }) => increment(&events.retests),
            Ok(Looked {
                outcome: Outcome::Replaced,
                ..
            }) => increment(&events.replaced),
            Ok(_) => increment(&events.misses),
            Err(LookupError::Unavailable) => increment(&events.unavailable),
            Err(LookupError::LinkRefused) => increment(&events.links_refused),
            Err(_) => increment(&events.errors),
        }
    }
}

async fn fly(
    cache: Arc<DescriptorCache>,
    root: Arc<RootGeneration>,
    key: Key,
    flight: Flight<Key, Answer>,
) {
    let Some(permit) = root.gate().enter().await else {
        increment(&cache.counters.events.unavailable);
        flight.announce(Err(LookupError::Unavailable));
        return;
    };
    let patience = root.gate().patience();
    let mut looking = tokio::task::spawn_blocking(move || {
        let answer = cache.look(&root, &key);
        drop(permit);
        answer
    });
    match timeout(patience, &mut looking).await {
        Ok(answer) => flight.announce(answer.unwrap_or(Err(BROKEN))),
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
    let Some(permit) = root.gate().enter().await else {
        return;
    };
    let patience = root.gate().patience();
    let mut looking = tokio::task::spawn_blocking(move || {
        let names = root.names().look(&cache.opener, &cache.clock, &root);
        drop(permit);
        names
    });
    match timeout(patience, &mut looking).await {
        Ok(names) => flight.announce(names.unwrap_or(RootNames::Unknown)),
        Err(_) => {
            flight.announce(RootNames::Unknown);
            let late = looking.await;
            drop(late);
        }
    }
}

/// What a failure means for the table and for those who wait.
fn judge_failure(
    look: &Look<'_>,
    key: &Key,
    failure: Failure,
    was_known: bool,
) -> (Option<Finding>, Answer) {
    let (answer, error) = match failure {
        Failure::Missing => {
            let outcome = if was_known {
                Outcome::Replaced
            } else {
                Outcome::Miss
            };
            (
                Ok(Looked {
                    found: Found::Missing,
                    outcome,
                }),
                None,
            )
        }
        Failure::Exhausted => return (None, Err(LookupError::Unavailable)),
        Failure::Error(error) if error.is_cacheable() => (Err(error), Some(error)),
        Failure::Error(error) => return (None, Err(error)),
    };
    let remembered = look.settings.errors && key.path().len() <= LONGEST_REMEMBERED;
    let finding = if remembered {
        Finding::Missed(Missed {
            error,
            looked: look.started,
        })
    } else {
        Finding::Nothing
    };
    (Some(finding), answer)
}

fn outcome_for(known: Option<&Known>, identity: &Identity) -> Outcome {
    match known {
        None => Outcome::Miss,
        Some(Known {
            file: Some((entry, _)),
            is_valid,
            ..
        }) if entry.identity == *identity => {
            // A look that was only needed to open the file again is a miss.
            if *is_valid && !entry.racy {
                Outcome::Miss
            } else {
                Outcome::Retested
            }
        }
        Some(_) => Outcome::Replaced,
    }
}

/// The entry of a sight: the known one, with its heads, when the file is in the same state.
fn entry_for(known: Option<Known>, identity: Identity, racy: bool) -> Arc<FileEntry> {
    match known {
        Some(Known {
            file: Some((entry, _)),
            ..
        }) if entry.identity == identity && entry.racy == racy => with_room_for_heads(entry),
        _ => Arc::new(FileEntry::new(identity, racy)),
    }
}

/// Rules come and go with reloads: an entry whose slots are taken is renewed now and then, so that the present ones get
/// a slot.
fn with_room_for_heads(entry: Arc<FileEntry>) -> Arc<FileEntry> {
    if entry.heads_are_full() {
        Arc::new(entry.without_heads())
    } else {
        entry
    }
}

/// Whether the kernel would answer ENAMETOOLONG without looking.
fn exceeds_limits(path: TreePath<'_>) -> bool {
    path.as_bytes().len() > LONGEST_PATH
        || path.segments().any(|segment| segment.len() > LONGEST_NAME)
}

const BROKEN: LookupError = LookupError::Io(Errno::IO.raw_os_error());
/// PATH_MAX and NAME_MAX of Linux, without the final NUL.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// Missing paths longer than this are not worth the memory.
const LONGEST_REMEMBERED: usize = 1024;
/// Holders asked to make room for one.
const TURNS: usize = 8;
/// Descriptors closed at a time when the process has run out, and holders asked for them.
const RELIEF: usize = 16;
const RELIEF_TURNS: usize = 256;
