//! A file system that hangs for some paths holds nobody else up (strace delays the calls that open them).

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::mode::in_each_mode;
use crate::support::nostat::{Config, Nostat};

/// strace on a server; gone with the test, and the server runs on.
struct Delay(Child);

impl Delay {
    /// Each opening of `slow/0.css`, `slow/1.css` … below the root takes this long.
    #[track_caller]
    fn begin(server: &Nostat, root: &DocumentRoot, count: usize, time: Duration) -> Self {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2", "-e"])
            .arg(format!("inject=openat2:delay_enter={}ms", time.as_millis()))
            // Relative to the root, or to the folder.
            .arg("-P")
            .arg(root.path().join("slow"));
        for number in 0..count {
            strace.arg("-P").arg(format!("slow/{number}.css"));
        }
        let child = strace
            .args(["-p", &server.pid().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("strace runs");
        let delay = Self(child);
        eventually("strace has attached", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
            tasks
                .flatten()
                .all(|task| {
                    let status = std::fs::read_to_string(task.path().join("status"));
                    status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
                })
                .then_some(())
        });
        delay
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        // By SIGTERM it lets go of the server.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

fn tree(slow: usize) -> DocumentRoot {
    let root = DocumentRoot::empty();
    for number in 0..slow {
        root.write(format!("slow/{number}.css"), b"slow");
    }
    root.write("warm.css", b"warm");
    root.write("cold.css", b"cold");
    root
}

#[test]
#[ignore = "needs strace: tests/nightly/slow"]
fn files_that_open_slowly_hold_up_no_others() {
    in_each_mode(|mode| {
        // Not as many as may be under way on one file system.
        const SLOW: usize = 20;
        let root = tree(SLOW);
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        server.settled("/warm.css");
        let _delay = Delay::begin(&server, &root, SLOW, Duration::from_secs(3));
        let (asked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..SLOW {
                let (server, asked, answered) = (&server, &asked, &answered);
                scope.spawn(move || {
                    let mut connection = server.connect();
                    connection.send(
                        format!("GET /slow/{number}.css HTTP/1.1\r\nHost: example.com\r\n\r\n")
                            .as_bytes(),
                    );
                    asked.fetch_add(1, Ordering::SeqCst);
                    connection.read("GET").assert(200, b"slow");
                    answered.fetch_add(1, Ordering::SeqCst);
                });
            }
            eventually("all are asked for", || {
                (asked.load(Ordering::SeqCst) == SLOW).then_some(())
            });
            for _ in 0..50 {
                server.get("/warm.css").assert(200, b"warm");
            }
            server.get("/cold.css").assert(200, b"cold");
            assert_eq!(server.get("/gone.css").status, 404);
            assert_eq!(
                answered.load(Ordering::SeqCst),
                0,
                "the others came after the slow ones"
            );
        });
    });
}

#[test]
#[ignore = "needs strace: tests/nightly/slow"]
fn a_file_system_that_hangs_is_503_alone_and_well_again_afterwards() {
    in_each_mode(|mode| {
        // More than may be under way on one file system.
        const SLOW: usize = 50;
        let (root, other) = (tree(SLOW), tree(0));
        let config = Config::static_files(&root)
            .also("static", other.path())
            .site("hosts", "[\"other.test\"]");
        let server = Nostat::start(&mode.config(config));
        server.settled("/warm.css");
        let delay = Delay::begin(&server, &root, SLOW, Duration::from_secs(9));
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..SLOW)
                .map(|number| {
                    let server = &server;
                    scope.spawn(move || server.get(&format!("/slow/{number}.css")))
                })
                .collect();
            for _ in 0..20 {
                // What is known needs no file system; another root has its own room to wait in.
                let host = &[("Host", "other.test")];
                server.get_with("/cold.css", host).assert(200, b"cold");
                assert_eq!(server.get_with("/gone.css", host).status, 404);
            }
            for waiting in waiting {
                let response = waiting.join().unwrap();
                assert_eq!(response.status, 503, "{response}");
                assert!(response.field("retry-after").is_some(), "{response}");
            }
        });
        drop(delay);
        eventually("all is well again", || {
            (server.get("/cold.css").body == b"cold").then_some(())
        });
        for number in 0..SLOW {
            eventually("a slow file is well again", || {
                (server.get(&format!("/slow/{number}.css")).body == b"slow").then_some(())
            });
        }
    });
}
