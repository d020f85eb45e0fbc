//! HTTP/2, with TLS and without: the same answers as on HTTP/1, and streams that mean harm.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::admin::with_socket;
use crate::support::DEADLINE;
use crate::support::client::{Connection, Response};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::{FakeResponder, Gate, Script, Step};
use crate::support::nostat::{Config, Nostat, free_port};
use crate::{http2_limits, tls};

/// Answers in the words of both protocols.
pub struct Answer {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
}

pub struct Client {
    pub runtime: Runtime,
    pub requests: SendRequest<Bytes>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::connect_with(address, &h2::client::Builder::new())
    }

    /// A client of other settings, such as windows.
    pub fn connect_with(address: SocketAddr, settings: &h2::client::Builder) -> Client {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let requests = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let (requests, connection) = settings.handshake(stream).await.unwrap();
            tokio::spawn(async move { connection.await.map_err(drop) });
            requests
        });
        Client { runtime, requests }
    }

    pub fn ask(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, h2::Error> {
        self.runtime
            .block_on(async {
                timeout(
                    DEADLINE,
                    exchange(self.requests.clone(), method, path, fields, body),
                )
                .await
            })
            .expect("an answer in time")
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"").expect("an answer")
    }
}

pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://example.com{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

pub async fn exchange(
    requests: SendRequest<Bytes>,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer, h2::Error> {
    let mut requests = requests.ready().await?;
    let (response, mut stream) =
        requests.send_request(request(method, path, fields), body.is_empty())?;
    if !body.is_empty() {
        let mut left = Bytes::copy_from_slice(body);
        while !left.is_empty() {
            stream.reserve_capacity(left.len().min(16_384));
            let granted = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(granted)) = granted else { break };
            stream.send_data(left.split_to(granted.min(left.len())), left.is_empty())?;
        }
    }
    let (head, mut received) = response.await?.into_parts();
    Ok(Answer {
        status: head.status.as_u16(),
        fields: head.headers,
        body: whole(&mut received).await?,
    })
}

pub async fn whole(received: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut body = Vec::new();
    while let Some(piece) = received.data().await {
        let piece = piece?;
        received.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

pub struct Both {
    pub root: DocumentRoot,
    pub responder: FakeResponder,
    pub config: Config,
    pub h2: SocketAddr,
    pub tls: SocketAddr,
}

pub fn both(limits: &str) -> Both {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (h2, tls) = (address(), address());
    let config = Config::wordpress(&root, &responder)
        .listen(&format!("{{address: \"{h2}\", http2: only}}"))
        .listen(&format!("{{address: \"{tls}\", tls: self_signed}}"))
        .top("limits", limits);
    Both {
        root,
        responder,
        config,
        h2,
        tls,
    }
}

/// Method, path and fields.
type Asked = (&'static str, String, Vec<(&'static str, String)>);

/// A page that is worth to be compressed.
const LONG: &str = "/a-long-page/";

/// The requests that each door is asked.
fn hundred(etag: &str, modified: &str) -> Vec<Asked> {
    let mut all = Vec::new();
    let paths = [
        STYLE_PATH,
        "/wp-content/themes/t/style.css?ver=1",
        "/wp-content/missing.css",
        "/wp-content/large.bin",
        "/wp-content",
        "/wp-config.php",
        "/.git/config",
        "/a-page/",
        "/wp-content/uploads/evil.php",
        "/%2e%2e/%2e%2e/etc/passwd",
    ];
    for path in paths {
        for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
            all.push((method, path.to_owned(), Vec::new()));
        }
        let etag = ("if-none-match", etag.to_owned());
        for fields in [
            vec![etag.clone()],
            vec![("if-modified-since", modified.to_owned())],
            vec![("range", "bytes=2-4".to_owned())],
            vec![("range", "bytes=0-0,-1".to_owned())],
            vec![("range", "bytes=90000000-".to_owned())],
            vec![("if-match", "\"other\"".to_owned())],
        ] {
            all.push(("GET", path.to_owned(), fields));
        }
    }
    for coding in ["gzip", "zstd", "br"] {
        for method in ["GET", "HEAD"] {
            let fields = vec![("accept-encoding", coding.to_owned())];
            all.push((method, LONG.to_owned(), fields));
        }
    }
    all
}

