//! Changes that the kernel tells: seen by the next request, without polling.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::counters::CallsSnapshot;
use super::super::{DescriptorCache, Found, LinkPolicy, Outcome, Settings, Source, Want};
use super::support::{Fixture, file, is_missing, large, replace, symlink};
use crate::clock::Clock;
use crate::request::TreePath;

/// The same on the disk and on tmpfs, where there is one.
fn fixtures() -> Vec<Fixture> {
    let mut fixtures = vec![Fixture::watched(Settings::default())];
    if let Ok(tree) = tempfile::tempdir_in("/dev/shm") {
        let patience = Duration::from_secs(60);
        let settings = Settings::default();
        let fixture = Fixture::build_in(tree, settings, LinkPolicy::default(), patience, |_| {});
        fixture.hand.advance(Duration::from_secs(100_000));
        fixtures.push(fixture);
    }
    fixtures
}

impl Fixture {
    async fn expect_now(&self, path: &str, content: impl AsRef<[u8]>) -> Outcome {
        self.cache.take_in_events().await;
        self.expect(path, content).await
    }

    async fn expect_missing_now(&self, path: &str) {
        self.cache.take_in_events().await;
        assert!(is_missing(&self.get(path).await), "{path}");
    }

    /// That the path is answered without a system call from now on, also when all times have run out but the longest.
    async fn expect_free(&self, path: &str) {
        self.cache.take_in_events().await;
        let _ = self.get(path).await;
        // Earlier descriptors are still being closed in the background.
        let calls = || CallsSnapshot {
            closes: 0,
            ..self.counters().calls
        };
        let before = calls();
        for _ in 0..25 {
            let _ = self.get(path).await;
            self.hand.advance(Duration::from_secs(10));
        }
        assert_eq!(calls(), before, "{path}");
    }
}

#[tokio::test]
async fn what_is_written_into_a_file_is_seen_at_once() {
    for fixture in fixtures() {
        for (name, first) in [("small", b"first".to_vec()), ("large", large(1))] {
            fixture.write(name, &first);
            fixture.warm(name).await;
            fixture.expect_free(name).await;
            for next in [
                [first.as_slice(), b"longer"].concat(),
                b"sh".to_vec(),
                b"eq".to_vec(),
                first,
            ] {
                fs::write(fixture.path(name), &next).unwrap();
                fixture.expect_now(name, &next).await;
            }
        }
    }
}

#[tokio::test]
async fn two_writes_within_a_tick_of_the_clock_are_told_apart() {
    for fixture in [
        Fixture::watched(Settings::default()),
        Fixture::watched_racing(Settings::default()),
    ] {
        fixture.write("a", "0000");
        fixture.warm("a").await;
        for round in 1..200 {
            let content = format!("{round:04}");
            fs::write(fixture.path("a"), &content).unwrap();
            fixture.expect_now("a", &content).await;
        }
    }
}

#[tokio::test]
async fn a_file_that_was_just_written_is_looked_at_at_each_use_until_it_has_settled() {
    let fixture = Fixture::watched_racing(Settings::default());
    fixture.write("a", "x");
    fixture.warm("a").await;
    for _ in 0..10 {
        // No event is taken in: it may be on its way.
        let looked = fixture.get("a").await.unwrap();
        assert_eq!(looked.outcome, Outcome::Retested);
        assert!(file(&looked).entry.racy);
    }
    fixture.hand.advance(Duration::from_secs(3));
    let looked = fixture.get("a").await.unwrap();
    assert_eq!(looked.outcome, Outcome::Retested);
    assert!(!file(&looked).entry.racy);
    fixture.expect_free("a").await;
}

#[tokio::test]
async fn a_file_that_is_replaced_removed_or_made_is_seen_at_once() {
    for fixture in fixtures() {
        fixture.write("d/a", "old");
        fixture.warm("d/a").await;
        replace(&fixture.path("d/a"), "new");
        fixture.expect_now("d/a", "new").await;
        fs::remove_file(fixture.path("d/a")).unwrap();
        fixture.expect_missing_now("d/a").await;
        fixture.expect_free("d/a").await;
        fixture.write("d/a", "again");
        fixture.expect_now("d/a", "again").await;
    }
}

