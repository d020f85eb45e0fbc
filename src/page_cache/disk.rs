//! The pages on disk: what was in memory before a restart. One file, kept by the database redb; what is in it is known by an
//! index in memory, so that nothing is read for a page that is not there.

#![expect(
    clippy::disallowed_methods,
    reason = "the writer's thread waits by the system's clock, and the file is its own"
)]

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    file: Arc<Database>,
    index: Arc<Mutex<Index>>,
    orders: SyncSender<Order>,
    most_bytes: Arc<AtomicU64>,
}

/// What is on disk, the longest unused first to go.
#[derive(Debug)]
struct Index {
    rows: LruCache<Box<[u8]>, Row>,
    bytes: u64,
    /// Numbers rows, so that a page that was replaced before it was written is not written.
    next: u64,
}

#[derive(Debug)]
struct Row {
    number: u64,
    place: Place,
    size: u64,
}

impl Index {
    fn put(&mut self, key: Box<[u8]>, place: Place, size: u64) -> u64 {
        self.next += 1;
        let row = Row {
            number: self.next,
            place,
            size,
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
    }

    fn take(&mut self, meant: impl Fn(&Place) -> bool) -> Vec<Box<[u8]>> {
        let rows = self.rows.iter().filter(|(_, row)| meant(&row.place));
        let keys: Vec<Box<[u8]>> = rows.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key));
        keys
    }

    /// What must go for `most` bytes.
    fn shrink(&mut self, most: u64) -> Vec<Box<[u8]>> {
        let mut gone = Vec::new();
        while self.bytes > most
            && let Some((key, row)) = self.rows.pop_lru()
        {
            self.bytes -= row.size;
            gone.push(key);
        }
        gone
    }
}

enum Order {
    Write(Arc<Page>, u64),
    Delete(Vec<Box<[u8]>>, oneshot::Sender<()>),
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
            tracing::warn!("{dir}: pages are kept in memory only: {error}");
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
        let file = match Database::create(&path).map_err(redb::Error::from) {
            Ok(file) => file,
            Err(redb::Error::DatabaseAlreadyOpen) => return Err(DiskError::InUse),
            Err(redb::Error::Io(error)) => return Err(error.into()),
            // Pages can be made again: what cannot be read is begun anew.
            Err(error) => {
                tracing::warn!("{}: begun anew: {error}", path.display());
                std::fs::remove_file(&path)?;
                Database::create(&path).map_err(redb::Error::from)?
            }
        };
        let file = Arc::new(file);
        let mut index = Index {
            rows: LruCache::unbounded(),
            bytes: 0,
            next: 0,
        };
        let useless = load(&file, &mut index)?;
        let index = Arc::new(Mutex::new(index));
        let most_bytes = Arc::new(AtomicU64::new(settings.disk));
        let (orders, received) = sync_channel(MOST_WAITING);
        let writer = Writer {
            file: file.clone(),
            index: index.clone(),
            most_bytes: most_bytes.clone(),
            failing: false,
        };
        std::thread::Builder::new()
            .name("page writer".into())
            .spawn(move || writer.run(&received, useless))?;
        Ok(Arc::new(Disk {
            file,
            index,
            orders,
            most_bytes,
        }))
    }

    /// Takes on another bound.
    pub fn reconfigure(&self, most_bytes: u64) {
        self.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    /// Pages and their bytes.
    #[must_use]
    pub fn held(&self) -> (u64, u64) {
        let index = self.index.lock();
        (index.rows.len() as u64, index.bytes)
    }

    /// A page.
    pub async fn read(&self, key: &[u8]) -> Option<Page> {
        let place = self.index.lock().rows.get(key)?.place.clone();
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
        let number = self
            .index
            .lock()
            .put(key.clone(), page.place.clone(), size(&page));
        if self.orders.try_send(Order::Write(page, number)).is_err() {
            // The disk does not keep up.
            self.index.lock().remove(&key);
        }
    }

    /// Forgets pages; returns when the disk has them no more.
    pub async fn purge(&self, purge: Purge) -> u64 {
        let keys = self.index.lock().take(|place| purge.means(place));
        let count = keys.len() as u64;
        if count > 0 {
            let (done, told) = oneshot::channel();
            let orders = self.orders.clone();
            // A full queue is waited for.
            let sent = tokio::task::spawn_blocking(move || orders.send(Order::Delete(keys, done)));
            if matches!(sent.await, Ok(Ok(()))) {
                let _ = told.await;
            }
        }
        count
    }
}

