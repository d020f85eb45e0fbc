//! TLS that ends here: certificates by name, changed under load; versions; who gets no handshake.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, ProtocolVersion,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::admin::{ask, sample, with_socket};
use crate::support::client::{Connection, Cut, request};
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{Config, Nostat, free_port};

/// Takes any certificate: which one it is, the test sees.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

pub fn config(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth()
}

/// A client that asks for this host and takes any certificate.
pub fn client(host: &str, versions: &[&'static SupportedProtocolVersion]) -> ClientConnection {
    let host = ServerName::try_from(host.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config(versions)), host).unwrap()
}

pub const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

/// Writes a certificate for this name and its key as PEM; its bytes.
fn write_certificate(folder: &Path, stem: &str, name: &str) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    // The key first: the pair is whole when the certificate stands there.
    let put = |suffix: &str, text: String| {
        let beside = folder.join("beside");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, folder.join(format!("{stem}.{suffix}"))).unwrap();
    };
    put("key", made.signing_key.serialize_pem());
    put("crt", made.cert.pem());
    made.cert.der().to_vec()
}

/// Connections to the server that are open, whatever they came in at.
pub fn open_connections(socket: &Path) -> u64 {
    let metrics = ask(socket, "GET", "/metrics").1;
    sample(&metrics, "nostat_connections").unwrap()
}

struct Secure {
    root: DocumentRoot,
    responder: FakeResponder,
    config: Config,
    address: SocketAddr,
}

impl Secure {
    /// A WordPress with one more address, where TLS is as `tls` says; `{}` in it is a folder for certificates.
    fn with(tls: &str) -> Secure {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let tls = tls.replace("{}", &root.outside().display().to_string());
        let config = Config::wordpress(&root, &responder)
            .listen(&format!("{{address: \"{address}\", tls: {tls}}}"));
        Secure {
            root,
            responder,
            config,
            address,
        }
    }

    fn connect(&self, host: &str) -> Connection {
        Connection::open_tls(self.address, client(host, BOTH))
    }

    /// The certificate that a client of this host is shown.
    fn shown(&self, host: &str) -> Vec<u8> {
        let mut connection = self.connect(host);
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        connection.tls().peer_certificates().unwrap()[0].to_vec()
    }
}

const ONE: &str = "{certificates: [{certificate: \"{}/a.crt\", key: \"{}/a.key\"}]}";
const TWO: &str = "{certificates: [{certificate: \"{}/a.crt\", key: \"{}/a.key\"}, {certificate: \"{}/b.crt\", key: \"{}/b.key\"}]}";

