//! The server under test: the built binary as a child process with a configuration file of its own.

use std::collections::HashSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::client::{Connection, Response};
use super::document_root::DocumentRoot;
use super::eventually;
use super::fake_responder::FakeResponder;

/// A configuration file in the making: top-level keys and sites, each value as YAML text.
#[derive(Clone)]
pub struct Config {
    listen: Vec<String>,
    top: Vec<(String, String)>,
    sites: Vec<Vec<(String, String)>>,
}

impl Config {
    /// The WordPress preset over this root with this responder.
    pub fn wordpress(root: &DocumentRoot, responder: &FakeResponder) -> Self {
        Self::preset("wordpress", root.path()).site("php", &format!("\"{}\"", responder.address()))
    }

    /// The WordPress preset where a test asks for files only: nobody listens at the responder's address.
    pub fn wordpress_alone(root: &DocumentRoot) -> Self {
        let socket = root.outside().join("nobody.sock");
        Self::preset("wordpress", root.path())
            .site("php", &format!("\"unix:{}\"", socket.display()))
    }

    /// Files alone.
    pub fn static_files(root: &DocumentRoot) -> Self {
        Self::preset("static", root.path())
    }

    pub fn preset(preset: &str, root: &Path) -> Self {
        let config = Self {
            listen: Vec::new(),
            top: Vec::new(),
            sites: Vec::new(),
        };
        config
            .top("workers", "1")
            .top("open_file_cache", "{valid: 1s, errors_valid: 1s}")
            .top("access_log", "{format: off}")
            // Where a packaged one has run its folder is there, and one server alone can have the socket.
            .top("admin", "off")
            .also(preset, root)
    }

    /// One more site; [`Config::site`] now speaks of it.
    pub fn also(mut self, preset: &str, root: &Path) -> Self {
        self.sites.push(vec![
            ("root".into(), format!("\"{}\"", root.display())),
            ("preset".into(), preset.into()),
        ]);
        self
    }

    /// A key of the last site.
    pub fn site(mut self, key: &str, value: &str) -> Self {
        set(self.sites.last_mut().expect("a site"), key, value);
        self
    }

    /// One more address to listen on, after the one that the tests use.
    pub fn listen(mut self, address: &str) -> Self {
        self.listen.push(address.to_owned());
        self
    }

    /// A key of the top level.
    pub fn top(mut self, key: &str, value: &str) -> Self {
        set(&mut self.top, key, value);
        self
    }

    /// Where pages that are kept on disk are.
    pub fn pages_in(self, dir: &Path) -> Self {
        self.top("page_store", &format!("{{dir: \"{}\"}}", dir.display()))
    }

    /// The file's text.
    pub fn render(&self, listen: &str, spool: &Path) -> String {
        let listen = std::iter::once(format!("\"{listen}\""));
        let listen = Vec::from_iter(listen.chain(self.listen.iter().cloned())).join(", ");
        let mut text = format!("listen: [{listen}]\n");
        let mut top = self.top.clone();
        if top.iter().all(|(key, _)| key != "spool") {
            set(
                &mut top,
                "spool",
                &format!("{{dir: \"{}\"}}", spool.display()),
            );
        }
        // Most tests ask for more that is missing, from one address, than anybody may.
        if top.iter().all(|(key, _)| key != "rate_limits") {
            set(&mut top, "rate_limits", "off");
        }
        for (key, value) in &top {
            text.push_str(&format!("{key}: {value}\n"));
        }
        text.push_str("sites:\n");
        for site in &self.sites {
            for (index, (key, value)) in site.iter().enumerate() {
                text.push_str(if index == 0 { "  - " } else { "    " });
                text.push_str(&format!("{key}: {value}\n"));
            }
        }
        text
    }
}

fn set(keys: &mut Vec<(String, String)>, key: &str, value: &str) {
    match keys.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = value.to_owned(),
        None => keys.push((key.to_owned(), value.to_owned())),
    }
}

/// A running server; killed when the test forgets it, and its log shown when the test fails.
pub struct Nostat {
    child: Child,
    port: u16,
    work: TempDir,
}

/// What is left of a server that has ended.
pub struct Stopped {
    pub status: ExitStatus,
    pub log: String,
}

impl Nostat {
    /// A small WordPress, its responder, and a server of both with the settings most users have.
    #[track_caller]
    pub fn wordpress() -> (DocumentRoot, FakeResponder, Self) {
        let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
        let server = Self::start(&Config::wordpress(&root, &responder));
        (root, responder, server)
    }

    /// Starts a server and waits until it answers.
    #[track_caller]
    pub fn start(config: &Config) -> Self {
        Self::start_as(Command::new(BINARY), config)
    }

    /// The same with this limit of open descriptors, which it cannot raise.
    #[track_caller]
    pub fn start_limited(config: &Config, descriptors: u32) -> Self {
        Self::start_as(limited(descriptors), config)
    }

    #[track_caller]
    fn start_as(command: Command, config: &Config) -> Self {
        let mut command = command;
        // Another process may take the port between our look and the server's bind: then once more.
        for _ in 0..5 {
            let mut server = Self::spawn_as(&mut command, config, free_port());
            if server.answers() {
                return server;
            }
        }
        panic!("the server does not start");
    }

    /// Starts a server on this port and waits for nothing.
    pub fn spawn(config: &Config, port: u16) -> Self {
        Self::spawn_as(&mut Command::new(BINARY), config, port)
    }

