//! Roots that are links and are swapped to the next release (C45): files, SCRIPT_FILENAME and DOCUMENT_ROOT.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::document_root::{DocumentRoot, PHP_SOURCE};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::mode::in_each_mode;
use crate::support::nostat::{Config, Nostat};

/// Releases `r0`, `r1` … that hold the same names, each file saying its release.
fn releases(count: usize) -> DocumentRoot {
    let root = DocumentRoot::empty();
    for number in 0..count {
        root.write(format!("r{number}/index.php"), PHP_SOURCE);
        root.write(format!("r{number}/page.php"), PHP_SOURCE);
        for file in ["a.css", "wp-content/b.css"] {
            root.write(format!("r{number}/{file}"), format!("r{number}").as_bytes());
        }
        root.write(format!("r{number}/wp-content/only-{number}.css"), b"only");
    }
    root
}

/// `ln -sfn`, `mv -T`.
fn swap(target: impl AsRef<Path>, current: &Path) {
    let next = current.with_extension("next");
    symlink(target, &next).unwrap();
    fs::rename(next, current).unwrap();
}

fn site(current: &Path, responder: &FakeResponder) -> Config {
    Config::preset("wordpress", current).site("php", &format!("\"{}\"", responder.address()))
}

/// The release that a request to PHP was told, the same in each parameter.
fn told(responder: &FakeResponder, base: &Path) -> String {
    let seen = responder.last_request();
    let document_root = PathBuf::from(seen.param("DOCUMENT_ROOT"));
    let release = document_root
        .strip_prefix(base)
        .unwrap_or_else(|_| panic!("{}", document_root.display()));
    let script = PathBuf::from(seen.param("SCRIPT_FILENAME"));
    assert!(
        script.starts_with(&document_root),
        "{} and {}",
        script.display(),
        document_root.display()
    );
    release.display().to_string()
}

#[test]
fn after_a_swap_every_answer_is_of_the_next_release() {
    in_each_mode(|mode| {
        let (root, responder) = (releases(4), FakeResponder::start());
        let current = root.path().join("current");
        symlink("r0", &current).unwrap();
        let server = Nostat::start(&mode.config(site(&current, &responder)));
        let mut connection = server.connect();
        for number in 0..4 {
            let name = format!("r{number}");
            // Relative as a rule, absolute once.
            match number {
                0 => {}
                2 => swap(root.path().join(&name), &current),
                _ => swap(&name, &current),
            }
            eventually("the next release", || {
                (connection.get("/a.css").body == name.as_bytes()).then_some(())
            });
            // From here on nothing of the last release, whatever is asked for.
            for _ in 0..3 {
                connection
                    .get("/wp-content/b.css")
                    .assert(200, name.as_bytes());
                connection.get("/a.css").assert(200, name.as_bytes());
                connection
                    .get(&format!("/wp-content/only-{number}.css"))
                    .assert(200, b"only");
                if number > 0 {
                    let last = format!("/wp-content/only-{}.css", number - 1);
                    assert_eq!(connection.get(&last).status, 404, "{last}");
                }
                for page in ["/", "/page.php", "/some/permalink/"] {
                    assert_eq!(connection.get(page).status, 200);
                    assert_eq!(told(&responder, root.path()), name, "{page}");
                }
            }
            // The last release can be deleted: nothing of it is held.
            eventually("its descriptors are closed", || {
                let old: Vec<_> = (0..number)
                    .map(|n| root.path().join(format!("r{n}")))
                    .collect();
                server
                    .descriptor_targets()
                    .iter()
                    .all(|target| old.iter().all(|old| !Path::new(target).starts_with(old)))
                    .then_some(())
            });
        }
        for number in 0..3 {
            fs::remove_dir_all(root.path().join(format!("r{number}"))).unwrap();
        }
        connection.get("/a.css").assert(200, b"r3");
    });
}

#[test]
fn a_link_above_the_root_is_followed_too() {
    in_each_mode(|mode| {
        let (root, responder) = (DocumentRoot::empty(), FakeResponder::start());
        for release in ["r1", "r2"] {
            root.write(format!("{release}/public/index.php"), PHP_SOURCE);
            root.write(format!("{release}/public/a.css"), release.as_bytes());
        }
        let current = root.path().join("current");
        symlink("r1", &current).unwrap();
        let server = Nostat::start(&mode.config(site(&current.join("public"), &responder)));
        for _ in 0..4 {
            server.get("/a.css").assert(200, b"r1");
        }
        swap("r2", &current);
        eventually("the next release", || {
            (server.get("/a.css").body == b"r2").then_some(())
        });
        server.get("/");
        assert_eq!(told(&responder, root.path()), "r2/public");
    });
}

#[test]
fn a_root_that_is_renamed_and_made_again_is_the_new_one() {
    in_each_mode(|mode| {
        let (root, responder) = (releases(2), FakeResponder::start());
        let live = root.path().join("live");
        fs::rename(root.path().join("r0"), &live).unwrap();
        let server = Nostat::start(&mode.config(site(&live, &responder)));
        for _ in 0..4 {
            server.get("/a.css").assert(200, b"r0");
            server.get("/wp-content/only-0.css").assert(200, b"only");
        }
        fs::rename(&live, root.path().join("before")).unwrap();
        fs::rename(root.path().join("r1"), &live).unwrap();
        eventually("the new root", || {
            (server.get("/a.css").body == b"r1").then_some(())
        });
        assert_eq!(server.get("/wp-content/only-0.css").status, 404);
        server.get("/");
        assert_eq!(told(&responder, root.path()), "live");
    });
}

#[test]
fn swaps_without_end_under_load_mix_nothing_and_never_go_back() {
    in_each_mode(|mode| {
        const SWAPS: usize = 12;
        let (root, responder) = (releases(SWAPS + 1), FakeResponder::start());
        let current = root.path().join("current");
        symlink("r0", &current).unwrap();
        let server = Nostat::start(&mode.config(site(&current, &responder)));
        let number = |body: &[u8]| {
            let text = std::str::from_utf8(body).unwrap();
            text.strip_prefix('r')
                .and_then(|n| n.parse::<usize>().ok())
                .expect("a release")
        };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut connection, mut last) = (server.connect(), 0);
                        while !done.load(Ordering::Relaxed) {
                            for path in ["/a.css", "/wp-content/b.css"] {
                                let response = connection.get(path);
                                assert_eq!(response.status, 200, "{response}");
                                let now = number(&response.body);
                                assert!(now >= last, "r{now} after r{last}");
                                last = now;
                            }
                            assert_eq!(connection.get("/page.php").status, 200);
                        }
                    })
                })
                .collect();
            let mut connection = server.connect();
            for release in 1..=SWAPS {
                swap(format!("r{release}"), &current);
                eventually("the next release", || {
                    (number(&connection.get("/a.css").body) == release).then_some(())
                });
            }
            done.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().unwrap();
            }
        });
        for seen in responder.requests() {
            assert_eq!(
                Path::new(seen.param("SCRIPT_FILENAME")).parent().unwrap(),
                Path::new(seen.param("DOCUMENT_ROOT")),
                "two releases in one request"
            );
        }
    });
}
