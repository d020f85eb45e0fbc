//! Symbolic links: within the root, out of it, adopted, swapped, and by hand where openat2 is missing.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::{Found, LinkPolicy, LinkTargets, LookupError, Settings, Symlinks, Want};
use super::support::{Fixture, beneath, file, is_missing, read, symlink};

/// The same tree looked at through openat2 and by hand.
fn both_ways(policy: &LinkPolicy, prepare: impl Fn(&Path)) -> [Fixture; 2] {
    [true, false].map(|openat2| {
        let fixture = Fixture::with(Settings::default(), policy.clone(), &prepare);
        fixture.hand.advance(Duration::from_secs(100_000));
        if !openat2 {
            fixture.cache.opener.forget_openat2();
        }
        fixture
    })
}

fn policy(symlinks: Symlinks) -> LinkPolicy {
    LinkPolicy {
        symlinks,
        ..LinkPolicy::default()
    }
}

fn auto() -> LinkPolicy {
    LinkPolicy {
        symlinks: Symlinks::Beneath,
        targets: LinkTargets::Auto {
            content_dirs: vec!["wp-content".to_owned()],
        },
    }
}

fn inner_tree(tree: &Path) {
    let root = tree.join("root");
    fs::create_dir_all(root.join("real/deep")).unwrap();
    fs::write(root.join("real/deep/a.css"), "inside").unwrap();
    symlink("real/deep/a.css", root.join("file"));
    symlink("real", root.join("directory"));
    symlink("../deep/a.css", root.join("real/deep/up"));
    symlink(root.join("real"), root.join("absolute"));
    symlink("../root/real", root.join("out-and-in"));
    symlink("absolute/deep", root.join("chain"));
    symlink("nowhere", root.join("dangling"));
    symlink("loop", root.join("loop"));
    symlink(".", root.join("self"));
    symlink("real/", root.join("slash"));
    symlink("real/deep/a.css/", root.join("file-slash"));
}

#[tokio::test]
async fn links_that_stay_beneath_the_root_are_followed() {
    for fixture in both_ways(&policy(Symlinks::Beneath), inner_tree) {
        for path in [
            "real/deep/a.css",
            "file",
            "directory/deep/a.css",
            "real/deep/up",
            "absolute/deep/a.css",
            "out-and-in/deep/a.css",
            "chain/a.css",
            "chain/up",
            "self/self/file",
            "slash/deep/a.css",
        ] {
            fixture.expect(path, "inside").await;
        }
        for path in ["absolute", "chain", "self", "slash", "directory/deep"] {
            assert!(
                matches!(fixture.get(path).await.unwrap().found, Found::Directory),
                "{path}"
            );
        }
        for path in [
            "dangling",
            "file/x",
            "absolute/none",
            "absolute/deep/a.css/x",
            "file-slash",
        ] {
            assert!(is_missing(&fixture.get(path).await), "{path}");
        }
        assert_eq!(
            fixture.get("loop").await.unwrap_err(),
            LookupError::LinkRefused
        );
        fixture.expect_open(0).await;
    }
}

#[tokio::test]
async fn no_link_is_followed_when_links_are_off() {
    for fixture in both_ways(&policy(Symlinks::Off), inner_tree) {
        fixture.expect("real/deep/a.css", "inside").await;
        for path in [
            "file",
            "directory/deep/a.css",
            "absolute/deep/a.css",
            "dangling",
            "loop",
        ] {
            assert_eq!(
                fixture.get(path).await.unwrap_err(),
                LookupError::LinkRefused,
                "{path}"
            );
            let script = fixture.look(path, Want::Script).await;
            assert_eq!(script.unwrap_err(), LookupError::LinkRefused, "{path}");
        }
    }
}

fn outer_tree(tree: &Path) {
    let root = tree.join("root");
    fs::create_dir_all(tree.join("outside/deep")).unwrap();
    fs::write(tree.join("outside/deep/secret"), "outside").unwrap();
    symlink("/etc/passwd", root.join("passwd"));
    symlink("/", root.join("slash"));
    symlink("..", root.join("parent"));
    symlink("../outside", root.join("relative"));
    symlink(tree.join("outside"), root.join("absolute"));
    symlink(tree.join("outside/deep/secret"), root.join("file"));
    symlink(tree.join("outside/none"), root.join("dangling"));
    symlink("relative/deep", root.join("chain"));
    symlink(root.join("../outside"), root.join("dots"));
}

