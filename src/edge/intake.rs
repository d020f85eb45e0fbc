//! A request's body, taken in whole.

use pingora_core::{Error, Result};
use pingora_proxy::Session;

use crate::edge::failure::status_error;
use crate::edge::pace::Patience;
use crate::fastcgi::spool::{self, SpoolError};
use crate::snapshot::State;

/// Takes in the body of at most `most` bytes, as long as the client keeps the pace.
///
/// # Errors
/// Those of the client; 413 beyond `most`, and the status of a spool that is full.
pub async fn take_body(
    session: &mut Session,
    state: &State,
    most: u64,
    patience: Patience,
) -> Result<spool::Body> {
    session.set_read_timeout(Some(patience.silence));
    if session.is_body_empty() {
        return Ok(spool::Body::empty());
    }
    let mut spool = state.spools.spool(most);
    // What was lent sees to the pace.
    while let Some(piece) = session
        .downstream_session
        .read_request_body()
        .await
        .map_err(|error| error.into_down())?
    {
        spool.push(piece).await.map_err(spool_error)?;
    }
    spool.finish().await.map_err(spool_error)
}

fn spool_error(error: SpoolError) -> Box<Error> {
    status_error(error.status(), &error.to_string())
}
