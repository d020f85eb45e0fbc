//! Where no event comes, or none can be believed: polled as `valid` says, and said.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::filesystem::Locality;
use super::super::{Outcome, Settings, Source, Watch};
use super::support::{Fixture, beneath, file, is_missing, large, replace, symlink};

impl Fixture {
    fn with_locality(locality: Locality, settings: Settings) -> Self {
        let fixture = Self::watched(settings);
        fixture.cache.watching.state.lock().forced = Some(locality);
        fixture
    }

    /// Makes more events in a watched folder than the kernel keeps for a reader who does not come.
    fn fill_queue(&self, folder: &str) {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let names = ["x", "y"].map(|name| self.path(folder).join(name));
        for _ in 0..=limit / 2 {
            for path in &names {
                fs::write(path, "").unwrap();
            }
        }
    }

    /// Whether a change of the file is seen at once.
    async fn is_told(&self, path: &str) -> bool {
        self.warm(path).await;
        replace(&self.path(path), "changed");
        self.cache.take_in_events().await;
        let looked = self.get(path).await.unwrap();
        matches!(&file(&looked).source, Source::Memory(bytes) if bytes == "changed")
    }
}

#[tokio::test]
async fn file_systems_off_the_list_are_polled_unless_told_otherwise() {
    for (locality, watch, told) in [
        (Locality::Told, Watch::Auto, true),
        (Locality::Local, Watch::Auto, false),
        (Locality::Local, Watch::On, true),
        (Locality::Remote, Watch::On, false),
        (Locality::Told, Watch::Off, false),
    ] {
        let settings = Settings {
            watch,
            ..Settings::default()
        };
        let fixture = Fixture::with_locality(locality, settings);
        fixture.write("d/a", "x");
        assert_eq!(fixture.is_told("d/a").await, told, "{locality:?} {watch:?}");
    }
}

#[tokio::test]
async fn no_descriptor_is_kept_on_a_network_file_system_and_five_seconds_count() {
    let fixture = Fixture::with_locality(Locality::Remote, Settings::default());
    fixture.write("large", large(1));
    fixture.write("small", "x");
    fixture.warm("large").await;
    fixture.warm("small").await;
    assert_eq!(fixture.expect("large", large(1)).await, Outcome::Miss);
    fixture.expect_open(0).await;
    assert_eq!(
        fixture.expect("small", "x").await,
        Outcome::Hit,
        "bytes are kept"
    );
    fixture.hand.advance(Duration::from_millis(4999));
    assert_eq!(fixture.expect("small", "x").await, Outcome::Hit);
    replace(&fixture.path("small"), "y");
    fixture.hand.advance(Duration::from_millis(1));
    fixture.expect("small", "y").await;
}

#[tokio::test]
async fn a_file_with_two_names_is_polled() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "old");
    fs::hard_link(fixture.path("a"), fixture.tree.path().join("other")).unwrap();
    fixture.warm("a").await;
    fs::write(fixture.tree.path().join("other"), "new").unwrap();
    fixture.cache.take_in_events().await;
    fixture.hand.advance(Duration::from_secs(30));
    fixture.expect("a", "new").await;
}

#[tokio::test]
async fn what_is_written_by_a_name_made_later_is_seen_at_the_safety_look_and_demotes_nothing() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "old");
    fixture.warm("a").await;
    fs::hard_link(fixture.path("a"), fixture.tree.path().join("other")).unwrap();
    fs::write(fixture.tree.path().join("other"), "newer").unwrap();
    fixture.hand.advance(Duration::from_secs(300));
    fixture.expect("a", "newer").await;
    assert_eq!(fixture.counters().events.demotions, 0);
    // From now on it is known to have two names.
    fs::write(fixture.tree.path().join("other"), "newest").unwrap();
    fixture.hand.advance(Duration::from_secs(30));
    fixture.expect("a", "newest").await;
}

#[tokio::test]
async fn what_stands_behind_a_link_is_polled() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a"), "old").unwrap();
    let policy = beneath(&[outside.path().to_owned()]);
    let fixture = Fixture::watched_with(Settings::default(), policy, |_| {});
    fixture.hand.advance(Duration::from_secs(100_000));
    fixture.write("real/b", "old");
    symlink(outside.path(), fixture.path("out"));
    symlink("real", fixture.path("in"));
    for (path, real) in [
        ("out/a", outside.path().join("a")),
        ("in/b", fixture.path("real/b")),
    ] {
        fixture.warm(path).await;
        fs::write(real, "newer").unwrap();
        fixture.hand.advance(Duration::from_secs(30));
        fixture.expect(path, "newer").await;
    }
}

