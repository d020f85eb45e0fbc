//! A FastCGI responder on a Unix socket that does what a test says, named by behaviour.
//!
//! It is as particular as PHP-FPM: a name-value pair cut across two PARAMS records, content and padding above 65,535 bytes,
//! or a body unlike its CONTENT_LENGTH fail the test. What it does not do: multiplex, other roles than responder, values queries.

pub mod script;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use self::script::{Script, Step};
use self::wire::{Kind, Wire};
use super::{DEADLINE, eventually};

pub struct FakeResponder {
    folder: TempDir,
    shared: Arc<Shared>,
}

/// One request that came in.
pub struct Seen {
    pub params: BTreeMap<String, Vec<u8>>,
    /// The web server wants to keep the connection.
    pub keep: bool,
    stdin: Mutex<Vec<u8>>,
    whole: AtomicBool,
    closed_early: AtomicBool,
}

/// Opened by the test to let a script go on.
#[derive(Clone, Default)]
pub struct Gate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    open: AtomicBool,
    reached: AtomicBool,
}

#[derive(Default)]
struct Shared {
    scripts: Mutex<HashMap<String, Script>>,
    seen: Mutex<Vec<Arc<Seen>>>,
    complaints: Mutex<Vec<String>>,
    connections: AtomicUsize,
    running: AtomicUsize,
    peak: AtomicUsize,
    stopped: AtomicBool,
}

impl FakeResponder {
    /// A responder that describes each request: `php GET /path?query 0`, the number being the length of the body.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("fpm-").tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("php.sock")).unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&accepting);
                serving.connections.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    serve(&serving, stream);
                    serving.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { folder, shared }
    }

    /// As `php:` wants it.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("php.sock")
    }

    /// What to do with requests whose REQUEST_URI is this.
    pub fn on(&self, request_uri: &str, script: Script) {
        self.shared
            .scripts
            .lock()
            .unwrap()
            .insert(request_uri.to_owned(), script);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Arc<Seen>> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The only request so far.
    #[track_caller]
    pub fn only_request(&self) -> Arc<Seen> {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests: {:?}", uris(&requests));
        requests.remove(0)
    }

    #[track_caller]
    pub fn last_request(&self) -> Arc<Seen> {
        self.requests().pop().expect("a request was seen")
    }

    #[track_caller]
    pub fn assert_not_called(&self) {
        let requests = self.requests();
        assert!(requests.is_empty(), "requests: {:?}", uris(&requests));
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.shared.seen.lock().unwrap().clear();
    }

    /// Waits until this many requests have come.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        eventually("requests reach the responder", || {
            (self.requests().len() >= count).then_some(())
        });
    }

    /// Requests whose script runs now.
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    /// The most requests that ran at one time.
    pub fn peak(&self) -> usize {
        self.shared.peak.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for FakeResponder {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(self.socket());
        let complaints = self.shared.complaints.lock().unwrap();
        assert!(
            complaints.is_empty() || thread::panicking(),
            "PHP-FPM would refuse: {complaints:?}"
        );
    }
}

impl Seen {
    /// A parameter as text; the empty text when it was not sent.
    #[track_caller]
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", |value| {
            std::str::from_utf8(value).expect("a parameter of text")
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.params.contains_key(name)
    }

    pub fn stdin(&self) -> Vec<u8> {
        self.stdin.lock().unwrap().clone()
    }

    /// The whole of STDIN came, its end too.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::SeqCst)
    }

    /// The web server closed before the script had ended.
    pub fn closed_early(&self) -> bool {
        self.closed_early.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub fn wait_until_closed_early(&self) {
        eventually("the connection to the responder is closed", || {
            self.closed_early().then_some(())
        });
    }
}

impl Gate {
    pub fn open(&self) {
        self.0.open.store(true, Ordering::SeqCst);
    }

    /// Waits until a script stands before it.
    #[track_caller]
    pub fn wait_until_reached(&self) {
        let start = Instant::now();
        while !self.0.reached.load(Ordering::SeqCst) {
            assert!(start.elapsed() < DEADLINE, "the script is not run");
            thread::yield_now();
        }
    }