#[test]
fn files_and_php_are_answered_in_any_order_and_php_knows_of_https() {
    let secure = Secure::with("self_signed");
    let _server = Nostat::start(&secure.config);
    let mut connection = secure.connect("example.com");
    for round in 0..3 {
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let body = vec![b'x'; 100_000];
        let posted = connection.request("POST", "/a-page/", &[], &body);
        posted.assert(200, b"php POST /a-page/ 100000");
        let seen = secure.responder.last_request();
        assert_eq!(seen.param("HTTPS"), "on", "round {round}");
        assert_eq!(
            seen.param("SERVER_PORT"),
            secure.address.port().to_string().as_str()
        );
        let range = connection.get_with(STYLE_PATH, &[("Range", "bytes=2-4")]);
        range.assert(206, &STYLE_BYTES[2..5]);
    }
    assert_eq!(
        connection.tls().protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    let large = vec![b'y'; 3 << 20];
    secure.root.write("wp-content/large.bin", &large);
    connection.get("/wp-content/large.bin").assert(200, &large);
    // Many at once.
    let one = request("GET", STYLE_PATH, &[], b"");
    connection.send(&one.repeat(50));
    for _ in 0..50 {
        connection.read("GET").assert(200, STYLE_BYTES);
    }
}

#[test]
fn the_name_that_is_asked_for_chooses_the_certificate() {
    let secure = Secure::with(TWO);
    let first = write_certificate(secure.root.outside(), "a", "a.test");
    let second = write_certificate(secure.root.outside(), "b", "*.b.test");
    let _server = Nostat::start(&secure.config);
    for (host, expected) in [
        ("a.test", &first),
        ("x.b.test", &second),
        ("b.test", &first),
        ("x.y.b.test", &first),
        ("127.0.0.1", &first),
    ] {
        assert_eq!(&secure.shown(host), expected, "{host}");
    }
}

#[test]
fn a_certificate_that_has_changed_is_shown_and_no_connection_is_dropped() {
    let secure = Secure::with(TWO);
    write_certificate(secure.root.outside(), "a", "a.test");
    write_certificate(secure.root.outside(), "b", "b.test");
    let server = Nostat::start(&secure.config);
    let mut kept = secure.connect("a.test");
    kept.get(STYLE_PATH).assert(200, STYLE_BYTES);
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                secure.shown("b.test");
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let renewed = write_certificate(secure.root.outside(), "a", "a.test");
        eventually("the new one is shown", || {
            (secure.shown("a.test") == renewed).then_some(())
        });
        // One that cannot be used changes nothing, and is said.
        fs::write(secure.root.outside().join("a.crt"), "nothing").unwrap();
        server.wait_for_log(0, "cannot be used, the old ones stay");
        assert_eq!(secure.shown("a.test"), renewed);
        let repaired = write_certificate(secure.root.outside(), "a", "a.test");
        eventually("the repaired one is shown", || {
            (secure.shown("a.test") == repaired).then_some(())
        });
        over.store(true, Ordering::Relaxed);
    });
    assert!(asked.load(Ordering::Relaxed) > 0);
    kept.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn a_reload_takes_on_other_certificates_or_changes_nothing() {
    let secure = Secure::with(TWO);
    let first = write_certificate(secure.root.outside(), "a", "a.test");
    let second = write_certificate(secure.root.outside(), "b", "b.test");
    let server = Nostat::start(&secure.config);
    assert_eq!(secure.shown("other.test"), first);
    let text = secure
        .config
        .render(&server.address().to_string(), &server.work());
    let swapped = text.replace("a.crt", "c.crt").replace("a.key", "c.key");
    let from = server.log().len();
    server.rewrite_text(&swapped);
    server.signal(Signal::HUP);
    server.wait_for_log(from, "c.crt cannot be read");
    assert_eq!(secure.shown("other.test"), first);
    let folder = secure.root.outside();
    for suffix in ["crt", "key"] {
        let from = folder.join(format!("b.{suffix}"));
        fs::copy(from, folder.join(format!("c.{suffix}"))).unwrap();
    }
    let from = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "reloaded");
    assert_eq!(secure.shown("other.test"), second);
}

/// A ticket says that nobody has to be asked again: one from before must not get past authorities that are new.
#[test]
fn who_has_a_ticket_is_asked_for_a_certificate_once_one_is_wanted() {
    for (versions, resumes) in [
        (&[&rustls::version::TLS12][..], true),
        (&[&rustls::version::TLS13][..], true),
    ] {
        let secure = Secure::with(ONE);
        let folder = secure.root.outside();
        write_certificate(folder, "a", "a.test");
        write_certificate(folder, "ca", "ca.test");
        let server = Nostat::start(&secure.config);
        let config = Arc::new(config(versions));
        let host = || ServerName::try_from("a.test").unwrap();
        let client = || ClientConnection::new(config.clone(), host()).unwrap();
        let mut first = Connection::open_tls(secure.address, client());
        first.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let mut second = Connection::open_tls(secure.address, client());
        second.get(STYLE_PATH).assert(200, STYLE_BYTES);
        let is_resumed = second.tls().handshake_kind() == Some(HandshakeKind::Resumed);
        assert_eq!(is_resumed, resumes);

        let text = secure
            .config
            .render(&server.address().to_string(), &server.work());
        let ca = folder.join("ca.crt");
        let stricter = format!("client_ca: \"{}\", certificates", ca.display());
        let from = server.log().len();
        server.rewrite_text(&text.replacen("certificates", &stricter, 1));
        server.signal(Signal::HUP);
        server.wait_for_log(from, "reloaded");
        let mut third = Connection::open_tls(secure.address, client());
        third.send_lossy(&request("GET", STYLE_PATH, &[], b""));
        assert!(third.try_read("GET").is_err(), "{versions:?}");
    }
}

