//! The access rules of the folders above a file, read from their `.htaccess` through the descriptor cache.
//!
//! What was read is kept per folder for a short while, as the chain of all rules from the root down, so that a request
//! costs one look into a table however deep its folder lies. Then, or at once when a watch tells that one of the files
//! has changed, they are asked for again in the descriptor cache, which knows by itself when to look at the tree. A `.htaccess` that cannot be read denies what lies below it.
//!
//! What is kept holds the watches that vouch for it, so folders that nobody asks for are forgotten.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lru::LruCache;
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::UnixTime;
use crate::descriptor_cache::{
    DescriptorCache, FileEntry, FileFound, Found, LookupError, RootGeneration, Voucher, Want,
};
use crate::request::tree_path::TreePath;
use crate::site::htaccess::{self, Rules, Verdict};

/// The folders' own access rules of one site.
#[derive(Debug)]
pub struct DirectoryRules {
    cache: Arc<DescriptorCache>,
    shards: Box<[RwLock<Shard>]>,
    /// The shard whose turn it is to forget.
    turn: AtomicUsize,
}

impl DirectoryRules {
    /// Nothing is known at first.
    #[must_use]
    pub fn new(cache: Arc<DescriptorCache>) -> DirectoryRules {
        let shard = || {
            RwLock::new(Shard {
                generation: 0,
                folders: LruCache::new(FOLDERS_PER_SHARD),
            })
        };
        DirectoryRules {
            cache,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whether the folders above this file, which exists, let everybody have it.
    ///
    /// # Errors
    /// The tree cannot be asked at the moment; anything else that hides a `.htaccess` denies.
    pub async fn allow(
        &self,
        root: &Arc<RootGeneration>,
        file: TreePath<'_>,
        now: UnixTime,
    ) -> Result<bool, LookupError> {
        let folder = file.parent().unwrap_or(TreePath::ROOT).as_bytes();
        let name = file.file_name();
        if let Some(allowed) = self.known(root.id(), folder, now, |judged| judged.allows(name)) {
            return Ok(allowed);
        }
        // Boxed: rare, and what every request's future has room for should be small.
        let judged = Box::pin(self.look(root, folder, now)).await?;
        Ok(judged.allows(name))
    }

    /// Forgets folders not looked at for a minute, in one of sixteen parts: to be called once a second.
    pub fn forget_unused(&self, now: UnixTime) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let Some(shard) = self.shards.get(turn) else {
            return;
        };
        let mut shard = shard.write();
        let is_old =
            |known: &Known| !(0..KEPT_NANOS).contains(&now.nanos_since(known.judged.looked));
        let old: Vec<Box<[u8]>> = shard
            .folders
            .iter()
            .filter(|(_, known)| is_old(known))
            .map(|(folder, _)| folder.clone())
            .collect();
        for folder in old {
            shard.folders.pop(&folder);
        }
    }

    /// Asks what is known of a folder and needs no other look.
    fn known<T>(
        &self,
        generation: u64,
        folder: &[u8],
        now: UnixTime,
        ask: impl FnOnce(&Judged) -> T,
    ) -> Option<T> {
        let shard = self.shard(folder).read();
        let judged = &shard.known(generation, folder)?.judged;
        let age = now.nanos_since(judged.looked);
        let fresh = (0..VALID_NANOS).contains(&age)
            && Vouchers::are_current(judged.vouchers.as_ref(), &self.cache);
        fresh.then(|| ask(judged))
    }

    /// Walks from the root down to the folder.
    async fn look(
        &self,
        root: &Arc<RootGeneration>,
        folder: &[u8],
        now: UnixTime,
    ) -> Result<Judged, LookupError> {
        let mut judged = Judged {
            chain: None,
            looked: now,
            vouchers: None,
        };
        for end in folder_ends(folder) {
            let folder = folder.get(..end).unwrap_or_default();
            if let Some(known) = self.known(root.id(), folder, now, Judged::clone) {
                judged = known;
                continue;
            }
            let (own, voucher) = self.own(root, folder).await?;
            // As old as the oldest look in it, so that no chain of chains outlives its time.
            judged = judged.and(own.as_ref(), voucher);
            self.keep(
                root.id(),
                folder,
                Known {
                    own,
                    judged: judged.clone(),
                },
            );
        }
        Ok(judged)
    }

    /// The folder's own rules, and what vouches for them.
    async fn own(
        &self,
        root: &Arc<RootGeneration>,
        folder: &[u8],
    ) -> Result<(Option<Own>, Option<Voucher>), LookupError> {
        let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        let path = [folder, separator, FILE_NAME].concat();
        let Some(path) = TreePath::new(&path) else {
            return Ok((Some(Own::unreadable()), None));
        };
        let (answer, voucher) = self.cache.lookup_vouched(root, path, Want::Content).await;
        let found = match answer {
            Ok(looked) => looked.found,
            Err(LookupError::Unavailable) => return Err(LookupError::Unavailable),
            Err(_) => return Ok((Some(Own::unreadable()), voucher)),
        };
        let own = match found {
            Found::Missing => None,
            Found::Directory => Some(Own::unreadable()),
            Found::File(file) => Some(self.parsed(root.id(), folder, &file).await),
        };
        Ok((own, voucher))
    }

    /// Parses the file, unless that was done of this very state of it.
    async fn parsed(&self, generation: u64, folder: &[u8], file: &FileFound) -> Own {
        if let Some(own) = self.kept(generation, folder)
            && let Some(entry) = &own.entry
            && Arc::ptr_eq(entry, &file.entry)
            && !entry.racy
        {
            return own;
        }
        let rules = match file.whole(LONGEST).await {
            Some(text) => Rules::parse(&text),
            None => {
                tracing::warn!(
                    folder = %folder.escape_ascii(),
                    size = file.entry.size(),
                    "a .htaccess is too long or cannot be read: what lies below it is denied"
                );
                Rules::deny_all()
            }
        };
        if let Some(expression) = rules.unreadable() {
            tracing::warn!(
                folder = %folder.escape_ascii(),
                expression,
                "an expression of a .htaccess is not understood: what it would deny is denied for every name"
            );
        }
        Own {
            entry: Some(file.entry.clone()),
            rules: Arc::new(rules),
        }
    }

    fn kept(&self, generation: u64, folder: &[u8]) -> Option<Own> {
        let shard = self.shard(folder).read();
        shard.known(generation, folder)?.own.clone()
    }

    fn keep(&self, generation: u64, folder: &[u8], known: Known) {
        let mut shard = self.shard(folder).write();
        if shard.generation != generation {
            shard.folders.clear();
            shard.generation = generation;
        }
        shard.folders.put(key(folder).into(), known);
    }

    fn shard(&self, folder: &[u8]) -> &RwLock<Shard> {
        let hash = usize::try_from(xxh3_64(folder) % SHARDS as u64).unwrap_or(0);
        self.shards
            .get(hash)
            .expect("invariant: the hash is taken modulo the number of shards")
    }
}

#[derive(Debug)]
struct Shard {
    /// The generation of the root that the folders belong to.
    generation: u64,
    folders: LruCache<Box<[u8]>, Known>,
}

impl Shard {
    fn known(&self, generation: u64, folder: &[u8]) -> Option<&Known> {
        let known = self.folders.peek(key(folder));
        known.filter(|_| self.generation == generation)
    }
}

/// A folder's key. The root has one that is not empty and that no folder has: comparing two empty slices, which point
/// nowhere, takes a processor with masked loads about 100 ns.
fn key(folder: &[u8]) -> &[u8] {
    match folder {
        b"" => b".",
        named => named,
    }
}

/// What is known of one folder.
#[derive(Debug)]
struct Known {
    own: Option<Own>,
    judged: Judged,
}

/// What counts in one folder.
#[derive(Debug, Clone)]
struct Judged {
    /// None: neither the folder nor one above it has any rule.
    chain: Option<Arc<Chain>>,
    /// When the oldest look in it was.
    looked: UnixTime,
    vouchers: Option<Arc<Vouchers>>,
}

impl Judged {
    fn allows(&self, file_name: &[u8]) -> bool {
        let chain = self.chain.as_ref();
        chain.is_none_or(|chain| chain.allows(file_name))
    }

