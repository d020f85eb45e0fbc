//! Where the tasks of pools run: a thread of its own, so that neither a name service nor a round of checks takes a moment
//! from the workers. There is none before the first pool that needs one.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::origin::names::AGAIN;
use crate::origin::peer::Peers;
use crate::origin::pool::Pool;

/// The thread, once there is one.
#[derive(Debug, Default)]
pub struct Upkeep(Mutex<Option<Handle>>);

impl Upkeep {
    /// Begins the checks and look-ups of a pool; they end with it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn attend(&self, pool: &Arc<Pool>, peers: &Arc<Peers>) -> io::Result<()> {
        if let Some(health) = &pool.settings().health {
            let task = check(Arc::downgrade(pool), health.every);
            pool.keep(self.thread()?.spawn(task).abort_handle());
        }
        if pool.can_change() {
            let task = look_up_again(Arc::downgrade(pool), peers.clone());
            pool.keep(self.thread()?.spawn(task).abort_handle());
        }
        Ok(())
    }

    fn thread(&self) -> io::Result<Handle> {
        let mut thread = self.0.lock();
        if let Some(handle) = &*thread {
            return Ok(handle.clone());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        // It lives as long as the process.
        std::thread::Builder::new()
            .name("origins".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        *thread = Some(handle.clone());
        Ok(handle)
    }
}

async fn check(pool: Weak<Pool>, every: Duration) {
    let mut rounds = interval_at(Instant::now(), every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        pool.check().await;
    }
}

async fn look_up_again(pool: Weak<Pool>, peers: Arc<Peers>) {
    let mut rounds = interval_at(Instant::now() + AGAIN, AGAIN);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        pool.look_up_again(&peers).await;
    }
}
