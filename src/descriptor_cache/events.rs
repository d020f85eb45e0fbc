//! What an event means: which names are in doubt, which directories stand elsewhere, which roots are to be resolved.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use super::counters::increment;
use super::inotify::{Event, Kind};
use super::sign::Sign;
use super::tree::NodeId;
use super::watch::{Pending, State, Watching};

impl Watching {
    /// Takes in what is pending.
    pub(super) fn apply(&self, state: &mut State, pending: Pending) {
        if pending.mounts {
            state.systems.forget();
            state.mark_all_signs();
        }
        if let (true, Some(inotify)) = (pending.events, self.inotify.get()) {
            inotify.read(|event| self.take(state, event));
        }
    }

    fn take(&self, state: &mut State, event: Event<'_>) {
        #[cfg(test)]
        if self.deaf.load(Ordering::Relaxed) {
            return;
        }
        increment(&self.counters.events.watch_events);
        match (event.kind, event.name) {
            (Kind::Overflow, _) => {
                increment(&self.counters.events.overflows);
                self.overflows.fetch_add(1, Ordering::AcqRel);
                state.suspect_all();
                state.mark_all_signs();
                // A lost event may have told that a directory went elsewhere and took its watch with it.
                for id in state.tree.below_roots() {
                    self.uproot(state, id);
                }
            }
            (Kind::Ended, _) => {
                let Some(watched) = state.watches.remove(&event.watch) else {
                    return;
                };
                for id in watched.nodes {
                    self.uproot(state, id);
                }
                mark(&watched.signs, None);
            }
            (Kind::SelfGone, _) => {
                for id in state.nodes_of(event.watch) {
                    if state.tree.is_root(id) {
                        state.raise_subtree(id);
                        state.suspect_all();
                    } else {
                        self.uproot(state, id);
                    }
                }
            }
            (kind, Some(name)) => self.take_name(state, event.watch, kind, name),
            (_, None) => {
                for id in state.nodes_of(event.watch) {
                    state.raise_subtree(id);
                }
            }
        }
    }

    fn take_name(&self, state: &mut State, watch: i32, kind: Kind, name: &[u8]) {
        for id in state.nodes_of(watch) {
            let child = state.tree.child(id, name);
            if let Some(node) = state.tree.node(id) {
                // A file made without a name (O_TMPFILE) keeps `#` and a number towards events, whatever it is linked as.
                let is_any = name.first() == Some(&b'#');
                if is_any {
                    node.epochs.raise_all();
                } else {
                    node.epochs.raise(name);
                }
                // Only a name that goes can leave a descriptor of a deleted file: writing, which may happen thousands of
                // times a second, gives no reason to look for one.
                if kind == Kind::Renamed {
                    node.epochs.raise_names();
                    let suspects = node.epochs.held_for(name);
                    state.suspects.extend(suspects);
                }
            }
            match (child, kind) {
                (Some(child), Kind::Renamed) => self.uproot(state, child),
                (Some(child), _) => state.raise_subtree(child),
                (None, _) => {}
            }
        }
        if let Some(watched) = state.watches.get(&watch) {
            mark(&watched.signs, Some(name));
        }
    }
}

impl State {
    fn nodes_of(&self, watch: i32) -> Vec<NodeId> {
        self.watches
            .get(&watch)
            .map(|watched| watched.nodes.clone())
            .unwrap_or_default()
    }

    fn raise_subtree(&mut self, id: NodeId) {
        for id in self.tree.subtree(id) {
            if let Some(node) = self.tree.node(id) {
                node.epochs.raise_all();
            }
        }
    }

    fn suspect_all(&mut self) {
        let held = self.tree.iter().flat_map(|(_, node)| node.epochs.held());
        self.suspects.extend(held);
    }

    fn mark_all_signs(&self) {
        for sign in self.signs.iter().filter_map(Weak::upgrade) {
            sign.mark();
        }
    }
}

/// Marks the roots that the name leads to; all without one.
fn mark(signs: &[(Box<[u8]>, Weak<Sign>)], name: Option<&[u8]>) {
    for (of, sign) in signs {
        if name.is_none_or(|name| name == &**of)
            && let Some(sign) = sign.upgrade()
        {
            sign.mark();
        }
    }
}
