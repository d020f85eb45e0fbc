#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap fails the test"
)]

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::edge::tunnel::{Grant, SILENCE, Waits};

const LONGEST: Duration = Duration::from_secs(30);
const PATIENCE: Patience = Patience {
    silence: LONGEST,
    rate: 0,
};
const HEAD: &[u8] = b"POST /x HTTP/1.1\r\nHost: a\r\n\r\n";

fn lent(incoming: &[u8], framing: Framing) -> (DuplexStream, HandedStream, Home) {
    let (client, server) = tokio::io::duplex(1 << 20);
    let carried = Carried::new(
        Box::new(server),
        BytesMut::from(incoming),
        PATIENCE,
        PATIENCE,
    );
    let (stream, home) = HandedStream::lend(
        carried,
        Bytes::from_static(HEAD),
        framing,
        1 << 20,
        OnEnd::Answer,
    );
    (client, stream, home)
}

async fn read_exactly(stream: &mut HandedStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Polls once; `None` while pending.
async fn poll_read_once(stream: &mut HandedStream) -> Option<io::Result<usize>> {
    let mut room = [0; 64];
    std::future::poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut room);
        Poll::Ready(match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
            Poll::Ready(result) => Some(result.map(|()| buffer.filled().len())),
            Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn the_next_request_is_kept_and_comes_home() {
    let (mut client, mut stream, home) = lent(b"12345GET /next", Framing::Length(5));
    assert_eq!(
        read_exactly(&mut stream, HEAD.len() + 5).await,
        [HEAD, b"12345"].concat()
    );
    client.write_all(b" HTTP/1.1\r\n").await.unwrap();
    assert!(poll_read_once(&mut stream).await.is_none());
    assert!(home.take().is_none());
    drop(stream);
    let carried = home.take().unwrap();
    assert!(carried.at_request_boundary);
    assert_eq!(&carried.incoming[..], b"GET /next HTTP/1.1\r\n");
}

#[tokio::test]
async fn a_body_half_read_is_no_request_boundary() {
    let (_client, mut stream, home) = lent(b"123", Framing::Length(5));
    read_exactly(&mut stream, HEAD.len() + 3).await;
    drop(stream);
    assert!(!home.take().unwrap().at_request_boundary);
}

#[tokio::test]
async fn a_client_that_ends_within_the_body_is_seen() {
    let (client, mut stream, _home) = lent(b"123", Framing::Length(5));
    read_exactly(&mut stream, HEAD.len() + 3).await;
    drop(client);
    assert_eq!(poll_read_once(&mut stream).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn chunks_pass_as_they_are_and_end_where_they_end() {
    let body = b"3\r\nabc\r\n0\r\n\r\n";
    let (_client, mut stream, home) = lent(&[body, &b"GET /"[..]].concat(), Framing::Chunked);
    let read = read_exactly(&mut stream, HEAD.len() + body.len()).await;
    assert_eq!(read, [HEAD, body].concat());
    assert!(poll_read_once(&mut stream).await.is_none());
    drop(stream);
    assert_eq!(&home.take().unwrap().incoming[..], b"GET /");
}

#[tokio::test]
async fn bad_chunks_are_an_error() {
    let (_client, mut stream, _home) = lent(b"xyz\r\n", Framing::Chunked);
    read_exactly(&mut stream, HEAD.len()).await;
    let error = poll_read_once(&mut stream).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn an_end_while_the_answer_is_made_is_no_abort() {
    let (client, mut stream, home) = lent(b"", Framing::None);
    read_exactly(&mut stream, HEAD.len()).await;
    drop(client);
    assert!(poll_read_once(&mut stream).await.is_none());
    drop(stream);
    assert!(home.take().unwrap().ended);
}

#[tokio::test]
async fn an_end_is_an_abort_where_the_site_says_so() {
    let (client, server) = tokio::io::duplex(64);
    let carried = Carried::new(Box::new(server), BytesMut::new(), PATIENCE, PATIENCE);
    let (mut stream, _home) =
        HandedStream::lend(carried, Bytes::new(), Framing::None, 0, OnEnd::Abort);
    drop(client);
    assert_eq!(poll_read_once(&mut stream).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn no_more_is_kept_than_the_limit() {
    let (mut client, mut stream, home) = lent(b"", Framing::None);
    read_exactly(&mut stream, HEAD.len()).await;
    client
        .write_all(&vec![b'x'; 4 * EARLY_LIMIT])
        .await
        .unwrap();
    for _ in 0..16 {
        assert!(poll_read_once(&mut stream).await.is_none());
    }
    drop(stream);
    assert_eq!(home.take().unwrap().incoming.len(), EARLY_LIMIT);
}

#[tokio::test]
async fn small_writes_leave_together_and_nothing_is_lost() {
    let (mut client, mut stream, home) = lent(b"", Framing::None);
    stream.write_all(b"head").await.unwrap();
    stream.write_all(b"body").await.unwrap();
    let large = vec![b'z'; 3 * WRITE_BUFFER];
    stream.write_all(&large).await.unwrap();
    stream.write_all(b"tail").await.unwrap();
    drop(stream);
    home.take().unwrap().flush().await.unwrap();
    drop(home);
    let mut got = vec![0; 8 + large.len() + 4];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(got, [b"headbody".as_slice(), &large, b"tail"].concat());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    let (_client, server) = tokio::io::duplex(16);
    let carried = Carried::new(Box::new(server), BytesMut::new(), PATIENCE, PATIENCE);
    let (mut stream, _home) =
        HandedStream::lend(carried, Bytes::new(), Framing::None, 0, OnEnd::Answer);
    let error = stream
        .write_all(&vec![b'z'; 2 * WRITE_BUFFER])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

proptest! {
    /// However the client's bytes are cut, Pingora sees the request, and the lane the rest.
    #[test]
    fn any_cut_gives_the_same(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        next in proptest::collection::vec(any::<u8>(), 0..300),
        cuts in proptest::collection::vec(1usize..40, 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut stream, home) = lent(b"", Framing::Length(body.len() as u64));
            let all = [body.clone(), next.clone()].concat();
            let mut left = &all[..];
            let mut seen = Vec::new();
            let mut cuts = cuts.iter().cycle();
            while !left.is_empty() {
                let (piece, rest) = left.split_at(left.len().min(*cuts.next().unwrap()));
                client.write_all(piece).await.unwrap();
                left = rest;
                let mut room = [0; 37];
                loop {
                    let read = std::future::poll_fn(|cx| {
                        let mut buffer = ReadBuf::new(&mut room);
                        Poll::Ready(match Pin::new(&mut stream).poll_read(cx, &mut buffer) {
                            Poll::Ready(result) => { result.unwrap(); buffer.filled().len() }
                            Poll::Pending => 0,
                        })
                    }).await;
                    if read == 0 {
                        break;
                    }
                    seen.extend_from_slice(&room[..read]);
                }
            }
            while seen.len() < HEAD.len() {
                seen.extend(read_exactly(&mut stream, HEAD.len() - seen.len()).await);
            }
            drop(stream);
            let carried = home.take().unwrap();
            assert_eq!(seen, [HEAD, &body].concat());
            assert_eq!(&carried.incoming[..], &next[..]);
            assert!(carried.at_request_boundary);
        });
    }
}

fn asking(incoming: &[u8]) -> (DuplexStream, HandedStream, Home, Grant) {
    let (client, mut stream, home) = lent(incoming, Framing::None);
    let grant = Grant::default();
    let waits = Waits {
        first_byte: LONGEST,
        between_bytes: LONGEST / 2,
    };
    stream.may_become(Tunnel::asked_for(grant.clone(), waits));
    (client, stream, home, grant)
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_gives_out_nothing_before_it_is_granted_and_then_all() {
    let (mut client, mut stream, home, grant) = asking(b"early ");
    read_exactly(&mut stream, HEAD.len()).await;
    client.write_all(b"and more").await.unwrap();
    assert!(poll_read_once(&mut stream).await.is_none());
    grant.give();
    assert_eq!(read_exactly(&mut stream, 14).await, b"early and more");
    // Nothing is held back in a tunnel.
    stream.write_all(b"x").await.unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    drop(stream);
    assert!(!home.take().unwrap().at_request_boundary);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_ends_by_an_hour_of_silence_in_both_directions() {
    let (mut client, mut stream, _home, grant) = asking(b"");
    read_exactly(&mut stream, HEAD.len()).await;
    grant.give();
    for _ in 0..3 {
        assert!(poll_read_once(&mut stream).await.is_none());
        tokio::time::advance(SILENCE - Duration::from_secs(1)).await;
        client.write_all(b"a").await.unwrap();
        assert_eq!(read_exactly(&mut stream, 1).await, b"a");
        tokio::time::advance(SILENCE - Duration::from_secs(1)).await;
        stream.write_all(b"b").await.unwrap();
    }
    tokio::time::advance(SILENCE + Duration::from_secs(1)).await;
    assert_eq!(poll_read_once(&mut stream).await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_is_not_granted_in_time_is_an_error() {
    let (_client, mut stream, _home, _grant) = asking(b"");
    read_exactly(&mut stream, HEAD.len()).await;
    assert!(poll_read_once(&mut stream).await.is_none());
    tokio::time::advance(LONGEST + Duration::from_secs(1)).await;
    let error = poll_read_once(&mut stream).await.unwrap().unwrap_err();
    assert!(error.get_ref().unwrap().is::<Silent>());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_101_may_take_as_long_as_any() {
    let (_client, mut stream, home, grant) = asking(b"");
    read_exactly(&mut stream, HEAD.len()).await;
    grant.refuse();
    for _ in 0..9 {
        assert!(poll_read_once(&mut stream).await.is_none());
        tokio::time::advance(LONGEST / 3).await;
        stream.write_all(b"a piece").await.unwrap();
    }
    tokio::time::advance(LONGEST).await;
    let error = poll_read_once(&mut stream).await.unwrap().unwrap_err();
    assert!(error.get_ref().unwrap().is::<Silent>());
    drop(stream);
    assert!(home.take().unwrap().at_request_boundary);
}
