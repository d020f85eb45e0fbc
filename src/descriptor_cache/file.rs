//! Open descriptors: counted when closed, read off the workers unless the page cache has the bytes.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};
use tokio::sync::OnceCell;

use super::counters::{Counters, increment};
use super::entry::Identity;
use super::gate::Gate;
use super::open::Facts;
use crate::clock::UnixTime;

/// A descriptor whose closing is counted.
pub struct Descriptor {
    fd: OwnedFd,
    counters: Arc<Counters>,
}

impl Descriptor {
    pub(super) fn new(fd: OwnedFd, counters: &Arc<Counters>) -> Self {
        Self {
            fd,
            counters: Arc::clone(counters),
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        increment(&self.counters.calls.closes);
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fd.fmt(f)
    }
}

/// A regular file open for reading, of the size it had at the look that opened it, and of its times.
///
/// It is closed when the table and all transfers have let go of it, and not on a worker: the last close of a deleted
/// file frees its blocks, and on a network file system any close may wait.
#[derive(Debug)]
pub struct OpenFile {
    descriptor: Option<Descriptor>,
    size: u64,
    modified: UnixTime,
    /// Last change of content or inode (ctime).
    changed: UnixTime,
    nowait: AtomicBool,
    gate: Gate,
    hash: OnceCell<u128>,
}

impl OpenFile {
    pub(super) fn new(descriptor: Descriptor, identity: &Identity, gate: Gate) -> Self {
        Self {
            descriptor: Some(descriptor),
            size: identity.size,
            modified: identity.modified,
            changed: identity.changed,
            nowait: AtomicBool::new(true),
            gate,
            hash: OnceCell::new(),
        }
    }

    /// Size in bytes at the look.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Up to `length` bytes from `offset` on, none of them beyond [`size`](Self::size). Fewer come only when the file
    /// has become shorter since the look.
    ///
    /// Reads inline what the page cache has (RWF_NOWAIT), the rest on the blocking pool.
    ///
    /// # Errors
    /// Those of reading; `TimedOut` when the file system does not get to it.
    pub async fn read_at(self: &Arc<Self>, offset: u64, length: usize) -> io::Result<Bytes> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length.min(left)];
        let filled = match self.read_cached(&mut buffer, offset)? {
            Progress::Complete(filled) => filled,
            Progress::Partial(filled) => {
                let permit = self.gate.enter().await.ok_or(io::ErrorKind::TimedOut)?;
                let file = Arc::clone(self);
                let reading = tokio::task::spawn_blocking(move || {
                    let read = file.read_rest(&mut buffer, filled, offset);
                    drop(permit);
                    (read, buffer)
                });
                let (read, read_into) = reading.await.map_err(io::Error::other)?;
                buffer = read_into;
                read?
            }
        };
        buffer.truncate(filled);
        Ok(buffer.into())
    }

    /// Whether the last change known of it lies `for_seconds` or more before `now` (both of Unix time).
    pub fn is_at_rest(&self, now: i64, for_seconds: i64) -> bool {
        let latest = self.changed.max(self.modified).seconds;
        now.saturating_sub(latest) >= for_seconds
    }

    /// Whether its content is still what it was at the look, as far as size and modification time tell: one fstat, which does
    /// not wait where [`is_cached`](Self::is_cached) has said yes.
    pub fn is_unchanged(&self) -> bool {
        self.facts().is_ok_and(|Facts { identity, .. }| {
            (identity.size, identity.modified) == (self.size, self.modified)
        })
    }

    /// Whether the page cache has the first and the last byte of a stretch, and so most likely all of it: two reads of a
    /// byte that do not wait. No, where the file system cannot tell.
    pub fn is_cached(&self, offset: u64, length: usize) -> bool {
        let last = position(offset, length.saturating_sub(1));
        [offset, last].iter().all(|&at| {
            let read = self.read_cached(&mut [0], at);
            matches!(read, Ok(Progress::Complete(1)))
        })
    }

    /// Fills `buffer` with what can be had without waiting.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Progress> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            if !self.nowait.load(Ordering::Relaxed) {
                return Ok(Progress::Partial(filled));
            }
            self.count_read();
            let position = position(offset, filled);
            match preadv2(
                self.as_fd(),
                &mut [IoSliceMut::new(rest)],
                position,
                ReadWriteFlags::NOWAIT,
            ) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Progress::Partial(filled)),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.nowait.store(false, Ordering::Relaxed)
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Progress::Complete(filled))
    }

    /// Fills `buffer` from `filled` on; blocks. Answers how much of it is filled then.
    pub(super) fn read_rest(
        &self,
        buffer: &mut [u8],
        mut filled: usize,
        offset: u64,
    ) -> io::Result<usize> {
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            self.count_read();
            match pread(self.as_fd(), rest, position(offset, filled)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// The whole content, or fewer bytes if the file has become shorter; blocks.
    pub(super) fn read_whole(&self) -> Result<Vec<u8>, Errno> {
        let size = usize::try_from(self.size).map_err(|_| Errno::FBIG)?;
        let mut content = Vec::with_capacity(size);
        while content.len() < size {
            self.count_read();
            let at = position(0, content.len());
            match pread(self.as_fd(), spare_capacity(&mut content), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        // The allocator may have given more room than asked for.
        content.truncate(size);
        Ok(content)
    }

    /// What the descriptor stands for now; blocks.
    pub(super) fn facts(&self) -> Result<Facts, Errno> {
        match &self.descriptor {
            Some(descriptor) => Facts::of(&descriptor.counters, descriptor),
            None => Err(Errno::BADF),
        }
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn hash_cell(&self) -> &OnceCell<u128> {
        &self.hash
    }

    /// The same file in another state.
    pub(super) fn renewed(mut self, identity: &Identity, gate: Gate) -> Self {
        let descriptor = self.descriptor.take();
        Self {
            descriptor,
            size: identity.size,
            modified: identity.modified,
            changed: identity.changed,
            nowait: AtomicBool::new(true),
            gate,
            hash: OnceCell::new(),
        }
    }

    /// Closes here and now, where blocking is allowed.
    pub(super) fn close(mut self) {
        self.descriptor = None;
    }

    fn count_read(&self) {
        if let Some(descriptor) = &self.descriptor {
            increment(&descriptor.counters.calls.reads);
        }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor
            .as_ref()
            .expect("invariant: taken only when the file is dropped")
            .as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(descriptor));
        }
    }
}

enum Progress {
    Complete(usize),
    Partial(usize),
}

fn position(offset: u64, filled: usize) -> u64 {
    offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX))
}