/// The thread that writes: what comes within a moment goes to the disk at once.
struct Writer {
    file: Arc<Database>,
    index: Arc<Mutex<Index>>,
    most_bytes: Arc<AtomicU64>,
    failing: bool,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>, mut gone: Vec<Box<[u8]>>) {
        loop {
            let mut pages = HashMap::new();
            let mut told = Vec::new();
            let ended = self.gather(orders, &mut pages, &mut gone, &mut told);
            gone.extend(
                self.index
                    .lock()
                    .shrink(self.most_bytes.load(Ordering::Relaxed)),
            );
            if !pages.is_empty() || !gone.is_empty() {
                let result = self.commit(&pages, &gone);
                if let Err(error) = &result
                    && !self.failing
                {
                    tracing::warn!("pages cannot be written to disk: {error}");
                }
                self.failing = result.is_err();
                if result.is_ok() {
                    gone.clear();
                } else {
                    let mut index = self.index.lock();
                    pages.keys().for_each(|key| index.remove(key));
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

    /// Takes orders for a moment; a purge is not kept waiting. True: there will be no more.
    fn gather(
        &self,
        orders: &Receiver<Order>,
        pages: &mut HashMap<Box<[u8]>, (Arc<Page>, u64)>,
        gone: &mut Vec<Box<[u8]>>,
        told: &mut Vec<oneshot::Sender<()>>,
    ) -> bool {
        let mut until = None;
        while pages.len() < AT_ONCE {
            let order = match until {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => {
                    orders.recv_timeout(Instant::saturating_duration_since(&until, Instant::now()))
                }
            };
            match order {
                Ok(Order::Write(page, number)) => {
                    until.get_or_insert_with(|| Instant::now() + MOMENT);
                    gone.retain(|key| *key != page.key);
                    pages.insert(page.key.clone(), (page, number));
                }
                Ok(Order::Delete(keys, done)) => {
                    keys.iter().for_each(|key| {
                        pages.remove(key);
                    });
                    gone.extend(keys);
                    told.push(done);
                    until = Some(Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
        false
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

/// Reads the index; returns the keys of what is of no use any more.
fn load(file: &Database, index: &mut Index) -> Result<Vec<Box<[u8]>>, DiskError> {
    // Both tables are there from the first time on.
    let transaction = file.begin_write().map_err(redb::Error::from)?;
    transaction.open_table(ROWS).map_err(redb::Error::from)?;
    transaction
        .open_table(CONTENTS)
        .map_err(redb::Error::from)?;
    transaction.commit().map_err(redb::Error::from)?;

    let now = seconds(SystemTime::now());
    let mut useless = Vec::new();
    let transaction = file.begin_read().map_err(redb::Error::from)?;
    let rows = transaction.open_table(ROWS).map_err(redb::Error::from)?;
    for row in rows.iter().map_err(redb::Error::from)? {
        let (key, row) = row.map_err(redb::Error::from)?;
        let key = Box::<[u8]>::from(key.value());
        match serde_json::from_slice::<Written>(row.value()) {
            Ok(row) if row.until > now => {
                let place = Place {
                    site: row.site.into(),
                    host: row.host.into(),
                    path: row.path.into(),
                    tags: row.tags.into_iter().map(Into::into).collect(),
                };
                index.put(key, place, row.size);
            }
            _ => useless.push(key),
        }
    }
    Ok(useless)
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

fn size(page: &Page) -> u64 {
    (page.body.len() + page.key.len() * 2 + OF_A_HEAD) as u64
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
    #[error("{0}")]
    File(#[from] redb::Error),
    #[error("another process uses its file")]
    InUse,
}

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const CONTENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("contents");
const FILE: &str = "pages.redb";
/// Pages that may wait to be written.
const MOST_WAITING: usize = 1024;
/// Pages written by one call at most.
const AT_ONCE: usize = 256;
const MOMENT: Duration = Duration::from_secs(1);
/// Bytes reckoned for head and row.
const OF_A_HEAD: usize = 1024;
