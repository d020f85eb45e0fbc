//! How a connection comes in: what a proxy says of it first, then TLS, then HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use pingora_core::protocols::{ALPN, Stream};

use crate::edge::connection::{Connection, Filled};
use crate::edge::crowding::{LOOKED_AROUND, for_beginning, is_crowded};
use crate::edge::introduction;
use crate::edge::per_address::Place;
use crate::limited::Limit;
use crate::request::proxy_protocol::Told;
use crate::snapshot::State;
use crate::tls::TlsDoor;
use crate::tls::door::Came;

/// One address that is listened on.
#[derive(Clone, Default)]
pub struct Listener {
    /// Each connection begins with a header of the PROXY protocol.
    pub speaks_proxy: bool,
    /// TLS ends here.
    pub tls: Option<Arc<TlsDoor>>,
    /// Whether HTTP/2 is spoken.
    pub http2: Http2,
    /// Requests are sent on to https.
    pub redirects: bool,
}

/// Whether HTTP/2 is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Http2 {
    /// With TLS, where the client wants it (ALPN).
    #[default]
    On,
    /// It is not.
    Off,
    /// Nothing else is, and without TLS at that: the client knows it beforehand (RFC 9113 §3.3).
    Only,
}

/// All addresses that are listened on, as they were bound.
pub struct Listeners(Vec<(SocketAddr, Arc<Listener>)>);

/// Where a connection comes from, and how.
pub struct Arrival {
    /// The client's address, or that of a proxy that does not say whom it speaks for.
    pub peer: SocketAddr,
    /// What a proxy has said of the client.
    pub told: Option<Told>,
    /// The connection's place among those of its address, where they are limited.
    pub place: Option<Place>,
    /// What `Strict-Transport-Security` says of the host, if anything (RFC 6797 §7.2: with TLS only).
    pub hsts: Option<HeaderValue>,
    /// How it came in.
    pub listener: Arc<Listener>,
}

impl Listeners {
    /// These addresses.
    pub fn new(all: Vec<(SocketAddr, Arc<Listener>)>) -> Listeners {
        Listeners(all)
    }

    /// The one that has accepted a connection.
    pub fn of(&self, stream: &Stream) -> Arc<Listener> {
        let mut listeners = self.0.iter();
        let first = listeners.next();
        let found = match listeners.next() {
            // The kernel need not be asked.
            None => first,
            Some(_) => local_address(stream).and_then(|local| self.at(local)),
        };
        found
            .or(first)
            .map_or_else(Arc::default, |(_, listener)| listener.clone())
    }

    fn at(&self, local: SocketAddr) -> Option<&(SocketAddr, Arc<Listener>)> {
        let ip = local.ip().to_canonical();
        let with_port = || {
            self.0
                .iter()
                .filter(|(address, _)| address.port() == local.port())
        };
        let exact = with_port().find(|(address, _)| address.ip().to_canonical() == ip);
        // One of all addresses of its kind before one of both kinds.
        let any = |v6: bool| {
            with_port()
                .find(move |(address, _)| address.ip().is_unspecified() && address.is_ipv6() == v6)
        };
        exact.or_else(|| any(ip.is_ipv6())).or_else(|| any(true))
    }
}

impl Listener {
    /// Whether HTTP/2 is spoken on a connection.
    pub fn speaks_http2(&self, connection: &Connection) -> bool {
        match self.http2 {
            Http2::Only => true,
            Http2::On if self.tls.is_some() => {
                connection.stream.selected_alpn_proto() == Some(ALPN::H2)
            }
            Http2::On | Http2::Off => false,
        }
    }

    /// Whether a connection begins with its first request.
    pub fn is_plain(&self) -> bool {
        !self.speaks_proxy && self.tls.is_none()
    }

    /// Takes in a connection that begins with its first request. None: it is one too many.
    pub fn receive_plain(
        self: Arc<Self>,
        state: &State,
        stream: Stream,
    ) -> Option<(Connection, Arrival)> {
        let arrival = Arrival::of(&stream, self).placed(state)?;
        let connection = Connection::new(stream, state.clock.clone(), &state.lifecycle);
        Some((connection, arrival))
    }

