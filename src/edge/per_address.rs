//! Open connections by address (`limits.connections_per_address`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::request::client_network::ClientNetwork;

/// The open connections of each client.
#[derive(Clone, Default)]
pub struct PerAddress(Arc<Mutex<HashMap<ClientNetwork, usize>>>);

impl PerAddress {
    /// Counts a connection until the place is dropped.
    pub fn enter(&self, address: IpAddr) -> Place {
        let client = ClientNetwork::from(address);
        *self.0.lock().entry(client).or_default() += 1;
        Place {
            all: self.clone(),
            client,
            taken: AtomicBool::new(true),
        }
    }
}

/// One connection among those of its address.
pub struct Place {
    all: PerAddress,
    client: ClientNetwork,
    taken: AtomicBool,
}

impl Place {
    /// Connections of this address, with this one.
    pub fn count(&self) -> usize {
        self.all.0.lock().get(&self.client).copied().unwrap_or(0)
    }

    /// Whether the connection counts.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// The connection does not count any more: it is a proxy's, for others.
    pub fn give_back(&self) {
        if !self.taken.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut all = self.all.0.lock();
        if let Some(count) = all.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.client);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_forgotten() {
        let all = PerAddress::default();
        let address: IpAddr = "2001:db8::1".parse().expect("an address");
        let first = all.enter(address);
        let second = all.enter("2001:db8::2".parse().expect("an address"));
        assert_eq!(first.count(), 2);
        first.give_back();
        first.give_back();
        assert_eq!(second.count(), 1);
        drop(second);
        drop(first);
        assert!(all.0.lock().is_empty());
    }
}
