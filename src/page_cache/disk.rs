//! The pages on disk: what was in memory before a restart. One file, kept by the database redb; what is in it is known by an
//! index in memory, so that nothing is read for a page that is not there.
//!
//! What was purged must not come back, whatever happens: a purge is told as done when the file is without its pages; a file that
//! cannot be written is removed; and a purge that comes while nobody has the file at hand leaves a mark beside it, by which
//! whoever opens it next begins anew.

#![expect(
    clippy::disallowed_methods,
    reason = "the writer's thread waits by the system's clock, and the file is its own"
)]

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use pingora_cache::CacheMeta;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::page_cache::page::{Page, Place};
use crate::page_cache::purge::Purge;
use crate::page_cache::settings::StoreSettings;

/// The pages on disk.
#[derive(Debug)]
pub struct Disk {
    settings: StoreSettings,
    file: Arc<Database>,
    index: Arc<Mutex<Index>>,
    orders: SyncSender<Order>,
    most_bytes: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
    ended: Mutex<Option<Receiver<()>>>,
}

/// What is on disk, the longest unused first to go.
#[derive(Debug)]
struct Index {
    rows: LruCache<Box<[u8]>, Row>,
    bytes: u64,
    /// What is in the file and in no row any more: to be taken out by the writer.
    gone: Vec<Box<[u8]>>,
    /// Numbers rows, so that a page that was replaced before it was written is not written.
    next: u64,
}

#[derive(Debug)]
struct Row {
    number: u64,
    place: Place,
    size: u64,
    /// Its content is in the file: until then that may have an older one.
    is_written: bool,
}

impl Index {
    fn new() -> Index {
        Index {
            rows: LruCache::unbounded(),
            bytes: 0,
            gone: Vec::new(),
            next: 0,
        }
    }

    fn put(&mut self, key: Box<[u8]>, place: Place, size: u64) -> u64 {
        self.next += 1;
        let row = Row {
            number: self.next,
            place,
            size,
            is_written: false,
        };
        self.bytes += size;
        if let Some((_, before)) = self.rows.push(key, row) {
            self.bytes -= before.size;
        }
        self.next
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(row) = self.rows.pop(key) {
            self.bytes -= row.size;
        }
        self.gone.push(key.into());
    }

    fn remove_meant(&mut self, purge: &Purge) -> u64 {
        let rows = self.rows.iter().filter(|(_, row)| purge.means(&row.place));
        let keys: Vec<Box<[u8]>> = rows.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key));
        keys.len() as u64
    }

    /// Removes what must go for `most` bytes.
    fn shrink(&mut self, most: u64) {
        while self.bytes > most
            && let Some((key, row)) = self.rows.pop_lru()
        {
            self.bytes -= row.size;
            self.gone.push(key);
        }
    }
}

enum Order {
    Write(Arc<Page>, u64),
    /// Takes out what has gone from the index, and tells when the file is without it.
    TakeOut(oneshot::Sender<()>),
}

/// What is written of a page beside its content.
#[derive(Serialize, Deserialize)]
struct Written {
    site: String,
    host: Vec<u8>,
    path: Vec<u8>,
    tags: Vec<Vec<u8>>,
    size: u64,
    /// The second from which on it is of no use any more.
    until: u64,
}

impl Disk {
    /// Opens the store's file. None: it cannot be used, which the log tells.
    #[must_use]
    pub fn open(settings: &StoreSettings) -> Option<Arc<Disk>> {
        let opened = Self::try_open(settings);
        if let Err(error) = &opened {
            let dir = settings.dir.display();
            tracing::warn!("{dir}: pages are kept in memory only for now: {error}");
        }
        opened.ok()
    }

    /// The same, without a word in the log.
    #[must_use]
    pub fn open_quietly(settings: &StoreSettings) -> Option<Arc<Disk>> {
        Self::try_open(settings).ok()
    }

