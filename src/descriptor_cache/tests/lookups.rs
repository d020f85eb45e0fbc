//! Hits, misses, validity, racy files, prepared heads, hashes, names of the root.

use std::fs;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::super::{
    Found, HeadPair, HeadRulesId, LookupError, Outcome, PreparedHeads, RootNames, Settings, Source,
    Want,
};
use super::support::{Fixture, file, identity, is_missing, large, read, replace};
use crate::request::TreePath;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_small_file_is_held_in_memory_from_its_second_use_on() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a/style.css", "0123456789");
    assert_eq!(
        fixture.expect("a/style.css", "0123456789").await,
        Outcome::Miss
    );
    assert_eq!(
        fixture.expect("a/style.css", "0123456789").await,
        Outcome::Miss
    );
    assert_eq!(
        fixture.expect("a/style.css", "0123456789").await,
        Outcome::Hit
    );
    fixture.expect_open(0).await;
    assert_eq!(fixture.cache.usage().content, 10);
}

#[tokio::test]
async fn a_large_file_keeps_its_descriptor_from_its_second_use_on() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("big.jpg", large(7));
    assert_eq!(fixture.expect("big.jpg", large(7)).await, Outcome::Miss);
    fixture.expect_open(0).await;
    assert_eq!(fixture.expect("big.jpg", large(7)).await, Outcome::Miss);
    assert_eq!(fixture.expect("big.jpg", large(7)).await, Outcome::Hit);
    fixture.expect_open(1).await;
    assert_eq!(fixture.cache.usage().descriptors, 1);
}

#[tokio::test]
async fn warm_lookups_make_no_file_system_call() {
    let fixture = Fixture::settled(Settings {
        errors_valid: 30 * SECOND,
        ..Settings::default()
    });
    fixture.write("small.css", "x");
    fixture.write("big.jpg", large(1));
    fixture.write("index.php", "<?php");
    for _ in 0..3 {
        for path in ["small.css", "big.jpg", "", "missing.png"] {
            fixture.get(path).await.unwrap();
        }
        fixture.look("index.php", Want::Script).await.unwrap();
        fixture.cache.root_names(&fixture.root.current()).await;
    }
    let before = fixture.counters();
    for _ in 0..1000 {
        for path in ["small.css", "big.jpg", "", "missing.png"] {
            fixture.get(path).await.unwrap();
        }
        fixture.look("index.php", Want::Script).await.unwrap();
        fixture.cache.root_names(&fixture.root.current()).await;
    }
    let after = fixture.counters();
    assert_eq!(after.calls, before.calls);
    assert_eq!(after.events, before.events);
    assert_eq!(after.hits - before.hits, 4000);
    assert_eq!(after.negatives - before.negatives, 1000);
}

#[tokio::test]
async fn a_hit_is_ready_at_the_first_poll() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.css", "x");
    fixture.warm("a.css").await;
    let root = fixture.root.current();
    let lookup = fixture
        .cache
        .lookup(&root, TreePath::new(b"a.css").unwrap(), Want::Content);
    let mut lookup = std::pin::pin!(lookup);
    let polled = lookup
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(looked)) if looked.outcome == Outcome::Hit));
}

#[tokio::test]
async fn an_unchanged_file_keeps_entry_and_bytes_over_a_retest() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.css", "x");
    fixture.warm("a.css").await;
    let before = fixture.get("a.css").await.unwrap();
    fixture.hand.advance(30 * SECOND);
    let reads = fixture.counters().calls.reads;
    let after = fixture.get("a.css").await.unwrap();
    assert_eq!(after.outcome, Outcome::Retested);
    assert!(Arc::ptr_eq(&file(&before).entry, &file(&after).entry));
    assert_eq!(fixture.counters().calls.reads, reads);
    assert_eq!(fixture.expect("a.css", "x").await, Outcome::Hit);
}