#[test]
fn the_oldest_version_is_what_the_settings_say() {
    let old: &[_] = &[&rustls::version::TLS12];
    let secure = Secure::with("self_signed");
    let _server = Nostat::start(&secure.config);
    let mut connection = Connection::open_tls(secure.address, client("a.test", old));
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert_eq!(
        connection.tls().protocol_version(),
        Some(ProtocolVersion::TLSv1_2)
    );

    let secure = Secure::with("{self_signed: on, min: 1.3}");
    let _server = Nostat::start(&secure.config);
    let mut connection = Connection::open_tls(secure.address, client("a.test", old));
    connection.send_lossy(&request("GET", STYLE_PATH, &[], b""));
    assert!(matches!(connection.try_read("GET"), Err(Cut::End)));
    secure
        .connect("a.test")
        .get(STYLE_PATH)
        .assert(200, STYLE_BYTES);
}

#[test]
fn what_is_no_handshake_gets_no_answer_and_is_counted() {
    let secure = Secure::with("self_signed");
    let (config, socket) = with_socket(&secure.root, secure.config.clone());
    let _server = Nostat::start(&config.top("limits", "{request_head: 1s}"));
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        &[0; 2000],
        &[0x16, 3, 1, 0xff, 0xff],
    ] {
        let mut connection = Connection::open(secure.address);
        connection.send_lossy(bytes);
        // An alert at the most.
        let rest = connection.read_to_end();
        assert!(rest.len() < 20, "{}", rest.escape_ascii());
    }
    let mut silent = Connection::open(secure.address);
    assert!(silent.read_to_end().is_empty());
    secure
        .connect("a.test")
        .get(STYLE_PATH)
        .assert(200, STYLE_BYTES);
    let metrics = ask(&socket, "GET", "/metrics").1;
    let listen = secure.address;
    let counted = |result: &str| {
        let labels = format!("{{listen=\"{listen}\",result=\"{result}\"}}");
        sample(&metrics, &format!("nostat_tls_handshakes_total{labels}")).unwrap()
    };
    assert_eq!(counted("done"), 1);
    assert_eq!(counted("failed") + counted("late"), 4);
    eventually("all are gone", || {
        (open_connections(&socket) == 0).then_some(())
    });
    secure.responder.assert_not_called();
}

/// The beginning of a handshake that names this host, whatever it is.
fn hello(host: &[u8]) -> Vec<u8> {
    fn counted<const N: usize>(content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        [&length[length.len() - N..], content].concat()
    }
    let name = [&[0][..], &counted::<2>(host)].concat();
    let extension = [&[0, 0][..], &counted::<2>(&counted::<2>(&name))].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &counted::<2>(&[0x13, 1]),
        &[1, 0],
        &counted::<2>(&extension),
    ];
    let handshake = [&[1][..], &counted::<3>(&body.concat())].concat();
    [&[0x16, 3, 1][..], &counted::<2>(&handshake)].concat()
}

#[test]
fn strangers_do_not_write_the_log() {
    let secure = Secure::with("self_signed");
    let server = Nostat::start(&secure.config);
    for host in [&b"127.0.0.1"[..], b"a b", &[b'x'; 300]] {
        let mut connection = Connection::open(secure.address);
        connection.send_lossy(&hello(host));
        let alert = connection.read_to_end();
        assert_eq!(alert.first(), Some(&0x15), "{}", alert.escape_ascii());
    }
    let log = server.log();
    assert!(!log.contains("SNI"), "{log}");
}