    fn try_open(settings: &StoreSettings) -> Result<Arc<Disk>, DiskError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&settings.dir)?;
        let path = settings.dir.join(FILE);
        let open = || {
            let opened = guarded(|| Ok(open_file(settings, &path)));
            opened.unwrap_or_else(|why| Err(DiskError::Useless(why)))
        };
        let (file, index) = match open() {
            Err(DiskError::Useless(why)) => {
                // Pages can be made again.
                tracing::warn!("{}: begun anew: {why}", path.display());
                std::fs::remove_file(&path)?;
                open()?
            }
            opened => opened?,
        };
        let (file, index) = (Arc::new(file), Arc::new(Mutex::new(index)));
        let most_bytes = Arc::new(AtomicU64::new(settings.disk));
        let broken = Arc::new(AtomicBool::new(false));
        let (orders, received) = sync_channel(MOST_WAITING);
        let writer = Writer {
            path,
            file: file.clone(),
            index: index.clone(),
            most_bytes: most_bytes.clone(),
            broken: broken.clone(),
        };
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        std::thread::Builder::new()
            .name("page writer".into())
            .spawn(move || {
                // Dropped with the thread's end.
                let _ends = ends;
                writer.run(&received);
            })?;
        Ok(Arc::new(Disk {
            settings: settings.clone(),
            file,
            index,
            orders,
            most_bytes,
            broken,
            ended: Mutex::new(Some(ended)),
        }))
    }

    /// Takes on another bound.
    pub fn reconfigure(&self, most_bytes: u64) {
        self.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    /// What to open it with again, when it could not be written and was done away with.
    #[must_use]
    pub fn broken(&self) -> Option<StoreSettings> {
        self.broken
            .load(Ordering::Acquire)
            .then(|| self.settings.clone())
    }

    /// What ends when the last thing has been written, once the disk is let go of.
    #[must_use]
    pub fn end(&self) -> Option<Receiver<()>> {
        self.ended.lock().take()
    }

    /// What it was opened with.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// Whether another process was told of a purge and has left a mark: all that is here may be old.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.settings.dir.join(USELESS).exists()
    }

    /// Pages and their bytes.
    #[must_use]
    pub fn held(&self) -> (u64, u64) {
        let index = self.index.lock();
        (index.rows.len() as u64, index.bytes)
    }

    /// A page.
    pub async fn read(&self, key: &[u8]) -> Option<Page> {
        let place = {
            let mut index = self.index.lock();
            let row = index.rows.get(key).filter(|row| row.is_written)?;
            row.place.clone()
        };
        let (file, key) = (self.file.clone(), Box::<[u8]>::from(key));
        let read = tokio::task::spawn_blocking(move || {
            let bytes = content(&file, &key)?;
            decode(key, place, &bytes)
        });
        read.await.ok()?
    }

    /// Has a page written soon.
    pub fn write(&self, page: Arc<Page>) {
        let key = page.key.clone();
        let (place, size) = (page.place.clone(), size(&page));
        let number = self.index.lock().put(key.clone(), place, size);
        if self.orders.try_send(Order::Write(page, number)).is_err() {
            // The disk does not keep up.
            self.index.lock().remove(&key);
        }
    }

    /// Forgets a page soon.
    pub fn remove(&self, key: &[u8]) {
        self.index.lock().remove(key);
        self.take_out_soon();
    }

    /// Forgets pages soon: who reads does not find them from now on.
    pub fn purge_soon(&self, purge: &Purge) {
        if self.index.lock().remove_meant(purge) > 0 {
            self.take_out_soon();
        }
    }

    fn take_out_soon(&self) {
        // Nobody waits for it; behind a full queue it is done as well.
        let (done, _) = oneshot::channel();
        let _ = self.orders.try_send(Order::TakeOut(done));
    }

    /// Forgets pages; returns when the file has them no more.
    pub async fn purge(&self, purge: Purge) -> u64 {
        let count = self.index.lock().remove_meant(&purge);
        // Also when there were none: another purge may be under way, whose pages are this one's, too.
        let (done, told) = oneshot::channel();
        let orders = self.orders.clone();
        // A full queue is waited for.
        let sent = tokio::task::spawn_blocking(move || orders.send(Order::TakeOut(done)));
        if matches!(sent.await, Ok(Ok(()))) {
            let _ = told.await;
        }
        count
    }
}

