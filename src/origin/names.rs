//! From the names of peers to their addresses: at load, and again every [`AGAIN`], as a container that is started anew has
//! another one.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::Result;
use pingora_core::protocols::l4::socket;
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;

/// Names, and where each was found last.
#[derive(Clone, Debug)]
pub struct Names(Arc<Mutex<Vec<Name>>>);

#[derive(Debug)]
struct Name {
    /// As it is written, with its port.
    peer: String,
    addresses: Vec<SocketAddr>,
}

impl Name {
    fn can_change(&self) -> bool {
        self.peer.parse::<SocketAddr>().is_err()
    }
}

impl Names {
    /// Looks all of them up. Waits for the name service.
    ///
    /// # Errors
    /// Those of a look-up, or `NotFound` when a name has no address.
    pub fn look_up(peers: &[String]) -> io::Result<Names> {
        let mut found = Vec::with_capacity(peers.len());
        for peer in peers {
            let addresses: Vec<_> = peer
                .to_socket_addrs()
                .map_err(|error| io::Error::new(error.kind(), format!("{peer}: {error}")))?
                .collect();
            if addresses.is_empty() {
                let why = format!("{peer} has no address");
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
            found.push(Name {
                peer: peer.clone(),
                addresses,
            });
        }
        Ok(Names(Arc::new(Mutex::new(found))))
    }

    /// A name that has been found before, whether there is one or not.
    #[cfg(test)]
    pub fn missing(peer: &str, address: SocketAddr) -> Names {
        Names(Arc::new(Mutex::new(vec![Name {
            peer: peer.to_owned(),
            addresses: vec![address],
        }])))
    }

    /// As if the first name had been found there before.
    #[cfg(test)]
    pub fn was_at(&self, addresses: Vec<SocketAddr>) {
        self.0.lock()[0].addresses = addresses;
    }

    /// Whether any is a name, whose addresses may change.
    pub fn can_change(&self) -> bool {
        self.0.lock().iter().any(Name::can_change)
    }

    /// All addresses, each once.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        let names = self.0.lock();
        names
            .iter()
            .flat_map(|name| name.addresses.iter().copied())
            .collect()
    }

    /// Looks the names up again. One that is not found now keeps its addresses: a name service that is down takes no
    /// origin with it.
    pub async fn look_up_again(&self) {
        let peers: Vec<Option<String>> = {
            let names = self.0.lock();
            let peer = |name: &Name| name.can_change().then(|| name.peer.clone());
            names.iter().map(peer).collect()
        };
        for (index, peer) in peers.into_iter().enumerate() {
            let Some(peer) = peer else {
                continue;
            };
            let found = tokio::net::lookup_host(&peer).await;
            match found.map(Iterator::collect::<Vec<_>>) {
                Ok(addresses) if !addresses.is_empty() => {
                    if let Some(name) = self.0.lock().get_mut(index) {
                        name.addresses = addresses;
                    }
                }
                Ok(_) => tracing::debug!("origin {peer}: no address, the last one is kept"),
                Err(error) => {
                    tracing::debug!(%error, "origin {peer}: not found, the last address is kept");
                }
            }
        }
    }
}

#[async_trait]
impl ServiceDiscovery for Names {
    /// What was found last; never waits.
    async fn discover(&self) -> Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let backend = |address| Backend {
            addr: socket::SocketAddr::Inet(address),
            weight: 1,
            ext: http::Extensions::new(),
        };
        Ok((
            self.addresses().into_iter().map(backend).collect(),
            HashMap::new(),
        ))
    }
}

/// Time between two look-ups.
pub const AGAIN: Duration = Duration::from_secs(30);
