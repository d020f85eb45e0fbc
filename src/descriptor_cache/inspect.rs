//! Looking into the table from outside: what it holds below a path, and forgetting some of it.

use std::time::Duration;

use super::DescriptorCache;
use super::found::Want;
use super::freshness::{Moment, Trust};
use super::key::Key;
use super::record::{Held, Kind, Missed, Record};
use crate::clock::UnixTime;

/// One entry, as an administrator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The path below the root, without a leading slash.
    pub path: Vec<u8>,
    /// Whether it is known as a script only: PHP-FPM opens it, not this process.
    pub is_script: bool,
    /// `file`, `directory`, `missing`, or why it cannot be had.
    pub kind: &'static str,
    /// Bytes of a file.
    pub size: Option<u64>,
    /// A file's last modification.
    pub modified: Option<UnixTime>,
    /// What is held: `metadata`, `descriptor` or `memory`; `none` of an error.
    pub tier: &'static str,
    /// Who tells of changes: `watch`, `valid` (looked at again after that time) or `valid_remote`.
    pub vouched_by: &'static str,
    /// Uses counted, up to `min_uses`.
    pub uses: u32,
    /// Time since it was looked at.
    pub age: Duration,
    /// Time since it was used, to the second.
    pub idle: Duration,
    /// Time until it is looked at again if it is used; zero: at the next use.
    pub next_look: Duration,
}

impl DescriptorCache {
    /// The entries of this generation whose path begins with `prefix`, in the order of their paths; at most `most`, and
    /// whether there are more.
    pub fn list(&self, generation: u64, prefix: &[u8], most: usize) -> (Vec<Row>, bool) {
        let settings = self.settings.load();
        let moment = self.moment(&settings);
        let mut rows = Vec::new();
        self.store.for_each(
            |key| key.generation() == generation && key.path().starts_with(prefix),
            |key, entry| rows.push(row(key, entry, &moment)),
        );
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        let is_cut = rows.len() > most;
        rows.truncate(most);
        (rows, is_cut)
    }

    /// Forgets the entries of this generation that `meant` means, by their paths; tells how many. Looks that are under way
    /// serve those who wait for them and are not remembered. Blocks.
    pub fn forget(&self, generation: u64, meant: impl Fn(&[u8]) -> bool) -> usize {
        let (records, count) = self
            .store
            .forget(|key| key.generation() == generation && meant(key.path()));
        for record in records {
            record.release();
        }
        count
    }
}

/// An entry of the table.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// Something that was found.
    Found(&'a Record),
    /// A lookup that failed.
    Missed(&'a Missed),
}

fn row(key: &Key, entry: Entry<'_>, moment: &Moment<'_>) -> Row {
    let (trust, looked, limit) = match entry {
        Entry::Found(record) => {
            let looked = record.looked();
            (&record.trust, looked, record.trust.limit(moment))
        }
        Entry::Missed(missed) => {
            let limit = missed.trust.error_limit(moment, missed.brevity());
            (&missed.trust, missed.looked, limit)
        }
    };
    let age = moment.now.since(looked);
    let (mut kind, mut tier, mut size, mut modified, mut racy) =
        ("directory", "metadata", None, None, false);
    let (mut uses, mut idle) = (0, Duration::ZERO);
    match entry {
        Entry::Found(record) => {
            uses = record.uses();
            idle = moment.now.since(record.used());
            if let Kind::File(file, held) = &record.kind {
                kind = "file";
                size = Some(file.size());
                modified = Some(file.modified());
                racy = file.racy;
                tier = match held {
                    Held::Nothing => "metadata",
                    Held::Descriptor(..) => "descriptor",
                    Held::Memory(..) => "memory",
                };
            }
        }
        Entry::Missed(missed) => {
            tier = "none";
            kind = missed.error.map_or("missing", |error| error.as_str());
        }
    }
    let at_next_use = racy || trust.is_stale(moment.overflows);
    Row {
        path: key.path().to_vec(),
        is_script: key.want() == Want::Script,
        kind,
        size,
        modified,
        tier,
        vouched_by: match trust {
            Trust::Watched(_) => "watch",
            Trust::Local(_) => "valid",
            Trust::Remote => "valid_remote",
        },
        uses,
        age,
        idle,
        next_look: match at_next_use {
            true => Duration::ZERO,
            false => limit.saturating_sub(age),
        },
    }
}
