//! Whose fault a failure on Pingora's side is, and the status it is answered with.

use std::io;

use pingora_core::{Error, ErrorSource, ErrorType};

use crate::edge::tunnel::Silent;
use crate::limited::Limit;

/// An error that is answered with `status`.
pub fn status_error(status: u16, why: &str) -> Box<Error> {
    Error::explain(ErrorType::HTTPStatus(status), why.to_owned())
}

/// The status for a failure, by whose it is.
pub fn status_of(error: &Error) -> u16 {
    match error.etype() {
        ErrorType::HTTPStatus(status) => *status,
        ErrorType::ConnectTimedout => 504,
        ErrorType::ReadTimedout | ErrorType::WriteTimedout
            if error.esource() == &ErrorSource::Upstream =>
        {
            504
        }
        ErrorType::ReadTimedout => 408,
        _ => match error.esource() {
            ErrorSource::Upstream => 502,
            ErrorSource::Downstream => match io_kind(error) {
                Some(io::ErrorKind::InvalidData) => 400,
                Some(io::ErrorKind::FileTooLarge) => 413,
                // Not silent, but slower than `limits.body_rate`.
                Some(io::ErrorKind::TimedOut) if error.etype() == &ErrorType::ReadError => 408,
                _ => CLIENT_GONE,
            },
            ErrorSource::Internal | ErrorSource::Unset => 500,
        },
    }
}

/// The limit that the client has met, if it is one.
pub fn limit_of(error: &Error) -> Option<Limit> {
    match (status_of(error), io_kind(error)) {
        (408, Some(io::ErrorKind::TimedOut)) => Some(Limit::BodyRate),
        (408, _) => Some(Limit::Body),
        (413, _) => Some(Limit::MaxBody),
        _ => None,
    }
}

/// What the client's stream says of it: its chunks are no chunks, or too many.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let cause = error.root_cause().downcast_ref::<io::Error>()?;
    Some(cause.kind())
}

/// Puts right whose fault it is when the client's stream tells that an origin is silent, which it does for a request for a
/// tunnel.
pub fn blame_the_silent(error: &mut Error) {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    let is_silent = cause
        .and_then(io::Error::get_ref)
        .is_some_and(|inner| inner.is::<Silent>());
    if is_silent {
        error.etype = ErrorType::ReadTimedout;
        error.as_up();
    }
}

/// The failure in a line for the log.
pub fn cause_of(error: &Error) -> String {
    let mut text = error.etype().as_str().to_owned();
    if let Some(context) = &error.context {
        text.push_str(": ");
        text.push_str(context.as_str());
    }
    if let Some(cause) = &error.cause {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

/// nginx's status for a client that closed its connection first; only ever logged.
pub const CLIENT_GONE: u16 = 499;
