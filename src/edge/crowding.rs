//! Connections that are about to run out: who says nothing then leaves the place to others.

use std::time::Duration;

use crate::snapshot::State;

/// Whether connections are about to run out.
pub fn is_crowded(state: &State) -> bool {
    is_nearly_full(state.lifecycle.connections(), state.most_connections())
}

/// Whether the last part of so many places has been begun.
fn is_nearly_full(taken: usize, most: usize) -> bool {
    taken >= most - most / SHARE
}

/// How long something may take that a client has begun, or owes: a head, a handshake.
pub fn for_beginning(patience: Duration, crowded: bool) -> Duration {
    shortened(patience, BEGINNING, crowded)
}

/// How long a connection may be idle.
pub fn for_idling(keep_alive: Duration, crowded: bool) -> Duration {
    shortened(keep_alive, IDLING, crowded)
}

fn shortened(patience: Duration, at_most: Duration, crowded: bool) -> Duration {
    match crowded {
        true => patience.min(at_most),
        false => patience,
    }
}

/// How often a connection that waits looks whether it has become crowded.
pub const LOOKED_AROUND: Duration = Duration::from_secs(10);
/// It is crowded when the last part of so many is begun.
const SHARE: usize = 8;
const BEGINNING: Duration = Duration::from_secs(3);
const IDLING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eighth_is_crowded() {
        assert!(!is_nearly_full(13, 16) && is_nearly_full(14, 16));
        // Where there are but a few places, the last one counts.
        assert!(!is_nearly_full(2, 3) && is_nearly_full(3, 3));
    }

    #[test]
    fn nobody_gets_more_time_for_it() {
        let second = Duration::from_secs(1);
        assert_eq!(for_beginning(10 * second, true), 3 * second);
        assert_eq!(for_beginning(2 * second, true), 2 * second);
        assert_eq!(for_idling(75 * second, true), second);
        assert_eq!(for_idling(75 * second, false), 75 * second);
    }
}
