//! The two ways in which the server learns of a change, for tests that must hold in both.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use super::eventually;
use super::nostat::{BINARY, Config};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By another look, a second after the last one at the latest.
    Polled,
    /// By events. What is known stays valid for ten minutes, so that within a test's deadline nothing but an event shows a
    /// change.
    Watched,
}

/// Runs a test once in each mode that the binary has.
#[track_caller]
pub fn in_each_mode(test: impl Fn(Mode)) {
    for mode in modes() {
        eprintln!("{mode:?}");
        test(mode);
    }
}

/// Those that the binary has.
pub fn modes() -> impl Iterator<Item = Mode> {
    let all = [Mode::Polled, Mode::Watched];
    all.into_iter()
        .filter(|&mode| mode == Mode::Polled || watched())
}

/// Whether the binary can watch: `watch: on` passes its check.
pub fn watched() -> bool {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    *WATCHED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nostat.yaml");
        let shown = folder.path().display();
        let text = format!(
            "listen: [\"127.0.0.1:1\"]\nopen_file_cache: {{watch: on}}\nspool: {{dir: \"{shown}\"}}\nsites:\n  - {{root: \
             \"{shown}\", preset: static}}\n"
        );
        fs::write(&file, text).unwrap();
        let check = Command::new(BINARY)
            .args(["check", "--config"])
            .arg(file)
            .output();
        check.unwrap().status.success()
    })
}

impl Mode {
    /// This configuration in this mode.
    pub fn config(self, config: Config) -> Config {
        self.config_with(config, "")
    }

    /// For paths that go through links, which no watch vouches for: both modes look again after a second.
    pub fn config_for_links(self, config: Config) -> Config {
        let watch = match self {
            Self::Polled => "off",
            Self::Watched => "on",
        };
        let keys = format!("{{watch: {watch}, valid: 1s, errors_valid: 1s}}");
        config.top("open_file_cache", &keys)
    }

    /// As [`config`](Self::config) with more keys for the cache, as `, content: 0`.
    pub fn config_with(self, config: Config, more: &str) -> Config {
        let keys = match self {
            Self::Polled => "watch: off, valid: 1s, errors_valid: 1s",
            Self::Watched => "watch: on, valid: 600s, errors_valid: 600s",
        };
        config.top("open_file_cache", &format!("{{{keys}{more}}}"))
    }

    /// What must hold soon after a change: within `valid` where it is polled, and where it is watched as soon as the thread
    /// that reads the events has had a processor. A request that came before that may have the answer of before.
    #[track_caller]
    pub fn soon(self, what: &str, mut holds: impl FnMut() -> bool) {
        eventually(&format!("{what} ({self:?})"), || holds().then_some(()));
    }
}
