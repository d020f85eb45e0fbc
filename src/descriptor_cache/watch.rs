//! Watching: events of the kernel are turned into raised [`epochs`](super::epochs), on which every entry rests that was
//! found by way of watched directories.
//!
//! A look asks for a voucher before it opens anything. Every directory on the way gets a node in the [`tree`](super::tree)
//! and a watch, its name registered with its parent before it is opened, so that no rename is missed: one before the
//! opening is seen by it, one after it is told. Events are taken in by a thread of their own ([`listener`](super::listener)) and by whoever
//! cannot wait for it; both hold the same lock from the reading on, so that whoever has had it finds all applied.
//!
//! What no watch tells: content changed through a shared writable mapping (mmap), a file changed by a second name in a
//! directory that is not watched, when that name was made after the look (a file with more than one name at the look is
//! not vouched for), and whatever is done below a stacked file system. A look at every ten times `valid` finds these, and
//! [`demote`](Watching::demote) takes the file system's word no more.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::counters::{Counters, increment};
use super::epochs::Epochs;
use super::filesystem::FileSystems;
#[cfg(test)]
use super::filesystem::Locality;
use super::inotify::Inotify;
use super::mounts::{MountTable, Mounts};
use super::settings::Watch;
use super::sign::Sign;
use super::tree::{Node, NodeId, Standing, Tree};

/// The watches of one cache.
#[derive(Debug)]
pub struct Watching {
    pub(super) state: Mutex<State>,
    pub(super) counters: Arc<Counters>,
    pub(super) inotify: OnceLock<Inotify>,
    mounts: Option<MountTable>,
    wake: Option<OwnedFd>,
    pub(super) overflows: AtomicU64,
    marks: Arc<AtomicU64>,
    resolved: AtomicU64,
    /// Roots' nodes that nobody needs any more, to be taken out by whoever has the lock next.
    fallen: Arc<Mutex<Vec<NodeId>>>,
    stopped: AtomicBool,
    #[cfg(test)]
    pub(super) deaf: AtomicBool,
}

/// What the lock protects.
#[derive(Debug)]
pub struct State {
    pub(super) watch: Watch,
    pub(super) tree: Tree,
    pub(super) watches: HashMap<i32, Watched>,
    pub(super) systems: FileSystems,
    pub(super) budget: usize,
    /// Descriptors of files whose names have gone, by their tickets: as many as are held at the most.
    pub(super) suspects: HashSet<u64>,
    pub(super) signs: Vec<Weak<Sign>>,
    has_said_why_not: bool,
    #[cfg(test)]
    pub(super) forced: Option<Locality>,
}

/// Who is told what a watch tells.
#[derive(Debug, Default)]
pub struct Watched {
    pub(super) nodes: Vec<NodeId>,
    pub(super) signs: Vec<(Box<[u8]>, Weak<Sign>)>,
}

/// A root's node in the tree, taken out when this is dropped.
#[derive(Debug)]
pub struct Planted {
    /// The node.
    pub id: NodeId,
    /// Its counters.
    pub epochs: Arc<Epochs>,
    fallen: Arc<Mutex<Vec<NodeId>>>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.fallen.lock().push(self.id);
    }
}

