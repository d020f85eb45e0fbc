//! A file without a name: it is gone when its last descriptor is closed, also after a crash.

#![expect(
    clippy::disallowed_methods,
    reason = "the spool's folder lies outside the document root"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat, unlink};
use rustix::io::Errno;

/// An unlinked file that is written and read at given offsets. Its calls block.
#[derive(Debug)]
pub struct TempFile {
    file: Option<File>,
    written_up_to: AtomicU64,
}

impl TempFile {
    /// A new empty file in `dir`, readable by this process alone.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn create(dir: &Path) -> io::Result<TempFile> {
        let owner_only = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = match openat(CWD, dir, flags | OFlags::TMPFILE, owner_only) {
            Ok(file) => file,
            // What kernels and file systems without O_TMPFILE say.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                create_and_unlink(dir, flags, owner_only)?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(TempFile {
            file: Some(File::from(file)),
            written_up_to: AtomicU64::new(0),
        })
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Those of pwrite(2), ENOSPC among them.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        self.written_up_to.fetch_max(end, Ordering::Relaxed);
        self.file()?.write_all_at(bytes, offset)
    }

    /// Reads `length` bytes at `offset`.
    ///
    /// # Errors
    /// Those of pread(2), and `UnexpectedEof` when the file is shorter.
    pub fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file()?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn file(&self) -> io::Result<&File> {
        self.file
            .as_ref()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Drop for TempFile {
    /// The close frees the file's blocks, which takes milliseconds for a large one: not on a
    /// worker.
    fn drop(&mut self) {
        if self.written_up_to.load(Ordering::Relaxed) > CLOSED_AT_ONCE
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let file = self.file.take();
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

/// For file systems without O_TMPFILE: a name nobody guesses, for as short as can be.
fn create_and_unlink(dir: &Path, flags: OFlags, mode: Mode) -> io::Result<rustix::fd::OwnedFd> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".nostat-{}-{number}", std::process::id()));
        let exclusive = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match openat(CWD, &path, exclusive, mode) {
            Ok(file) => {
                unlink(&path)?;
                return Ok(file);
            }
            // Left behind by a process of the same number.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Files up to this size are closed where they are dropped.
const CLOSED_AT_ONCE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn nothing_is_left_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let file = TempFile::create(dir.path()).unwrap();
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello ", 0).unwrap();
        assert_eq!(file.read_at(0, 11).unwrap(), b"hello world");
        assert!(file.read_at(8, 11).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn works_without_o_tmpfile_and_passes_left_over_names() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        for number in 0..50 {
            let name = format!(".nostat-{}-{number}", std::process::id());
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        create_and_unlink(dir.path(), flags, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 50);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        assert!(TempFile::create(Path::new("/nonexistent-folder")).is_err());
    }
}
