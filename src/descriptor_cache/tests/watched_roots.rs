//! The way to a root, watched: swaps of releases and of what is mounted.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{DescriptorCache, DocumentRoot, LinkPolicy, Settings, Want};
use super::support::{Fixture, beneath, file, open_below, read, symlink};
use crate::clock::Clock;
use crate::request::TreePath;

struct Releases {
    tree: tempfile::TempDir,
    cache: Arc<DescriptorCache>,
    root: Arc<DocumentRoot>,
}

impl Releases {
    /// Some releases below `releases`, and a link `site/current` to the first.
    fn new(count: usize) -> Self {
        let tree = tempfile::tempdir().unwrap();
        for release in 0..count {
            let directory = tree.path().join(format!("releases/r{release}"));
            fs::create_dir_all(directory.join("d")).unwrap();
            fs::write(directory.join("d/a"), format!("release {release}")).unwrap();
        }
        fs::create_dir(tree.path().join("site")).unwrap();
        symlink("../releases/r0", tree.path().join("site/current"));
        let cache = DescriptorCache::new(Settings::default(), Clock::system());
        let path = tree.path().join("site/current");
        let root = cache.root(&path, LinkPolicy::default()).unwrap();
        Self { tree, cache, root }
    }

    fn swap(&self, release: usize) {
        let beside = self.tree.path().join("site/beside");
        symlink(format!("../releases/r{release}"), &beside);
        fs::rename(beside, self.tree.path().join("site/current")).unwrap();
    }

    async fn content(&self) -> String {
        let path = TreePath::new(b"d/a").unwrap();
        let current = self.root.current();
        let looked = self.cache.lookup(&current, path, Want::Content);
        String::from_utf8(read(file(&looked.await.unwrap())).await).unwrap()
    }
}

#[tokio::test]
async fn the_request_after_a_swap_sees_the_new_release() {
    let releases = Releases::new(3);
    for round in 0..30 {
        let release = round % 3;
        releases.swap(release);
        releases.cache.take_in_events().await;
        let resolved = releases.root.current().resolved().to_owned();
        assert!(resolved.ends_with(format!("releases/r{release}")));
        assert_eq!(releases.content().await, format!("release {release}"));
    }
    let old = releases.tree.path().join("releases/r0");
    assert!(open_below(&old).is_empty(), "{:?}", open_below(&old));
}

#[tokio::test]
async fn a_swap_is_seen_without_a_request_or_a_timer() {
    let releases = Releases::new(2);
    assert_eq!(releases.content().await, "release 0");
    releases.swap(1);
    let deadline = Instant::now() + Duration::from_secs(10);
    while releases.content().await != "release 1" {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn whatever_moves_on_the_way_is_seen() {
    let releases = Releases::new(2);
    let at = |path: &str| releases.tree.path().join(path);
    fs::rename(at("releases/r0"), at("releases/old")).unwrap();
    fs::rename(at("releases/r1"), at("releases/r0")).unwrap();
    releases.cache.take_in_events().await;
    assert_eq!(releases.content().await, "release 1");
    fs::rename(at("releases"), at("away")).unwrap();
    releases.cache.take_in_events().await;
    assert_eq!(
        releases.content().await,
        "release 1",
        "kept while nothing stands there"
    );
    fs::create_dir_all(at("releases/r0/d")).unwrap();
    fs::write(at("releases/r0/d/a"), "made again").unwrap();
    releases.cache.take_in_events().await;
    assert_eq!(releases.content().await, "made again");
}

#[tokio::test]
async fn many_swaps_leave_no_watch_behind() {
    let releases = Releases::new(2);
    releases.content().await;
    let count = releases.cache.usage().watches;
    for round in 0..20 {
        releases.swap(round % 2);
        releases.cache.take_in_events().await;
        releases.content().await;
    }
    releases.cache.tick();
    assert_eq!(releases.cache.usage().watches, count);
    assert!(releases.cache.counters().snapshot().events.generations >= 19);
}

#[test]
fn while_a_thread_swaps_no_answer_is_older_than_its_request() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let releases = Releases::new(2);
    runtime.block_on(async {
        for round in 0..200 {
            releases.swap(round % 2);
            releases.cache.take_in_events().await;
            assert_eq!(releases.content().await, format!("release {}", round % 2));
        }
    });
}

#[tokio::test]
async fn a_link_target_that_is_swapped_begins_a_generation() {
    let outside = tempfile::tempdir().unwrap();
    let shared = outside.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("a"), "old").unwrap();
    let policy = beneath(std::slice::from_ref(&shared));
    let fixture = Fixture::watched_with(Settings::default(), policy, |_| {});
    symlink(&shared, fixture.path("shared"));
    fixture.expect("shared/a", "old").await;
    fs::create_dir(outside.path().join("next")).unwrap();
    fs::write(outside.path().join("next/a"), "new").unwrap();
    fs::rename(&shared, outside.path().join("away")).unwrap();
    fs::rename(outside.path().join("next"), &shared).unwrap();
    fixture.cache.take_in_events().await;
    fixture.expect("shared/a", "new").await;
}

