#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn plain() -> ParamsInput<'static> {
    ParamsInput {
        method: "GET",
        request_uri: b"/index.php/a%20b?x=1",
        query: b"x=1",
        script_name: b"/index.php",
        script_filename: b"/srv/www/index.php",
        path_info: b"",
        document_root: b"/srv/www",
        protocol: "HTTP/1.1",
        https: false,
        host: b"example.org:8080",
        server_name: b"example.org",
        server_addr: SocketAddr::from(([192, 0, 2, 1], 8080)),
        server_port: 80,
        remote_addr: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
        remote_port: 50_000,
        remote_user: None,
        content_length: None,
        fields: &[],
        drop: &[],
    }
}

/// Reads records as PHP-FPM does: no pair may span two.
fn decode(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    loop {
        let [1, 4, 0, 1, high, low, padding, 0] = bytes[..8] else {
            panic!("not a PARAMS record: {:?}", &bytes[..8]);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        assert!(length + usize::from(padding) <= MAX_CONTENT);
        let mut content = &bytes[8..8 + length];
        bytes = &bytes[8 + length + usize::from(padding)..];
        if length == 0 {
            assert!(bytes.is_empty(), "bytes after the last record");
            return pairs;
        }
        while !content.is_empty() {
            let name = take_length(&mut content);
            let value = take_length(&mut content);
            let (pair, rest) = content.split_at(name + value);
            pairs.push((pair[..name].to_vec(), pair[name..].to_vec()));
            content = rest;
        }
    }
}

fn take_length(content: &mut &[u8]) -> usize {
    if content[0] < 128 {
        let length = usize::from(content[0]);
        *content = &content[1..];
        length
    } else {
        let [a, b, c, d] = content[..4] else {
            panic!("cut")
        };
        *content = &content[4..];
        usize::try_from(u32::from_be_bytes([a & 0x7f, b, c, d])).unwrap()
    }
}

fn variables(input: &ParamsInput<'_>) -> Vec<(String, Vec<u8>)> {
    let pairs = decode(&encode(input).unwrap());
    pairs
        .into_iter()
        .map(|(name, value)| (String::from_utf8(name).unwrap(), value))
        .collect()
}

fn value_of(input: &ParamsInput<'_>, name: &str) -> Option<String> {
    let mut values = variables(input)
        .into_iter()
        .filter(|(other, _)| other == name);
    let value = values.next();
    assert!(values.next().is_none(), "{name} is there twice");
    value.map(|(_, value)| String::from_utf8(value).unwrap())
}

#[test]
fn the_whole_list_of_a_plain_request() {
    let listed: Vec<String> = variables(&plain())
        .into_iter()
        .filter(|(name, _)| name != "SERVER_SOFTWARE")
        .map(|(name, value)| format!("{name}={}", String::from_utf8(value).unwrap()))
        .collect();
    let expected = [
        "GATEWAY_INTERFACE=CGI/1.1",
        "QUERY_STRING=x=1",
        "REQUEST_METHOD=GET",
        "SCRIPT_FILENAME=/srv/www/index.php",
        "SCRIPT_NAME=/index.php",
        "REQUEST_URI=/index.php/a%20b?x=1",
        "DOCUMENT_URI=/index.php",
        "DOCUMENT_ROOT=/srv/www",
        "SERVER_PROTOCOL=HTTP/1.1",
        "REQUEST_SCHEME=http",
        "REMOTE_ADDR=198.51.100.7",
        "REMOTE_PORT=50000",
        "SERVER_ADDR=192.0.2.1",
        "SERVER_PORT=80",
        "SERVER_NAME=example.org",
        "REDIRECT_STATUS=200",
        "HTTP_HOST=example.org:8080",
    ];
    assert_eq!(listed, expected);
    assert!(
        value_of(&plain(), "SERVER_SOFTWARE")
            .unwrap()
            .contains("nginx")
    );
}

#[test]
fn path_info_brings_its_translation_and_the_document_uri() {
    let mut input = plain();
    input.path_info = b"/wp-json/x\n";
    assert_eq!(value_of(&input, "PATH_INFO").unwrap(), "/wp-json/x\n");
    assert_eq!(
        value_of(&input, "PATH_TRANSLATED").unwrap(),
        "/srv/www/wp-json/x\n"
    );
    assert_eq!(
        value_of(&input, "DOCUMENT_URI").unwrap(),
        "/index.php/wp-json/x\n"
    );
    assert_eq!(value_of(&input, "SCRIPT_NAME").unwrap(), "/index.php");
}

#[test]
fn https_is_on_or_absent() {
    let mut input = plain();
    assert_eq!(value_of(&input, "HTTPS"), None);
    input.https = true;
    assert_eq!(value_of(&input, "HTTPS").unwrap(), "on");
    assert_eq!(value_of(&input, "REQUEST_SCHEME").unwrap(), "https");
}

#[test]
fn mapped_addresses_are_written_as_ipv4() {
    let mut input = plain();
    input.remote_addr = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 9).to_ipv6_mapped());
    assert_eq!(value_of(&input, "REMOTE_ADDR").unwrap(), "192.0.2.9");
    input.remote_addr = IpAddr::V6(Ipv6Addr::LOCALHOST);
    assert_eq!(value_of(&input, "REMOTE_ADDR").unwrap(), "::1");
}

