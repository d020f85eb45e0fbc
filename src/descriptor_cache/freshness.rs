//! When what is known may be used without another look.
//!
//! Times of a file tell two states apart only when the clock of the file system ticked in between. A file is *racy*
//! while its last change lies less than [`RACY_WINDOW`] before the look: a change right after the look could leave the
//! same times behind. The window covers the coarsest clocks in use (vfat has 2 s, others a timer tick).

use std::time::Duration;

use super::entry::Identity;
use super::settings::Settings;
use crate::clock::{Tick, UnixTime};

/// Whether a file with these times, looked at at `now` or later, may change once more without its times telling.
///
/// `now` must have been taken before the look. Any change sets ctime to the present of the file's host, so ctime is what
/// counts; it may lie in the future when that host's clock is ahead, and then the window lies there, too. An mtime far
/// in the future (a wrong time zone in an archive) hides nothing, since ctime tells the next change.
pub fn is_racy(identity: &Identity, now: UnixTime) -> bool {
    let changed = now.nanos_since(identity.changed);
    let modified = now.nanos_since(identity.modified);
    let window = nanos(RACY_WINDOW);
    (-nanos(CLOCK_SKEW)..window).contains(&changed) || (-window..window).contains(&modified)
}

/// Whether a file or directory looked at at `looked` needs no other look.
pub fn is_valid(settings: &Settings, looked: Tick, now: Tick) -> bool {
    now.since(looked) < settings.valid
}

/// Whether a remembered error still counts; `brief` for those other than a missing file.
pub fn error_is_valid(settings: &Settings, brief: Brevity, looked: Tick, now: Tick) -> bool {
    let limit = match brief {
        Brevity::Usual => settings.errors_valid,
        Brevity::Brief => settings.errors_valid.min(BRIEF),
    };
    now.since(looked) < limit
}

/// How long an error is remembered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Brevity {
    /// `errors_valid`: nothing was there.
    Usual,
    /// A second at most: permissions and links, which an administrator is likely to be repairing right now.
    Brief,
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// How long after its last change a file is racy.
pub const RACY_WINDOW: Duration = Duration::from_secs(2);
const CLOCK_SKEW: Duration = Duration::from_secs(3600);
const BRIEF: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime {
        seconds: 1_700_000_000,
        nanos: 500_000_000,
    };

    fn file(modified_ago: i64, changed_ago: i64) -> Identity {
        let ago = |seconds| UnixTime {
            seconds: NOW.seconds - seconds,
            nanos: NOW.nanos,
        };
        Identity {
            device: 1,
            inode: 1,
            size: 1,
            modified: ago(modified_ago),
            changed: ago(changed_ago),
            links: 1,
            mode: 0o100_644,
        }
    }

    #[test]
    fn a_file_is_racy_for_two_seconds_after_any_change() {
        assert!(is_racy(&file(0, 0), NOW));
        assert!(is_racy(&file(1, 1), NOW));
        assert!(!is_racy(&file(2, 2), NOW));
        assert!(
            is_racy(&file(1000, 1), NOW),
            "old content unpacked just now"
        );
        assert!(is_racy(&file(1, 1000), NOW));
    }

    #[test]
    fn a_clock_ahead_of_ours_keeps_files_racy_but_a_wrong_mtime_does_not() {
        assert!(is_racy(&file(-30, -30), NOW));
        assert!(!is_racy(&file(-30, 1000), NOW));
        assert!(is_racy(&file(-1, 1000), NOW));
        assert!(
            !is_racy(&file(-86_400, -86_400), NOW),
            "a clock set back by a day"
        );
    }

    #[test]
    fn errors_other_than_a_missing_file_count_for_a_second_at_most() {
        let settings = Settings::default();
        let at = |millis: u64| Tick(10_000 + millis);
        assert!(error_is_valid(&settings, Brevity::Usual, at(0), at(1999)));
        assert!(!error_is_valid(&settings, Brevity::Usual, at(0), at(2000)));
        assert!(error_is_valid(&settings, Brevity::Brief, at(0), at(999)));
        assert!(!error_is_valid(&settings, Brevity::Brief, at(0), at(1000)));
    }
}
