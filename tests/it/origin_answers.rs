//! Answers of an origin that are none, or are two: the client gets an error or a cut, and never another answer's bytes.

use crate::support::client::{Connection, Cut, Response, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_origin::{FakeOrigin, OriginRequest};
use crate::support::nostat::{Config, Nostat};

/// Stands behind each bad answer, where a reader that errs about its end finds another one.
const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";

/// What the client may get of an answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Gets {
    /// 502, or a cut.
    Failure,
    /// The answer, without what was wrong about it, or 502, or a cut.
    FailureOr(&'static str),
    /// The answer.
    Body(&'static str),
}

use Gets::{Body, Failure, FailureOr};

const ANSWERS: &[(&str, Gets)] = &[
    // RFC 9112 §6.3: a length beside a coding, two lengths, lengths that are none.
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        FailureOr("body"),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        FailureOr("body"),
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 60\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 60\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 4, 60\r\n\r\nbody",
        Failure,
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nbody", Failure),
    ("HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nbody", Failure),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 0x4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: four\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nbody",
        Failure,
    ),
    // RFC 9112 §7.1.
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfour\r\nbody\r\n0\r\n\r\n",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\nbody\r\n0\r\n\r\n",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbodyx\r\n0\r\n\r\n",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nbody\r\n0\r\n\r\n",
        Failure,
    ),
    // RFC 9112 §5: folded fields, NUL, bare CR, names that are none.
    (
        "HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 4\r\n\r\nbody",
        FailureOr("body"),
    ),
    (
        "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: b=c\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    (
        "HTTP/1.1 999999 OK\r\nContent-Length: 4\r\n\r\nbody",
        Failure,
    ),
    ("HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nbody", Failure),
    // RFC 9110 §15.2: interim answers, and a switch that nobody has asked for.
    (
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        Body("body"),
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        Body("body"),
    ),
    (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        Failure,
    ),
    ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Failure),
];

fn path_of(request: &OriginRequest) -> &str {
    request.request_line().split(' ').nth(1).unwrap_or_default()
}

/// An origin of these answers at `/0`, `/1` and so on, closed after each when `ends`.
fn start(ends: bool) -> (DocumentRoot, FakeOrigin, Nostat) {
    let root = DocumentRoot::wordpress();
    let answer = |request: &OriginRequest| match path_of(request) {
        "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nshort".to_vec(),
        "/large" => {
            let field = format!("X-A: {}\r\n", "a".repeat(1 << 20));
            format!("HTTP/1.1 200 OK\r\n{field}Content-Length: 4\r\n\r\nbody{POISON}").into_bytes()
        }
        "/interim" => {
            let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(10_000);
            format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").into_bytes()
        }
        path => match path[1..].parse::<usize>() {
            Ok(index) => format!("{}{POISON}", ANSWERS[index].0).into_bytes(),
            Err(_) => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine".to_vec(),
        },
    };
    // An origin whose connection is given away ends after its first answer.
    let origin = if ends {
        FakeOrigin::start(move |request| {
            let bytes = answer(request);
            let text = String::from_utf8(bytes).unwrap();
            text.replacen(" OK\r\n", " OK\r\nConnection: close\r\n", 1)
                .into_bytes()
        })
    } else {
        FakeOrigin::start(answer)
    };
    let value = format!(
        "{{peers: [\"{}\"], first_byte: 2s, between_bytes: 1s}}",
        origin.address()
    );
    let config = Config::preset("wordpress", root.path()).site("origin", &value);
    let server = Nostat::start(&config);
    (root, origin, server)
}

/// The answer behind interim ones, which an origin may send to whom speaks HTTP/1.1 (RFC 9110 §15.2).
fn read_final(connection: &mut Connection, method: &str) -> Result<Response, Cut> {
    loop {
        match connection.try_read(method) {
            Err(Cut::Malformed(why)) if why.starts_with("interim answer 10") => {
                assert!(!why.contains("101"), "{why}");
            }
            answer => return answer,
        }
    }
}

#[track_caller]
fn assert_gets(server: &Nostat, path: &str, gets: Gets) {
    for method in ["GET", "POST", "HEAD"] {
        let mut connection = server.connect();
        connection.send(&request(method, path, &[], b""));
        let answer = read_final(&mut connection, method);
        let told = format!("{method} {path}: {gets:?}");
        match &answer {
            Ok(answer) => {
                assert!(!answer.text().contains("poison"), "{told}: {answer}");
                assert!(answer.field("set-cookie").is_none(), "{told}: {answer}");
                let expected = match gets {
                    Failure => None,
                    Body(body) | FailureOr(body) => Some(body),
                };
                let is_as_expected =
                    answer.status == 200 && (method == "HEAD" || Some(&*answer.text()) == expected);
                let may_fail = !matches!(gets, Body(_)) && answer.status == 502;
                // A head alone does not show that chunks are bad.
                let is_head = method == "HEAD" && answer.status == 200;
                assert!(is_as_expected || may_fail || is_head, "{told}: {answer}");
            }
            Err(Cut::Short { received }) => {
                assert!(!matches!(gets, Body(_)), "{told}: cut");
                let text = String::from_utf8_lossy(received);
                assert!(!text.contains("poison"), "{told}: {text}");
            }
            Err(Cut::End) => assert!(!matches!(gets, Body(_)), "{told}: closed"),
            Err(cut) => panic!("{told}: {cut}"),
        }
        if let Ok(answer) = &answer {
            if answer.closes() {
                connection.expect_end();
            } else {
                connection.expect_in_step("/fine", b"fine");
                connection.expect_in_step(STYLE_PATH, STYLE_BYTES);
            }
        }
        server.get("/fine").assert(200, b"fine");
    }
}

#[test]
fn what_is_no_answer_of_an_origin_is_a_failure_and_never_another_answer() {
    for ends in [false, true] {
        let (_root, _origin, server) = start(ends);
        for (index, (bytes, gets)) in ANSWERS.iter().enumerate() {
            eprintln!("{}", bytes.escape_default());
            assert_gets(&server, &format!("/{index}"), *gets);
        }
        assert!(!server.stop().log.contains("panicked"));
    }
}

#[test]
fn an_origins_head_without_end_is_a_failure() {
    let (_root, _origin, server) = start(false);
    assert_gets(&server, "/large", Failure);
    assert_gets(&server, "/interim", FailureOr("body"));
    assert_gets(&server, "/short", Failure);
}

/// RFC 9110 §15.2: HTTP/1.0 knows none, and would take one for the answer.
#[test]
fn interim_answers_are_not_for_clients_of_http_1_0() {
    let (_root, _origin, server) = start(false);
    for index in ANSWERS
        .iter()
        .enumerate()
        .filter_map(|(index, (_, gets))| matches!(gets, Body(_)).then_some(index))
    {
        let mut connection = server.connect();
        connection.send(format!("GET /{index} HTTP/1.0\r\nHost: example.com\r\n\r\n").as_bytes());
        connection.read("GET").assert(200, b"body");
        connection.expect_end();
    }
}