#[test]
fn content_has_its_variables_and_no_http_twins() {
    let mut input = plain();
    input.content_length = Some(0);
    input.fields = &[(b"Content-Type", b"a/b"), (b"content-length", b"99")];
    assert_eq!(value_of(&input, "CONTENT_LENGTH").unwrap(), "0");
    assert_eq!(value_of(&input, "CONTENT_TYPE").unwrap(), "a/b");
    assert_eq!(value_of(&input, "HTTP_CONTENT_TYPE"), None);
    assert_eq!(value_of(&input, "HTTP_CONTENT_LENGTH"), None);
}

#[test]
fn lines_of_one_name_become_one_variable() {
    let mut input = plain();
    input.fields = &[
        (b"Cookie", b"a=1"),
        (b"Accept", b"x/y"),
        (b"cookie", b"b=2"),
        (b"ACCEPT", b"*/*"),
        (b"Authorization", b"Basic eA=="),
        (b"X-High", b"\xff\xe9"),
    ];
    assert_eq!(value_of(&input, "HTTP_COOKIE").unwrap(), "a=1; b=2");
    assert_eq!(value_of(&input, "HTTP_ACCEPT").unwrap(), "x/y, */*");
    assert_eq!(
        value_of(&input, "HTTP_AUTHORIZATION").unwrap(),
        "Basic eA=="
    );
    let high = (String::from("HTTP_X_HIGH"), b"\xff\xe9".to_vec());
    assert!(variables(&input).contains(&high));
}

#[test]
fn fields_that_would_forge_or_mislead_are_not_passed() {
    let mut input = plain();
    input.fields = &[
        (b"Proxy", b"http://evil:1"),
        (b"proxy", b"http://evil:1"),
        (b"X_Under", b"1"),
        (b"X.Dot", b"1"),
        (b"X[Bracket", b"1"),
        (b"X Space", b"1"),
        (b"Host", b"other"),
        (b"Connection", b"close"),
        (b"Keep-Alive", b"1"),
        (b"TE", b"trailers"),
        (b"Trailer", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Upgrade", b"h2c"),
        (b"Proxy-Connection", b"close"),
        (b"X-Forwarded-For", b"10.0.0.1"),
        (b"", b"nameless"),
    ];
    input.drop = &["x-forwarded-for"];
    let passed: Vec<String> = variables(&input)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("HTTP_"))
        .collect();
    assert_eq!(passed, ["HTTP_HOST"]);
    assert_eq!(value_of(&input, "HTTP_HOST").unwrap(), "example.org:8080");
}

#[test]
fn lengths_change_form_at_128() {
    for length in [0, 1, 126, 127, 128, 129, 1000] {
        let mut input = plain();
        let value = vec![b'v'; length];
        let name = vec![b'N'; 200];
        let fields = [(name.as_slice(), value.as_slice())];
        input.fields = &fields;
        let pairs = decode(&encode(&input).unwrap());
        let last = pairs.last().unwrap();
        assert_eq!((last.0.len(), last.1.len()), (205, length));
    }
}

#[test]
fn a_pair_may_fill_a_record_and_not_one_byte_more() {
    // One and four bytes of lengths, and the name.
    let overhead = 1 + 4 + b"HTTP_X".len();
    for (length, fits) in [
        (MAX_CONTENT - overhead, true),
        (MAX_CONTENT - overhead + 1, false),
    ] {
        let mut input = plain();
        let value = vec![b'v'; length];
        let fields = [(&b"X"[..], value.as_slice())];
        input.fields = &fields;
        match encode(&input) {
            Ok(records) => {
                assert!(fits);
                assert_eq!(decode(&records).last().unwrap().1.len(), length);
            }
            Err(error) => {
                assert!(!fits);
                assert_eq!(
                    (error, error.status()),
                    (ParamsError::PairTooLong(MAX_CONTENT + 1), 431)
                );
            }
        }
    }
}

#[test]
fn many_fields_are_cut_between_pairs() {
    let names: Vec<String> = (0..100).map(|number| format!("X-{number}")).collect();
    let value = vec![b'v'; 3000];
    let fields: Vec<(&[u8], &[u8])> = names
        .iter()
        .map(|name| (name.as_bytes(), value.as_slice()))
        .collect();
    let mut input = plain();
    input.fields = &fields;
    let encoded = encode(&input).unwrap();
    assert!(encoded.len() > 300_000);
    let passed = decode(&encoded);
    assert_eq!(
        passed
            .iter()
            .filter(|(name, _)| name.starts_with(b"HTTP_X_"))
            .count(),
        100
    );
}

proptest! {
    #[test]
    fn any_fields_are_encoded_and_each_name_once(
        fields in vec((vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..9000)), 0..40),
    ) {
        let fields: Vec<(&[u8], &[u8])> = fields
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
            .collect();
        let mut input = plain();
        input.fields = &fields;
        let mut names: Vec<Vec<u8>> =
            decode(&encode(&input).unwrap()).into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        prop_assert_eq!(names.len(), count);
    }
}