fn open_file(settings: &StoreSettings, path: &Path) -> Result<(Database, Index), DiskError> {
    let useless = |error: redb::Error| match error {
        redb::Error::DatabaseAlreadyOpen => DiskError::InUse,
        // A file that is none of ours is an error of reading it.
        redb::Error::Io(error)
            if !matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof
            ) =>
        {
            DiskError::Io(error)
        }
        error => DiskError::Useless(error.to_string()),
    };
    let create = || Database::create(path).map_err(|error| useless(error.into()));
    let file = create()?;
    let mark = settings.dir.join(USELESS);
    if mark.exists() {
        // The file is locked by us: nobody else heeds the mark.
        std::fs::remove_file(path)?;
        std::fs::remove_file(mark)?;
        drop(file);
        return Ok((create()?, Index::new()));
    }
    let index = load(&file).map_err(useless)?;
    Ok((file, index))
}

/// The thread that writes: what comes within a moment goes to the disk at once.
struct Writer {
    path: PathBuf,
    file: Arc<Database>,
    index: Arc<Mutex<Index>>,
    most_bytes: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Writer {
    fn run(self, orders: &Receiver<Order>) {
        loop {
            let mut pages = HashMap::new();
            let mut told = Vec::new();
            let ended = gather(orders, &mut pages, &mut told);
            let gone = {
                let mut index = self.index.lock();
                index.shrink(self.most_bytes.load(Ordering::Relaxed));
                std::mem::take(&mut index.gone)
            };
            let is_broken = self.broken.load(Ordering::Acquire);
            let has_work = !pages.is_empty() || !gone.is_empty();
            if has_work && !is_broken {
                match guarded(|| {
                    self.commit(&pages, &gone)
                        .map_err(|error| error.to_string())
                }) {
                    Ok(()) => self.note_written(&pages),
                    Err(why) => self.give_up(&why),
                }
            }
            for done in told {
                let _ = done.send(());
            }
            if ended {
                return;
            }
        }
    }

    fn note_written(&self, pages: &HashMap<Box<[u8]>, (Arc<Page>, u64)>) {
        let mut index = self.index.lock();
        for (key, (_, number)) in pages {
            if let Some(row) = index.rows.peek_mut(key)
                && row.number == *number
            {
                row.is_written = true;
            }
        }
    }

    /// What was purged must not come back: a file that cannot be written is done away with.
    fn give_up(&self, error: &str) {
        let path = self.path.display();
        tracing::warn!("{path}: begun anew, as it cannot be written: {error}");
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::error!("{path}: old pages cannot be removed: {error}");
        }
        let mut index = self.index.lock();
        index.rows.clear();
        index.bytes = 0;
        drop(index);
        self.broken.store(true, Ordering::Release);
    }

