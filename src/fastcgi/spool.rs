//! A request's content, held whole before a responder is taken for it.
//!
//! A PHP worker that waits for a slow client's upload serves nobody, and PHP runs a script also on
//! half of its content; so content is gathered first: in memory, then in an unlinked file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use tokio::task::spawn_blocking;

use super::budget::{Budget, Charge, ChargedTo};
use super::temp_file::TempFile;

/// Where content is held, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Folder for files, on a disk rather than in memory. Default: `/var/lib/nostat/spool`.
    pub dir: PathBuf,
    /// Bytes of one request that stay in memory. Default: 128 KiB.
    pub memory: u64,
    /// Bytes of all requests together, in memory and files. Responses waiting for slow clients
    /// may take half of it for their files. Default: 2 GiB.
    pub total: u64,
}

impl Default for SpoolSettings {
    fn default() -> Self {
        SpoolSettings {
            dir: PathBuf::from("/var/lib/nostat/spool"),
            memory: 128 * 1024,
            total: 2 << 30,
        }
    }
}

/// The process's spools and their budget.
#[derive(Debug)]
pub struct Spools {
    settings: RwLock<SpoolSettings>,
    budget: Arc<Budget>,
}

impl Spools {
    /// With nothing in use.
    pub fn new(settings: SpoolSettings) -> Arc<Spools> {
        Arc::new(Spools {
            budget: Budget::new(settings.total),
            settings: RwLock::new(settings),
        })
    }

    /// Takes on new settings; what is held stays where it is.
    pub fn reconfigure(&self, settings: SpoolSettings) {
        self.budget.set_total(settings.total);
        *self.settings.write() = settings;
    }

    /// Bytes in use, of request content and response files together.
    pub fn used(&self) -> u64 {
        self.budget.used()
    }

    /// A spool for content of at most `max` bytes.
    pub fn spool(self: &Arc<Self>, max: u64) -> Spool {
        Spool {
            memory: self.settings.read().memory,
            max,
            length: 0,
            spools: Arc::clone(self),
            gathered: BytesMut::new(),
            file: None,
            charge: self.budget.charge(ChargedTo::Content),
        }
    }

    /// The folder for files.
    pub fn dir(&self) -> PathBuf {
        self.settings.read().dir.clone()
    }

    /// An empty claim on the budget for a response's file.
    pub fn charge_answer(self: &Arc<Self>) -> Charge {
        self.budget.charge(ChargedTo::Answer)
    }
}

/// Content being gathered. Dropping it gives back all it holds. A `push` that is cancelled half
/// way leaves it good for dropping only.
#[derive(Debug)]
pub struct Spool {
    memory: u64,
    max: u64,
    length: u64,
    spools: Arc<Spools>,
    gathered: BytesMut,
    file: Option<Arc<TempFile>>,
    charge: Charge,
}

impl Spool {
    /// Takes the next piece.
    ///
    /// # Errors
    /// When the content gets longer than allowed, the budget is used up, or a file fails.
    pub async fn push(&mut self, piece: Bytes) -> Result<(), SpoolError> {
        let length = piece.len() as u64;
        if length > self.max.saturating_sub(self.length) {
            return Err(SpoolError::TooLarge);
        }
        if !self.charge.grow(length) {
            return Err(SpoolError::Full);
        }
        self.length += length;
        self.gathered.extend_from_slice(&piece);
        let gathered = self.gathered.len();
        if gathered < GATHERED || (self.file.is_none() && gathered as u64 <= self.memory) {
            return Ok(());
        }
        self.write_out().await
    }

    /// Bytes taken so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The whole content.
    ///
    /// # Errors
    /// When the rest cannot be written to the file.
    pub async fn finish(mut self) -> Result<Body, SpoolError> {
        if self.gathered.len() as u64 > self.memory || self.file.is_some() {
            self.write_out().await?;
        }
        let source = match self.file.take() {
            Some(file) => Source::File(file),
            None => Source::Memory(self.gathered.split().freeze()),
        };
        Ok(Body(Arc::new(Content {
            source,
            length: self.length,
            _charge: Some(self.charge),
        })))
    }

