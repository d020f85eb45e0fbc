//! Document roots and their generations.
//!
//! A root's path may be a link that a release swaps. A *generation* is one directory that the path led to, held open: a
//! request takes the current one once and sees nothing of another. Entries belong to a generation.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::gate::Gate;
use super::links::{LinkPolicy, RefusalLog, adopt_targets};
use super::mounts::MountsBelow;
use super::names::NamesSlot;
use super::open::Opener;
use super::sign::Sign;
use super::trail::Trail;
use super::walk::{Anchor, Anchors};
use super::watch::{Planted, Watching};

/// One configured document root; shared by all sites with the same path and link policy.
///
/// Sites hold it for as long as they serve it: when the last of them lets go, its generation ends, and while requests
/// may finish in it, nothing of it is remembered any more.
#[derive(Debug)]
pub struct DocumentRoot {
    path: PathBuf,
    policy: LinkPolicy,
    gate: Gate,
    current: ArcSwap<RootGeneration>,
    vanished: AtomicBool,
    resolving: Mutex<()>,
    sign: Arc<Sign>,
}

impl DocumentRoot {
    /// The directory that the path leads to now; no system call.
    pub fn current(&self) -> Arc<RootGeneration> {
        self.current.load_full()
    }

    /// The same, lent: threads that ask at once do not contend for a count of its uses.
    pub fn lend_current(&self) -> Guard<Arc<RootGeneration>> {
        self.current.load()
    }

    /// The path as configured.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(
        ground: Ground<'_>,
        path: &Path,
        policy: &LinkPolicy,
        gate: Gate,
    ) -> Result<Self, RootError> {
        let sign = ground.watching.sign();
        // Before the path is looked at: a swap in between is told.
        if ground.watching.is_on() {
            let trail = Trail::of(ground.opener, path);
            ground.watching.follow(&sign, &[trail]);
        }
        let generation =
            RootGeneration::begin(ground, path, policy, &gate).map_err(|errno| RootError {
                path: path.to_owned(),
                errno,
            })?;
        let root = Self {
            path: path.to_owned(),
            policy: policy.clone(),
            gate,
            current: ArcSwap::from_pointee(generation),
            vanished: AtomicBool::new(false),
            resolving: Mutex::new(()),
            sign,
        };
        root.follow(ground);
        Ok(root)
    }

    /// Has the directories above the root, and above its link targets, watched for the names that lead there.
    fn follow(&self, ground: Ground<'_>) {
        if !ground.watching.is_on() {
            return;
        }
        let current = self.current();
        let paths = std::iter::once(self.path.as_path())
            .chain(current.anchors.target_paths())
            .chain(current.anchors.absent.iter().map(PathBuf::as_path));
        let trails: Vec<_> = paths.map(|path| Trail::of(ground.opener, path)).collect();
        ground.watching.follow(&self.sign, &trails);
    }

    /// Looks where the path leads now and begins a new generation if that is another directory or path, or, when
    /// `judged`, other link targets. Answers the generation that ended. Blocks.
    ///
    /// A path that leads nowhere changes nothing: a release may be swapped in two steps. Nor does this wait for another
    /// thread that is still at it, perhaps on a file system that hangs.
    fn resolve(&self, ground: Ground<'_>, judged: Judged) -> Option<Arc<RootGeneration>> {
        let _resolving = match judged {
            // Whoever follows the event waits for the one that is at it.
            Judged::Marked => self.resolving.try_lock_for(PATIENCE)?,
            Judged::Path | Judged::PathAndLinks => self.resolving.try_lock()?,
        };
        let marks = self.sign.unseen();
        if judged == Judged::Marked && marks.is_none() {
            return None;
        }
        if marks.is_some() {
            // Before the path is looked at, so that whatever comes later is told.
            self.follow(ground);
        }
        let current = self.current();
        let begin = || RootGeneration::begin(ground, &self.path, &self.policy, &self.gate);
        let next = match judged {
            Judged::Path | Judged::Marked => {
                let mounts = marks.is_some() && current.mounts_differ(ground);
                current
                    .moved(ground.opener, &self.path)
                    .and_then(|moved| (moved || mounts).then(begin).transpose())
            }
            Judged::PathAndLinks => begin().map(|next| (!current.is_like(&next)).then_some(next)),
        };
        if let Some(marks) = marks {
            self.sign.see(marks);
        }
        match next {
            Ok(next) => {
                self.vanished.store(false, Ordering::Relaxed);
                let next = Arc::new(next?);
                tracing::info!(
                    "document root {} is {} now",
                    self.path.display(),
                    next.resolved().display()
                );
                current.retired.store(true, Ordering::Relaxed);
                self.current.store(next);
                self.follow(ground);
                Some(current)
            }
            Err(errno) => {
                if !self.vanished.swap(true, Ordering::Relaxed) {
                    let error = io::Error::from(errno);
                    tracing::warn!(
                        "document root {}: {error}; serving {}",
                        self.path.display(),
                        current.resolved().display()
                    );
                }
                None
            }
        }
    }
}