    fn commit(
        &self,
        pages: &HashMap<Box<[u8]>, (Arc<Page>, u64)>,
        gone: &[Box<[u8]>],
    ) -> Result<(), redb::Error> {
        let transaction = self.file.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let mut contents = transaction.open_table(CONTENTS)?;
            for key in gone {
                rows.remove(&**key)?;
                contents.remove(&**key)?;
            }
            for (key, (page, number)) in pages {
                let current = self.index.lock().rows.peek(key).map(|row| row.number);
                if current != Some(*number) {
                    continue;
                }
                if let Some((row, content)) = encode(page) {
                    rows.insert(&**key, &row[..])?;
                    contents.insert(&**key, &content[..])?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Takes orders for a moment; a purge is not kept waiting. True: there will be no more.
fn gather(
    orders: &Receiver<Order>,
    pages: &mut HashMap<Box<[u8]>, (Arc<Page>, u64)>,
    told: &mut Vec<oneshot::Sender<()>>,
) -> bool {
    let mut until = None;
    while pages.len() < AT_ONCE {
        let order = match until {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => {
                let left = Instant::saturating_duration_since(&until, Instant::now());
                orders.recv_timeout(left)
            }
        };
        match order {
            Ok(Order::Write(page, number)) => {
                until.get_or_insert_with(|| Instant::now() + MOMENT);
                pages.insert(page.key.clone(), (page, number));
            }
            Ok(Order::TakeOut(done)) => {
                told.push(done);
                until = Some(Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
    false
}

/// Does something with the file. The database takes some kinds of damage for a fault of its own and panics: that is an error
/// here.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the file is damaged".to_owned()))
}

/// Reads the index.
fn load(file: &Database) -> Result<Index, redb::Error> {
    // Both tables are there from the first time on.
    let transaction = file.begin_write()?;
    transaction.open_table(ROWS)?;
    transaction.open_table(CONTENTS)?;
    transaction.commit()?;

    let mut index = Index::new();
    let now = seconds(SystemTime::now());
    let transaction = file.begin_read()?;
    let rows = transaction.open_table(ROWS)?;
    for row in rows.iter()? {
        let (key, row) = row?;
        let key = Box::<[u8]>::from(key.value());
        match serde_json::from_slice::<Written>(row.value()) {
            Ok(row) if row.until > now => {
                let place = Place {
                    site: row.site.into(),
                    host: row.host.into(),
                    path: row.path.into(),
                    tags: row.tags.into_iter().map(Into::into).collect(),
                };
                index.put(key.clone(), place, row.size);
                if let Some(row) = index.rows.peek_mut(&key) {
                    row.is_written = true;
                }
            }
            // Of no use any more.
            _ => index.gone.push(key),
        }
    }
    Ok(index)
}

/// Removes the pages in `dir`.
///
/// # Errors
/// Those of removing a file that is there.
pub fn remove_file(dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Has whoever opens the pages in `dir` next begin anew; nothing when there are none.
///
/// # Errors
/// Those of creating a file.
pub fn mark_useless(dir: &Path) -> std::io::Result<()> {
    match dir.join(FILE).exists() {
        true => std::fs::File::create(dir.join(USELESS)).map(drop),
        false => Ok(()),
    }
}

fn content(file: &Database, key: &[u8]) -> Option<Vec<u8>> {
    let transaction = file.begin_read().ok()?;
    let table = transaction.open_table(CONTENTS).ok()?;
    let content = table.get(key).ok()??;
    Some(content.value().to_vec())
}

/// A page as it is written: its row, and three texts behind their lengths.
fn encode(page: &Page) -> Option<(Vec<u8>, Vec<u8>)> {
    let kept = page.stale_while_revalidate.max(page.stale_if_error);
    let row = Written {
        site: page.place.site.to_string(),
        host: page.place.host.to_vec(),
        path: page.place.path.to_vec(),
        tags: page.place.tags.iter().map(|tag| tag.to_vec()).collect(),
        size: size(page),
        until: seconds(page.fresh_until) + u64::from(kept),
    };
    let (times, head) = page.meta().serialize().ok()?;
    let mut content = Vec::with_capacity(times.len() + head.len() + page.body.len() + 16);
    for text in [&times[..], &head[..]] {
        content.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
        content.extend_from_slice(text);
    }
    content.extend_from_slice(&page.body);
    Some((serde_json::to_vec(&row).ok()?, content))
}

fn decode(key: Box<[u8]>, place: Place, mut content: &[u8]) -> Option<Page> {
    let mut text = || {
        let (length, rest) = content.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (text, rest) = rest.split_at_checked(length)?;
        content = rest;
        Some(text)
    };
    let (times, head) = (text()?, text()?);
    let meta = CacheMeta::deserialize(times, head).ok()?;
    Some(Page::new(
        key,
        place,
        &meta,
        Bytes::copy_from_slice(content),
    ))
}

/// As the file has it: rounded up to a power of two.
fn size(page: &Page) -> u64 {
    (page.body.len() + page.key.len() * 2 + OF_A_HEAD).next_power_of_two() as u64
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[derive(Debug, thiserror::Error)]
enum DiskError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is to be begun anew.
    #[error("{0}")]
    Useless(String),
    #[error("another process uses its file")]
    InUse,
}

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const CONTENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("contents");
const FILE: &str = "pages.redb";
/// Says that a purge came while nobody had the file at hand.
const USELESS: &str = "begin-anew";
/// Pages that may wait to be written.
const MOST_WAITING: usize = 1024;
/// Pages written by one call at most.
const AT_ONCE: usize = 256;
const MOMENT: Duration = Duration::from_secs(1);
/// Bytes reckoned for head and row.
const OF_A_HEAD: usize = 1024;
