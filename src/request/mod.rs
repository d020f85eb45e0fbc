//! The request as it came in: bytes in, value out, without I/O and without a clock.
//!
//! | file | what | rule |
//! |---|---|---|
//! | [`head`] | request line, fields and framing of an HTTP/1 request | RFC 9112 §2, §3, §5, §6 |
//! | [`fields`] | looking at field lines, whoever holds them | RFC 9110 §5 |
//! | [`authority`] | host and port, of `Host` and of an absolute target | RFC 3986 §3.2 |
//! | [`target`] | the request target, decoded once | RFC 9112 §3.2, RFC 3986 §5.2.4 |
//! | [`tree_path`] | a path below a document root | |
//! | [`entity_tag`] | entity-tags and lists of them | RFC 9110 §8.8.3 |
//! | [`http_date`] | dates in fields | RFC 9110 §5.6.7 |
//! | [`preconditions`] | conditional requests | RFC 9110 §13 |
//! | [`accept_encoding`] | content codings that the client takes | RFC 9110 §12.5.3 |
//! | [`range`] | byte ranges | RFC 9110 §14 |
//! | [`chunked`] | the framing of a chunked body | RFC 9112 §7.1 |
//! | [`client`] | who the client is, behind proxies | |
//! | [`client_network`] | what counts as one client | |
//! | [`proxy_protocol`] | what a proxy says before the first request | PROXY protocol 1 and 2 |
//! | [`cookies`] | which cookies make a page a visitor's own | |
//! | [`secret_arguments`] | passwords and keys in URLs, which logs do not tell | |
//! | [`user_agent`] | what WordPress takes for a phone | |
//! | [`pattern`] | path patterns of the settings | |

pub mod accept_encoding;
pub mod authority;
pub mod chunked;
pub mod client;
pub mod client_network;
pub mod cookies;
pub mod entity_tag;
pub mod fields;
pub mod forwarded;
pub mod head;
pub mod http_date;
pub mod network_list;
pub mod networks;
pub mod pattern;
pub mod preconditions;
pub mod proxy_protocol;
pub mod range;
pub mod secret_arguments;
pub mod target;
pub mod tree_path;
pub mod user_agent;

pub use tree_path::TreePath;
