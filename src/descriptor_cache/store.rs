//! The table: shards of least-recently-used lists that a hit neither locks for writing nor moves.
//!
//! A list keeps the order of placing; uses are stamps in the records. When a shard is full the record placed longest ago
//! has to go, unless it is in use by its stamp: then it is placed anew and the next one is asked, a bounded number of
//! times. Remembered errors have lists and a budget of their own, so that a scan for missing files displaces none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lru::LruCache;
use parking_lot::RwLock;

use super::budget::{GivenUp, Pressure, Turn};
use super::file::OpenFile;
use super::finding::{Displaced, Finding, Known, Look, Overdue, Recalled};
use super::found::Want;
use super::freshness::{Moment, Trust};
use super::inspect::Entry;
use super::key::{Key, KeyView, Prehashed, Probe};
use super::record::{Held, Kind, Missed, Record};
use super::settings::Settings;
use crate::clock::Tick;

/// What a hit must have.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// The facts of a file.
    Facts,
    /// What is asked for: content, too, unless the key is a script's.
    All,
}

/// The table of one cache. Nothing is dropped under its locks: what has to go is answered to the caller.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Shard]>,
    max: AtomicUsize,
    errors_max: AtomicUsize,
    epoch: AtomicU64,
}

impl Store {
    /// An empty table for these settings.
    pub fn new(settings: &Settings) -> Self {
        let count = if settings.max < SHARDS * LEAST_PER_SHARD {
            1
        } else {
            SHARDS
        };
        Self {
            shards: (0..count).map(|_| Shard::default()).collect(),
            max: AtomicUsize::new(settings.max),
            errors_max: AtomicUsize::new(settings.errors_max),
            epoch: AtomicU64::new(0),
        }
    }

    /// Takes over other bounds. A shard that holds too much gives it up when something is placed in it.
    pub fn reconfigure(&self, settings: &Settings) {
        self.max.store(settings.max, Ordering::Relaxed);
        self.errors_max
            .store(settings.errors_max, Ordering::Relaxed);
    }

    /// What a request gets without a look: no system call, no lock for writing, no allocation.
    ///
    /// `also` tells the caller more about what it rests on.
    pub fn recall<T>(
        &self,
        probe: &Probe<'_>,
        moment: &Moment<'_>,
        need: Need,
        also: impl FnOnce(&Trust) -> T,
    ) -> Option<(Recalled, T)> {
        let table = self.shard(probe.view().shard_bits()).0.read();
        if let Some(record) = table.found.peek(probe as &dyn KeyView) {
            record.touch(moment.settings, moment.now);
            let looked = record.looked();
            let usable = match &record.kind {
                Kind::File(..) if probe.want() == Want::Script => true,
                Kind::File(entry, Held::Nothing) => need == Need::Facts && !entry.racy,
                // Also where it is watched: an event takes some microseconds to be told, and a file that is being written
                // now is likely to be written again.
                Kind::File(entry, _) => !entry.racy,
                Kind::Directory => true,
            };
            return (usable && record.trust.is_valid(moment, looked))
                .then(|| (Recalled::Found(record.found()), also(&record.trust)));
        }
        let missed = table.missed.peek(probe as &dyn KeyView)?;
        missed.touch(moment.now);
        missed
            .trust
            .error_is_valid(moment, missed.brevity(), missed.looked)
            .then(|| (Recalled::Missed(missed.error), also(&missed.trust)))
    }

    /// What is only looked at again to see whether its watch was right.
    pub fn overdue(&self, key: &Key, moment: &Moment<'_>) -> Option<Overdue> {
        let table = self.shard(key.view().shard_bits()).0.read();
        if let Some(record) = table.found.peek(key as &dyn KeyView) {
            let Kind::File(entry, _) = &record.kind else {
                return None;
            };
            let voucher = record.trust.current(moment)?;
            return (!record.trust.is_valid(moment, record.looked())).then(|| Overdue {
                voucher: voucher.clone(),
                identity: Some(entry.identity),
            });
        }
        let missed = table.missed.peek(key as &dyn KeyView)?;
        let voucher = missed.trust.current(moment)?;
        let valid = missed
            .trust
            .error_is_valid(moment, missed.brevity(), missed.looked);
        (!valid && missed.error.is_none()).then(|| Overdue {
            voucher: voucher.clone(),
            identity: None,
        })
    }

