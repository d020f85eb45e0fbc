//! Injected time: a coarse monotonic clock for ages and deadlines, and the wall clock for dates.
//!
//! Nothing below the listener reads a clock of the system by itself; tests hand in a manual one and move it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A source of time, cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Clock(Source);

impl Clock {
    /// The clocks of the system. Asking for [`now`](Self::now) or [`unix`](Self::unix) enters no kernel (vDSO) and
    /// is as exact as the timer tick, 1 to 10 ms.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until its [`ManualClock`] moves it. It starts at tick 1,000,000 ms and at the
    /// wall-clock time of its making.
    pub fn manual() -> (Self, ManualClock) {
        let state = Arc::new(Mutex::new(Manual {
            now: Tick(1_000_000),
            unix: realtime(ClockId::Realtime),
        }));
        (Self(Source::Manual(Arc::clone(&state))), ManualClock(state))
    }

    /// The monotonic time.
    pub fn now(&self) -> Tick {
        match &self.0 {
            Source::System => monotonic(),
            Source::Manual(state) => state.lock().now,
        }
    }

    /// The wall-clock time, as exact as the timer tick: right for dates in headers and logs.
    pub fn unix(&self) -> UnixTime {
        match &self.0 {
            Source::System => realtime(ClockId::RealtimeCoarse),
            Source::Manual(state) => state.lock().unix,
        }
    }

    /// The wall-clock time to the nanosecond: right for comparing with times of a file system.
    pub fn unix_precise(&self) -> UnixTime {
        match &self.0 {
            Source::System => realtime(ClockId::Realtime),
            Source::Manual(state) => state.lock().unix,
        }
    }
}

/// The hand that moves a manual [`Clock`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Manual>>);

impl ManualClock {
    /// Moves both times forward.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.0.lock();
        state.now = state.now.plus(duration);
        state.unix = state.unix.plus(duration);
    }

    /// Sets the wall-clock time alone, as an administrator may.
    pub fn set_unix(&self, unix: UnixTime) {
        self.0.lock().unix = unix;
    }
}

/// A point of monotonic time, in milliseconds since an arbitrary start.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// The time that went by since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This point plus `duration`, cut to whole milliseconds; saturating.
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

/// A wall-clock time: seconds since 1970-01-01T00:00:00Z, negative before, plus nanoseconds below one second.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixTime {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds on top of `seconds`, below 1,000,000,000.
    pub nanos: u32,
}

impl UnixTime {
    /// The same time in the standard library's words; before 1970 it is 1970.
    pub fn system(self) -> SystemTime {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, self.nanos)
    }

    /// This time plus `duration`; saturating.
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = self.nanos.saturating_add(duration.subsec_nanos());
        let carry = i64::from(nanos / NANOS_PER_SECOND);
        let whole = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_add(whole).saturating_add(carry),
            nanos: nanos % NANOS_PER_SECOND,
        }
    }

    /// Nanoseconds from `earlier` to this time; negative when `earlier` is later.
    pub fn nanos_since(self, earlier: Self) -> i128 {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        seconds * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos) - i128::from(earlier.nanos)
    }
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<Mutex<Manual>>),
}

#[derive(Debug)]
struct Manual {
    now: Tick,
    unix: UnixTime,
}

fn monotonic() -> Tick {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::MonotonicCoarse);
    let seconds = u64::try_from(tv_sec).unwrap_or(0);
    let millis = u64::try_from(tv_nsec / 1_000_000).unwrap_or(0);
    Tick(seconds.saturating_mul(1000).saturating_add(millis))
}

fn realtime(id: ClockId) -> UnixTime {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
    UnixTime {
        seconds: tv_sec,
        nanos: u32::try_from(tv_nsec).unwrap_or(0),
    }
}

const NANOS_PER_SECOND: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let (clock, hand) = Clock::manual();
        let (now, unix) = (clock.now(), clock.unix());
        assert_eq!(clock.now(), now);
        hand.advance(Duration::from_millis(1500));
        assert_eq!(clock.now().since(now), Duration::from_millis(1500));
        assert_eq!(clock.unix().nanos_since(unix), 1_500_000_000);
        hand.set_unix(UnixTime {
            seconds: -1,
            nanos: 999_999_999,
        });
        assert_eq!(
            clock.unix_precise(),
            UnixTime {
                seconds: -1,
                nanos: 999_999_999
            }
        );
        assert_eq!(clock.now().since(now), Duration::from_millis(1500));
    }

    #[test]
    fn time_before_an_earlier_tick_is_no_time() {
        assert_eq!(Tick(5).since(Tick(9)), Duration::ZERO);
        assert_eq!(Tick(u64::MAX).plus(Duration::from_secs(1)), Tick(u64::MAX));
    }

    #[test]
    fn adding_carries_nanoseconds() {
        let time = UnixTime {
            seconds: -1,
            nanos: 900_000_000,
        };
        assert_eq!(
            time.plus(Duration::from_millis(200)),
            UnixTime {
                seconds: 0,
                nanos: 100_000_000
            }
        );
    }

    #[test]
    fn the_system_clock_runs_near_the_present() {
        let clock = Clock::system();
        let apart = clock.unix_precise().nanos_since(clock.unix());
        assert!((0..1_000_000_000).contains(&apart));
        assert!(clock.now() > Tick(0));
    }
}
