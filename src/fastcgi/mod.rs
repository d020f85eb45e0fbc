//! The gateway's side of FastCGI: one request to a responder (PHP-FPM), one CGI response back.
//!
//! The files stand in the order in which they build on each other:
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | what a site says about its responder |
//! | `record` | records to bytes and bytes to events (FastCGI 1.0 §3.3, §5) |
//! | `params` | meta-variables (RFC 3875 §4.1) to PARAMS records |
//! | `cgi_response` | the head of a CGI response (RFC 3875 §6) |
//! | `temp_file` | an unlinked file |
//! | `budget` | the bytes that may be held in all |
//! | `spool` | a request's content, held whole before a responder is taken |
//! | `pool_file` | `pm.max_children` from PHP-FPM's own settings |
//! | `connection` | a socket to the responder |
//! | `idle` | kept connections |
//! | `limiter` | slots and their queue, one limiter per address |
//! | `trace` | what one exchange did, for the access log |
//! | `stderr_log` | the responder's STDERR, capped |
//! | `failure` | how an exchange fails, and the status it gets |
//! | `pieces` | content in memory |
//! | `answer_buffer` | the content of a response between the responder and a slower client |
//! | `answer` | STDOUT to head and content, by the rules of HTTP |
//! | `outgoing` | bytes on their way to the responder |
//! | `pulse` | when it last showed a sign of life |
//! | `duplex` | STDIN and STDOUT on one connection at once |
//! | `exchange` | the task that owns slot, socket and buffer of one request |
//! | `session` | PHP-FPM as a custom upstream protocol of Pingora |

pub mod answer;
pub mod answer_buffer;
pub mod budget;
pub mod cgi_response;
pub mod connection;
pub mod duplex;
pub mod exchange;
pub mod failure;
pub mod idle;
pub mod limiter;
pub mod outgoing;
pub mod params;
pub mod pieces;
pub mod pool_file;
pub mod pulse;
pub mod record;
pub mod session;
pub mod settings;
pub mod spool;
pub mod stderr_log;
pub mod temp_file;
pub mod trace;

pub use settings::{Address, ClientAbort, MaxChildren, Settings};
pub use spool::SpoolSettings;
