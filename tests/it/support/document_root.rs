//! A document root in a folder of its own, removed with the test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

pub struct DocumentRoot {
    folder: TempDir,
    root: PathBuf,
}

impl DocumentRoot {
    /// An empty root; the folder it stands in is free for what must lie outside.
    pub fn empty() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("nostat-")
            .tempdir()
            .expect("a temporary folder");
        // Canonical, so that SCRIPT_FILENAME can be compared as it is.
        let root = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        Self { folder, root }
    }

    /// The tree that the cases speak of: a WordPress in small, with a secret in each file that must never be sent.
    pub fn wordpress() -> Self {
        let root = Self::empty();
        for script in [
            "index.php",
            "wp-login.php",
            "xmlrpc.php",
            "wp-admin/index.php",
            "wp-admin/admin-ajax.php",
            "wp-includes/load.php",
        ] {
            root.write(script, PHP_SOURCE);
        }
        root.write("wp-config.php", PHP_SOURCE);
        root.write("wp-content/index.php", PHP_SOURCE);
        root.write("wp-content/uploads/2024/01/photo.jpg", b"\xff\xd8 photo");
        root.write("wp-includes/js/jquery/jquery.min.js", b"jQuery");
        root.write(STYLE, STYLE_BYTES);
        root
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folder that the root stands in.
    pub fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, its folders made as needed, with the mtime of the cases: 2024-01-02 03:04:05.5 UTC.
    pub fn write(&self, path: impl AsRef<OsStr>, bytes: &[u8]) {
        self.write_at(path, bytes, style_mtime());
    }

    /// Writes a file in place (same inode when it exists) with this mtime.
    pub fn write_at(&self, path: impl AsRef<OsStr>, bytes: &[u8], mtime: SystemTime) {
        let path = self.root.join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(mtime)
            .unwrap();
    }

    /// Puts a new file in the place of an old one by rename, so that no reader ever sees half of it.
    pub fn replace(&self, path: &str, bytes: &[u8]) {
        let new = self.folder.path().join("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, self.root.join(path)).unwrap();
    }

    pub fn folder(&self, path: &str) {
        fs::create_dir_all(self.root.join(path)).unwrap();
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub fn fifo(&self, path: &str) {
        mknodat(
            CWD,
            self.root.join(path),
            FileType::Fifo,
            Mode::from(0o644),
            0,
        )
        .unwrap();
    }

    /// A file whose name is any bytes.
    pub fn write_named(&self, name: &[u8], bytes: &[u8]) {
        self.write(OsStr::from_bytes(name), bytes);
    }
}

/// The style sheet of the cases, its ten bytes, its mtime and that as a date field.
pub const STYLE: &str = "wp-content/themes/t/style.css";
pub const STYLE_PATH: &str = "/wp-content/themes/t/style.css";
pub const STYLE_BYTES: &[u8] = b"0123456789";
pub const STYLE_MODIFIED: &str = "Tue, 02 Jan 2024 03:04:05 GMT";
/// What no body may ever contain.
pub const SECRET: &str = "SECRET-SOURCE";
pub const PHP_SOURCE: &[u8] = b"<?php /* SECRET-SOURCE */";

/// The mtime of the cases.
pub fn style_mtime() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_704_164_645, 500_000_000)
}
