//! Nostat from outside: the built binary, raw bytes on sockets, fakes behind it.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking, is no library, and makes the tree and the time that the server meets"
)]

/// The server, document roots, client and fakes that the tests share.
mod support;

/// `X-Accel-Redirect` and `X-Sendfile` from PHP.
mod accel;
/// Lines of the access log in each format.
mod access_log;
/// Certificates that are ordered, while the authority does not answer.
mod acme;
/// The admin socket: health, metrics, reload.
mod admin;
/// Requests put together at random.
mod any_bytes;
/// What the application changed before it answered is seen by the next request: roots, pages, files sent in its stead.
mod application_changes;
/// One name that is a file, a link, a directory and a FIFO in turn.
mod changing_names;
/// Text files that are compressed here.
mod compression;
/// What will limit a settings file on this machine.
mod doctor;
/// Connections at their edges: HTTP/1.0, resets, odd targets, stops.
mod door_faults;
/// Answers of PHP and of origins that are compressed as they pass.
mod dynamic_compression;
/// Descriptors run out, or nearly: by the process' limit, by many files, by deleted ones.
mod exhaustion;
/// The parameters PHP is told about a request.
mod fastcgi;
/// Answers of the responder, and what the client gets of them.
mod fastcgi_answers;
/// Request bodies on their way to the responder.
mod fastcgi_bodies;
/// Responders that fail, stall, are full or go away, and clients that leave.
mod fastcgi_failures;
/// Files that change, shrink, appear and go while they are served.
mod file_changes;
/// Framing in every odd form, and what a strict reader finds in it.
mod framing;
/// Each kind of change is seen, and no answer on the way is wrong.
mod freshness;
/// The fuzz targets over their seeds.
mod fuzz_seeds;
/// Requests that mean harm: framing, limits, slow senders.
mod hostile_requests;
/// Access rules of `.htaccess` files.
mod htaccess;
/// HTTP/2: the same answers, and streams that mean harm.
mod http2;
/// HTTP/2: what a client may take of time, and what it may hold.
mod http2_limits;
/// Settings from an nginx configuration.
mod import;
/// Many requests on one connection, static and PHP in any order.
mod keep_alive;
/// Nothing is left open after a load.
mod leaks;
/// Start, reload, drain and stop.
mod lifecycle;
/// What one client may take: connections, requests and bytes in a time.
mod limits;
/// Symbolic links and special files.
mod links;
/// GET, HEAD, OPTIONS and the methods that a file does not have.
mod methods;
/// WordPress networks in subdirectories and subdomains.
mod multisite;
/// An HTTP origin in the place of PHP.
mod origin;
/// Answers of an origin that are none, or are two.
mod origin_answers;
/// Several peers of an origin: the choice among them, their health, requests that are sent again.
mod origin_peers;
/// The page cache: who gets a kept page, how long, and what is forgotten.
mod page_cache;
/// Pages that cache plugins have written.
mod plugin_pages;
/// Files in content codings beside their originals.
mod precompressed;
/// Conditional requests (RFC 9110 §13).
mod preconditions;
/// Listeners that speak the PROXY protocol.
mod proxy_protocol;
/// Range requests (RFC 9110 §14).
mod ranges;
/// The next request sees what PHP has written before it answered.
mod read_your_writes;
/// Faults once met, here or in other servers, each named by where it was reported.
mod regressions;
/// Roots that are links and are swapped to the next release.
mod releases;
/// Which paths are files, which are PHP, which are nobody's.
mod routing;
/// Scans for many paths do not displace what is in use.
mod scans;
/// What the WordPress preset never sends and never runs.
mod secrets;
/// However an answer leaves, its bytes are the same.
mod sending;
/// Configuration files: what is refused and how it is said.
mod settings;
/// Hosts and paths that have moved, passwords, health.
mod site_rules;
/// A file system that hangs holds up nobody else.
mod slow_disks;
/// Thousands of ways to spell what is never sent.
mod spellings;
/// Names in the request target: escapes, dots, slashes, bytes.
mod targets;
/// TLS that ends here.
mod tls;
/// Files that change while they are being sent.
mod transfers;
/// Another binary takes over; sockets that somebody else has opened; what systemd is told; a settings file that changes.
mod upgrade;
/// WebSockets to an origin.
mod web_sockets;
