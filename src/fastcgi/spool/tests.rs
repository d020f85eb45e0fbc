#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test"
)]

use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

fn spools(memory: u64, total: u64) -> (TempDir, Arc<Spools>) {
    let dir = tempfile::tempdir().unwrap();
    let settings = SpoolSettings {
        dir: dir.path().to_path_buf(),
        memory,
        total,
    };
    (dir, Spools::new(settings))
}

fn content(length: usize) -> Bytes {
    (0..length).map(|index| (index % 251) as u8).collect()
}

async fn read(body: &Body) -> Vec<u8> {
    let mut reader = body.reader();
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next(50_000).await.unwrap() {
        assert!((1..=50_000).contains(&piece.len()));
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[tokio::test]
async fn small_content_stays_in_memory() {
    let (_dir, spools) = spools(128 * 1024, MIB);
    let mut spool = spools.spool(MIB);
    let expected = content(128 * 1024);
    for piece in expected.chunks(1000) {
        spool.push(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    let body = spool.finish().await.unwrap();
    assert!(!body.is_file());
    assert_eq!(read(&body).await, expected);
    assert_eq!(body.length(), 128 * 1024);
}

#[tokio::test]
async fn large_content_goes_to_a_file_and_can_be_read_by_many_at_once() {
    let (dir, spools) = spools(100_000, 10 * MIB);
    let mut spool = spools.spool(10 * MIB);
    let expected = content(3_000_001);
    for piece in expected.chunks(70_001) {
        spool.push(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    assert_eq!(spool.length(), 3_000_001);
    let body = spool.finish().await.unwrap();
    assert!(body.is_file());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let copy = body.clone();
    let (first, second) = tokio::join!(read(&body), read(&copy));
    assert_eq!(first, expected);
    assert_eq!(second, expected);
}

#[tokio::test]
async fn one_byte_over_memory_is_a_file_too() {
    for memory in [0, 1, 65_535, 65_536, 200_000] {
        let (_dir, spools) = spools(memory, MIB);
        let mut spool = spools.spool(MIB);
        let expected = content(usize::try_from(memory).unwrap() + 1);
        spool.push(expected.clone()).await.unwrap();
        let body = spool.finish().await.unwrap();
        assert!(body.is_file(), "{memory}");
        assert_eq!(read(&body).await, expected);
    }
}

#[tokio::test]
async fn empty_content_is_no_file() {
    let (_dir, spools) = spools(0, 0);
    let body = spools.spool(0).finish().await.unwrap();
    assert_eq!((body.length(), body.is_file()), (0, false));
    assert_eq!(read(&body).await, b"");
    assert_eq!(read(&Body::empty()).await, b"");
}

#[tokio::test]
async fn content_over_its_limit_is_413() {
    let (_dir, spools) = spools(MIB, 10 * MIB);
    let mut spool = spools.spool(10);
    spool.push(content(10)).await.unwrap();
    let error = spool.push(content(1)).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (413, false));
}

#[tokio::test]
async fn the_budget_is_shared_and_given_back() {
    let (_dir, spools) = spools(1000, 300_000);
    let mut first = spools.spool(MIB);
    first.push(content(200_000)).await.unwrap();
    let mut second = spools.spool(MIB);
    second.push(content(100_000)).await.unwrap();
    let error = second.push(content(1)).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (503, true));
    drop(second);
    assert_eq!(spools.used(), 200_000);
    first.push(content(100_000)).await.unwrap();
    let body = first.finish().await.unwrap();
    let copy = body.clone();
    drop(body);
    assert_eq!(spools.used(), 300_000);
    drop(copy);
    assert_eq!(spools.used(), 0);
}

#[tokio::test]
async fn a_spool_cancelled_half_way_gives_everything_back() {
    let (_dir, spools) = spools(0, 10 * MIB);
    let mut spool = spools.spool(10 * MIB);
    let push = spool.push(content(1_000_000));
    // Polled once, so that the write is under way.
    tokio::select! {
        biased;
        _ = push => {}
        () = std::future::ready(()) => {}
    }
    drop(spool);
    assert_eq!(spools.used(), 0);
}

#[tokio::test]
async fn responses_may_take_half_of_the_budget() {
    let (_dir, spools) = spools(0, 1000);
    let mut answer = spools.charge_answer();
    assert!(answer.grow(500));
    assert!(!answer.grow(1));
    assert_eq!(spools.used(), 500);
    let mut upload = spools.spool(MIB);
    upload.push(content(500)).await.unwrap();
    assert!(upload.push(content(1)).await.is_err());
    drop((answer, upload));
    assert_eq!(spools.used(), 0);
    assert!(spools.charge_answer().grow(500));
}

#[tokio::test]
async fn a_missing_folder_is_an_error_of_ours() {
    let (dir, spools) = spools(0, MIB);
    drop(dir);
    let mut spool = spools.spool(MIB);
    let error = spool.push(content(100_000)).await.unwrap_err();
    assert_eq!(error.status(), 500);
    drop(spool);
    assert_eq!(spools.used(), 0);
}