    /// What is known of a path before another look.
    pub fn known(&self, key: &Key, moment: &Moment<'_>) -> Option<Known> {
        let table = self.shard(key.view().shard_bits()).0.read();
        let record = table.found.peek(key as &dyn KeyView)?;
        Some(Known {
            file: match &record.kind {
                Kind::File(entry, held) => Some((Arc::clone(entry), held.source())),
                Kind::Directory => None,
            },
            is_admitted: record.is_admitted(moment.settings),
            is_valid: record.trust.is_valid(moment, record.looked()),
        })
    }

    /// The number by which a later [`settle`](Self::settle) tells that nothing was purged since.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Enters what a look found. Nothing is entered when the table was purged or the generation ended since the look
    /// began: then the finding serves those who wait for it, and is answered back.
    pub fn settle(&self, key: Key, finding: Finding, trust: Trust, look: &Look<'_>) -> Displaced {
        let mut displaced = Displaced::default();
        let mut table = self.shard(key.view().shard_bits()).0.write();
        if look.epoch != self.epoch() || look.root.is_retired() {
            displaced.records.extend(finding.into_record(trust, look));
            return displaced;
        }
        let mut old = table.found.pop(&key as &dyn KeyView);
        table.missed.pop(&key as &dyn KeyView);
        let finding = match (finding, old.as_mut().map(|old| &mut old.kind)) {
            // The same state of the file goes on with what is held of it, if it has not been given up meanwhile.
            (Finding::Unchanged(entry), Some(Kind::File(_, held))) => {
                let mut held = std::mem::replace(held, Held::Nothing);
                held.mark(&trust);
                Finding::File(entry, held)
            }
            (finding, _) => finding,
        };
        match finding {
            Finding::Missed(missed) => {
                table.missed.put(key, missed);
                displaced.negatives = table.make_room_for_missed(self.quota(&self.errors_max));
            }
            Finding::Nothing => {}
            found => {
                if let Some(record) = found.into_record(trust, look) {
                    let record = match &old {
                        Some(old) => record.with_uses_of(old),
                        None => record,
                    };
                    table.found.put(key, record);
                    displaced.evictions =
                        table.make_room(self.quota(&self.max), look, &mut displaced.records);
                }
            }
        }
        drop(table);
        displaced.records.extend(old);
        displaced
    }

    /// Takes what the entry of `turn` holds, leaving its facts.
    pub fn give_up(&self, turn: &Turn, pressure: Pressure, now: Tick) -> GivenUp {
        let mut table = self.shard(turn.key.view().shard_bits()).0.write();
        let Some(record) = table.found.peek_mut(&turn.key as &dyn KeyView) else {
            return GivenUp::Gone;
        };
        let in_use = record.is_used_since(turn.placed, now);
        let Kind::File(_, held) = &mut record.kind else {
            return GivenUp::Gone;
        };
        if held.ticket() != Some(turn.ticket) {
            return GivenUp::Gone;
        }
        let spared = match pressure {
            Pressure::Displacement => in_use || !held.is_idle(),
            Pressure::Exhaustion => !held.is_idle(),
            Pressure::Bound => false,
        };
        if spared {
            GivenUp::Kept
        } else {
            GivenUp::Taken(std::mem::replace(held, Held::Nothing))
        }
    }

