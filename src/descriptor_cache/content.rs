//! The content of small files: read whole in one look, counted until the last transfer has let go of it; and its hash.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::budget::{Budget, Charge};
use super::entry::Identity;
use super::file::OpenFile;
use super::found::{FileFound, Source};
use super::open::Opener;

/// Reads the whole file and looks at the descriptor again: `None` when it changed meanwhile. Blocks.
///
/// # Errors
/// Those of reading.
pub fn read_unchanged(
    opener: &Opener,
    file: &OpenFile,
    identity: &Identity,
    budget: &Arc<Budget>,
) -> Result<Option<Bytes>, Errno> {
    let charge = budget.charge(identity.size);
    let bytes = file.read_whole()?;
    let whole = u64::try_from(bytes.len()).is_ok_and(|length| length == identity.size);
    if !whole || opener.facts(file)?.identity != *identity {
        return Ok(None);
    }
    Ok(Some(Bytes::from_owner(Charged {
        bytes,
        _charge: charge,
    })))
}

impl FileFound {
    /// The first `length` bytes, or all when there are fewer; none when they cannot be read, or are not there any more.
    pub async fn start(&self, length: usize) -> Option<Bytes> {
        let size = usize::try_from(self.entry.size()).unwrap_or(usize::MAX);
        let length = length.min(size);
        match &self.source {
            Source::Memory(bytes) => (length <= bytes.len()).then(|| bytes.slice(..length)),
            Source::Descriptor(open) => {
                let read = open.read_at(0, length).await.ok()?;
                (read.len() == length).then_some(read)
            }
            Source::None => None,
        }
    }

    /// The whole content; none when it is longer than `longest`, or as [`start`](Self::start).
    pub async fn whole(&self, longest: usize) -> Option<Bytes> {
        let size = usize::try_from(self.entry.size()).ok()?;
        match size <= longest {
            true => self.start(size).await,
            false => None,
        }
    }

    /// xxh3-128 of the content, taken once for an entry: for tags that are equal on every node, and for files whose
    /// times say nothing. Later calls do no work.
    ///
    /// # Errors
    /// Those of reading; `ResourceBusy` when the file was changed since the look, `InvalidInput` when it was found for
    /// [`Want::Script`](super::Want::Script).
    pub async fn content_hash(&self) -> io::Result<u128> {
        if let Some(hash) = self.entry.known_content_hash() {
            return Ok(hash);
        }
        let hash = match &self.source {
            Source::Memory(bytes) => xxh3_128(bytes),
            Source::Descriptor(file) => file.content_hash(&self.entry.identity).await?,
            Source::None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        // The content of a racy file may be another one at the next use without the facts telling.
        if !self.entry.racy {
            self.entry.remember_content_hash(hash);
        }
        Ok(hash)
    }
}

impl OpenFile {
    async fn content_hash(self: &Arc<Self>, identity: &Identity) -> io::Result<u128> {
        let identity = *identity;
        let hashing = self.hash_cell().get_or_try_init(|| async move {
            let permit = self.gate().enter().await.ok_or(io::ErrorKind::TimedOut)?;
            let file = Arc::clone(self);
            let hashing = tokio::task::spawn_blocking(move || {
                let hash = file.hash_unchanged(&identity);
                drop(permit);
                hash
            });
            hashing.await.map_err(io::Error::other)?
        });
        hashing.await.copied()
    }

    fn hash_unchanged(&self, identity: &Identity) -> io::Result<u128> {
        let mut hash = Xxh3::new();
        let mut chunk = vec![0; CHUNK];
        let mut offset = 0;
        while offset < self.size() {
            let left = usize::try_from(self.size() - offset)
                .unwrap_or(CHUNK)
                .min(CHUNK);
            let part = chunk.get_mut(..left).unwrap_or_default();
            let count = self.read_rest(part, 0, offset)?;
            hash.update(part.get(..count).unwrap_or_default());
            if count < left {
                break;
            }
            offset += u64::try_from(count).unwrap_or(0);
        }
        let now = self.facts()?.identity;
        // A rename over the path changes ctime and links, but not what was read.
        if now.size == identity.size && now.modified == identity.modified {
            Ok(hash.digest128())
        } else {
            Err(io::ErrorKind::ResourceBusy.into())
        }
    }
}

struct Charged {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

const CHUNK: usize = 256 << 10;
