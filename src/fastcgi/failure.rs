//! How an exchange with a responder fails, and the status the client gets for it.

use std::io;

use super::cgi_response::CgiError;
use super::limiter::Busy;
use super::record::RecordError;

/// Why there is no answer, or no whole one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The responder is as busy as it may be.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The socket's backlog stayed full.
    #[error("the responder's backlog is full")]
    BacklogFull,
    /// This process or machine is out of descriptors or memory.
    #[error("connect: {0}")]
    OutOfResources(io::ErrorKind),
    /// The socket is missing, refuses, or is not ours to use.
    #[error("connect: {0}")]
    Connect(io::ErrorKind),
    /// The connect took too long.
    #[error("connect took too long")]
    ConnectTimeout,
    /// Nothing came in time.
    #[error("the responder sent nothing in time")]
    FirstByteTimeout,
    /// The answer stopped half way.
    #[error("the responder fell silent")]
    BetweenBytesTimeout,
    /// The connection ended before END_REQUEST: a crash, a terminated script, a restart.
    #[error("the responder closed the connection before the end of its answer")]
    Closed,
    /// The connection failed.
    #[error("connection to the responder: {0}")]
    Connection(io::ErrorKind),
    /// The responder does not speak FastCGI.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The head may not be passed on.
    #[error(transparent)]
    Head(#[from] CgiError),
    /// The request ended without a head.
    #[error("the answer has no head")]
    NoHead,
    /// Less content than Content-Length says.
    #[error("{received} bytes of content where Content-Length says {expected}")]
    Short {
        /// Content-Length.
        expected: u64,
        /// Bytes that came.
        received: u64,
    },
    /// END_REQUEST says OVERLOADED.
    #[error("the responder is overloaded")]
    Overloaded,
    /// END_REQUEST says that the request was not carried out.
    #[error("the responder refused the request")]
    Refused,
    /// The request's content could not be read back.
    #[error("spooled content: {0}")]
    Content(io::ErrorKind),
    /// The answer's file could not be read back.
    #[error("buffered answer: {0}")]
    Buffer(io::ErrorKind),
    /// The task ended before the exchange did: the process is going down.
    #[error("the exchange was cut off")]
    CutOff,
}

impl ExchangeError {
    /// The words for [`ExchangeError::kind`], all of them.
    pub const KINDS: [&str; 5] = ["busy", "connect", "timeout", "closed", "answer"];

    /// The place of the kind's word in [`KINDS`](Self::KINDS); `None` where the responder has no part in it.
    pub fn kind(&self) -> Option<usize> {
        Some(match self {
            ExchangeError::Busy(_) | ExchangeError::BacklogFull | ExchangeError::Overloaded => 0,
            ExchangeError::Connect(_) | ExchangeError::ConnectTimeout => 1,
            ExchangeError::FirstByteTimeout | ExchangeError::BetweenBytesTimeout => 2,
            ExchangeError::Closed | ExchangeError::Connection(_) => 3,
            ExchangeError::Record(_)
            | ExchangeError::Head(_)
            | ExchangeError::NoHead
            | ExchangeError::Short { .. }
            | ExchangeError::Refused => 4,
            ExchangeError::OutOfResources(_)
            | ExchangeError::Content(_)
            | ExchangeError::Buffer(_)
            | ExchangeError::CutOff => return None,
        })
    }

    /// The status to answer with, when no head has been passed on yet.
    pub fn status(&self) -> u16 {
        match self {
            ExchangeError::Busy(_)
            | ExchangeError::BacklogFull
            | ExchangeError::OutOfResources(_)
            | ExchangeError::Overloaded => 503,
            ExchangeError::ConnectTimeout
            | ExchangeError::FirstByteTimeout
            | ExchangeError::BetweenBytesTimeout => 504,
            ExchangeError::Content(_) | ExchangeError::Buffer(_) => 500,
            ExchangeError::Connect(_)
            | ExchangeError::Closed
            | ExchangeError::Connection(_)
            | ExchangeError::Record(_)
            | ExchangeError::Head(_)
            | ExchangeError::NoHead
            | ExchangeError::Short { .. }
            | ExchangeError::Refused
            | ExchangeError::CutOff => 502,
        }
    }

    /// Whether the answer tells the client to come back: with every 503.
    pub fn retry_after(&self) -> bool {
        self.status() == 503
    }

    /// Whether the connection went away by itself, as a kept one does when its worker ends.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self, ExchangeError::Closed | ExchangeError::Connection(_))
    }
}