impl Drop for DocumentRoot {
    fn drop(&mut self) {
        self.current.load().retired.store(true, Ordering::Relaxed);
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Judged {
    /// Where the path leads.
    Path,
    /// The same and what is mounted there, if an event says that something has happened.
    Marked,
    /// The same and which links lead out.
    PathAndLinks,
}

/// What roots are opened and watched by.
#[derive(Copy, Clone, Debug)]
pub struct Ground<'a> {
    /// Makes the calls.
    pub opener: &'a Opener,
    /// Watches.
    pub watching: &'a Watching,
}

/// One directory that a document root's path led to.
#[derive(Debug)]
pub struct RootGeneration {
    id: u64,
    anchors: Anchors,
    policy: LinkPolicy,
    gate: Gate,
    refusals: RefusalLog,
    names: NamesSlot,
    retired: AtomicBool,
    planted: OnceLock<Planted>,
    mounts: MountsBelow,
}

impl RootGeneration {
    /// A number that no other generation of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The directory's path without links: what DOCUMENT_ROOT and SCRIPT_FILENAME are made from.
    pub fn resolved(&self) -> &Path {
        &self.anchors.root.path
    }

    /// Directories outside the root that links are followed into.
    pub fn link_targets(&self) -> impl Iterator<Item = &Path> {
        self.anchors.target_paths()
    }

    pub(super) fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    pub(super) fn policy(&self) -> &LinkPolicy {
        &self.policy
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Folders outside that refused links lead to, and that `link_targets` could allow.
    pub fn refused_targets(&self) -> Vec<PathBuf> {
        self.refusals.folders()
    }

    pub(super) fn refusals(&self) -> &RefusalLog {
        &self.refusals
    }

    pub(super) fn names(&self) -> &NamesSlot {
        &self.names
    }

    /// Its node in the tree of watched directories, once there is one.
    pub(super) fn planted(&self) -> &OnceLock<Planted> {
        &self.planted
    }

    /// Whether something is mounted at this path below the root.
    pub(super) fn is_mount_point(&self, path: &[u8]) -> bool {
        self.mounts.has_point(path)
    }

    /// Whether the root has gone on to another generation, so that nothing of this one is worth remembering.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    fn begin(
        ground: Ground<'_>,
        path: &Path,
        policy: &LinkPolicy,
        gate: &Gate,
    ) -> Result<Self, Errno> {
        // Before anything is opened: what is mounted later shows as a difference.
        let mounts = ground.watching.mounts();
        let opener = ground.opener;
        let root = locate(opener, path)?;
        let mut anchors = Anchors {
            root,
            configured: path.to_owned(),
            targets: Vec::new(),
            absent: Vec::new(),
        };
        if policy.symlinks == super::links::Symlinks::Beneath {
            adopt_targets(opener, &mut anchors, &policy.targets);
        }
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            policy: policy.clone(),
            gate: gate.clone(),
            refusals: RefusalLog::default(),
            names: NamesSlot::default(),
            retired: AtomicBool::new(false),
            planted: OnceLock::new(),
            mounts: MountsBelow::of(&mounts, &anchors.root.path, anchors.target_paths()),
            anchors,
        })
    }

    /// Whether something was mounted or unmounted at or below the root or a link target.
    fn mounts_differ(&self, ground: Ground<'_>) -> bool {
        let now = MountsBelow::of(
            &ground.watching.mounts(),
            &self.anchors.root.path,
            self.anchors.target_paths(),
        );
        now.differ(&self.mounts)
    }

    /// Whether `path`, or the path of a link target, leads to another directory now.
    ///
    /// A target that is gone is no reason: it may be a file system that is mounted again in a moment.
    fn moved(&self, opener: &Opener, path: &Path) -> Result<bool, Errno> {
        let now = locate(opener, path)?;
        Ok(now.inode != self.anchors.root.inode
            || now.path != self.anchors.root.path
            || self
                .anchors
                .targets
                .iter()
                .any(|target| is_replaced(opener, target))
            || self
                .anchors
                .absent
                .iter()
                .any(|absent| opener.directory(absent).is_ok()))
    }

    fn is_like(&self, other: &Self) -> bool {
        let same =
            |one: &Anchor, other: &Anchor| one.inode == other.inode && one.path == other.path;
        let (ours, theirs) = (&self.anchors.targets, &other.anchors.targets);
        !self.mounts.differ(&other.mounts)
            && same(&self.anchors.root, &other.anchors.root)
            && ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|(our, their)| same(our, their))
    }
}

