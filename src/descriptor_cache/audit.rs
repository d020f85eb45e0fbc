//! Whether a watch was right: what it vouches for is looked at all the same now and then.

use std::time::Duration;

use super::DescriptorCache;
use super::entry::Identity;
use super::finding::{Look, Overdue};
use super::look::{Failure, Seen, Sight};

impl DescriptorCache {
    /// Compares what is seen with what was vouched for. A change that nothing told, and that is no matter of this very
    /// moment, means that events do not come from this device. Blocks.
    pub(super) fn audit(&self, look: &Look<'_>, overdue: &Overdue, seen: &Result<Seen, Failure>) {
        let (Some(vouched), true) = (&look.vouched, differs(overdue, seen)) else {
            return;
        };
        // The change comes before its event, if only just.
        for _ in 0..PATIENCE {
            self.watching.take_in();
            if !self.is_current(&overdue.voucher) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        self.watching.demote(vouched.device);
    }
}

fn differs(overdue: &Overdue, seen: &Result<Seen, Failure>) -> bool {
    let single = |identity: &Identity| identity.links == 1;
    let now = match seen {
        // Its event may not have been sent: a long write changes the file first.
        Ok(Seen {
            sight: Sight::File { racy: true, .. } | Sight::Script { racy: true, .. },
            ..
        }) => return false,
        Ok(Seen {
            sight: Sight::File { identity, .. } | Sight::Script { identity, .. },
            ..
        }) => Some(identity),
        Err(Failure::Missing(_)) => None,
        Ok(_) | Err(_) => return false,
    };
    // A name made elsewhere meanwhile is told to nobody, nor what is written by it.
    now != overdue.identity.as_ref()
        && now.is_none_or(single)
        && overdue.identity.as_ref().is_none_or(single)
}

const PATIENCE: u32 = 3;
const PAUSE: Duration = Duration::from_millis(10);
