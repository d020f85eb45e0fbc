#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test"
)]

use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::fastcgi::spool::SpoolSettings;

const KIB: u64 = 1024;

fn spools(total: u64) -> (TempDir, Arc<Spools>) {
    let dir = tempfile::tempdir().unwrap();
    let settings = SpoolSettings {
        dir: dir.path().to_path_buf(),
        memory: 0,
        total,
    };
    (dir, Spools::new(settings))
}

fn content(length: usize) -> Bytes {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// Fills a buffer as fast as it takes, in pieces of these sizes by turns.
async fn fill(buffer: &AnswerBuffer, content: &Bytes, sizes: &[usize]) {
    let mut rest = content.clone();
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        buffer.push(rest.split_to(size.min(rest.len()))).await;
    }
    buffer.finish(None, Ok(()));
}

async fn drain(buffer: &AnswerBuffer, pauses: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while let Some(piece) = buffer.next().await.unwrap() {
        assert!(!piece.is_empty());
        taken.extend_from_slice(&piece);
        for _ in 0..pauses {
            tokio::task::yield_now().await;
        }
    }
    taken
}

#[tokio::test]
async fn everything_comes_out_in_order_when_nobody_takes_it_at_first() {
    let (_dir, spools) = spools(100 << 20);
    let buffer = AnswerBuffer::new(100 * KIB, 10 << 20, &spools);
    let expected = content(3_000_003);
    fill(&buffer, &expected, &[8192, 1, 65_535, 0x4000, 3]).await;
    assert_eq!(buffer.complete_length(), Some(3_000_003));
    assert!(spools.used() > 2_000_000);
    assert_eq!(drain(&buffer, 0).await, expected);
    drop(buffer);
    assert_eq!(spools.used(), 0);
}

#[tokio::test]
async fn a_file_smaller_than_the_answer_is_used_round_and_round() {
    let (_dir, spools) = spools(100 << 20);
    let buffer = AnswerBuffer::new(10 * KIB, 300 * KIB, &spools);
    let expected = content(5_000_000);
    let ((), taken) = tokio::join!(fill(&buffer, &expected, &[9000]), drain(&buffer, 3));
    assert!(taken == expected);
    assert!(spools.used() <= 300 * KIB);
}

#[tokio::test]
async fn without_room_the_filling_side_waits() {
    for (temp_max, total, dir) in [
        (0, 1 << 30, None),
        (10 << 20, 0, None),
        (10 << 20, 400 * KIB, None),
        (10 << 20, 1 << 30, Some("/nonexistent-folder")),
    ] {
        let (_dir, spools) = spools(total);
        if let Some(dir) = dir {
            let dir = PathBuf::from(dir);
            spools.reconfigure(SpoolSettings {
                dir,
                memory: 0,
                total,
            });
        }
        let buffer = AnswerBuffer::new(50 * KIB, temp_max, &spools);
        let expected = content(2_000_000);
        let filling = fill(&buffer, &expected, &[9000]);
        tokio::pin!(filling);
        // Nobody takes anything: it cannot end.
        let patience = tokio::time::timeout(std::time::Duration::from_millis(50), &mut filling);
        assert!(patience.await.is_err());
        let ((), taken) = tokio::join!(filling, drain(&buffer, 1));
        assert!(taken == expected);
    }
}

#[tokio::test]
async fn what_is_passed_as_it_comes_is_bounded_and_never_in_a_file() {
    let (_dir, spools) = spools(100 << 20);
    let buffer = AnswerBuffer::new(1 << 20, 10 << 20, &spools);
    buffer.pass_as_it_comes();
    let expected = content(1_000_000);
    let ((), taken) = tokio::join!(fill(&buffer, &expected, &[1000]), drain(&buffer, 5));
    assert!(taken == expected);
    assert_eq!(spools.used(), 0);
}

#[tokio::test]
async fn no_memory_at_all_still_passes_everything() {
    let (_dir, spools) = spools(0);
    let buffer = AnswerBuffer::new(0, 0, &spools);
    let expected = content(100_000);
    let ((), taken) = tokio::join!(fill(&buffer, &expected, &[1000]), drain(&buffer, 0));
    assert!(taken == expected);
}

#[tokio::test]
async fn an_error_comes_after_what_was_held() {
    let (_dir, spools) = spools(0);
    let buffer = AnswerBuffer::new(KIB, 0, &spools);
    buffer.push(content(10)).await;
    buffer.finish(None, Err(ExchangeError::Closed));
    buffer.finish(None, Ok(()));
    assert_eq!(buffer.next().await.unwrap().unwrap().len(), 10);
    assert!(matches!(buffer.next().await, Err(ExchangeError::Closed)));
    assert!(matches!(buffer.head().await, Err(ExchangeError::Closed)));
    assert_eq!(buffer.complete_length(), None);
}

#[tokio::test]
async fn many_small_pieces_become_few() {
    let (_dir, spools) = spools(0);
    let buffer = AnswerBuffer::new(1 << 20, 0, &spools);
    for _ in 0..100_000 {
        buffer.push(Bytes::from_static(b"x")).await;
    }
    buffer.finish(None, Ok(()));
    let mut pieces = 0;
    while buffer.next().await.unwrap().is_some() {
        pieces += 1;
    }
    assert!(pieces <= 8, "{pieces}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_sizes_and_paces_keep_the_order(
        sizes in vec(1..100_000_usize, 1..6),
        memory in 0..200_000_u64,
        temp_max in 0..600_000_u64,
        pauses in 0..4_usize,
        length in 0..1_500_000_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_dir, spools) = spools(1 << 30);
            let buffer = AnswerBuffer::new(memory, temp_max, &spools);
            let expected = content(length);
            let ((), taken) = tokio::join!(fill(&buffer, &expected, &sizes), drain(&buffer, pauses));
            assert!(taken == expected);
        });
    }
}
