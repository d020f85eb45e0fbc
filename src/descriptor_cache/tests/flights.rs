//! One look for all who ask, whatever becomes of them, of the look, or of the table meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::super::{Looked, LookupError, Outcome, Settings, Want};
use super::support::{Fixture, file, read};
use crate::request::TreePath;

/// Holds every look until told to go on; counts them.
struct Brake {
    go: mpsc::Sender<()>,
    started: Arc<AtomicUsize>,
}

impl Brake {
    fn on(fixture: &Fixture) -> Self {
        let (go, wait) = mpsc::channel::<()>();
        let started = Arc::new(AtomicUsize::new(0));
        let (wait, count) = (Mutex::new(wait), Arc::clone(&started));
        fixture.fault(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = wait.lock().recv_timeout(Duration::from_secs(20));
            None
        });
        Self { go, started }
    }

    async fn wait_for(&self, count: usize) {
        while self.started.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

fn spawn(fixture: &Fixture, path: &'static str) -> JoinHandle<Result<Looked, LookupError>> {
    let (cache, root) = (Arc::clone(&fixture.cache), fixture.root.current());
    tokio::spawn(async move {
        cache
            .lookup(
                &root,
                TreePath::new(path.as_bytes()).unwrap(),
                Want::Content,
            )
            .await
    })
}

async fn settle_down() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_for_one_path_share_one_look_and_may_leave_it() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a", "x");
    let brake = Brake::on(&fixture);
    let first = spawn(&fixture, "a");
    brake.wait_for(1).await;
    let rest: Vec<_> = (0..10).map(|_| spawn(&fixture, "a")).collect();
    settle_down().await;
    assert_eq!(fixture.cache.usage().looks, 1);
    first.abort();
    rest[3].abort();
    settle_down().await;
    brake.go.send(()).unwrap();
    let mut outcomes = Vec::new();
    for (number, waiting) in rest.into_iter().enumerate() {
        match waiting.await {
            Ok(looked) => {
                let looked = looked.unwrap();
                outcomes.push(looked.outcome);
                assert_eq!(read(file(&looked)).await, b"x");
            }
            Err(cancelled) => assert!(cancelled.is_cancelled() && number == 3),
        }
    }
    assert_eq!(brake.started.load(Ordering::SeqCst), 1);
    // The request that started the look has gone: one of the others has its result, and the rest share it.
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Miss)
            .count(),
        1
    );
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Waited)
            .count(),
        8
    );
    assert_eq!(fixture.counters().events.waited, 8);
    settle_down().await;
    assert_eq!(fixture.cache.usage().looks, 0);
    assert_eq!(fixture.cache.usage().entries, 1);
}

#[tokio::test]
async fn a_look_that_all_have_left_still_warms_the_table() {
    let fixture = Fixture::settled(Settings {
        min_uses: 1,
        ..Settings::default()
    });
    fixture.write("a", "x");
    let brake = Brake::on(&fixture);
    let only = spawn(&fixture, "a");
    brake.wait_for(1).await;
    only.abort();
    let _ = only.await;
    brake.go.send(()).unwrap();
    while fixture.cache.usage().looks > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(fixture.expect("a", "x").await, Outcome::Hit);
}

#[tokio::test]
async fn a_panic_leaves_no_slot_behind() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a", "x");
    fixture.fault(|path| {
        if path == b"a" {
            panic!("made by the test")
        } else {
            None
        }
    });
    let looked = fixture.get("a").await;
    assert!(matches!(looked, Err(LookupError::Io(_))));
    settle_down().await;
    assert_eq!(fixture.cache.usage().looks, 0);
    fixture.heal();
    fixture.expect("a", "x").await;
}

#[tokio::test]
async fn what_is_found_during_a_purge_serves_those_who_wait_and_is_not_remembered() {
    let fixture = Fixture::settled(Settings {
        min_uses: 1,
        ..Settings::default()
    });
    fixture.write("a", "x");
    let brake = Brake::on(&fixture);
    let waiting = spawn(&fixture, "a");
    brake.wait_for(1).await;
    fixture.cache.purge();
    brake.go.send(()).unwrap();
    assert_eq!(read(file(&waiting.await.unwrap().unwrap())).await, b"x");
    assert_eq!(fixture.cache.usage().entries, 0);
    assert_eq!(fixture.cache.usage().content, 0);
}

#[tokio::test]
async fn what_is_found_in_an_ended_generation_is_not_remembered() {
    let fixture = Fixture::settled(Settings {
        min_uses: 1,
        ..Settings::default()
    });
    fixture.write("a", "x");
    let brake = Brake::on(&fixture);
    let waiting = spawn(&fixture, "a");
    brake.wait_for(1).await;
    let root = fixture.tree.path().join("root");
    std::fs::rename(&root, fixture.tree.path().join("old")).unwrap();
    std::fs::create_dir(&root).unwrap();
    fixture.cache.tick();
    brake.go.send(()).unwrap();
    assert_eq!(read(file(&waiting.await.unwrap().unwrap())).await, b"x");
    assert_eq!(fixture.cache.usage().entries, 0);
}

#[tokio::test]
async fn a_file_system_that_hangs_is_unavailable_and_holds_up_no_other_root() {
    let fixture = Fixture::impatient(Settings::default());
    let other = fixture.tree.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("free"), "x").unwrap();
    let other = fixture.cache.root(&other, Default::default()).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    fixture.fault(move |path| {
        if path != b"free" {
            let _ = wait.lock().recv();
        }
        None
    });
    let waiting: Vec<_> = (0..40)
        .map(|number| {
            spawn(
                &fixture,
                Box::leak(format!("hung{number}").into_boxed_str()),
            )
        })
        .collect();
    let generation = other.current();
    let free = fixture
        .cache
        .lookup(&generation, TreePath::new(b"free").unwrap(), Want::Content);
    assert_eq!(read(file(&free.await.unwrap())).await, b"x");
    for waiting in waiting {
        assert_eq!(
            waiting.await.unwrap().unwrap_err(),
            LookupError::Unavailable
        );
    }
    assert_eq!(
        fixture.get("hung0").await.unwrap_err(),
        LookupError::Unavailable,
        "at once"
    );
    assert!(fixture.cache.usage().looks >= 32);
    drop(go);
    while fixture.cache.usage().looks > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fixture.heal();
    assert!(super::support::is_missing(&fixture.get("hung0").await));
}
