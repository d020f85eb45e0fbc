//! Errors of the file system: which of them are remembered, for how long, and what is tried against them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::super::{LookupError, Outcome, Settings};
use super::support::{Fixture, is_missing, large};

#[tokio::test]
async fn exhaustion_gives_up_idle_descriptors_and_tries_once_more() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::STALE] {
        let fixture = Fixture::settled(Settings::default());
        for number in 0..30 {
            fixture.write(&format!("f{number}"), large(1));
            fixture.warm(&format!("f{number}")).await;
        }
        let sending = fixture.get("f0").await.unwrap();
        fixture.expect_open(30).await;
        fixture.write("new", "x");
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        fixture.fault(move |_| (counted.fetch_add(1, Ordering::SeqCst) == 0).then_some(errno));
        fixture.expect("new", "x").await;
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        fixture.expect_open(14).await;
        assert_eq!(
            fixture.get("f0").await.unwrap().outcome,
            Outcome::Hit,
            "it is being sent"
        );
        drop(sending);
    }
}

#[tokio::test]
async fn what_says_nothing_about_the_tree_is_never_remembered() {
    for (errno, error) in [
        (Errno::MFILE, LookupError::Unavailable),
        (Errno::NFILE, LookupError::Unavailable),
        (Errno::NOMEM, LookupError::Unavailable),
        (Errno::STALE, LookupError::Unavailable),
        (Errno::IO, LookupError::Io(Errno::IO.raw_os_error())),
    ] {
        let fixture = Fixture::settled(Settings::default());
        fixture.write("a", "x");
        fixture.warm("a").await;
        fixture.hand.advance(Duration::from_secs(31));
        fixture.fault(move |_| Some(errno));
        for path in ["a", "b"] {
            assert_eq!(fixture.get(path).await.unwrap_err(), error, "{errno}");
        }
        fixture.heal();
        assert_eq!(fixture.expect("a", "x").await, Outcome::Retested, "{errno}");
        assert_eq!(
            fixture.get("b").await.unwrap().outcome,
            Outcome::Miss,
            "{errno}"
        );
    }
}

#[tokio::test]
async fn refusals_are_remembered_for_a_second() {
    for (errno, error) in [
        (Errno::ACCESS, LookupError::Forbidden),
        (Errno::LOOP, LookupError::LinkRefused),
    ] {
        let fixture = Fixture::settled(Settings::default());
        fixture.write("a", "x");
        fixture.warm("a").await;
        fixture.hand.advance(Duration::from_secs(30));
        fixture.fault(move |_| Some(errno));
        assert_eq!(fixture.get("a").await.unwrap_err(), error);
        fixture.heal();
        assert_eq!(fixture.get("a").await.unwrap_err(), error, "remembered");
        assert_eq!(fixture.counters().negatives, 1);
        fixture.hand.advance(Duration::from_secs(1));
        fixture.expect("a", "x").await;
    }
}

#[tokio::test]
async fn names_a_file_system_cannot_have_are_missing() {
    for errno in [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::NAMETOOLONG,
        Errno::INVAL,
        Errno::ILSEQ,
    ] {
        let fixture = Fixture::settled(Settings::default());
        fixture.fault(move |_| Some(errno));
        assert!(is_missing(&fixture.get("a").await));
        assert_eq!(fixture.get("a").await.unwrap().outcome, Outcome::Negative);
    }
}

#[tokio::test]
async fn openat2_is_not_asked_again_once_it_is_missing() {
    for errno in [Errno::NOSYS, Errno::PERM, Errno::TOOBIG] {
        let fixture = Fixture::settled(Settings::default());
        fixture.write("d/a", "x");
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        fixture.fault(move |path| {
            (path == b"d/a").then(|| {
                counted.fetch_add(1, Ordering::SeqCst);
                errno
            })
        });
        fixture.expect("d/a", "x").await;
        fixture.expect("d/a", "x").await;
        assert_eq!(
            calls.load(Ordering::SeqCst),
            1,
            "segments are walked from then on"
        );
    }
}

#[tokio::test]
async fn openat2_is_tried_again_sixteen_times_before_the_path_is_walked() {
    let fixture = Fixture::settled(Settings::default());
    fixture.write("d/a", "x");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    fixture.fault(move |path| {
        (path == b"d/a").then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            Errno::AGAIN
        })
    });
    fixture.expect("d/a", "x").await;
    assert_eq!(calls.load(Ordering::SeqCst), 17);
    assert!(fixture.cache.opener.has_openat2());
}

#[tokio::test]
async fn an_unreadable_file_is_forbidden_as_content_but_not_as_script() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        return;
    }
    let fixture = Fixture::settled(Settings::default());
    fixture.write("a.php", "<?php");
    std::fs::set_permissions(
        fixture.path("a.php"),
        std::fs::Permissions::from_mode(0o000),
    )
    .unwrap();
    assert_eq!(
        fixture.get("a.php").await.unwrap_err(),
        LookupError::Forbidden
    );
    fixture
        .look("a.php", super::super::Want::Script)
        .await
        .unwrap();
}