#[tokio::test]
async fn changes_are_seen_when_validity_ends_and_not_before() {
    let fixture = Fixture::settled(Settings::default());
    for (name, old) in [("small.css", b"old!".to_vec()), ("big.jpg", large(1))] {
        fixture.write(name, &old);
        fixture.warm(name).await;
        replace(&fixture.path(name), b"new");
        assert_eq!(fixture.expect(name, &old).await, Outcome::Hit);
        fixture.hand.advance(30 * SECOND);
        assert_eq!(fixture.expect(name, "new").await, Outcome::Replaced);
        fs::write(fixture.path(name), "longer").unwrap();
        fixture.hand.advance(30 * SECOND);
        assert_eq!(fixture.expect(name, "longer").await, Outcome::Replaced);
        fs::remove_file(fixture.path(name)).unwrap();
        fixture.hand.advance(30 * SECOND);
        let gone = fixture.get(name).await;
        assert!(is_missing(&gone));
        assert_eq!(gone.unwrap().outcome, Outcome::Replaced);
    }
    fixture.expect_open(0).await;
    assert_eq!(fixture.cache.usage().content, 0);
}

#[tokio::test]
async fn new_content_with_old_times_is_another_state() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.css", "old");
    fixture.warm("a.css").await;
    let times = fs::metadata(fixture.path("a.css"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(fixture.path("a.css"), "new").unwrap();
    fs::File::options()
        .write(true)
        .open(fixture.path("a.css"))
        .unwrap()
        .set_modified(times)
        .unwrap();
    fixture.hand.advance(30 * SECOND);
    assert_eq!(fixture.expect("a.css", "new").await, Outcome::Replaced);
}

#[tokio::test]
async fn a_missing_file_is_found_two_seconds_after_it_appears_at_the_latest() {
    let fixture = Fixture::settled(Settings::default());
    assert_eq!(
        fixture.get("up/a.jpg").await.unwrap().outcome,
        Outcome::Miss
    );
    assert_eq!(
        fixture.get("up/a.jpg").await.unwrap().outcome,
        Outcome::Negative
    );
    fixture.write("up/a.jpg", "jpg");
    assert!(is_missing(&fixture.get("up/a.jpg").await));
    fixture.hand.advance(2 * SECOND);
    fixture.expect("up/a.jpg", "jpg").await;
}

#[tokio::test]
async fn errors_are_not_remembered_when_off() {
    let fixture = Fixture::settled(Settings {
        errors: false,
        ..Settings::default()
    });
    fixture.get("a.jpg").await.unwrap();
    fixture.write("a.jpg", "jpg");
    fixture.expect("a.jpg", "jpg").await;
    assert_eq!(fixture.cache.usage().errors, 0);
}

#[tokio::test]
async fn a_file_is_no_directory_and_its_key_is_its_own() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("t/style.css", "css");
    fixture.warm("t/style.css").await;
    assert!(is_missing(&fixture.get("t/style.css/foo").await));
    fixture.expect("t/style.css", "css").await;
    assert!(matches!(
        fixture.get("t").await.unwrap().found,
        Found::Directory
    ));
    assert!(matches!(
        fixture.get("").await.unwrap().found,
        Found::Directory
    ));
    assert_eq!(fixture.get("t").await.unwrap().outcome, Outcome::Hit);
}

#[tokio::test]
async fn names_that_no_file_can_have_are_missing() {
    let fixture = Fixture::settled(Settings::default());
    let long = "n".repeat(256);
    let deep = "d/".repeat(2100) + "f";
    let unknown = fixture.counters().calls;
    for path in [&long, &deep] {
        assert!(is_missing(&fixture.get(path).await));
    }
    assert_eq!(fixture.counters().calls, unknown);
    let sensible = "d/".repeat(1500) + "f";
    assert!(is_missing(&fixture.get(&sensible).await));
    assert_eq!(
        fixture.cache.usage().errors,
        0,
        "too long to be worth the memory"
    );
}

#[tokio::test]
async fn a_racy_file_is_looked_at_at_each_use_until_it_has_settled() {
    let fixture = Fixture::racing(Settings::default());
    fixture.write("a.css", "1");
    for outcome in [Outcome::Miss, Outcome::Retested, Outcome::Retested] {
        let looked = fixture.get("a.css").await.unwrap();
        assert_eq!(looked.outcome, outcome);
        assert!(file(&looked).entry.racy);
    }
    assert_eq!(fixture.cache.usage().content, 0);
    fixture.write("a.css", "22");
    assert_eq!(fixture.expect("a.css", "22").await, Outcome::Replaced);
    let racy = fixture.get("a.css").await.unwrap();
    fixture.hand.advance(100_000 * SECOND);
    let settled = fixture.get("a.css").await.unwrap();
    assert!(!file(&settled).entry.racy);
    assert_eq!(identity(&settled), identity(&racy));
    assert!(!Arc::ptr_eq(&file(&racy).entry, &file(&settled).entry));
    assert_eq!(fixture.expect("a.css", "22").await, Outcome::Hit);
}

