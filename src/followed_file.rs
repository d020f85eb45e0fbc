//! A small file beside the settings that is read at load, and again when it has changed: users, networks.
//!
//! A version that cannot be used changes nothing: the one before stays in force, and the log says why.

#![expect(
    clippy::disallowed_methods,
    reason = "reads files that the settings name, which are no part of a tree"
)]

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::config_watch::ConfigWatch;

/// What a file says, as it was at the last good look.
pub struct FollowedFile<T> {
    path: PathBuf,
    parse: Parse<T>,
    current: ArcSwap<T>,
    watch: Mutex<ConfigWatch>,
}

/// Reads the bytes of a whole file.
pub type Parse<T> = fn(&[u8]) -> Result<T, BadLine>;

/// A line that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadLine {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong. Nothing of a line that may hold a secret is repeated.
    pub reason: String,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{0} cannot be read: {1}")]
    Read(String, #[source] io::Error),
    /// It is larger than [`MAX_BYTES`].
    #[error("{0} is larger than {MAX_BYTES} bytes")]
    TooLarge(String),
    /// A line of it is wrong.
    #[error("{0}:{line}: {reason}", line = .1.line, reason = .1.reason)]
    Line(String, BadLine),
}

impl<T> FollowedFile<T> {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn load(path: &Path, parse: Parse<T>) -> Result<FollowedFile<T>, FileError> {
        // First the watch: what changes while the file is read is seen later.
        let watch = ConfigWatch::new(path.to_owned());
        Ok(FollowedFile {
            current: ArcSwap::from_pointee(read(path, parse)?),
            path: path.to_owned(),
            parse,
            watch: Mutex::new(watch),
        })
    }

    /// What it says.
    pub fn current(&self) -> arc_swap::Guard<Arc<T>> {
        self.current.load()
    }

    /// Looks whether it has changed, and reads it then; for once a second, off the workers. A change is taken in when two looks
    /// have found the same.
    pub fn look(&self) {
        // One that is slow is not waited for.
        let Some(mut watch) = self.watch.try_lock() else {
            return;
        };
        if !watch.look() {
            return;
        }
        match read(&self.path, self.parse) {
            Ok(new) => {
                self.current.store(Arc::new(new));
                tracing::info!("{}: read again, as it has changed", self.path.display());
            }
            Err(error) => tracing::warn!("{error}; what it said before stays in force"),
        }
    }
}

impl<T> fmt::Debug for FollowedFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what it says, which may be secrets.
        f.debug_tuple("FollowedFile").field(&self.path).finish()
    }
}

/// Reads a file once.
///
/// # Errors
/// It cannot be used.
pub fn read<T>(path: &Path, parse: Parse<T>) -> Result<T, FileError> {
    let name = || path.display().to_string();
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| FileError::Read(name(), error))?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::Read(name(), error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge(name()));
    }
    parse(&bytes).map_err(|bad| FileError::Line(name(), bad))
}

/// Bytes that such a file may have.
pub const MAX_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::fs;

    use super::*;

    fn number(bytes: &[u8]) -> Result<u32, BadLine> {
        let text = String::from_utf8_lossy(bytes);
        text.trim().parse().map_err(|_| BadLine {
            line: 1,
            reason: "is no number".to_owned(),
        })
    }

    #[test]
    fn a_bad_version_keeps_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n");
        let missing = FollowedFile::load(&path, number).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        fs::write(&path, "7").unwrap();
        let file = FollowedFile::load(&path, number).unwrap();
        let after = |text: &str| {
            fs::write(&path, text).unwrap();
            file.look();
            file.look();
            **file.current()
        };
        assert_eq!(after("12"), 12);
        assert_eq!(after("twelve"), 12);
        assert_eq!(after("13"), 13);
        fs::remove_file(&path).unwrap();
        file.look();
        file.look();
        assert_eq!(**file.current(), 13);
        fs::write(&path, "x").unwrap();
        let wrong = FollowedFile::load(&path, number).unwrap_err().to_string();
        assert!(wrong.ends_with("n:1: is no number"), "{wrong}");
    }
}
