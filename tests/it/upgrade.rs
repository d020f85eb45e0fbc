//! Another binary takes over; sockets that were opened by somebody else; what systemd is told.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::fake_responder::FakeResponder;
use crate::support::nostat::{BINARY, Config, Nostat};
use crate::support::{DEADLINE, eventually};

fn with_socket(root: &DocumentRoot, config: Config) -> (Config, PathBuf) {
    let socket = root.outside().join("admin.sock");
    let keys = format!("{{socket: \"{}\"}}", socket.display());
    (config.top("admin", &keys), socket)
}

fn upgrade(socket: &Path) -> Output {
    Command::new(BINARY)
        .args(["upgrade", "--socket"])
        .arg(socket)
        .output()
        .unwrap()
}

/// A process that is no child of this one, ended with the test.
struct Successor(Pid);

impl Successor {
    /// The one that `nostat upgrade` has named.
    fn of(told: &Output) -> Successor {
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(
            told.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&told.stderr)
        );
        let number = said.split(' ').nth(1).and_then(|word| word.parse().ok());
        Successor(
            number
                .and_then(Pid::from_raw)
                .unwrap_or_else(|| panic!("no process in {said}")),
        )
    }

    fn is_gone(&self) -> bool {
        test_kill_process(self.0).is_err()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn another_binary_takes_over_without_a_failed_request() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top("limits", "{drain: 20s}");
    let (config, socket) = with_socket(&root, config);
    let mut server = Nostat::start(&config);
    let port = server.port();
    let (stop, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (stop, asked) = (stop.clone(), asked.clone());
            thread::spawn(move || {
                let mut connection = None;
                while !stop.load(Ordering::Relaxed) {
                    let mut used = connection.take().unwrap_or_else(|| {
                        crate::support::client::Connection::open(([127, 0, 0, 1], port).into())
                    });
                    let path = if number % 2 == 0 {
                        STYLE_PATH
                    } else {
                        "/page/"
                    };
                    let answer = used.get(path);
                    assert_eq!(answer.status, 200, "{path}");
                    asked.fetch_add(1, Ordering::Relaxed);
                    if !answer.closes() {
                        connection = Some(used);
                    }
                }
            })
        })
        .collect();
    eventually("the load runs", || {
        (asked.load(Ordering::Relaxed) > 200).then_some(())
    });
    let successor = Successor::of(&upgrade(&socket));
    let ended = server.wait();
    assert!(ended.success(), "{ended}");
    let before = asked.load(Ordering::Relaxed);
    eventually("the new process answers", || {
        (asked.load(Ordering::Relaxed) > before + 200).then_some(())
    });
    // And once more, by the socket that the new one has taken over.
    let second = Successor::of(&upgrade(&socket));
    eventually("the second process has gone", || {
        successor.is_gone().then_some(())
    });
    let before = asked.load(Ordering::Relaxed);
    eventually("the third process answers", || {
        (asked.load(Ordering::Relaxed) > before + 200).then_some(())
    });
    stop.store(true, Ordering::Relaxed);
    clients
        .into_iter()
        .for_each(|client| client.join().expect("no failed request"));
    kill_process(second.0, Signal::TERM).unwrap();
    eventually("the third process has gone", || {
        second.is_gone().then_some(())
    });
    assert!(!socket.exists(), "left behind");
}

#[test]
fn a_successor_that_fails_leaves_this_one_serving() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let (config, socket) = with_socket(&root, Config::wordpress(&root, &responder));
    let server = Nostat::start(&config);
    server.rewrite_text("listen: nonsense\n");
    let told = upgrade(&socket);
    assert!(!told.status.success());
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(why.contains("has ended at its start"), "{why}");
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    server.rewrite(&config);
    let reload = Command::new(BINARY)
        .args(["reload", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    assert!(reload.status.success());
    server.get("/page/").assert(200, b"php GET /page/ 0");
}

#[test]
fn pages_on_disk_go_over_to_the_successor() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let pages = tempfile::tempdir().unwrap();
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "{store: disk, valid: 1h}")
        .pages_in(pages.path());
    let (config, socket) = with_socket(&root, config);
    let mut server = Nostat::start(&config);
    let port = server.port();
    server.get("/page/").assert(200, b"php GET /page/ 0");
    responder.forget();
    let _successor = Successor::of(&upgrade(&socket));
    assert!(server.wait().success());
    let get =
        || crate::support::client::Connection::open(([127, 0, 0, 1], port).into()).get("/page/");
    eventually("the page is found on disk", || {
        responder.forget();
        get().assert(200, b"php GET /page/ 0");
        responder.requests().is_empty().then_some(())
    });
}

