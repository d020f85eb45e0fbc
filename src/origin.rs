//! An HTTP origin server behind us, instead of PHP-FPM.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use pingora_core::upstreams::peer::HttpPeer;

/// What a site says about its origin server (`origin:`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `HOST:PORT`; a name is looked up when the settings are loaded.
    pub peer: String,
    /// How long a connect may take. Default: 2 s.
    pub connect: Duration,
    /// How long the origin may take for its first byte. Default: 60 s.
    pub first_byte: Duration,
    /// Silence allowed after it. Default: 60 s.
    pub between_bytes: Duration,
}

impl Settings {
    /// The defaults for the origin at `peer`.
    pub fn new(peer: String) -> Settings {
        Settings {
            peer,
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
        }
    }

    /// Looks the peer's address up; the first one found counts.
    ///
    /// # Errors
    /// Those of the name look-up, or `NotFound` when it has no address.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        self.peer
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The peer for Pingora. It knows one read time limit only, so the longer of the two counts.
    pub fn http_peer(&self, address: SocketAddr) -> HttpPeer {
        let mut peer = HttpPeer::new(address, false, String::new());
        peer.options.connection_timeout = Some(self.connect);
        peer.options.total_connection_timeout = Some(self.connect);
        peer.options.read_timeout = Some(self.first_byte.max(self.between_bytes));
        peer.options.write_timeout = Some(self.between_bytes);
        peer.options.idle_timeout = Some(IDLE);
        peer
    }
}

/// Shorter than the 5 s for which Node.js and Apache httpd keep an idle connection.
const IDLE: Duration = Duration::from_secs(4);
