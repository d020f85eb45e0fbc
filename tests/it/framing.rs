//! Connections put together from framing fields and bodies in every odd form: what a strict reader of RFC 9112 finds in their
//! bytes reaches PHP and an origin, to the byte, and nothing else does.

use crate::support::client::{Cut, find};
use crate::support::document_root::DocumentRoot;
use crate::support::fake_origin::{FakeOrigin, OriginRequest};
use crate::support::nostat::{Config, Nostat};
use crate::support::numbers::Numbers;

/// Connections that are made unless `FRAMINGS` says another number; `FRAMING_SEED` is where they begin.
const CONNECTIONS: u64 = 2_000;

/// A request as whoever is behind the server has to see it.
#[derive(PartialEq, Eq)]
struct Whole {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.body.escape_ascii();
        write!(f, "{} {} \"{body}\"", self.method, self.target)
    }
}

/// What becomes of a connection once a request is answered.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Next {
    /// It goes on.
    GoesOn,
    /// It goes on when the answer says so: HTTP/1.0 leaves that to the server (RFC 9112 §9.3).
    MayGoOn,
    /// It ends.
    Ends,
}

/// How a connection goes on behind its last whole request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum End {
    /// A request has asked for the end, or nothing follows.
    Closed,
    /// Something has begun and is not there to its end.
    Incomplete,
    /// What follows is no request.
    Refused,
}

/// Why there is no further request.
type Stop<T> = Result<T, End>;

/// The strict reading: all requests of these bytes, and what comes behind them.
fn read_strictly(mut bytes: &[u8]) -> (Vec<(Whole, Next)>, End) {
    let mut requests = Vec::new();
    loop {
        if bytes.is_empty() {
            return (requests, End::Closed);
        }
        match read_one(&mut bytes) {
            Ok((request, next)) => {
                requests.push((request, next));
                if next == Next::Ends {
                    return (requests, End::Closed);
                }
            }
            Err(end) => return (requests, end),
        }
    }
}

/// A line up to its CRLF. An LF alone ends nothing.
fn take_line<'a>(bytes: &mut &'a [u8]) -> Stop<&'a [u8]> {
    let end = find(bytes, b"\n").ok_or(End::Incomplete)?;
    let (line, rest) = bytes.split_at(end + 1);
    *bytes = rest;
    line.strip_suffix(b"\r\n").ok_or(End::Refused)
}

fn read_one(bytes: &mut &[u8]) -> Stop<(Whole, Next)> {
    let mut line = take_line(bytes)?;
    for _ in 0..2 {
        if line.is_empty() {
            line = take_line(bytes)?;
        }
    }
    let mut lines = Vec::new();
    loop {
        match take_line(bytes)? {
            b"" => break,
            field => lines.push(field),
        }
    }
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return Err(End::Refused);
    };
    let is_odd = |byte: &u8| byte.is_ascii_control();
    if !is_token(method) || !target.starts_with(b"/") || target.iter().any(is_odd) {
        return Err(End::Refused);
    }
    let is_new = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(End::Refused),
    };
    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), Vec::new());
    let mut options = String::new();
    for line in lines {
        let (name, value) = read_field(line)?;
        match &*name {
            "host" => hosts += 1,
            "content-length" => lengths.push(value),
            "transfer-encoding" => codings.push(value),
            "connection" => options.push_str(&format!("{},", String::from_utf8_lossy(value))),
            _ => {}
        }
    }
    // Only HTTP/1.0 may leave it out (RFC 9112 §3.2).
    if hosts > 1 || is_new && hosts == 0 {
        return Err(End::Refused);
    }
    let body = match (&lengths[..], &codings[..]) {
        ([], []) => Vec::new(),
        ([length], []) => take_length(length, bytes)?,
        ([], [coding]) if is_new && coding.eq_ignore_ascii_case(b"chunked") => take_chunks(bytes)?,
        _ => return Err(End::Refused),
    };
    let asks_for = |option: &str| {
        let mut all = options.split(',').map(str::trim);
        all.any(|it| it.eq_ignore_ascii_case(option))
    };
    let request = Whole {
        method: String::from_utf8_lossy(method).into_owned(),
        target: String::from_utf8_lossy(target).into_owned(),
        body,
    };
    let next = match (asks_for("close"), is_new) {
        (true, _) => Next::Ends,
        (false, true) => Next::GoesOn,
        (false, false) if asks_for("keep-alive") => Next::MayGoOn,
        (false, false) => Next::Ends,
    };
    Ok((request, next))
}

