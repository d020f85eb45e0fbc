//! How a path gets its voucher: every directory on its way is watched.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::epochs::{NamesVoucher, Voucher};
use super::file::Descriptor;
use super::filesystem::Locality;
use super::inotify::Scope;
use super::open::Opener;
use super::root::RootGeneration;
use super::settings::Watch;
use super::sign::Sign;
use super::trail::Trail;
use super::tree::{Descent, NodeId, Standing};
use super::walk::plainly;
use super::watch::{State, Watching};
use crate::clock::Tick;

/// A voucher, and what for.
#[derive(Clone, Debug)]
pub struct Vouched {
    /// The voucher.
    pub voucher: Voucher,
    /// How far.
    pub reach: Reach,
    /// Device of the directory.
    pub device: u64,
}

/// What a voucher is good for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Whatever stands at the path.
    Whole,
    /// That nothing does: one of its directories is missing.
    Missing,
    /// Nothing, but what it is for has changed when it is not current any more: a link stands on the way.
    Link,
}

impl Reach {
    /// Whether every change is told of what was found to exist or not.
    pub fn tells(self, exists: bool) -> bool {
        match self {
            Self::Whole => true,
            Self::Missing => !exists,
            Self::Link => false,
        }
    }
}

impl Watching {
    /// Has all directories of `path` watched that are not yet, and notes the counter of its last name: to be called
    /// before the look that it is to vouch for. `None` where no watch tells: another file system, no watches left.
    /// Blocks.
    pub fn vouch(
        &self,
        opener: &Opener,
        root: &RootGeneration,
        path: &[u8],
        now: Tick,
    ) -> Option<Vouched> {
        let planted = self.plant(opener, root, now)?;
        let (folder, name) = split(path);
        let mut tries = 2;
        loop {
            let lacking = {
                let mut state = self.lock();
                self.inotify(&state)?;
                match state.tree.descend(planted, folder, now) {
                    Descent::Arrived(id) => {
                        return self.vouched(&state, id, name, Reach::Whole);
                    }
                    Descent::Lacking { at, child, end } => {
                        // Noted before it is looked whether there is such a directory: one that is made right after
                        // that look raises it.
                        let (_, name) = split(folder.get(..end).unwrap_or_default());
                        let missing = self.vouched(&state, at, name, Reach::Missing);
                        (missing, child, end)
                    }
                    Descent::Link { at, end } => {
                        let (_, name) = split(folder.get(..end).unwrap_or_default());
                        return self.vouched(&state, at, name, Reach::Link);
                    }
                    Descent::Nowhere => return None,
                }
            };
            let (missing, child, end) = lacking;
            let way = folder.get(..end).unwrap_or_default();
            match self.reach(opener, root, child, way, now) {
                // Of a link, the tree knows now.
                Reached::Watched | Reached::Link => {}
                Reached::Nothing => return missing,
                Reached::Changed if tries > 0 => tries -= 1,
                Reached::Changed | Reached::Unwatchable => return None,
            }
        }
    }

    /// The same for the names in the root directory.
    pub fn vouch_for_names(
        &self,
        opener: &Opener,
        root: &RootGeneration,
        now: Tick,
    ) -> Option<NamesVoucher> {
        let planted = self.plant(opener, root, now)?;
        let state = self.lock();
        self.inotify(&state)?;
        let node = state.tree.node(planted)?;
        Some(node.epochs.vouch_for_names(self.overflows()))
    }

    /// What the file system of an open file promises.
    pub fn locality(&self, opener: &Opener, device: u64, of: impl AsFd) -> Locality {
        {
            let state = self.state.lock();
            #[cfg(test)]
            if let Some(forced) = state.forced {
                return forced;
            }
            if let Some(known) = state.systems.locality(device) {
                return known;
            }
        }
        let Ok(locality) = opener.locality(of) else {
            return Locality::Local;
        };
        self.state.lock().systems.learn(device, locality);
        locality
    }

