//! Bounds of entries, errors, descriptors and bytes, and release by the timer.

use std::time::Duration;

use super::super::{Outcome, Settings, Source, Want};
use super::support::{Fixture, file, large, read};
use crate::request::TreePath;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn descriptors_beyond_the_budget_are_given_up_by_the_least_recently_used() {
    let fixture = Fixture::settled(Settings {
        descriptors: Some(2),
        ..Settings::default()
    });
    for (seed, path) in ["a", "b", "c"].into_iter().enumerate() {
        fixture.write(path, large(u8::try_from(seed).unwrap()));
        fixture.warm(path).await;
        fixture.hand.advance(3 * SECOND);
    }
    fixture.expect_open(2).await;
    let usage = fixture.cache.usage();
    assert_eq!((usage.entries, usage.descriptors), (3, 2), "facts stay");
    assert_eq!(fixture.expect("b", large(1)).await, Outcome::Hit);
    assert_eq!(fixture.expect("c", large(2)).await, Outcome::Hit);
    assert_eq!(fixture.counters().events.descriptors_given_up, 1);
    // In use within the second: not displaced.
    assert_eq!(fixture.expect("a", large(0)).await, Outcome::Miss);
    assert_eq!(fixture.expect("b", large(1)).await, Outcome::Hit);
    assert_eq!(fixture.expect("c", large(2)).await, Outcome::Hit);
    fixture.expect_open(2).await;
}

#[tokio::test]
async fn a_descriptor_in_a_transfer_is_not_displaced() {
    let fixture = Fixture::settled(Settings {
        descriptors: Some(1),
        ..Settings::default()
    });
    fixture.write("a", large(1));
    fixture.write("b", large(2));
    fixture.warm("a").await;
    let transfer = fixture.get("a").await.unwrap();
    fixture.hand.advance(5 * SECOND);
    fixture.warm("b").await;
    assert_eq!(fixture.get("a").await.unwrap().outcome, Outcome::Hit);
    assert!(read(file(&transfer)).await == large(1));
    drop(transfer);
    fixture.expect_open(1).await;
}

#[tokio::test]
async fn no_descriptor_is_kept_without_a_budget() {
    let fixture = Fixture::settled(Settings {
        descriptors: Some(0),
        content: 0,
        ..Settings::default()
    });
    fixture.write("small", "x");
    for _ in 0..4 {
        assert_eq!(fixture.expect("small", "x").await, Outcome::Miss);
    }
    fixture.expect_open(0).await;
}

#[tokio::test]
async fn small_files_keep_descriptors_when_there_is_no_memory_for_them() {
    let fixture = Fixture::settled(Settings {
        content: 0,
        ..Settings::default()
    });
    fixture.write("small", "x");
    fixture.warm("small").await;
    assert_eq!(fixture.expect("small", "x").await, Outcome::Hit);
    fixture.expect_open(1).await;
}

#[tokio::test]
async fn bytes_beyond_the_budget_are_given_up_but_count_while_they_are_sent() {
    let fixture = Fixture::settled(Settings {
        content: 100,
        ..Settings::default()
    });
    fixture.write("a", [1; 60]);
    fixture.write("b", [2; 60]);
    fixture.warm("a").await;
    assert_eq!(fixture.cache.usage().content, 60);
    let sending = fixture.get("a").await.unwrap();
    fixture.hand.advance(3 * SECOND);
    fixture.warm("b").await;
    assert_eq!(fixture.counters().events.contents_given_up, 1);
    assert_eq!(
        fixture.cache.usage().content,
        60,
        "those being sent; b has a descriptor"
    );
    assert!(matches!(&file(&sending).source, Source::Memory(bytes) if bytes.len() == 60));
    drop(sending);
    assert_eq!(fixture.cache.usage().content, 0);
    fixture.expect_open(1).await;
}

#[tokio::test]
async fn a_scan_for_missing_files_evicts_no_file() {
    let settings = Settings {
        max: 2000,
        errors_max: 100,
        ..Settings::default()
    };
    let fixture = Fixture::settled(settings);
    for number in 0..50 {
        fixture.write(&format!("f{number}"), "x");
        fixture.warm(&format!("f{number}")).await;
    }
    let opens = fixture.counters().calls.opens;
    for number in 0..3000 {
        fixture.get(&format!("scan/{number}")).await.unwrap();
    }
    assert_eq!(fixture.counters().calls.opens, opens + 3000);
    for number in 0..50 {
        assert_eq!(
            fixture.expect(&format!("f{number}"), "x").await,
            Outcome::Hit
        );
    }
    assert!(fixture.cache.usage().errors <= 100);
    assert!(fixture.counters().events.negative_evictions >= 2900);
}