fn is_token(bytes: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_tchar)
}

/// The name in small letters, and the value without the white space around it.
fn read_field(line: &[u8]) -> Stop<(String, &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = line.split_at(colon.ok_or(End::Refused)?);
    let is_odd = |&byte: &u8| byte != b'\t' && byte.is_ascii_control();
    if !is_token(name) || value.iter().any(is_odd) {
        return Err(End::Refused);
    }
    let mut value = &value[1..];
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value))
}

fn take_length(value: &[u8], bytes: &mut &[u8]) -> Stop<Vec<u8>> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(End::Refused);
    }
    let length = String::from_utf8_lossy(value).parse::<u64>();
    let length = length.map_err(|_| End::Refused)? as usize;
    take_exactly(length, bytes)
}

fn take_exactly(length: usize, bytes: &mut &[u8]) -> Stop<Vec<u8>> {
    let (body, rest) = bytes.split_at_checked(length).ok_or(End::Incomplete)?;
    *bytes = rest;
    Ok(body.to_vec())
}

fn take_chunks(bytes: &mut &[u8]) -> Stop<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let digits = bytes.iter().take_while(|it| it.is_ascii_hexdigit()).count();
        let (size, rest) = bytes.split_at(digits);
        match rest.first() {
            None => return Err(End::Incomplete),
            Some(b'\r' | b';') if digits > 0 && digits <= 16 => {}
            Some(_) => return Err(End::Refused),
        }
        *bytes = rest;
        let extension = take_text_line(bytes)?;
        assert!(extension.len() < 256, "no such extension is made");
        let size = u64::from_str_radix(&String::from_utf8_lossy(size), 16).unwrap();
        if size == 0 {
            break;
        }
        body.extend(take_exactly(size as usize, bytes)?);
        match bytes {
            [b'\r', b'\n', rest @ ..] => *bytes = rest,
            [] | [b'\r'] => return Err(End::Incomplete),
            _ => return Err(End::Refused),
        }
    }
    loop {
        match take_text_line(bytes)? {
            b"" => return Ok(body),
            line => read_field(line).map(drop)?,
        }
    }
}

/// A line of a body; what can be no part of it is refused although its end is not there.
fn take_text_line<'a>(bytes: &mut &'a [u8]) -> Stop<&'a [u8]> {
    let is_odd = |&byte: &u8| byte != b'\t' && byte.is_ascii_control();
    let end = bytes.iter().position(is_odd).ok_or(End::Incomplete)?;
    let (line, rest) = bytes.split_at(end);
    match rest {
        [b'\r', b'\n', rest @ ..] => *bytes = rest,
        [b'\r'] => return Err(End::Incomplete),
        _ => return Err(End::Refused),
    }
    Ok(line)
}

const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n";

/// What is written in the place of a length; `N` is the right one.
const LENGTHS: &[&[u8]] = &[
    b"N",
    b"N",
    b"N",
    b"N",
    b"N",
    b"N",
    b" N ",
    b"\tN\t",
    b"00N",
    b"+N",
    b"-N",
    b"N, N",
    b"N,N",
    b"N,",
    b"N N",
    b"N;",
    b"0xN",
    b"N.0",
    b"",
    b"five",
    b"Ne0",
    b"N\x0b",
    b"N\x00",
    b"\rN",
    b"N\r",
    b"99999999999999999999",
    b"\xd9\xa5",
    b"\"N\"",
    b"\r\n N",
    b"N\r\n ",
    b"N\r\n\t0",
    b"0",
];

