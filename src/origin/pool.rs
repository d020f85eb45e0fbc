//! The addresses of a site's origin, and the choice among them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use parking_lot::Mutex;
use pingora_core::Result;
use pingora_load_balancing::selection::{Consistent, Random, RoundRobin};
use pingora_load_balancing::{Backend, Backends, LoadBalancer};
use tokio::task::AbortHandle;

use crate::clock::{Clock, Tick};
use crate::origin::health::Check;
use crate::origin::names::Names;
use crate::origin::peer::{Peer, Peers};
use crate::origin::settings::{Balance, PoolSettings};

/// What is known of the addresses of a pool.
pub type KnownPeers = Arc<ArcSwap<HashMap<SocketAddr, Arc<Peer>>>>;

/// The addresses of an origin.
pub struct Pool {
    settings: PoolSettings,
    balancer: Balancer,
    names: Names,
    known: KnownPeers,
    clock: Clock,
    /// Its tasks, which end with it.
    tasks: Mutex<Vec<AbortHandle>>,
}

enum Balancer {
    RoundRobin(LoadBalancer<RoundRobin>),
    Hash(LoadBalancer<Consistent>),
    Random(LoadBalancer<Random>),
}

impl Pool {
    /// Looks the peers up; may wait for the name service.
    ///
    /// # Errors
    /// A name has no address, or the health check cannot be made.
    pub fn new(settings: &PoolSettings, peers: &Peers, clock: &Clock) -> io::Result<Arc<Pool>> {
        let names = Names::look_up(&settings.peers)?;
        let known: HashMap<_, _> = names
            .addresses()
            .into_iter()
            .map(|address| (address, peers.at(address)))
            .collect();
        let known = Arc::new(ArcSwap::from_pointee(known));
        let mut backends = Backends::new(Box::new(names.clone()));
        if let Some(health) = &settings.health {
            let host = settings.peers.first().map_or("", String::as_str);
            let check = Check::new(health, host, known.clone()).map_err(io::Error::other)?;
            backends.set_health_check(Box::new(check));
        }
        let balancer = match settings.balance {
            Balance::RoundRobin => Balancer::RoundRobin(LoadBalancer::from_backends(backends)),
            Balance::Hash => Balancer::Hash(LoadBalancer::from_backends(backends)),
            Balance::Random => Balancer::Random(LoadBalancer::from_backends(backends)),
        };
        let pool = Pool {
            settings: settings.clone(),
            balancer,
            names,
            known,
            clock: clock.clone(),
            tasks: Mutex::default(),
        };
        // What has been found is put in force without waiting.
        pool.balancer
            .update()
            .now_or_never()
            .unwrap_or(Ok(()))
            .map_err(io::Error::other)?;
        Ok(Arc::new(pool))
    }

    /// What it was made of.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// Whether its addresses may change.
    pub fn can_change(&self) -> bool {
        self.names.can_change()
    }

    /// The peer for a request of `client` that has failed at `tried` so far: one that answers, as far as is known; else
    /// any, as trying is better than refusing. None when all have been tried.
    pub fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<Arc<Peer>> {
        let now = self.clock.now();
        let known = self.known.load();
        let untried = |backend: &Backend| {
            let address = backend.addr.as_inet()?;
            known.get(address).filter(|_| !tried.contains(address))
        };
        // A selection meets some twice before it has met all.
        let most = known.len().saturating_mul(STEPS);
        let answers = |backend: &Backend, is_well| is_well && may_try(untried(backend), now);
        let chosen = self.balancer.select(client, most, &answers).or_else(|| {
            let any = |backend: &Backend, _| untried(backend).is_some();
            self.balancer.select(client, most, &any)
        })?;
        untried(&chosen).cloned()
    }

    /// Whether there is a peer that has not been tried.
    pub fn has_other(&self, tried: &[SocketAddr]) -> bool {
        let known = self.known.load();
        known.keys().any(|address| !tried.contains(address))
    }

    /// Asks each peer whether it is well.
    pub async fn check(&self) {
        self.balancer.backends().run_health_check(true).await;
    }

    /// Looks its names up again and puts what was found in force.
    pub async fn look_up_again(&self, peers: &Peers) {
        let before = self.names.addresses();
        self.names.look_up_again().await;
        let found = self.names.addresses();
        if found == before {
            return;
        }
        let known = |addresses: &mut dyn Iterator<Item = SocketAddr>| -> HashMap<_, _> {
            addresses
                .map(|address| (address, peers.at(address)))
                .collect()
        };
        // Old and new first: whatever the selection still says is known.
        let both = known(&mut found.union(&before).copied());
        self.known.store(Arc::new(both));
        if let Err(error) = self.balancer.update().await {
            tracing::warn!(%error, "an origin's addresses could not be changed");
            return;
        }
        self.known
            .store(Arc::new(known(&mut found.iter().copied())));
        tracing::info!(addresses = ?found, "origin {}: moved", self.settings.peers.join(", "));
    }

    /// A task that ends with this pool.
    pub fn keep(&self, task: AbortHandle) {
        self.tasks.lock().push(task);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for task in self.tasks.get_mut() {
            task.abort();
        }
        if self.settings.health.is_some() {
            // Nobody checks them any more, and another pool may have them.
            for peer in self.known.load().values() {
                peer.checked(false);
            }
        }
    }
}

fn may_try(peer: Option<&Arc<Peer>>, now: Tick) -> bool {
    peer.is_some_and(|peer| peer.may_try(now))
}

impl Balancer {
    fn select(
        &self,
        client: IpAddr,
        most: usize,
        accept: &dyn Fn(&Backend, bool) -> bool,
    ) -> Option<Backend> {
        match self {
            Balancer::RoundRobin(balancer) => balancer.select_with(b"", most, accept),
            Balancer::Random(balancer) => balancer.select_with(b"", most, accept),
            Balancer::Hash(balancer) => match client {
                IpAddr::V4(address) => balancer.select_with(&address.octets(), most, accept),
                IpAddr::V6(address) => balancer.select_with(&address.octets(), most, accept),
            },
        }
    }

    fn backends(&self) -> &Backends {
        match self {
            Balancer::RoundRobin(balancer) => balancer.backends(),
            Balancer::Random(balancer) => balancer.backends(),
            Balancer::Hash(balancer) => balancer.backends(),
        }
    }

    async fn update(&self) -> Result<()> {
        match self {
            Balancer::RoundRobin(balancer) => balancer.update().await,
            Balancer::Random(balancer) => balancer.update().await,
            Balancer::Hash(balancer) => balancer.update().await,
        }
    }
}

/// Steps of a selection for each peer: on Pingora's hash ring a peer has 160 points, and by chance one is met late.
const STEPS: usize = 200;

#[cfg(test)]
mod tests;
