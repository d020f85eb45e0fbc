//! A walk through a document root, bounded in number and time: how many folders, which `.htaccess` files, which links.

#![expect(
    clippy::disallowed_methods,
    reason = "lists the tree once, serving nobody; what is served is opened elsewhere"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::{Clock, Tick};

/// What a walk has met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Folders, the root included.
    pub folders: u64,
    /// `.htaccess` files, in the order of the walk.
    pub htaccess: Vec<PathBuf>,
    /// Symbolic links, `.htaccess` among them or not.
    pub links: Vec<PathBuf>,
    /// A file to try system calls on.
    pub some_file: Option<PathBuf>,
    /// Whether the walk was ended before it had met all.
    pub is_cut: bool,
}

impl Survey {
    /// Walks through a root and the directories outside that its links lead into. No link is followed.
    #[must_use]
    pub fn of(root: &Path, targets: &[PathBuf], clock: &Clock) -> Survey {
        let end = clock.now().plus(LONGEST);
        Self::bounded(root, targets, MOST_FOLDERS, clock, end)
    }

    fn bounded(root: &Path, targets: &[PathBuf], most: u64, clock: &Clock, end: Tick) -> Survey {
        let mut survey = Survey::default();
        // Breadth first, so that a cut walk has met what matters.
        let mut next: std::collections::VecDeque<PathBuf> = std::iter::once(root.to_owned())
            .chain(targets.iter().cloned())
            .collect();
        while let Some(folder) = next.pop_front() {
            if survey.folders >= most || clock.now() > end {
                survey.is_cut = true;
                return survey;
            }
            survey.folders += 1;
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() {
                    next.push_back(entry.path());
                    continue;
                }
                let is_htaccess = entry.file_name() == ".htaccess";
                if kind.is_symlink() && survey.links.len() < MOST_NAMED {
                    survey.links.push(entry.path());
                }
                if is_htaccess && survey.htaccess.len() < MOST_NAMED {
                    survey.htaccess.push(entry.path());
                }
                if kind.is_file() && survey.some_file.is_none() && !is_htaccess {
                    survey.some_file = Some(entry.path());
                }
            }
        }
        survey.htaccess.sort();
        survey.links.sort();
        survey
    }
}

const MOST_FOLDERS: u64 = 200_000;
const LONGEST: Duration = Duration::from_secs(10);
const MOST_NAMED: usize = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn folders_are_counted_and_links_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/.htaccess"), "").unwrap();
        std::os::unix::fs::symlink("/", root.join("a/all")).unwrap();
        let clock = Clock::system();
        let survey = Survey::of(root, &[], &clock);
        assert_eq!(survey.folders, 3);
        assert_eq!(survey.htaccess, [root.join("a/.htaccess")]);
        assert_eq!(survey.links, [root.join("a/all")]);
        assert!(!survey.is_cut);
        let end = clock.now().plus(LONGEST);
        assert!(Survey::bounded(root, &[], 2, &clock, end).is_cut);
    }
}