const CODINGS: &[&[u8]] = &[
    b"chunked",
    b"chunked",
    b"chunked",
    b"chunked",
    b"chunked",
    b"Chunked",
    b"CHUNKED",
    b" chunked\t",
    b"chunked,",
    b",chunked",
    b"chunked, chunked",
    b"gzip, chunked",
    b"gzip",
    b"identity",
    b"identity, chunked",
    b"chunked, gzip",
    b"chunked, identity",
    b"xchunked",
    b"chunkedx",
    b"chunked;q=1",
    b"\"chunked\"",
    b"",
    b"chun\rked",
    b"\x0bchunked",
    b"chunked\x00",
    b"\r\n chunked",
    b"chunked\r\n ",
    b"chunked\r\n\t, gzip",
    b"chunk\xc3\xa9d",
    b"\xa0chunked",
];

/// Fields that frame nothing, and things that are none.
const OTHERS: &[&[u8]] = &[
    b"X-A: b",
    b"X-A: b\tc",
    b"X-A:",
    b"x-a:b",
    b"X-A: \xff\x80",
    b"X-A: Content-Length: 3",
    b"Content_Length: 3",
    b"Transfer_Encoding: chunked",
    b"X-Transfer-Encoding: chunked",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: Keep-Alive, TE",
    b"Connection: Content-Length",
    b"Connection: transfer-encoding, keep-alive",
    b"TE: trailers",
    b"Trailer: Content-Length",
    b"Content-Encoding: chunked",
    b"Keep-Alive: 300",
    b"Proxy-Connection: close",
    b"Connection: upgrade\r\nUpgrade: websocket",
    b"X-A: a\rb",
    b"X-A: a\r",
    b"X-A: a\x00b",
    b"X-A : b",
    b" X-A: b",
    b"\tX-A: b",
    b"X-A",
    b": b",
    b"X A: b",
    b"X-A: b\nTransfer-Encoding: chunked",
    b"X-A: b\r\n c",
    b"Host: example.com",
    b"X\xc3\xa9: b",
    b"X-A: b\rContent-Length: 3",
    b"Transfer-Encoding : chunked",
    b"Content-Length : 3",
    b"Content-Length\t: 3",
    b"Content-Length\x00: 3",
];

fn fill_in(text: &[u8], number: &str) -> Vec<u8> {
    match text.iter().position(|&byte| byte == b'N') {
        Some(at) => [
            &*fill_in_first(text, at, number),
            &*fill_in(&text[at + 1..], number),
        ]
        .concat(),
        None => text.to_vec(),
    }
}

fn fill_in_first(text: &[u8], at: usize, number: &str) -> Vec<u8> {
    [&text[..at], number.as_bytes()].concat()
}

