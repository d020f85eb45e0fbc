//! Each kind of change is seen, and no answer on the way is wrong (C41, C46): at once where the tree is watched, within
//! `valid` and `errors_valid` where it is polled.
//!
//! A file counts as settled two seconds after its last change and is looked at at each use before. So each test makes its
//! whole tree first, waits for it to settle, warms it, and then changes it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::document_root::{DocumentRoot, style_mtime};
use crate::support::eventually;
use crate::support::history::{FORBIDDEN, GONE, History, State};
use crate::support::mode::{Mode, in_each_mode, watched};
use crate::support::nostat::{Config, Nostat};

/// One change of one path.
struct Change {
    name: &'static str,
    path: &'static str,
    old: State,
    new: State,
    make: fn(&Tree),
}

/// The folder of one change.
struct Tree(PathBuf);

impl Tree {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// In place, in one write and with the times of now, as far as there is a file.
    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn date(&self, path: &str, when: SystemTime) {
        let file = fs::File::options().write(true).open(self.path(path));
        file.unwrap().set_modified(when).unwrap();
    }

    fn write_dated(&self, path: &str, bytes: &[u8], when: SystemTime) {
        self.write(path, bytes);
        self.date(path, when);
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Makes every tree by `prepare`, lets it settle, warms every path, makes every change and sees each.
fn assert_seen(config: impl Fn(&DocumentRoot) -> Config, prepare: fn(&Tree), changes: &[Change]) {
    assert_seen_by(Mode::config, config, prepare, changes);
}

fn assert_seen_by(
    in_mode: fn(Mode, Config) -> Config,
    config: impl Fn(&DocumentRoot) -> Config,
    prepare: fn(&Tree),
    changes: &[Change],
) {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        open_to_all(&root);
        let trees: Vec<_> = (0..changes.len())
            .map(|number| {
                let tree = Tree(root.path().join(number.to_string()));
                fs::create_dir(&tree.0).unwrap();
                prepare(&tree);
                tree
            })
            .collect();
        let server = Nostat::start(&in_mode(mode, config(&root)));
        // Younger than anything in the trees: settled when they are.
        root.write_at("settled.css", b"settled", SystemTime::now());
        server.settled("/settled.css");
        let mut histories: Vec<_> = changes
            .iter()
            .enumerate()
            .map(|(number, change)| {
                let path = format!("/{number}/{}", change.path);
                History::begin(server.connect(), &path, change.old.clone())
            })
            .collect();
        for (change, tree) in changes.iter().zip(&trees) {
            (change.make)(tree);
        }
        for (change, history) in changes.iter().zip(&mut histories) {
            eprintln!("{}", change.name);
            history.becomes(mode, change.new.clone());
        }
        for history in &mut histories {
            history.stays();
        }
    });
}