#[tokio::test]
async fn an_upload_after_a_remembered_miss_is_seen_whatever_was_missing() {
    for fixture in fixtures() {
        for path in ["a", "2026/11/photo.jpg", "deep/er/and/deeper/b"] {
            fixture.expect_missing_now(path).await;
            fixture.expect_free(path).await;
            fixture.write(path, "here");
            fixture.expect_now(path, "here").await;
        }
        fixture.expect_missing_now("a/below").await;
        fixture.expect_free("a/below").await;
        fs::remove_file(fixture.path("a")).unwrap();
        fixture.write("a/below", "now a directory");
        fixture.expect_now("a/below", "now a directory").await;
    }
}

#[tokio::test]
async fn a_directory_that_is_renamed_and_made_again_is_seen_at_any_depth() {
    for fixture in fixtures() {
        for round in 0..10 {
            let old = format!("old {round}");
            fixture.write("x/y/z/a", &old);
            fixture.warm("x/y/z/a").await;
            fixture.expect_now("x/y/z/a", &old).await;
            for ancestor in ["x/y", "x", "x/y/z"] {
                fs::rename(fixture.path(ancestor), fixture.path("aside")).unwrap();
                fixture.expect_missing_now("x/y/z/a").await;
                let new = format!("new {ancestor} {round}");
                fixture.write("x/y/z/a", &new);
                fixture.expect_now("x/y/z/a", &new).await;
                // What happens in the directory that went is nobody's matter, and it may come back.
                fs::remove_dir_all(fixture.path(ancestor)).unwrap();
                fs::rename(fixture.path("aside"), fixture.path(ancestor)).unwrap();
                fixture.expect_now("x/y/z/a", &old).await;
            }
            fs::remove_dir_all(fixture.path("x")).unwrap();
            fixture.expect_missing_now("x/y/z/a").await;
        }
    }
}

#[tokio::test]
async fn old_times_hide_nothing() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "first");
    fixture.write("beside", "other");
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in ["a", "beside"] {
        let file = fs::File::options().write(true).open(fixture.path(path));
        file.unwrap().set_modified(old).unwrap();
    }
    fixture.warm("a").await;
    // As cp -p and unzip do: new content, the old time, the same size.
    let copied = Command::new("cp")
        .arg("-p")
        .args([fixture.path("beside"), fixture.path("a")])
        .status();
    assert!(copied.unwrap().success());
    fixture.expect_now("a", "other").await;
}

#[tokio::test]
async fn permissions_are_seen_at_once() {
    if rustix::process::geteuid().is_root() {
        // Everything is allowed to root; that the look is made is seen all the same.
        let fixture = Fixture::watched(Settings::default());
        fixture.write("d/a", "x");
        fixture.warm("d/a").await;
        for path in ["d/a", "d"] {
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(fixture.path(path), mode).unwrap();
            let outcome = fixture.expect_now("d/a", "x").await;
            assert_ne!(outcome, Outcome::Hit, "{path}");
        }
        return;
    }
    let fixture = Fixture::watched(Settings::default());
    fixture.write("d/a", "x");
    fixture.warm("d/a").await;
    fs::set_permissions(fixture.path("d"), fs::Permissions::from_mode(0o000)).unwrap();
    fixture.cache.take_in_events().await;
    assert!(fixture.get("d/a").await.is_err());
    fs::set_permissions(fixture.path("d"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn scripts_directories_and_the_names_in_the_root_are_watched_too() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("d/index.php", "<?php");
    let root = fixture.root.current();
    let script = async || fixture.look("d/index.php", Want::Script).await.unwrap();
    let directory = async || fixture.get("d").await.unwrap().found;
    script().await;
    directory().await;
    assert!(fixture.cache.root_names(&root).await.exclude(b"new"));
    let before = fixture.counters().calls;
    for _ in 0..20 {
        fixture.hand.advance(Duration::from_secs(10));
        assert_eq!(script().await.outcome, Outcome::Hit);
        assert!(matches!(directory().await, Found::Directory));
        assert!(fixture.cache.root_names(&root).await.exclude(b"new"));
    }
    assert_eq!(fixture.counters().calls, before);
    fixture.write("new", "x");
    fs::remove_dir_all(fixture.path("d")).unwrap();
    fixture.cache.take_in_events().await;
    assert!(!fixture.cache.root_names(&root).await.exclude(b"new"));
    assert!(fixture.cache.root_names(&root).await.exclude(b"d"));
    assert!(is_missing(&fixture.look("d/index.php", Want::Script).await));
    assert!(matches!(directory().await, Found::Missing));
}

#[tokio::test]
async fn writing_to_a_file_in_the_root_leaves_the_names_alone() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("debug.log", "x");
    let root = fixture.root.current();
    fixture.cache.root_names(&root).await;
    let before = fixture.counters().calls;
    fs::write(fixture.path("debug.log"), "more").unwrap();
    fixture.cache.take_in_events().await;
    fixture.cache.root_names(&root).await;
    assert_eq!(fixture.counters().calls, before);
}

#[tokio::test]
async fn a_change_elsewhere_costs_no_look() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a/x", "x");
    fixture.write("b/y", "y");
    fixture.warm("a/x").await;
    fixture.warm("b/y").await;
    for round in 0..20 {
        fs::write(fixture.path("b/y"), format!("{round}")).unwrap();
        fixture.write(&format!("b/new{round}"), "z");
    }
    fixture.cache.take_in_events().await;
    assert_eq!(fixture.expect("a/x", "x").await, Outcome::Hit);
    assert_ne!(fixture.expect("b/y", "19").await, Outcome::Hit);
}