    /// Waits until it opens, or the test would have given up.
    pub fn pass(&self) {
        let start = Instant::now();
        while !self.is_open() && start.elapsed() < DEADLINE {
            thread::yield_now();
        }
    }

    fn is_open(&self) -> bool {
        self.0.reached.store(true, Ordering::SeqCst);
        self.0.open.load(Ordering::SeqCst)
    }
}

/// Whether the web server is still there.
#[derive(PartialEq)]
enum Peer {
    Gone,
    There,
}

fn serve(shared: &Shared, stream: UnixStream) {
    stream.set_read_timeout(Some(DEADLINE * 2)).unwrap();
    stream.set_write_timeout(Some(DEADLINE * 2)).unwrap();
    let mut wire = Wire::new(stream);
    loop {
        let Some(seen) = take_request(shared, &mut wire) else {
            return;
        };
        let script = shared
            .scripts
            .lock()
            .unwrap()
            .get(seen.param_lossy("REQUEST_URI").as_ref())
            .cloned();
        let script = script.unwrap_or_else(Script::describes);
        let peer = run(Running::begin(shared), &mut wire, &seen, &script);
        if peer == Peer::Gone {
            seen.closed_early.store(true, Ordering::SeqCst);
        }
        if peer == Peer::Gone || script.closes() {
            return;
        }
        if !seen.keep {
            // As PHP-FPM does: it waits for the web server to close.
            wire.end_writing();
            wire.drain();
            return;
        }
    }
}

impl Seen {
    fn param_lossy(&self, name: &str) -> std::borrow::Cow<'_, str> {
        self.params
            .get(name)
            .map_or("".into(), |value| String::from_utf8_lossy(value))
    }
}

/// BEGIN_REQUEST and the whole of PARAMS; None when the connection ends before.
fn take_request(shared: &Shared, wire: &mut Wire) -> Option<Arc<Seen>> {
    let begin = wire.read_record().ok()?;
    let complain = |what: String| shared.complaints.lock().unwrap().push(what);
    if begin.kind != Kind::BEGIN_REQUEST || begin.content.len() != 8 || begin.content[..2] != [0, 1]
    {
        complain(format!(
            "not a BEGIN_REQUEST for a responder: {} {:?}",
            begin.kind, begin.content
        ));
        return None;
    }
    wire.request_id = begin.id;
    let mut params = BTreeMap::new();
    loop {
        let record = wire.read_record().ok()?;
        if record.kind != Kind::PARAMS || record.id != begin.id {
            complain(format!("record of kind {} within PARAMS", record.kind));
            return None;
        }
        if record.content.len() + record.padding > 65_535 {
            complain("content and padding above 65,535 bytes".into());
        }
        if record.content.is_empty() {
            break;
        }
        match wire::pairs(&record.content) {
            Some(pairs) => {
                for (name, value) in pairs {
                    if params.insert(name.clone(), value).is_some() {
                        complain(format!("{name} sent twice"));
                    }
                }
            }
            None => complain("a pair cut across two records".into()),
        }
    }
    let seen = Arc::new(Seen {
        params,
        keep: begin.content[2] & 1 == 1,
        stdin: Mutex::default(),
        whole: AtomicBool::new(false),
        closed_early: AtomicBool::new(false),
    });
    shared.seen.lock().unwrap().push(Arc::clone(&seen));
    Some(seen)
}

fn take_stdin(shared: &Shared, wire: &mut Wire, seen: &Seen) -> Peer {
    loop {
        let Ok(record) = wire.read_record() else {
            return Peer::Gone;
        };
        if record.kind != Kind::STDIN {
            shared
                .complaints
                .lock()
                .unwrap()
                .push(format!("record of kind {} within STDIN", record.kind));
            return Peer::Gone;
        }
        if record.content.is_empty() {
            seen.whole.store(true, Ordering::SeqCst);
            let length = seen.stdin.lock().unwrap().len();
            let told = seen.param_lossy("CONTENT_LENGTH").parse().unwrap_or(0);
            if length != told {
                shared
                    .complaints
                    .lock()
                    .unwrap()
                    .push(format!("CONTENT_LENGTH {told} and {length} bytes"));
            }
            return Peer::There;
        }
        seen.stdin
            .lock()
            .unwrap()
            .extend_from_slice(&record.content);
    }
}

