//! What is known of one file from one look at one descriptor: its facts, and heads prepared from them.
//!
//! An entry knows nothing of sites, access rules or paths. A look that finds other facts makes another entry, so
//! whoever holds an entry holds one consistent state of the file.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::DescriptorCache;
use super::coded_forms::Making;
use super::siblings::Siblings;
use crate::clock::UnixTime;

/// The facts by which two looks tell whether a file is the same and unchanged. All of them are compared: `cp -p` and
/// unzip leave size and mtime alone, a rename over the path leaves only the inode to tell.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last modification of the content (mtime).
    pub modified: UnixTime,
    /// Last change of content or inode (ctime); no program can set it.
    pub changed: UnixTime,
    /// Number of hard links.
    pub links: u64,
    /// Type and permission bits.
    pub mode: u32,
}

impl Identity {
    /// Whether both are the same inode, changed or not.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// One state of one file.
pub struct FileEntry {
    /// The facts of the look.
    pub identity: Identity,
    /// Whether the file had changed so shortly before the look that another change could have left the same times
    /// behind. Such a state is looked at again at each use, and its entity-tag is weak.
    pub racy: bool,
    /// Whether another state of the file was known before that had the same size and modification time (`touch -d`,
    /// `rsync -t`, `cp -p`): then these do not tell the content, and the entity-tag must.
    pub lookalike: bool,
    heads: [OnceLock<(HeadRulesId, Arc<PreparedHeads>)>; HEAD_SLOTS],
    content_hash: OnceLock<u128>,
    siblings: ArcSwapOption<Siblings>,
    making: Making,
}

impl FileEntry {
    /// The entry of a look that found `identity`.
    pub fn new(identity: Identity, racy: bool) -> Self {
        Self {
            identity,
            racy,
            lookalike: false,
            heads: [const { OnceLock::new() }; HEAD_SLOTS],
            content_hash: OnceLock::new(),
            siblings: ArcSwapOption::empty(),
            making: Making::default(),
        }
    }

    /// The entry of a look at the same path that found another state, or found this one settled.
    pub fn followed_by(&self, identity: Identity, racy: bool) -> Self {
        let looks_same =
            self.size() == identity.size && self.identity.modified == identity.modified;
        Self {
            lookalike: looks_same && (self.lookalike || self.identity != identity),
            ..Self::new(identity, racy)
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Last modification of the content (mtime).
    pub fn modified(&self) -> UnixTime {
        self.identity.modified
    }

    /// Last change of content or inode (ctime).
    pub fn changed(&self) -> UnixTime {
        self.identity.changed
    }

    /// The heads prepared by `rules`, rendered now if the entry has none.
    ///
    /// They are kept for the first two rules that ask; for others they are rendered at each call.
    pub fn heads(
        &self,
        rules: HeadRulesId,
        render: impl FnOnce() -> PreparedHeads,
    ) -> Arc<PreparedHeads> {
        for slot in &self.heads {
            match slot.get() {
                Some((id, heads)) if *id == rules => return Arc::clone(heads),
                Some(_) => {}
                None => break,
            }
        }
        let rendered = Arc::new(render());
        for slot in &self.heads {
            let (id, heads) = slot.get_or_init(|| (rules, Arc::clone(&rendered)));
            if *id == rules {
                return Arc::clone(heads);
            }
        }
        rendered
    }

    /// Whether no other rules' heads can be kept any more.
    pub(super) fn heads_are_full(&self) -> bool {
        self.heads.iter().all(|slot| slot.get().is_some())
    }

    /// The same state without heads.
    pub(super) fn without_heads(&self) -> Self {
        let renewed = Self {
            lookalike: self.lookalike,
            ..Self::new(self.identity, self.racy)
        };
        if let Some(hash) = self.known_content_hash() {
            renewed.remember_content_hash(hash);
        }
        renewed
    }

    /// Which coded siblings it has, a bit for each place; none: nobody has looked, or something has happened since.
    pub fn siblings(&self, cache: &DescriptorCache) -> Option<u8> {
        let siblings = self.siblings.load();
        cache.current_siblings(siblings.as_ref()?)
    }

    /// Notes what a look has found of them.
    pub fn note_siblings(&self, siblings: Siblings) {
        self.siblings.store(Some(Arc::new(siblings)));
    }

    /// The coded forms that are made of it here.
    pub fn making(&self) -> &Making {
        &self.making
    }

    /// xxh3-128 of the content, when it has been taken by
    /// [`FileFound::content_hash`](super::FileFound::content_hash).
    pub fn known_content_hash(&self) -> Option<u128> {
        self.content_hash.get().copied()
    }

    pub(super) fn remember_content_hash(&self, hash: u128) {
        // A second value is of the same content.
        let _ = self.content_hash.set(hash);
    }
}

impl fmt::Debug for FileEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileEntry")
            .field("identity", &self.identity)
            .field("racy", &self.racy)
            .finish_non_exhaustive()
    }
}

/// A number for each distinct set of rules that heads are rendered by, process-wide.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeadRulesId(pub u32);

/// The heads of every plain answer that a file can give, ready to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedHeads {
    /// The ETag field's value as sent, with quotes and `W/`; `None` when the file gets no entity-tag.
    pub etag: Option<Box<[u8]>>,
    /// The Last-Modified field's value in Unix seconds; `None` when the file's time says nothing.
    pub last_modified: Option<i64>,
    /// The Content-Type field's value.
    pub media_type: Box<[u8]>,
    /// Heads for a request without a version in its query.
    pub plain: HeadPair,
    /// Heads for a request with one (`?ver=`).
    pub versioned: HeadPair,
}