/// A server that has become another user may read the root and use its spool.
fn open_to_all(root: &DocumentRoot) {
    for path in [root.outside(), root.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let spool = root.outside().join("spool");
    fs::create_dir(&spool).unwrap();
    fs::set_permissions(spool, fs::Permissions::from_mode(0o777)).unwrap();
}

fn a_large_and_a_small_file(tree: &Tree) {
    tree.write_dated("a.css", SMALL, style_mtime());
    tree.write_dated("l.css", &large(b'l', LARGE), style_mtime());
    tree.write_dated("d/e/a.css", SMALL, style_mtime());
}

fn large(byte: u8, length: usize) -> Vec<u8> {
    vec![byte; length]
}

#[test]
fn rewritten_in_place_longer_shorter_and_of_equal_length() {
    let small = |name, new: &[u8], make| Change {
        name,
        path: "a.css",
        old: State::is(SMALL),
        new: State::is(new),
        make,
    };
    assert_seen(
        Config::static_files,
        a_large_and_a_small_file,
        &[
            small("longer", b"0123456789abcdefghij", |tree| {
                tree.write("a.css", b"0123456789abcdefghij");
            }),
            small("shorter", b"01", |tree| tree.write("a.css", b"01")),
            small("empty", b"", |tree| tree.write("a.css", b"")),
            small("equal length", b"9876543210", |tree| {
                tree.write("a.css", b"9876543210");
            }),
            small("appended to", b"0123456789+", |tree| {
                let file = fs::File::options().append(true).open(tree.path("a.css"));
                std::io::Write::write_all(&mut file.unwrap(), b"+").unwrap();
            }),
            small("truncated", b"0123", |tree| {
                let file = fs::File::options().write(true).open(tree.path("a.css"));
                file.unwrap().set_len(4).unwrap();
            }),
        ],
    );
}

#[test]
fn put_in_its_place_by_rename() {
    let small = |name, new: State, make| Change {
        name,
        path: "a.css",
        old: State::is(SMALL),
        new,
        make,
    };
    assert_seen(
        Config::static_files,
        a_large_and_a_small_file,
        &[
            small("replaced", State::is("replaced"), |tree| {
                tree.write("new", b"replaced");
                tree.rename("new", "a.css");
            }),
            small(
                "replaced by a large one",
                State::Is(large(b'r', LARGE)),
                |tree| {
                    tree.write("new", &large(b'r', LARGE));
                    tree.rename("new", "a.css");
                },
            ),
            Change {
                name: "large by large",
                path: "l.css",
                old: State::Is(large(b'l', LARGE)),
                new: State::Is(large(b'n', LARGE + 1)),
                make: |tree| {
                    tree.write("new", &large(b'n', LARGE + 1));
                    tree.rename("new", "l.css");
                },
            },
            small("removed", GONE, |tree| {
                fs::remove_file(tree.path("a.css")).unwrap()
            }),
            small("renamed away", GONE, |tree| tree.rename("a.css", "b.css")),
            small("removed and made again", State::is("again"), |tree| {
                fs::remove_file(tree.path("a.css")).unwrap();
                tree.write("a.css", b"again");
            }),
            small("a directory now", State::Status(301), |tree| {
                fs::remove_file(tree.path("a.css")).unwrap();
                fs::create_dir(tree.path("a.css")).unwrap();
            }),
        ],
    );
}

#[test]
fn new_content_with_an_old_date() {
    let small = |name, new: &[u8], make| Change {
        name,
        path: "a.css",
        old: State::is(SMALL),
        new: State::is(new),
        make,
    };
    assert_seen(
        Config::static_files,
        a_large_and_a_small_file,
        &[
            small("cp -p", b"9876543210", |tree| {
                tree.write_dated("a.css", b"9876543210", style_mtime() - HOUR);
            }),
            small("cp -p of another length", b"copied", |tree| {
                tree.write_dated("a.css", b"copied", style_mtime() - HOUR);
            }),
            small("touch -d to the date it had", b"touched", |tree| {
                tree.write_dated("a.css", b"touched", style_mtime());
            }),
            small("rsync -t", b"9876543210", |tree| {
                tree.write_dated("new", b"9876543210", style_mtime() - HOUR);
                tree.rename("new", "a.css");
            }),
            small("unzip -o", b"9876543210", |tree| {
                fs::remove_file(tree.path("a.css")).unwrap();
                tree.write_dated("a.css", b"9876543210", style_mtime() - HOUR);
            }),
        ],
    );
}

#[test]
fn uploads_after_remembered_404s() {
    let missing = |name, path, new: State, make| Change {
        name,
        path,
        old: GONE,
        new,
        make,
    };
    assert_seen(
        Config::static_files,
        a_large_and_a_small_file,
        &[
            missing("created", "u.jpg", State::is("upload"), |tree| {
                tree.write("u.jpg", b"upload");
            }),
            missing("created by rename", "u.jpg", State::is("upload"), |tree| {
                tree.write("part", b"upload");
                tree.rename("part", "u.jpg");
            }),
            missing("hard linked", "u.jpg", State::is(SMALL), |tree| {
                fs::hard_link(tree.path("a.css"), tree.path("u.jpg")).unwrap();
            }),
            missing("linked", "u.jpg", State::is(SMALL), |tree| {
                tree.link("u.jpg", "a.css")
            }),
            missing(
                "in a new directory",
                "2024/u.jpg",
                State::is("upload"),
                |tree| {
                    tree.write("2024/u.jpg", b"upload");
                },
            ),
            missing(
                "in three new directories",
                "x/y/z/u.jpg",
                State::is("upload"),
                |tree| {
                    tree.write("x/y/z/u.jpg", b"upload");
                },
            ),
            missing(
                "in a directory moved there",
                "moved/e/a.css",
                State::is(SMALL),
                |tree| {
                    tree.rename("d", "moved");
                },
            ),
            missing(
                "where a file stood",
                "a.css/u.jpg",
                State::is("upload"),
                |tree| {
                    fs::remove_file(tree.path("a.css")).unwrap();
                    tree.write("a.css/u.jpg", b"upload");
                },
            ),
        ],
    );
}

#[test]
fn directories_renamed_removed_and_made_again() {
    let deep = |name, new: State, make| Change {
        name,
        path: "d/e/a.css",
        old: State::is(SMALL),
        new,
        make,
    };
    assert_seen(
        Config::static_files,
        a_large_and_a_small_file,
        &[
            deep("renamed", GONE, |tree| tree.rename("d/e", "d/f")),
            deep("the one above renamed", GONE, |tree| tree.rename("d", "f")),
            deep("renamed and made again", State::is("again"), |tree| {
                tree.rename("d/e", "d/f");
                tree.write("d/e/a.css", b"again");
            }),
            deep(
                "the one above renamed and made again",
                State::is("again"),
                |tree| {
                    tree.rename("d", "f");
                    tree.write("d/e/a.css", b"again");
                },
            ),
            deep("removed", GONE, |tree| {
                fs::remove_dir_all(tree.path("d")).unwrap()
            }),
            deep("removed and made again", State::is("again"), |tree| {
                fs::remove_dir_all(tree.path("d")).unwrap();
                tree.write("d/e/a.css", b"again");
            }),
            deep("a link to another one now", State::is("other"), |tree| {
                tree.write("other/e/a.css", b"other");
                tree.rename("d", "f");
                tree.link("d", "other");
            }),
            deep(
                "renamed away and back with another file",
                State::is("back"),
                |tree| {
                    tree.rename("d", "f");
                    tree.write("f/e/a.css", b"back");
                    tree.rename("f", "d");
                },
            ),
        ],
    );
}

#[test]
fn links_turned_and_targets_changed() {
    fn prepare(tree: &Tree) {
        a_large_and_a_small_file(tree);
        tree.write_dated("other/b.css", b"other", style_mtime());
        tree.link("l1.css", "d/e/a.css");
        tree.link("l2.css", "l1.css");
        tree.link("dir", "d/e");
    }
    let linked = |name, path, new: State, make| Change {
        name,
        path,
        old: State::is(SMALL),
        new,
        make,
    };
    assert_seen_by(
        Mode::config_for_links,
        Config::static_files,
        prepare,
        &[
            linked("turned", "l1.css", State::is("other"), |tree| {
                tree.link("new", "other/b.css");
                tree.rename("new", "l1.css");
            }),
            linked(
                "one in the middle turned",
                "l2.css",
                State::is("other"),
                |tree| {
                    tree.link("new", "other/b.css");
                    tree.rename("new", "l1.css");
                },
            ),
            linked(
                "a directory link turned",
                "dir/a.css",
                State::is("turned"),
                |tree| {
                    tree.write("other/a.css", b"turned");
                    tree.link("new", "other");
                    tree.rename("new", "dir");
                },
            ),
            linked(
                "its target rewritten",
                "l2.css",
                State::is("rewritten"),
                |tree| {
                    tree.write("d/e/a.css", b"rewritten");
                },
            ),
            linked(
                "its target replaced",
                "dir/a.css",
                State::is("replaced"),
                |tree| {
                    tree.write("new", b"replaced");
                    tree.rename("new", "d/e/a.css");
                },
            ),
            linked("its target removed", "l1.css", GONE, |tree| {
                fs::remove_file(tree.path("d/e/a.css")).unwrap();
            }),
            linked("the target's directory renamed", "l2.css", GONE, |tree| {
                tree.rename("d", "f")
            }),
        ],
    );
}

#[test]
fn permissions_taken_and_given() {
    /// The server becomes another user when it is root, whom no permission stops.
    fn config(root: &DocumentRoot) -> Config {
        let spool = root.outside().join("spool");
        let config =
            Config::static_files(root).top("spool", &format!("{{dir: \"{}\"}}", spool.display()));
        if rustix::process::geteuid().is_root() {
            config.top("user", "nobody")
        } else {
            config
        }
    }
    fn prepare(tree: &Tree) {
        a_large_and_a_small_file(tree);
        tree.write_dated("shut.css", SMALL, style_mtime());
        tree.mode("shut.css", 0);
    }
    let change = |name, path, old: State, new: State, make| Change {
        name,
        path,
        old,
        new,
        make,
    };
    assert_seen(
        config,
        prepare,
        &[
            change("taken", "a.css", State::is(SMALL), FORBIDDEN, |tree| {
                tree.mode("a.css", 0)
            }),
            change("given", "shut.css", FORBIDDEN, State::is(SMALL), |tree| {
                tree.mode("shut.css", 0o644);
            }),
            change(
                "the directory's taken",
                "d/e/a.css",
                State::is(SMALL),
                FORBIDDEN,
                |tree| {
                    tree.mode("d", 0);
                },
            ),
        ],
    );
}

#[test]
fn rewritten_with_equal_length_right_after_it_was_served() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.write("v.css", b"0000");
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let mut connection = server.connect();
        // Written, served and written again within one tick of the file system's clock.
        for number in 1..200_u32 {
            let bytes = format!("{number:04}");
            fs::write(root.path().join("v.css"), &bytes).unwrap();
            connection.get("/v.css").assert(200, bytes.as_bytes());
        }
    });
}

