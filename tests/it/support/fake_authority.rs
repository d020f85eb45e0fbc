//! An authority of certificates (RFC 8555) that misbehaves by the first label of the host that is ordered for. It asks for the proof
//! and compares it, but checks no signature of a request: Pebble does, in `tests/nightly/acme`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64URL;
use rcgen::{CertificateParams, Issuer, KeyPair, PublicKeyData, SignatureAlgorithm, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::DEADLINE;

/// A host whose certificate is right begins with anything else.
pub const ANOTHER_NAME: &str = "another-name.test";
pub const ENDED: &str = "ended.test";
pub const ANOTHER_KEY: &str = "another-key.test";
pub const SOONER: &str = "sooner.test";
pub const NO_CERTIFICATE: &str = "no-certificate.test";
pub const ENDLESS: &str = "endless.test";
/// `429` with `Retry-After`.
pub const BUSY: &str = "busy.test";
pub const BUSY_SECONDS: u64 = 7200;
/// Its token has a slash.
pub const ODD_TOKEN: &str = "odd-token.test";

pub struct FakeAuthority {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    /// Whether connections are accepted and then left alone.
    silent: bool,
    issuer: Issuer<'static, KeyPair>,
    /// The plain address of the server under test.
    proofs: SocketAddr,
    nonces: AtomicUsize,
    accounts: AtomicUsize,
    connections: AtomicUsize,
    thumbprint: Mutex<String>,
    orders: Mutex<Vec<Order>>,
    stopped: AtomicBool,
}

#[derive(Clone, Default)]
struct Order {
    host: String,
    /// What was found when the proof was asked for.
    proved: Option<bool>,
    chain: Option<String>,
}

struct Request {
    path: String,
    /// The header and the content of the signed object.
    protected: Value,
    payload: Value,
}

struct Answer {
    status: u16,
    location: Option<String>,
    body: Vec<u8>,
    endless: bool,
}

impl FakeAuthority {
    /// One that asks the server at `proofs` for what proves a host. The root of its own certificate is written to `ca`.
    pub fn start(proofs: SocketAddr, ca: &Path) -> Self {
        Self::listen(proofs, ca, false)
    }

    /// One that accepts connections and never says a word.
    pub fn silent(ca: &Path) -> Self {
        Self::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), ca, true)
    }

    fn listen(proofs: SocketAddr, ca: &Path, silent: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(ca, own.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let names = CertificateParams::new(Vec::new()).unwrap();
        let shared = Arc::new(Shared {
            address,
            tls: Arc::new(tls),
            silent,
            issuer: Issuer::new(names, KeyPair::generate().unwrap()),
            proofs,
            nonces: AtomicUsize::default(),
            accounts: AtomicUsize::default(),
            connections: AtomicUsize::default(),
            thumbprint: Mutex::default(),
            orders: Mutex::default(),
            stopped: AtomicBool::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let serving = Arc::clone(&accepting);
                // What goes wrong with one is the client's affair, and another test's.
                thread::spawn(move || serving.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub fn accounts(&self) -> usize {
        self.shared.accounts.load(Ordering::SeqCst)
    }

    /// The hosts that were ordered for, in order.
    pub fn ordered(&self) -> Vec<String> {
        let orders = self.shared.orders.lock().unwrap();
        orders.iter().map(|order| order.host.clone()).collect()
    }
}

impl Drop for FakeAuthority {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(DEADLINE))?;
        if self.silent {
            let mut stream = stream;
            return io::copy(&mut stream, &mut io::sink()).map(drop);
        }
        let connection = ServerConnection::new(self.tls.clone()).map_err(io::Error::other)?;
        let mut stream = BufReader::new(StreamOwned::new(connection, stream));
        while let Some(request) = read(&mut stream)? {
            let answer = self.answer(&request);
            self.write(stream.get_mut(), &answer)?;
        }
        Ok(())
    }

    fn write(&self, stream: &mut impl Write, answer: &Answer) -> io::Result<()> {
        let nonce = self.nonces.fetch_add(1, Ordering::SeqCst);
        let mut head = format!("HTTP/1.1 {} x\r\nReplay-Nonce: n{nonce}\r\n", answer.status);
        if let Some(location) = &answer.location {
            head.push_str(&format!("Location: {location}\r\n"));
        }
        if answer.status == 429 {
            head.push_str(&format!("Retry-After: {BUSY_SECONDS}\r\n"));
        }
        if answer.endless {
            stream.write_all((head + "Content-Length: 1099511627776\r\n\r\n").as_bytes())?;
            loop {
                stream.write_all(&[b'-'; 4096])?;
            }
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
        stream.write_all(head.as_bytes())?;
        stream.write_all(&answer.body)?;
        stream.flush()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut parts = request.path[1..].split('/');
        let what = parts.next().unwrap();
        let number: usize = parts.next().map_or(0, |number| number.parse().unwrap());
        match what {
            "dir" => ok(
                &json!({"newNonce": self.url("/nonce"), "newAccount": self.url("/account"), "newOrder": self.url("/new")}),
            ),
            // HEAD: its answer has no content.
            "nonce" => Answer {
                body: Vec::new(),
                ..ok(&Value::Null)
            },
            "account" => {
                assert_eq!(request.payload["termsOfServiceAgreed"], true);
                *self.thumbprint.lock().unwrap() = thumbprint(&request.protected["jwk"]);
                self.accounts.fetch_add(1, Ordering::SeqCst);
                created(self.url("/account/1"), &json!({"status": "valid"}))
            }
            "new" => self.new_order(request),
            "authorization" => ok(&self.authorization(number)),
            "challenge" => self.challenge(number),
            "finalize" => self.finalize(number, request),
            "order" => ok(&self.state(number)),
            "certificate" => self.certificate(number),
            other => panic!("nobody asks for {other}"),
        }
    }

    fn new_order(&self, request: &Request) -> Answer {
        let host = request.payload["identifiers"][0]["value"].as_str().unwrap();
        let mut orders = self.orders.lock().unwrap();
        orders.push(Order {
            host: host.to_owned(),
            ..Order::default()
        });
        if host == BUSY {
            let problem =
                json!({"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many"});
            return Answer {
                status: 429,
                ..ok(&problem)
            };
        }
        let number = orders.len() - 1;
        drop(orders);
        created(self.url(&format!("/order/{number}")), &self.state(number))
    }

    fn state(&self, number: usize) -> Value {
        let order = self.orders.lock().unwrap()[number].clone();
        let status = match (&order.chain, order.proved) {
            (Some(_), _) => "valid",
            (None, None) => "pending",
            (None, Some(true)) => "ready",
            (None, Some(false)) => "invalid",
        };
        let url = |what: &str| self.url(&format!("/{what}/{number}"));
        let mut state = json!({"status": status, "authorizations": [url("authorization")], "finalize": url("finalize")});
        if order.chain.is_some() {
            state["certificate"] = url("certificate").into();
        }
        state
    }

    fn authorization(&self, number: usize) -> Value {
        let order = self.orders.lock().unwrap()[number].clone();
        let mut challenge = json!({"type": "http-01", "url": self.url(&format!("/challenge/{number}")), "token": token(&order.host, number),
                                   "status": "pending"});
        if order.proved == Some(false) {
            challenge["status"] = "invalid".into();
            challenge["error"] = json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": "not what was expected"});
        }
        let others =
            json!({"type": "dns-01", "url": self.url("/none"), "token": "x", "status": "pending"});
        json!({"identifier": {"type": "dns", "value": order.host}, "status": "pending", "challenges": [others, challenge]})
    }

    /// Asks the host, as everybody does: at the plain address, by its name.
    fn challenge(&self, number: usize) -> Answer {
        let host = self.orders.lock().unwrap()[number].host.clone();
        let token = token(&host, number);
        let expected = format!("{token}.{}", self.thumbprint.lock().unwrap());
        let asked = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.proofs)?;
            stream.set_read_timeout(Some(DEADLINE))?;
            let line = format!("GET /.well-known/acme-challenge/{token} HTTP/1.1");
            let request = format!("{line}\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = asked().unwrap_or_default();
        let is_proved = answer.starts_with("HTTP/1.1 200 ")
            && answer.ends_with(&format!("\r\n\r\n{expected}"))
            && answer.contains("application/octet-stream");
        self.orders.lock().unwrap()[number].proved = Some(is_proved);
        ok(
            &json!({"type": "http-01", "url": self.url(&format!("/challenge/{number}")), "token": token, "status": "processing"}),
        )
    }

    fn finalize(&self, number: usize, request: &Request) -> Answer {
        let wanted = BASE64URL.decode(request.payload["csr"].as_str().unwrap());
        let wanted = wanted.unwrap();
        let (_, wanted) = X509CertificationRequest::from_der(&wanted).unwrap();
        let key = wanted.certification_request_info.subject_pki;
        let key = Key(key.subject_public_key.data.to_vec());
        let host = self.orders.lock().unwrap()[number].host.clone();
        let name = if host == ANOTHER_NAME {
            "evil.test"
        } else {
            &host
        };
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = match &*host {
            ENDED => date_time_ymd(2021, 1, 1),
            SOONER => date_time_ymd(SOON, 1, 1),
            _ => date_time_ymd(2090, 1, 1),
        };
        let issued = match &*host {
            ANOTHER_KEY => params.signed_by(&KeyPair::generate().unwrap(), &self.issuer),
            _ => params.signed_by(&key, &self.issuer),
        };
        let chain = match &*host {
            NO_CERTIFICATE => "<html>Bad Gateway</html>".to_owned(),
            _ => issued.unwrap().pem(),
        };
        self.orders.lock().unwrap()[number].chain = Some(chain);
        ok(&self.state(number))
    }

    fn certificate(&self, number: usize) -> Answer {
        let order = self.orders.lock().unwrap()[number].clone();
        Answer {
            status: 200,
            location: None,
            body: order.chain.unwrap().into_bytes(),
            endless: order.host == ENDLESS,
        }
    }
}

/// A year that a kept certificate outlives in the test of [`SOONER`].
pub const SOON: i32 = 2050;

struct Key(Vec<u8>);

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn token(host: &str, number: usize) -> String {
    match host {
        ODD_TOKEN => format!("../{number}"),
        _ => format!("token-{number}"),
    }
}

/// RFC 7638 §3.
fn thumbprint(key: &Value) -> String {
    let part = |name: &str| format!("\"{name}\":{}", key[name]);
    let parts = ["crv", "kty", "x", "y"].map(part).join(",");
    BASE64URL.encode(Sha256::digest(format!("{{{parts}}}")))
}

fn ok(body: &Value) -> Answer {
    Answer {
        status: 200,
        location: None,
        body: body.to_string().into_bytes(),
        endless: false,
    }
}

fn created(location: String, body: &Value) -> Answer {
    Answer {
        status: 201,
        location: Some(location),
        ..ok(body)
    }
}

/// None: there are no more on this connection.
fn read(stream: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let signed: Value = serde_json::from_slice(&body).unwrap_or_default();
    let decoded = |name: &str| {
        let text = BASE64URL.decode(signed[name].as_str().unwrap_or_default());
        serde_json::from_slice(&text.unwrap()).unwrap_or_default()
    };
    Ok(Some(Request {
        path,
        protected: decoded("protected"),
        payload: decoded("payload"),
    }))
}
