//! Resolving a path by hand, segment by segment on descriptors, for what openat2 does not do: following links that are
//! absolute or lead into the allowed directories outside the root; and all links where openat2 is missing.
//!
//! Every segment is opened by O_PATH and O_NOFOLLOW relative to the descriptor before it, so nothing that is renamed
//! or swapped meanwhile makes the walk follow a link it has not judged. Where it stands is told by the descriptors it
//! came through: it is inside while one of them is the root or an allowed directory.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, ResolveFlags};
use rustix::io::Errno;

use super::file::Descriptor;
use super::open::Opener;

/// The directories that a walk may end below.
#[derive(Debug)]
pub struct Anchors {
    /// The document root.
    pub root: Anchor,
    /// The root's path as configured, by which links may name it, too.
    pub configured: PathBuf,
    /// Allowed directories outside the root.
    pub targets: Vec<Anchor>,
    /// Configured ones that could not be opened.
    pub absent: Vec<PathBuf>,
}

/// One of them.
#[derive(Debug)]
pub struct Anchor {
    /// The directory, opened by O_PATH.
    pub directory: Descriptor,
    /// Its path without links.
    pub path: PathBuf,
    /// Its device and inode number.
    pub inode: (u64, u64),
}

/// Why a walk did not arrive.
#[derive(Debug)]
pub enum Stopped {
    /// A system call failed.
    Errno(Errno),
    /// This link, below the root, leads out, or no link is to be followed.
    Refused(Vec<u8>),
}

/// Whether links are followed at all.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Links {
    /// Within the anchors.
    Follow,
    /// None.
    Refuse,
}

/// Opens `path` below the root by O_PATH.
///
/// # Errors
/// See [`Stopped`]; ELOOP after 40 links.
pub fn walk(
    opener: &Opener,
    anchors: &Anchors,
    path: &[u8],
    links: Links,
) -> Result<Descriptor, Stopped> {
    let mut walk = Walk {
        opener,
        anchors,
        links,
        base: &anchors.root.path,
        stack: vec![Level {
            directory: Standing::Anchor(&anchors.root),
            anchored: true,
        }],
        pending: Vec::new(),
        passed: Vec::new(),
        link: None,
        followed: 0,
    };
    walk.push(path, Origin::Request);
    match walk.run() {
        Ok(arrived) if walk.is_inside() => Ok(arrived),
        Err(errno) if walk.is_inside() && !walk.is_refused_link() => Err(Stopped::Errno(errno)),
        // What stands outside is nobody's business: also an error there is a refusal.
        _ => Err(Stopped::Refused(walk.link.unwrap_or_default())),
    }
}

/// Opens `path` below the root by O_PATH when no link is on it.
///
/// # Errors
/// ELOOP when there is one.
pub fn plainly(opener: &Opener, anchors: &Anchors, path: &[u8]) -> Result<Descriptor, Errno> {
    if opener.has_openat2() {
        let resolve = ResolveFlags::NO_SYMLINKS;
        match opener.beneath(&anchors.root.directory, path, resolve) {
            Err(Errno::NOSYS | Errno::PERM | Errno::TOOBIG) => opener.forget_openat2(),
            opened => return opened,
        }
    }
    walk(opener, anchors, path, Links::Refuse).map_err(|stopped| match stopped {
        Stopped::Errno(errno) => errno,
        Stopped::Refused(_) => Errno::LOOP,
    })
}

struct Walk<'a> {
    opener: &'a Opener,
    anchors: &'a Anchors,
    links: Links,
    /// Path of the lowest level.
    base: &'a Path,
    stack: Vec<Level<'a>>,
    /// Segments still to go, the next one last.
    pending: Vec<(Vec<u8>, Origin)>,
    /// The request's segments so far.
    passed: Vec<u8>,
    /// The first link met on them.
    link: Option<Vec<u8>>,
    followed: u32,
}

impl<'a> Walk<'a> {
    fn run(&mut self) -> Result<Descriptor, Errno> {
        while let Some((segment, origin)) = self.pending.pop() {
            match segment.as_slice() {
                b"" | b"." => {}
                b".." => self.up()?,
                name => {
                    if let Some(arrived) = self.down(name, origin)? {
                        return Ok(arrived);
                    }
                }
            }
        }
        // A directory: opened once more, since the stack may only have borrowed it.
        self.opener.child(self.top()?, b".")
    }