    /// The descriptor that the entry of `turn` holds.
    pub fn held_file(&self, turn: &Turn) -> Option<Arc<OpenFile>> {
        let table = self.shard(turn.key.view().shard_bits()).0.read();
        let record = table.found.peek(&turn.key as &dyn KeyView)?;
        match &record.kind {
            Kind::File(_, Held::Descriptor(file, hold, ..)) if hold.ticket() == turn.ticket => {
                Some(Arc::clone(file))
            }
            _ => None,
        }
    }

    /// Forgets everything; looks that are under way are not entered either.
    pub fn purge(&self) -> Vec<Record> {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let mut records = Vec::new();
        for shard in &self.shards {
            let mut old = std::mem::take(&mut *shard.0.write());
            records.extend(std::iter::from_fn(|| {
                old.found.pop_lru().map(|(_, record)| record)
            }));
        }
        records
    }

    /// Takes out the entries of a generation, a bounded number at a time under a lock.
    pub fn forget_generation(&self, generation: u64, mut each: impl FnMut(Record)) {
        for shard in &self.shards {
            while shard.remove(|key, _| key.generation() == generation, &mut each) == SLICE {}
            let mut table = shard.0.write();
            let keys: Vec<_> = table
                .missed
                .iter()
                .map(|(key, _)| key)
                .filter(|key| key.generation() == generation)
                .cloned()
                .collect();
            for key in keys {
                table.missed.pop(&key);
            }
        }
    }

    /// Takes out entries unused for `inactive`, and errors that no longer count.
    pub fn expire(&self, moment: &Moment<'_>, mut each: impl FnMut(Record)) {
        for shard in &self.shards {
            let inactive = moment.settings.inactive;
            let unused = |_: &Key, record: &Record| moment.now.since(record.used()) >= inactive;
            while shard.remove(unused, &mut each) == SLICE {}
            let mut table = shard.0.write();
            // Errors are in the order of their looks. Those that a watch vouches for may count long: they step aside for
            // the ones behind them.
            for _ in 0..table.missed.len() {
                let Some((key, missed)) = table.missed.peek_lru() else {
                    break;
                };
                if missed.is_over(moment) {
                    table.missed.pop_lru();
                } else if missed.trust.current(moment).is_some() {
                    let key = key.clone();
                    table.missed.promote(&key);
                } else {
                    break;
                }
            }
        }
    }

    /// Files and directories, and errors, in the table.
    pub fn len(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(found, missed), shard| {
            let table = shard.0.read();
            (found + table.found.len(), missed + table.missed.len())
        })
    }

    /// Shows every entry that is meant, shard by shard.
    pub fn for_each(&self, meant: impl Fn(&Key) -> bool, mut show: impl FnMut(&Key, Entry<'_>)) {
        for shard in &self.shards {
            let table = shard.0.read();
            for (key, record) in table.found.iter().filter(|(key, _)| meant(key)) {
                show(key, Entry::Found(record));
            }
            for (key, missed) in table.missed.iter().filter(|(key, _)| meant(key)) {
                show(key, Entry::Missed(missed));
            }
        }
    }

    /// Takes out every entry that is meant and counts them; looks that are under way are not entered.
    pub fn forget(&self, meant: impl Fn(&Key) -> bool) -> (Vec<Record>, usize) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let (mut records, mut count) = (Vec::new(), 0);
        for shard in &self.shards {
            let mut table = shard.0.write();
            let keys: Vec<Key> = table
                .found
                .iter()
                .map(|(key, _)| key)
                .chain(table.missed.iter().map(|(key, _)| key))
                .filter(|key| meant(key))
                .cloned()
                .collect();
            count += keys.len();
            for key in &keys {
                records.extend(table.found.pop(key));
                table.missed.pop(key);
            }
        }
        (records, count)
    }

    fn shard(&self, bits: usize) -> &Shard {
        // The count is a power of two.
        let index = bits & (self.shards.len() - 1);
        self.shards
            .get(index)
            .expect("invariant: an index below the number of shards")
    }

    fn quota(&self, bound: &AtomicUsize) -> usize {
        (bound.load(Ordering::Relaxed) / self.shards.len()).max(1)
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Table>);

