//! The pages in memory, bounded by bytes; a scan of pages that nobody asks for again displaces none that are.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::page_cache::coded::Compressor;
use crate::page_cache::disk::{self, Disk};
use crate::page_cache::page::Page;
use crate::page_cache::purge::{Purge, What};
use crate::page_cache::settings::StoreSettings;

/// The one store of all sites.
#[derive(Debug)]
pub struct PageStore {
    pages: Cache<Box<[u8]>, Arc<Page>, Weight>,
    /// Pages that are not to be kept, by key: the second until which that is believed.
    refused: Cache<u128, i64>,
    /// Of the hash of keys, so that nobody knows which are alike.
    seed: u64,
    purges: Mutex<Purges>,
    compressor: Option<Compressor>,
    disk: RwLock<Option<Arc<Disk>>>,
    /// The disk that is wanted and not there, or not any more.
    wanted_disk: Mutex<Option<StoreSettings>>,
    /// Where pages on disk are, were, or would be: few, as settings name one.
    dirs: Mutex<Vec<PathBuf>>,
    /// Whether old pages are there that could not be marked as such.
    has_unmarked: AtomicBool,
    /// Ends with the last write to a disk that was let go of.
    leaving: Mutex<Option<Receiver<()>>>,
    purged: AtomicU64,
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Box<[u8]>, Arc<Page>> for Weight {
    fn weight(&self, _: &Box<[u8]>, page: &Arc<Page>) -> u64 {
        page.weight()
    }
}

/// The purges of late, so that no answer is kept that was begun before one that means it.
#[derive(Debug, Default)]
struct Purges {
    /// How many there were.
    count: u64,
    late: VecDeque<Purge>,
}

impl Purges {
    fn add(&mut self, purge: Purge) {
        self.count += 1;
        self.late.push_back(purge);
        if self.late.len() > REMEMBERED {
            self.late.pop_front();
        }
    }

    /// Whether any purge after the first `since` means the page; when not all of them are remembered, one may have.
    fn mean(&self, page: &Page, since: u64) -> bool {
        let news = usize::try_from(self.count.saturating_sub(since)).unwrap_or(usize::MAX);
        news > self.late.len()
            || self
                .late
                .iter()
                .rev()
                .take(news)
                .any(|purge| purge.means(&page.place))
    }
}

/// What is in the store.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    /// Pages in memory.
    pub pages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that they may have.
    pub most_bytes: u64,
    /// Pages on disk.
    pub disk_pages: u64,
    /// Bytes of them.
    pub disk_bytes: u64,
    /// Pages purged so far.
    pub purged: u64,
}

impl PageStore {
    /// An empty store.
    #[must_use]
    pub fn new(settings: &StoreSettings) -> PageStore {
        let compressor = Compressor::start();
        if let Err(error) = &compressor {
            tracing::warn!(%error, "pages are sent uncompressed");
        }
        PageStore {
            pages: Cache::with_options(
                options(settings.memory),
                Weight,
                Default::default(),
                Default::default(),
            ),
            refused: Cache::new(REFUSED),
            seed: RandomState::new().hash_one(0),
            purges: Mutex::default(),
            compressor: compressor.ok(),
            disk: RwLock::default(),
            wanted_disk: Mutex::default(),
            dirs: Mutex::new(vec![settings.dir.clone()]),
            has_unmarked: AtomicBool::new(false),
            leaving: Mutex::default(),
            purged: AtomicU64::new(0),
        }
    }

    /// Takes on other bounds, and the disk when a site wants it.
    pub fn reconfigure(&self, settings: &StoreSettings, wants_disk: bool) {
        self.pages.set_capacity(settings.memory);
        self.note_dir(&settings.dir);
        let mut disk = self.disk.write();
        let stays = disk
            .as_ref()
            .is_some_and(|disk| disk.settings().dir == settings.dir);
        if let (Some(disk), true, true) = (&*disk, stays, wants_disk) {
            disk.reconfigure(settings.disk);
            return;
        }
        if disk.take().is_some() || !wants_disk {
            // From now on nobody tells what is left there of purges.
            self.mark_disk();
        }
        if wants_disk {
            *disk = self.open_disk(settings, true);
        }
        *self.wanted_disk.lock() = (wants_disk && disk.is_none()).then(|| settings.clone());
    }