/// What has to be the same, whatever the protocol: all but what belongs to the connection, and the moment.
fn comparable(
    path: &str,
    status: u16,
    mut fields: Vec<(String, String)>,
    body: &[u8],
) -> (u16, Vec<(String, String)>, Vec<u8>) {
    // PHP's answer has a length when it is whole before its head has left.
    let is_php = path == "/a-page/" || path == LONG;
    fields.retain(|(name, _)| match name.as_str() {
        "date" | "connection" | "keep-alive" | "transfer-encoding" => false,
        "content-length" => !is_php,
        _ => true,
    });
    // Each multipart answer has a boundary of its own.
    let boundary = fields.iter().find_map(|(name, value)| {
        (name == "content-type")
            .then(|| value.split_once("boundary=").map(|(_, it)| it.to_owned()))
            .flatten()
    });
    let mut body = body.to_vec();
    if let Some(boundary) = boundary {
        body = String::from_utf8_lossy(&body)
            .replace(&boundary, "BOUNDARY")
            .into_bytes();
        for (_, value) in &mut fields {
            *value = value.replace(&boundary, "BOUNDARY");
        }
    }
    fields.sort();
    (status, fields, body)
}

fn of_http1(path: &str, response: &Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let fields = response
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    comparable(path, response.status, fields.collect(), &response.body)
}

fn of_http2(path: &str, answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let fields = answer.fields.iter();
    let fields =
        fields.map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()));
    comparable(path, answer.status, fields.collect(), &answer.body)
}

#[test]
fn a_hundred_requests_get_the_same_answers_through_each_door() {
    let both = both("{}");
    both.root
        .write("wp-content/large.bin", &vec![b'x'; 300_000]);
    both.root.write("wp-content/uploads/evil.php", b"<?php");
    let page = "a word, ".repeat(3000);
    let page = format!("Content-Type: text/html\r\nETag: \"p\"\r\n\r\n{page}");
    both.responder.on(LONG, Script::answers(page));
    let server = Nostat::start(&both.config);
    let style = server.settled(STYLE_PATH);
    let requests = hundred(style.etag(), style.last_modified());
    assert_eq!(requests.len(), 106);
    let http2 = Client::connect(both.h2);
    for (method, path, fields) in &requests {
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let lane = server.connect().request(method, path, &fields, b"");
        let secure = Connection::open_tls(both.tls, tls::client("example.com", tls::BOTH))
            .request(method, path, &fields, b"");
        let second = http2.ask(method, path, &fields, b"").expect("an answer");
        let what = format!("{method} {path} {fields:?}");
        assert_eq!(
            of_http1(path, &lane),
            of_http1(path, &secure),
            "TLS: {what}"
        );
        assert_eq!(
            of_http1(path, &lane),
            of_http2(path, &second),
            "HTTP/2: {what}"
        );
    }
}

#[test]
fn bodies_reach_php_whole_whether_their_length_is_said_or_not() {
    let both = both("{max_body: 4MiB}");
    let _server = Nostat::start(&both.config);
    let client = Client::connect(both.h2);
    let body: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let length = body.len().to_string();
    for fields in [vec![], vec![("content-length", &*length)]] {
        let answer = client
            .ask("POST", "/wp-login.php", &fields, &body)
            .expect("an answer");
        assert_eq!(answer.status, 200);
        let seen = both.responder.last_request();
        assert_eq!(seen.stdin(), body);
        assert_eq!(seen.param("CONTENT_LENGTH"), length);
        assert_eq!(seen.param("SERVER_PROTOCOL"), "HTTP/2.0");
        assert_eq!(seen.param("HTTP_HOST"), "example.com");
        assert!(!seen.has("HTTP_TRANSFER_ENCODING"));
    }
    let too_large = vec![b'x'; 5 << 20];
    for fields in [vec![], vec![("content-length", "5242880")]] {
        let answer = client.ask("POST", "/wp-login.php", &fields, &too_large);
        let refused = answer.map_or(true, |answer| answer.status == 413);
        assert!(refused, "{fields:?}");
    }
    assert_eq!(both.responder.requests().len(), 2);
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    client.ask("GET", "/a/", &cookies, b"").expect("an answer");
    assert_eq!(
        both.responder.last_request().param("HTTP_COOKIE"),
        "a=1; b=2"
    );
    // An upload that ends in an empty frame is no longer for it.
    let answer = client.runtime.block_on(async {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (response, mut stream) = requests
            .send_request(request("POST", "/b/", &[]), false)
            .unwrap();
        stream
            .send_data(Bytes::from_static(b"hello"), false)
            .unwrap();
        stream.send_data(Bytes::new(), true).unwrap();
        response.await.unwrap().status().as_u16()
    });
    assert_eq!(answer, 200);
    assert_eq!(both.responder.last_request().stdin(), b"hello");
}