#[tokio::test]
async fn events_are_taken_in_by_themselves() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "old");
    fixture.warm("a").await;
    replace(&fixture.path("a"), "new");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let looked = fixture.get("a").await.unwrap();
        if matches!(&file(&looked).source, Source::Memory(bytes) if bytes == "new") {
            break;
        }
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_deleted_file_is_closed_by_the_timer_though_nobody_asks() {
    for fixture in fixtures() {
        fixture.write("d/a", large(1));
        fixture.write("d/b", large(2));
        fixture.write("d/c", large(2));
        for path in ["d/a", "d/b", "d/c"] {
            fixture.warm(path).await;
        }
        fixture.expect_open(3).await;
        fs::remove_file(fixture.path("d/a")).unwrap();
        replace(&fixture.path("d/b"), large(3));
        fs::write(fixture.path("d/c"), large(4)).unwrap();
        fixture.cache.tick();
        fixture.expect_open(1).await;
        fs::remove_dir_all(fixture.path("d")).unwrap();
        fixture.cache.tick();
        fixture.expect_open(0).await;
        assert_eq!(fixture.cache.usage().descriptors, 0);
    }
}

#[tokio::test]
async fn a_deleted_file_that_was_looked_at_again_in_between_is_closed_all_the_same() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("d/a", large(1));
    fixture.warm("d/a").await;
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(fixture.path("d"), fs::Permissions::from_mode(0o750)).unwrap();
    fixture.cache.take_in_events().await;
    fixture.warm("d/a").await;
    fs::set_permissions(fixture.path("d/a"), mode).unwrap();
    fixture.cache.take_in_events().await;
    fixture.warm("d/a").await;
    fixture.cache.tick();
    fixture.expect_open(1).await;
    fs::remove_file(fixture.path("d/a")).unwrap();
    fixture.cache.tick();
    fixture.expect_open(0).await;
}

#[tokio::test]
async fn watches_are_shared_and_given_back() {
    let fixture = Fixture::watched(Settings::default());
    let above = fixture.cache.usage().watches;
    for name in ["a", "b"] {
        for number in 0..10 {
            fixture.write(&format!("{name}/{number}"), "x");
            fixture.warm(&format!("{name}/{number}")).await;
        }
    }
    assert_eq!(
        fixture.cache.usage().watches,
        above + 3,
        "the root and two folders"
    );
    let shared = LinkPolicy {
        symlinks: super::super::Symlinks::Off,
        ..LinkPolicy::default()
    };
    let path = fixture.tree.path().join("root");
    let other = fixture.cache.root(&path, shared).unwrap();
    let path = TreePath::new(b"a/0").unwrap();
    let current = other.current();
    let looked = fixture.cache.lookup(&current, path, Want::Content);
    looked.await.unwrap();
    assert_eq!(
        fixture.cache.usage().watches,
        above + 3,
        "one for each directory"
    );
    fixture.hand.advance(Duration::from_secs(61));
    fixture.cache.tick();
    assert_eq!(fixture.cache.usage().entries, 0);
    assert_eq!(fixture.cache.usage().watches, above + 3);
    fixture.hand.advance(Duration::from_secs(601));
    fixture.cache.tick();
    assert_eq!(fixture.cache.usage().watches, above + 1);
}

