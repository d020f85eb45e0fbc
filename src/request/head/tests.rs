#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

use proptest::prelude::*;

use super::*;
use crate::request::fields::Fields;

const LIMITS: HeadLimits = HeadLimits {
    head_size: 32 * 1024,
    url: 8 * 1024,
    fields: 100,
};

/// What a test looks at; owned, so that it outlives the slots.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Head {
    method: String,
    target: Vec<u8>,
    version: Version,
    fields: Vec<(String, Vec<u8>)>,
    host: Option<Vec<u8>>,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: bool,
    conditional: bool,
    length: usize,
}

fn parse_with(
    scan: &mut HeadScan,
    buf: &[u8],
    limits: &HeadLimits,
) -> Result<Option<Head>, HeadError> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    Ok(match parse_resumed(scan, buf, &mut slots, limits)? {
        Parsed::Incomplete => None,
        Parsed::Complete { head, length } => Some(Head {
            method: head.method.as_str().to_owned(),
            target: head.target.to_vec(),
            version: head.version,
            fields: head
                .fields
                .iter()
                .map(|field| (field.name.to_owned(), field.value.to_vec()))
                .collect(),
            host: head.host.map(<[u8]>::to_vec),
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect_continue: head.expect_continue,
            upgrade: head.upgrade,
            conditional: head.conditional,
            length,
        }),
    })
}

fn whole(buf: impl AsRef<[u8]>) -> Result<Option<Head>, HeadError> {
    parse_with(&mut HeadScan::default(), buf.as_ref(), &LIMITS)
}

fn complete(buf: impl AsRef<[u8]>) -> Head {
    whole(buf).unwrap().expect("a whole head")
}