impl Watching {
    /// Watches nothing yet.
    pub fn new(watch: Watch, counters: Arc<Counters>) -> Arc<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let watching = Self {
            state: Mutex::new(State {
                watch: Watch::Off,
                tree: Tree::default(),
                watches: HashMap::new(),
                systems: FileSystems::default(),
                budget: budget(),
                suspects: HashSet::new(),
                signs: Vec::new(),
                has_said_why_not: false,
                #[cfg(test)]
                forced: None,
            }),
            counters,
            inotify: OnceLock::new(),
            mounts: MountTable::open().ok(),
            wake: eventfd(0, flags).ok(),
            overflows: AtomicU64::new(0),
            marks: Arc::default(),
            resolved: AtomicU64::new(0),
            fallen: Arc::default(),
            stopped: AtomicBool::new(false),
            #[cfg(test)]
            deaf: AtomicBool::new(false),
        };
        watching.reconfigure(watch);
        Arc::new(watching)
    }

    /// Takes over another `watch`; what was vouched for is looked at again.
    pub fn reconfigure(&self, watch: Watch) {
        let mut state = self.state.lock();
        if state.watch == watch {
            return;
        }
        if watch != Watch::Off && self.inotify.get().is_none() {
            match Inotify::new() {
                Ok(inotify) => drop(self.inotify.set(inotify)),
                Err(errno) => self.fall_back(&mut state, errno),
            }
        }
        state.watch = watch;
        self.overflows.fetch_add(1, Ordering::AcqRel);
    }

    /// How often all was in doubt: part of every voucher.
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Acquire)
    }

    /// Takes in what has happened until now, without waiting. Afterwards no voucher is current whose name has changed
    /// before the call. One system call when nothing has.
    pub fn take_in(&self) {
        let mut state = self.state.lock();
        let pending = self.wait(Some(&Timespec::default()), Waker::Ignored);
        self.apply(&mut state, pending);
    }

    /// Waits for something to happen and takes it in; false when there will be nothing more.
    pub fn take_in_next(&self) -> bool {
        let pending = self.wait(None, Waker::Heard);
        if self.stopped.load(Ordering::Acquire) {
            return false;
        }
        self.apply(&mut self.state.lock(), pending);
        true
    }

    /// Ends [`take_in_next`](Self::take_in_next) for good.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(wake) = &self.wake {
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    /// Whether events can come.
    pub fn is_listening(&self) -> bool {
        self.wake.is_some() && self.inotify.get().is_some()
    }

    /// Whether anything is to be watched.
    pub fn is_on(&self) -> bool {
        self.inotify(&self.state.lock()).is_some()
    }

    /// Whether something happened on the way to a root that was not resolved since.
    pub fn has_marks(&self) -> bool {
        self.marks.load(Ordering::Acquire) != self.resolved.load(Ordering::Acquire)
    }

    /// Resolves marked roots by `resolve`, which answers whether it got to all of them.
    pub fn resolve_marks(&self, resolve: impl FnOnce() -> bool) {
        let marks = self.marks.load(Ordering::Acquire);
        if resolve() {
            self.resolved.fetch_max(marks, Ordering::AcqRel);
        }
    }

    /// A sign for a root.
    pub fn sign(&self) -> Arc<Sign> {
        let sign = Arc::new(Sign::new(Arc::clone(&self.marks)));
        let signs = &mut self.state.lock().signs;
        signs.retain(|other| other.strong_count() > 0);
        signs.push(Arc::downgrade(&sign));
        sign
    }

    /// The mounts now.
    pub fn mounts(&self) -> Mounts {
        self.mounts
            .as_ref()
            .map(MountTable::read)
            .unwrap_or_default()
    }

    /// Descriptors of files whose names have come or gone since the last call, by their tickets.
    pub fn suspects(&self) -> HashSet<u64> {
        std::mem::take(&mut self.state.lock().suspects)
    }

    /// Watches in use.
    pub fn watches(&self) -> usize {
        self.state.lock().watches.len()
    }

    /// Watches that may be in use.
    pub fn budget(&self) -> usize {
        self.state.lock().budget
    }

    /// Believes no event of the device that a voucher's directory is on: something changed that none told.
    pub fn demote(&self, device: u64) {
        let mut state = self.state.lock();
        if !state.systems.demote(device) {
            return;
        }
        increment(&self.counters.events.demotions);
        tracing::warn!(
            "a file changed on device {}:{} and no event told it: files there are looked at again as `valid` says",
            rustix::fs::major(device),
            rustix::fs::minor(device)
        );
        let there: Vec<_> = state
            .tree
            .iter()
            .filter(|(_, node)| matches!(node.standing, Standing::Watched { device: of, .. } if of == device))
            .map(|(id, _)| id)
            .collect();
        for id in there {
            self.uproot(&mut state, id);
        }
    }

    /// The descriptor for new watches; none while nothing is to be watched.
    pub(super) fn inotify(&self, state: &State) -> Option<&Inotify> {
        (state.watch != Watch::Off)
            .then(|| self.inotify.get())
            .flatten()
    }

    /// The state, with roots taken out that nobody needs.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let fallen = std::mem::take(&mut *self.fallen.lock());
        for id in fallen {
            self.uproot(&mut state, id);
        }
        state
    }

    pub(super) fn planted(&self, id: NodeId, epochs: Arc<Epochs>) -> Planted {
        Planted {
            id,
            epochs,
            fallen: Arc::clone(&self.fallen),
        }
    }

    /// Takes a node and all below out of the tree; nothing there is vouched for any more.
    pub(super) fn uproot(&self, state: &mut State, id: NodeId) {
        for (id, node) in state.tree.uproot(id) {
            node.epochs.raise_all();
            state.suspects.extend(node.epochs.held());
            self.leave(state, id, &node);
        }
    }

    /// Gives the watch of a node back when nobody else is told by it.
    fn leave(&self, state: &mut State, id: NodeId, node: &Node) {
        let Standing::Watched { watch, .. } = node.standing else {
            return;
        };
        if let Some(watched) = state.watches.get_mut(&watch) {
            watched.nodes.retain(|other| *other != id);
            self.leave_if_unused(state, watch);
        }
    }

    pub(super) fn leave_if_unused(&self, state: &mut State, watch: i32) {
        let unused = state.watches.get_mut(&watch).is_some_and(|watched| {
            watched.signs.retain(|(_, sign)| sign.strong_count() > 0);
            watched.nodes.is_empty() && watched.signs.is_empty()
        });
        if unused {
            state.watches.remove(&watch);
            if let Some(inotify) = self.inotify.get() {
                inotify.unwatch(watch);
            }
        }
    }

    /// Says once why changes are not seen at once.
    pub(super) fn fall_back(&self, state: &mut State, errno: Errno) {
        increment(&self.counters.events.watch_fallbacks);
        let hint = match errno {
            Errno::NOSPC => "raise fs.inotify.max_user_watches",
            Errno::MFILE => "raise fs.inotify.max_user_instances",
            Errno::NOMEM => "the kernel has no memory left",
            _ => return,
        };
        if !std::mem::replace(&mut state.has_said_why_not, true) {
            let watches = state.watches.len();
            tracing::warn!(
                watches,
                "a directory cannot be watched, files there are looked at again as `valid` says: {hint} (sysctl)"
            );
        }
    }

    fn wait(&self, timeout: Option<&Timespec>, waker: Waker) -> Pending {
        let inotify = self.inotify.get().map(Inotify::as_fd);
        let mounts = self.mounts.as_ref().map(MountTable::as_fd);
        let wake = self.wake.as_ref().filter(|_| waker == Waker::Heard);
        let mut fds: Vec<_> = inotify
            .into_iter()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .chain(mounts.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::PRI)))
            .chain(wake.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)))
            .collect();
        // Interrupted: nothing happened, and the caller comes again.
        let _ = poll(&mut fds, timeout);
        let has = |wanted: PollFlags| fds.iter().any(|fd| fd.revents().contains(wanted));
        Pending {
            events: has(PollFlags::IN),
            mounts: has(PollFlags::PRI),
        }
    }
}

/// What can be taken in.
#[derive(Copy, Clone, Debug)]
pub struct Pending {
    pub(super) events: bool,
    pub(super) mounts: bool,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Waker {
    Heard,
    Ignored,
}

/// Half of what the user may have, so that others get theirs.
fn budget() -> usize {
    #[expect(
        clippy::disallowed_methods,
        reason = "the kernel's setting, no part of a document tree"
    )]
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    let most = text.ok().and_then(|text| text.trim().parse::<usize>().ok());
    most.map_or(MOST_WATCHES, |most| (most / 2).min(MOST_WATCHES))
}

/// A watch takes about a KiB of kernel memory, and keeps its directory's inode in it.
pub const MOST_WATCHES: usize = 65_536;
