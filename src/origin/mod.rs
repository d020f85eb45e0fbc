//! HTTP origin servers behind us, instead of PHP-FPM.
//!
//! A site names peers; each is one or several addresses. A [`Pool`] holds the addresses of a site, chooses among them and
//! knows which of them answer: by checks of its own ([`health`]) and by what requests meet ([`peer`]). The selection and
//! the counting of checks are those of the crate `pingora-load-balancing`, run by tasks of ours ([`upkeep`]), as a pool
//! comes and goes with the settings, which Pingora's services do not.
//!
//! - [`settings`] what a site says about its origin;
//! - [`peer`] one address, and whether it answers;
//! - [`names`] from names to addresses;
//! - [`pool`] the addresses of a site, and the choice among them;
//! - [`health`] the checks;
//! - [`upkeep`] where the tasks of pools run.

pub mod health;
pub mod names;
pub mod peer;
pub mod pool;
pub mod settings;
pub mod upkeep;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

pub use peer::{Fault, Peer, Peers};
pub use pool::Pool;
pub use settings::{Balance, HealthCheck, PoolSettings, Settings};

use crate::clock::Clock;
use upkeep::Upkeep;

/// What outlives a reload: the addresses with what is known of them, and the place where their tasks run.
pub struct Origins {
    /// All addresses in use.
    pub peers: Arc<Peers>,
    clock: Clock,
    upkeep: Upkeep,
}

impl Origins {
    /// Without peers yet, and without a thread.
    pub fn new(clock: Clock) -> Origins {
        Origins {
            peers: Arc::default(),
            clock,
            upkeep: Upkeep::default(),
        }
    }

    /// The pool for these settings: that of `before` when it has one, so that a reload forgets nothing of its health.
    ///
    /// # Errors
    /// A name has no address, or there is no thread for its tasks.
    pub fn pool(&self, settings: &PoolSettings, before: Option<&Pools>) -> io::Result<Arc<Pool>> {
        if let Some(pool) = before.and_then(|pools| pools.get(settings)) {
            return Ok(pool.clone());
        }
        let pool = Pool::new(settings, &self.peers, &self.clock)?;
        self.upkeep.attend(&pool, &self.peers)?;
        Ok(pool)
    }
}

/// Pools by their settings.
pub type Pools = HashMap<PoolSettings, Arc<Pool>>;
