//! Who the client is: fields of a peer that is not trusted change nothing, and a header of the PROXY protocol reads alike however it
//! comes in.

use std::net::SocketAddr;

use nostat::request::client::{TrustedProxies, identify};
use nostat::request::proxy_protocol::{Read, read};

const NAMES: [&str; 5] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-real-ip",
    "forwarded",
];

/// One input: lines of fields, each with a byte for its name; all of it is a header of the PROXY protocol, too.
pub fn run(bytes: &[u8]) {
    let fields: Vec<(Vec<u8>, Vec<u8>)> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let (name, value) = line.split_first()?;
            let name = NAMES.get(usize::from(*name) % NAMES.len())?;
            Some((name.as_bytes().to_vec(), value.to_vec()))
        })
        .collect();
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let trusts = |networks: &str| TrustedProxies::new(vec![networks.parse().expect("a network")]);
    for header in [None, Some("x-real-ip"), Some("forwarded")] {
        let told = identify(peer, false, &fields[..], &trusts("198.51.100.0/24"), header);
        assert!(!told.trusted_peer && !told.https && told.server_port.is_none());
        assert_eq!((told.address, told.port), (peer.ip(), peer.port()));
        let told = identify(peer, false, &fields[..], &trusts("192.0.2.0/24"), header);
        assert!(told.trusted_peer);
        assert_ne!(told.server_port, Some(0));
    }
    let whole = read(bytes);
    if let Read::Header(_, length) = whole {
        assert!((13..=bytes.len()).contains(&length));
        assert_eq!(read(&bytes[..length]), whole);
    }
    for end in 0..bytes.len().min(128) {
        match (read(&bytes[..end]), whole) {
            (Read::Incomplete, _) => {}
            (Read::Other, whole) => assert_eq!(whole, Read::Other),
            (header, whole) => assert_eq!(header, whole),
        }
    }
}