#[tokio::test]
async fn thread_and_descriptors_end_with_the_cache() {
    fn inotify_and_events() -> Vec<PathBuf> {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| Some((entry.ok()?.path(), ())))
            .filter_map(|(path, ())| fs::read_link(path).ok())
            .filter(|path| path.to_string_lossy().contains("inotify"))
            .collect()
    }
    // Other tests run beside this one: only that it is gone in the end can be told, by a watch on its tree.
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "x");
    fixture.warm("a").await;
    assert!(!inotify_and_events().is_empty());
    let watching = Arc::downgrade(&fixture.cache.watching);
    let cache = Arc::downgrade(&fixture.cache);
    drop(fixture);
    let deadline = Instant::now() + Duration::from_secs(10);
    while cache.strong_count() + watching.strong_count() > 0 {
        assert!(Instant::now() < deadline, "the thread lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_request_that_follows_a_change_takes_no_part_in_a_look_that_came_before() {
    let fixture = Arc::new(Fixture::watched(Settings::default()));
    for round in 0..100 {
        let name = format!("f{}", round % 3);
        fixture.write(&name, format!("old {round}"));
        fixture.cache.take_in_events().await;
        let early = {
            let (fixture, name) = (Arc::clone(&fixture), name.clone());
            tokio::spawn(async move { drop(fixture.get(&name).await) })
        };
        tokio::task::yield_now().await;
        replace(&fixture.path(&name), format!("new {round}"));
        fixture.expect_now(&name, format!("new {round}")).await;
        early.await.unwrap();
    }
}

#[test]
fn with_all_threads_at_it_no_request_sees_what_was_before_its_change() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .unwrap();
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("a"), "0").unwrap();
    let cache = DescriptorCache::new(Settings::default(), Clock::system());
    let root = cache.root(tree.path(), LinkPolicy::default()).unwrap();
    runtime.block_on(async {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (cache, root, stop) =
                    (Arc::clone(&cache), Arc::clone(&root), Arc::clone(&stop));
                tokio::spawn(async move {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let path = TreePath::new(b"a").unwrap();
                        let _ = cache.lookup(&root.current(), path, Want::Content).await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for round in 0..500_u32 {
            let content = round.to_string();
            match round % 3 {
                0 => replace(&tree.path().join("a"), &content),
                1 => fs::write(tree.path().join("a"), &content).unwrap(),
                _ => {
                    fs::remove_file(tree.path().join("a")).unwrap();
                    fs::write(tree.path().join("a"), &content).unwrap();
                }
            }
            cache.take_in_events().await;
            let path = TreePath::new(b"a").unwrap();
            let looked = cache.lookup(&root.current(), path, Want::Content).await;
            let found = super::support::read(file(&looked.unwrap())).await;
            assert_eq!(String::from_utf8(found).unwrap(), content);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            reader.await.unwrap();
        }
    });
}

#[tokio::test]
async fn a_cached_file_that_is_swapped_for_a_link_in_a_loop_never_leads_out() {
    let fixture = Fixture::watched(Settings::default());
    let secret = fixture.tree.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fixture.write("a", "public");
    let path = fixture.path("a");
    let (link, plain) = (fixture.path("link"), fixture.path("plain"));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let swapping = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            symlink(&secret, &link);
            fs::rename(&link, &path).unwrap();
            fs::write(&plain, "public").unwrap();
            fs::rename(&plain, &path).unwrap();
        }
    });
    for _ in 0..1000 {
        if let Ok(looked) = fixture.get("a").await {
            let content = super::support::read(file(&looked)).await;
            assert_eq!(content, b"public");
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
    fixture.expect_now("a", "public").await;
}

#[tokio::test]
async fn turned_off_and_on_again_at_a_reload() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "1");
    fixture.warm("a").await;
    let with = |watch| Settings {
        watch,
        ..Settings::default()
    };
    fixture.cache.reconfigure(with(super::super::Watch::Off));
    fixture.warm("a").await;
    replace(&fixture.path("a"), "2");
    fixture.expect_now("a", "1").await;
    fixture.hand.advance(Duration::from_secs(31));
    fixture.expect_now("a", "2").await;
    fixture.cache.reconfigure(with(super::super::Watch::On));
    // What was polled is still trusted for its time, and watched from the next look on.
    fixture.hand.advance(Duration::from_secs(31));
    fixture.warm("a").await;
    replace(&fixture.path("a"), "3");
    fixture.expect_now("a", "3").await;
}