#[test]
fn a_tag_of_a_file_that_was_just_written_confirms_nothing_later() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let mut connection = server.connect();
        for number in 0..20_u32 {
            let (one, two) = (format!("one {number:04}"), format!("two {number:04}"));
            fs::write(root.path().join("v.css"), &one).unwrap();
            let first = connection.get("/v.css");
            first.assert(200, one.as_bytes());
            fs::write(root.path().join("v.css"), &two).unwrap();
            let second = connection.get_with("/v.css", &[("If-None-Match", first.etag())]);
            second.assert(200, two.as_bytes());
        }
    });
}

#[test]
fn changed_through_another_name_of_the_same_file() {
    // No event tells of it: `valid` counts for a file with more than one link, watched or not.
    for watch in ["off", "auto"] {
        let root = DocumentRoot::empty();
        root.write_at("a.css", SMALL, SystemTime::now());
        let other = root.outside().join("other.css");
        fs::hard_link(root.path().join("a.css"), &other).unwrap();
        let config = Config::static_files(&root).top(
            "open_file_cache",
            &format!("{{watch: {watch}, valid: 1s, errors_valid: 1s}}"),
        );
        let server = Nostat::start(&config);
        server.settled("/a.css");
        let mut history = History::begin(server.connect(), "/a.css", State::is(SMALL));
        fs::write(&other, b"through the other name").unwrap();
        history.becomes(Mode::Polled, State::is("through the other name"));
    }
}

