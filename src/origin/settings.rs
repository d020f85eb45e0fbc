//! What a site says about its origin.

use std::net::SocketAddr;
use std::time::Duration;

use pingora_core::upstreams::peer::HttpPeer;

/// What a site says about its origin servers (`origin:`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The peers and the choice among them.
    pub pool: PoolSettings,
    /// How long a connect may take. Default: 2 s.
    pub connect: Duration,
    /// How long the origin may take for its first byte. Default: 60 s.
    pub first_byte: Duration,
    /// Silence allowed after it. Default: 60 s.
    pub between_bytes: Duration,
}

/// The peers of an origin. Sites that say the same share one pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolSettings {
    /// Each `HOST:PORT`; all addresses of a name count.
    pub peers: Vec<String>,
    /// How one is chosen. Default: in turn.
    pub balance: Balance,
    /// How they are checked. Default: not at all.
    pub health: Option<HealthCheck>,
}

/// How a peer is chosen for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// By the client's address, so that a client stays with its peer as long as that one answers.
    Hash,
    /// By chance.
    Random,
}

/// A request that tells whether a peer is well: it is when it answers 2xx or 3xx.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthCheck {
    /// The target asked for. Default: `/`.
    pub path: String,
    /// The host asked for. Default: the first peer as it is written.
    pub host: Option<String>,
    /// Time between two checks. Default: 5 s.
    pub every: Duration,
    /// Time for a whole check. Default: 1 s.
    pub timeout: Duration,
    /// Checks failed in a row before a peer is out. Default: 2.
    pub unhealthy: usize,
    /// Checks passed in a row before it is back. Default: 1.
    pub healthy: usize,
}

impl Default for HealthCheck {
    fn default() -> HealthCheck {
        HealthCheck {
            path: "/".to_owned(),
            host: None,
            every: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            unhealthy: 2,
            healthy: 1,
        }
    }
}

impl Settings {
    /// The defaults for the origin with these peers.
    pub fn new(peers: Vec<String>) -> Settings {
        Settings {
            pool: PoolSettings {
                peers,
                balance: Balance::default(),
                health: None,
            },
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
        }
    }

    /// The peer for Pingora. It knows one read time limit only, so the longer of the two counts; a tunnel has none there,
    /// as its own limits are kept where its bytes pass.
    pub fn http_peer(&self, address: SocketAddr, is_tunnel: bool) -> HttpPeer {
        let mut peer = HttpPeer::new(address, false, String::new());
        peer.options.connection_timeout = Some(self.connect);
        peer.options.total_connection_timeout = Some(self.connect);
        peer.options.read_timeout = (!is_tunnel).then(|| self.first_byte.max(self.between_bytes));
        peer.options.write_timeout = Some(self.between_bytes);
        peer.options.idle_timeout = Some(IDLE);
        peer
    }
}

/// Shorter than the 5 s for which Node.js and Apache httpd keep an idle connection.
const IDLE: Duration = Duration::from_secs(4);