impl Shard {
    /// Takes out records that `applies` to, `SLICE` at the most, and hands them to `each` outside the lock.
    fn remove(
        &self,
        applies: impl Fn(&Key, &Record) -> bool,
        each: &mut impl FnMut(Record),
    ) -> usize {
        let keys: Vec<_> = {
            let table = self.0.read();
            let matching = table
                .found
                .iter()
                .filter(|(key, record)| applies(key, record));
            matching.take(SLICE).map(|(key, _)| key.clone()).collect()
        };
        let mut removed = Vec::with_capacity(keys.len());
        if !keys.is_empty() {
            let mut table = self.0.write();
            for key in &keys {
                // It may have been used since.
                if table
                    .found
                    .peek(key)
                    .is_some_and(|record| applies(key, record))
                {
                    removed.extend(table.found.pop(key));
                }
            }
        }
        removed.into_iter().for_each(each);
        keys.len()
    }
}

#[derive(Debug)]
struct Table {
    found: LruCache<Key, Record, Prehashed>,
    missed: LruCache<Key, Missed, Prehashed>,
    /// Counts evictions, for luck.
    turns: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            found: LruCache::unbounded_with_hasher(Prehashed),
            missed: LruCache::unbounded_with_hasher(Prehashed),
            turns: 0,
        }
    }
}

impl Table {
    /// Keeps the quota after something was placed. What was used `min_uses` times, the last time within `inactive`, stays
    /// before a newcomer that was not: so a scan, which asks for each path once, displaces only what another scan left.
    ///
    /// Up to eight records in use are placed anew instead of leaving. When all eight were, a ninth of the quota is there to
    /// insert on, and the next insertions go on from where this one stopped. Once that is full of records in use as well the
    /// newcomer goes, save one in sixteen, so that a set of paths larger than the table does not stay what it was.
    fn make_room(&mut self, quota: usize, look: &Look<'_>, displaced: &mut Vec<Record>) -> u64 {
        let target = quota - quota / 9;
        if self.found.len() <= target {
            return 0;
        }
        let (now, settings) = (look.started, look.settings);
        let newcomer = self.found.iter().next();
        let unproven = newcomer
            .filter(|(_, record)| !record.is_admitted(settings))
            .map(|(key, _)| key.clone());
        let (mut evictions, mut chances) = (0, SECOND_CHANCES);
        while self.found.len() > target {
            let Some((key, record)) = self.found.peek_lru() else {
                break;
            };
            let in_use =
                record.is_admitted(settings) && now.since(record.used()) < settings.inactive;
            if in_use && chances > 0 {
                chances -= 1;
                let key = key.clone();
                if let Some(record) = self.found.get_mut(&key) {
                    record.placed = now;
                }
                continue;
            }
            if in_use && self.found.len() <= quota {
                break;
            }
            self.turns = self.turns.wrapping_add(1);
            let gone = match &unproven {
                Some(newcomer) if in_use && !self.turns.is_multiple_of(LUCKY) => {
                    self.found.pop(newcomer)
                }
                _ => self.found.pop_lru().map(|(_, record)| record),
            };
            displaced.extend(gone);
            evictions += 1;
        }
        evictions
    }

    fn make_room_for_missed(&mut self, quota: usize) -> u64 {
        let mut evictions = 0;
        while self.missed.len() > quota {
            self.missed.pop_lru();
            evictions += 1;
        }
        evictions
    }
}

const SHARDS: usize = 32;
/// A table too small for this is not sharded, so that its bound holds to the entry.
const LEAST_PER_SHARD: usize = 32;
const SECOND_CHANCES: u32 = 8;
/// One newcomer in so many displaces what is in use.
const LUCKY: u32 = 16;
/// Entries taken out at a time under one lock.
const SLICE: usize = 256;
