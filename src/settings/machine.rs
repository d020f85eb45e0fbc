//! What the settings ask of the machine they are read on: directories, users, groups.
//!
//! The only part of the settings that looks beyond the text.

#![expect(
    clippy::disallowed_methods,
    reason = "looks at what the settings name once, at load; the tree is opened elsewhere"
)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use rustix::fs::{Access, access};

use super::mistake::{Wrong, quoted};
use super::text::MAX_BYTES;

/// How far a settings file is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Also whether the directories, users and groups it names exist on this machine.
    Machine,
    /// Only what the text itself says; for a file meant for another machine.
    TextOnly,
}

impl Checks {
    /// `path` is a directory, by a link too.
    pub fn directory(self, path: &Path) -> Result<(), Wrong> {
        if self == Self::TextOnly {
            return Ok(());
        }
        let shown = quoted(&path.to_string_lossy());
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => {
                let message = format!("{shown} is not a directory");
                Err(Wrong::new(message, "expected a directory"))
            }
            Err(error) => {
                let message = format!("{shown} cannot be used: {error}");
                Err(Wrong::new(message, "expected a directory that exists"))
            }
        }
    }

    /// `path` is a file that can be read.
    pub fn file(self, path: &Path) -> Result<(), Wrong> {
        if self == Self::TextOnly {
            return Ok(());
        }
        File::open(path).map(drop).map_err(|error| {
            let message = format!(
                "{} cannot be read: {error}",
                quoted(&path.to_string_lossy())
            );
            Wrong::new(message, "expected a file that this user may read")
        })
    }

    /// `path` is a directory in which this process may create files.
    pub fn writable_directory(self, path: &Path) -> Result<(), Wrong> {
        self.directory(path)?;
        if self == Self::Machine && !is_writable(path) {
            let message = format!("{} is not writable", quoted(&path.to_string_lossy()));
            return Err(Wrong::new(
                message,
                "expected a directory that this user may write to",
            ));
        }
        Ok(())
    }

    /// `path` is such a directory, or could be made one.
    pub fn place_for_directory(self, path: &Path) -> Result<(), Wrong> {
        let there = path.ancestors().find(|folder| folder.is_dir());
        match (self, there) {
            (Self::Machine, Some(folder)) => self.writable_directory(folder),
            _ => Ok(()),
        }
    }

    /// `name` is a user of this machine.
    pub fn user(self, name: &str) -> Result<(), Wrong> {
        if self == Self::TextOnly {
            return Ok(());
        }
        match User::from_name(name) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                let message = format!("there is no user {}", quoted(name));
                Err(Wrong::new(
                    message,
                    "expected a user of this machine, e.g. www-data",
                ))
            }
            Err(error) => Err(Wrong::new(
                format!("the user cannot be looked up: {error}"),
                "",
            )),
        }
    }

    /// `name` is a group of this machine.
    pub fn group(self, name: &str) -> Result<(), Wrong> {
        if self == Self::TextOnly {
            return Ok(());
        }
        match Group::from_name(name) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                let message = format!("there is no group {}", quoted(name));
                Err(Wrong::new(
                    message,
                    "expected a group of this machine, e.g. www-data",
                ))
            }
            Err(error) => Err(Wrong::new(
                format!("the group cannot be looked up: {error}"),
                "",
            )),
        }
    }

    /// The spool directory where none is named: the package's when it can be used, else the system's
    /// directory for temporary files.
    pub fn default_spool(self) -> PathBuf {
        let packaged = Path::new(DEFAULT_SPOOL);
        if self == Self::TextOnly || (packaged.is_dir() && is_writable(packaged)) {
            packaged.to_owned()
        } else {
            std::env::temp_dir()
        }
    }
}

/// The bytes of a settings file, or enough of them to see that it is too large.
///
/// # Errors
/// Those of opening and reading it.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(MAX_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    File::open(path)?.take(bound).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path with its links followed, as far as it is there.
pub fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn is_writable(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

const DEFAULT_SPOOL: &str = "/var/lib/nostat/spool";