    /// Once a second: a disk that another process has used may be free by now, or that one was told of a purge that this one
    /// has not heard of.
    pub fn tick(&self) {
        let disk = self.disk.read().clone();
        if let Some(disk) = disk {
            if disk.is_marked() {
                tracing::info!("another process was told of a purge: pages are begun anew");
                self.forget(Purge {
                    site: None,
                    host: None,
                    what: What::All,
                });
            } else if disk.broken().is_none() {
                return;
            }
            *self.wanted_disk.lock() = Some(disk.settings().clone());
            *self.disk.write() = None;
        }
        let wanted = self.wanted_disk.lock().clone();
        if let Some(settings) = wanted
            && let Some(opened) = self.open_disk(&settings, false)
        {
            tracing::info!("{}: pages are kept on disk", settings.dir.display());
            *self.disk.write() = Some(opened);
            *self.wanted_disk.lock() = None;
        }
    }

    /// Lets go of the disk, for another process; what is still to be written is.
    pub fn leave_disk(&self) {
        *self.wanted_disk.lock() = None;
        let left = self.disk.write().take();
        if let Some(disk) = left {
            *self.leaving.lock() = disk.end();
        }
    }

    /// Waits until what was to be written when the disk was let go of is written, `patience` at most. Blocks.
    pub fn wait_for_disk(&self, patience: Duration) {
        if let Some(leaving) = self.leaving.lock().take() {
            // Whether it has ended or not: there is no more time.
            let _ = leaving.recv_timeout(patience);
        }
    }

    /// Opens the disk. What could not be marked as old is removed first.
    fn open_disk(&self, settings: &StoreSettings, says_why_not: bool) -> Option<Arc<Disk>> {
        if self.has_unmarked.load(Ordering::Acquire) {
            self.dirs
                .lock()
                .iter()
                .try_for_each(|dir| disk::remove_file(dir))
                .ok()?;
            self.has_unmarked.store(false, Ordering::Release);
        }
        match says_why_not {
            true => Disk::open(settings),
            false => Disk::open_quietly(settings),
        }
    }

    fn note_dir(&self, dir: &Path) {
        let mut dirs = self.dirs.lock();
        if dirs.iter().all(|known| known != dir) {
            dirs.push(dir.to_owned());
        }
    }