    fn spawn_as(command: &mut Command, config: &Config, port: u16) -> Self {
        let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut command = Command::new(command.get_program());
        let work = tempfile::Builder::new()
            .prefix("nostat-run-")
            .tempdir()
            .unwrap();
        fs::create_dir(work.path().join("spool")).unwrap();
        let listen = format!("127.0.0.1:{port}");
        fs::write(
            work.path().join("nostat.yaml"),
            config.render(&listen, &work.path().join("spool")),
        )
        .unwrap();
        arguments.extend(["serve".into(), "--config".into()]);
        let child = command
            .args(arguments)
            .arg(work.path().join("nostat.yaml"))
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(File::create(work.path().join("stdout")).unwrap())
            .stderr(File::create(work.path().join("stderr")).unwrap())
            .spawn()
            .expect("the binary runs");
        Self { child, port, work }
    }

    fn answers(&mut self) -> bool {
        eventually("the server listens, or ends", || {
            match self.child.try_wait().unwrap() {
                Some(_) => Some(false),
                None => std::net::TcpStream::connect(self.address())
                    .is_ok()
                    .then_some(true),
            }
        }) && {
            // No Host: an error that no site, responder or origin is asked for.
            let mut connection = self.connect();
            connection.send(b"GET /ready HTTP/1.1\r\n\r\n");
            connection.try_read("GET").is_ok()
        }
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// GET on a connection of its own, which the server must close right after the answer.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], b"")
    }

    #[track_caller]
    pub fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        self.send("GET", path, fields, b"")
    }

    /// One request on a connection of its own, which the server must close right after the answer.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        let mut connection = self.connect();
        let mut fields = fields.to_vec();
        fields.push(("Connection", "close"));
        let response = connection.request(method, path, &fields, body);
        connection.expect_end();
        response
    }

    /// These bytes on a connection of its own; then the first answer and nothing after it.
    #[track_caller]
    pub fn send_raw(&self, bytes: &[u8]) -> Response {
        let mut connection = self.connect();
        connection.send_lossy(bytes);
        let response = connection.read(if bytes.starts_with(b"HEAD ") {
            "HEAD"
        } else {
            "GET"
        });
        if response.closes() {
            connection.expect_end();
        }
        response
    }

    /// The answer once its file has settled: until then its entity-tag is weak.
    #[track_caller]
    pub fn settled(&self, path: &str) -> Response {
        eventually("the file's entity-tag is strong", || {
            let response = self.get(path);
            (!response.etag().starts_with("W/")).then_some(response)
        })
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Waits until the server has ended.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the server ends", || self.child.try_wait().unwrap())
    }

    /// SIGTERM, and what is left then.
    #[track_caller]
    pub fn stop(mut self) -> Stopped {
        self.signal(Signal::TERM);
        let status = self.wait();
        Stopped {
            status,
            log: self.log(),
        }
    }

    /// What has been logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.work.path().join("stderr")).unwrap()).into_owned()
    }

    /// Standard output: the access log where its path is `-`.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.work.path().join("stdout")).unwrap()).into_owned()
    }

    /// The first logged line that contains `needle` at or after byte `from` of the log.
    #[track_caller]
    pub fn wait_for_log(&self, from: usize, needle: &str) -> String {
        eventually(needle, || {
            self.log()
                .get(from..)?
                .lines()
                .find(|line| line.contains(needle))
                .map(str::to_owned)
        })
    }

    /// Puts another configuration in the place of the file; SIGHUP is the test's.
    pub fn rewrite(&self, config: &Config) {
        let listen = format!("127.0.0.1:{}", self.port);
        self.rewrite_text(&config.render(&listen, &self.work.path().join("spool")));
    }

    pub fn rewrite_text(&self, text: &str) {
        let new = self.work.path().join("new.yaml");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.work.path().join("nostat.yaml")).unwrap();
    }

    /// Connections that the server has not closed yet (proc_pid_net(5): the local port and state 01).
    pub fn established(&self) -> usize {
        let port = format!(":{:04X}", self.port);
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        table
            .lines()
            .filter(|line| {
                let mut words = line.split_whitespace().skip(1);
                let local = words.next().unwrap_or_default();
                local.ends_with(&port) && words.nth(1) == Some("01")
            })
            .count()
    }

    /// Open descriptors of the server.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .count()
    }

    /// What the server's descriptors point to.
    pub fn descriptor_targets(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        entries
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .map(|path| path.display().to_string())
            .collect()
    }

    /// A figure of `/proc/PID/status` in KiB.
    #[track_caller]
    pub fn status_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .expect(name);
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Time on a processor so far.
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The name in parentheses may hold spaces; utime and stime are fields 14 and 15 of the whole.
        let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
        let fields = rest.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
        // Linux shows a hundred ticks a second on every machine, whatever its own clock does.
        Duration::from_millis(ticks * 10)
    }

    pub fn work(&self) -> PathBuf {
        self.work.path().to_owned()
    }
}

impl Drop for Nostat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            for line in tail.into_iter().rev() {
                eprintln!("server: {line}");
            }
        }
    }
}

/// The binary under this limit of open descriptors: the shell lowers it and becomes the server.
fn limited(descriptors: u32) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""),
        BINARY,
    ]);
    command
}

/// A port of the kernel's choice that no other test of this process was given.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        if GIVEN.lock().unwrap().get_or_insert_default().insert(port) {
            return port;
        }
    }
}

pub const BINARY: &str = env!("CARGO_BIN_EXE_nostat");
