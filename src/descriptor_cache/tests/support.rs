//! A document root in a temporary directory with a cache on it whose clock the test moves.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::entry::Identity;
use super::super::found::{FileFound, Found, Looked, LookupError, Outcome, Source, Want};
use super::super::open::Fault;
use super::super::{
    CountersSnapshot, DescriptorCache, DocumentRoot, LinkPolicy, LinkTargets, Settings, Symlinks,
    Watch,
};
use crate::clock::{Clock, ManualClock};
use crate::request::TreePath;

pub(super) struct Fixture {
    pub(super) tree: TempDir,
    pub(super) cache: Arc<DescriptorCache>,
    pub(super) root: Arc<DocumentRoot>,
    pub(super) hand: ManualClock,
}

impl Fixture {
    /// Files that the test makes are long settled by the cache's clock.
    pub(super) fn settled(settings: Settings) -> Self {
        let fixture = Self::racing(settings);
        fixture.hand.advance(Duration::from_secs(100_000));
        fixture
    }

    /// Files that the test makes are new by the cache's clock.
    pub(super) fn racing(settings: Settings) -> Self {
        Self::with(settings, LinkPolicy::default(), |_| {})
    }

    /// The kernel tells changes, where the others see them by looking; the clock as in [`settled`](Self::settled).
    pub(super) fn watched(settings: Settings) -> Self {
        let fixture = Self::watched_racing(settings);
        fixture.hand.advance(Duration::from_secs(100_000));
        fixture
    }

    /// The kernel tells changes; the clock as in [`racing`](Self::racing).
    pub(super) fn watched_racing(settings: Settings) -> Self {
        Self::watched_with(settings, LinkPolicy::default(), |_| {})
    }

    pub(super) fn watched_with(
        settings: Settings,
        policy: LinkPolicy,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let tree = tempfile::tempdir().unwrap();
        Self::build_in(tree, settings, policy, Duration::from_secs(60), prepare)
    }

    /// Requests wait for a second only.
    pub(super) fn impatient(settings: Settings) -> Self {
        let patience = Duration::from_secs(1);
        let fixture = Self::build(settings, LinkPolicy::default(), patience, |_| {});
        fixture.hand.advance(Duration::from_secs(100_000));
        fixture
    }

    pub(super) fn with(
        settings: Settings,
        policy: LinkPolicy,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        Self::build(settings, policy, Duration::from_secs(60), prepare)
    }

    fn build(
        settings: Settings,
        policy: LinkPolicy,
        patience: Duration,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let settings = Settings {
            watch: Watch::Off,
            ..settings
        };
        let tree = tempfile::tempdir().unwrap();
        Self::build_in(tree, settings, policy, patience, prepare)
    }

    /// A root in a directory of the test's choice.
    pub(super) fn build_in(
        tree: TempDir,
        settings: Settings,
        policy: LinkPolicy,
        patience: Duration,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        fs::create_dir(tree.path().join("root")).unwrap();
        prepare(tree.path());
        let (clock, hand) = Clock::manual();
        let cache = DescriptorCache::with_patience(settings, clock, patience);
        let root = cache.root(&tree.path().join("root"), policy).unwrap();
        Self {
            tree,
            cache,
            root,
            hand,
        }
    }

    /// A path below the root.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.tree.path().join("root").join(path)
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) async fn look(&self, path: &str, want: Want) -> Result<Looked, LookupError> {
        let path = TreePath::new(path.as_bytes()).unwrap();
        self.cache.lookup(&self.root.current(), path, want).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Looked, LookupError> {
        self.look(path, Want::Content).await
    }

    /// The outcome of a lookup that must find a file with this content.
    pub(super) async fn expect(&self, path: &str, content: impl AsRef<[u8]>) -> Outcome {
        let looked = self.get(path).await.unwrap();
        let found = file(&looked);
        assert_eq!(
            found.entry.size(),
            content.as_ref().len() as u64,
            "size of {path}"
        );
        assert!(read(found).await == content.as_ref(), "content of {path}");
        looked.outcome
    }

    /// Uses a path often enough to be held.
    pub(super) async fn warm(&self, path: &str) {
        for _ in 0..3 {
            self.get(path).await.unwrap();
        }
    }

    pub(super) fn counters(&self) -> CountersSnapshot {
        self.cache.counters().snapshot()
    }

    pub(super) fn fault(
        &self,
        fault: impl Fn(&[u8]) -> Option<rustix::io::Errno> + Send + Sync + 'static,
    ) {
        *self.cache.opener.fault.lock() = Some(Fault(Arc::new(fault)));
    }

    pub(super) fn heal(&self) {
        *self.cache.opener.fault.lock() = None;
    }

    /// Paths below the tree that this process has open, the root itself left out.
    pub(super) fn open_files(&self) -> Vec<PathBuf> {
        open_below(self.tree.path())
            .into_iter()
            .filter(|path| *path != self.root.current().resolved())
            .collect()
    }

    /// Waits until as many are open: closing goes on in the background.
    pub(super) async fn expect_open(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.open_files().len() != count {
            assert!(
                Instant::now() < deadline,
                "{:?} are open, not {count}",
                self.open_files()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(super) fn open_below(tree: &Path) -> Vec<PathBuf> {
    let tree = tree.canonicalize().unwrap();
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|path| path.starts_with(&tree))
        .collect()
}

pub(super) fn file(looked: &Looked) -> &FileFound {
    match &looked.found {
        Found::File(found) => found,
        other => panic!("{other:?} is no file"),
    }
}

pub(super) fn identity(looked: &Looked) -> Identity {
    file(looked).entry.identity
}

pub(super) fn is_missing(looked: &Result<Looked, LookupError>) -> bool {
    matches!(
        looked,
        Ok(Looked {
            found: Found::Missing,
            ..
        })
    )
}

pub(super) async fn read(found: &FileFound) -> Vec<u8> {
    match &found.source {
        Source::Memory(bytes) => bytes.to_vec(),
        Source::Descriptor(open) => {
            let size = usize::try_from(open.size()).unwrap();
            open.read_at(0, size).await.unwrap().to_vec()
        }
        Source::None => panic!("no content was asked for"),
    }
}

pub(super) fn beneath(directories: &[PathBuf]) -> LinkPolicy {
    LinkPolicy {
        symlinks: Symlinks::Beneath,
        targets: LinkTargets::Listed(directories.to_vec()),
    }
}

pub(super) fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, link).unwrap();
}

/// Content too large to be held in memory.
pub(super) fn large(seed: u8) -> Vec<u8> {
    vec![seed; 100_000]
}

/// Moves a name over another one in one step.
pub(super) fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let mut beside = path.as_os_str().as_bytes().to_vec();
    beside.extend_from_slice(b".new");
    let beside = PathBuf::from(std::ffi::OsStr::from_bytes(&beside));
    fs::write(&beside, content).unwrap();
    fs::rename(beside, path).unwrap();
}
