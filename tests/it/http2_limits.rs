//! HTTP/2: clients that are silent, slow or gone, and what they may hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admin::{ask, sample, with_socket};
use crate::http2::{Both, Client, HEADERS, both, frame, raw, request, whole};
use crate::support::DEADLINE;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_origin::FakeOrigin;
use crate::support::fake_responder::Script;
use crate::support::nostat::{Config, Nostat, free_port};
use crate::tls::open_connections;

const LARGE: &str = "/wp-content/large.bin";
const HTML: &str = "Content-Type: text/html; charset=UTF-8\r\n";

/// A frame as it came: kind, flags, stream, payload.
pub type Frame = (u8, u8, u32, Vec<u8>);

/// The next frame; none at the end.
pub async fn next_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    timeout(DEADLINE, stream.read_exact(&mut head))
        .await
        .expect("in time")
        .ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], id, payload))
}

fn limited(socket: &Path, limit: &str) -> u64 {
    let metrics = ask(socket, "GET", "/metrics").1;
    let name = format!("nostat_limited_total{{limit=\"{limit}\"}}");
    sample(&metrics, &name).unwrap()
}

/// Answers that have been handed over whole, or given up.
fn answered(socket: &Path) -> u64 {
    let metrics = ask(socket, "GET", "/metrics").1;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("nostat_request_duration_seconds_count"));
    counts
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

struct Served {
    both: Both,
    server: Nostat,
    socket: std::path::PathBuf,
}

fn served(limits: &str) -> Served {
    let both = both(limits);
    let (config, socket) = with_socket(&both.root, both.config.clone());
    let server = Nostat::start(&config);
    Served {
        both,
        server,
        socket,
    }
}

/// A client whose windows have room for so many bytes.
fn narrow(address: SocketAddr, window: u32) -> Client {
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(window);
    Client::connect_with(address, &settings)
}

#[test]
fn idle_connections_leave_their_places_to_others_when_these_run_out() {
    let served = served("{connections: 16}");
    let _clients: Vec<Client> = (0..14)
        .map(|_| {
            let client = Client::connect(served.both.h2);
            assert_eq!(client.get(STYLE_PATH).status, 200);
            client
        })
        .collect();
    // Far sooner than the 75 s that an idle connection may have.
    eventually("there is room", || {
        (open_connections(&served.socket) < 14).then_some(())
    });
}

#[test]
fn a_connection_without_a_request_has_the_time_of_a_head() {
    let served = served("{keep_alive: 10m, request_head: 1s}");
    Client::connect(served.both.h2).runtime.block_on(async {
        let mut stream = raw(served.both.h2).await;
        let mut goaway = false;
        while let Some((kind, ..)) = next_frame(&mut stream).await {
            goaway |= kind == 7;
        }
        assert!(goaway);
    });
}

#[test]
fn an_idle_connection_ends_with_the_number_of_its_last_stream() {
    let served = served("{keep_alive: 1s}");
    Client::connect(served.both.h2).runtime.block_on(async {
        let mut stream = raw(served.both.h2).await;
        stream.write_all(&frame(1, 5, 1, HEADERS)).await.unwrap();
        let mut goaway = None;
        while let Some((kind, _, _, payload)) = next_frame(&mut stream).await {
            if kind == 7 {
                goaway = Some(payload);
            }
        }
        // Stream 1, and no error.
        assert_eq!(goaway, Some(vec![0, 0, 0, 1, 0, 0, 0, 0]));
    });
}

