//! What an administrator asks a running server, over a Unix socket, or TCP: is it well, what has it counted, read your settings again.
//!
//! It runs on a thread of its own, so that a scrape or a slow reader takes no worker's time.

pub mod access;
pub mod api;
pub mod cache;
pub mod client;
pub mod exposition;
pub mod overview;
pub mod settings;
pub mod socket;
pub mod status_page;
pub mod table;
pub mod warnings;

pub use socket::AdminDoors;