    /// Steps to `name`; answers it when it ends the path.
    fn down(&mut self, name: &[u8], origin: Origin) -> Result<Option<Descriptor>, Errno> {
        if origin == Origin::Request {
            if !self.passed.is_empty() {
                self.passed.push(b'/');
            }
            self.passed.extend_from_slice(name);
        }
        let opened = self.opener.child(self.top()?, name)?;
        let facts = self.opener.facts(&opened)?;
        match facts.kind {
            FileType::Symlink => self.follow(&opened).map(|()| None),
            FileType::Directory => {
                let anchored = self
                    .anchors
                    .contain((facts.identity.device, facts.identity.inode));
                self.stack.push(Level {
                    directory: Standing::Own(opened),
                    anchored,
                });
                Ok(None)
            }
            _ if self.pending.is_empty() => Ok(Some(opened)),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn follow(&mut self, link: &Descriptor) -> Result<(), Errno> {
        let text = self.opener.link_text(link)?;
        self.link.get_or_insert_with(|| self.passed.clone());
        self.followed += 1;
        if self.links == Links::Refuse || self.followed > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        match text.first() {
            None => Err(Errno::NOENT),
            Some(b'/') => self.restart(Path::new(std::ffi::OsStr::from_bytes(&text))),
            Some(_) => {
                self.push(&text, Origin::Link);
                Ok(())
            }
        }
    }

    fn up(&mut self) -> Result<(), Errno> {
        if self.stack.len() > 1 {
            self.stack.pop();
            return Ok(());
        }
        match self.base.parent() {
            Some(parent) => self.restart(parent),
            None => Ok(()),
        }
    }

    /// Goes on from an absolute path: from the nearest anchor above it by name, so that a request stays in its
    /// generation and needs no rights above the root, else from `/`.
    fn restart(&mut self, path: &Path) -> Result<(), Errno> {
        let (level, base, rest) = match self.anchors.nearest(path) {
            Some((anchor, rest)) => (
                Level {
                    directory: Standing::Anchor(anchor),
                    anchored: true,
                },
                anchor.path.as_path(),
                rest,
            ),
            None => {
                let top = self.opener.directory(Path::new("/"))?;
                let rest = path.as_os_str().as_bytes().to_vec();
                (
                    Level {
                        directory: Standing::Own(top),
                        anchored: false,
                    },
                    Path::new("/"),
                    rest,
                )
            }
        };
        self.stack.clear();
        self.stack.push(level);
        self.base = base;
        self.push(&rest, Origin::Link);
        Ok(())
    }

    fn push(&mut self, path: &[u8], origin: Origin) {
        let segments = path
            .split(|&byte| byte == b'/')
            .rev()
            .map(|segment| (segment.to_vec(), origin));
        self.pending.extend(segments);
    }

    fn top(&self) -> Result<&Descriptor, Errno> {
        match self.stack.last() {
            Some(Level {
                directory: Standing::Anchor(anchor),
                ..
            }) => Ok(&anchor.directory),
            Some(Level {
                directory: Standing::Own(directory),
                ..
            }) => Ok(directory),
            None => Err(Errno::NOENT),
        }
    }

    fn is_inside(&self) -> bool {
        self.stack.iter().any(|level| level.anchored)
    }

    fn is_refused_link(&self) -> bool {
        self.links == Links::Refuse && self.link.is_some()
    }
}

impl Anchors {
    /// Paths of the allowed directories outside the root.
    pub fn target_paths(&self) -> impl Iterator<Item = &Path> + Clone {
        self.targets.iter().map(|target| target.path.as_path())
    }

    fn contain(&self, inode: (u64, u64)) -> bool {
        self.root.inode == inode || self.targets.iter().any(|target| target.inode == inode)
    }

    /// The anchor whose path is the longest beginning of `path`, and the rest.
    fn nearest(&self, path: &Path) -> Option<(&Anchor, Vec<u8>)> {
        let root = [
            (&self.root, self.root.path.as_path()),
            (&self.root, self.configured.as_path()),
        ];
        let targets = self
            .targets
            .iter()
            .map(|target| (target, target.path.as_path()));
        root.into_iter()
            .chain(targets)
            .filter(|(_, beginning)| beginning.is_absolute())
            .filter_map(|(anchor, beginning)| {
                Some((anchor, beginning, path.strip_prefix(beginning).ok()?))
            })
            .max_by_key(|(_, beginning, _)| beginning.components().count())
            .map(|(anchor, _, rest)| (anchor, rest.as_os_str().as_bytes().to_vec()))
    }
}

struct Level<'a> {
    directory: Standing<'a>,
    anchored: bool,
}

enum Standing<'a> {
    Anchor(&'a Anchor),
    Own(Descriptor),
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Origin {
    Request,
    Link,
}

/// Links followed on one path, as in the kernel.
const MAX_LINKS: u32 = 40;
