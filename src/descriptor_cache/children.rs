//! What stands in a directory: for walking a tree in the background, never for answering a request.

use std::sync::Arc;

use rustix::fs::FileType;

use super::DescriptorCache;
use super::look::by_policy;
use super::root::RootGeneration;
use crate::request::TreePath;

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The name.
    pub name: Box<[u8]>,
    /// Whether the directory says that it is a directory. A link is none: a walk that follows none ends.
    pub is_directory: bool,
}

impl DescriptorCache {
    /// The names in the directory at `path` below the root. `None` when it cannot be listed, or holds more than `limit`.
    pub async fn children(
        self: &Arc<Self>,
        root: &Arc<RootGeneration>,
        path: TreePath<'_>,
        limit: usize,
    ) -> Option<Vec<Child>> {
        let permit = root.gate().enter().await?;
        let (cache, root) = (Arc::clone(self), Arc::clone(root));
        let path = path.as_bytes().to_vec();
        let listing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let directory = by_policy(&cache.opener, &root, &path).ok()?;
            cache.opener.names(&directory, limit).ok()?
        });
        let names = listing.await.ok()??;
        let child = |name: super::open::Name| Child {
            is_directory: name.kind == FileType::Directory,
            name: name.bytes,
        };
        Some(names.into_iter().map(child).collect())
    }
}
