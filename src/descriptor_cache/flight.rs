//! Single flight: work that several requests need is done once, by a task of its own that no request can cancel.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Work under way, by key.
#[derive(Debug)]
pub struct Flights<K, V>(Mutex<HashMap<K, watch::Receiver<Option<V>>>>);

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    /// Joins the work for `key`, or starts it: then `start` gets the flight to finish.
    pub fn board(self: &Arc<Self>, key: K, start: impl FnOnce(Flight<K, V>)) -> Boarded<V> {
        let (announcer, receiver) = {
            let mut flights = self.0.lock();
            if let Some(receiver) = flights.get(&key) {
                return Boarded::Joined(Landing(receiver.clone()));
            }
            let (announcer, receiver) = watch::channel(None);
            flights.insert(key.clone(), receiver.clone());
            (announcer, receiver)
        };
        start(Flight {
            flights: Arc::clone(self),
            key: Some(key),
            announcer,
        });
        Boarded::Started(Landing(receiver))
    }

    /// Number of flights under way.
    pub fn under_way(&self) -> usize {
        self.0.lock().len()
    }
}

/// Whether a request started the work.
#[derive(Debug)]
pub enum Boarded<V> {
    /// It did.
    Started(Landing<V>),
    /// Another one had.
    Joined(Landing<V>),
}

/// The result to come.
#[derive(Debug)]
pub struct Landing<V>(watch::Receiver<Option<V>>);

impl<V: Clone> Landing<V> {
    /// Waits for it; `None` when the work ended without one. May be dropped at any time.
    pub async fn wait(mut self) -> Option<V> {
        self.0
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|value| value.clone())
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