#[test]
fn many_readers_see_versions_in_their_order() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.replace("v.css", b"0");
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let version = |body: &[u8]| std::str::from_utf8(body).unwrap().trim().parse::<u32>();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut connection, mut last) = (server.connect(), 0);
                        while last < 60 {
                            let response = connection.get("/v.css");
                            assert_eq!(response.status, 200, "{response}");
                            let now = version(&response.body).expect("a whole version");
                            assert!(now >= last, "{now} after {last}");
                            last = now;
                        }
                    })
                })
                .collect();
            // Each with a length of its own, some apart, some back to back.
            for number in 1..=60_u32 {
                root.replace(
                    "v.css",
                    format!("{number}{:1$}", "", number as usize * 31).as_bytes(),
                );
                if number.is_multiple_of(7) {
                    thread::sleep(Duration::from_millis(50));
                }
            }
            for reader in readers {
                reader.join().unwrap();
            }
        });
    });
}

#[test]
fn what_is_created_and_removed_in_turn_is_what_it_is_each_time() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.folder("d");
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let mut history = History::begin(server.connect(), "/d/u.jpg", GONE);
        for round in 0..4_u32 {
            let bytes = format!("upload {round}");
            root.replace("d/u.jpg", bytes.as_bytes());
            history.becomes(mode, State::is(&bytes));
            root.remove("d/u.jpg");
            history.becomes(mode, GONE);
        }
    });
}