/// Silent connections once took all places for handshakes.
#[test]
fn who_says_nothing_keeps_nobody_else_from_a_handshake() {
    let secure = Secure::with("self_signed");
    let (config, socket) = with_socket(&secure.root, secure.config.clone());
    let config = config.top("limits", "{request_head: 60s, connections: 4000}");
    let _server = Nostat::start_limited(&config, 8192);
    let silent: Vec<Connection> = (0..1030)
        .map(|_| Connection::open(secure.address))
        .collect();
    eventually("all have come in", || {
        (open_connections(&socket) >= silent.len() as u64).then_some(())
    });
    let mut connection = secure.connect("a.test");
    connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
    let metrics = ask(&socket, "GET", "/metrics").1;
    let listen = secure.address;
    let refused = format!("nostat_tls_handshakes_total{{listen=\"{listen}\",result=\"refused\"}}");
    assert_eq!(sample(&metrics, &refused), Some(0));
}

/// One byte is no reason to wait for the rest for ever.
#[test]
fn a_handshake_that_has_begun_has_an_end() {
    let secure = Secure::with("self_signed");
    let (config, socket) = with_socket(&secure.root, secure.config.clone());
    let server = Nostat::start(&config.top("limits", "{request_head: 1s}"));
    let mut begun = Connection::open(secure.address);
    begun.send(&[0x16, 3, 1]);
    begun.expect_end();
    let listen = secure.address;
    let late = format!("nostat_tls_handshakes_total{{listen=\"{listen}\",result=\"late\"}}");
    eventually("it is counted", || {
        let metrics = ask(&socket, "GET", "/metrics").1;
        (sample(&metrics, &late) == Some(1)).then_some(())
    });
    // A silent one ends with the process, which does not wait for it.
    let mut silent = Connection::open(secure.address);
    eventually("it has come in", || {
        (open_connections(&socket) > 0).then_some(())
    });
    assert!(server.stop().status.success());
    silent.expect_end();
}

#[test]
fn a_proxy_may_speak_before_tls() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = Config::wordpress(&root, &responder).listen(&format!(
        "{{address: \"{address}\", tls: self_signed, proxy_protocol: on}}"
    ));
    let _server = Nostat::start(&config);
    let mut connection = Connection::open_tls(address, client("a.test", BOTH));
    use std::io::Write;
    let mut plain = connection.writer();
    plain
        .write_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n")
        .unwrap();
    assert_eq!(connection.get("/").status, 200);
    let seen = responder.last_request();
    assert_eq!(seen.param("REMOTE_ADDR"), "192.0.2.7");
    assert_eq!(seen.param("HTTPS"), "on");
    assert_eq!(seen.param("SERVER_PORT"), "443");
}

