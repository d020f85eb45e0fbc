//! Time limits, on a clock that jumps to the next one.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::responder::{COMPLETE, World, answer, content, rest, with_head};
use crate::fastcgi::exchange::Exchange;
use crate::fastcgi::failure::ExchangeError;
use crate::fastcgi::settings::Address;
use crate::fastcgi::spool::Body;

#[tokio::test(start_paused = true)]
async fn silence_before_the_first_byte_is_504() {
    let world = World::new(1);
    let responder = world.listen();
    let start = Instant::now();
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    let error = exchange.head().await.unwrap_err();
    assert!(matches!(error, ExchangeError::FirstByteTimeout));
    assert_eq!((error.status(), error.retry_after()), (504, false));
    assert!(start.elapsed() >= world.settings.first_byte);
    peer.closed().await;
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn silence_within_the_head_is_504_and_within_the_content_an_error() {
    for (said, head_ends) in [(&b"X-A: b\r\n"[..], false), (b"X-A: b\r\n\r\nhalf", true)] {
        let world = World::new(1);
        let responder = world.listen();
        let mut exchange = Exchange::start(world.get());
        let mut peer = responder.accept().await;
        peer.request().await;
        peer.stdout(said).await;
        let error = if head_ends {
            exchange.head().await.unwrap();
            rest(&mut exchange).await.unwrap_err()
        } else {
            exchange.head().await.unwrap_err()
        };
        assert!(matches!(error, ExchangeError::BetweenBytesTimeout));
        assert_eq!(error.status(), 504);
        peer.closed().await;
        world.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_start_the_time_anew() {
    let world = World::new(1);
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    let pause = world.settings.first_byte * 2 / 3;
    let serve = async {
        let mut peer = responder.accept().await;
        peer.request().await;
        for _ in 0..4 {
            sleep(pause).await;
            peer.stderr(b"still here\n").await;
        }
        sleep(pause).await;
        peer.stdout(b"X-A: b\r\n\r\n").await;
        for _ in 0..4 {
            sleep(pause).await;
            peer.stdout(b"x").await;
        }
        sleep(pause).await;
        peer.end(COMPLETE).await;
    };
    let (answer, ()) = tokio::join!(answer(exchange), serve);
    assert_eq!(answer.unwrap().1, b"xxxx");
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn content_being_taken_is_a_sign_of_life_and_content_not_taken_is_none() {
    let world = World::new(1);
    let responder = world.listen();
    let pause = world.settings.first_byte * 2 / 3;
    let body = || Body::from_memory(content(2_000_000).into());

    let exchange = Exchange::start(world.post(body()));
    let serve = async {
        let mut peer = responder.accept().await;
        peer.params().await;
        loop {
            sleep(pause).await;
            // Enough for the gateway's side to find room again.
            for _ in 0..8 {
                if peer.record().await.unwrap().1.is_empty() {
                    return peer.say_all(b"\r\n").await;
                }
            }
        }
    };
    let (answer, ()) = tokio::join!(answer(exchange), serve);
    answer.unwrap();

    let mut exchange = Exchange::start(world.post(body()));
    let mut peer = responder.accept().await;
    peer.params().await;
    assert_eq!(exchange.head().await.unwrap_err().status(), 504);
    peer.closed().await;
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_not_held_against_the_responder() {
    let mut world = World::new(1);
    world.settings.buffer = 1000;
    world.settings.temp_max = 0;
    let responder = world.listen();
    let expected = content(2_000_000);
    let mut exchange = Exchange::start(world.get());
    let serve = async {
        let mut peer = responder.accept().await;
        peer.request().await;
        peer.say_all(&with_head("X-A: b", &expected)).await;
    };
    let take = async {
        exchange.head().await.unwrap();
        sleep(world.settings.between_bytes * 10).await;
        rest(&mut exchange).await.unwrap()
    };
    let (taken, ()) = tokio::join!(take, serve);
    assert!(taken == expected);
    drop(exchange);
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_slot_is_bounded() {
    let world = World::new(1);
    let responder = world.listen();
    let first = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    let error = Exchange::start(world.get()).head().await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (503, true));
    peer.say_all(b"\r\n").await;
    answer(first).await.unwrap();
    world.settled().await;
}

#[tokio::test(start_paused = true)]
async fn a_script_that_goes_on_after_its_answer_is_bounded_too() {
    let world = World::new(1);
    let responder = world.listen();
    let exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.stdout(&with_head("Content-Length: 2", b"hi")).await;
    assert_eq!(answer(exchange).await.unwrap().1, b"hi");
    peer.closed().await;
    world.settled().await;
}

#[tokio::test]
async fn a_connect_that_hangs_is_504() {
    let mut world = World::new(64);
    world.settings.connect = Duration::from_millis(20);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    world.settings.address = Address::Tcp(listener.local_addr().unwrap());
    // The first ones fill the backlog; then the kernel drops the handshake.
    let mut held = Vec::new();
    let error = loop {
        let mut exchange = Exchange::start(world.get());
        let patience = tokio::time::timeout(Duration::from_millis(500), exchange.head()).await;
        match patience {
            Ok(head) => break head.unwrap_err(),
            Err(_) => held.push(exchange),
        }
        assert!(held.len() < 16, "the backlog holds one or two");
    };
    assert!(matches!(error, ExchangeError::ConnectTimeout));
    assert_eq!((error.status(), error.retry_after()), (504, false));
    drop((held, listener));
    world.settled().await;
}
