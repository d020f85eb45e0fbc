//! The thread that waits for events and takes them in at once.

use std::sync::{Arc, Weak};

use super::DescriptorCache;
use super::watch::Watching;

/// Ends the thread when the cache that it listens for is dropped.
#[derive(Debug)]
pub struct Listener(Arc<Watching>);

impl Listener {
    /// Starts the thread, unless nothing is watched.
    pub fn start(watching: &Arc<Watching>, cache: Weak<DescriptorCache>) -> Option<Self> {
        if !watching.is_listening() {
            return None;
        }
        let listening = Arc::clone(watching);
        let started = std::thread::Builder::new()
            .name("cache events".into())
            .spawn(move || listen(&listening, &cache));
        match started {
            Ok(_) => Some(Self(Arc::clone(watching))),
            Err(error) => {
                tracing::warn!(%error, "events are taken in once a second only");
                None
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn listen(watching: &Watching, cache: &Weak<DescriptorCache>) {
    while watching.take_in_next() {
        if watching.has_marks() {
            let Some(cache) = cache.upgrade() else { return };
            cache.resolve_marked();
        }
    }
}
