//! Which symbolic links are followed, and which directories outside the root they may lead into.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::FileType;

use super::file::Descriptor;
use super::open::{Name, Opener};
use super::walk::{Anchor, Anchors, Links, walk};

/// How a site treats symbolic links.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LinkPolicy {
    /// Which links are followed.
    pub symlinks: Symlinks,
    /// Directories outside the root that [`Symlinks::Beneath`] follows links into.
    pub targets: LinkTargets,
}

impl Default for LinkPolicy {
    fn default() -> Self {
        Self {
            symlinks: Symlinks::Beneath,
            targets: LinkTargets::Listed(Vec::new()),
        }
    }
}

/// Which links are followed.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Symlinks {
    /// Those that stay beneath the root or lead into a link target.
    Beneath,
    /// All.
    Follow,
    /// None.
    Off,
}

/// The allowed directories outside the root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LinkTargets {
    /// Those that trustworthy directory links lead to: links in the root, in one of these content folders (below the
    /// root, as `wp-content`), or directly in its plugins, mu-plugins, themes, uploads and languages.
    Auto {
        /// Content folders, below the root.
        content_dirs: Vec<String>,
    },
    /// These.
    Listed(Vec<PathBuf>),
}

/// Finds the directories outside the root that links may lead into, into `anchors`; each one is logged.
///
/// Listed directories that do not exist are left out until they do, with a warning.
pub fn adopt_targets(opener: &Opener, anchors: &mut Anchors, targets: &LinkTargets) {
    match targets {
        LinkTargets::Listed(directories) => {
            for directory in directories {
                match anchor(opener, directory) {
                    Some(target) => anchors.targets.push(target),
                    None => {
                        let shown = directory.display();
                        tracing::warn!("link_targets: {shown} is no directory that can be opened");
                        anchors.absent.push(directory.clone());
                    }
                }
            }
        }
        LinkTargets::Auto { content_dirs } => {
            for directory in places(content_dirs) {
                adopt_in(opener, anchors, &directory);
            }
        }
    }
}

/// The folders whose links are judged, the outer ones first since a content folder may be a link itself.
fn places(content_dirs: &[String]) -> Vec<String> {
    let mut places = vec![String::new()];
    for content in content_dirs
        .iter()
        .map(|content| content.trim_matches('/'))
        .filter(|content| !content.is_empty())
    {
        places.push(content.to_owned());
        places.extend(
            CONTENT_FOLDERS
                .iter()
                .map(|folder| format!("{content}/{folder}")),
        );
    }
    places
}

fn adopt_in(opener: &Opener, anchors: &mut Anchors, place: &str) {
    let Ok(directory) = walk(opener, anchors, place.as_bytes(), Links::Follow) else {
        return;
    };
    let Ok(Some(names)) = opener.names(&directory, MAX_NAMES) else {
        return;
    };
    for Name { bytes, .. } in names.iter().filter(|name| name.may_be_link()) {
        if anchors.targets.len() == MAX_TARGETS {
            return;
        }
        let Some(target) = judge(opener, anchors, &directory, bytes) else {
            continue;
        };
        let link = Path::new(place).join(OsStr::from_bytes(bytes));
        tracing::info!(
            "link {} leads to {}: allowed",
            link.display(),
            target.path.display()
        );
        anchors.targets.push(target);
    }
}

/// The target of one link when it is a directory outside that may be adopted.
fn judge(
    opener: &Opener,
    anchors: &Anchors,
    directory: &Descriptor,
    name: &[u8],
) -> Option<Anchor> {
    let link = opener.facts(opener.child(directory, name).ok()?).ok()?;
    if link.kind != FileType::Symlink {
        return None;
    }
    let located = opener.following(directory, name).ok()?;
    let target = opener.facts(&located).ok()?;
    let path = opener.real_path(&located).ok()?;
    let known = anchors
        .targets
        .iter()
        .any(|anchor| path.starts_with(&anchor.path));
    if target.kind != FileType::Directory
        || known
        || !may_adopt(&path, &anchors.root.path, link.owner, target.owner)
    {
        return None;
    }
    Some(Anchor {
        directory: located,
        path,
        inode: (target.identity.device, target.identity.inode),
    })
}