    /// Has the directories of trails watched for the names that they go by, in place of earlier ones of the sign. What
    /// cannot be watched is looked at every second anyway.
    pub fn follow(&self, sign: &Arc<Sign>, trails: &[Trail]) {
        let mut state = self.lock();
        let Some(inotify) = self.inotify(&state) else {
            return;
        };
        let mut left: Vec<i32> = Vec::new();
        for (watch, watched) in &mut state.watches {
            let before = watched.signs.len();
            watched
                .signs
                .retain(|(_, other)| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(sign)));
            if watched.signs.len() != before {
                left.push(*watch);
            }
        }
        for step in trails.iter().flat_map(|trail| &trail.0) {
            let known = state.watches.len();
            if known < state.budget
                && let Ok(watch) = inotify.watch(&*step.directory, Scope::Names)
            {
                let watched = state.watches.entry(watch).or_default();
                watched
                    .signs
                    .push((step.name.clone(), Arc::downgrade(sign)));
            }
        }
        for watch in left {
            self.leave_if_unused(&mut state, watch);
        }
    }

    /// Gives back the watches of directories that no entry refers to and no look came through since `before`.
    pub fn sweep(&self, before: Tick) {
        let mut state = self.lock();
        loop {
            let unneeded = state.tree.unneeded(before, SWEPT);
            for id in &unneeded {
                self.uproot(&mut state, *id);
            }
            // Parents may have become leaves.
            if unneeded.is_empty() {
                break;
            }
        }
        let unmarked: Vec<i32> = state.watches.keys().copied().collect();
        for watch in unmarked {
            self.leave_if_unused(&mut state, watch);
        }
    }

    /// The root's node; planted when there is none yet.
    fn plant(&self, opener: &Opener, root: &RootGeneration, now: Tick) -> Option<NodeId> {
        if let Some(planted) = root.planted().get() {
            return Some(planted.id);
        }
        let anchor = &root.anchors().root;
        let device = anchor.inode.0;
        if !self.is_told(opener, device, &anchor.directory) {
            return None;
        }
        let mut state = self.lock();
        if let Some(planted) = root.planted().get() {
            return Some(planted.id);
        }
        let watch = self.add(&mut state, &anchor.directory, now)?;
        let id = state.tree.plant(Standing::Watched { watch, device }, now);
        state.watches.entry(watch).or_default().nodes.push(id);
        let epochs = Arc::clone(&state.tree.node(id)?.epochs);
        // Under the lock: nobody else can have been faster.
        let _ = root.planted().set(self.planted(id, epochs));
        Some(id)
    }

    /// Opens a directory whose name is registered and watches it.
    fn reach(
        &self,
        opener: &Opener,
        root: &RootGeneration,
        child: NodeId,
        way: &[u8],
        now: Tick,
    ) -> Reached {
        let (reached, opened) = match plainly(opener, root.anchors(), way) {
            Err(Errno::LOOP) => (Reached::Link, None),
            Err(Errno::NOENT | Errno::NOTDIR) => (Reached::Nothing, None),
            Err(_) => (Reached::Unwatchable, None),
            Ok(directory) => match opener.facts(&directory) {
                Ok(facts) if facts.kind == FileType::Directory => {
                    (Reached::Watched, Some((directory, facts.identity.device)))
                }
                Ok(_) => (Reached::Nothing, None),
                Err(_) => (Reached::Unwatchable, None),
            },
        };
        if reached == Reached::Link {
            // Remembered, so that the next look tries no more than the tree.
            self.lock().tree.note_link(child);
            return reached;
        }
        match opened {
            Some((directory, device)) if self.is_told(opener, device, &directory) => {
                self.reached(child, &directory, device, now)
            }
            opened => {
                self.lock().tree.forget_pending(child);
                opened.map_or(reached, |_| Reached::Unwatchable)
            }
        }
    }

    fn reached(&self, child: NodeId, directory: &Descriptor, device: u64, now: Tick) -> Reached {
        let mut state = self.lock();
        if state.tree.node(child).is_none() {
            return Reached::Changed;
        }
        let Some(watch) = self.add(&mut state, directory, now) else {
            state.tree.forget_pending(child);
            return Reached::Unwatchable;
        };
        let stands = match state.tree.node_mut(child) {
            Some(node) if node.standing == Standing::Pending => {
                node.standing = Standing::Watched { watch, device };
                true
            }
            // Another look was faster; when it found another directory, an event about that is on its way.
            Some(node) => node.standing == Standing::Watched { watch, device },
            None => false,
        };
        let watched = state.watches.entry(watch).or_default();
        if stands && !watched.nodes.contains(&child) {
            watched.nodes.push(child);
        }
        self.leave_if_unused(&mut state, watch);
        if stands {
            Reached::Watched
        } else {
            Reached::Changed
        }
    }

    /// A watch on a directory, within the budget.
    fn add(&self, state: &mut State, directory: &Descriptor, now: Tick) -> Option<i32> {
        if state.watches.len() >= state.budget {
            for id in state.tree.unneeded(now, SWEPT) {
                self.uproot(state, id);
            }
        }
        if state.watches.len() >= state.budget {
            self.fall_back(state, Errno::NOSPC);
            return None;
        }
        match self.inotify(state)?.watch(directory, Scope::Content) {
            Ok(watch) => Some(watch),
            Err(errno) => {
                self.fall_back(state, errno);
                None
            }
        }
    }

    fn is_told(&self, opener: &Opener, device: u64, of: &Descriptor) -> bool {
        let watch = self.state.lock().watch;
        if watch == Watch::Off {
            return false;
        }
        let locality = self.locality(opener, device, of);
        let state = self.state.lock();
        let believed = match watch {
            Watch::Auto => locality == Locality::Told,
            Watch::On => locality != Locality::Remote,
            Watch::Off => false,
        };
        believed && !state.systems.is_demoted(device)
    }

    fn vouched(&self, state: &State, id: NodeId, name: &[u8], reach: Reach) -> Option<Vouched> {
        let node = state.tree.node(id)?;
        let Standing::Watched { device, .. } = node.standing else {
            return None;
        };
        Some(Vouched {
            voucher: node.epochs.vouch(name, self.overflows()),
            reach,
            device,
        })
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Reached {
    Watched,
    /// No directory stands there.
    Nothing,
    /// A link stands there.
    Link,
    /// Something has happened to its name meanwhile.
    Changed,
    /// It cannot be watched, or no watch would tell.
    Unwatchable,
}

/// The folder of a path and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(at) => {
            let name = path.get(at + 1..).unwrap_or_default();
            (path.get(..at).unwrap_or_default(), name)
        }
        None => (b"", path),
    }
}

/// Nodes taken out at a time.
const SWEPT: usize = 256;