/// One request as it might be sent by anybody, and with what is behind it.
fn make_request(target: &str, numbers: &mut Numbers) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..numbers.below(3) {
        body.extend_from_slice(numbers.one_of(&[
            b"hello",
            b"0\r\n\r\n",
            SMUGGLED,
            b"\r\n",
            b"\x00\xff",
            b"5\r\nhello\r\n",
            b"a=b&c=d",
        ]));
    }
    let mut fields = Vec::new();
    let framing = numbers.below(8);
    let sent = if matches!(framing, 3..=5) || numbers.once_in(16) {
        in_chunks(&body, numbers)
    } else {
        body
    };
    if matches!(framing, 0..=2 | 6) {
        let name = numbers.one_of(&[b"Content-Length", b"content-length", b"CONTENT-LENGTH"]);
        let value = fill_in(numbers.one_of(LENGTHS), &sent.len().to_string());
        fields.push([name, b": ", &value].concat());
        if numbers.once_in(12) {
            fields.push([name, b": ", &value].concat());
        }
    }
    if matches!(framing, 3..=6) {
        let name = numbers.one_of(&[b"Transfer-Encoding", b"transfer-encoding"]);
        fields.push([name, b":", numbers.one_of(CODINGS)].concat());
        if numbers.once_in(12) {
            fields.push([name, b": ", numbers.one_of(CODINGS)].concat());
        }
    }
    for _ in 0..numbers.below(3) {
        // Those at the front are fields.
        let known = if numbers.once_in(3) { OTHERS.len() } else { 20 };
        fields.push(numbers.one_of(&OTHERS[..known]).to_vec());
    }
    if !numbers.once_in(40) {
        fields.push(b"Host: example.com".to_vec());
    }
    for at in (1..fields.len()).rev() {
        fields.swap(at, numbers.below(at + 1));
    }
    let method = numbers.one_of(&[b"POST", b"POST", b"GET"]);
    let version: &[u8] = if numbers.once_in(8) { b"1.0" } else { b"1.1" };
    let mut bytes = numbers
        .one_of(&[b"", b"", b"", b"", b"", b"", b"", b"\r\n", b"\r\n\r\n\r\n"])
        .to_vec();
    bytes.extend([method, b" ", target.as_bytes(), b" HTTP/", version].concat());
    bytes.extend_from_slice(b"\r\n");
    for field in fields {
        bytes.extend_from_slice(&field);
        let end: &[u8] = match numbers.below(80) {
            0 => b"\n",
            1 => b"\r",
            2 => b"\r\r\n",
            _ => b"\r\n",
        };
        bytes.extend_from_slice(end);
    }
    bytes.extend_from_slice(if numbers.once_in(80) { b"\n" } else { b"\r\n" });
    bytes.extend_from_slice(&sent);
    bytes
}

