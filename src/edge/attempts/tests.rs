#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;
use crate::clock::Clock;
use crate::origin::Peers;
use crate::origin::{Balance, PoolSettings, Settings};

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const NOW: Tick = Tick(1_000_000);

fn pool_of(count: usize) -> (Arc<Pool>, Peers) {
    let names = (1..=count).map(|last| format!("10.0.0.{last}:80"));
    let settings: PoolSettings = Settings::new(names.collect()).pool;
    assert_eq!(settings.balance, Balance::RoundRobin);
    let peers = Peers::default();
    let (clock, _) = Clock::manual();
    (Pool::new(&settings, &peers, &clock).unwrap(), peers)
}

fn up(etype: ErrorType) -> Box<Error> {
    Error::new(etype).into_up()
}

fn of(reused: bool, may_repeat: bool) -> Circumstances {
    Circumstances {
        now: NOW,
        reused,
        may_repeat,
    }
}

#[test]
fn a_connect_that_fails_goes_on_until_all_were_tried() {
    let (pool, peers) = pool_of(3);
    let mut attempts = Attempts::default();
    let mut seen = Vec::new();
    for left in [true, true, false] {
        seen.push(attempts.next(&pool, CLIENT, NOW).unwrap());
        let mut error = up(ErrorType::ConnectRefused);
        attempts.not_connected(&pool, &Settings::new(Vec::new()), NOW, &mut error);
        assert_eq!(error.retry(), left);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
    assert!(attempts.next(&pool, CLIENT, NOW).is_err());
    assert!(peers.all().iter().all(|peer| !peer.is_healthy()));
    let retries: u64 = peers.all().iter().map(|peer| peer.retries()).sum();
    assert_eq!(retries, 2);
}

#[test]
fn a_fault_of_ours_is_no_peers() {
    let (pool, peers) = pool_of(2);
    let mut attempts = Attempts::default();
    attempts.next(&pool, CLIENT, NOW).unwrap();
    let mut error = up(ErrorType::InternalError);
    attempts.not_connected(&pool, &Settings::new(Vec::new()), NOW, &mut error);
    assert!(!error.retry());
    assert!(peers.all().iter().all(|peer| peer.is_healthy()));
}

#[test]
fn what_was_sent_is_sent_once_more_at_most_and_only_if_it_may_be() {
    let (pool, _) = pool_of(3);
    let mut attempts = Attempts::default();
    let first = attempts.next(&pool, CLIENT, NOW).unwrap();
    let mut error = up(ErrorType::ConnectionClosed);
    attempts.failed(&pool, of(false, true), &mut error);
    assert!(error.retry());
    assert_ne!(attempts.next(&pool, CLIENT, NOW).unwrap(), first);
    let mut error = up(ErrorType::ConnectionClosed);
    attempts.failed(&pool, of(false, true), &mut error);
    assert!(!error.retry(), "a third time");

    let mut attempts = Attempts::default();
    attempts.next(&pool, CLIENT, NOW).unwrap();
    let mut error = up(ErrorType::ConnectionClosed);
    attempts.failed(&pool, of(false, false), &mut error);
    assert!(!error.retry(), "not to be repeated");

    let mut attempts = Attempts::default();
    attempts.next(&pool, CLIENT, NOW).unwrap();
    attempts.answered();
    let mut error = up(ErrorType::ConnectionClosed);
    attempts.failed(&pool, of(false, true), &mut error);
    assert!(!error.retry(), "an answer has begun");

    let mut attempts = Attempts::default();
    attempts.next(&pool, CLIENT, NOW).unwrap();
    let mut error = up(ErrorType::ReadTimedout);
    attempts.failed(&pool, of(false, true), &mut error);
    assert!(!error.retry(), "a slow answer would be slow twice");
}

#[test]
fn a_kept_connection_that_was_closed_is_no_fault() {
    let (pool, peers) = pool_of(1);
    let mut attempts = Attempts::default();
    attempts.next(&pool, CLIENT, NOW).unwrap();
    let mut error = up(ErrorType::ConnectionClosed);
    error.retry = pingora_core::RetryType::ReusedOnly;
    attempts.failed(&pool, of(true, true), &mut error);
    assert!(error.retry());
    assert!(peers.all().iter().all(|peer| peer.is_healthy()));
    assert!(
        attempts.next(&pool, CLIENT, NOW).is_ok(),
        "the same once more"
    );
}

#[test]
fn a_network_that_is_gone_is_not_waited_for_as_often_as_there_are_peers() {
    let (pool, _) = pool_of(9);
    let settings = Settings::new(Vec::new());
    let mut attempts = Attempts::default();
    let mut now = NOW;
    for left in [true, true, false] {
        attempts.next(&pool, CLIENT, now).unwrap();
        now = now.plus(settings.connect);
        let mut error = up(ErrorType::ConnectTimedout);
        attempts.not_connected(&pool, &settings, now, &mut error);
        assert_eq!(error.retry(), left);
    }
}