#[tokio::test]
async fn a_script_is_looked_at_without_opening_it() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("index.php", "<?php");
    let looked = fixture.look("index.php", Want::Script).await.unwrap();
    assert!(matches!(file(&looked).source, Source::None));
    let calls = fixture.counters().calls;
    assert_eq!(
        (calls.opens, calls.reads),
        (2, 0),
        "the root and the script"
    );
    assert_eq!(
        fixture
            .look("index.php", Want::Script)
            .await
            .unwrap()
            .outcome,
        Outcome::Hit
    );
    assert_eq!(
        fixture.expect("index.php", "<?php").await,
        Outcome::Miss,
        "another look"
    );
}

#[tokio::test]
async fn heads_live_as_long_as_the_state_of_the_file() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.css", "x");
    fixture.warm("a.css").await;
    let rendered = |looked: &super::super::Looked, rules| {
        let mut rendered = false;
        file(looked).entry.heads(HeadRulesId(rules), || {
            rendered = true;
            heads()
        });
        rendered
    };
    assert!(rendered(&fixture.get("a.css").await.unwrap(), 1));
    assert!(!rendered(&fixture.get("a.css").await.unwrap(), 1));
    fixture.hand.advance(30 * SECOND);
    assert!(
        !rendered(&fixture.get("a.css").await.unwrap(), 1),
        "retested"
    );
    replace(&fixture.path("a.css"), "y");
    fixture.hand.advance(30 * SECOND);
    assert!(
        rendered(&fixture.get("a.css").await.unwrap(), 1),
        "replaced"
    );
}

#[tokio::test]
async fn rules_of_a_third_reload_get_a_slot_after_the_next_retest() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.css", "x");
    fixture.warm("a.css").await;
    let looked = fixture.get("a.css").await.unwrap();
    for rules in 1..=3 {
        file(&looked).entry.heads(HeadRulesId(rules), heads);
    }
    fixture.hand.advance(30 * SECOND);
    let looked = fixture.get("a.css").await.unwrap();
    assert_eq!(looked.outcome, Outcome::Retested);
    file(&looked).entry.heads(HeadRulesId(3), heads);
    let again = fixture.get("a.css").await.unwrap();
    assert_eq!(again.outcome, Outcome::Hit);
    file(&again)
        .entry
        .heads(HeadRulesId(3), || panic!("rendered again"));
}

fn heads() -> PreparedHeads {
    let pair = HeadPair {
        ok: Default::default(),
        not_modified: Default::default(),
        partial: Default::default(),
    };
    PreparedHeads {
        etag: None,
        last_modified: None,
        media_type: Box::default(),
        plain: pair.clone(),
        versioned: pair,
    }
}

#[tokio::test]
async fn the_content_hash_is_taken_once_for_a_state() {
    let fixture = Fixture::settled(Settings::default());
    for (path, content) in [("a.css", b"x".to_vec()), ("b.jpg", large(9))] {
        fixture.write(path, &content);
        fixture.warm(path).await;
        let looked = fixture.get(path).await.unwrap();
        let expected = xxhash_rust::xxh3::xxh3_128(&content);
        assert_eq!(file(&looked).content_hash().await.unwrap(), expected);
        let reads = fixture.counters().calls.reads;
        let again = fixture.get(path).await.unwrap();
        assert_eq!(file(&again).content_hash().await.unwrap(), expected);
        assert_eq!(fixture.counters().calls.reads, reads);
    }
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_hashed_has_no_hash() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("b.jpg", large(9));
    let looked = fixture.get("b.jpg").await.unwrap();
    fs::write(fixture.path("b.jpg"), "other").unwrap();
    assert!(file(&looked).content_hash().await.is_err());
}