    /// The same for a folder within.
    fn and(self, own: Option<&Own>, voucher: Option<Voucher>) -> Judged {
        let above = self.vouchers;
        Judged {
            chain: extended(self.chain, own),
            looked: self.looked,
            vouchers: match voucher {
                Some(own) => Some(Arc::new(Vouchers { own, above })),
                None => above,
            },
        }
    }
}

/// What vouches for a chain, as far as its files are watched: the folder's own voucher, and those above it.
#[derive(Debug)]
struct Vouchers {
    own: Voucher,
    above: Option<Arc<Vouchers>>,
}

impl Vouchers {
    fn are_current(vouchers: Option<&Arc<Vouchers>>, cache: &DescriptorCache) -> bool {
        let mut next = vouchers;
        while let Some(vouchers) = next {
            if !cache.is_current(&vouchers.own) {
                return false;
            }
            next = vouchers.above.as_ref();
        }
        true
    }
}

/// The rules of one `.htaccess`.
#[derive(Debug, Clone)]
struct Own {
    /// The state of the file they were read from.
    entry: Option<Arc<FileEntry>>,
    rules: Arc<Rules>,
}

impl Own {
    fn unreadable() -> Own {
        Own {
            entry: None,
            rules: Arc::new(Rules::deny_all()),
        }
    }
}

/// All rules that count in a folder, the root's first.
#[derive(Debug)]
struct Chain(Vec<Arc<Rules>>);

impl Chain {
    fn allows(&self, file_name: &[u8]) -> bool {
        htaccess::evaluate(self.0.iter().map(|rules| &**rules), file_name) != Verdict::Denied
    }
}

fn extended(above: Option<Arc<Chain>>, own: Option<&Own>) -> Option<Arc<Chain>> {
    let Some(own) = own.filter(|own| !own.rules.is_empty()) else {
        return above;
    };
    let mut rules = above.map(|chain| chain.0.clone()).unwrap_or_default();
    rules.push(own.rules.clone());
    Some(Arc::new(Chain(rules)))
}

/// The lengths of the prefixes of a path that are folders: the root, and each of its segments.
fn folder_ends(folder: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let whole = (!folder.is_empty()).then_some(folder.len());
    std::iter::once(0)
        .chain(memchr::memchr_iter(b'/', folder))
        .chain(whole)
}

const FILE_NAME: &[u8] = b".htaccess";
/// Bytes of a `.htaccess` that are read; a longer one denies.
const LONGEST: usize = 64 * 1024;
/// How long a chain is used before the files are asked for again: as long as a missing file is by default.
const VALID_NANOS: i128 = 2_000_000_000;
/// How long a folder is remembered that nobody asks for.
const KEPT_NANOS: i128 = 60_000_000_000;
const SHARDS: usize = 16;
const FOLDERS_PER_SHARD: NonZeroUsize = NonZeroUsize::new(512).expect("invariant: not zero");

#[cfg(test)]
mod tests;