/// Its answer to our PING was once waited for until `limits.drain` was over.
#[test]
fn a_stop_does_not_wait_for_a_client_that_confirms_nothing() {
    let Served {
        both,
        mut server,
        socket,
    } = served("{drain: 10m, request_head: 10m}");
    let runtime = Client::connect(both.h2).runtime;
    let (mut idle, _silent) = runtime.block_on(async {
        let mut idle = raw(both.h2).await;
        idle.write_all(&frame(1, 5, 1, HEADERS)).await.unwrap();
        (idle, TcpStream::connect(both.h2).await.unwrap())
    });
    eventually("its request has been answered", || {
        (answered(&socket) > 0 && open_connections(&socket) >= 2).then_some(())
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let goaways = runtime.block_on(async {
        let mut goaways = Vec::new();
        while let Some((kind, _, _, payload)) = next_frame(&mut idle).await {
            if kind == 7 {
                goaways.push(payload[..4].to_vec());
            }
        }
        goaways
    });
    assert_eq!(goaways, [vec![0x7f, 0xff, 0xff, 0xff], vec![0, 0, 0, 1]]);
}

/// A raw client that takes nothing, with room in its windows for all there is.
async fn reads_nothing(address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE, and the connection's own.
    let window = [&[0, 4][..], &(1u32 << 30).to_be_bytes()].concat();
    stream.write_all(&frame(4, 0, 0, &window)).await.unwrap();
    let more = (1u32 << 30).to_be_bytes();
    stream.write_all(&frame(8, 0, 0, &more)).await.unwrap();
    stream
}

/// HEADERS of `GET /wp-content/large.bin`.
fn asks_for_large(stream: u32) -> Vec<u8> {
    let mut block = b"\x82\x86\x41\x0bexample.com\x04".to_vec();
    block.push(u8::try_from(LARGE.len()).unwrap());
    block.extend_from_slice(LARGE.as_bytes());
    frame(1, 5, stream, &block)
}

#[test]
fn a_connection_is_not_idle_while_an_answer_has_not_been_taken() {
    let served = served("{keep_alive: 1s, send: 10m}");
    // Small ones of memory are handed over whole, and together they are far more than sockets have room for.
    let large = vec![b'x'; 16_000];
    served.both.root.write(&LARGE[1..], &large);
    for _ in 0..3 {
        served.server.get(LARGE).assert(200, &large);
    }
    let runtime = Client::connect(served.both.h2).runtime;
    let before = answered(&served.socket);
    let mut slow = runtime.block_on(async {
        let mut stream = reads_nothing(served.both.h2).await;
        let all: Vec<u8> = (0..90)
            .flat_map(|number| asks_for_large(2 * number + 1))
            .collect();
        stream.write_all(&all).await.unwrap();
        stream
    });
    eventually("all are with the connection", || {
        (answered(&served.socket) >= before + 90).then_some(())
    });
    // From now on twice as long as another connection may be idle.
    runtime.block_on(async {
        for _ in 0..2 {
            let mut other = raw(served.both.h2).await;
            other.write_all(&frame(1, 5, 1, HEADERS)).await.unwrap();
            while next_frame(&mut other).await.is_some() {}
        }
    });
    let bytes = runtime.block_on(async {
        let (mut bytes, mut ends) = (0, 0);
        while ends < 90 {
            let (kind, flags, _, payload) = next_frame(&mut slow).await.expect("all of it");
            if kind == 0 {
                bytes += payload.len();
                ends += u32::from(flags & 1);
            }
        }
        bytes
    });
    assert_eq!(bytes, 90 * large.len());
}

#[test]
fn who_takes_nothing_of_an_answer_is_cut_and_counted() {
    let served = served("{send: 1s, keep_alive: 10m}");
    served.both.root.write(&LARGE[1..], &vec![b'x'; 16 << 20]);
    let page = format!("{HTML}\r\n{}", "x".repeat(300_000));
    served.both.responder.on("/long/", Script::answers(page));
    // The socket takes nothing: the connection ends.
    let runtime = Client::connect(served.both.h2).runtime;
    let _held = runtime.block_on(async {
        let mut stream = reads_nothing(served.both.h2).await;
        stream.write_all(&asks_for_large(1)).await.unwrap();
        stream
    });
    eventually("it is counted", || {
        (limited(&served.socket, "send") >= 1).then_some(())
    });
    eventually("it is gone", || {
        (open_connections(&served.socket) == 0).then_some(())
    });
    // There is no room in the stream's window: the stream is reset, the connection goes on.
    let client = narrow(served.both.h2, 0);
    for path in [LARGE, STYLE_PATH, "/long/"] {
        let before = limited(&served.socket, "send");
        let ended = client.runtime.block_on(async {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let (response, _) = requests
                .send_request(request("GET", path, &[]), true)
                .unwrap();
            let response = timeout(DEADLINE, response).await.expect("a head").unwrap();
            let mut body = response.into_body();
            timeout(DEADLINE, body.data()).await.expect("in time")
        });
        assert!(matches!(ended, Some(Err(_))), "{path}: {ended:?}");
        eventually(path, || {
            (limited(&served.socket, "send") > before).then_some(())
        });
    }
    assert_eq!(
        client.ask("HEAD", STYLE_PATH, &[], b"").unwrap().status,
        200
    );
    eventually("PHP is free", || {
        (served.both.responder.running() == 0).then_some(())
    });
}

#[test]
fn who_takes_an_answer_by_drops_is_reset_and_counted() {
    let served = served("{send: 1s, send_rate: 64KiB}");
    served.both.root.write(&LARGE[1..], &vec![b'x'; 2 << 20]);
    let page = format!("{HTML}\r\n{}", "x".repeat(300_000));
    served.both.responder.on("/long/", Script::answers(page));
    let client = narrow(served.both.h2, 100);
    for path in [LARGE, "/long/"] {
        let before = limited(&served.socket, "send_rate");
        let taken = client.runtime.block_on(async {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let (response, _) = requests
                .send_request(request("GET", path, &[]), true)
                .unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut taken = 0;
            // Never silent for a second.
            while let Some(Ok(piece)) = timeout(DEADLINE, body.data()).await.expect("in time") {
                taken += piece.len();
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = body.flow_control().release_capacity(piece.len());
            }
            taken
        });
        assert!(taken < 300_000, "{path}: {taken}");
        eventually(path, || {
            (limited(&served.socket, "send_rate") > before).then_some(())
        });
    }
}

/// A page is made for many: one client's window is no reason that the others wait.
#[test]
fn who_takes_nothing_holds_up_nobody_who_waits_for_the_same_page() {
    let both = both("{send: 10m}");
    let config = both.config.clone().site("page_cache", "memory");
    let _server = Nostat::start(&config);
    let page = "x".repeat(400_000);
    both.responder
        .on("/about/", Script::answers(format!("{HTML}\r\n{page}")));
    let client = narrow(both.h2, 1000);
    let mut body = client.runtime.block_on(async {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (response, _) = requests
            .send_request(request("GET", "/about/", &[]), true)
            .unwrap();
        response.await.unwrap().into_body()
    });
    let other = Client::connect(both.h2).get("/about/");
    assert_eq!((other.status, other.body.len()), (200, page.len()));
    // The first has its answer whole as well, when it wants it.
    let taken = client
        .runtime
        .block_on(async { timeout(DEADLINE, whole(&mut body)).await });
    assert_eq!(taken.expect("in time").expect("whole").len(), page.len());
    assert_eq!(both.responder.requests().len(), 1);
}

fn before_origin(limits: &str) -> (DocumentRoot, FakeOrigin, Config, SocketAddr) {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|request| {
        let body = format!("{} bytes", request.body.len());
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    });
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = Config::preset("wordpress", root.path())
        .site("origin", &format!("[\"{}\"]", origin.address()))
        .listen(&format!("{{address: \"{address}\", http2: only}}"))
        .top("limits", limits);
    (root, origin, config, address)
}

/// How a client sends a body.
enum Upload {
    /// Nothing after the first bytes.
    Stalls,
    /// A byte now and then.
    Drips,
    /// An empty frame at its end.
    EndsEmpty,
    /// Trailers at its end.
    Trailers,
}

/// The status, or none for a reset.
fn upload(client: &Client, fields: &[(&str, &str)], how: &Upload) -> Option<u16> {
    client.runtime.block_on(async {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (response, mut stream) = requests
            .send_request(request("POST", "/up", fields), false)
            .unwrap();
        let hello = Bytes::from_static(b"hello");
        stream.send_data(hello, false).unwrap();
        match how {
            Upload::Stalls => {}
            Upload::Drips => {
                tokio::spawn(async move {
                    while stream.send_data(Bytes::from_static(b"x"), false).is_ok() {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                });
                let response = timeout(DEADLINE, response).await.expect("in time");
                return response.ok().map(|it| it.status().as_u16());
            }
            Upload::EndsEmpty => stream.send_data(Bytes::new(), true).unwrap(),
            Upload::Trailers => {
                let mut trailers = HeaderMap::new();
                trailers.insert("x-sum", "1".parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            }
        }
        let response = timeout(DEADLINE, response).await.expect("in time");
        response.ok().map(|it| it.status().as_u16())
    })
}

#[test]
fn an_upload_to_an_origin_that_stalls_or_drips_ends_and_is_never_taken_for_whole() {
    let limits = "{body: 1s, body_rate: 64KiB, drain: 1s}";
    let (root, origin, config, address) = before_origin(limits);
    let (config, socket) = with_socket(&root, config);
    let _server = Nostat::start(&config);
    let client = Client::connect(address);
    for (limit, how) in [("body", Upload::Stalls), ("body_rate", Upload::Drips)] {
        for fields in [vec![("content-length", "100000")], vec![]] {
            let before = limited(&socket, limit);
            assert_eq!(upload(&client, &fields, &how), Some(408), "{limit}");
            eventually(limit, || (limited(&socket, limit) > before).then_some(()));
        }
    }
    // The connection goes on, and the origin has seen nothing that looks whole.
    assert_eq!(client.get(STYLE_PATH).body, STYLE_BYTES);
    assert!(origin.requests().is_empty());
}

#[test]
fn an_upload_to_an_origin_that_ends_in_an_empty_frame_arrives_once_and_whole() {
    let (_root, origin, config, address) = before_origin("{}");
    let _server = Nostat::start(&config);
    let client = Client::connect(address);
    for fields in [vec![("content-length", "5")], vec![]] {
        assert_eq!(upload(&client, &fields, &Upload::EndsEmpty), Some(200));
        let seen = origin.requests();
        assert_eq!(seen.last().unwrap().body, b"hello");
        // What came behind it on the same connection to the origin is the next request, not a second end.
        let answer = client.ask("POST", "/up", &[], b"again").unwrap();
        assert_eq!((answer.status, &*answer.body), (200, &b"5 bytes"[..]));
    }
    assert_eq!(origin.requests().len(), 4);
}

#[test]
fn trailers_of_an_upload_to_an_origin_are_refused() {
    let (_root, origin, config, address) = before_origin("{}");
    let server = Nostat::start(&config);
    let client = Client::connect(address);
    for _ in 0..4 {
        assert_eq!(upload(&client, &[], &Upload::Trailers), Some(400));
    }
    assert!(origin.requests().is_empty());
    assert_eq!(client.get(STYLE_PATH).status, 200);
    server.connect().get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn a_connection_that_has_had_its_requests_says_so_and_ends() {
    let served = served("{requests_per_connection: 3}");
    let client = Client::connect(served.both.h2);
    for _ in 0..3 {
        assert_eq!(client.get(STYLE_PATH).status, 200);
    }
    eventually("it is gone", || {
        (open_connections(&served.socket) == 0).then_some(())
    });
    assert_eq!(limited(&served.socket, "requests_per_connection"), 1);
}

#[test]
fn the_limits_of_a_request_are_those_of_the_lane() {
    let limits = "{head_size: 2KiB, url: 1KiB, headers: 5, max_body: 1KiB}";
    let served = served(limits);
    let client = Client::connect(served.both.h2);
    let status = |method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]| {
        let answer = client.ask(method, path, fields, body);
        answer.map(|answer| answer.status).ok()
    };
    let long = format!("/{}", "x".repeat(1500));
    assert_eq!(status("GET", &long, &[], b""), Some(414));
    assert_eq!(limited(&served.socket, "url"), 1);
    let many: Vec<(&str, &str)> = vec![("a", "b"); 9];
    assert_eq!(status("GET", "/", &many, b""), Some(431));
    assert_eq!(limited(&served.socket, "headers"), 1);
    let large = "x".repeat(3000);
    assert_eq!(status("GET", "/", &[("large", &large)], b""), Some(431));
    let length = [("content-length", "2000")];
    assert_eq!(status("POST", "/", &length, &[b'x'; 2000]), Some(413));
    assert_eq!(limited(&served.socket, "max_body"), 1);
    drop(served.server);
}

/// The samples of a family, by their labels.
fn samples(socket: &Path, family: &str) -> BTreeMap<String, u64> {
    let metrics = ask(socket, "GET", "/metrics").1;
    let lines = metrics.lines().filter(|line| line.starts_with(family));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// What has been added to a family.
fn added(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let added = after.iter().map(|(name, value)| {
        let before = before.get(name).copied().unwrap_or_default();
        (name.clone(), value - before)
    });
    added.filter(|(_, added)| *added > 0).collect()
}

/// Method, path, fields and body.
type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8]);

#[test]
fn the_log_and_the_counters_say_of_a_request_what_they_say_of_one_on_the_lane() {
    let both = both("{}");
    let (config, socket) = with_socket(&both.root, both.config.clone());
    let config = config
        .top("access_log", "{path: \"-\", format: json}")
        .top("open_file_cache", "{valid: 60s, errors_valid: 60s}");
    both.root.write(&LARGE[1..], &vec![b'x'; 300_000]);
    let server = Nostat::start(&config);
    server.settled(STYLE_PATH);
    server.settled(LARGE);
    server.get("/wp-content/gone.css");
    let client = Client::connect(both.h2);
    let agent = [
        ("user-agent", "a \"b\""),
        ("referer", "http://example.org/"),
    ];
    let range = [("range", "bytes=2-4")];
    let unmodified = [("if-none-match", "*")];
    let requests: [Asked<'_>; 9] = [
        ("GET", STYLE_PATH, &agent, b""),
        ("HEAD", STYLE_PATH, &[], b""),
        ("GET", STYLE_PATH, &range, b""),
        ("GET", STYLE_PATH, &unmodified, b""),
        ("GET", LARGE, &[], b""),
        ("GET", "/wp-content/gone.css", &[], b""),
        ("DELETE", STYLE_PATH, &[], b""),
        ("GET", "/a-page/", &agent, b""),
        ("POST", "/a-page/", &[], b"hello"),
    ];
    let families = [
        "nostat_requests_total",
        "nostat_request_duration_seconds_count",
    ];
    for (number, (method, path, fields, body)) in requests.into_iter().enumerate() {
        let target = |door: &str| format!("{path}?{door}={number}");
        let counted = || families.map(|family| samples(&socket, family));
        // The answer is out before it is counted.
        let settled = |before: &[BTreeMap<String, u64>; 2]| {
            eventually("both are counted", || {
                let after = counted();
                let added = [0, 1].map(|at| added(&before[at], &after[at]));
                added.iter().all(|it| !it.is_empty()).then_some(added)
            })
        };
        let before = counted();
        let first = server
            .connect()
            .request(method, &target("http1"), fields, body);
        let of_lane = settled(&before);
        let before = counted();
        let second = client.ask(method, &target("http2"), fields, body).unwrap();
        let of_http2 = settled(&before);
        assert_eq!(first.status, second.status, "{method} {path}");
        assert_eq!(of_lane, of_http2, "{method} {path}");
        let line = |door: &str| {
            let target = target(door);
            let mut line = eventually(&target, || {
                let output = server.output();
                let mut lines = output.split_inclusive('\n').filter(|it| it.ends_with('\n'));
                lines.find(|it| it.contains(&target)).map(|line| {
                    serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap()
                })
            });
            for own in ["time", "timestamp", "target"] {
                assert!(line.remove(own).is_some(), "{own}");
            }
            let took = line.remove("upstream_time");
            (
                line.remove("protocol"),
                took.is_some_and(|it| it.is_number()),
                line,
            )
        };
        let (lane, http2) = (line("http1"), line("http2"));
        assert_eq!(lane.0, Some("HTTP/1.1".into()));
        assert_eq!(http2.0, Some("HTTP/2.0".into()));
        assert_eq!((lane.1, lane.2), (http2.1, http2.2), "{method} {path}");
    }
}

#[test]
fn rates_and_connections_of_an_address_are_limited_as_on_the_lane() {
    let both = both("{connections_per_address: 3}");
    let (config, socket) = with_socket(&both.root, both.config.clone());
    let config = config
        .top("trusted_proxies", "[]")
        .top("rate_limits", "[{match: missing, rate: 1/h, burst: 5}]");
    let server = Nostat::start(&config);
    eventually("the starting client is gone", || {
        (server.established() == 0).then_some(())
    });
    let clients: Vec<Client> = (0..3).map(|_| Client::connect(both.h2)).collect();
    for client in &clients {
        assert_eq!(client.get(STYLE_PATH).status, 200);
    }
    let ended = clients[0].runtime.block_on(async {
        let mut one_more = TcpStream::connect(both.h2).await.unwrap();
        next_frame(&mut one_more).await
    });
    assert!(ended.is_none());
    assert_eq!(limited(&socket, "connections_per_address"), 1);
    let statuses: Vec<u16> = (0..7)
        .map(|_| clients[1].get("/wp-content/gone.css").status)
        .collect();
    assert_eq!(statuses, [404, 404, 404, 404, 404, 429, 429]);
    assert_eq!(limited(&socket, "rate_limits"), 2);
}
