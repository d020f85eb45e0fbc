//! Every call that opens, lists or looks at something in a document tree, each counted.
//!
//! What is looked for is opened by O_PATH first, which has no side effect whatever it is, and only a regular file is
//! opened for reading, through `/proc/self/fd`, which leads to that very inode: no device is ever opened, and no FIFO
//! can hold anyone up, even when paths change in between.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one file that opens and stats the tree"
)]

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, RawMode, ResolveFlags, Stat, StatFs};
use rustix::io::{Errno, retry_on_intr};

use super::counters::{Counters, increment};
use super::entry::Identity;
use super::file::Descriptor;
use super::filesystem::Locality;
use crate::clock::UnixTime;

/// Makes the calls.
#[derive(Debug)]
pub struct Opener {
    counters: Arc<Counters>,
    openat2: AtomicBool,
    #[cfg(test)]
    pub(super) fault: parking_lot::Mutex<Option<Fault>>,
}

/// What tests put in the way of opening a path.
#[cfg(test)]
#[derive(Clone)]
pub(super) struct Fault(pub(super) Arc<FaultFn>);

#[cfg(test)]
pub(super) type FaultFn = dyn Fn(&[u8]) -> Option<Errno> + Send + Sync;

#[cfg(test)]
impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fault")
    }
}

impl Opener {
    /// An opener that uses openat2 until the kernel turns out not to have it.
    pub fn new(counters: Arc<Counters>) -> Self {
        Self {
            counters,
            openat2: AtomicBool::new(true),
            #[cfg(test)]
            fault: parking_lot::Mutex::new(None),
        }
    }

    /// Whether openat2 is to be asked.
    pub fn has_openat2(&self) -> bool {
        self.openat2.load(Ordering::Relaxed)
    }

    /// Never asks openat2 again: the kernel is older than 5.6, or a seccomp filter forbids it.
    pub fn forget_openat2(&self) {
        self.openat2.store(false, Ordering::Relaxed);
    }

    /// Opens `path` (`.` when empty) by O_PATH as openat2 resolves it beneath `directory`, without magic links.
    ///
    /// # Errors
    /// EAGAIN after 16 tries: the tree is being renamed under a link with `..`. EXDEV: a link is absolute or leaves.
    pub fn beneath(
        &self,
        directory: impl AsFd,
        path: &[u8],
        also: ResolveFlags,
    ) -> Result<Descriptor, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | also;
        let mut tried = 0;
        loop {
            let opened = self.open(path, |name| {
                rustix::fs::openat2(
                    &directory,
                    name,
                    OFlags::PATH | OFlags::CLOEXEC,
                    Mode::empty(),
                    resolve,
                )
            });
            match opened {
                Err(Errno::AGAIN) if tried < OPENAT2_TRIES => tried += 1,
                opened => return opened,
            }
        }
    }

    /// Opens `path` (`.` when empty) by O_PATH, following links anywhere.
    ///
    /// # Errors
    /// Those of openat.
    pub fn following(&self, directory: impl AsFd, path: &[u8]) -> Result<Descriptor, Errno> {
        self.open(path, |name| {
            rustix::fs::openat(
                &directory,
                name,
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            )
        })
    }

    /// Opens one name in `directory` by O_PATH; a link itself, not what it leads to.
    ///
    /// # Errors
    /// Those of openat.
    pub fn child(&self, directory: impl AsFd, name: &[u8]) -> Result<Descriptor, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.open(name, |name| {
            rustix::fs::openat(&directory, name, flags, Mode::empty())
        })
    }

    /// Opens a directory of the file system by O_PATH, following links.
    ///
    /// # Errors
    /// Those of openat; ENOTDIR when it is none.
    pub fn directory(&self, path: &Path) -> Result<Descriptor, Errno> {
        increment(&self.counters.calls.opens);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
        Ok(Descriptor::new(fd, &self.counters))
    }

    /// Opens for reading the very file that `located`, an O_PATH descriptor, stands for.
    ///
    /// # Errors
    /// EACCES when it may not be read. ENOENT as well when `/proc` is not mounted.
    pub fn readable(&self, located: &Descriptor) -> Result<Descriptor, Errno> {
        increment(&self.counters.calls.opens);
        let path = proc_path(located);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::openat(CWD, path.as_str(), flags, Mode::empty()))?;
        Ok(Descriptor::new(fd, &self.counters))
    }

    /// What the descriptor stands for, by the plain fstat.
    ///
    /// # Errors
    /// Those of fstat.
    pub fn facts(&self, descriptor: impl AsFd) -> Result<Facts, Errno> {
        Facts::of(&self.counters, descriptor)
    }

    /// What the file system of an open file promises, by fstatfs.
    ///
    /// # Errors
    /// Those of fstatfs.
    pub fn locality(&self, of: impl AsFd) -> Result<Locality, Errno> {
        increment(&self.counters.calls.fstats);
        let facts = retry_on_intr(|| rustix::fs::fstatfs(&of))?;
        Ok(Locality::of(magic(&facts)))
    }

    /// The text of the link that `link`, opened as [`child`](Self::child), stands for.
    ///
    /// # Errors
    /// Those of readlinkat.
    pub fn link_text(&self, link: &Descriptor) -> Result<Vec<u8>, Errno> {
        increment(&self.counters.calls.readlinks);
        retry_on_intr(|| rustix::fs::readlinkat(link, "", Vec::new()))
            .map(std::ffi::CString::into_bytes)
    }

    /// The path by which the kernel knows the descriptor's file.
    ///
    /// # Errors
    /// ENOENT when `/proc` is not mounted.
    pub fn real_path(&self, descriptor: &Descriptor) -> Result<PathBuf, Errno> {
        increment(&self.counters.calls.readlinks);
        let path = proc_path(descriptor);
        let text = retry_on_intr(|| rustix::fs::readlinkat(CWD, path.as_str(), Vec::new()))?;
        Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
    }

    /// The names in a directory with their types, `.` and `..` left out; `None` when there are more than `limit`.
    ///
    /// # Errors
    /// Those of openat and getdents64.
    pub fn names(&self, directory: impl AsFd, limit: usize) -> Result<Option<Vec<Name>>, Errno> {
        increment(&self.counters.calls.opens);
        increment(&self.counters.calls.readdirs);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::openat(&directory, ".", flags, Mode::empty()))?;
        // Closed by the listing that owns it.
        increment(&self.counters.calls.closes);
        let mut names = Vec::new();
        for item in Dir::new(fd)? {
            let item = item?;
            let bytes = item.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            if names.len() == limit {
                return Ok(None);
            }
            names.push(Name {
                bytes: bytes.into(),
                kind: item.file_type(),
            });
        }
        Ok(Some(names))
    }

    fn open(
        &self,
        path: &[u8],
        call: impl Fn(&[u8]) -> Result<rustix::fd::OwnedFd, Errno>,
    ) -> Result<Descriptor, Errno> {
        #[cfg(test)]
        if let Some(error) = self.injected(path) {
            return Err(error);
        }
        let path = if path.is_empty() { b"." } else { path };
        increment(&self.counters.calls.opens);
        let fd = retry_on_intr(|| call(path))?;
        Ok(Descriptor::new(fd, &self.counters))
    }

    #[cfg(test)]
    fn injected(&self, path: &[u8]) -> Option<Errno> {
        let fault = self.fault.lock().clone();
        fault.and_then(|fault| fault.0(path))
    }
}