/// A head of HTTP/1.1 with these field lines besides Host.
fn with(fields: &str) -> Head {
    complete(format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
}

fn status_of(buf: impl AsRef<[u8]>) -> u16 {
    let buf = buf.as_ref();
    match whole(buf) {
        Err(error) => error.status(),
        other => panic!(
            "not refused: {other:?} for {:?}",
            buf.escape_ascii().to_string()
        ),
    }
}

fn status_with(fields: &str) -> u16 {
    status_of(format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
}

#[test]
fn a_plain_head_is_read() {
    let text = b"GET /a?b HTTP/1.1\r\nHost: Example.com:81\r\nAccept:*/*\r\nX-Empty:\r\n\r\nrest";
    let head = complete(text);
    assert_eq!(head.method, "GET");
    assert_eq!(head.target, b"/a?b");
    assert_eq!(head.version, Version::Http11);
    assert_eq!(head.host.unwrap(), b"Example.com:81");
    assert_eq!(head.framing, Framing::None);
    assert!(head.keep_alive);
    assert!(!head.expect_continue && !head.upgrade && !head.conditional);
    assert_eq!(head.length, text.len() - 4);
    assert_eq!(head.fields.len(), 3);
    assert_eq!(head.fields[2], ("X-Empty".to_owned(), Vec::new()));
}

#[test]
fn fields_are_found_by_name_on_the_head_itself() {
    let text = b"GET / HTTP/1.1\r\nhost: x\r\nAccept: a \r\nACCEPT:\t b\r\n\r\n";
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let Parsed::Complete { head, .. } = parse(text, &mut slots, &LIMITS).unwrap() else {
        panic!("incomplete");
    };
    assert_eq!(head.lines("accept").collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn methods_are_told_by_case() {
    for (name, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::Options),
        ("TRACE", Method::Trace),
        ("CONNECT", Method::Connect),
        ("get", Method::Other("get")),
        ("PROPFIND", Method::Other("PROPFIND")),
    ] {
        assert_eq!(Method::from_token(name), method);
        assert_eq!(method.as_str(), name);
        assert_eq!(
            complete(format!("{name} / HTTP/1.1\r\nHost: x\r\n\r\n")).method,
            name
        );
    }
}

#[test]
fn up_to_two_empty_lines_before_the_request_line_are_counted_in() {
    let head = complete("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(head.length, 29);
    assert_eq!(
        complete("\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n").length,
        31
    );
    assert_eq!(
        status_of("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        400
    );
    assert_eq!(whole("\r\n"), Ok(None));
    assert_eq!(whole(""), Ok(None));
}

#[test]
fn line_ends_are_crlf_and_nothing_else() {
    for text in [
        "GET / HTTP/1.1\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\n",
        "GET / HTTP/1.1\r\nHost: x\r\r\n\r\n",
        "GET / HTTP/1.1\rHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(status_of(text), 400, "{text:?}");
    }
}

#[test]
fn folding_and_space_around_names_are_refused() {
    for fields in [
        "A: b\r\n c: d\r\n",
        "A: b\r\n\tc\r\n",
        " A: b\r\n",
        "A : b\r\n",
        "A\t: b\r\n",
        ": b\r\n",
        "A b: c\r\n",
        "A(b): c\r\n",
        "\u{e9}: c\r\n",
    ] {
        assert_eq!(status_with(fields), 400, "{fields:?}");
    }
    assert_eq!(status_of("GET / HTTP/1.1\r\n Host: x\r\n\r\n"), 400);
}

#[test]
fn field_values_may_hold_8_bit_bytes_but_no_controls() {
    let head = complete(b"GET / HTTP/1.1\r\nHost: x\r\nA: caf\xe9\tb\r\n\r\n");
    assert_eq!(head.fields[1].1, b"caf\xe9\tb");
    for control in (0_u8..0x20).chain([0x7f]) {
        if matches!(control, b'\t' | b'\n') {
            continue;
        }
        let mut text = b"GET / HTTP/1.1\r\nHost: x\r\nA: b".to_vec();
        text.push(control);
        text.extend(b"c\r\n\r\n");
        assert_eq!(status_of(text), 400, "{control}");
    }
}

#[test]
fn request_lines_have_one_space_between_three_parts() {
    for text in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /a b HTTP/1.1",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET /",
        "GET",
        "GET / ",
        "GET  HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.1x",
        "GET / HTTP/11",
        "GET / HTTP/a.b",
        "GET / ICY/1.1",
        "G(T / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET /\u{7f} HTTP/1.1",
    ] {
        assert_eq!(
            status_of(format!("{text}\r\nHost: x\r\n\r\n")),
            400,
            "{text:?}"
        );
    }
}

#[test]
fn other_versions_of_http_are_told_so() {
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "HTTP/3.0"] {
        assert_eq!(
            status_of(format!("GET / {version}\r\nHost: x\r\n\r\n")),
            505
        );
    }
    assert_eq!(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn a_target_may_hold_any_byte_above_ascii() {
    for target in [&b"/caf\xc3\xa9"[..], b"/caf\xe9", b"/\xff\xfe?\x80"] {
        let mut text = b"GET ".to_vec();
        text.extend(target);
        text.extend(b" HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\nnext");
        let head = complete(&text);
        assert_eq!(head.target, target);
        assert_eq!(head.length, text.len() - 4);
        assert_eq!(head.fields.len(), 2);
        assert_eq!(head.host.unwrap(), b"x");
    }
    assert_eq!(
        status_of(b"GET /\xff HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"),
        400
    );
}

#[test]
fn http_1_1_needs_exactly_one_good_host() {
    assert_eq!(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(
        status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        400
    );
    assert_eq!(
        status_of("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"),
        400
    );
    for host in ["", "a b", "u@a", "a/b", "a:b", "a\u{e9}", "a,b:1:2"] {
        assert_eq!(
            status_of(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")),
            400,
            "{host:?}"
        );
    }
}

#[test]
fn http_1_0_needs_no_host_but_no_bad_one_either() {
    let head = complete("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(head.host, None);
    assert_eq!(head.version, Version::Http10);
    assert!(!head.keep_alive);
    assert_eq!(status_of("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), 400);
    assert_eq!(
        status_of("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
        400
    );
}

#[test]
fn content_length_is_digits_once() {
    assert_eq!(with("Content-Length: 0\r\n").framing, Framing::Length(0));
    assert_eq!(
        with("content-LENGTH:  18446744073709551615 \r\n").framing,
        Framing::Length(u64::MAX)
    );
    for value in [
        "",
        "+5",
        "-5",
        "5,5",
        "5, 5",
        "5 5",
        "0x5",
        "5;",
        "5.0",
        "18446744073709551616",
        "\u{0665}",
    ] {
        assert_eq!(
            status_with(&format!("Content-Length: {value}\r\n")),
            400,
            "{value:?}"
        );
    }
    assert_eq!(
        status_with("Content-Length: 5\r\nContent-Length: 6\r\n"),
        400
    );
    assert_eq!(
        status_with("Content-Length: 5\r\ncontent-length: 5\r\n"),
        400
    );
}

#[test]
fn transfer_encoding_is_chunked_once() {
    assert_eq!(
        with("Transfer-Encoding: chunked\r\n").framing,
        Framing::Chunked
    );
    assert_eq!(
        with("transfer-encoding:\tCHUNKED \r\n").framing,
        Framing::Chunked
    );
    for value in [
        "",
        "identity",
        "xchunked",
        "chunked, identity",
        "identity, chunked",
        "chunked, chunked",
        "chunked,",
        ", chunked",
        "gzip",
        "chunked, gzip",
        "chunked;a=b",
        "\"chunked\"",
        "\u{b}chunked",
        "chunked\u{a0}",
    ] {
        assert_eq!(
            status_with(&format!("Transfer-Encoding: {value}\r\n")),
            400,
            "{value:?}"
        );
    }
    assert_eq!(status_with("Transfer-Encoding: gzip, chunked\r\n"), 501);
    assert_eq!(
        status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        400
    );
    assert_eq!(
        status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        400
    );
}

#[test]
fn content_length_beside_transfer_encoding_is_refused_in_any_order() {
    assert_eq!(
        status_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        400
    );
    assert_eq!(
        status_with("Transfer-Encoding: chunked\r\nA: b\r\nContent-Length: 5\r\n"),
        400
    );
    assert_eq!(
        status_with("Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\n"),
        400
    );
}

#[test]
fn http_1_0_knows_no_transfer_encoding() {
    assert_eq!(
        status_of("POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"),
        400
    );
}

#[test]
fn connection_options_are_a_list_over_several_lines() {
    for (fields, keep) in [
        ("", true),
        ("Connection: close\r\n", false),
        ("Connection: CLOSE\r\n", false),
        ("Connection: a, close , b\r\n", false),
        ("Connection: a\r\nConnection: close\r\n", false),
        ("Connection: closed\r\n", true),
        ("Connection: keep-alive, close\r\n", false),
    ] {
        assert_eq!(with(fields).keep_alive, keep, "{fields:?}");
    }
    for (fields, keep) in [
        ("", false),
        ("Connection: Keep-Alive\r\n", true),
        ("Connection: x\r\nConnection: y,keep-alive\r\n", true),
        ("Connection: keep-alive\r\nConnection: close\r\n", false),
    ] {
        let head = complete(format!("GET / HTTP/1.0\r\n{fields}\r\n"));
        assert_eq!(head.keep_alive, keep, "{fields:?}");
    }
}

#[test]
fn upgrade_needs_both_fields_and_http_1_1() {
    let both = "Upgrade: websocket\r\nConnection: x, Upgrade\r\n";
    assert!(with(both).upgrade);
    assert!(!with("Upgrade: websocket\r\n").upgrade);
    assert!(!with("Connection: upgrade\r\n").upgrade);
    assert!(!complete(format!("GET / HTTP/1.0\r\n{both}\r\n")).upgrade);
}

#[test]
fn expect_is_heard_in_http_1_1_only() {
    assert!(with("Expect: 100-Continue\r\n").expect_continue);
    assert!(!with("Expect: else\r\n").expect_continue);
    assert!(!complete("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expect_continue);
}

#[test]
fn any_precondition_or_range_makes_a_head_conditional() {
    for name in [
        "If-Match",
        "if-none-match",
        "IF-MODIFIED-SINCE",
        "If-Unmodified-Since",
        "If-Range",
        "Range",
    ] {
        assert!(with(&format!("{name}: x\r\n")).conditional, "{name}");
    }
    assert!(!with("Accept-Ranges: x\r\nIf: y\r\n").conditional);
}

#[test]
fn a_long_target_is_refused_before_its_end_is_there() {
    let long = format!("GET /{}", "a".repeat(LIMITS.url + 20));
    assert_eq!(status_of(&long), 414);
    assert_eq!(
        status_of(format!("{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        414
    );
    let fitting = format!(
        "GET /{} HTTP/1.1\r\nHost: x\r\n\r\n",
        "a".repeat(LIMITS.url - 1)
    );
    assert_eq!(complete(&fitting).target.len(), LIMITS.url);
    let over = format!(
        "GET /{} HTTP/1.1\r\nHost: x\r\n\r\n",
        "a".repeat(LIMITS.url)
    );
    assert_eq!(status_of(over), 414);
}

#[test]
fn too_many_fields_are_refused_before_the_end_is_there() {
    let lines = "A: b\r\n".repeat(LIMITS.fields);
    assert_eq!(status_with(&lines), 431);
    assert_eq!(
        status_of(format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}")),
        431
    );
    let fewer = "A: b\r\n".repeat(LIMITS.fields - 1);
    assert_eq!(with(&fewer).fields.len(), LIMITS.fields);
}

#[test]
fn no_limit_lets_more_fields_in_than_there_are_slots() {
    let limits = HeadLimits {
        fields: usize::MAX,
        ..LIMITS
    };
    let lines = "a:\r\n".repeat(MAX_FIELDS - 1);
    for target in [&b"/"[..], b"/\xff"] {
        let head = |lines: &str| {
            [
                b"GET ",
                target,
                b" HTTP/1.1\r\nHost: x\r\n",
                lines.as_bytes(),
                b"\r\n",
            ]
            .concat()
        };
        let fitting = parse_with(&mut HeadScan::default(), &head(&lines), &limits);
        assert_eq!(fitting.unwrap().unwrap().fields.len(), MAX_FIELDS);
        let over = parse_with(
            &mut HeadScan::default(),
            &head(&format!("{lines}b:\r\n")),
            &limits,
        );
        assert_eq!(over, Err(HeadError::TooManyFields));
    }
}

#[test]
fn a_large_head_is_refused_and_the_largest_is_not() {
    let fill = |extra: usize| {
        let rest = "GET / HTTP/1.1\r\nHost: x\r\nA: \r\n\r\n".len();
        format!(
            "GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
            "b".repeat(LIMITS.head_size - rest + extra)
        )
    };
    assert_eq!(complete(fill(0)).length, LIMITS.head_size);
    assert_eq!(status_of(fill(1)), 431);
    let begun = fill(100);
    assert_eq!(status_of(&begun[..LIMITS.head_size]), 431);
    assert_eq!(whole(&begun[..LIMITS.head_size - 1]), Ok(None));
}

#[test]
fn what_is_not_http_is_refused_by_its_first_bytes() {
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"\x80",
        b"\0",
        b"GET /\0",
        b"GET /\x01",
        b"SSH-2.0-x\x00",
        b"{\"a\"",
        b"GET / HTTP/1.1\n",
        b"GET / HTTP/2.0\r\n",
    ] {
        assert!(
            whole(bytes).is_err(),
            "{:?}",
            bytes.escape_ascii().to_string()
        );
    }
    assert_eq!(status_of("A".repeat(33)), 501);
    assert_eq!(whole("A".repeat(32)), Ok(None));
}

#[test]
fn a_scan_is_ready_for_the_next_head() {
    let two = b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut scan = HeadScan::default();
    assert_eq!(parse_with(&mut scan, &two[..20], &LIMITS), Ok(None));
    let first = parse_with(&mut scan, two, &LIMITS).unwrap().unwrap();
    assert_eq!(first.target, b"/1");
    assert_eq!(scan, HeadScan::default());
    let second = parse_with(&mut scan, &two[first.length..], &LIMITS)
        .unwrap()
        .unwrap();
    assert_eq!(second.target, b"/2");
    assert_eq!(first.length + second.length, two.len());
}

/// The first result that is not `Incomplete` when the bytes arrive in these steps.
fn in_steps(
    buf: &[u8],
    limits: &HeadLimits,
    steps: impl Iterator<Item = usize>,
) -> Result<Option<Head>, HeadError> {
    let mut scan = HeadScan::default();
    for end in steps {
        let result = parse_with(&mut scan, &buf[..end.min(buf.len())], limits);
        if result != Ok(None) {
            return result;
        }
    }
    parse_with(&mut scan, buf, limits)
}

/// Text that is nearly a request head, broken in every way the grammar can be.
fn nearly_a_head() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => Just(&b"GET / HTTP/1.1\r\n"[..]),
        2 => Just(&b"POST /a?b=%20 HTTP/1.0\r\n"[..]),
        4 => Just(&b"Host: x\r\n"[..]),
        2 => Just(&b"Content-Length: 5\r\n"[..]),
        2 => Just(&b"Transfer-Encoding: chunked\r\n"[..]),
        4 => Just(&b"A: b\r\n"[..]),
        4 => Just(&b"\r\n"[..]),
        1 => Just(&b"\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b" "[..]),
        1 => Just(&b":"[..]),
        1 => Just(&b"\0"[..]),
        1 => Just(&b"\xff"[..]),
        1 => Just(&b"GET /\xff HTTP/1.1\r\n"[..]),
        1 => Just(&b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"[..]),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

const SMALL: HeadLimits = HeadLimits {
    head_size: 120,
    url: 16,
    fields: 4,
};

proptest! {
    #[test]
    fn any_bytes_are_judged_without_a_panic(buf in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = whole(&buf);
    }

    #[test]
    fn any_split_gives_the_same_as_the_whole(
        buf in nearly_a_head(),
        cuts in proptest::collection::vec(0_usize..200, 0..5),
        small in any::<bool>(),
    ) {
        let limits = if small { &SMALL } else { &LIMITS };
        let expected = parse_with(&mut HeadScan::default(), &buf, limits);
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(&in_steps(&buf, limits, cuts.into_iter()), &expected);
        prop_assert_eq!(&in_steps(&buf, limits, 0..buf.len()), &expected);
    }

    #[test]
    fn bytes_behind_a_head_change_nothing(buf in nearly_a_head(), rest in nearly_a_head()) {
        if let Ok(Some(head)) = whole(&buf) {
            prop_assert!(head.length <= buf.len());
            prop_assert_eq!(whole([&buf[..], &rest].concat()), Ok(Some(head)));
        }
    }
}