/// A body in chunks, most of them well made.
fn in_chunks(body: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    let often = if numbers.once_in(2) { 12 } else { 1_000_000 };
    for chunk in body.chunks(1 + numbers.below(9)) {
        let size = match numbers.below(4) {
            0 => format!("{:X}", chunk.len()),
            1 => format!("{:04x}", chunk.len()),
            _ => format!("{:x}", chunk.len()),
        };
        let odd = numbers.below(often);
        bytes.extend_from_slice(match odd {
            0 => b"+",
            1 => b" ",
            2 => b"0x",
            _ => b"",
        });
        bytes.extend_from_slice(size.as_bytes());
        bytes.extend_from_slice(match odd {
            3 => b" ",
            4 => b"\t;a",
            5 => b";a\nb",
            6 => b";a\rb",
            _ => numbers.one_of(&[b"", b"", b"", b";", b";a", b";a=b", b"; a = \"b;\\\"c\""]),
        });
        bytes.extend_from_slice(if odd == 7 { b"\n" } else { b"\r\n" });
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(match odd {
            8 => b"\n",
            9 => b"",
            10 => b"x\r\n",
            11 => b"\r",
            _ => b"\r\n",
        });
    }
    bytes.extend_from_slice(numbers.one_of(&[b"0", b"0", b"0", b"000", b"0;a"]));
    bytes.extend_from_slice(b"\r\n");
    let trailers: &[&[u8]] = &[
        b"",
        b"",
        b"",
        b"A: b\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nA:\r\n",
        b"Host: other.org\r\n",
        b"A : b\r\n",
        b" A: b\r\n",
        b"A\r\n",
        b"A: b\n",
        b"A: b\rC: d\r\n",
        b": b\r\n",
        b"A: \x00\r\n",
    ];
    let kinds = if often > 12 { 7 } else { trailers.len() };
    bytes.extend_from_slice(trailers[numbers.below(kinds)]);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Sends what is made of many seeds; `seen` tells, and forgets, what was asked of whoever is behind the server.
fn assert_only_whole_requests_pass(server: &Nostat, seen: impl Fn() -> Vec<Whole>) {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().unwrap());
    let (first, count) = (
        number("FRAMING_SEED").unwrap_or(1),
        number("FRAMINGS").unwrap_or(CONNECTIONS),
    );
    let (mut passed, mut refused) = (0, 0);
    for seed in first..first + count {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = Vec::new();
        for index in 0..=numbers.below(4) {
            bytes.extend(make_request(&format!("/{seed}-{index}/"), &mut numbers));
        }
        let (expected, end) = read_strictly(&bytes);
        let told = format!("FRAMING_SEED={seed}: \"{}\"", bytes.escape_ascii());
        let mut connection = server.connect();
        connection.send_lossy(&bytes);
        connection.half_close();
        let (mut whole, mut end) = (Vec::new(), end);
        for (request, next) in expected {
            let answer = connection
                .try_read(&request.method)
                .unwrap_or_else(|cut| panic!("{told}: {cut} for {request:?}"));
            assert_eq!(answer.status, 200, "{told}: {request:?}: {answer}");
            whole.push(request);
            let stays = |value: &str| value.eq_ignore_ascii_case("keep-alive");
            if next == Next::MayGoOn && !answer.lines("connection").any(stays) {
                end = End::Closed;
                break;
            }
            assert_eq!(answer.closes(), next == Next::Ends, "{told}: {answer}");
        }
        match (connection.try_read("GET"), end) {
            (Ok(answer), End::Refused | End::Incomplete) => {
                assert!(matches!(answer.status, 400 | 501), "{told}: {answer}");
                assert!(answer.closes(), "{told}: {answer}");
                connection.expect_end();
            }
            (Err(Cut::End), End::Closed | End::Incomplete) => {}
            (Ok(answer), End::Closed) => panic!("{told}: one answer more: {answer}"),
            (Err(cut), _) => panic!("{told}: {end:?}, and {cut}"),
        }
        assert_eq!(seen(), whole, "{told}");
        passed += whole.len();
        refused += usize::from(end == End::Refused);
    }
    assert!(
        count < 100 || passed > 50 && refused > 50,
        "{passed} passed, {refused} refused"
    );
}

#[test]
fn php_gets_what_a_strict_reader_finds_and_nothing_else() {
    let (_root, responder, server) = Nostat::wordpress();
    assert_only_whole_requests_pass(&server, || {
        let requests = responder.requests();
        responder.forget();
        let whole = requests.iter().map(|it| Whole {
            method: it.param("REQUEST_METHOD").to_owned(),
            target: it.param("REQUEST_URI").to_owned(),
            body: it.stdin(),
        });
        whole.collect()
    });
}

#[test]
fn an_origin_gets_what_a_strict_reader_finds_and_nothing_else() {
    let root = DocumentRoot::wordpress();
    let origin = FakeOrigin::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let peers = format!("[\"{}\"]", origin.address());
    let config = Config::preset("wordpress", root.path()).site("origin", &peers);
    let server = Nostat::start(&config);
    let read = std::cell::Cell::new(0);
    assert_only_whole_requests_pass(&server, || {
        let requests = origin.requests();
        let new = requests[read.replace(requests.len())..].iter();
        new.map(as_whole).collect()
    });
}

/// A request at the origin, whose own head must not leave a reader a choice.
fn as_whole(request: &OriginRequest) -> Whole {
    let framings =
        request.lines("content-length").count() + request.lines("transfer-encoding").count();
    assert!(framings <= 1, "{}", request.head);
    assert!(request.body.is_empty() || framings == 1, "{}", request.head);
    assert_eq!(request.lines("host").count(), 1, "{}", request.head);
    let mut words = request.request_line().split(' ').map(ToOwned::to_owned);
    Whole {
        method: words.next().unwrap(),
        target: words.next().unwrap(),
        body: request.body.clone(),
    }
}
