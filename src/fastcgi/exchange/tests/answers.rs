//! What the client's side sees of answers.

use super::responder::{
    COMPLETE, World, answer, content, end, eventually, rest, stream, with_head,
};
use crate::fastcgi::exchange::Exchange;

#[tokio::test]
async fn an_answer_that_is_there_whole_has_a_length() {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.answer(&with_head("X-A: b", b"hello")).await;
    let head = exchange.head().await.unwrap();
    assert_eq!((head.status, head.content_length), (200, None));
    assert_eq!(exchange.complete_length(), Some(5));
    assert_eq!(rest(&mut exchange).await.unwrap(), b"hello");
    assert_eq!(exchange.complete_length(), Some(5));
    peer.closed().await;
    world.settled().await;
    assert_eq!((world.trace.received(), world.trace.sent()), (15, 32));
    assert!(world.trace.ended().is_some() && world.trace.connected().is_some());
}

#[tokio::test]
async fn head_and_pieces_are_passed_on_before_the_end() {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.stdout(b"X-A: b\r\n").await;
    peer.stdout(b"\r\n").await;
    exchange.head().await.unwrap();
    assert_eq!(exchange.complete_length(), None);
    for piece in [&b"one"[..], b"two"] {
        peer.stdout(piece).await;
        assert_eq!(exchange.next().await.unwrap().unwrap(), piece);
    }
    peer.end(COMPLETE).await;
    assert_eq!(exchange.next().await.unwrap(), None);
    world.settled().await;
}

#[tokio::test]
async fn an_answer_without_content_ends_at_once() {
    let world = World::new(1);
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    responder.answer(b"Status: 404\n\n").await;
    let (head, content) = answer(exchange).await.unwrap();
    assert_eq!((head.status, content.len()), (404, 0));
    world.settled().await;
}

#[tokio::test]
async fn every_cut_of_an_answer_gives_the_same() {
    let world = World::new(1);
    let responder = world.listen();
    let bytes = [
        stream(7, b"notice\n"),
        stream(6, b"Content-Type: text/plain\r\nX"),
        stream(6, b"-A: b\r\n\r\nhel"),
        stream(7, b"notice"),
        stream(6, b"lo"),
        end(COMPLETE),
    ]
    .concat();
    for at in 0..bytes.len() {
        let exchange = Exchange::start(world.get());
        let mut peer = responder.accept().await;
        peer.request().await;
        let (first, second) = bytes.split_at(at);
        peer.write(first).await;
        tokio::task::yield_now().await;
        peer.write(second).await;
        let (head, content) = answer(exchange).await.unwrap();
        assert_eq!(
            (head.fields.len(), content.as_slice()),
            (2, &b"hello"[..]),
            "cut at {at}"
        );
    }
    world.settled().await;
}

#[tokio::test]
async fn stderr_before_between_and_after_leaves_the_answer_clean() {
    let world = World::new(1);
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    let noise = vec![b'!'; 200 * 1024];
    let serve = async {
        let mut peer = responder.accept().await;
        peer.request().await;
        peer.stderr(&noise).await;
        peer.stdout(b"X-A: b\r\n\r").await;
        peer.stderr(&noise).await;
        peer.stdout(b"\nhello").await;
        peer.stderr(&noise).await;
        peer.end(COMPLETE).await;
    };
    let (answer, ()) = tokio::join!(answer(exchange), serve);
    assert_eq!(answer.unwrap().1, b"hello");
    assert_eq!(world.trace.stderr(), 3 * 200 * 1024);
    world.settled().await;
}

#[tokio::test]
async fn content_goes_no_further_than_its_length() {
    let world = World::new(1);
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    responder
        .answer(&with_head("Content-Length: 5", b"hello, world"))
        .await;
    assert_eq!(answer(exchange).await.unwrap().1, b"hello");
    world.settled().await;
}