fn is_replaced(opener: &Opener, target: &Anchor) -> bool {
    let now = opener
        .directory(&target.path)
        .and_then(|directory| opener.facts(&directory));
    now.is_ok_and(|now| (now.identity.device, now.identity.inode) != target.inode)
}

/// Opens the directory that `path` leads to and finds its real path.
fn locate(opener: &Opener, path: &Path) -> Result<Anchor, Errno> {
    let directory = opener.directory(path)?;
    let facts = opener.facts(&directory)?;
    if facts.identity.links == 0 {
        // Removed between the two calls: its real path would end in " (deleted)".
        return Err(Errno::NOENT);
    }
    // Files are opened through /proc, too: without it nothing can be served.
    let real = opener.real_path(&directory).map_err(|_| Errno::NOSYS)?;
    Ok(Anchor {
        directory,
        path: real,
        inode: (facts.identity.device, facts.identity.inode),
    })
}

/// A document root that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("document root {}: {}", path.display(), self.cause())]
pub struct RootError {
    path: PathBuf,
    errno: Errno,
}

impl RootError {
    fn cause(&self) -> String {
        match self.errno {
            Errno::NOSYS => "/proc is not mounted".to_owned(),
            errno => io::Error::from(errno).to_string(),
        }
    }
}

/// The roots in use, so that each (path, policy) has one, whatever is reloaded.
#[derive(Debug, Default)]
pub struct Roots(Mutex<HashMap<(PathBuf, LinkPolicy), Weak<DocumentRoot>>>);

impl Roots {
    /// The root of this path and policy. One that exists is resolved anew, its link targets, too; the generation that
    /// ended by that is answered as well. Blocks.
    ///
    /// # Errors
    /// When there is none yet and the path cannot be opened as a directory.
    pub fn open(
        &self,
        ground: Ground<'_>,
        path: &Path,
        policy: &LinkPolicy,
        gate: Gate,
    ) -> Result<(Arc<DocumentRoot>, Option<Arc<RootGeneration>>), RootError> {
        let key = (path.to_owned(), policy.clone());
        let known = self.0.lock().get(&key).and_then(Weak::upgrade);
        if let Some(root) = known {
            let ended = root.resolve(ground, Judged::PathAndLinks);
            return Ok((root, ended));
        }
        let opened = Arc::new(DocumentRoot::open(ground, path, policy, gate)?);
        let mut roots = self.0.lock();
        // Another thread may have been faster: there must be one only.
        if let Some(root) = roots.get(&key).and_then(Weak::upgrade) {
            return Ok((root, None));
        }
        roots.insert(key, Arc::downgrade(&opened));
        Ok((opened, None))
    }

    /// Resolves every root anew; the generations that ended by that. Blocks.
    pub fn resolve(&self, ground: Ground<'_>) -> Vec<Arc<RootGeneration>> {
        let roots = self.in_use();
        roots
            .iter()
            .filter_map(|root| root.resolve(ground, Judged::Path))
            .collect()
    }

    /// Resolves the roots that events have marked; the generations that ended by that. Blocks.
    pub fn resolve_marked(&self, ground: Ground<'_>) -> Vec<Arc<RootGeneration>> {
        let mut ended = Vec::new();
        ground.watching.resolve_marks(|| {
            let roots = self.in_use();
            let marked = roots
                .iter()
                .filter_map(|root| root.resolve(ground, Judged::Marked));
            ended.extend(marked);
            roots.iter().all(|root| root.sign.unseen().is_none())
        });
        ended
    }

    fn in_use(&self) -> Vec<Arc<DocumentRoot>> {
        let mut roots = self.0.lock();
        roots.retain(|_, root| root.strong_count() > 0);
        roots.values().filter_map(Weak::upgrade).collect()
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
/// How long one that follows an event waits for another that resolves the root.
const PATIENCE: Duration = Duration::from_secs(1);
