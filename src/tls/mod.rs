//! TLS ends here: certificates by name, read again when they have changed, without dropping a connection.
//!
//! - [`settings`] is what `listen` says of it;
//! - [`certificate`] reads a certificate and its key, or makes one for a trial;
//! - [`validity`] tells which are refused by clients, or will be soon;
//! - [`names`] chooses among them by the name that the client asks for (SNI);
//! - [`door`] is the way in: handshakes, counted and capped; [`doors`] are those of all listeners, and the watch on their files.
//!
//! Protocol versions, cipher suites and key exchange are rustls' own defaults: all of them are safe.

pub mod certificate;
pub mod door;
pub mod doors;
pub mod names;
pub mod settings;
pub mod validity;

pub use door::{TlsDoor, TlsError};
pub use doors::TlsDoors;
pub use settings::Settings;
pub use validity::Trouble;
