//! What a look means for the table and for those who wait for it. Everything here blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::DescriptorCache;
use super::counters::increment;
use super::entry::{FileEntry, Identity};
use super::finding::{Displaced, Finding, Known, Look};
use super::found::{FileFound, Found, Looked, LookupError, Outcome, Source};
use super::key::{Key, KeyView};
use super::look::{Failure, Glass, Sight, look as look_at};
use super::lookup::{Answer, BROKEN};
use super::record::{Held, Missed};
use super::root::RootGeneration;

impl DescriptorCache {
    /// Looks and enters what was found.
    pub(super) fn look(&self, root: &RootGeneration, key: &Key) -> Answer {
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
        let see = || look_at(glass, look.root, key.path(), key.want(), identity);
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

    /// Drops what the table has let go of.
    fn release(&self, displaced: Displaced) {
        let events = &self.counters.events;
        events
            .evictions
            .fetch_add(displaced.evictions, Ordering::Relaxed);
        events
            .negative_evictions
            .fetch_add(displaced.negatives, Ordering::Relaxed);
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

/// Missing paths longer than this are not worth the memory.
const LONGEST_REMEMBERED: usize = 1024;