/// Whether a directory link from below `root` is trusted to make its target public.
///
/// The link must have been made by someone who could have moved the directory there: root, or the target's owner.
fn may_adopt(target: &Path, root: &Path, link_owner: u32, target_owner: u32) -> bool {
    let trusted = link_owner == 0 || link_owner == target_owner;
    let outside = target.is_absolute() && !target.starts_with(root) && !root.starts_with(target);
    trusted && outside && !is_system(target)
}

/// Whether a path is where the machine keeps its own: nothing there is ever adopted.
pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|directory| path.starts_with(directory))
}

fn anchor(opener: &Opener, path: &Path) -> Option<Anchor> {
    let directory = opener.directory(path).ok()?;
    let identity = opener.facts(&directory).ok()?.identity;
    let path = opener
        .real_path(&directory)
        .unwrap_or_else(|_| path.to_owned());
    Some(Anchor {
        directory,
        path,
        inode: (identity.device, identity.inode),
    })
}

/// Says once for each link that it was refused, and how to allow it.
#[derive(Debug, Default)]
pub struct RefusalLog {
    logged: Mutex<HashSet<Vec<u8>>>,
    /// Folders that would have to be allowed.
    folders: Mutex<BTreeSet<PathBuf>>,
}

impl RefusalLog {
    /// Logs the refusal of `link` (below the root), unless it was logged before.
    pub fn refused(&self, opener: &Opener, anchors: &Anchors, link: &[u8], symlinks: Symlinks) {
        if !self.is_new(link) {
            return;
        }
        let shown = anchors.root.path.join(OsStr::from_bytes(link));
        let shown = shown.display();
        if symlinks == Symlinks::Off {
            tracing::warn!(
                "link {shown} refused: symlinks are off; `symlinks: beneath` follows links within the root"
            );
            return;
        }
        match folder_of_target(opener, anchors, link) {
            Some(folder) if !is_system(&folder) && !anchors.root.path.starts_with(&folder) => {
                tracing::warn!(
                    "link {shown} refused: it leads out of the root; to allow it: `link_targets: [\"{}\"]`",
                    folder.display()
                );
                self.folders.lock().insert(folder);
            }
            Some(folder) => tracing::warn!(
                "link {shown} refused: it leads out of the root into {}",
                folder.display()
            ),
            None => tracing::warn!(
                "link {shown} refused: it leads out of the root, to nothing that can be seen"
            ),
        }
    }

    /// The folders that refused links lead to and that could be allowed.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.folders.lock().iter().cloned().collect()
    }

    fn is_new(&self, link: &[u8]) -> bool {
        let mut logged = self.logged.lock();
        logged.len() < MAX_LOGGED && logged.insert(link.to_owned())
    }
}

/// The directory that the link leads to, or that holds the file it leads to: for the log alone.
fn folder_of_target(opener: &Opener, anchors: &Anchors, link: &[u8]) -> Option<PathBuf> {
    let target = opener.following(&anchors.root.directory, link).ok()?;
    let path = opener.real_path(&target).ok()?;
    match opener.facts(&target).ok()?.kind {
        FileType::Directory => Some(path),
        _ => path.parent().map(Path::to_owned),
    }
}

const CONTENT_FOLDERS: [&str; 5] = ["plugins", "mu-plugins", "themes", "uploads", "languages"];
const SYSTEM: [&str; 7] = ["/etc", "/root", "/proc", "/sys", "/dev", "/run", "/boot"];
const MAX_NAMES: usize = 10_000;
const MAX_TARGETS: usize = 256;
const MAX_LOGGED: usize = 1000;