#[tokio::test]
async fn the_table_keeps_its_bound_and_what_is_in_use() {
    let fixture = Fixture::settled(Settings {
        max: 100,
        ..Settings::default()
    });
    for number in 0..20 {
        fixture.write(&format!("hot{number}"), "x");
        fixture.warm(&format!("hot{number}")).await;
    }
    for number in 0..1000 {
        fixture.write(&format!("cold{number}"), "x");
        fixture.get(&format!("cold{number}")).await.unwrap();
        for hot in 0..20 {
            assert_eq!(
                fixture.expect(&format!("hot{hot}"), "x").await,
                Outcome::Hit,
                "{number}"
            );
        }
    }
    let entries = fixture.cache.usage().entries;
    assert!((89..=100).contains(&entries), "{entries}");
}

#[tokio::test]
async fn a_table_of_one_entry_works() {
    let fixture = Fixture::settled(Settings {
        max: 0,
        errors_max: 0,
        min_uses: 1,
        ..Settings::default()
    });
    for path in ["a", "b", "a", "b"] {
        fixture.write(path, large(1));
        fixture.expect(path, large(1)).await;
        fixture.get(&format!("{path}-missing")).await.unwrap();
        let usage = fixture.cache.usage();
        assert_eq!((usage.entries, usage.errors), (1, 1));
    }
    fixture.expect_open(1).await;
}

#[tokio::test]
async fn the_timer_releases_what_is_unused_for_inactive() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("big", large(1));
    fixture.write("small", "x");
    for path in ["big", "small", ""] {
        fixture.warm(path).await;
    }
    fixture.get("missing").await.unwrap();
    fixture.hand.advance(59 * SECOND);
    fixture.cache.tick();
    assert_eq!(fixture.cache.usage().entries, 3);
    assert_eq!(fixture.cache.usage().errors, 0);
    fixture.expect("small", "x").await;
    fixture.hand.advance(8 * SECOND);
    fixture.cache.tick();
    let usage = fixture.cache.usage();
    assert_eq!((usage.entries, usage.descriptors, usage.content), (1, 0, 1));
    fixture.expect_open(0).await;
    fixture.hand.advance(60 * SECOND);
    fixture.cache.tick();
    assert_eq!(fixture.cache.usage(), Default::default());
}

#[tokio::test]
async fn uses_far_apart_do_not_earn_a_descriptor() {
    let fixture = Fixture::settled(Settings {
        min_uses: 3,
        ..Settings::default()
    });
    fixture.write("big", large(1));
    for _ in 0..6 {
        fixture.expect("big", large(1)).await;
        fixture.hand.advance(61 * SECOND);
    }
    fixture.expect_open(0).await;
    for outcome in [
        Outcome::Retested,
        Outcome::Miss,
        Outcome::Miss,
        Outcome::Hit,
    ] {
        let _ = outcome;
        fixture.expect("big", large(1)).await;
    }
    fixture.expect_open(1).await;
}

#[tokio::test]
async fn lower_bounds_of_a_reload_are_kept_from_the_next_tick_on() {
    let fixture = Fixture::settled(Settings::default());
    for path in ["a", "b", "c"] {
        fixture.write(path, large(1));
        fixture.warm(path).await;
        fixture.write(&format!("{path}.css"), "12345");
        fixture.warm(&format!("{path}.css")).await;
    }
    fixture.expect_open(3).await;
    fixture.cache.reconfigure(Settings {
        descriptors: Some(1),
        content: 10,
        ..Settings::default()
    });
    fixture.cache.tick();
    fixture.expect_open(1).await;
    let usage = fixture.cache.usage();
    assert_eq!(
        (usage.descriptors, usage.content, usage.entries),
        (1, 10, 6)
    );
}

#[tokio::test]
async fn descriptors_return_to_what_they_were() {
    let tree = tempfile::tempdir().unwrap();
    let before = super::support::open_below(tree.path()).len();
    {
        let fixture = Fixture::settled(Settings::default());
        for number in 0..200 {
            fixture.write(&format!("f{number}"), large(1));
            fixture.warm(&format!("f{number}")).await;
        }
        fixture.expect_open(200).await;
        fixture.hand.advance(100 * SECOND);
        fixture.cache.tick();
        fixture.expect_open(0).await;
        let calls = fixture.counters().calls;
        let failed = 0;
        assert_eq!(calls.opens - failed - calls.closes, 1, "the root");
    }
    assert_eq!(super::support::open_below(tree.path()).len(), before);
}

#[tokio::test]
async fn facts_need_no_descriptor() {
    let fixture = Fixture::settled(Settings {
        content: 0,
        descriptors: Some(1),
        ..Settings::default()
    });
    let names: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    for name in &names {
        fixture.write(name, "x");
        fixture.warm(name).await;
    }
    assert!(fixture.cache.usage().descriptors <= 1);
    let before = fixture.counters().calls;
    let root = fixture.root.current();
    for name in &names {
        let path = TreePath::new(name.as_bytes()).unwrap();
        let looked = fixture
            .cache
            .lookup(&root, path, Want::Facts)
            .await
            .unwrap();
        assert_eq!(looked.outcome, Outcome::Hit);
        assert_eq!(file(&looked).entry.size(), 1);
    }
    // Closes go on in the background.
    let after = fixture.counters().calls;
    assert_eq!(
        (after.opens, after.fstats, after.reads),
        (before.opens, before.fstats, before.reads)
    );
}
