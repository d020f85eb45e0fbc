//! Many threads at once: every answer is one whole version, and nothing is left behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::{Found, LookupError, Settings, Want};
use super::support::{Fixture, read, replace};
use crate::request::TreePath;

#[test]
fn threads_that_look_while_files_are_replaced_see_whole_versions_and_leak_nothing() {
    for valid in [Duration::ZERO, Duration::from_secs(30)] {
        let settings = Settings {
            max: 6,
            descriptors: Some(2),
            content: 20_000,
            min_uses: 1,
            valid,
            errors_valid: valid,
            ..Settings::default()
        };
        let fixture = Arc::new(Fixture::settled(settings));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(stress(fixture));
    }
}

async fn stress(fixture: Arc<Fixture>) {
    let running = Arc::new(AtomicBool::new(true));
    let writer = {
        let (fixture, running) = (Arc::clone(&fixture), Arc::clone(&running));
        std::thread::spawn(move || {
            let mut version = 1_u8;
            while running.load(Ordering::Relaxed) {
                version = version.checked_add(1).unwrap_or(1);
                for path in 0..8 {
                    let path = fixture.path(&path.to_string());
                    match version % 5 {
                        0 => drop(fs::remove_file(path)),
                        odd => {
                            let size = [3000, 9000, 70_000, 100_000][usize::from(odd) - 1];
                            replace(&path, vec![version; size + usize::from(version)]);
                        }
                    }
                }
                fixture.hand.advance(Duration::from_secs(7));
                fixture.cache.tick();
                if version.is_multiple_of(16) {
                    fixture.cache.purge();
                }
            }
        })
    };
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move {
                for round in 0..1500_usize {
                    let path = ((round * 7 + reader) % 8).to_string();
                    let root = fixture.root.current();
                    let path = TreePath::new(path.as_bytes()).unwrap();
                    let lookup = fixture.cache.lookup(&root, path, Want::Content);
                    if round % 11 == 0 {
                        // A request that leaves while it waits.
                        let _ = tokio::time::timeout(Duration::ZERO, lookup).await;
                        continue;
                    }
                    match lookup.await {
                        Ok(looked) => {
                            if let Found::File(found) = &looked.found {
                                let content = read(found).await;
                                let version = content[0];
                                assert_eq!(content.len() as u64, found.entry.size());
                                assert!(content.iter().all(|&byte| byte == version));
                                assert_eq!(content.len() % 1000, usize::from(version));
                            }
                        }
                        Err(LookupError::Unavailable) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    running.store(false, Ordering::Relaxed);
    writer.join().unwrap();
    while fixture.cache.usage().looks > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let usage = fixture.cache.usage();
    assert!(
        usage.entries <= 6 && usage.descriptors <= 2 && usage.content <= 20_000,
        "{usage:?}"
    );
    fixture.cache.purge();
    assert_eq!(fixture.cache.usage(), Default::default());
    fixture.expect_open(0).await;
}