#[test]
fn ten_thousand_events_while_nobody_asks_change_nothing_of_what_is_right() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.write("d/a.css", SMALL);
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        server.settled("/d/a.css");
        let mut history = History::begin(server.connect(), "/d/a.css", State::is(SMALL));
        // More than a queue of events holds where the kernel's default is in force (16,384).
        for number in 0..9_000_u32 {
            let path = root.path().join(format!("d/noise-{}", number % 500));
            fs::write(&path, b"noise").unwrap();
            if number.is_multiple_of(2) {
                fs::remove_file(path).unwrap();
            }
        }
        root.replace("d/a.css", b"after the noise");
        history.becomes(mode, State::is("after the noise"));
        eventually("the server is idle again", || {
            let before = server.processor_time();
            thread::sleep(Duration::from_millis(200));
            (server.processor_time() - before < Duration::from_millis(60)).then_some(())
        });
    });
}

#[test]
fn watched_files_need_no_look_though_valid_is_over() {
    // Polled, there is a look each time `valid` is over: only a watch spares it.
    if !watched() {
        return;
    }
    let root = DocumentRoot::empty();
    root.write_at("d/a.css", SMALL, SystemTime::now());
    root.write("d/l.css", &large(b'l', LARGE));
    let config = Config::static_files(&root)
        .top(
            "open_file_cache",
            "{watch: on, valid: 1s, errors_valid: 1s}",
        )
        .top("access_log", "{path: \"-\", format: json}");
    let server = Nostat::start(&config);
    server.settled("/d/a.css");
    let mut connection = server.connect();
    for query in ["warm", "warm", "warm", "steady", "steady", "steady"] {
        // The safety look comes after ten times `valid`, and not within this test.
        thread::sleep(Duration::from_millis(if query == "steady" {
            1_200
        } else {
            0
        }));
        for path in ["/d/a.css", "/d/l.css", "/d/gone.css"] {
            connection.get(&format!("{path}?{query}"));
        }
    }
    let lines = eventually("the access log", || {
        let output = server.output();
        let lines = output.lines().filter(|line| line.contains("?steady"));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        (lines.len() == 9).then_some(lines)
    });
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let outcome = line["cache"].as_str();
        assert!(matches!(outcome, Some("hit" | "negative")), "{line}");
    }
}

const SMALL: &[u8] = b"0123456789";
/// Too large to be held in memory.
const LARGE: usize = 200_000;
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn other_content_of_the_same_length_and_date_has_another_tag() {
    in_each_mode(|mode| {
        let root = DocumentRoot::empty();
        root.write_at("v.css", b"first", style_mtime());
        let server = Nostat::start(&mode.config(Config::static_files(&root)));
        let first = server.settled("/v.css");
        first.assert(200, b"first");
        root.write_at("v.css", b"other", style_mtime());
        let mut connection = server.connect();
        let other = eventually("the other content", || {
            let answer = connection.get_with("/v.css", &[("If-None-Match", first.etag())]);
            (answer.status == 200 && answer.body == b"other").then_some(answer)
        });
        assert_ne!(other.etag(), first.etag());
        // Also when it has settled.
        let settled = server.settled("/v.css");
        settled.assert(200, b"other");
        assert_ne!(settled.etag(), first.etag());
        assert_eq!(
            server
                .get_with("/v.css", &[("If-None-Match", first.etag())])
                .status,
            200
        );
    });
}
