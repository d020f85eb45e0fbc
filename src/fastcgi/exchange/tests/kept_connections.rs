//! Kept connections: used again, found dead, and never more than there are workers.

use std::time::Duration;

use tokio::time::sleep;

use super::responder::{Peer, Responder, World, answer, end, eventually, stream, with_head};
use crate::fastcgi::exchange::{Exchange, ExchangeRequest};
use crate::fastcgi::limiter::Limiter;
use crate::fastcgi::spool::Body;

fn keeping(limit: usize) -> (World, Responder) {
    let mut world = World::new(limit);
    world.settings.keep_alive = Some(Duration::from_secs(10));
    let responder = world.listen();
    (world, responder)
}

/// A request on a fresh connection, which is then idle.
async fn first(world: &World, responder: &Responder) -> Peer {
    let exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    assert!(peer.request().await.keep);
    peer.say_all(&with_head("X-A: b", b"first")).await;
    assert_eq!(answer(exchange).await.unwrap().1, b"first");
    eventually(|| world.limiter.in_flight() == 0).await;
    peer
}

async fn on(peer: &mut Peer, request: ExchangeRequest) -> Vec<u8> {
    let exchange = Exchange::start(request);
    peer.request().await;
    peer.say_all(&with_head("X-A: b", b"again")).await;
    answer(exchange).await.unwrap().1
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (world, responder) = keeping(2);
    let mut peer = first(&world, &responder).await;
    for _ in 0..3 {
        assert_eq!(world.limiter.idle().count(), 1);
        assert_eq!(on(&mut peer, world.get()).await, b"again");
        eventually(|| world.limiter.in_flight() == 0).await;
    }
    assert!(world.trace.is_reused() && !world.trace.is_retried());
    world.limiter.idle().shrink(0);
    peer.closed().await;
    world.settled().await;
}

#[tokio::test]
async fn a_connection_found_closed_is_passed_over() {
    let (world, responder) = keeping(2);
    drop(first(&world, &responder).await);
    let mut peer = first(&world, &responder).await;
    assert!(!world.trace.is_reused());
    assert!(peer.is_open());
    peer.0.try_write(b"unasked").unwrap();
    // One that says something unasked is not used again either.
    first(&world, &responder).await;
    peer.closed().await;
}

#[tokio::test]
async fn a_get_on_a_connection_that_dies_is_sent_again_on_a_fresh_one() {
    let (world, responder) = keeping(2);
    let mut peer = first(&world, &responder).await;
    let exchange = Exchange::start(world.get());
    peer.request().await;
    drop(peer);
    let mut peer = responder.answer(&with_head("X-A: b", b"fresh")).await;
    assert_eq!(answer(exchange).await.unwrap().1, b"fresh");
    assert!(world.trace.is_retried());
    // Once only: a crash of the fresh one is a 502.
    eventually(|| world.limiter.in_flight() == 0).await;
    let mut exchange = Exchange::start(world.get());
    peer.request().await;
    drop(peer);
    let mut peer = responder.accept().await;
    peer.request().await;
    drop(peer);
    assert_eq!(exchange.head().await.unwrap_err().status(), 502);
    world.settled().await;
}

#[tokio::test]
async fn a_request_that_was_answered_in_part_is_not_sent_again() {
    let (world, responder) = keeping(2);
    let mut peer = first(&world, &responder).await;
    let mut exchange = Exchange::start(world.get());
    peer.request().await;
    peer.stdout(b"Content-Ty").await;
    drop(peer);
    assert_eq!(exchange.head().await.unwrap_err().status(), 502);
    assert!(!world.trace.is_retried());
    world.settled().await;
}

#[tokio::test]
async fn what_is_not_idempotent_gets_a_fresh_connection_and_is_never_sent_again() {
    let (world, responder) = keeping(1);
    let mut kept = first(&world, &responder).await;
    let mut exchange = Exchange::start(world.post(Body::from_memory("x=1".into())));
    let mut peer = responder.accept().await;
    // The only worker there is: the idle connection had to go.
    kept.closed().await;
    assert_eq!(peer.request().await.stdin, b"x=1");
    drop(peer);
    assert_eq!(exchange.head().await.unwrap_err().status(), 502);
    assert!(!world.trace.is_reused() && !world.trace.is_retried());
    world.settled().await;
}

#[tokio::test]
async fn idle_and_busy_connections_are_never_more_than_the_limit() {
    let (world, responder) = keeping(2);
    let mut one = first(&world, &responder).await;
    let busy = Exchange::start(world.post(Body::empty()));
    let mut two = responder.accept().await;
    two.request().await;
    assert!(one.is_open());
    let also_busy = Exchange::start(world.post(Body::empty()));
    one.closed().await;
    let mut three = responder.accept().await;
    three.request().await;
    for peer in [&mut two, &mut three] {
        peer.say_all(b"\r\n").await;
    }
    answer(busy).await.unwrap();
    answer(also_busy).await.unwrap();
    eventually(|| world.limiter.in_flight() == 0).await;
    assert_eq!(world.limiter.idle().count(), 2);
    world.limiter.reconfigure(Some(1));
    assert_eq!(world.limiter.idle().count(), 1);
}

#[tokio::test]
async fn nothing_is_kept_after_a_failure_or_without_a_known_limit() {
    let (world, responder) = keeping(2);
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.say_all(b"no head").await;
    exchange.head().await.unwrap_err();
    peer.closed().await;
    // Bytes after END_REQUEST would be the beginning of the next answer.
    let exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    let answered = [stream(6, b"\r\n"), end(0)];
    peer.write(&[answered.concat().as_slice(), b"\x01"].concat())
        .await;
    answer(exchange).await.unwrap();
    peer.closed().await;

    let (mut world, responder) = keeping(2);
    world.limiter = Limiter::new(None);
    let exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    assert!(!peer.request().await.keep);
    peer.say_all(b"\r\n").await;
    answer(exchange).await.unwrap();
    peer.closed().await;
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_in_time() {
    let (world, responder) = keeping(2);
    let mut peer = first(&world, &responder).await;
    sleep(Duration::from_secs(9)).await;
    assert!(peer.is_open());
    sleep(Duration::from_secs(2)).await;
    peer.closed().await;
    assert_eq!(world.limiter.idle().count(), 0);
    // The reaper has ended, and comes again with the next one.
    let mut peer = first(&world, &responder).await;
    sleep(Duration::from_secs(11)).await;
    peer.closed().await;
    world.settled().await;
}
