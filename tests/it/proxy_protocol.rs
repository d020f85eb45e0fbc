//! Listeners where each connection begins with a header of the PROXY protocol.

use std::net::SocketAddr;

use crate::support::client::{Connection, Cut, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat, free_port};

struct Proxied {
    responder: FakeResponder,
    _root: DocumentRoot,
    server: Nostat,
    address: SocketAddr,
}

fn proxied(trusted: &str) -> Proxied {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = Config::wordpress(&root, &responder)
        .listen(&format!("{{address: \"{address}\", proxy_protocol: on}}"))
        .top("access_log", "{path: \"-\", format: combined}")
        .top("trusted_proxies", trusted);
    Proxied {
        server: Nostat::start(&config),
        responder,
        _root: root,
        address,
    }
}

impl Proxied {
    fn after(&self, header: &[u8]) -> Connection {
        let mut connection = Connection::open(self.address);
        connection.send(header);
        connection
    }
}

/// Version 2 over TCP and IPv4, with these values behind the addresses.
fn version_2(port: u16, values: &[u8]) -> Vec<u8> {
    let addresses = [192, 0, 2, 7, 198, 51, 100, 1, 0x13, 0x88];
    let length = u16::try_from(12 + values.len()).unwrap().to_be_bytes();
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    [
        &signature[..],
        &[0x21, 0x11],
        &length,
        &addresses,
        &port.to_be_bytes(),
        values,
    ]
    .concat()
}

#[test]
fn the_client_is_who_the_header_names() {
    let proxied = proxied("[\"127.0.0.1/32\"]");
    let spoken_tls = [0x20, 0, 5, 1, 0, 0, 0, 0];
    for (header, address, port, https) in [
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\r\n".to_vec(),
            "192.0.2.7",
            "80",
            "",
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 5000 443\r\n".to_vec(),
            "2001:db8::7",
            "443",
            "on",
        ),
        (version_2(80, &[]), "192.0.2.7", "80", ""),
        (version_2(8443, &spoken_tls), "192.0.2.7", "8443", "on"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1", "", ""),
    ] {
        let mut connection = proxied.after(&header);
        // What it says besides is a client's word.
        let fields = [
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-Proto", "https"),
        ];
        let forges = address != "127.0.0.1";
        let response = match forges {
            true => connection.get_with("/", &fields),
            false => connection.get("/"),
        };
        assert_eq!(response.status, 200);
        let seen = proxied.responder.last_request();
        assert_eq!(seen.param("REMOTE_ADDR"), address);
        assert_eq!(
            if seen.has("HTTPS") {
                seen.param("HTTPS")
            } else {
                ""
            },
            https,
            "{address}"
        );
        if forges {
            assert_eq!(seen.param("REMOTE_PORT"), "5000");
            assert_eq!(seen.param("SERVER_PORT"), port);
            assert!(!seen.has("HTTP_X_FORWARDED_FOR"));
        }
        // The header is said once for the connection.
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        assert_eq!(connection.get("/again").status, 200);
        assert_eq!(
            proxied.responder.last_request().param("REMOTE_ADDR"),
            address
        );
    }
    eventually("the log names the client", || {
        proxied
            .server
            .output()
            .contains("192.0.2.7 - ")
            .then_some(())
    });
}

#[test]
fn a_trusted_client_of_the_header_may_name_its_own() {
    let proxied = proxied("[\"127.0.0.1/32\", \"192.0.2.7\"]");
    let mut connection = proxied.after(b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\r\n");
    connection.get_with("/", &[("X-Forwarded-For", "203.0.113.9")]);
    assert_eq!(
        proxied.responder.last_request().param("REMOTE_ADDR"),
        "203.0.113.9"
    );
}

#[test]
fn the_header_may_come_byte_by_byte() {
    let proxied = proxied("[\"127.0.0.1/32\"]");
    for header in [
        b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\r\n".to_vec(),
        version_2(80, &[4, 0, 1, 0]),
    ] {
        let mut connection = Connection::open(proxied.address);
        connection.send_bytewise(&[&header[..], &request("GET", STYLE_PATH, &[], b"")].concat());
        connection.read("GET").assert(200, STYLE_BYTES);
    }
}

#[test]
fn a_connection_without_it_gets_no_answer() {
    let proxied = proxied("[\"127.0.0.1/32\"]");
    for bytes in [
        request("GET", STYLE_PATH, &[], b""),
        b"PROXY TCP4 192.0.2.7 198.51.100.1 5000\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        [b"PROXY ".as_slice(), &[b'x'; 300]].concat(),
        [
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".as_slice(),
            &[0; 9000],
        ]
        .concat(),
    ] {
        let mut connection = Connection::open(proxied.address);
        connection.send_lossy(&bytes);
        let got = connection.try_read("GET");
        assert!(matches!(got, Err(Cut::End)), "{}", bytes.escape_ascii());
    }
    // Where it is not asked for it is no request.
    let mut plain = proxied.server.connect();
    plain.send(b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(plain.read("GET").status, 400);
    proxied.responder.assert_not_called();
}

#[test]
fn who_is_not_trusted_cannot_name_a_client() {
    let proxied = proxied("[]");
    let mut connection = proxied.after(b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 80\r\n");
    connection.send_lossy(&request("GET", "/", &[], b""));
    assert!(matches!(connection.try_read("GET"), Err(Cut::End)));
    proxied.responder.assert_not_called();
    proxied
        .server
        .wait_for_log(0, "add \"127.0.0.1\" to trusted_proxies");
}
