//! Symbolic links and special files.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::document_root::{DocumentRoot, SECRET, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_responder::FakeResponder;
use crate::support::mode::modes;
use crate::support::nostat::{Config, Nostat};

#[track_caller]
fn assert_refused(server: &Nostat, path: &str) {
    for _ in 0..2 {
        let response = server.get(path);
        assert!(
            matches!(response.status, 403 | 404) && !response.text().contains(SECRET),
            "{path}: {response}"
        );
    }
}

#[test]
fn special_files_are_refused_at_once_and_harm_nobody() {
    let root = DocumentRoot::wordpress();
    let _listener = UnixListener::bind(root.path().join("wp-content/uploads/s.png")).unwrap();
    root.fifo("wp-content/uploads/p.png");
    root.link("wp-content/uploads/zero.png", "/dev/zero");
    root.link("wp-content/uploads/tty.png", "/dev/tty");
    root.link("wp-content/uploads/fifo-link.png", "p.png");
    let server = Nostat::start(&Config::wordpress_alone(&root));
    server.get(STYLE_PATH);
    server.get(STYLE_PATH);
    let before = server.descriptors();
    for name in ["s", "p", "zero", "tty", "fifo-link"] {
        let start = Instant::now();
        assert_refused(&server, &format!("/wp-content/uploads/{name}.png"));
        // A worker that opens a FIFO waits for its writer, which never comes.
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{name} took {:?}",
            start.elapsed()
        );
        server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    }
    assert!(
        server.descriptors() <= before + 1,
        "{:?}",
        server.descriptor_targets()
    );
}

#[test]
fn links_beneath_the_root_are_followed_relative_and_absolute() {
    let root = DocumentRoot::wordpress();
    root.link("relative.css", "wp-content/themes/t/style.css");
    root.link(
        "absolute.css",
        root.path().join("wp-content/themes/t/style.css"),
    );
    root.link("deep/er/up.css", "../../wp-content/themes/t/style.css");
    root.link("folder", "wp-content/themes");
    root.link("absolute-folder", root.path().join("wp-content/themes"));
    root.link("chain.css", "relative.css");
    root.link("loop.css", "loop.css");
    root.link("ping.css", "pong.css");
    root.link("pong.css", "ping.css");
    root.link("dangling.css", "nowhere.css");
    let server = Nostat::start(&Config::static_files(&root));
    for path in [
        "/relative.css",
        "/absolute.css",
        "/deep/er/up.css",
        "/folder/t/style.css",
        "/absolute-folder/t/style.css",
        "/chain.css",
    ] {
        server.get(path).assert(200, STYLE_BYTES);
        server.get(path).assert(200, STYLE_BYTES);
    }
    for path in ["/loop.css", "/ping.css", "/dangling.css", "/loop.css/x"] {
        assert_refused(&server, path);
    }
}

#[test]
fn links_out_of_the_root_are_refused_and_the_log_tells_what_would_allow_them() {
    let root = DocumentRoot::wordpress();
    let outside = root.outside().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.css"), SECRET).unwrap();
    fs::write(outside.join("a.php"), SECRET).unwrap();
    root.link("wp-content/uploads/passwd.txt", "/etc/passwd");
    root.link("wp-content/uploads/2024/out.css", outside.join("a.css"));
    root.link("wp-content/uploads/2024/out", &outside);
    root.link("wp-content/uploads/2024/up", "../../../../outside");
    root.link("wp-content/uploads/2024/hop", "up");
    root.link("etc", "/etc");
    root.link("above", root.outside());
    root.link("out.php", outside.join("a.php"));
    let responder = FakeResponder::start();
    let server = Nostat::start(&Config::wordpress(&root, &responder));
    for path in [
        "/wp-content/uploads/passwd.txt",
        "/wp-content/uploads/2024/out.css",
        "/wp-content/uploads/2024/out/a.css",
        "/wp-content/uploads/2024/up/a.css",
        "/wp-content/uploads/2024/hop/a.css",
        "/etc/hostname.txt",
        "/etc/passwd",
        "/above/outside/a.css",
        "/out.php",
    ] {
        assert_refused(&server, path);
    }
    responder.assert_not_called();
    server.wait_for_log(0, "link_targets");
}