    /// Moves what is gathered to the file, off the workers.
    async fn write_out(&mut self) -> Result<(), SpoolError> {
        let bytes = self.gathered.split().freeze();
        let offset = self.length - bytes.len() as u64;
        let file = self.file.clone();
        let dir = match file {
            Some(_) => PathBuf::new(),
            None => self.spools.dir(),
        };
        let written = spawn_blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(TempFile::create(&dir)?),
            };
            file.write_at(&bytes, offset)?;
            Ok::<_, io::Error>(file)
        });
        let file = written.await.map_err(io::Error::from)??;
        self.file = Some(file);
        Ok(())
    }
}

/// Why content is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Longer than the request may be.
    #[error("content is too large")]
    TooLarge,
    /// The budget is used up.
    #[error("the spool is full")]
    Full,
    /// The disk is used up.
    #[error("the spool's disk is full: {0}")]
    DiskFull(io::Error),
    /// A file could not be made or written.
    #[error("spool: {0}")]
    Io(io::Error),
}

impl SpoolError {
    /// The status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            SpoolError::TooLarge => 413,
            SpoolError::Full | SpoolError::DiskFull(_) => 503,
            SpoolError::Io(_) => 500,
        }
    }

    /// Whether the answer tells the client to come back.
    pub fn retry_after(&self) -> bool {
        matches!(self, SpoolError::Full | SpoolError::DiskFull(_))
    }
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => SpoolError::DiskFull(error),
            _ => SpoolError::Io(error),
        }
    }
}

/// Whole content; clones share it, and the last one gives it back.
#[derive(Clone, Debug)]
pub struct Body(Arc<Content>);

#[derive(Debug)]
struct Content {
    source: Source,
    length: u64,
    _charge: Option<Charge>,
}

#[derive(Debug)]
enum Source {
    Memory(Bytes),
    File(Arc<TempFile>),
}

impl Body {
    /// No content.
    pub fn empty() -> Body {
        Body::from_memory(Bytes::new())
    }

    /// Content that is in memory already, outside of the budget.
    pub fn from_memory(bytes: Bytes) -> Body {
        Body(Arc::new(Content {
            length: bytes.len() as u64,
            source: Source::Memory(bytes),
            _charge: None,
        }))
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// Whether the content is in a file.
    pub fn is_file(&self) -> bool {
        matches!(self.0.source, Source::File(_))
    }

    /// Reads from the beginning; any number of readers may do so at once.
    pub fn reader(&self) -> BodyReader {
        BodyReader {
            body: self.clone(),
            offset: 0,
        }
    }
}

/// One reading of a [`Body`].
#[derive(Debug)]
pub struct BodyReader {
    body: Body,
    offset: u64,
}

impl BodyReader {
    /// The next bytes, at most `limit` of them; `None` at the end. Files are read off the
    /// workers.
    ///
    /// # Errors
    /// Those of pread(2).
    pub async fn next(&mut self, limit: usize) -> io::Result<Option<Bytes>> {
        let left = self.body.length() - self.offset;
        let length = usize::try_from(left).map_or(limit, |left| left.min(limit));
        if length == 0 {
            return Ok(None);
        }
        let piece = match &self.body.0.source {
            Source::Memory(bytes) => {
                let first = usize::try_from(self.offset).unwrap_or(usize::MAX);
                bytes.slice(first..first.saturating_add(length))
            }
            Source::File(file) => {
                let (file, offset) = (Arc::clone(file), self.offset);
                let read = spawn_blocking(move || file.read_at(offset, length));
                Bytes::from(read.await.map_err(io::Error::from)??)
            }
        };
        self.offset += length as u64;
        Ok(Some(piece))
    }
}

/// Bytes written to a file at once.
const GATHERED: usize = 64 * 1024;

#[cfg(test)]
mod tests;
