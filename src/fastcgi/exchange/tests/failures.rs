//! Responders that fail, and the status that makes.

use super::responder::{World, end, stream, with_head};
use crate::fastcgi::exchange::Exchange;
use crate::fastcgi::failure::ExchangeError;
use crate::fastcgi::settings::Address;

/// The error of an exchange whose responder says `bytes` and closes.
async fn failure(bytes: &[u8]) -> ExchangeError {
    let world = World::new(1);
    let responder = world.listen();
    let mut exchange = Exchange::start(world.get());
    let mut peer = responder.accept().await;
    peer.request().await;
    peer.write(bytes).await;
    drop(peer);
    let error = exchange.head().await.unwrap_err();
    world.settled().await;
    error
}

#[tokio::test]
async fn what_is_no_answer_is_502() {
    let ended = |stdout: &[u8]| [stream(6, stdout), end(0)].concat();
    let cases: Vec<Vec<u8>> = vec![
        // A crash before and within the head, and one before the head was passed on.
        vec![],
        stream(6, b"X-A: b\r\n"),
        stream(6, b"X-A: b\r\n\r\nhalf"),
        // No FastCGI.
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        vec![1, 6, 0, 2, 0, 0, 0, 0],
        vec![1, 3, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0],
        // No head, or none to be passed on.
        end(0),
        ended(b"X-A: b\r\n"),
        ended(b"<html>\r\n\r\n"),
        ended(b"Status: 103\r\n\r\n"),
        ended(b"Status: abc\r\n\r\n"),
        ended(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        ended(&vec![b'x'; 70_000]),
        // Shorter than it says.
        ended(b"Content-Length: 5\r\n\r\nhell"),
        // CANT_MPX_CONN, UNKNOWN_ROLE, and a status that does not exist.
        end(1),
        end(3),
        end(9),
    ];
    for bytes in cases {
        let error = failure(&bytes).await;
        assert_eq!(
            (error.status(), error.retry_after()),
            (502, false),
            "{error}"
        );
    }
}

#[tokio::test]
async fn overloaded_is_503() {
    let error = failure(&end(2)).await;
    assert_eq!((error.status(), error.retry_after()), (503, true));
    let said_something = [stream(6, b"X-A: b\r\n\r\n"), end(2)].concat();
    assert_eq!(failure(&said_something).await.status(), 503);
}

#[tokio::test]
async fn a_failure_after_the_head_is_an_error_of_the_content() {
    for (head, bytes) in [
        ("X-A: b", Vec::new()),
        ("X-A: b", b"garbage!".to_vec()),
        ("X-A: b", end(2)),
        ("Content-Length: 10", end(0)),
    ] {
        let world = World::new(1);
        let responder = world.listen();
        let mut exchange = Exchange::start(world.get());
        let mut peer = responder.accept().await;
        peer.request().await;
        peer.stdout(&with_head(head, b"half")).await;
        exchange.head().await.unwrap();
        assert_eq!(exchange.next().await.unwrap().unwrap(), b"half"[..]);
        peer.write(&bytes).await;
        drop(peer);
        exchange.next().await.unwrap_err();
        assert_eq!(exchange.complete_length(), None);
        world.settled().await;
    }
}

#[tokio::test]
async fn a_responder_that_is_not_there_is_502() {
    let world = World::new(1);
    let missing = Exchange::start(world.get()).head().await.unwrap_err();
    assert_eq!((missing.status(), missing.retry_after()), (502, false));

    // The file is there, and nobody listens.
    drop(world.listen());
    let refused = Exchange::start(world.get()).head().await.unwrap_err();
    assert_eq!(refused.status(), 502);
    world.settled().await;

    let mut world = World::new(1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.settings.address = Address::Tcp(listener.local_addr().unwrap());
    drop(listener);
    let refused = Exchange::start(world.get()).head().await.unwrap_err();
    assert_eq!(refused.status(), 502);
    world.settled().await;
}

#[tokio::test]
async fn an_exchange_dropped_before_or_within_the_answer_closes_the_connection() {
    for answered in [false, true] {
        let world = World::new(1);
        let responder = world.listen();
        let mut exchange = Exchange::start(world.get());
        let mut peer = responder.accept().await;
        peer.request().await;
        if answered {
            peer.stdout(&with_head("X-A: b", b"half")).await;
            exchange.head().await.unwrap();
        }
        drop(exchange);
        peer.closed().await;
        world.settled().await;
    }
}

#[test]
fn a_runtime_that_ends_cuts_the_exchange_off() {
    use tokio::runtime::Builder;
    let client = Builder::new_current_thread().build().unwrap();
    for ran in [false, true] {
        let world = World::new(1);
        let server = Builder::new_current_thread().enable_all().build().unwrap();
        let mut exchange = {
            let _entered = server.enter();
            Exchange::start(world.get())
        };
        if ran {
            // Up to the connection, where it waits for an answer.
            server.block_on(async { drop(world.listen().accept().await) });
        }
        drop(server);
        let error = client.block_on(exchange.head()).unwrap_err();
        assert_eq!(error.status(), 502);
        assert_eq!(world.limiter.in_flight(), 0);
    }
}
