//! A responder that does what a test tells it, and the gateway's side around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::fastcgi::cgi_response::CgiHead;
use crate::fastcgi::exchange::{Exchange, ExchangeRequest};
use crate::fastcgi::failure::ExchangeError;
use crate::fastcgi::limiter::Limiter;
use crate::fastcgi::settings::{Address, Settings};
use crate::fastcgi::spool::{Body, SpoolSettings, Spools};
use crate::fastcgi::trace::Trace;

pub(super) const COMPLETE: u8 = 0;

/// One responder's address with all that requests to it share.
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) limiter: Arc<Limiter>,
    pub(super) spools: Arc<Spools>,
    pub(super) trace: Arc<Trace>,
    pub(super) dir: TempDir,
}

impl World {
    /// With room for so many requests at once.
    pub(super) fn new(limit: usize) -> World {
        let dir = tempfile::tempdir().unwrap();
        let spools = Spools::new(SpoolSettings {
            dir: dir.path().to_path_buf(),
            memory: 128 * 1024,
            total: 1 << 30,
        });
        World {
            settings: Settings::new(Address::Unix(dir.path().join("fpm.sock"))),
            limiter: Limiter::new(Some(limit)),
            spools,
            trace: Arc::default(),
            dir,
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.path().join("fpm.sock")
    }

    pub(super) fn listen(&self) -> Responder {
        Responder(UnixListener::bind(self.socket()).unwrap())
    }

    /// A responder whose backlog holds one connection.
    pub(super) fn listen_narrowly(&self) -> Responder {
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(self.socket()).unwrap();
        Responder(socket.listen(0).unwrap())
    }

    pub(super) fn get(&self) -> ExchangeRequest {
        ExchangeRequest {
            settings: Arc::new(self.settings.clone()),
            limiter: Arc::clone(&self.limiter),
            params: Bytes::from_static(b"\x01\x04\x00\x01\x00\x00\x00\x00"),
            body: Body::empty(),
            method_is_head: false,
            idempotent: true,
            spools: Arc::clone(&self.spools),
            trace: Arc::clone(&self.trace),
        }
    }

    pub(super) fn post(&self, body: Body) -> ExchangeRequest {
        ExchangeRequest {
            body,
            idempotent: false,
            ..self.get()
        }
    }

    pub(super) fn head(&self) -> ExchangeRequest {
        ExchangeRequest {
            method_is_head: true,
            ..self.get()
        }
    }

    /// Waits until nothing is held any more: slots, places, budget, files.
    pub(super) async fn settled(&self) {
        eventually(|| {
            let held = (
                self.limiter.in_flight(),
                self.limiter.waiting(),
                self.spools.used(),
            );
            held == (0, 0, 0) && self.open_files() == 0
        })
        .await;
    }

    /// Descriptors of this process that are files of this world.
    pub(super) fn open_files(&self) -> usize {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets
            .filter(|target| target.starts_with(self.dir.path()))
            .count()
    }
}

pub(super) struct Responder(UnixListener);

impl Responder {
    pub(super) async fn accept(&self) -> Peer {
        Peer(self.0.accept().await.unwrap().0)
    }

    /// Takes a whole request and gives a whole answer.
    pub(super) async fn answer(&self, stdout: &[u8]) -> Peer {
        let mut peer = self.accept().await;
        peer.request().await;
        peer.say_all(stdout).await;
        peer
    }
}

/// The responder's end of one connection.
pub(super) struct Peer(pub(super) UnixStream);

pub(super) struct Received {
    pub(super) keep: bool,
    pub(super) stdin: Vec<u8>,
}

impl Peer {
    /// One record, `None` at the end of the connection.
    pub(super) async fn record(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).await.ok()?;
        let [1, kind, 0, 1, high, low, padding, 0] = header else {
            panic!("bad header {header:?}");
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        self.0.read_exact(&mut content).await.ok()?;
        content.truncate(length);
        Some((kind, content))
    }

    /// BEGIN_REQUEST and PARAMS; whether the connection is to be kept.
    pub(super) async fn params(&mut self) -> bool {
        let (kind, begin) = self.record().await.expect("BEGIN_REQUEST");
        assert_eq!((kind, begin[1]), (1, 1));
        loop {
            let (kind, content) = self.record().await.expect("PARAMS");
            assert_eq!(kind, 4);
            if content.is_empty() {
                return begin[2] == 1;
            }
        }
    }

    /// Everything up to the end of STDIN.
    pub(super) async fn request(&mut self) -> Received {
        let keep = self.params().await;
        let mut stdin = Vec::new();
        loop {
            let (kind, content) = self.record().await.expect("STDIN");
            assert_eq!(kind, 5);
            if content.is_empty() {
                return Received { keep, stdin };
            }
            stdin.extend_from_slice(&content);
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    pub(super) async fn stdout(&mut self, content: &[u8]) {
        self.write(&stream(6, content)).await;
    }

    pub(super) async fn stderr(&mut self, content: &[u8]) {
        self.write(&stream(7, content)).await;
    }

    pub(super) async fn end(&mut self, protocol: u8) {
        self.write(&end(protocol)).await;
    }

    /// A whole answer in one write, as PHP-FPM makes short ones.
    pub(super) async fn say_all(&mut self, stdout: &[u8]) {
        self.write(&[stream(6, stdout), end(COMPLETE)].concat())
            .await;
    }

    /// Waits until the gateway has closed the connection.
    pub(super) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let closed = self.0.read_to_end(&mut rest);
        let closed = tokio::time::timeout(Duration::from_secs(600), closed);
        // A reset is a close as well.
        let _ = closed.await.expect("the connection to be closed");
    }

    /// Whether the gateway still holds the connection.
    pub(super) fn is_open(&self) -> bool {
        let mut byte = [0];
        let read = self.0.try_read(&mut byte);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

pub(super) fn stream(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, piece) in content.chunks(60_000).enumerate() {
        let [high, low] = (piece.len() as u16).to_be_bytes();
        let padding = (index % 8) as u8;
        bytes.extend([1, kind, 0, 1, high, low, padding, 0]);
        bytes.extend(piece);
        bytes.resize(bytes.len() + usize::from(padding), 0);
    }
    bytes
}

pub(super) fn end(protocol: u8) -> Vec<u8> {
    // The script's own status is 7: nobody minds.
    vec![1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 7, protocol, 0, 0, 0]
}

/// Content in which a mix-up shows.
pub(super) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

pub(super) fn with_head(head: &str, content: &[u8]) -> Vec<u8> {
    [head.as_bytes(), b"\r\n\r\n", content].concat()
}

/// The whole answer.
pub(super) async fn answer(mut exchange: Exchange) -> Result<(CgiHead, Vec<u8>), ExchangeError> {
    let head = exchange.head().await?;
    Ok((head, rest(&mut exchange).await?))
}

/// The content still to come.
pub(super) async fn rest(exchange: &mut Exchange) -> Result<Vec<u8>, ExchangeError> {
    let mut content = Vec::new();
    while let Some(piece) = exchange.next().await? {
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

/// Waits for a state that must come; a deadline catches the one that does not.
pub(super) async fn eventually(mut reached: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(std::time::Instant::now() < deadline, "never reached");
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
}