#[tokio::test]
async fn reading_ends_at_the_size_of_the_look_and_at_the_end_of_a_shortened_file() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("b.jpg", large(9));
    let looked = fixture.get("b.jpg").await.unwrap();
    let Source::Descriptor(open) = &file(&looked).source else {
        panic!("too large for memory")
    };
    assert_eq!(open.read_at(99_990, 100).await.unwrap().len(), 10);
    assert_eq!(open.read_at(100_000, 100).await.unwrap().len(), 0);
    assert_eq!(open.read_at(u64::MAX, 100).await.unwrap().len(), 0);
    assert_eq!(open.read_at(10, 5).await.unwrap(), vec![9; 5]);
    fs::File::options()
        .write(true)
        .open(fixture.path("b.jpg"))
        .unwrap()
        .set_len(50)
        .unwrap();
    assert_eq!(open.read_at(0, 100).await.unwrap().len(), 50);
    assert_eq!(open.read_at(60, 100).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_replaced_file_is_sent_to_its_end_by_those_who_began_with_it() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("b.jpg", large(1));
    fixture.warm("b.jpg").await;
    let looked = fixture.get("b.jpg").await.unwrap();
    replace(&fixture.path("b.jpg"), large(2));
    fixture.hand.advance(30 * SECOND);
    fixture.expect("b.jpg", large(2)).await;
    assert!(read(file(&looked)).await == large(1));
}

#[tokio::test]
async fn the_names_of_the_root_are_as_old_as_missing_files_may_be() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("index.php", "");
    let root = fixture.root.current();
    let names = fixture.cache.root_names(&root).await;
    assert!(!names.exclude(b"index.php") && names.exclude(b"hello-world"));
    fixture.write("hello-world", "");
    assert!(
        fixture
            .cache
            .root_names(&root)
            .await
            .exclude(b"hello-world")
    );
    fixture.hand.advance(2 * SECOND);
    assert!(
        !fixture
            .cache
            .root_names(&root)
            .await
            .exclude(b"hello-world")
    );
    let listed = fixture.counters().calls.readdirs;
    fixture.hand.advance(2 * SECOND);
    fixture.cache.root_names(&root).await;
    assert_eq!(fixture.counters().calls.readdirs, listed, "unchanged");
}

#[tokio::test]
async fn a_racy_root_is_listed_again_although_it_looks_unchanged() {
    let fixture = Fixture::racing(Settings::default());
    fixture.write("index.php", "");
    let root = fixture.root.current();
    let RootNames::Known(first) = fixture.cache.root_names(&root).await else {
        panic!("few names")
    };
    assert_eq!(first.len(), 1);
    assert!(!first.is_empty());
    let now = fixture.cache.clock.unix();
    fixture.hand.advance(2 * SECOND);
    fixture.hand.set_unix(now);
    let listed = fixture.counters().calls.readdirs;
    fixture.cache.root_names(&root).await;
    assert_eq!(fixture.counters().calls.readdirs, listed + 1);
}

#[tokio::test]
async fn more_than_ten_thousand_names_are_not_known() {
    let fixture = Fixture::settled(Settings::default());
    for number in 0..10_001 {
        fs::write(fixture.path(&format!("f{number}")), "").unwrap();
    }
    let names = fixture.cache.root_names(&fixture.root.current()).await;
    assert!(!names.exclude(b"f5") && !names.exclude(b"hello-world"));
}

#[tokio::test]
async fn bytes_that_are_no_text_name_files_like_others() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = Fixture::settled(Settings::default());
    let name = b"caf\xe9\xff.css";
    fs::write(
        fixture.path("").join(std::ffi::OsStr::from_bytes(name)),
        "x",
    )
    .unwrap();
    let root = fixture.root.current();
    let looked = fixture
        .cache
        .lookup(&root, TreePath::new(name).unwrap(), Want::Content)
        .await;
    assert_eq!(read(file(&looked.unwrap())).await, b"x");
}

#[tokio::test]
async fn a_purge_forgets_everything() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("b.jpg", large(1));
    fixture.warm("b.jpg").await;
    fixture.get("missing").await.unwrap();
    fixture.cache.purge();
    assert_eq!(fixture.cache.usage(), Default::default());
    fixture.expect_open(0).await;
    assert_eq!(fixture.expect("b.jpg", large(1)).await, Outcome::Miss);
}

#[test]
fn errors_have_their_status() {
    let status = |error: LookupError| error.status();
    assert_eq!(status(LookupError::Forbidden), 403);
    assert_eq!(status(LookupError::LinkRefused), 403);
    assert_eq!(status(LookupError::NotRegular), 403);
    assert_eq!(status(LookupError::Unavailable), 503);
    assert_eq!(status(LookupError::Io(5)), 500);
}
