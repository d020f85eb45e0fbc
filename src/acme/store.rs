//! What is kept of an authority in its folder: the account, a certificate with its key for each host, and what has failed. All of
//! it is for the owner alone, and a file is there whole or not at all, whenever the machine stops.

#![expect(
    clippy::disallowed_methods,
    reason = "reads and writes files of its own, which are no part of a tree"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The folder of one authority.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Nobody else orders of this authority, in no other process either, until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct StoreError {
    path: PathBuf,
    error: io::Error,
}

impl Store {
    /// The folder, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: PathBuf) -> Result<Store, StoreError> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|error| failed(&folder, error))?;
        Ok(Store { folder })
    }

    /// Takes the lock. None: another process has it.
    ///
    /// # Errors
    /// The file of the lock cannot be made.
    pub fn lock(&self) -> Result<Option<Lock>, StoreError> {
        let path = self.folder.join("_lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        options.custom_flags(AT_ONCE);
        let file = options.open(&path).map_err(|error| failed(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&path, error)),
        }
    }

    /// What a file says; none: it is not there, or is not what was written here.
    ///
    /// # Errors
    /// It is there, and cannot be read.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.folder.join(name);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(AT_ONCE)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, error)),
        };
        let mut text = Vec::new();
        let read = file.take(MOST_BYTES).read_to_end(&mut text);
        read.map_err(|error| failed(&path, error))?;
        let read = serde_json::from_slice(&text);
        // Nothing of what may be a key is repeated.
        if read.is_err() {
            tracing::warn!(
                "{} is not what was written there: begun anew",
                path.display()
            );
        }
        Ok(read.ok())
    }

    /// Puts a file in place of the one before.
    ///
    /// # Errors
    /// It cannot be written: the one before is still there.
    pub fn write(&self, name: &str, text: &[u8]) -> Result<(), StoreError> {
        let (path, new) = (self.folder.join(name), self.folder.join("_new"));
        let put = || {
            // One that a process has left behind may have another mode.
            let _ = fs::remove_file(&new);
            let mut options = OpenOptions::new();
            options.create_new(true).write(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        put().map_err(|error| failed(&path, error))
    }

    /// The same with a value.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_value(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_vec(value).map_err(io::Error::other);
        let text = text.map_err(|error| failed(&self.folder.join(name), error))?;
        self.write(name, &text)
    }

    /// Does away with a file, if it is there.
    ///
    /// # Errors
    /// It is still there.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&path, error)),
            _ => Ok(()),
        }
    }
}

fn failed(path: &Path, error: io::Error) -> StoreError {
    StoreError {
        path: path.to_owned(),
        error,
    }
}

/// More than anything that is kept as a value.
/// A pipe in place of a file would be waited for, by a stop as well.
const AT_ONCE: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
const MOST_BYTES: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("acme/ca.test")).expect("made");
        (folder, store)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_kept_is_for_the_owner_alone_and_replaced_whole() {
        let (_folder, store) = store();
        assert_eq!(mode(&store.folder), 0o700);
        let path = store.folder.join("a.test.pem");
        // What a process has left behind that was stopped in its midst.
        fs::write(store.folder.join("_new"), "half").expect("written");
        for text in ["one", "two"] {
            store.write("a.test.pem", text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(mode(&path), 0o600);
        }
        let names: Vec<_> = fs::read_dir(&store.folder).expect("there").collect();
        assert_eq!(names.len(), 1);
        store.remove("a.test.pem").expect("removed");
        store.remove("a.test.pem").expect("removed before");
        assert!(!path.exists());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let (_folder, store) = store();
        let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        for name in ["a.test.json", "_lock"] {
            let path = store.folder.join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, owner).expect("made");
        }
        assert_eq!(store.read::<String>("a.test.json").expect("read"), None);
        assert!(store.lock().is_err());
    }

    #[test]
    fn what_was_not_written_here_is_as_good_as_not_there() {
        let (_folder, store) = store();
        assert_eq!(store.read::<Vec<u8>>("a").expect("read"), None);
        store.write_value("a", &[1, 2]).expect("written");
        assert_eq!(store.read::<Vec<u8>>("a").expect("read"), Some(vec![1, 2]));
        for text in ["", "[1", "{}", "\0"] {
            store.write("a", text.as_bytes()).expect("written");
            assert_eq!(store.read::<Vec<u8>>("a").expect("read"), None, "{text}");
        }
    }

    #[test]
    fn one_at_a_time() {
        let (_folder, store) = store();
        let lock = store.lock().expect("made").expect("free");
        assert!(store.lock().expect("made").is_none());
        assert_eq!(mode(&store.folder.join("_lock")), 0o600);
        drop(lock);
        assert!(store.lock().expect("made").is_some());
    }

    #[test]
    fn a_folder_that_cannot_be_is_said_by_its_name() {
        let (folder, _store) = store();
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let said = Store::open(file.join("ca.test"))
            .expect_err("a file")
            .to_string();
        assert!(said.contains("file/ca.test: "), "{said}");
    }
}
