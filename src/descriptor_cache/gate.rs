//! The bound on blocking operations of one document root, so that a file system that hangs holds up nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Lets a bounded number of blocking operations run at a time. Clones share the bound.
#[derive(Clone, Debug)]
pub struct Gate {
    permits: Arc<Semaphore>,
    patience: Duration,
}

impl Gate {
    /// A gate for one document root.
    pub fn new(patience: Duration) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(OPERATIONS)),
            patience,
        }
    }

    /// The right to run one blocking operation, given back when dropped; the operation itself must own it, since it
    /// cannot be cancelled. `None` when none came free in time.
    pub async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        timeout(self.patience, Arc::clone(&self.permits).acquire_owned())
            .await
            .ok()?
            .ok()
    }

    /// How long requests wait.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}

/// Blocking operations at a time for one document root.
pub const OPERATIONS: usize = 32;
/// How long requests wait, for a turn and for the operation together.
pub const PATIENCE: Duration = Duration::from_secs(5);
