//! The watched directories of all generations as trees of names: which directory an event concerns, and what lies below.
//!
//! A node is in its tree only while nothing is known to have happened to its name: an event that moves, removes or makes
//! a child takes out the whole subtree, whose watches would otherwise stay with directories that have gone elsewhere. A
//! look that comes through later plants it anew. So a chain of nodes from the root down means that the watches stand on
//! the very directories that the path led to, or that an event is on its way that will raise them.

use std::collections::HashMap;
use std::sync::Arc;

use super::epochs::Epochs;
use crate::clock::Tick;

/// A node; never used twice.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u64);

/// All nodes.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: HashMap<NodeId, Node>,
    next: u64,
}

/// One name that looks came through.
#[derive(Debug)]
pub struct Node {
    /// What its entries compare.
    pub epochs: Arc<Epochs>,
    /// What is known of it.
    pub standing: Standing,
    /// When a look last came through.
    pub needed: Tick,
    parent: Option<(NodeId, Box<[u8]>)>,
    children: HashMap<Box<[u8]>, NodeId>,
}

/// What stands at a node's name.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not known yet: a look is on its way.
    Pending,
    /// A directory, with its watch and device.
    Watched {
        /// The number of the watch.
        watch: i32,
        /// Device number of the directory.
        device: u64,
    },
    /// A symbolic link: what lies behind is not vouched for.
    Link,
}

/// How far a path of directories is known.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Descent {
    /// All of it.
    Arrived(NodeId),
    /// To `at`; its child at the segment that ends at `end` is `child`, and not watched yet.
    Lacking {
        /// The last watched directory.
        at: NodeId,
        /// The next one.
        child: NodeId,
        /// Length of the path to `child`.
        end: usize,
    },
    /// To `at`; at the segment that ends at `end` stands a link.
    Link {
        /// The last watched directory.
        at: NodeId,
        /// Length of the path to the link.
        end: usize,
    },
    /// The root is not watched.
    Nowhere,
}

impl Tree {
    /// A root's node.
    pub fn plant(&mut self, standing: Standing, now: Tick) -> NodeId {
        self.insert(None, standing, now)
    }

    /// The node, if it has not been taken out.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The same, to be changed.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// The child of this name.
    pub fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.nodes.get(&id)?.children.get(name).copied()
    }

    /// Whether the node is a root.
    pub fn is_root(&self, id: NodeId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| node.parent.is_none())
    }

    /// The children of all roots.
    pub fn below_roots(&self) -> Vec<NodeId> {
        let roots = self.nodes.values().filter(|node| node.parent.is_none());
        roots
            .flat_map(|node| node.children.values().copied())
            .collect()
    }

    /// Goes down `path`, whose segments are directories, and plants the first child that is lacking.
    pub fn descend(&mut self, root: NodeId, path: &[u8], now: Tick) -> Descent {
        let mut at = root;
        if !self.is_watched(root) {
            return Descent::Nowhere;
        }
        let mut begin = 0;
        for end in segment_ends(path) {
            let name = path.get(begin..end).unwrap_or_default();
            begin = end + 1;
            let child = match self.child(at, name) {
                Some(child) => child,
                None => self.insert(Some((at, name.into())), Standing::Pending, now),
            };
            match self.nodes.get_mut(&child) {
                Some(node) => {
                    node.needed = now;
                    match node.standing {
                        Standing::Watched { .. } => at = child,
                        Standing::Pending => return Descent::Lacking { at, child, end },
                        Standing::Link => return Descent::Link { at, end },
                    }
                }
                None => return Descent::Nowhere,
            }
        }
        Descent::Arrived(at)
    }

    /// The node and all below it.
    pub fn subtree(&self, id: NodeId) -> Vec<NodeId> {
        let mut all = vec![id];
        let mut next = 0;
        while let Some(node) = all.get(next).and_then(|id| self.nodes.get(id)) {
            all.extend(node.children.values());
            next += 1;
        }
        all
    }

    /// Takes the node and all below it out.
    pub fn uproot(&mut self, id: NodeId) -> Vec<(NodeId, Node)> {
        if let Some((parent, name)) = self.nodes.get(&id).and_then(|node| node.parent.clone())
            && let Some(parent) = self.nodes.get_mut(&parent)
        {
            parent.children.remove(&name);
        }
        let all = self.subtree(id);
        all.into_iter()
            .filter_map(|id| Some((id, self.nodes.remove(&id)?)))
            .collect()
    }

    /// Nodes that no entry refers to, without children, not needed since `before`, `limit` at the most.
    pub fn unneeded(&self, before: Tick, limit: usize) -> Vec<NodeId> {
        let unneeded = self.nodes.iter().filter(|(_, node)| {
            node.parent.is_some()
                && node.children.is_empty()
                && node.needed <= before
                && node.standing != Standing::Pending
                && Arc::strong_count(&node.epochs) == 1
        });
        unneeded.map(|(id, _)| *id).take(limit).collect()
    }

    /// Takes a child out that turned out to be no directory, unless something has become of it since.
    pub fn forget_pending(&mut self, id: NodeId) {
        if self
            .nodes
            .get(&id)
            .is_some_and(|node| node.standing == Standing::Pending && node.children.is_empty())
        {
            self.uproot(id);
        }
    }

    /// Notes that a link stands at a child's name.
    pub fn note_link(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id)
            && node.standing == Standing::Pending
        {
            node.standing = Standing::Link;
        }
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    fn is_watched(&self, id: NodeId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| matches!(node.standing, Standing::Watched { .. }))
    }

    fn insert(
        &mut self,
        parent: Option<(NodeId, Box<[u8]>)>,
        standing: Standing,
        now: Tick,
    ) -> NodeId {
        self.next += 1;
        let id = NodeId(self.next);
        if let Some((parent, name)) = &parent
            && let Some(parent) = self.nodes.get_mut(parent)
        {
            parent.children.insert(name.clone(), id);
        }
        let node = Node {
            epochs: Arc::default(),
            standing,
            needed: now,
            parent,
            children: HashMap::new(),
        };
        self.nodes.insert(id, node);
        id
    }
}