/// The heads that differ by status only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadPair {
    /// Status line of 200 and all fields, each line ended; no Date, no Connection, no final empty line.
    pub ok: Bytes,
    /// The same of 304.
    pub not_modified: Bytes,
    /// Fields of a 206, without status line, Content-Length and Content-Type.
    pub partial: Bytes,
}

const HEAD_SLOTS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> FileEntry {
        let time = UnixTime {
            seconds: 1,
            nanos: 0,
        };
        let identity = Identity {
            device: 1,
            inode: 2,
            size: 3,
            modified: time,
            changed: time,
            links: 1,
            mode: 0o100_644,
        };
        FileEntry::new(identity, false)
    }

    fn heads(text: &'static str) -> PreparedHeads {
        let bytes = Bytes::from_static(text.as_bytes());
        let pair = HeadPair {
            ok: bytes.clone(),
            not_modified: bytes.clone(),
            partial: bytes,
        };
        PreparedHeads {
            etag: None,
            last_modified: None,
            media_type: Box::default(),
            plain: pair.clone(),
            versioned: pair,
        }
    }

    #[test]
    fn heads_are_rendered_once_for_two_rules_and_on_demand_for_a_third() {
        let entry = entry();
        let first = entry.heads(HeadRulesId(1), || heads("one"));
        let second = entry.heads(HeadRulesId(2), || heads("two"));
        assert!(entry.heads_are_full());
        assert!(Arc::ptr_eq(
            &first,
            &entry.heads(HeadRulesId(1), || panic!("rendered again"))
        ));
        assert!(Arc::ptr_eq(
            &second,
            &entry.heads(HeadRulesId(2), || panic!("rendered again"))
        ));
        for _ in 0..2 {
            let mut rendered = false;
            let third = entry.heads(HeadRulesId(3), || {
                rendered = true;
                heads("three")
            });
            assert!(rendered);
            assert_eq!(*third, heads("three"));
        }
    }

    #[test]
    fn threads_that_render_at_once_agree_on_one_rendering() {
        let entry = entry();
        let all: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| entry.heads(HeadRulesId(9), || heads("same"))))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        assert!(
            all.windows(2)
                .all(|pair| matches!(pair, [a, b] if Arc::ptr_eq(a, b)))
        );
        assert!(!entry.heads_are_full());
    }
}
