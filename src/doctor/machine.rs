//! What the machine says: the kernel's numbers, the facts of a file, the space of a file system.

#![expect(
    clippy::disallowed_methods,
    reason = "looks at the machine once, serving nobody; the tree is opened elsewhere"
)]

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// What a file is, and who may do what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// User id of the owner.
    pub owner: u32,
    /// Its group's id.
    pub group: u32,
    /// Its permissions.
    pub mode: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is a socket.
    pub is_socket: bool,
}

/// A file system at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its magic number.
    pub magic: i64,
    /// Bytes that may still be written.
    pub free: u64,
}

/// A text of the kernel or of another program, its first MiB; none: it cannot be read.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    // A FIFO of that name must not hold us.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A number of the kernel, from a file that holds nothing else.
#[must_use]
pub fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// What stands at a path, links followed.
#[must_use]
pub fn facts(path: &Path) -> Option<Facts> {
    let metadata = fs::metadata(path).ok()?;
    Some(Facts {
        owner: metadata.uid(),
        group: metadata.gid(),
        mode: metadata.mode(),
        is_directory: metadata.is_dir(),
        is_socket: metadata.file_type().is_socket(),
    })
}

/// Whether something is there.
#[must_use]
pub fn is_there(path: &Path) -> bool {
    facts(path).is_some()
}

/// A path without links; none: it leads nowhere.
#[must_use]
pub fn real_path(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The names in a folder, sorted; none when it cannot be read.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The file system at a path, or at the nearest folder above it that is there.
#[must_use]
pub fn file_system(path: &Path) -> Option<FileSystem> {
    let there = path.ancestors().find(|path| is_there(path))?;
    let facts = rustix::fs::statfs(there).ok()?;
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the fields differ in width by architecture"
    )]
    Some(FileSystem {
        magic: i64::from(facts.f_type),
        free: (facts.f_bavail as u64).saturating_mul(u64::try_from(facts.f_bsize).unwrap_or(0)),
    })
}

/// Whether the kernel has openat2.
///
/// # Errors
/// What it says instead: ENOSYS before 5.6, and where a filter forbids it.
pub fn openat2() -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::BENEATH)
        .map(drop)
        .or_else(|errno| match errno {
            // Asked for something absolute beneath: it is there.
            Errno::XDEV => Ok(()),
            errno => Err(errno),
        })
}

const MOST_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use rustix::fs::{FileType, mknodat};

    use super::*;

    #[test]
    fn a_fifo_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join(".htaccess");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from(0o644), 0).unwrap();
        assert_eq!(text(&fifo).as_deref(), Some(""));
        assert_eq!(text(folder.path()), None);
        assert_eq!(number("/nonexistent"), None);
    }

    #[test]
    fn the_file_system_of_what_is_to_be_made_is_that_of_the_folder_above() {
        let folder = tempfile::tempdir().unwrap();
        let there = file_system(folder.path()).unwrap();
        let to_be_made = file_system(&folder.path().join("a/b")).unwrap();
        assert_eq!(there.magic, to_be_made.magic);
        assert!(openat2().is_ok());
    }
}
