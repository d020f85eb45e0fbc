//! When what is known may be used without another look: while a watch vouches for it, else for a time.
//!
//! Times of a file tell two states apart only when the clock of the file system ticked in between. A file is *racy*
//! while its last change lies less than [`RACY_WINDOW`] before the look: a change right after the look could leave the
//! same times behind. The window covers the coarsest clocks in use (vfat has 2 s, others a timer tick).

use std::time::Duration;

use super::entry::Identity;
use super::epochs::Voucher;
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

/// What freshness is judged by at one moment.
#[derive(Copy, Clone, Debug)]
pub struct Moment<'a> {
    /// The knobs.
    pub settings: &'a Settings,
    /// The time.
    pub now: Tick,
    /// How often all was in doubt; see [`Watching::overflows`](super::watch::Watching::overflows).
    pub overflows: u64,
}

/// What tells that something has changed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// A watch.
    Watched(Voucher),
    /// Another look, after `valid`; and an event about its name, when there is one: of a link, or of a file that may be
    /// changed by another name as well.
    Local(Option<Voucher>),
    /// Another look, sooner: others may change it.
    Remote,
}

impl Trust {
    /// The voucher, unless something has happened since.
    pub fn current(&self, moment: &Moment<'_>) -> Option<&Voucher> {
        match self {
            Self::Watched(voucher) if voucher.is_current(moment.overflows) => Some(voucher),
            _ => None,
        }
    }

    /// The voucher, if a watch tells every change.
    pub fn voucher(&self) -> Option<&Voucher> {
        match self {
            Self::Watched(voucher) => Some(voucher),
            Self::Local(_) | Self::Remote => None,
        }
    }

    /// Whether an event has told that something may have changed.
    pub fn is_stale(&self, overflows: u64) -> bool {
        match self {
            Self::Watched(voucher) | Self::Local(Some(voucher)) => !voucher.is_current(overflows),
            Self::Local(None) | Self::Remote => false,
        }
    }

    /// Whether a file or directory looked at at `looked` needs no other look.
    pub fn is_valid(&self, moment: &Moment<'_>, looked: Tick) -> bool {
        if self.is_stale(moment.overflows) {
            return false;
        }
        moment.now.since(looked) < self.limit(moment)
    }

    /// How long a look at a file or directory counts.
    pub fn limit(&self, moment: &Moment<'_>) -> Duration {
        match self {
            Self::Watched(_) => moment.settings.valid * SAFETY,
            Self::Local(_) => moment.settings.valid,
            Self::Remote => moment.settings.valid_remote,
        }
    }

    /// Whether a remembered error still counts.
    pub fn error_is_valid(&self, moment: &Moment<'_>, brevity: Brevity, looked: Tick) -> bool {
        !self.is_stale(moment.overflows)
            && moment.now.since(looked) < self.error_limit(moment, brevity)
    }

    /// How long a remembered error counts.
    pub fn error_limit(&self, moment: &Moment<'_>, brevity: Brevity) -> Duration {
        let settings = moment.settings;
        match (self, brevity) {
            (Self::Watched(_), Brevity::Usual) => {
                (settings.valid * SAFETY).max(settings.errors_valid)
            }
            (_, Brevity::Usual) => settings.errors_valid,
            (_, Brevity::Brief) => settings.errors_valid.min(BRIEF),
        }
    }
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
/// What a watch vouches for is looked at all the same after this many times `valid`.
pub const SAFETY: u32 = 10;
const CLOCK_SKEW: Duration = Duration::from_secs(3600);
const BRIEF: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::epochs::Epochs;
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
        let counts = |trust: &Trust, brevity, millis: u64, overflows| {
            let moment = Moment {
                settings: &settings,
                now: Tick(10_000 + millis),
                overflows,
            };
            trust.error_is_valid(&moment, brevity, Tick(10_000))
        };
        assert!(counts(&Trust::Local(None), Brevity::Usual, 1999, 0));
        assert!(!counts(&Trust::Local(None), Brevity::Usual, 2000, 0));
        assert!(counts(&Trust::Local(None), Brevity::Brief, 999, 0));
        assert!(!counts(&Trust::Local(None), Brevity::Brief, 1000, 0));
        let watched = Trust::Watched(Arc::new(Epochs::default()).vouch(b"a", 0));
        assert!(counts(&watched, Brevity::Usual, 299_999, 0));
        assert!(!counts(&watched, Brevity::Usual, 300_000, 0));
        assert!(!counts(&watched, Brevity::Usual, 0, 1), "all is in doubt");
        assert!(counts(&watched, Brevity::Brief, 999, 0));
        assert!(!counts(&watched, Brevity::Brief, 1000, 0));
    }
}
