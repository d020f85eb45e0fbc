//! What a connection from a proxy says of the client before its first request (`proxy_protocol`).

use std::net::SocketAddr;

use bytes::Buf as _;

use crate::edge::connection::{Connection, Filled};
use crate::request::proxy_protocol::{Read, Told, read};
use crate::snapshot::State;

/// Reads it, within the time for a head. None: the connection is to be closed, as it does not begin so, or comes from
/// somebody who is not believed.
pub async fn read_from(
    state: &State,
    connection: &mut Connection,
    peer: SocketAddr,
) -> Option<Told> {
    let deadline = {
        let snapshot = state.snapshot.load();
        if !snapshot.trusted.contains(peer.ip()) {
            let peer = peer.ip();
            tracing::warn!(
                "a connection of {peer} to a listener with proxy_protocol was closed: if it is your proxy, add \"{peer}\" to \
                 trusted_proxies"
            );
            return None;
        }
        state.clock.now().plus(snapshot.limits.request_head)
    };
    loop {
        match read(&connection.incoming) {
            Read::Header(told, length) => {
                connection.incoming.advance(length);
                return Some(told);
            }
            Read::Other => {
                tracing::debug!(%peer, "closed: it does not begin with a header of the PROXY protocol");
                return None;
            }
            Read::Incomplete => {}
        }
        match connection.fill(deadline, MOST).await {
            Filled::Bytes => {}
            _ => return None,
        }
    }
}

/// Room for the header and the request behind it.
const MOST: usize = 8 * 1024;
