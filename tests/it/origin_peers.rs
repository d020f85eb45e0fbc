//! Several peers of an origin: the choice among them, their health, requests that are sent again.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::admin::{ask, sample, with_socket};
use crate::support::client::chunked;
use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::fake_origin::{FakeOrigin, Nobody, OriginRequest};
use crate::support::nostat::{Config, Nostat};

/// An origin that answers with its name.
fn named(name: &'static str) -> FakeOrigin {
    FakeOrigin::start(move |_| says(name))
}

fn says(text: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

fn config(root: &DocumentRoot, peers: &[String], more: &str) -> Config {
    let peers: Vec<String> = peers.iter().map(|peer| format!("\"{peer}\"")).collect();
    let value = format!("{{peers: [{}]{more}}}", peers.join(", "));
    Config::preset("wordpress", root.path()).site("origin", &value)
}

fn addresses(origins: &[&FakeOrigin]) -> Vec<String> {
    let addresses = origins.iter().map(|origin| origin.address().to_string());
    addresses.collect()
}

fn is_healthy(socket: &Path, address: &str) -> bool {
    figure(
        socket,
        &format!("nostat_upstream_healthy{{address=\"{address}\"}}"),
    ) == 1
}

fn figure(socket: &Path, name: &str) -> u64 {
    sample(&ask(socket, "GET", "/metrics").1, name).unwrap_or_else(|| panic!("{name}"))
}

fn path_of(request: &OriginRequest) -> String {
    let line = request.request_line();
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn peers_are_asked_in_turn() {
    let root = DocumentRoot::wordpress();
    let (one, two) = (named("one"), named("two"));
    let server = Nostat::start(&config(&root, &addresses(&[&one, &two]), ""));
    let mut connection = server.connect();
    for _ in 0..20 {
        assert_eq!(connection.get("/a").status, 200);
    }
    assert_eq!((one.requests().len(), two.requests().len()), (10, 10));
}

#[test]
fn by_hash_a_client_stays_with_its_peer() {
    let root = DocumentRoot::wordpress();
    let (one, two) = (named("one"), named("two"));
    let peers = addresses(&[&one, &two]);
    let server = Nostat::start(&config(&root, &peers, ", balance: hash"));
    let mut of_client: HashMap<String, Vec<u8>> = HashMap::new();
    let mut connection = server.connect();
    for round in 0..3 {
        for last in 0..40 {
            let client = format!("198.51.100.{last}");
            let body = connection
                .get_with("/a", &[("X-Forwarded-For", &client)])
                .body;
            let before = of_client.entry(client).or_insert_with(|| body.clone());
            assert_eq!(*before, body, "in round {round}");
        }
    }
    let used: HashSet<_> = of_client.values().collect();
    assert_eq!(used.len(), 2, "one peer for all");
}

#[test]
fn a_dead_peer_costs_nobody_an_error() {
    let root = DocumentRoot::wordpress();
    let one = FakeOrigin::start(|request| says(&request.body.len().to_string()));
    let nobody = Nobody::new();
    let dead = nobody.address().to_string();
    for balance in ["round_robin", "hash", "random"] {
        let peers = [dead.clone(), one.address().to_string()];
        let more = format!(", balance: {balance}");
        let (config, socket) = with_socket(&root, config(&root, &peers, &more));
        let server = Nostat::start(&config);
        // Longer than what Pingora keeps of a body: nothing of it has been read when the connect fails.
        let body = vec![b'x'; 300_000];
        for last in 0..16 {
            let client = format!("198.51.100.{last}");
            let by = [("X-Forwarded-For", client.as_str())];
            server.get_with("/a", &by).assert(200, b"0");
            server.send("POST", "/b", &by, &body).assert(200, b"300000");
            let chunks = [by[0], ("Transfer-Encoding", "chunked")];
            server
                .send("POST", "/c", &chunks, &chunked(&body, 7000))
                .assert(200, b"300000");
        }
        let failed = format!("nostat_upstream_errors_total{{address=\"{dead}\",kind=\"connect\"}}");
        let retried = format!("nostat_upstream_retries_total{{address=\"{dead}\"}}");
        let (failed, retried) = (figure(&socket, &failed), figure(&socket, &retried));
        assert!(failed >= 1, "never tried");
        assert_eq!(failed, retried);
        // One in five seconds at most, of 48 requests: however slow the machine, it was left out in between.
        assert!(failed < 24, "{failed} of 48 met the dead peer");
        assert!(!is_healthy(&socket, &dead));
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains(&dead));
        assert_eq!(lines.count(), 1, "{log}");
        assert!(log.contains(&format!("{dead}: out")), "{log}");
    }
}

#[test]
fn when_all_peers_are_dead_it_is_502_and_comes_back_by_itself() {
    let root = DocumentRoot::wordpress();
    let (nobody, soon) = (Nobody::new(), Nobody::new());
    let peers = [&nobody, &soon].map(|nobody| nobody.address().to_string());
    let server = Nostat::start(&config(&root, &peers, ""));
    for _ in 0..3 {
        assert_eq!(server.get("/a").status, 502);
        assert_eq!(server.send("POST", "/a", &[], b"x").status, 502);
    }
    let _back = FakeOrigin::start_at(soon, |_| says("back"));
    // All are out: each is tried nevertheless.
    server.get("/a").assert(200, b"back");
    server.get("/a").assert(200, b"back");
    let log = server.log();
    assert_eq!(
        log.matches(&format!("{}: out", peers[1])).count(),
        1,
        "{log}"
    );
    assert_eq!(
        log.matches(&format!("{}: back", peers[1])).count(),
        1,
        "{log}"
    );
}

/// An origin whose health path is answered 500 while `is_sick`.
fn with_health(name: &'static str, is_sick: &Arc<AtomicBool>) -> FakeOrigin {
    let is_sick = Arc::clone(is_sick);
    FakeOrigin::start(move |request| match path_of(request).as_str() {
        "/up?full=1" if is_sick.load(Ordering::SeqCst) => {
            b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => says(name),
    })
}

fn visits(origin: &FakeOrigin) -> usize {
    let requests = origin.requests();
    requests.iter().filter(|seen| path_of(seen) == "/a").count()
}

#[test]
fn a_peer_whose_checks_fail_is_out_until_they_pass_whatever_is_reloaded() {
    let root = DocumentRoot::wordpress();
    let is_sick = Arc::new(AtomicBool::new(true));
    let (one, two) = (named("one"), with_health("two", &is_sick));
    let peers = addresses(&[&one, &two]);
    let health = ", health: {path: \"/up?full=1\", host: shop.example, every: 100ms, timeout: 10s}";
    let (config, socket) = with_socket(&root, config(&root, &peers, health));
    let server = Nostat::start(&config);
    eventually("the sick peer is out", || {
        (!is_healthy(&socket, &peers[1])).then_some(())
    });
    let checks = two.requests();
    assert_eq!(checks[0].field("host"), Some("shop.example"));
    assert!(is_healthy(&socket, &peers[0]));
    let before = visits(&two);
    for _ in 0..10 {
        server.get("/a").assert(200, b"one");
    }
    // Something else has changed: the pool stays, with its health.
    server.rewrite(&config.clone().top("limits", "{max_body: 1MiB}"));
    server.signal(Signal::HUP);
    server.wait_for_log(0, "reloaded");
    assert!(!is_healthy(&socket, &peers[1]));
    for _ in 0..10 {
        server.get("/a").assert(200, b"one");
    }
    assert_eq!(visits(&two), before);
    is_sick.store(false, Ordering::SeqCst);
    eventually("the peer is back", || {
        is_healthy(&socket, &peers[1]).then_some(())
    });
    eventually("it is asked again", || {
        (server.get("/a").body == b"two").then_some(())
    });
    let log = server.log();
    assert_eq!(log.matches(": out").count(), 1, "{log}");
    assert_eq!(log.matches(": back").count(), 1, "{log}");

    // Without the origin nobody asks for its health any more.
    server.rewrite(&self::config(&root, &peers[..1], ""));
    let reloaded_at = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(reloaded_at, "reloaded");
    eventually("the checks end", || {
        let before = two.requests().len();
        std::thread::sleep(std::time::Duration::from_millis(500));
        (two.requests().len() == before).then_some(())
    });
}

#[test]
fn what_may_be_repeated_is_sent_to_another_peer_and_a_post_never_twice() {
    let root = DocumentRoot::wordpress();
    // Takes each request whole, and closes.
    let (mute, well) = (FakeOrigin::start(|_| Vec::new()), named("well"));
    let peers = addresses(&[&mute, &well]);
    // A pool each, so that what was learned of the mute one by the last request does not keep the next from it.
    for method in ["GET", "PUT", "DELETE", "POST", "PATCH"] {
        let server = Nostat::start(&config(&root, &peers, ""));
        let mut statuses = Vec::new();
        for round in 0..2 {
            let path = format!("/{method}-{round}");
            let body: &[u8] = if method == "GET" { b"" } else { b"body" };
            statuses.push(server.send(method, &path, &[], body).status);
        }
        statuses.sort_unstable();
        let sent: Vec<_> = [&mute, &well]
            .into_iter()
            .flat_map(FakeOrigin::requests)
            .filter(|seen| seen.request_line().starts_with(method))
            .collect();
        match method {
            "POST" | "PATCH" => {
                assert_eq!(statuses, [200, 502], "{method}");
                assert_eq!(sent.len(), 2, "{method} was sent again");
            }
            _ => {
                assert_eq!(statuses, [200, 200], "{method}");
                assert_eq!(sent.len(), 3, "{method}");
                assert!(
                    sent.iter()
                        .all(|seen| method == "GET" || seen.body == b"body")
                );
            }
        }
    }
}

#[test]
fn an_answer_that_has_begun_is_not_asked_for_again() {
    let root = DocumentRoot::wordpress();
    let broken = || {
        FakeOrigin::start(|_| {
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhalf".to_vec()
        })
    };
    let (one, two) = (broken(), broken());
    let server = Nostat::start(&config(
        &root,
        &addresses(&[&one, &two]),
        ", between_bytes: 1s, first_byte: 1s",
    ));
    let mut connection = server.connect();
    connection.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(connection.try_read("GET").is_err());
    assert_eq!(one.requests().len() + two.requests().len(), 1);
}

#[test]
fn all_addresses_of_a_name_count() {
    let root = DocumentRoot::wordpress();
    let one = named("one");
    let peers = [format!("localhost:{}", one.address().port())];
    let server = Nostat::start(&config(&root, &peers, ""));
    // Where `localhost` is ::1 too, nobody listens there.
    for _ in 0..4 {
        server.get("/a").assert(200, b"one");
    }
}

#[test]
fn a_page_is_filled_by_the_peer_that_answers() {
    let root = DocumentRoot::wordpress();
    let mute = FakeOrigin::start(|_| Vec::new());
    let well = FakeOrigin::start(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\npage".to_vec()
    });
    let nobody = Nobody::new();
    let mut peers = addresses(&[&mute, &well]);
    peers.push(nobody.address().to_string());
    let config = config(&root, &peers, "").site("page_cache", "memory");
    let server = Nostat::start(&config);
    for path in ["/a/", "/b/", "/c/", "/d/"] {
        for _ in 0..3 {
            server.get(path).assert(200, b"page");
        }
    }
    // Each page once, whatever its first peer was.
    assert_eq!(well.requests().len(), 4);
}