/// Each such request once took a worker for itself, for good.
#[test]
fn trailers_are_refused_and_hold_no_worker() {
    let both = both("{}");
    let server = Nostat::start(&both.config);
    let client = Client::connect(both.h2);
    for _ in 0..4 {
        let status = client.runtime.block_on(async {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let (response, mut stream) = requests
                .send_request(request("POST", "/a/", &[]), false)
                .unwrap();
            stream
                .send_data(Bytes::from_static(b"hello"), false)
                .unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "1".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
            timeout(DEADLINE, response).await.expect("in time")
        });
        assert_eq!(status.unwrap().status(), 400);
    }
    both.responder.assert_not_called();
    assert_eq!(client.get("/a/").status, 200);
    server.connect().get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn many_streams_at_once_are_each_answered_for_themselves() {
    let both = both("{}");
    let large: Vec<u8> = (0..400_000u32).map(|n| n.to_le_bytes()[0]).collect();
    both.root.write("wp-content/large.bin", &large);
    let _server = Nostat::start(&both.config);
    let client = Client::connect(both.h2);
    client.runtime.block_on(async {
        let asked = (0..60).map(|number| {
            let requests = client.requests.clone();
            async move {
                let (path, php) = match number % 3 {
                    0 => (STYLE_PATH.to_owned(), false),
                    1 => ("/wp-content/large.bin".to_owned(), false),
                    _ => (format!("/page-{number}/"), true),
                };
                let answer = exchange(requests, "GET", &path, &[], b"").await.unwrap();
                (path, php, answer)
            }
        });
        for (path, php, answer) in futures::future::join_all(asked).await {
            assert_eq!(answer.status, 200);
            match (php, path == STYLE_PATH) {
                (true, _) => assert_eq!(answer.body, format!("php GET {path} 0").as_bytes()),
                (false, true) => assert_eq!(answer.body, STYLE_BYTES),
                (false, false) => assert!(answer.body == large),
            }
        }
    });
}

#[test]
fn an_upload_that_stalls_ends_and_the_connection_goes_on() {
    let both = both("{body: 1s}");
    let _server = Nostat::start(&both.config);
    let client = Client::connect(both.h2);
    let status = client.runtime.block_on(async {
        timeout(DEADLINE, async {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let fields = [("content-length", "100")];
            let (response, mut stream) = requests
                .send_request(request("POST", "/a/", &fields), false)
                .unwrap();
            stream
                .send_data(Bytes::from_static(b"hello"), false)
                .unwrap();
            response.await.map(|response| response.status().as_u16())
        })
        .await
    });
    // A reset says it as well.
    assert!(matches!(status.expect("in time"), Ok(408) | Err(_)));
    assert_eq!(client.get(STYLE_PATH).body, STYLE_BYTES);
    both.responder.assert_not_called();
}

#[test]
fn an_answer_that_fails_midway_is_reset_and_never_looks_whole() {
    let both = both("{}");
    let server = Nostat::start(&both.config);
    let gate = Gate::default();
    let begun = [
        b"Content-Type: text/plain\r\n\r\n".as_slice(),
        &[b'x'; 100_000],
    ]
    .concat();
    let steps = vec![Step::Stdout(begun), Step::Wait(gate.clone()), Step::Close];
    both.responder.on("/half/", Script::new(steps));
    let client = Client::connect(both.h2);
    let cut = client.runtime.block_on(async {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (response, _) = requests
            .send_request(request("GET", "/half/", &[]), true)
            .unwrap();
        let mut received = timeout(DEADLINE, response)
            .await
            .expect("in time")
            .unwrap()
            .into_body();
        let first = timeout(DEADLINE, received.data()).await.expect("in time");
        assert!(first.expect("bytes").is_ok());
        gate.open();
        timeout(DEADLINE, whole(&mut received))
            .await
            .expect("in time")
    });
    assert!(cut.is_err());
    assert_eq!(client.get(STYLE_PATH).status, 200);
    drop(server);
}

/// A connection of raw bytes whose preface and settings are sent.
pub async fn raw(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    stream
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `GET / http example.com`, without an index of the table.
pub const HEADERS: &[u8] = b"\x82\x86\x84\x41\x0bexample.com";

#[test]
fn floods_end_their_connection_and_cost_nobody_else_anything() {
    let both = both("{request_head: 2s, head_size: 8KiB}");
    let (config, socket) = with_socket(&both.root, both.config.clone());
    let server = Nostat::start(&config);
    let client = Client::connect(both.h2);
    let rapid_reset = (0..20_000u32).flat_map(|n| {
        let stream = 2 * n + 1;
        [
            frame(1, 5, stream, HEADERS),
            frame(3, 0, stream, &[0, 0, 0, 8]),
        ]
        .concat()
    });
    let rapid_reset: Vec<u8> = rapid_reset.collect();
    let continuation: Vec<u8> = std::iter::once(frame(1, 1, 1, HEADERS))
        .chain((0..20_000).map(|_| frame(9, 0, 1, b"\x40\x01a\x01b")))
        .flatten()
        .collect();
    let settings: Vec<u8> = (0..50_000).flat_map(|_| frame(4, 0, 0, &[])).collect();
    let pings: Vec<u8> = (0..50_000).flat_map(|_| frame(6, 0, 0, &[0; 8])).collect();
    let garbage = vec![0xff; 100_000];
    let huge_head: Vec<u8> = {
        let field = [b"\x40\x01a\x7f\x81\x7f".as_slice(), &[b'x'; 16_000]].concat();
        frame(1, 5, 1, &[HEADERS, &field[..16_000]].concat())
    };
    client.runtime.block_on(async {
        for (name, flood) in [
            ("rapid reset", rapid_reset),
            ("continuation", continuation),
            ("settings", settings),
            ("pings", pings),
            ("garbage", garbage),
            ("huge head", huge_head),
        ] {
            let mut stream = raw(both.h2).await;
            // The server may end it before all is sent; it never reads what it answers.
            let _ = timeout(Duration::from_secs(5), stream.write_all(&flood)).await;
            let answer = exchange(client.requests.clone(), "GET", STYLE_PATH, &[], b"");
            let answer = timeout(DEADLINE, answer)
                .await
                .expect("in time")
                .expect("an answer");
            assert_eq!(answer.body, STYLE_BYTES, "{name}");
        }
    });
    eventually("only one connection is left", || {
        (tls::open_connections(&socket) <= 1).then_some(())
    });
    assert!(server.status_kib("VmRSS") < 200 * 1024);
}

#[test]
fn a_connection_that_says_nothing_or_no_longer_is_ended() {
    let both = both("{request_head: 1s, keep_alive: 1s}");
    let (config, socket) = with_socket(&both.root, both.config.clone());
    let _server = Nostat::start(&config);
    let _silent = Connection::open(both.h2);
    let client = Client::connect(both.h2);
    assert_eq!(client.get(STYLE_PATH).status, 200);
    eventually("both are gone", || {
        (tls::open_connections(&socket) == 0).then_some(())
    });
}

#[test]
fn a_stop_lets_streams_end_and_says_goaway() {
    let both = both("{}");
    let gate = Gate::default();
    both.responder.on(
        "/slow/",
        Script::answers_after(&gate, "Content-Type: text/plain\r\n\r\nslow"),
    );
    let mut server = Nostat::start(&both.config);
    let client = Client::connect(both.h2);
    let asked = client.runtime.spawn({
        let requests = client.requests.clone();
        async move { exchange(requests, "GET", "/slow/", &[], b"").await }
    });
    gate.wait_until_reached();
    server.signal(rustix::process::Signal::TERM);
    server.wait_for_log(0, "stopping");
    gate.open();
    let answer = client
        .runtime
        .block_on(async { timeout(DEADLINE, asked).await })
        .expect("in time")
        .unwrap()
        .expect("whole");
    assert_eq!(answer.body, b"slow");
    assert!(server.wait().success());
}

#[test]
fn a_client_with_tls_may_choose_it() {
    let both = both("{}");
    let _server = Nostat::start(&both.config);
    let mut config = tls::config(tls::BOTH);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let host = rustls::pki_types::ServerName::try_from("example.com").unwrap();
    let mut secure = rustls::ClientConnection::new(Arc::new(config), host).unwrap();
    let mut socket = std::net::TcpStream::connect(both.tls).unwrap();
    while secure.is_handshaking() {
        secure.complete_io(&mut socket).unwrap();
    }
    assert_eq!(secure.alpn_protocol(), Some(&b"h2"[..]));
}

/// What came of one stream.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Answered(u16),
    Reset,
}

/// Asks for these very bytes as `:path`.
async fn ask_raw(address: SocketAddr, path: &[u8]) -> Came {
    let mut stream = raw(address).await;
    let mut block = b"\x82\x86\x41\x0bexample.com\x04".to_vec();
    block.push(u8::try_from(path.len()).unwrap());
    block.extend_from_slice(path);
    stream.write_all(&frame(1, 5, 1, &block)).await.unwrap();
    loop {
        match http2_limits::next_frame(&mut stream).await {
            Some((1, _, 1, block)) => return Came::Answered(status_in(&block)),
            Some((3, ..)) | None => return Came::Reset,
            Some(_) => {}
        }
    }
}

/// The status that a block of fields begins with (RFC 7541, appendix A).
fn status_in(block: &[u8]) -> u16 {
    let first = block.iter().position(|byte| byte & 0xe0 != 0x20).unwrap();
    match block[first] {
        0x88 => 200,
        0x89 => 204,
        0x8a => 206,
        0x8b => 304,
        0x8c => 400,
        0x8d => 404,
        0x8e => 500,
        // A literal, whose text may be in Huffman's code: three digits are two bytes then, or a few bits more.
        0x08 | 0x48 => match block[first + 1] {
            3 => std::str::from_utf8(&block[first + 2..first + 5])
                .unwrap()
                .parse()
                .unwrap(),
            length => {
                let length = usize::from(length & 0x7f);
                digits(&block[first + 2..first + 2 + length])
            }
        },
        other => panic!("{other:#x}"),
    }
}

/// Digits in Huffman's code (RFC 7541, appendix B): 0 to 2 have five bits, 3 to 9 six.
fn digits(code: &[u8]) -> u16 {
    let mut bits = code
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| u16::from(byte >> at & 1)));
    let mut take = |count: usize| bits.by_ref().take(count).fold(0, |all, bit| all << 1 | bit);
    (0..3).fold(0, |status, _| {
        let digit = match take(5) {
            short @ 0..=2 => short,
            long => (long << 1 | take(1)) - 0x19 + 3,
        };
        status * 10 + digit
    })
}