    /// Takes a connection in, up to its first request. None: it has ended, or is to be closed.
    pub async fn receive(
        self: Arc<Self>,
        state: &State,
        stream: Stream,
    ) -> Option<(Connection, Arrival)> {
        let mut arrival = Arrival::of(&stream, self.clone());
        let mut connection = Connection::new(stream, state.clock.clone(), &state.lifecycle);
        if self.speaks_proxy {
            let Some(told) = introduction::read_from(state, &mut connection, arrival.peer).await
            else {
                state.limited.count(Limit::ProxyProtocol);
                return None;
            };
            arrival.told = Some(told);
            if let Some(ends) = told.client {
                arrival.peer = ends.source;
            }
        }
        let arrival = arrival.placed(state)?;
        if let Some(tls) = &self.tls {
            let patience = state.snapshot.load().limits.request_head;
            if !begins(state, &mut connection, patience).await {
                tls.counters.count(Came::Late);
                return None;
            }
            let (stream, read, waiting) = connection.into_parts();
            let patience = for_beginning(patience, is_crowded(state) || tls.is_crowded());
            let stream = tls.accept(stream, &read, patience).await?;
            connection = Connection::from_parts(stream, Default::default(), waiting);
        }
        Some((connection, arrival))
    }
}

/// Waits for the first bytes of a handshake, so that who says nothing takes no place among the handshakes: how many such
/// there are is bounded by the limits on connections alone. False: none have come in time.
async fn begins(state: &State, connection: &mut Connection, patience: Duration) -> bool {
    if !connection.incoming.is_empty() {
        return true;
    }
    let since = state.clock.now();
    let mut next_look = since;
    loop {
        let now = state.clock.now();
        let deadline = since.plus(for_beginning(patience, is_crowded(state)));
        if now >= deadline {
            return false;
        }
        // It may become crowded meanwhile.
        next_look = next_look.max(now).plus(LOOKED_AROUND);
        match connection.fill(deadline.min(next_look), FIRST_BYTES).await {
            Filled::Bytes => return true,
            Filled::TimedOut => {}
            Filled::End | Filled::Draining | Filled::Broken => return false,
        }
    }
}

/// What is read of a handshake before it is left to the door.
const FIRST_BYTES: usize = 8 * 1024;

impl Arrival {
    fn of(stream: &Stream, listener: Arc<Listener>) -> Arrival {
        Arrival {
            peer: peer_address(stream),
            told: None,
            place: None,
            hsts: listener.tls.as_ref().and_then(|tls| tls.hsts()),
            listener,
        }
    }

    /// Takes a place among the connections of its address, where they are limited. None: it is one too many. A trusted
    /// proxy has as many as it wants, until it asks for something of its own.
    fn placed(mut self, state: &State) -> Option<Arrival> {
        let snapshot = state.snapshot.load();
        let Some(most) = snapshot.limits.connections_per_address else {
            return Some(self);
        };
        let place = state.per_address.enter(self.peer.ip());
        if place.count() > most && !snapshot.trusted.contains(self.peer.ip()) {
            state.limited.count(Limit::ConnectionsPerAddress);
            return None;
        }
        self.place = Some(place);
        Some(self)
    }

    /// The address that the client has connected to, and the port.
    pub fn local(&self, stream: &Stream) -> Option<SocketAddr> {
        match self.told.and_then(|told| told.client) {
            Some(ends) => Some(ends.destination),
            None => local_address(stream),
        }
    }

    /// Whether the client speaks TLS, with us or with the proxy that says so.
    pub fn tls(&self) -> bool {
        self.listener.tls.is_some() || self.told.is_some_and(|told| told.tls)
    }
}

fn peer_address(stream: &Stream) -> SocketAddr {
    let digest = stream.get_socket_digest();
    let peer = digest.and_then(|digest| digest.peer_addr()?.as_inet().copied());
    peer.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

fn local_address(stream: &Stream) -> Option<SocketAddr> {
    let digest = stream.get_socket_digest()?;
    digest.local_addr()?.as_inet().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_address_is_the_one() {
        let listener = |redirects| {
            Arc::new(Listener {
                redirects,
                ..Listener::default()
            })
        };
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let listeners = Listeners::new(vec![
            (address("0.0.0.0:80"), listener(true)),
            (address("[::]:443"), listener(false)),
            (address("192.0.2.1:443"), listener(true)),
        ]);
        for (local, expected) in [
            ("192.0.2.9:80", "0.0.0.0:80"),
            ("[::ffff:192.0.2.9]:80", "0.0.0.0:80"),
            ("192.0.2.1:443", "192.0.2.1:443"),
            ("[::ffff:192.0.2.1]:443", "192.0.2.1:443"),
            ("[2001:db8::1]:443", "[::]:443"),
            ("192.0.2.9:443", "[::]:443"),
        ] {
            let found = listeners.at(address(local)).map(|(address, _)| *address);
            assert_eq!(found, Some(address(expected)), "{local}");
        }
        assert!(listeners.at(address("192.0.2.1:8080")).is_none());
    }
}