#[tokio::test]
async fn an_answer_is_over_at_its_length_and_the_script_goes_on() {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.stdout(&with_head("Content-Length: 5", b"hello")).await;
    exchange.head().await.unwrap();
    assert_eq!(exchange.complete_length(), Some(5));
    assert_eq!(rest(&mut exchange).await.unwrap(), b"hello");
    drop(exchange);
    // The script still runs: its slot is taken, and what it says is read.
    peer.stdout(&content(1_000_000)).await;
    assert_eq!(world.limiter.in_flight(), 1);
    assert!(peer.is_open());
    peer.end(COMPLETE).await;
    peer.closed().await;
    world.settled().await;
}

#[tokio::test]
async fn answers_that_may_have_no_content_have_none() {
    for (to_head, head) in [
        (true, "X-A: b"),
        (false, "Status: 204"),
        (false, "Status: 304"),
    ] {
        let world = World::new(1);
        let responder = world.listen();
        let request = if to_head { world.head() } else { world.get() };
        let mut exchange = Exchange::start(request);
        let mut peer = responder.accept().await;
        peer.request().await;
        peer.stdout(&with_head(head, &content(300_000))).await;
        exchange.head().await.unwrap();
        assert_eq!(exchange.next().await.unwrap(), None);
        assert_eq!(exchange.complete_length(), None);
        drop(exchange);
        peer.stdout(&content(300_000)).await;
        assert!(peer.is_open());
        peer.end(COMPLETE).await;
        peer.closed().await;
        world.settled().await;
    }
}

#[tokio::test]
async fn a_head_answer_keeps_its_content_length() {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.head());
    responder.answer(&with_head("Content-Length: 5", b"")).await;
    assert_eq!(exchange.head().await.unwrap().content_length, Some(5));
    assert_eq!(exchange.next().await.unwrap(), None);
    world.settled().await;
}

#[tokio::test]
async fn content_that_a_file_replaces_is_dropped() {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    responder
        .answer(&with_head("X-Accel-Redirect: /f", b"ignored"))
        .await;
    assert!(exchange.head().await.unwrap().accel_redirect.is_some());
    assert_eq!(exchange.next().await.unwrap(), None);
    world.settled().await;
}

#[tokio::test]
async fn a_slow_client_keeps_no_slot() {
    let mut world = World::new(1);
    world.settings.buffer = 64 * 1024;
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    let expected = content(5_000_000);
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.say_all(&with_head("X-A: b", &expected)).await;
    peer.closed().await;
    eventually(|| world.limiter.in_flight() == 0).await;
    assert_eq!(world.open_files(), 1);
    exchange.head().await.unwrap();
    assert!(rest(&mut exchange).await.unwrap() == expected);
    drop(exchange);
    world.settled().await;
}

#[tokio::test]
async fn a_client_that_leaves_a_finished_answer_leaves_no_file() {
    let mut world = World::new(1);
    world.settings.buffer = 64 * 1024;
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    let mut peer = responder
        .answer(&with_head("X-A: b", &content(5_000_000)))
        .await;
    peer.closed().await;
    drop(exchange);
    world.settled().await;
}

#[tokio::test]
async fn the_responder_waits_when_memory_and_file_are_full() {
    for (temp_max, head) in [
        (0, "X-A: b"),
        (300 * 1024, "X-A: b"),
        (1 << 30, "X-Accel-Buffering: no"),
        (1 << 30, "Content-Type: text/event-stream"),
    ] {
        let mut world = World::new(1);
        world.settings.buffer = 64 * 1024;
        world.settings.temp_max = temp_max;
        let responder = world.listen();
        let mut exchange = Exchange::start(world.get());
        let expected = content(3_000_000);
        let mut peer = responder.accept().await;
        peer.request().await;
        let bytes = with_head(head, &expected);
        let saying = peer.say_all(&bytes);
        tokio::pin!(saying);
        let patience = std::time::Duration::from_millis(100);
        assert!(tokio::time::timeout(patience, &mut saying).await.is_err());
        let taken = async {
            exchange.head().await.unwrap();
            rest(&mut exchange).await.unwrap()
        };
        let ((), taken) = tokio::join!(saying, taken);
        assert!(taken == expected);
        drop(exchange);
        world.settled().await;
    }
}
