//! The table of mounts, which tells what is mounted at or below a document root (proc(5), `/proc/pid/mountinfo`).

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

/// The process' table of mounts, open so that poll can tell a change.
#[derive(Debug)]
pub struct MountTable {
    file: File,
    /// The file has one position.
    reading: Mutex<()>,
}

impl MountTable {
    /// Opens it.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn open() -> io::Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel's table, no part of a document tree"
        )]
        let file = File::open("/proc/self/mountinfo")?;
        Ok(Self {
            file,
            reading: Mutex::new(()),
        })
    }

    /// The mounts now.
    pub fn read(&self) -> Mounts {
        let _reading = self.reading.lock();
        let mut text = Vec::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        match read {
            Ok(_) => Mounts::parse(&text),
            Err(_) => Mounts::default(),
        }
    }
}

impl AsFd for MountTable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Mounts by where they are mounted.
#[derive(Debug, Default)]
pub struct Mounts(Vec<(PathBuf, Vec<u8>)>);

impl Mounts {
    fn parse(text: &[u8]) -> Self {
        let lines = text.split(|&byte| byte == b'\n');
        Self(lines.filter_map(mount).collect())
    }

    /// Where something is mounted below the directory, seen from it.
    pub fn below<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Path> {
        let points = self.0.iter().map(|(point, _)| point.as_path());
        points.filter_map(move |point| point.strip_prefix(directory).ok())
    }

    /// A number that changes with the mounts at or below these directories.
    fn fingerprint<'a>(&self, directories: impl Iterator<Item = &'a Path> + Clone) -> u64 {
        let mut hash = Xxh3::new();
        for (point, what) in &self.0 {
            if directories
                .clone()
                .any(|directory| point.starts_with(directory))
            {
                hash.update(what);
                hash.update(b"\n");
            }
        }
        hash.digest()
    }
}

/// What is mounted at or below a root and its link targets.
#[derive(Debug)]
pub struct MountsBelow {
    fingerprint: u64,
    /// Paths below the root.
    points: HashSet<Vec<u8>>,
}

impl MountsBelow {
    /// Chooses what concerns them.
    pub fn of<'a>(
        mounts: &Mounts,
        root: &'a Path,
        targets: impl Iterator<Item = &'a Path> + Clone,
    ) -> Self {
        let points = mounts.below(root);
        Self {
            fingerprint: mounts.fingerprint(std::iter::once(root).chain(targets)),
            points: points
                .map(|point| point.as_os_str().as_bytes().to_vec())
                .collect(),
        }
    }

    /// Whether something is mounted at this path below the root.
    pub fn has_point(&self, path: &[u8]) -> bool {
        self.points.contains(path)
    }

    /// Whether something was mounted or unmounted between the two.
    pub fn differ(&self, other: &Self) -> bool {
        self.fingerprint != other.fingerprint
    }
}

/// One line: `36 35 98:0 /mnt1 /mnt2 rw,noatime …`. Its options say nothing of what stands where.
fn mount(line: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let what: Vec<&[u8]> = fields.by_ref().take(4).collect();
    let point = unescaped(fields.next()?);
    Some((PathBuf::from(OsString::from_vec(point)), what.join(&b' ')))
}

/// Space, tab, line feed and backslash are written in octal.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => bytes.push(first),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        30 22 0:40 / /srv/www/up\\040loads rw shared:5 - tmpfs none rw\n\
        31 22 0:41 / /srv/wwwelse rw - tmpfs none rw\n";

    fn fingerprint(table: &[u8], root: &str) -> u64 {
        Mounts::parse(table).fingerprint(std::iter::once(Path::new(root)))
    }

    #[test]
    fn only_mounts_at_or_below_a_root_concern_it() {
        let without = [TABLE.split_inclusive(|&byte| byte == b'\n').next().unwrap()].concat();
        for (root, concerned) in [
            ("/srv/www", true),
            ("/srv/www/up loads", true),
            ("/srv/www/up", false),
            ("/srv/other", false),
        ] {
            let differs = fingerprint(TABLE, root) != fingerprint(&without, root);
            assert_eq!(differs, concerned, "{root}");
        }
    }

    #[test]
    fn the_table_of_this_process_can_be_read() {
        let mounts = MountTable::open().unwrap().read();
        assert!(mounts.0.iter().any(|(point, _)| point == Path::new("/")));
    }
}