    /// A page, without the disk's.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Arc<Page>> {
        self.pages.get(key)
    }

    /// A page that is on disk only; it is in memory from then on.
    pub async fn get_from_disk(&self, key: &[u8]) -> Option<Arc<Page>> {
        let disk = self.disk.read().clone()?;
        let since = self.purges_so_far();
        let page = Arc::new(disk.read(key).await?);
        self.admit(page.clone(), since, false).then_some(page)
    }

    /// Has a page's compressed forms made, if that was not begun yet.
    pub fn compress(&self, page: &Arc<Page>) {
        if let Some(compressor) = &self.compressor
            && page.begins_coding()
        {
            compressor.compress(page.clone());
        }
    }

    /// How many purges there were. Who fills a page notes it before the application is asked.
    #[must_use]
    pub fn purges_so_far(&self) -> u64 {
        self.purges.lock().count
    }

    /// Keeps a page, unless a purge since `since` means it; tells whether it was kept.
    pub fn admit(&self, page: Arc<Page>, since: u64, on_disk: bool) -> bool {
        // Held until it is in: a purge comes before, and is heeded, or after, and finds it.
        let purges = self.purges.lock();
        if purges.mean(&page, since) {
            return false;
        }
        self.refused.remove(&self.hash(&page.key));
        if on_disk && let Some(disk) = &*self.disk.read() {
            disk.write(page.clone());
        }
        self.pages.insert(page.key.clone(), page);
        true
    }

    /// Puts a page in another one's place, if that is still there.
    pub fn replace(&self, old: &Arc<Page>, new: Arc<Page>, since: u64, on_disk: bool) -> bool {
        let purges = self.purges.lock();
        let is_there = self
            .pages
            .get(&*old.key)
            .is_some_and(|kept| Arc::ptr_eq(&kept, old));
        if !is_there || purges.mean(&new, since) {
            return false;
        }
        if on_disk && let Some(disk) = &*self.disk.read() {
            disk.write(new.clone());
        }
        self.pages.insert(new.key.clone(), new);
        true
    }

    /// Forgets a page that the application has answered otherwise (RFC 9111 §4.3.3), unless another one is there by now.
    pub fn supersede(&self, old: &Arc<Page>) {
        let purges = self.purges.lock();
        self.pages
            .remove_if(&*old.key, |kept| Arc::ptr_eq(kept, old));
        if let Some(disk) = &*self.disk.read() {
            disk.remove(&old.key);
        }
        drop(purges);
    }

    /// Forgets pages; tells how many, and returns only when they are forgotten on disk as well.
    pub async fn purge(&self, purge: Purge) -> u64 {
        let (count, disk) = self.forget(purge.clone());
        match disk {
            Some(disk) => count.max(disk.purge(purge).await),
            None => {
                self.mark_disk();
                count
            }
        }
    }

    /// Forgets the pages of a site that has no page cache any more: nobody tells of its purges from now on.
    pub fn forget_site(&self, site: &str) {
        let purge = Purge {
            site: Some(site.into()),
            host: None,
            what: What::All,
        };
        let (_, disk) = self.forget(purge.clone());
        match disk {
            Some(disk) => disk.purge_soon(&purge),
            None => self.mark_disk(),
        }
    }

    /// What is on a disk that is not at hand is not told of a purge: it is not to be used again.
    fn mark_disk(&self) {
        for dir in &*self.dirs.lock() {
            if let Err(error) = disk::mark_useless(dir) {
                tracing::warn!(%error, "{}: old pages could not be marked as such", dir.display());
                self.has_unmarked.store(true, Ordering::Release);
            }
        }
    }

    fn forget(&self, purge: Purge) -> (u64, Option<Arc<Disk>>) {
        let mut purges = self.purges.lock();
        purges.add(purge.clone());
        self.refused.clear();
        let gone = AtomicU64::new(0);
        self.pages.retain(|_, page| {
            let stays = !purge.means(&page.place);
            gone.fetch_add(u64::from(!stays), Ordering::Relaxed);
            stays
        });
        let count = gone.into_inner();
        self.purged.fetch_add(count, Ordering::Relaxed);
        (count, self.disk.read().clone())
    }

    /// Makes pages stale as of `now`: each is sent once more while a new one is fetched.
    pub fn expire(&self, purge: &Purge, now: SystemTime) {
        let meant: Vec<Arc<Page>> = self.all().filter(|page| purge.means(&page.place)).collect();
        let mut purges = self.purges.lock();
        // What is being fetched now was begun before.
        purges.add(purge.clone());
        for page in meant {
            // Another one may have come meanwhile.
            if self
                .pages
                .get(&*page.key)
                .is_some_and(|kept| Arc::ptr_eq(&kept, &page))
            {
                self.pages
                    .insert(page.key.clone(), Arc::new(page.expired(now)));
            }
        }
        if let Some(disk) = &*self.disk.read() {
            disk.purge_soon(purge);
        }
        drop(purges);
    }

    /// Notes that a page is not to be kept.
    pub fn refuse(&self, key: &[u8], now: i64) {
        self.refused.insert(self.hash(key), now + REFUSED_FOR);
    }

    /// Whether a page is known not to be kept.
    #[must_use]
    pub fn is_refused(&self, key: &[u8], now: i64) -> bool {
        !self.refused.is_empty()
            && self
                .refused
                .get(&self.hash(key))
                .is_some_and(|until| (1..=REFUSED_FOR).contains(&until.saturating_sub(now)))
    }

    fn hash(&self, key: &[u8]) -> u128 {
        xxh3_128_with_seed(key, self.seed)
    }

    /// All pages in memory, in no order.
    pub fn all(&self) -> impl Iterator<Item = Arc<Page>> + '_ {
        self.pages.iter().map(|(_, page)| page)
    }

    /// What is in it.
    #[must_use]
    pub fn held(&self) -> Held {
        let (disk_pages, disk_bytes) = self.disk.read().as_ref().map_or((0, 0), |disk| disk.held());
        Held {
            pages: self.pages.len() as u64,
            bytes: self.pages.weight(),
            most_bytes: self.pages.capacity(),
            disk_pages,
            disk_bytes,
            purged: self.purged.load(Ordering::Relaxed),
        }
    }
}

/// Few parts, so that each has room for the largest pages.
fn options(memory: u64) -> quick_cache::Options {
    let parts = usize::try_from(memory / BYTES_OF_A_PART).unwrap_or(MOST_PARTS);
    let built = OptionsBuilder::new()
        .estimated_items_capacity(ESTIMATED_PAGES)
        .weight_capacity(memory)
        .shards(parts.clamp(1, MOST_PARTS))
        .build();
    built.expect("invariant: both capacities are set")
}

const BYTES_OF_A_PART: u64 = 16 << 20;
const MOST_PARTS: usize = 16;
const ESTIMATED_PAGES: usize = 4096;
const REFUSED: usize = 10_000;
/// Seconds that an answer which may not be kept is believed to stay so.
const REFUSED_FOR: i64 = 120;
const REMEMBERED: usize = 1024;
