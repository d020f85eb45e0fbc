//! A request's content, and scripts that write before, while, or without reading it.

use bytes::Bytes;

use super::responder::{COMPLETE, World, answer, content, eventually, with_head};
use crate::fastcgi::exchange::Exchange;
use crate::fastcgi::spool::Body;

async fn spooled(world: &World, content: &[u8]) -> Body {
    let mut spool = world.spools.spool(u64::MAX);
    for piece in content.chunks(100_000) {
        spool.push(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    spool.finish().await.unwrap()
}

#[tokio::test]
async fn content_arrives_whole() {
    let world = World::new(1);
    let responder = world.listen();
    for length in [0, 1, 65_528, 65_529, 128 * 1024, 300_000] {
        let expected = content(length);
        let body = spooled(&world, &expected).await;
        let exchange = Exchange::start(world.post(body));
        let mut peer = responder.accept().await;
        let received = peer.request().await;
        assert!(!received.keep);
        assert!(received.stdin == expected, "{length}");
        peer.say_all(b"\r\n").await;
        answer(exchange).await.unwrap();
    }
    world.settled().await;
}

#[tokio::test]
async fn twenty_megabytes_are_echoed_piece_by_piece() {
    let mut world = World::new(1);
    world.settings.buffer = 64 * 1024;
    let responder = world.listen();
    let expected = content(20_000_000);
    let body = spooled(&world, &expected).await;
    let exchange = Exchange::start(world.post(body));
    let echo = async {
        let mut peer = responder.accept().await;
        peer.params().await;
        peer.stdout(b"X-A: b\r\n\r\n").await;
        loop {
            let (_, piece) = peer.record().await.unwrap();
            if piece.is_empty() {
                break;
            }
            peer.stdout(&piece).await;
        }
        peer.end(COMPLETE).await;
    };
    let (answer, ()) = tokio::join!(answer(exchange), echo);
    assert!(answer.unwrap().1 == expected);
    world.settled().await;
}

#[tokio::test]
async fn a_script_may_write_much_before_it_reads() {
    let world = World::new(1);
    let responder = world.listen();
    let expected = content(5_000_000);
    let body = spooled(&world, &expected).await;
    let exchange = Exchange::start(world.post(body));
    let serve = async {
        let mut peer = responder.accept().await;
        peer.stdout(&with_head("X-A: b", &expected)).await;
        let received = peer.request().await;
        assert!(received.stdin == expected);
        peer.end(COMPLETE).await;
    };
    let (answer, ()) = tokio::join!(answer(exchange), serve);
    assert!(answer.unwrap().1 == expected);
    world.settled().await;
}

#[tokio::test]
async fn an_answer_given_without_taking_the_content_counts() {
    let world = World::new(1);
    let responder = world.listen();
    for close_at_once in [true, false] {
        let body = spooled(&world, &content(5_000_000)).await;
        let exchange = Exchange::start(world.post(body));
        let mut peer = responder.accept().await;
        peer.params().await;
        peer.say_all(&with_head("Status: 403", b"no")).await;
        if close_at_once {
            drop(peer);
        }
        let (head, content) = answer(exchange).await.unwrap();
        assert_eq!((head.status, content.as_slice()), (403, &b"no"[..]));
    }
    world.settled().await;
}

#[tokio::test]
async fn an_exchange_dropped_while_content_is_sent_closes_the_connection() {
    let world = World::new(1);
    let responder = world.listen();
    let body = spooled(&world, &content(5_000_000)).await;
    let exchange = Exchange::start(world.post(body));
    let mut peer = responder.accept().await;
    peer.params().await;
    eventually(|| world.trace.sent() > 0).await;
    drop(exchange);
    peer.closed().await;
    world.settled().await;
}