#[test]
fn a_purge_that_reaches_the_old_process_counts_in_the_new_one() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let pages = tempfile::tempdir().unwrap();
    let config = Config::wordpress(&root, &responder)
        .site("page_cache", "{store: disk, valid: 1h}")
        .pages_in(pages.path());
    let (config, socket) = with_socket(&root, config);
    let server = Nostat::start(&config);
    let port = server.port();
    let get = || {
        let address = ([127, 0, 0, 1], port).into();
        crate::support::client::Connection::open(address)
            .get("/page/")
            .body
    };
    assert_eq!(get(), b"php GET /page/ 0");
    let mut late = server.connect();
    late.send(b"PURGE /page/ HTTP/1.1\r\nHost: exa");
    let _successor = Successor::of(&upgrade(&socket));
    responder.on(
        "/page/",
        crate::support::fake_responder::Script::answers("Content-Type: text/html\r\n\r\nnew"),
    );
    late.send(b"mple.com\r\n\r\n");
    assert_eq!(late.read("PURGE").status, 200);
    eventually("the new page", || (get() == b"new").then_some(()));
}

/// The text of a settings file for a server that listens here.
fn settings_file(root: &DocumentRoot, port: u16) -> PathBuf {
    let file = root.outside().join("activated.yaml");
    let text = format!(
        "listen: [\"127.0.0.1:{port}\"]\nspool: {{dir: \"{}\"}}\naccess_log: {{format: off}}\nsites: [{{root: \"{}\", preset: static}}]\n",
        root.outside().display(),
        root.path().display()
    );
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_socket_of_systemd_is_used_and_systemd_is_told() {
    let root = DocumentRoot::wordpress();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let told_at = root.outside().join("notify.sock");
    let told = UnixDatagram::bind(&told_at).unwrap();
    told.set_read_timeout(Some(DEADLINE)).unwrap();
    // A connection that comes before the server is started waits for it.
    let mut early = TcpStream::connect(("127.0.0.1", port)).unwrap();
    early.set_read_timeout(Some(DEADLINE)).unwrap();
    early
        .write_all(
            format!("GET {STYLE_PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let number = listener.as_raw_fd();
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
    let mut server = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "exec 3<&{number}; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --config \"$1\""
        ))
        .arg(BINARY)
        .arg(settings_file(&root, port))
        .env("NOTIFY_SOCKET", &told_at)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(listener);
    let next = || {
        let mut bytes = [0; 512];
        let length = told.recv(&mut bytes).expect("systemd is told");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert!(next().contains("READY=1"));
    let mut answer = Vec::new();
    early.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(STYLE_BYTES));
    let process = Pid::from_child(&server);
    kill_process(process, Signal::HUP).unwrap();
    let reloading = next();
    assert!(
        reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="),
        "{reloading}"
    );
    assert!(next().contains("READY=1"));
    kill_process(process, Signal::TERM).unwrap();
    assert!(next().contains("STOPPING=1"));
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_changed_settings_file_is_read_by_itself() {
    let (root, responder) = (DocumentRoot::wordpress(), FakeResponder::start());
    let config = Config::wordpress(&root, &responder).top("watch_config", "on");
    let server = Nostat::start(&config);
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    server.rewrite(&config.clone().site("deny", "[\"*.css\"]"));
    eventually("the new rule", || {
        (server.get(STYLE_PATH).status == 403).then_some(())
    });
    // A mistake is refused, and what comes after it is read.
    let from = server.log().len();
    server.rewrite_text("listen: nonsense\n");
    server.wait_for_log(from, "not reloaded");
    assert_eq!(server.get(STYLE_PATH).status, 403);
    server.rewrite(&config);
    eventually("the old rule", || {
        (server.get(STYLE_PATH).status == 200).then_some(())
    });
}