/// What one fstat tells.
#[derive(Copy, Clone, Debug)]
pub struct Facts {
    /// Regular file, directory, link or something else.
    pub kind: FileType,
    /// What tells states of a file apart.
    pub identity: Identity,
    /// User id of the owner.
    pub owner: u32,
}

impl Facts {
    /// Those of a descriptor.
    ///
    /// # Errors
    /// Those of fstat.
    pub fn of(counters: &Counters, descriptor: impl AsFd) -> Result<Self, Errno> {
        increment(&counters.calls.fstats);
        retry_on_intr(|| rustix::fs::fstat(&descriptor)).map(|stat| Self::new(&stat))
    }

    fn new(stat: &Stat) -> Self {
        let identity = Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
            links: link_count(stat),
            mode: stat.st_mode,
        };
        Self {
            kind: FileType::from_raw_mode(stat.st_mode as RawMode),
            identity,
            owner: stat.st_uid,
        }
    }
}

/// One name of a directory.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub bytes: Box<[u8]>,
    /// What the directory says that it is; `Unknown` where the file system does not tell.
    pub kind: FileType,
}

impl Name {
    /// False when the directory says that it is no link.
    pub fn may_be_link(&self) -> bool {
        matches!(self.kind, FileType::Symlink | FileType::Unknown)
    }
}

fn proc_path(descriptor: &Descriptor) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

fn time(seconds: impl TryInto<i64>, nanos: impl TryInto<u32>) -> UnixTime {
    UnixTime {
        seconds: seconds.try_into().unwrap_or(0),
        nanos: nanos.try_into().unwrap_or(0),
    }
}

fn link_count(stat: &Stat) -> u64 {
    #[allow(
        clippy::useless_conversion,
        reason = "the field is narrower on some architectures"
    )]
    u64::from(stat.st_nlink)
}

fn magic(facts: &StatFs) -> i64 {
    #[allow(
        clippy::useless_conversion,
        reason = "the field is narrower on some architectures"
    )]
    i64::from(facts.f_type)
}

const OPENAT2_TRIES: u32 = 16;
