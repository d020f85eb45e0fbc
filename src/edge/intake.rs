//! A request's body, taken in whole.

use std::time::Duration;

use pingora_core::{Error, Result};
use pingora_proxy::Session;

use crate::edge::failure::status_error;
use crate::fastcgi::spool::{self, SpoolError};
use crate::snapshot::State;

/// Takes in the body of at most `most` bytes; the client may be silent for `patience`.
///
/// # Errors
/// Those of the client; 413 beyond `most`, and the status of a spool that is full.
pub async fn take_body(
    session: &mut Session,
    state: &State,
    most: u64,
    patience: Duration,
) -> Result<spool::Body> {
    session.set_read_timeout(Some(patience));
    if session.is_body_empty() {
        return Ok(spool::Body::empty());
    }
    let mut spool = state.spools.spool(most);
    loop {
        let read = session.downstream_session.read_request_body().await;
        let Some(piece) = read.map_err(|error| error.into_down())? else {
            break;
        };
        spool.push(piece).await.map_err(spool_error)?;
    }
    spool.finish().await.map_err(spool_error)
}

fn spool_error(error: SpoolError) -> Box<Error> {
    status_error(error.status(), &error.to_string())
}
