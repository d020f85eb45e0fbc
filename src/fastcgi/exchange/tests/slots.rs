//! Who may be with the responder, and who waits.

use std::sync::Arc;
use std::time::Duration;

use super::responder::{World, answer, eventually, with_head};
use crate::fastcgi::exchange::Exchange;
use crate::fastcgi::spool::Body;

#[tokio::test]
async fn sixteen_requests_share_four_slots_first_come_first_served() {
    let world = World::new(4);
    let responder = world.listen();
    let mut clients = Vec::new();
    for number in 0..16 {
        let exchange = Exchange::start(world.post(body(number)));
        clients.push(tokio::spawn(answer(exchange)));
        let taken = usize::from(number) + 1;
        eventually(|| world.limiter.in_flight() + world.limiter.waiting() == taken).await;
    }
    assert_eq!(
        (world.limiter.in_flight(), world.limiter.waiting()),
        (4, 12)
    );
    let mut peers = Vec::new();
    for number in 0..16 {
        let mut peer = responder.accept().await;
        let received = peer.request().await;
        assert_eq!(received.stdin, [number]);
        peers.push(peer);
        if peers.len() == 4 {
            // The four are taken: nobody else comes before one of them is done.
            peers.remove(0).say_all(&with_head("X-A: b", b"hi")).await;
        }
    }
    for mut peer in peers {
        peer.say_all(&with_head("X-A: b", b"hi")).await;
    }
    for client in clients {
        assert_eq!(client.await.unwrap().unwrap().1, b"hi");
    }
    world.settled().await;
}

fn body(number: u8) -> Body {
    Body::from_memory(vec![number].into())
}

#[tokio::test]
async fn a_full_queue_is_503() {
    let mut world = World::new(1);
    world.settings.queue = 1;
    let responder = world.listen();
    let first = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    let second = Exchange::start(world.get());
    eventually(|| world.limiter.waiting() == 1).await;
    let error = Exchange::start(world.get()).head().await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (503, true));
    peer.request().await;
    peer.say_all(b"\r\n").await;
    answer(first).await.unwrap();
    responder.answer(b"\r\n").await;
    answer(second).await.unwrap();
    world.settled().await;
}

#[tokio::test]
async fn an_exchange_dropped_in_the_queue_leaves_it() {
    let world = World::new(1);
    let responder = world.listen();
    let first = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    let second = Exchange::start(world.get());
    let third = Exchange::start(world.post(body(3)));
    eventually(|| world.limiter.waiting() == 2).await;
    drop(second);
    eventually(|| world.limiter.waiting() == 1).await;
    peer.request().await;
    peer.say_all(b"\r\n").await;
    answer(first).await.unwrap();
    let mut peer = responder.accept().await;
    assert_eq!(peer.request().await.stdin, [3]);
    peer.say_all(b"\r\n").await;
    answer(third).await.unwrap();
    world.settled().await;
}

#[tokio::test]
async fn a_full_backlog_is_asked_again() {
    let mut world = World::new(8);
    world.settings.wait = Duration::from_secs(60);
    let responder = world.listen_narrowly();
    let exchanges: Vec<Exchange> = (0..8).map(|_| Exchange::start(world.get())).collect();
    eventually(|| world.limiter.waiting() > 0).await;
    for _ in 0..8 {
        responder.answer(b"\r\n").await;
    }
    for exchange in exchanges {
        answer(exchange).await.unwrap();
    }
    world.settled().await;
}

#[tokio::test]
async fn a_backlog_that_stays_full_is_503() {
    let mut world = World::new(8);
    world.settings.wait = Duration::from_millis(20);
    let responder = world.listen_narrowly();
    let mut held = Vec::new();
    let error = loop {
        let mut exchange = Exchange::start(world.get());
        tokio::select! {
            head = exchange.head() => break head.unwrap_err(),
            () = eventually(|| world.trace.connected().is_some()) => held.push(exchange),
        }
        assert!(held.len() < 8, "the backlog holds one or two");
        world.trace = Arc::default();
    };
    assert_eq!((error.status(), error.retry_after()), (503, true));
    drop((held, responder));
    world.settled().await;
}

#[tokio::test]
async fn a_full_backlog_lets_only_the_queue_wait() {
    let mut world = World::new(64);
    world.settings.queue = 2;
    world.settings.wait = Duration::from_secs(60);
    let responder = world.listen_narrowly();
    let mut exchanges: Vec<Exchange> = (0..16).map(|_| Exchange::start(world.get())).collect();
    // Two wait, one or two are in the backlog, and all others were sent away.
    eventually(|| world.limiter.waiting() == 2 && world.limiter.in_flight() <= 4).await;
    let error = exchanges.last_mut().unwrap().head().await.unwrap_err();
    assert_eq!(error.status(), 503);
    drop((exchanges, responder));
    world.settled().await;
}
