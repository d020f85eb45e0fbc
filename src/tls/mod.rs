//! TLS ends here: certificates by name, read again when they have changed, without dropping a connection.
//!
//! - [`settings`] is what `listen` says of it;
//! - [`certificate`] reads a certificate and its key, or makes one for a trial;
//! - [`validity`] tells which are refused by clients, or will be soon;
//! - `ordered` finds those that are ordered (`crate::acme`), and makes one in place of those that are still to come;
//! - [`names`] chooses among them by the name that the client asks for (SNI);
//! - [`door`] is the way in: handshakes, counted and capped; [`doors`] are those of all listeners, and the watch on their files.
//!
//! Protocol versions, cipher suites and key exchange are rustls' own defaults: all of them are safe.

pub mod certificate;
pub mod door;
pub mod doors;
pub mod names;
mod ordered;
pub mod settings;
pub mod validity;

pub use door::{TlsDoor, TlsError};
pub use doors::TlsDoors;
pub use settings::Settings;
pub use validity::Trouble;