/// A script that runs, in the eyes of the web server: until END_REQUEST is written.
struct Running<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl<'a> Running<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let now = shared.running.fetch_add(1, Ordering::SeqCst) + 1;
        shared.peak.fetch_max(now, Ordering::SeqCst);
        Self {
            shared,
            ended: false,
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.shared.running.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(mut running: Running<'_>, wire: &mut Wire, seen: &Seen, script: &Script) -> Peer {
    if script.reads_stdin() && take_stdin(running.shared, wire, seen) == Peer::Gone {
        return Peer::Gone;
    }
    for step in script.steps() {
        if matches!(step, Step::End | Step::EndWith { .. } | Step::Close) {
            running.end();
        }
        let written = match step {
            Step::Bytewise(bytes) => bytes
                .iter()
                .try_for_each(|byte| wire.write_record(Kind::STDOUT, &[*byte], 0)),
            Step::Close => return Peer::There,
            Step::Describe => {
                let text = format!(
                    "Content-Type: text/html; charset=UTF-8\r\n\r\nphp {} {} {}",
                    seen.param_lossy("REQUEST_METHOD"),
                    seen.param_lossy("REQUEST_URI"),
                    seen.stdin.lock().unwrap().len()
                );
                wire.write_stream(Kind::STDOUT, text.as_bytes())
            }
            Step::Do(action) => {
                action();
                Ok(())
            }
            Step::Echo => wire.write_stream(Kind::STDOUT, &seen.stdin()),
            Step::End => wire.write_record(Kind::END_REQUEST, &[0; 8], 0),
            Step::EndWith { protocol_status } => wire.write_record(
                Kind::END_REQUEST,
                &[0, 0, 0, 0, *protocol_status, 0, 0, 0],
                0,
            ),
            Step::Endless => loop {
                if let Err(error) = wire.write_stream(Kind::STDOUT, &[b'x'; 16 * 1024]) {
                    break Err(error);
                }
            },
            Step::ManagementRecord => {
                wire.write_raw(&[1, 11, 0, 0, 0, 8, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0])
            }
            Step::Padded(bytes, padding) => wire.write_record(Kind::STDOUT, bytes, *padding),
            Step::Raw(bytes) => wire.write_raw(bytes),
            Step::Stall => {
                return match hold(wire, || false) {
                    Peer::Gone => Peer::Gone,
                    Peer::There => unreachable!("held until closed"),
                };
            }
            Step::Stderr(length) => wire.write_stream(
                Kind::STDERR,
                &b"PHP Warning: noise\n".repeat(length / 19 + 1),
            ),
            Step::Stdout(bytes) => wire.write_stream(Kind::STDOUT, bytes),
            Step::Wait(gate) => match hold(wire, || gate.is_open()) {
                Peer::Gone => return Peer::Gone,
                Peer::There => Ok(()),
            },
            Step::WrongId(bytes) => wire.write_record_of(wire.request_id + 1, Kind::STDOUT, bytes),
        };
        if written.is_err() {
            return Peer::Gone;
        }
    }
    Peer::There
}

/// Does nothing until `until`, or until the web server closes.
fn hold(wire: &mut Wire, until: impl Fn() -> bool) -> Peer {
    wire.stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let peer = loop {
        if until() {
            break Peer::There;
        }
        match wire.read_some() {
            Ok(0) => break Peer::Gone,
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => break Peer::Gone,
        }
    };
    wire.stream.set_read_timeout(Some(DEADLINE * 2)).unwrap();
    peer
}

fn uris(requests: &[Arc<Seen>]) -> Vec<String> {
    requests
        .iter()
        .map(|seen| {
            format!(
                "{} {}",
                seen.param_lossy("SCRIPT_NAME"),
                seen.param_lossy("REQUEST_URI")
            )
        })
        .collect()
}
