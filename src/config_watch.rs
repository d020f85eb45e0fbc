//! `watch_config: on`: the settings file is looked at once a second, and read again when it is another one than before.
//!
//! A look costs one stat and works everywhere: for editors that write another file and rename it, for a ConfigMap of
//! Kubernetes whose links are swapped, on network file systems. A file that is still changing is waited for.

#![expect(
    clippy::disallowed_methods,
    reason = "looks at the settings file, which is no part of a tree"
)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The watch on one file.
#[derive(Debug)]
pub struct ConfigWatch {
    file: PathBuf,
    /// What was there when the settings were read.
    read: Option<Identity>,
    /// What was there at the last look, if that was something else.
    seen: Option<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// No program can set it.
    changed: (i64, i64),
}

impl ConfigWatch {
    /// A watch on a file whose settings are read right after this.
    #[must_use]
    pub fn new(file: PathBuf) -> ConfigWatch {
        let read = identity(&file);
        ConfigWatch {
            file,
            read,
            seen: None,
        }
    }

    /// Looks. True: the file is another one, and was the same at two looks: it is to be read.
    pub fn look(&mut self) -> bool {
        let now = identity(&self.file);
        // One that is not there for the moment may come back.
        if now.is_none() || now == self.read {
            self.seen = None;
            return false;
        }
        if now != self.seen {
            self.seen = now;
            return false;
        }
        self.read = now;
        self.seen = None;
        true
    }
}

/// Links are followed, those of folders as well.
fn identity(file: &std::path::Path) -> Option<Identity> {
    let metadata = fs::metadata(file).ok()?;
    Some(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_is_told_once_when_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "1").unwrap();
        let mut watch = ConfigWatch::new(file.clone());
        assert!(!watch.look() && !watch.look());
        fs::write(&file, "22").unwrap();
        assert!(!watch.look(), "it may still change");
        fs::write(&file, "333").unwrap();
        assert!(!watch.look(), "it did");
        assert!(watch.look());
        assert!(!watch.look() && !watch.look());
        // Gone for a moment is no change; what is there then may be one.
        let aside = folder.path().join("b.yaml");
        fs::rename(&file, &aside).unwrap();
        assert!(!watch.look() && !watch.look());
    }

    #[test]
    fn a_swapped_folder_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [("one", "1"), ("two", "2")] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("a.yaml"), text).unwrap();
        }
        symlink("one", path("..data")).unwrap();
        symlink("..data/a.yaml", path("a.yaml")).unwrap();
        let mut watch = ConfigWatch::new(path("a.yaml"));
        assert!(!watch.look());
        symlink("two", path("..tmp")).unwrap();
        fs::rename(path("..tmp"), path("..data")).unwrap();
        assert!(!watch.look());
        assert!(watch.look());
    }
}