#[test]
fn directory_links_of_a_deployment_are_adopted_when_they_stand_where_wordpress_keeps_such_folders()
{
    let root = DocumentRoot::wordpress();
    for folder in ["shared-uploads", "plugin", "theme"] {
        fs::create_dir(root.outside().join(folder)).unwrap();
        fs::write(root.outside().join(folder).join("a.css"), folder).unwrap();
    }
    root.link("wp-content/plugins/p", root.outside().join("plugin"));
    root.link("wp-content/themes/linked", root.outside().join("theme"));
    root.link("media", root.outside().join("shared-uploads"));
    let config = Config::wordpress_alone(&root);
    let server = Nostat::start(&config);
    server
        .get("/wp-content/plugins/p/a.css")
        .assert(200, b"plugin");
    server
        .get("/wp-content/themes/linked/a.css")
        .assert(200, b"theme");
    server.get("/media/a.css").assert(200, b"shared-uploads");
    // Only what is listed, where a site lists.
    let target = root.outside().join("plugin");
    let server = Nostat::start(
        &config
            .clone()
            .site("link_targets", &format!("[\"{}\"]", target.display())),
    );
    server
        .get("/wp-content/plugins/p/a.css")
        .assert(200, b"plugin");
    assert_refused(&server, "/wp-content/themes/linked/a.css");
}

#[test]
fn a_site_may_follow_every_link_or_none() {
    let root = DocumentRoot::wordpress();
    fs::write(root.outside().join("out.css"), "outside").unwrap();
    root.link(
        "wp-content/uploads/2024/out.css",
        root.outside().join("out.css"),
    );
    root.link("inside.css", "wp-content/themes/t/style.css");
    root.link("folder", "wp-content/themes");
    let server = Nostat::start(&Config::static_files(&root).site("symlinks", "follow"));
    server
        .get("/wp-content/uploads/2024/out.css")
        .assert(200, b"outside");
    server.get("/inside.css").assert(200, STYLE_BYTES);
    let server = Nostat::start(&Config::static_files(&root).site("symlinks", "off"));
    assert_refused(&server, "/wp-content/uploads/2024/out.css");
    assert_refused(&server, "/inside.css");
    assert_refused(&server, "/folder/t/style.css");
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
}

#[test]
fn a_link_turned_outwards_after_it_was_served_is_refused() {
    let root = DocumentRoot::wordpress();
    fs::write(root.outside().join("out.css"), SECRET).unwrap();
    root.link("wp-content/uploads/a.css", "../themes/t/style.css");
    let server = Nostat::start(&Config::wordpress_alone(&root));
    server
        .get("/wp-content/uploads/a.css")
        .assert(200, STYLE_BYTES);
    root.remove("wp-content/uploads/a.css");
    root.link("wp-content/uploads/a.css", root.outside().join("out.css"));
    eventually("the link is refused", || {
        let response = server.get("/wp-content/uploads/a.css");
        assert!(!response.text().contains(SECRET), "{response}");
        matches!(response.status, 403 | 404).then_some(())
    });
}

#[test]
fn links_swapped_in_a_loop_never_show_what_lies_outside() {
    let root = DocumentRoot::empty();
    let outside = root.outside().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.css"), SECRET).unwrap();
    // Not in the root itself, where a directory link is adopted as one of the deployment's.
    root.write("x/d/a.css", b"inside");
    root.link("x/file.css", "d/a.css");
    root.link("x/file.other", outside.join("a.css"));
    root.write("x/dir/a.css", b"inside");
    root.link("x/dir.other", &outside);
    root.write("x/plain.css", b"inside");
    root.link("x/plain.other", "../../outside/a.css");
    let swapped = [
        ("x/file.css", "x/file.other"),
        ("x/dir", "x/dir.other"),
        ("x/plain.css", "x/plain.other"),
    ];
    let paths = ["/x/file.css", "/x/dir/a.css", "/x/plain.css"];
    // Looked at anew each time, and as it is remembered in each mode.
    let unremembered =
        Config::static_files(&root).top("open_file_cache", "{valid: 0s, errors: off}");
    let remembered = modes().map(|mode| mode.config(Config::static_files(&root)));
    for config in std::iter::once(unremembered).chain(remembered) {
        let server = Nostat::start(&config);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (one, other) in swapped {
                        let (one, other) = (root.path().join(one), root.path().join(other));
                        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                    }
                    thread::sleep(Duration::from_micros(300));
                }
            });
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut connection = server.connect();
                        let (mut rounds, mut inside, mut refused) = (0, 0, 0);
                        eventually("both sides are met", || {
                            for path in paths {
                                let response = connection.get(path);
                                match response.status {
                                    200 => {
                                        response.assert(200, b"inside");
                                        inside += 1;
                                    }
                                    403 | 404 => {
                                        assert!(!response.text().contains(SECRET));
                                        refused += 1;
                                    }
                                    _ => panic!("{path}: {response}"),
                                }
                            }
                            rounds += 1;
                            (rounds >= 300 && inside > 0 && refused > 0).then_some(())
                        });
                    })
                })
                .collect();
            let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
            done.store(true, Ordering::Relaxed);
            for reader in ended {
                reader.unwrap();
            }
        });
    }
}
