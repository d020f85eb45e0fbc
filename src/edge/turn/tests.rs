//! What is decided before a site is looked for.

use crate::clock::Clock;
use crate::edge::listener::Listener;
use crate::settings::Settings;
use crate::snapshot::State;

use super::*;

/// A site of one host, on an address from where requests are sent to https.
fn state(root: &tempfile::TempDir) -> Arc<State> {
    let mut settings = Settings::for_root(root.path().to_owned(), None, None);
    settings.sites[0].hosts = vec!["a.test".to_owned()];
    State::start(settings, Clock::system(), 10).expect("started")
}

/// Status and content of what is answered at once.
fn answered(state: &State, request: &str) -> (u16, Vec<u8>) {
    let snapshot = state.snapshot.load_full();
    let arrival = Arrival {
        peer: SocketAddr::from(([192, 0, 2, 1], 1)),
        told: None,
        place: None,
        hsts: None,
        listener: Arc::new(Listener {
            redirects: true,
            ..Listener::default()
        }),
    };
    let asked = Asked {
        snapshot: &snapshot,
        now: state.clock.unix(),
        arrival: &arrival,
        http2: false,
        local: &|| None,
        is_last: false,
        draining: false,
    };
    match asked.decide_now(&mut HeadScan::default(), request.as_bytes()) {
        Poll::Ready(Turn::Answer(answered)) => match answered.answer.body {
            Body::Memory(bytes) => (answered.answer.status, bytes.to_vec()),
            _ => (answered.answer.status, Vec::new()),
        },
        _ => (0, Vec::new()),
    }
}

#[tokio::test]
async fn a_token_that_is_waited_for_is_answered_whatever_the_site_says() {
    let root = tempfile::tempdir().expect("a folder");
    let state = state(&root);
    let ask = |method: &str, host: &str| {
        let line = format!("{method} /.well-known/acme-challenge/t0ken HTTP/1.1");
        answered(&state, &format!("{line}\r\nHost: {host}\r\n\r\n"))
    };
    assert_eq!(ask("GET", "other.test").0, 421);
    let challenges = &state.renewals.challenges;
    let waiting = challenges.expect("t0ken", "t0ken.thumb").expect("a token");
    for host in ["a.test", "a.test:80", "other.test", "192.0.2.1"] {
        assert_eq!(ask("GET", host), (200, b"t0ken.thumb".to_vec()), "{host}");
        assert_eq!(ask("HEAD", host), (200, Vec::new()), "{host}");
    }
    assert_eq!(ask("POST", "other.test").0, 421);
    let sent_on = answered(&state, "GET /t0ken HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(sent_on.0, 301);
    drop(waiting);
    assert_eq!(ask("GET", "other.test").0, 421);
}
