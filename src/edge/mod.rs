//! The doors: where connections come in and answers go out.
//!
//! - [`lane`] reads HTTP/1 requests and writes the answers that are made here; it lends everything else to Pingora.
//! - [`http2`] is the second door: a connection of HTTP/2; [`http2_request`] are the requests on it, decided upon as the lane's;
//!   [`http2_head`] are their heads.
//! - [`stream_body`] is an answer's body on its way into a stream, [`watched_stream`] the connection below the streams;
//!   [`gathering`] has what streams say in one turn leave in one write.
//! - [`turn`] decides what the bytes read so far ask for.
//! - [`connection`] is the lane's end of a client's connection: reading with deadlines, closing without loss.
//! - [`socket`] puts bytes into a connection's socket, asks about it, and resets it.
//! - [`crowding`] is what changes when connections are about to run out.
//! - [`deadline`] and [`date`] are what makes time cost nothing per request.
//! - [`answer_writer`] writes an [`Answer`](crate::site::Answer) on HTTP/1.
//! - [`listener`] is how a connection comes in.
//! - [`introduction`] is what a proxy says of the client before the first request.
//! - [`per_address`] counts the connections of each address.
//! - [`pace`] is how long a client may keep us waiting.
//! - [`sending`] is a write that waits for a slow client.
//! - [`handed_stream`] is the stream that Pingora gets: one request, then silence.
//! - [`handed_session`] is what Pingora gets of HTTP/2: one stream, with the limits of time.
//! - [`held_back`] is the room for answers that slow clients do not take while others wait for them.
//! - [`handed`] is what the lane has found out about a lent request.
//! - [`log_entry`] keeps what the access log needs of a request.
//! - [`pages`] is what the page cache says to a request.
//! - [`caching`] is Pingora's cache between a page and the application.
//! - [`compressing`] compresses answers of PHP and of origins as they pass.
//! - [`proxy`] is Pingora's side of it: the request's body, the upstream, the answer, the log line.
//! - [`close_delimited`] is how HTTP/1.0 clients get answers of unknown length.
//! - [`failure`] says whose fault a failure is, and the status for it.
//! - [`upstream_request`] is what PHP-FPM or the origin is asked.
//! - [`upstream_response`] is what of an origin's answer stays behind.
//! - [`intake`] takes a request's body in whole.
//! - [`attempts`] are the peers of an origin that a request was sent to.
//! - [`tunnel`] is a WebSocket to an origin.
//! - [`accel`] answers X-Accel-Redirect and X-Sendfile.
//! - [`seen_before_the_end`] has changes that an application made while it answered seen at once.
//! - [`rendered`] turns an answer made here into Pingora's types.
//! - [`limits`] are the settings of all of these.

pub mod accel;
pub mod answer_writer;
pub mod attempts;
pub mod caching;
pub mod close_delimited;
pub mod compressing;
pub mod connection;
pub mod crowding;
pub mod date;
pub mod deadline;
pub mod failure;
pub mod gathering;
pub mod handed;
pub mod handed_session;
pub mod handed_stream;
pub mod held_back;
pub mod http2;
pub mod http2_head;
pub mod http2_request;
pub mod intake;
pub mod introduction;
pub mod lane;
pub mod limits;
pub mod listener;
pub mod log_entry;
pub mod pace;
pub mod pages;
pub mod per_address;
pub mod proxy;
pub mod rendered;
pub mod seen_before_the_end;
pub mod sending;
pub mod socket;
pub mod stream_body;
pub mod tunnel;
pub mod turn;
pub mod upstream_request;
pub mod upstream_response;
pub mod watched_stream;

pub use limits::Limits;