#[test]
fn mistakes_in_certificates_are_told_with_their_place() {
    let secure = Secure::with(TWO);
    write_certificate(secure.root.outside(), "a", "a.test");
    write_certificate(secure.root.outside(), "b", "b.test");
    fs::copy(
        secure.root.outside().join("a.key"),
        secure.root.outside().join("b.key"),
    )
    .unwrap();
    let file = secure.root.outside().join("nostat.yaml");
    fs::write(
        &file,
        secure.config.render("127.0.0.1:1", secure.root.outside()),
    )
    .unwrap();
    let checked = std::process::Command::new(crate::support::nostat::BINARY)
        .args(["check", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let said = String::from_utf8_lossy(&checked.stderr) + String::from_utf8_lossy(&checked.stdout);
    assert!(said.contains(":1:"), "{said}");
    assert!(said.contains("listen[1].tls.certificates[1]"), "{said}");
    assert!(said.contains("do not belong together"), "{said}");
}

#[test]
fn plain_requests_are_sent_to_https_but_for_challenges() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    root.write(".well-known/acme-challenge/token", b"proof");
    let config = Config::wordpress(&root, &responder)
        .listen(&format!("{{address: \"{address}\", redirect: https}}"));
    let _server = Nostat::start(&config);
    let mut plain = Connection::open(address);
    for (method, path, status, location) in [
        ("GET", "/a%20b?c=d", 301, "https://example.com/a%20b?c=d"),
        (
            "HEAD",
            STYLE_PATH,
            301,
            &*format!("https://example.com{STYLE_PATH}"),
        ),
        (
            "POST",
            "/wp-login.php",
            308,
            "https://example.com/wp-login.php",
        ),
        (
            "GET",
            "//evil.example/",
            301,
            "https://example.com//evil.example/",
        ),
        (
            "GET",
            "/.well-known/acme-challenge/../x",
            301,
            "https://example.com/.well-known/acme-challenge/../x",
        ),
    ] {
        let answer = plain.request(method, path, &[("Host", "example.com:8080")], b"");
        assert_eq!(
            (answer.status, answer.field("location")),
            (status, Some(location))
        );
    }
    plain
        .get("/.well-known/acme-challenge/token")
        .assert(200, b"proof");
    // A trusted proxy in front may have ended TLS.
    let forwarded = plain.get_with(STYLE_PATH, &[("X-Forwarded-Proto", "https")]);
    forwarded.assert(200, STYLE_BYTES);
    responder.assert_not_called();
}

#[test]
fn browsers_are_told_to_stay_with_https_on_https_alone() {
    let secure = Secure::with("{self_signed: on, hsts: 180d}");
    let server = Nostat::start(&secure.config);
    let mut connection = secure.connect("example.com");
    for path in [
        STYLE_PATH,
        "/a-page/",
        "/wp-content/missing.css",
        "/wp-content",
    ] {
        let answer = connection.get(path);
        let told = answer.field("strict-transport-security");
        assert_eq!(told, Some("max-age=15552000"), "{path}");
        let plain = server.get(path);
        assert_eq!(plain.field("strict-transport-security"), None, "{path}");
    }
}

#[test]
fn what_a_site_says_of_https_itself_is_not_said_twice() {
    let secure = Secure::with("{self_signed: on, hsts: 180d}");
    let own = "[{match: \"/\", set: {strict-transport-Security: max-age=7}}]";
    let config = secure.config.clone().site("headers", own);
    let _server = Nostat::start(&config);
    let mut connection = secure.connect("example.com");
    // A body in memory, one of a file, two ranges of it, and none.
    secure.root.write("wp-content/large.bin", &[b'x'; 300_000]);
    for (path, fields) in [
        (STYLE_PATH, &[][..]),
        ("/wp-content/large.bin", &[]),
        (STYLE_PATH, &[("Range", "bytes=0-0,2-2")]),
        (STYLE_PATH, &[("If-None-Match", "*")]),
    ] {
        let answer = connection.get_with(path, fields);
        let told = answer.fields.iter();
        let told: Vec<&str> = told
            .filter(|(name, _)| name.eq_ignore_ascii_case("strict-transport-security"))
            .map(|(_, value)| &**value)
            .collect();
        assert_eq!(told, ["max-age=7"], "{path} {fields:?}");
    }
}

/// Writes a certificate that is valid from one day to another, counted from today.
fn write_certificate_for(folder: &Path, stem: &str, from: i64, to: i64) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let day = |days: i64| {
        let seconds = now.as_secs().checked_add_signed(days * 86_400).unwrap();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    let mut wanted = rcgen::CertificateParams::new([format!("{stem}.test")]).unwrap();
    (wanted.not_before, wanted.not_after) = (day(from), day(to));
    let key = rcgen::KeyPair::generate().unwrap();
    let made = wanted.self_signed(&key).unwrap();
    fs::write(folder.join(format!("{stem}.key")), key.serialize_pem()).unwrap();
    fs::write(folder.join(format!("{stem}.crt")), made.pem()).unwrap();
}

#[test]
fn a_certificate_that_clients_refuse_or_will_soon_is_warned_of_and_served() {
    let secure = Secure::with(TWO);
    let folder = secure.root.outside();
    for (from, to, what) in [
        (-90, -1, Some("a.crt: the certificate has expired (")),
        (1, 90, Some("a.crt: the certificate is not valid before ")),
        (-85, 5, Some("a.crt: the certificate expires soon (")),
        (-30, 60, None),
    ] {
        write_certificate_for(folder, "a", from, to);
        write_certificate_for(folder, "b", -1, 90);
        let file = folder.join("nostat.yaml");
        fs::write(&file, secure.config.render("127.0.0.1:1", folder)).unwrap();
        let checked = std::process::Command::new(crate::support::nostat::BINARY)
            .args(["check", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(checked.status.code(), Some(0));
        let said = String::from_utf8_lossy(&checked.stderr);
        match what {
            Some(what) => assert!(said.contains(what) && said.contains("warning: "), "{said}"),
            None => assert!(said.is_empty(), "{said}"),
        }
        assert!(!said.contains("b.crt"), "{said}");
    }
    write_certificate_for(folder, "a", -90, -1);
    let (config, socket) = with_socket(&secure.root, secure.config.clone());
    let server = Nostat::start(&config);
    server.wait_for_log(0, "a.crt: the certificate has expired (");
    secure
        .connect("a.test")
        .get(STYLE_PATH)
        .assert(200, STYLE_BYTES);
    let warned = || {
        ask(&socket, "GET", "/overview")
            .1
            .contains("a.crt: the certificate has expired")
    };
    assert!(warned());
    // A renewed one is no reason for it any more.
    write_certificate_for(folder, "a", -1, 90);
    eventually("nothing is the matter", || (!warned()).then_some(()));
}

/// Which listener a connection comes in at says who is asked for a certificate, whatever names are given there.
#[test]
fn no_name_leads_past_the_certificate_that_a_listener_asks_for() {
    let secure = Secure::with(TWO);
    let folder = secure.root.outside();
    for stem in ["a", "b", "ca"] {
        write_certificate(folder, stem, &format!("{stem}.test"));
    }
    let strict = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let asks = TWO.replacen('{', "{client_ca: \"{}/ca.crt\", ", 1);
    let asks = asks.replace("{}", &folder.display().to_string());
    let listen = format!("{{address: \"{strict}\", tls: {asks}}}");
    let _server = Nostat::start(&secure.config.clone().listen(&listen));
    let shared = Arc::new(config(BOTH));
    let client = |name: &str, config: &Arc<ClientConfig>| {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        ClientConnection::new(config.clone(), name).unwrap()
    };
    for name in ["a.test", "b.test", "other.test"] {
        // It has a ticket of the listener that asks for nothing.
        for _ in 0..2 {
            let mut open = Connection::open_tls(secure.address, client(name, &shared));
            open.get(STYLE_PATH).assert(200, STYLE_BYTES);
        }
        for host in ["a.test", "b.test", "example.com"] {
            let mut refused = Connection::open_tls(strict, client(name, &shared));
            refused.send_lossy(&request("GET", STYLE_PATH, &[("Host", host)], b""));
            assert!(refused.try_read("GET").is_err(), "{name} {host}");
        }
    }
    // Who has the certificate has it for all that is to be seen there.
    let known = Arc::new(config_of(folder, "ca"));
    let mut connection = Connection::open_tls(strict, client("a.test", &known));
    for host in ["a.test", "b.test", "example.com"] {
        let answer = connection.get_with(STYLE_PATH, &[("Host", host)]);
        answer.assert(200, STYLE_BYTES);
    }
}

/// A client that has this certificate.
fn config_of(folder: &Path, stem: &str) -> ClientConfig {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    let read = |suffix: &str| fs::read(folder.join(format!("{stem}.{suffix}"))).unwrap();
    let certificate = CertificateDer::from_pem_slice(&read("crt")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(BOTH)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_auth_cert(vec![certificate], key)
        .unwrap()
}
