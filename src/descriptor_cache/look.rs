//! One look at one path: where it leads, what stands there, and its content. Everything here blocks.

use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FileType, ResolveFlags};
use rustix::io::Errno;

use super::budget::Budget;
use super::content::read_unchanged;
use super::entry::Identity;
use super::file::{Descriptor, OpenFile};
use super::filesystem::Locality;
use super::found::{LookupError, Want};
use super::freshness::is_racy;
use super::links::Symlinks;
use super::open::Opener;
use super::root::RootGeneration;
use super::settings::Settings;
use super::walk::{Links, Stopped, plainly, walk};
use super::watch::Watching;
use crate::clock::UnixTime;

/// What a look is made with.
#[derive(Copy, Clone)]
pub struct Glass<'a> {
    /// Makes the calls.
    pub opener: &'a Opener,
    /// Decides which files are read whole.
    pub settings: &'a Settings,
    /// Counts the bytes read.
    pub content: &'a Arc<Budget>,
    /// Taken before the look.
    pub now: UnixTime,
    /// Knows the file systems.
    pub watching: &'a Watching,
    /// The way to be tried first.
    pub way: Way,
}

/// How a path led to what was seen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// Through directories alone.
    Plain,
    /// Perhaps through links.
    Any,
}

/// What was seen, and where.
#[derive(Debug)]
pub struct Seen {
    /// What was seen.
    pub sight: Sight,
    /// How the path led to it.
    pub way: Way,
    /// What its file system promises.
    pub locality: Locality,
}

/// What was seen.
#[derive(Debug)]
pub enum Sight {
    /// A directory.
    Directory,
    /// A regular file in the state that was known, with its facts.
    Unchanged(Identity),
    /// A regular file, not opened for reading.
    Script {
        /// Its facts.
        identity: Identity,
        /// Whether it had changed just before.
        racy: bool,
    },
    /// A regular file, open for reading.
    File {
        /// Its facts.
        identity: Identity,
        /// Whether it had changed just before, or kept changing while it was read.
        racy: bool,
        /// The descriptor.
        file: OpenFile,
        /// The content, of a small file.
        bytes: Option<Bytes>,
    },
}

/// Why nothing was seen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nothing is there.
    Missing(Way),
    /// Descriptors or memory ran out, or a network file system lost the handle: worth one other try.
    Exhausted,
    /// Anything else.
    Error(LookupError),
}

/// Looks at `path`. A file still in the state `known` is not opened.
///
/// # Errors
/// See [`Failure`].
pub fn look(
    glass: Glass<'_>,
    root: &RootGeneration,
    path: &[u8],
    want: Want,
    known: Option<&Identity>,
) -> Result<Seen, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (located, way) = locate(glass.opener, root, path, glass.way)?;
        let facts = glass.opener.facts(&located)?;
        let device = facts.identity.device;
        let locality = glass.watching.locality(glass.opener, device, &located);
        let seen = |sight| Seen {
            sight,
            way,
            locality,
        };
        match facts.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Ok(seen(Sight::Directory)),
            FileType::Symlink => return Err(Failure::Error(LookupError::LinkRefused)),
            _ => return Err(Failure::Error(LookupError::NotRegular)),
        }
        if want == Want::Script {
            return Ok(seen(Sight::Script {
                identity: facts.identity,
                racy: is_racy(&facts.identity, glass.now),
            }));
        }
        if known == Some(&facts.identity) {
            return Ok(seen(Sight::Unchanged(facts.identity)));
        }
        let descriptor = match glass.opener.readable(&located) {
            // Some file systems cannot open again what was removed meanwhile.
            Err(Errno::NOENT) if tries < TRIES => continue,
            opened => opened?,
        };
        drop(located);
        let identity = facts.identity;
        let file = OpenFile::new(descriptor, &identity, root.gate().clone());
        if !is_small(glass.settings, &identity) {
            let racy = is_racy(&identity, glass.now);
            return Ok(seen(Sight::File {
                identity,
                racy,
                file,
                bytes: None,
            }));
        }
        if let Some(bytes) = read_unchanged(glass.opener, &file, &identity, glass.content)? {
            let racy = is_racy(&identity, glass.now);
            return Ok(seen(Sight::File {
                identity,
                racy,
                file,
                bytes: Some(bytes),
            }));
        }
        if tries == TRIES {
            return restless(glass.opener, file, root).map(seen);
        }
        file.close();
    }
}