/// Each byte in a path, at its end and in a query: what is answered is what the lane answers, or the stream is refused.
#[test]
fn no_byte_of_a_target_means_something_else_than_on_the_lane() {
    let both = both("{}");
    let server = Nostat::start(&both.config);
    let runtime = Client::connect(both.h2).runtime;
    for byte in 0..=u8::MAX {
        for (before, after) in [(STYLE_PATH, ""), ("/a/", "x"), ("/a/?q=", "x"), ("", "a")] {
            let target = [before.as_bytes(), &[byte], after.as_bytes()].concat();
            let head = [b"GET ", &*target, b" HTTP/1.1\r\nHost: example.com\r\n\r\n"].concat();
            let mut lane = server.connect();
            lane.send(&head);
            let lane = lane.read("GET").status;
            let second = runtime.block_on(ask_raw(both.h2, &target));
            let what = target.escape_ascii();
            match second {
                // `http` drops a fragment before anybody here sees it: see http2_head.
                Came::Answered(status) if byte == b'#' => {
                    assert_eq!((status, lane), (200, 400), "{what}");
                }
                Came::Answered(status) => assert_eq!(status, lane, "{what}"),
                Came::Reset if lane == 400 => {}
                // What no URI may have (RFC 3986 §2), and the lane lets pass.
                Came::Reset => assert!(b"<>\"`".contains(&byte) || byte >= 0x80, "{what}"),
            }
        }
    }
    let latin = "/wp-content/f\u{fc}r.css".as_bytes();
    both.root.write("wp-content/f\u{fc}r.css", b"umlaut");
    assert_eq!(
        runtime.block_on(ask_raw(both.h2, latin)),
        Came::Answered(200)
    );
}