/// Where the segments of a path end.
fn segment_ends(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let whole = (!path.is_empty()).then_some(path.len());
    memchr::memchr_iter(b'/', path).chain(whole)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NOW: Tick = Tick(1);

    fn watched(watch: i32) -> Standing {
        Standing::Watched { watch, device: 1 }
    }

    /// Descends and takes every directory on the way for watched.
    fn reach(tree: &mut Tree, root: NodeId, path: &[u8]) -> NodeId {
        loop {
            match tree.descend(root, path, NOW) {
                Descent::Arrived(node) => return node,
                Descent::Lacking { child, .. } => {
                    tree.node_mut(child).unwrap().standing = watched(7);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_descent_plants_one_directory_after_the_other() {
        let mut tree = Tree::default();
        let root = tree.plant(watched(1), NOW);
        assert_eq!(tree.descend(root, b"", NOW), Descent::Arrived(root));
        let Descent::Lacking { at, child, end } = tree.descend(root, b"a/b", NOW) else {
            panic!("nothing is known below the root");
        };
        assert_eq!((at, end), (root, 1));
        tree.node_mut(child).unwrap().standing = watched(2);
        assert!(
            matches!(tree.descend(root, b"a/b", NOW), Descent::Lacking { at, end: 3, .. } if at == child)
        );
        let b = reach(&mut tree, root, b"a/b");
        assert_eq!(tree.subtree(root), [root, child, b]);
        tree.node_mut(child).unwrap().standing = Standing::Link;
        assert_eq!(
            tree.descend(root, b"a/b", NOW),
            Descent::Link { at: root, end: 1 }
        );
    }

    #[test]
    fn a_directory_that_is_taken_out_takes_all_below_with_it() {
        let mut tree = Tree::default();
        let root = tree.plant(watched(1), NOW);
        let a = reach(&mut tree, root, b"a");
        let c = reach(&mut tree, root, b"a/b/c");
        reach(&mut tree, root, b"d");
        let gone: HashSet<_> = tree.uproot(a).into_iter().map(|(id, _)| id).collect();
        assert_eq!(gone.len(), 3);
        assert!(gone.contains(&c) && tree.node(c).is_none());
        assert_eq!(tree.child(root, b"a"), None);
        assert!(tree.child(root, b"d").is_some());
        assert_ne!(
            reach(&mut tree, root, b"a"),
            a,
            "numbers are never used twice"
        );
    }

    #[test]
    fn what_no_entry_refers_to_is_unneeded_from_the_leaves_on() {
        let mut tree = Tree::default();
        let root = tree.plant(watched(1), NOW);
        let b = reach(&mut tree, root, b"a/b");
        assert_eq!(tree.unneeded(NOW, 9), [b]);
        assert_eq!(tree.unneeded(Tick(0), 9), []);
        let kept = Arc::clone(&tree.node(b).unwrap().epochs);
        assert_eq!(tree.unneeded(NOW, 9), []);
        drop(kept);
        tree.uproot(b);
        assert_eq!(tree.unneeded(NOW, 9).len(), 1);
    }
}
