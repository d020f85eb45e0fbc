//! Two readers of one head: what ours accepts and lends, Pingora's reads alike, so that nobody behind us is asked for anything else.

use std::mem::MaybeUninit;

use nostat::edge::handed::{head_for_origin, head_for_php};
use nostat::request::head::{
    Framing, HeadLimits, HeadScan, MAX_FIELDS, Parsed, RequestHead, Version, parse_resumed,
};
use nostat::request::target::Target;
use pingora_core::protocols::http::v1::server::HttpSession;
use tokio::io::AsyncWriteExt;

const LIMITS: HeadLimits = HeadLimits {
    head_size: 4096,
    url: 1024,
    fields: 32,
};

/// One input: the bytes of a connection.
pub fn run(bytes: &[u8]) {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let parsed = parse_resumed(&mut HeadScan::default(), bytes, &mut slots, &LIMITS);
    let Ok(Parsed::Complete { head, length }) = parsed else {
        return;
    };
    let Ok(target) = Target::parse(&head.method, head.target) else {
        return;
    };
    let raw = bytes.get(..length).unwrap_or_default();
    alike(&head, b"/", head.host, &head_for_php(&head, raw));
    if let Some(lent) = head_for_origin(&head, &target) {
        let origin_form = target.origin_form();
        let mut escaped = Vec::new();
        nostat::edge::handed::push_escaped(&mut escaped, &origin_form);
        alike(&head, &escaped, target.authority.or(head.host), &lent);
    }
}

/// Has Pingora read `lent`, and compares.
fn alike(head: &RequestHead<'_, '_>, target: &[u8], host: Option<&[u8]>, lent: &[u8]) {
    let shown = || {
        format!(
            "{:?} lent as {:?}",
            head.fields,
            lent.escape_ascii().to_string()
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        client.write_all(lent).await.expect("room");
        client.shutdown().await.expect("open");
        let mut session = HttpSession::new(Box::new(server));
        let read = session.read_request().await;
        assert!(matches!(read, Ok(Some(_))), "{read:?}: {}", shown());
        let other = session.req_header();
        assert_eq!(other.method.as_str(), head.method.as_str(), "{}", shown());
        assert_eq!(other.raw_path(), target, "{}", shown());
        let ours = head
            .fields
            .iter()
            .map(|field| (field.name.to_ascii_lowercase(), field.value.trim_ascii()));
        let mut ours: Vec<_> = ours.collect();
        let theirs = other
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().trim_ascii()));
        let mut theirs: Vec<_> = theirs.collect();
        let version = match head.version {
            Version::Http10 => http::Version::HTTP_10,
            Version::Http11 => http::Version::HTTP_11,
        };
        assert_eq!(other.version, version, "{}", shown());
        // One at the most, and the one that we have chosen the site by.
        let hosts: Vec<_> = other
            .headers
            .get_all("host")
            .iter()
            .map(|it| it.as_bytes())
            .collect();
        if head.host.is_some() {
            assert_eq!(hosts, Vec::from_iter(host), "{}", shown());
        } else {
            assert!(hosts.is_empty(), "{}", shown());
        }
        // The authority of an absolute target takes the place of Host (RFC 9112 §3.2.2).
        ours.retain(|(name, _)| name != "host");
        theirs.retain(|(name, _)| name != "host");
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", shown());
        let chunked = other.headers.contains_key("transfer-encoding");
        let length = other
            .headers
            .get("content-length")
            .map(|it| it.as_bytes().to_vec());
        match head.framing {
            Framing::None => assert!(!chunked && length.is_none(), "{}", shown()),
            Framing::Chunked => assert!(chunked && length.is_none(), "{}", shown()),
            Framing::Length(expected) => {
                assert!(!chunked, "{}", shown());
                let stated = length
                    .and_then(|it| String::from_utf8(it).ok())
                    .and_then(|it| it.split(',').next().map(|it| it.trim().to_owned()));
                assert_eq!(
                    stated.and_then(|it| it.parse().ok()),
                    Some(expected),
                    "{}",
                    shown()
                );
            }
        }
        assert_eq!(
            session.is_body_empty(),
            matches!(head.framing, Framing::None | Framing::Length(0)),
            "{}",
            shown()
        );
    });
}
