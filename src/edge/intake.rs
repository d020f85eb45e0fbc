//! A request's body, taken in whole.

use bytes::Bytes;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::Session;

use crate::edge::failure::status_error;
use crate::edge::pace::{Pace, Patience};
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
    let mut pace = session.is_http2().then(|| Pace::new(patience));
    let mut spool = state.spools.spool(most);
    loop {
        let piece = match &mut pace {
            // The stream that was lent sees to it.
            None => session.downstream_session.read_request_body().await,
            Some(pace) => read_at_pace(session, pace, patience).await,
        };
        let Some(piece) = piece.map_err(|error| error.into_down())? else {
            refuse_trailers(session, false)?;
            break;
        };
        spool.push(piece).await.map_err(spool_error)?;
    }
    spool.finish().await.map_err(spool_error)
}

/// Pingora never takes the trailers of HTTP/2: their stream does not end for it, and it would ask for more without a pause
/// for as long as the answer takes, on a worker that nobody else gets. `ended`: it has been told that the body has ended.
///
/// # Errors
/// 400: the body has ended, and trailers follow (RFC 9113 §8.1).
pub fn refuse_trailers(session: &mut Session, ended: bool) -> Result<()> {
    if session.is_http2() && !ended && !session.is_body_done() {
        return Err(status_error(400, "trailers of a request are not taken"));
    }
    Ok(())
}

/// The next piece of a body of HTTP/2, where nobody else looks at the time.
async fn read_at_pace(
    session: &mut Session,
    pace: &mut Pace,
    patience: Patience,
) -> Result<Option<Bytes>> {
    pace.waits();
    let read = session.downstream_session.read_request_body();
    let Ok(piece) = tokio::time::timeout(patience.silence, read).await else {
        return Err(Error::new(ErrorType::ReadTimedout));
    };
    let piece = piece?;
    let bytes = piece.as_ref().map_or(0, Bytes::len);
    // Frames with nothing in them cost as much and bring none on: an empty one counts as time.
    if pace.moved(bytes).is_err() {
        let slow = std::io::Error::from(std::io::ErrorKind::TimedOut);
        return Err(Error::because(ErrorType::ReadError, "too slow", slow));
    }
    Ok(piece)
}

fn spool_error(error: SpoolError) -> Box<Error> {
    status_error(error.status(), &error.to_string())
}
