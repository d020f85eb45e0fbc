//! Single flight: work that several requests need is done once, by a task of its own that no request can cancel.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Work under way, by key.
#[derive(Debug)]
pub struct Flights<K, V>(Mutex<HashMap<K, Landing<V>>>);

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    /// Joins the work for `key`, or starts it: then `start` gets the flight to finish.
    pub fn board(self: &Arc<Self>, key: K, start: impl FnOnce(Flight<K, V>)) -> Landing<V> {
        let (announcer, landing) = {
            let mut flights = self.0.lock();
            if let Some(landing) = flights.get(&key) {
                return landing.clone();
            }
            let (announcer, receiver) = watch::channel(None);
            let landing = Landing {
                receiver,
                taken: Arc::default(),
            };
            flights.insert(key.clone(), landing.clone());
            (announcer, landing)
        };
        start(Flight {
            flights: Arc::clone(self),
            key: Some(key),
            announcer,
        });
        landing
    }

    /// Number of flights under way.
    pub fn under_way(&self) -> usize {
        self.0.lock().len()
    }
}

/// The result to come.
#[derive(Clone, Debug)]
pub struct Landing<V> {
    receiver: watch::Receiver<Option<V>>,
    taken: Arc<AtomicBool>,
}

/// A result, and whose it is.
#[derive(Debug)]
pub enum Landed<V> {
    /// The first to take it: whether it started the work or not, which it may have done in an earlier try.
    First(V),
    /// Somebody has taken it before.
    Shared(V),
    /// The work ended without one.
    Lost,
}

impl<V: Clone> Landing<V> {
    /// Waits for it. May be dropped at any time.
    pub async fn wait(mut self) -> Landed<V> {
        let landed = self.receiver.wait_for(Option::is_some).await;
        match landed.ok().and_then(|value| value.clone()) {
            None => Landed::Lost,
            Some(value) if self.taken.swap(true, Ordering::Relaxed) => Landed::Shared(value),
            Some(value) => Landed::First(value),
        }
    }
}

/// The duty to finish the work. However it ends, by panic, too, the next request for the key starts anew.
#[derive(Debug)]
pub struct Flight<K: Eq + Hash, V> {
    flights: Arc<Flights<K, V>>,
    key: Option<K>,
    announcer: watch::Sender<Option<V>>,
}

impl<K: Eq + Hash, V> Flight<K, V> {
    /// Gives the result to all that wait. Whoever comes from now on starts anew: a result is never given to a request
    /// that began after it.
    pub fn land(mut self, value: V) {
        self.leave();
        self.announcer.send_replace(Some(value));
    }

    /// Gives a result to all that wait, and at once to those who come while the flight lasts.
    pub fn announce(&self, value: V) {
        self.announcer.send_replace(Some(value));
    }

    fn leave(&mut self) {
        if let Some(key) = self.key.take() {
            let landed = self.flights.0.lock().remove(&key);
            drop(landed);
        }
    }
}

impl<K: Eq + Hash, V> Drop for Flight<K, V> {
    fn drop(&mut self) {
        self.leave();
    }
}