#[tokio::test]
async fn links_that_leave_the_root_are_refused_whatever_they_lead_to() {
    for fixture in both_ways(&policy(Symlinks::Beneath), outer_tree) {
        for path in [
            "passwd",
            "slash",
            "slash/etc/passwd",
            "parent",
            "parent/outside/deep/secret",
            "relative/deep/secret",
            "relative/none",
            "absolute/deep/secret",
            "absolute",
            "file",
            "file/x",
            "dangling",
            "chain/secret",
            "dots/deep/secret",
        ] {
            assert_eq!(
                fixture.get(path).await.unwrap_err(),
                LookupError::LinkRefused,
                "{path}"
            );
        }
        fixture.expect_open(0).await;
    }
}

#[tokio::test]
async fn all_links_are_followed_when_told_but_only_to_regular_files() {
    let fixture = Fixture::with(Settings::default(), policy(Symlinks::Follow), outer_tree);
    symlink("/dev/zero", fixture.path("zero"));
    fixture.expect("relative/deep/secret", "outside").await;
    fixture.expect("file", "outside").await;
    assert!(is_missing(&fixture.get("dangling").await));
    assert_eq!(
        fixture.get("zero").await.unwrap_err(),
        LookupError::NotRegular
    );
}

#[tokio::test]
async fn links_into_a_listed_directory_are_followed() {
    for openat2 in [true, false] {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("outside");
        fs::create_dir_all(target.join("deep")).unwrap();
        fs::write(target.join("deep/a"), "allowed").unwrap();
        symlink("/etc", target.join("etc"));
        symlink("..", target.join("up"));
        let listed = beneath(std::slice::from_ref(&target));
        let fixture = Fixture::with(Settings::default(), listed, |_| {});
        if !openat2 {
            fixture.cache.opener.forget_openat2();
        }
        symlink(&target, fixture.path("whole"));
        symlink(target.join("deep/a"), fixture.path("file"));
        symlink(target.join("deep"), fixture.path("part"));
        symlink(fixture.path(""), target.join("back"));
        fixture.write("home.css", "home");
        for path in ["whole/deep/a", "file", "part/a"] {
            fixture.expect(path, "allowed").await;
        }
        fixture.expect("whole/back/home.css", "home").await;
        assert!(is_missing(&fixture.get("part/none").await));
        for path in [
            "whole/etc/passwd",
            "whole/up",
            "whole/up/outside",
            "whole/up/none",
        ] {
            let answer = fixture.get(path).await;
            if path == "whole/up/outside" {
                assert!(
                    matches!(answer.unwrap().found, Found::Directory),
                    "back in the target"
                );
            } else {
                assert_eq!(answer.unwrap_err(), LookupError::LinkRefused, "{path}");
            }
        }
    }
}

fn adoption_tree(tree: &Path) {
    let root = tree.join("root");
    for (link, target) in [
        ("shared", "in-root"),
        ("wp-content/files", "in-content"),
        ("wp-content/plugins/dev", "in-plugins"),
        ("wp-content/uploads", "uploads"),
        ("wp-content/plugins/dev2/deeper", "too-deep"),
        ("other/link", "elsewhere"),
    ] {
        let link = root.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::create_dir_all(tree.join(target).join("deep")).unwrap();
        fs::write(tree.join(target).join("a"), target).unwrap();
        symlink(tree.join(target), link);
    }
    symlink(tree.join("in-root"), tree.join("uploads/linked"));
    fs::create_dir(tree.join("beside-uploads")).unwrap();
    fs::write(tree.join("beside-uploads/a"), "beside-uploads").unwrap();
    symlink(tree.join("beside-uploads"), tree.join("uploads/2024"));
    symlink("/etc", root.join("etc"));
    symlink("/", root.join("slash"));
    symlink("..", root.join("parent"));
}

#[tokio::test]
async fn trustworthy_directory_links_are_adopted_where_themes_and_uploads_are_kept() {
    for fixture in both_ways(&auto(), adoption_tree) {
        for (path, content) in [
            ("shared/a", "in-root"),
            ("wp-content/files/a", "in-content"),
            ("wp-content/plugins/dev/a", "in-plugins"),
            ("wp-content/uploads/a", "uploads"),
            ("wp-content/uploads/2024/a", "beside-uploads"),
        ] {
            fixture.expect(path, content).await;
        }
        for path in [
            "wp-content/plugins/dev2/deeper/a",
            "other/link/a",
            "etc/passwd",
            "slash/etc/passwd",
            "parent/elsewhere/a",
        ] {
            let refused = fixture.get(path).await.unwrap_err();
            assert_eq!(refused, LookupError::LinkRefused, "{path}");
        }
        assert_eq!(fixture.root.current().link_targets().count(), 5);
    }
}

