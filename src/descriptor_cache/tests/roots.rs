//! Roots that are swapped, vanish, come back, are shared.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::super::{DescriptorCache, LinkPolicy, Outcome, Settings, Source, Symlinks, Want, Watch};
use super::support::{Fixture, beneath, file, large, open_below, read, symlink};
use crate::clock::Clock;
use crate::request::TreePath;

#[tokio::test]
async fn a_release_swap_begins_a_generation_and_lets_go_of_the_old_one() {
    let tree = tempfile::tempdir().unwrap();
    for (release, seed) in [("r1", 1), ("r2", 2)] {
        fs::create_dir(tree.path().join(release)).unwrap();
        fs::write(tree.path().join(release).join("a"), large(seed)).unwrap();
    }
    symlink("r1", tree.path().join("current"));
    let (clock, hand) = Clock::manual();
    hand.advance(Duration::from_secs(100_000));
    let polled = Settings {
        watch: Watch::Off,
        ..Settings::default()
    };
    let cache = DescriptorCache::new(polled, clock);
    let root = cache
        .root(&tree.path().join("current"), LinkPolicy::default())
        .unwrap();
    let a = TreePath::new(b"a").unwrap();
    let old = root.current();
    for _ in 0..3 {
        cache.lookup(&old, a, Want::Content).await.unwrap();
    }
    cache.tick();
    assert!(Arc::ptr_eq(&old, &root.current()), "nothing has changed");
    symlink("r2", tree.path().join("beside"));
    fs::rename(tree.path().join("beside"), tree.path().join("current")).unwrap();
    cache.tick();
    let new = root.current();
    assert_ne!(old.id(), new.id());
    assert_eq!(
        new.resolved(),
        tree.path().canonicalize().unwrap().join("r2")
    );
    let looked = cache.lookup(&new, a, Want::Content).await.unwrap();
    assert_eq!(looked.outcome, Outcome::Miss);
    assert!(read(file(&looked)).await == large(2));
    drop(looked);
    // A request that began before the swap ends in its release, and nothing of it is remembered.
    let late = cache.lookup(&old, a, Want::Content).await.unwrap();
    assert!(read(file(&late)).await == large(1));
    assert_eq!(cache.usage().entries, 1);
    drop((late, old));
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while open_below(&tree.path().join("r1")) != Vec::<std::path::PathBuf>::new() {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_root_that_vanishes_is_kept_until_another_one_stands_there() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a", "old");
    fixture.warm("a").await;
    let root = fixture.tree.path().join("root");
    let generation = fixture.root.current();
    fs::rename(&root, fixture.tree.path().join("away")).unwrap();
    for _ in 0..2 {
        fixture.cache.tick();
    }
    assert!(Arc::ptr_eq(&generation, &fixture.root.current()));
    fixture.expect("a", "old").await;
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), "new").unwrap();
    fixture.cache.tick();
    fixture.expect("a", "new").await;
    assert!(!Arc::ptr_eq(&generation, &fixture.root.current()));
}

#[tokio::test]
async fn the_same_path_and_policy_share_a_root() {
    let fixture = Fixture::settled(Settings::default());
    let path = fixture.tree.path().join("root");
    let again = fixture.cache.root(&path, LinkPolicy::default()).unwrap();
    assert!(Arc::ptr_eq(&again, &fixture.root));
    assert!(Arc::ptr_eq(&again.current(), &fixture.root.current()));
    assert_eq!(again.path(), path);
    let off = LinkPolicy {
        symlinks: Symlinks::Off,
        ..LinkPolicy::default()
    };
    let other = fixture.cache.root(&path, off).unwrap();
    assert_ne!(other.current().id(), fixture.root.current().id());
}

#[tokio::test]
async fn a_root_that_is_no_directory_is_an_error_that_names_it() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("file", "");
    for path in ["none", "file"] {
        let error = fixture
            .cache
            .root(&fixture.path(path), LinkPolicy::default())
            .unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[tokio::test]
async fn a_root_that_is_gone_from_the_settings_closes_its_directory() {
    let fixture = Fixture::settled(Settings::default());
    let other = fixture.tree.path().join("other");
    fs::create_dir(&other).unwrap();
    let root = fixture.cache.root(&other, LinkPolicy::default()).unwrap();
    assert_eq!(open_below(&other).len(), 1);
    drop(root);
    assert_eq!(open_below(&other).len(), 0);
    fixture.cache.tick();
}

#[tokio::test]
async fn a_hidden_folder_above_the_root_is_no_matter() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join(".data/root");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("a"), "x").unwrap();
    let cache = DescriptorCache::new(Settings::default(), Clock::system());
    let root = cache.root(&path, LinkPolicy::default()).unwrap();
    let looked = cache
        .lookup(&root.current(), TreePath::new(b"a").unwrap(), Want::Content)
        .await;
    assert!(matches!(&file(&looked.unwrap()).source, Source::Memory(bytes) if bytes == "x"));
}

#[tokio::test]
async fn a_link_target_that_is_replaced_or_appears_later_begins_a_generation() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("shared");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a"), "old").unwrap();
    let late = outside.path().join("late");
    let listed = beneath(&[target.clone(), late.clone()]);
    let fixture = Fixture::with(Settings::default(), listed, |_| {});
    symlink(&target, fixture.path("shared"));
    symlink(&late, fixture.path("late"));
    fixture.expect("shared/a", "old").await;
    let first = fixture.root.current().id();
    fs::rename(&target, outside.path().join("away")).unwrap();
    fixture.cache.tick();
    assert_eq!(
        fixture.root.current().id(),
        first,
        "gone, perhaps for a moment"
    );
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a"), "new").unwrap();
    fixture.cache.tick();
    fixture.expect("shared/a", "new").await;
    let second = fixture.root.current().id();
    fs::create_dir(&late).unwrap();
    fs::write(late.join("a"), "late").unwrap();
    fixture.cache.tick();
    assert_ne!(fixture.root.current().id(), second);
    fixture.expect("late/a", "late").await;
    let third = fixture.root.current().id();
    fixture.cache.tick();
    assert_eq!(fixture.root.current().id(), third);
}
