//! Exchanges with a scripted responder on a Unix socket of the test's own.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test"
)]

mod answers;
mod content;
mod failures;
mod kept_connections;
mod responder;
mod slots;
mod time_limits;
