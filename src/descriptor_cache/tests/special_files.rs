//! FIFOs, sockets and devices: refused at once, never opened, nothing held.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};

use super::super::{LinkPolicy, LinkTargets, LookupError, Settings, Symlinks, Want};
use super::support::{Fixture, symlink};

#[tokio::test]
async fn what_is_no_regular_file_is_refused_and_remembered_for_a_second() {
    let fixture = Fixture::settled(Settings::default());
    mkfifoat(CWD, fixture.path("fifo.png"), Mode::RWXU).unwrap();
    let socket = UnixListener::bind(fixture.path("socket.png")).unwrap();
    for path in ["fifo.png", "socket.png"] {
        for want in [Want::Content, Want::Script, Want::Content] {
            let looked = fixture.look(path, want).await;
            assert_eq!(looked.unwrap_err(), LookupError::NotRegular, "{path}");
        }
    }
    assert_eq!(fixture.counters().negatives, 2);
    fixture.expect_open(0).await;
    std::fs::remove_file(fixture.path("fifo.png")).unwrap();
    fixture.write("fifo.png", "png");
    fixture.hand.advance(Duration::from_secs(1));
    fixture.expect("fifo.png", "png").await;
    drop(socket);
}

#[tokio::test]
async fn a_device_behind_an_allowed_link_is_refused() {
    let listed = LinkPolicy {
        symlinks: Symlinks::Beneath,
        targets: LinkTargets::Listed(vec!["/dev".into()]),
    };
    let fixture = Fixture::with(Settings::default(), listed, |_| {});
    for device in ["zero", "tty", "null"] {
        symlink(format!("/dev/{device}"), fixture.path(device));
        assert_eq!(
            fixture.get(device).await.unwrap_err(),
            LookupError::NotRegular,
            "{device}"
        );
    }
}

#[tokio::test]
async fn a_device_in_the_tree_is_not_opened() {
    let fixture = Fixture::settled(Settings::default());
    let made = mknodat(
        CWD,
        fixture.path("zero"),
        FileType::CharacterDevice,
        Mode::RWXU,
        rustix::fs::makedev(1, 5),
    );
    if made.is_err() {
        return;
    }
    let opens = fixture.counters().calls.opens;
    assert_eq!(
        fixture.get("zero").await.unwrap_err(),
        LookupError::NotRegular
    );
    assert_eq!(fixture.counters().calls.opens, opens + 1, "by O_PATH alone");
}
