#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap fails the test"
)]

use std::net::Ipv4Addr;

use super::*;
use crate::origin::peer::{Fault, OUT};

fn pool(balance: Balance, count: usize) -> (Arc<Pool>, crate::clock::ManualClock, Peers) {
    let (clock, hand) = Clock::manual();
    let peers = Peers::default();
    let settings = PoolSettings {
        peers: (1..=count)
            .map(|last| format!("10.0.0.{last}:80"))
            .collect(),
        balance,
        health: None,
    };
    (Pool::new(&settings, &peers, &clock).unwrap(), hand, peers)
}

fn client(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn counts(pool: &Pool, requests: usize) -> Vec<usize> {
    let mut counts: HashMap<SocketAddr, usize> = HashMap::new();
    for _ in 0..requests {
        let peer = pool.choose(client(1), &[]).unwrap();
        *counts.entry(peer.address()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    counts.into_iter().map(|(_, count)| count).collect()
}

#[test]
fn in_turn_each_gets_the_same() {
    let (pool, _, _) = pool(Balance::RoundRobin, 3);
    assert_eq!(counts(&pool, 300), [100, 100, 100]);
}

#[test]
fn by_hash_a_client_stays_and_clients_spread() {
    let (pool, _, _) = pool(Balance::Hash, 4);
    let of = |last| pool.choose(client(last), &[]).unwrap().address();
    let mut used: Vec<_> = (0..=255).map(of).collect();
    for last in 0..=255 {
        assert_eq!(of(last), used[usize::from(last)]);
    }
    // Who was not at the peer that goes stays where it was.
    let gone = pool.choose(client(7), &[]).unwrap();
    gone.failed(Fault::Connect, pool.clock.now(), &String::new);
    for last in 0..=255 {
        let before = used[usize::from(last)];
        let now = of(last);
        assert!(now != gone.address() && (before == now || before == gone.address()));
    }
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 4);
}

#[test]
fn a_peer_that_is_out_is_left_out_and_tried_by_one_request_later() {
    for balance in [Balance::RoundRobin, Balance::Hash, Balance::Random] {
        let (pool, hand, peers) = pool(balance, 3);
        let gone = peers.at("10.0.0.2:80".parse().unwrap());
        gone.failed(Fault::Connect, pool.clock.now(), &String::new);
        let tried = |requests: u8| {
            (0..requests)
                .filter(|last| pool.choose(client(*last), &[]).unwrap().address() == gone.address())
                .count()
        };
        assert_eq!(tried(200), 0, "{balance:?}");
        hand.advance(OUT);
        assert_eq!(tried(200), 1, "{balance:?}");
        gone.answered();
        assert!(tried(200) > 20, "{balance:?}");
    }
}

#[test]
fn when_all_are_out_any_is_tried_and_each_once() {
    for balance in [Balance::RoundRobin, Balance::Hash, Balance::Random] {
        let (pool, _, _) = pool(balance, 3);
        let mut tried = Vec::new();
        while let Some(peer) = pool.choose(client(1), &tried) {
            peer.failed(Fault::Connect, pool.clock.now(), &String::new);
            tried.push(peer.address());
        }
        assert_eq!(tried.len(), 3, "{balance:?}");
        assert!(!pool.has_other(&tried));
        assert!(pool.choose(client(1), &[]).is_some(), "{balance:?}");
    }
}

#[test]
fn a_name_without_an_address_is_an_error() {
    let settings = PoolSettings {
        peers: vec!["no-such-name.invalid:80".to_owned()],
        balance: Balance::RoundRobin,
        health: None,
    };
    let (clock, _) = Clock::manual();
    assert!(Pool::new(&settings, &Peers::default(), &clock).is_err());
}

#[tokio::test]
async fn a_name_that_has_moved_is_followed_and_one_that_is_not_found_stays() {
    let settings = |peer: &str| PoolSettings {
        peers: vec![peer.to_owned()],
        balance: Balance::RoundRobin,
        health: None,
    };
    let (clock, _) = Clock::manual();
    let peers = Peers::default();
    let pool = Pool::new(&settings("localhost:80"), &peers, &clock).unwrap();
    assert!(pool.can_change());
    let now = pool.names.addresses();
    // Where it was before, as far as the pool knows.
    let before: SocketAddr = "10.0.0.9:80".parse().unwrap();
    pool.names.was_at(vec![before]);
    pool.look_up_again(&peers).await;
    let chosen = pool.choose(client(1), &[]).unwrap().address();
    assert!(now.contains(&chosen), "{chosen}");
    assert_eq!(pool.known.load().len(), now.len());

    let pool = Pool::new(&settings("10.0.0.9:80"), &peers, &clock).unwrap();
    assert!(!pool.can_change());
    let names = Names::missing("no-such-name.invalid:80", before);
    names.look_up_again().await;
    assert!(names.addresses().contains(&before));
}
