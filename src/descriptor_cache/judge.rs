//! What a look means for the table and for those who wait for it. Everything here blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::DescriptorCache;
use super::counters::increment;
use super::entry::{FileEntry, Identity};
use super::filesystem::Locality;
use super::finding::{Displaced, Finding, Known, Look};
use super::found::{FileFound, Found, Looked, LookupError, Outcome, Source};
use super::freshness::{Moment, Trust};
use super::key::{Key, KeyView};
use super::look::{Failure, Glass, Seen, Sight, Way, look as look_at};
use super::lookup::{Answer, BROKEN, Told};
use super::record::{Held, Missed};
use super::root::RootGeneration;
use super::store::Need;
use super::vouch::Reach;

impl DescriptorCache {
    /// Looks and enters what was found.
    pub(super) fn look(&self, root: &RootGeneration, key: &Key) -> Told {
        // The flight before this one may have landed just now.
        if let Some((answer, trust)) = self.recall(&key.view(), Need::All, Trust::clone) {
            return Told { answer, trust };
        }
        let settings = self.settings.load_full();
        // All taken before the look, so that nothing is ever taken for younger than it is.
        let started = self.clock.now();
        let look = Look {
            root,
            settings: &settings,
            started,
            epoch: self.store.epoch(),
            vouched: self.watching.vouch(&self.opener, root, key.path(), started),
        };
        let moment = Moment {
            settings: &settings,
            now: started,
            overflows: self.watching.overflows(),
        };
        let overdue = self.store.overdue(key, &moment);
        let known = self.store.known(key, &moment);
        let seen = self.sight(&look, key, known.as_ref());
        if let Some(overdue) = overdue {
            self.audit(&look, &overdue, &seen);
        }
        let trust = trust(&look, key, &seen);
        let (finding, answer) = match seen {
            Ok(seen) => self.judge(&look, key, seen.sight, known, &trust),
            Err(failure) => judge_failure(&look, key, failure, known.is_some(), &trust),
        };
        self.count(&answer);
        if let Some(finding) = finding {
            self.release(
                self.store
                    .settle(key.clone(), finding, trust.clone(), &look),
            );
        }
        Told { answer, trust }
    }

    fn sight(&self, look: &Look<'_>, key: &Key, known: Option<&Known>) -> Result<Seen, Failure> {
        let glass = Glass {
            opener: &self.opener,
            settings: look.settings,
            content: &self.content,
            now: self.clock.unix_precise(),
            watching: &self.watching,
            way: match &look.vouched {
                Some(vouched) if vouched.reach != Reach::Link => Way::Plain,
                _ => Way::Any,
            },
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
        trust: &Trust,
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
            Sight::Unchanged(_) => {
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
            Some((file, bytes)) => {
                // What is racy may change unseen, unless a watch tells.
                let may_hold = admitted && (!racy || matches!(trust, Trust::Watched(_)));
                self.hold(look, key, file, bytes, may_hold, trust)
            }
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

/// What is to tell a change of what was seen.
fn trust(look: &Look<'_>, key: &Key, seen: &Result<Seen, Failure>) -> Trust {
    let (plain, exists, locality) = match seen {
        Ok(seen) => {
            let single = match &seen.sight {
                Sight::Directory => true,
                // What is changed by another name is told to that name's directory.
                Sight::Script { identity, .. } | Sight::File { identity, .. } => {
                    identity.links == 1
                }
                Sight::Unchanged(identity) => identity.links == 1,
            };
            // A file mounted on its own is changed in the directory it comes from.
            let apart = look.root.is_mount_point(key.path());
            let own = single && !apart;
            (seen.way == Way::Plain && own, true, seen.locality)
        }
        Err(Failure::Missing(way)) => (*way == Way::Plain, false, Locality::Local),
        // What refuses may stand anywhere on the path.
        Err(_) => (false, false, Locality::Local),
    };
    match &look.vouched {
        _ if locality == Locality::Remote => Trust::Remote,
        Some(vouched) if plain && vouched.reach.tells(exists) => {
            Trust::Watched(vouched.voucher.clone())
        }
        vouched => Trust::Local(vouched.as_ref().map(|vouched| vouched.voucher.clone())),
    }
}

/// What a failure means for the table and for those who wait.
fn judge_failure(
    look: &Look<'_>,
    key: &Key,
    failure: Failure,
    was_known: bool,
    trust: &Trust,
) -> (Option<Finding>, Answer) {
    let (answer, error) = match failure {
        Failure::Missing(_) => {
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
        Finding::Missed(Missed::new(error, trust.clone(), look.started))
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
        Some(Known {
            file: Some((before, _)),
            ..
        }) => Arc::new(before.followed_by(identity, racy)),
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