/// A file that changes faster than it is read is served from its descriptor, at its latest size.
fn restless(opener: &Opener, file: OpenFile, root: &RootGeneration) -> Result<Sight, Failure> {
    let identity = opener.facts(&file)?.identity;
    let file = file.renewed(&identity, root.gate().clone());
    Ok(Sight::File {
        identity,
        racy: true,
        file,
        bytes: None,
    })
}

fn is_small(settings: &Settings, identity: &Identity) -> bool {
    settings.content > 0 && identity.size <= settings.content_max_file
}

/// Opens by O_PATH what the path leads to by the root's link policy, the way without links first where that is wanted.
fn locate(
    opener: &Opener,
    root: &RootGeneration,
    path: &[u8],
    way: Way,
) -> Result<(Descriptor, Way), Failure> {
    if way == Way::Plain {
        match plainly(opener, root.anchors(), path) {
            // A link, or renames all the time.
            Err(Errno::LOOP | Errno::AGAIN) => {}
            Err(errno) => {
                return Err(match errno.into() {
                    Failure::Missing(_) => Failure::Missing(Way::Plain),
                    failure => failure,
                });
            }
            Ok(located) => return Ok((located, Way::Plain)),
        }
    }
    by_policy(opener, root, path).map(|located| (located, Way::Any))
}

/// Opens by O_PATH what the path leads to by the root's link policy.
///
/// # Errors
/// See [`Failure`].
pub(super) fn by_policy(
    opener: &Opener,
    root: &RootGeneration,
    path: &[u8],
) -> Result<Descriptor, Failure> {
    let anchors = root.anchors();
    let symlinks = root.policy().symlinks;
    let (resolve, links) = match symlinks {
        Symlinks::Follow => return Ok(opener.following(&anchors.root.directory, path)?),
        Symlinks::Beneath => (ResolveFlags::empty(), Links::Follow),
        Symlinks::Off => (ResolveFlags::NO_SYMLINKS, Links::Refuse),
    };
    if opener.has_openat2() {
        match opener.beneath(&anchors.root.directory, path, resolve) {
            // The kernel has no openat2, or a seccomp filter forbids it, or its structure is another.
            Err(Errno::NOSYS | Errno::PERM | Errno::TOOBIG) => opener.forget_openat2(),
            // EXDEV: an absolute link or one that leaves. EAGAIN: renames all the time. ELOOP with links off: a link,
            // and the walk finds which.
            Err(Errno::XDEV | Errno::AGAIN) => {}
            Err(Errno::LOOP) if links == Links::Refuse => {}
            opened => return Ok(opened?),
        }
    }
    walk(opener, anchors, path, links).map_err(|stopped| match stopped {
        Stopped::Errno(errno) => errno.into(),
        Stopped::Refused(link) => {
            root.refusals().refused(opener, anchors, &link, symlinks);
            Failure::Error(LookupError::LinkRefused)
        }
    })
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            // EINVAL and EILSEQ: a name that the file system cannot have.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
                Self::Missing(Way::Any)
            }
            Errno::ACCESS | Errno::PERM => Self::Error(LookupError::Forbidden),
            Errno::LOOP | Errno::XDEV => Self::Error(LookupError::LinkRefused),
            Errno::NXIO | Errno::NODEV => Self::Error(LookupError::NotRegular),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE | Errno::AGAIN => {
                Self::Exhausted
            }
            errno => Self::Error(LookupError::Io(errno.raw_os_error())),
        }
    }
}

/// Times a small file is read before it is taken for restless.
const TRIES: u32 = 3;
