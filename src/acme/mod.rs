//! Certificates that are ordered and renewed (ACME, RFC 8555), by HTTP-01, one for each host.
//!
//! - [`schedule`] says when: in time before the old one ends, and not too soon after a failure;
//! - [`renewals`] begins it then, one at a time, and [`attempt`] goes through with it;
//! - [`client`] is how an authority is spoken to, [`account`] who we are there, [`order`] an order from its beginning to the chain;
//! - [`challenges`] answers what the authority asks a host for;
//! - [`issued`] looks at what has come before it is used, and [`store`] keeps it.
//!
//! What is kept is shown by [`tls`](crate::tls), which looks for changed files anyhow: so nothing that an authority does, or does
//! not do, is in the way of a start, a reload or a handshake.

pub mod account;
pub mod attempt;
pub mod challenges;
pub mod client;
pub mod issued;
pub mod order;
pub mod renewals;
pub mod schedule;
pub mod store;

pub use challenges::Challenges;
pub use renewals::Renewals;

/// Does what touches a disk off the workers.
async fn aside<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, String>
where
    T: Send + 'static,
    E: std::fmt::Display + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}