#[tokio::test]
async fn events_that_are_lost_drop_nothing_and_hide_nothing() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("d/a", "old");
    fixture.write("gone", large(1));
    for path in ["d/a", "gone"] {
        fixture.warm(path).await;
    }
    assert!(is_missing(&fixture.get("new").await));
    {
        // Nobody takes events in while the lock is held, and the queue runs over.
        let _held = fixture.cache.watching.state.lock();
        fixture.fill_queue("d");
        replace(&fixture.path("d/a"), "new");
        fixture.write("new", "here");
        fs::remove_file(fixture.path("gone")).unwrap();
    }
    let before = fixture.cache.usage();
    fixture.cache.take_in_events().await;
    assert!(fixture.counters().events.overflows > 0);
    assert_eq!(fixture.cache.usage().entries, before.entries);
    assert_eq!(fixture.cache.usage().watches, before.watches);
    fixture.expect("d/a", "new").await;
    fixture.expect("new", "here").await;
    fixture.cache.tick();
    fixture.expect_open(0).await;
}

#[tokio::test]
async fn a_directory_that_went_elsewhere_among_lost_events_is_watched_where_it_is_now() {
    let fixture = Fixture::watched(Settings::default());
    for path in ["d/a", "release/app/a"] {
        fixture.write(path, "first");
        fixture.warm(path).await;
    }
    {
        let _held = fixture.cache.watching.state.lock();
        fixture.fill_queue("d");
        fs::rename(fixture.path("release"), fixture.path("older")).unwrap();
        fixture.write("release/app/a", "second");
    }
    fixture.cache.take_in_events().await;
    assert!(fixture.counters().events.overflows > 0);
    fixture.expect("release/app/a", "second").await;
    assert!(fixture.is_told("release/app/a").await);
    assert!(fixture.is_told("older/app/a").await);
}

#[tokio::test]
async fn without_watches_left_the_rest_is_polled_and_said() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a/x", "x");
    fixture.write("b/y", "y");
    assert!(fixture.is_told("a/x").await);
    let used = fixture.cache.usage().watches;
    fixture.cache.watching.state.lock().budget = used;
    assert!(!fixture.is_told("b/y").await);
    assert!(fixture.counters().events.watch_fallbacks > 0);
    assert_eq!(fixture.cache.usage().watches, used);
    fixture.hand.advance(Duration::from_secs(30));
    fixture.expect("b/y", "changed").await;
    // A directory that no entry needs gives its watch to one that is asked for.
    fixture.cache.purge();
    assert!(fixture.is_told("b/y").await);
    assert_eq!(fixture.cache.usage().watches, used);
}

#[tokio::test]
async fn a_change_that_no_event_told_demotes_its_device() {
    for present in [true, false] {
        let fixture = Fixture::watched(Settings::default());
        if present {
            fixture.write("d/a", "old");
            fixture.warm("d/a").await;
        } else {
            fixture.write("d/b", "b");
            assert!(is_missing(&fixture.get("d/a").await));
        }
        let deaf = &fixture.cache.watching.deaf;
        deaf.store(true, Ordering::Relaxed);
        replace(&fixture.path("d/a"), "new");
        fixture.cache.take_in_events().await;
        deaf.store(false, Ordering::Relaxed);
        fixture.hand.advance(Duration::from_secs(299));
        if present {
            fixture.expect("d/a", "old").await;
        }
        assert_eq!(fixture.counters().events.demotions, 0);
        fixture.hand.advance(Duration::from_secs(1));
        fixture.expect("d/a", "new").await;
        assert_eq!(fixture.counters().events.demotions, 1);
        fixture.warm("d/a").await;
        replace(&fixture.path("d/a"), "newest");
        fixture.hand.advance(Duration::from_secs(30));
        fixture.expect("d/a", "newest").await;
        assert_eq!(fixture.counters().events.demotions, 1);
    }
}

#[tokio::test]
async fn a_safety_look_that_finds_what_was_told_demotes_nothing() {
    let fixture = Fixture::watched(Settings::default());
    fixture.write("a", "x");
    fixture.warm("a").await;
    for _ in 0..3 {
        fixture.hand.advance(Duration::from_secs(300));
        assert_eq!(fixture.expect("a", "x").await, Outcome::Retested);
    }
    replace(&fixture.path("a"), "y");
    fixture.hand.advance(Duration::from_secs(300));
    fixture.expect("a", "y").await;
    assert_eq!(fixture.counters().events.demotions, 0);
}