/// Mounts need a name space of their own, and this test runs itself there: by root alone.
#[test]
fn what_is_mounted_below_the_root_begins_a_generation() {
    const INSIDE: &str = "NOSTAT_TEST_MOUNTS";
    if std::env::var_os(INSIDE).is_none() {
        let name = "descriptor_cache::tests::watched_roots::what_is_mounted_below_the_root_begins_a_generation";
        let run = Command::new("unshare")
            .args(["--mount", "--propagation", "private"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .output();
        match run {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let allowed = !said.contains("unshare failed") && !said.contains("not permitted");
                assert!(
                    !allowed,
                    "{said}{}",
                    String::from_utf8_lossy(&output.stdout)
                );
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let polled = Settings {
            watch: super::super::Watch::Off,
            ..Settings::default()
        };
        mounts_are_seen(&Fixture::watched(Settings::default())).await;
        mounts_are_seen(&Fixture::settled(polled)).await;
    });
}

async fn mounts_are_seen(fixture: &Fixture) {
    fixture.write("uploads/a", "below");
    fixture.warm("uploads/a").await;
    let first = fixture.root.current().id();
    mount(&["-t", "tmpfs", "none"], &fixture.path("uploads"));
    fixture.write("uploads/a", "mounted");
    fixture.cache.tick();
    fixture.expect("uploads/a", "mounted").await;
    assert_ne!(fixture.root.current().id(), first);
    let elsewhere = fixture.tree.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let second = fixture.root.current().id();
    mount(&["-t", "tmpfs", "none"], &elsewhere);
    fixture.cache.tick();
    assert_eq!(fixture.root.current().id(), second, "no matter of the root");
    unmount(&elsewhere);
    unmount(&fixture.path("uploads"));
    fixture.cache.tick();
    fixture.expect("uploads/a", "below").await;
    // One file mounted over another is changed where it comes from.
    fs::write(fixture.tree.path().join("source"), "file").unwrap();
    fixture.write("single", "");
    let source = fixture.tree.path().join("source");
    mount(
        &["--bind", source.to_str().unwrap()],
        &fixture.path("single"),
    );
    fixture.cache.tick();
    fixture.warm("single").await;
    fs::write(&source, "changed").unwrap();
    fixture.cache.take_in_events().await;
    fixture.hand.advance(Duration::from_secs(30));
    fixture.expect("single", "changed").await;
    unmount(&fixture.path("single"));
}

fn mount(arguments: &[&str], at: &Path) {
    let mounted = Command::new("mount").args(arguments).arg(at).status();
    assert!(mounted.unwrap().success());
}

fn unmount(at: &Path) {
    let unmounted = Command::new("umount").arg("-l").arg(at).status();
    assert!(unmounted.unwrap().success());
}