#[tokio::test]
async fn a_link_of_someone_else_is_not_adopted() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let prepare = |tree: &Path| {
        for (name, link_owner, target_owner) in [
            ("own", 1234, 1234),
            ("roots", 0, 1234),
            ("foreign", 1234, 0),
        ] {
            let target = tree.join(name);
            fs::create_dir(&target).unwrap();
            fs::write(target.join("a"), name).unwrap();
            chown(&target, Some(target_owner), None).unwrap();
            symlink(&target, tree.join("root").join(name));
            lchown(tree.join("root").join(name), Some(link_owner), None).unwrap();
            assert_eq!(
                fs::symlink_metadata(tree.join("root").join(name))
                    .unwrap()
                    .uid(),
                link_owner
            );
        }
    };
    let fixture = Fixture::with(Settings::default(), auto(), prepare);
    fixture.expect("own/a", "own").await;
    fixture.expect("roots/a", "roots").await;
    assert_eq!(
        fixture.get("foreign/a").await.unwrap_err(),
        LookupError::LinkRefused
    );
}

#[tokio::test]
async fn a_reload_adopts_links_made_since() {
    let fixture = Fixture::with(Settings::default(), auto(), |_| {});
    fs::create_dir(fixture.tree.path().join("late")).unwrap();
    fs::write(fixture.tree.path().join("late/a"), "late").unwrap();
    symlink(fixture.tree.path().join("late"), fixture.path("late"));
    assert_eq!(
        fixture.get("late/a").await.unwrap_err(),
        LookupError::LinkRefused
    );
    let same = fixture
        .cache
        .root(&fixture.tree.path().join("root"), auto())
        .unwrap();
    assert!(Arc::ptr_eq(&same, &fixture.root));
    fixture.expect("late/a", "late").await;
}

#[tokio::test]
async fn a_file_swapped_for_a_link_in_a_loop_never_shows_what_is_outside() {
    for fixture in both_ways(&policy(Symlinks::Beneath), outer_tree) {
        fixture.cache.reconfigure(Settings {
            valid: Duration::ZERO,
            errors: false,
            ..Settings::default()
        });
        fixture.write("swap/name", "inside");
        let swapping = Arc::new(AtomicBool::new(true));
        let swapper = {
            let (swapping, directory) = (Arc::clone(&swapping), fixture.path("swap"));
            let secret = fixture.tree.path().join("outside/deep/secret");
            std::thread::spawn(move || {
                while swapping.load(Ordering::Relaxed) {
                    fs::write(directory.join("beside"), "inside").unwrap();
                    fs::rename(directory.join("beside"), directory.join("name")).unwrap();
                    symlink(&secret, directory.join("beside"));
                    fs::rename(directory.join("beside"), directory.join("name")).unwrap();
                }
            })
        };
        let (mut found, mut refused) = (0, 0);
        for _ in 0..2000 {
            match fixture.get("swap/name").await {
                Ok(looked) => {
                    assert_eq!(read(file(&looked)).await, b"inside");
                    found += 1;
                }
                Err(LookupError::LinkRefused) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        swapping.store(false, Ordering::Relaxed);
        swapper.join().unwrap();
        assert_eq!(found + refused, 2000);
    }
}

#[tokio::test]
async fn directories_moved_out_and_in_never_show_what_is_outside() {
    for fixture in both_ways(&policy(Symlinks::Beneath), outer_tree) {
        fixture.cache.reconfigure(Settings {
            valid: Duration::ZERO,
            errors: false,
            ..Settings::default()
        });
        fs::create_dir_all(fixture.path("a/b/c")).unwrap();
        fixture.write("a/deep/secret", "inside");
        symlink("../../deep/secret", fixture.path("a/b/c/link"));
        let moving = Arc::new(AtomicBool::new(true));
        let mover = {
            let (moving, root) = (Arc::clone(&moving), fixture.path(""));
            let outside = fixture.tree.path().join("outside/c");
            std::thread::spawn(move || {
                while moving.load(Ordering::Relaxed) {
                    fs::rename(root.join("a/b/c"), &outside).unwrap();
                    fs::rename(&outside, root.join("a/b/c")).unwrap();
                }
            })
        };
        for _ in 0..2000 {
            if let Ok(looked) = fixture.get("a/b/c/link").await
                && let Found::File(found) = &looked.found
            {
                assert_eq!(read(found).await, b"inside");
            }
        }
        moving.store(false, Ordering::Relaxed);
        mover.join().unwrap();
    }
}
