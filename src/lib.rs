//! Nostat: a reverse-proxy sidecar for WordPress that answers the static tree from a descriptor cache.
//!
//! # The life of a request
//! A connection is accepted by Pingora and handed to the [`edge::lane`], which reads a head ([`request`]) and asks the
//! [`site`] it is for. The site looks paths up in the [`descriptor_cache`] and decides: an answer, which the lane writes
//! at once, or a script. A script's request is lent to Pingora's HTTP proxy as a stream that holds this one request
//! ([`edge::handed_stream`]); [`edge::proxy`] takes its body in whole and [`fastcgi`] carries it to PHP-FPM and back. Then
//! the connection comes home to the lane, which reads the next head.
//!
//! # The rooms
//! - [`followed_file`] small files beside the settings that are read again when they change;
//! - [`clock`] time, injected; [`per_thread`] what each thread counts by itself;
//! - [`request`] the protocol's text: bytes in, value out;
//! - [`descriptor_cache`] the only room that opens or looks at files of the tree;
//! - [`fastcgi`] and [`origin`] who answers behind us;
//! - [`rate_limits`] how many requests one client may make;
//! - [`page_cache`] pages that are kept, on Pingora's cache;
//! - [`site`] what a path means, and the answers made here;
//! - [`metrics`] what is counted of requests, [`limited`] of limits; [`hot_paths`] which paths are asked for most, and which are slow;
//! - [`access_log`] a line for each request;
//! - [`snapshot`] all that a request needs of the settings, swapped as one on reload;
//! - [`edge`] the doors;
//! - [`settings`] YAML to each room's own settings;
//! - [`tls`] the certificates that clients are shown; [`acme`] those that are ordered and renewed;
//! - [`binding`], [`inherited`], [`server`], [`signals`], [`orders`], [`timer`], [`config_watch`], [`lifecycle`], [`upgrade`] and
//!   [`service_manager`] start, reload, drain, another binary in this one's place;
//! - [`admin`] what an administrator asks a running server; [`token`] a word that lets him;
//! - [`import`] settings from an nginx configuration; [`doctor`] what will limit a settings file on this machine;
//! - [`cli`], [`php_socket`], [`logging`] the command.
//!
//! # Threat model
//! Four parties, each trusted less than the one before:
//! - **the administrator** writes the settings and starts the process: trusted, but mistakes are refused with their place;
//! - **the document root** is written by WordPress, its plugins and who may upload: its contents are data. Links, special
//!   files, `.htaccess` files and names may be made to harm, and may change at any moment, within a request as well;
//! - **the responder** (PHP-FPM, an origin) runs other people's code: its answers may be broken, endless or late, and may not
//!   reach a client as anything but themselves;
//! - **clients** send any bytes at any pace, from many addresses.
//!
//! | what a client or a file may try | what holds it | tests |
//! |---|---|---|
//! | two readers see different requests | [`request::head`] is strict; [`edge::handed_stream`] gives out one request and not a byte more; [`edge::tunnel`] waits for 101 | `hostile_requests`, `any_bytes`, `web_sockets` |
//! | a path that leaves the root, or two spellings of one | [`request::target`] decodes once; [`descriptor_cache::open`] opens beneath an open root | `targets`, `links` |
//! | source, secrets and private folders | [`site::access`], [`site::htaccess`], and the type a file would be sent as | `routing`, `secrets`, `htaccess`, `accel` |
//! | code in an upload | [`site::wordpress`]: where PHP never runs, and only scripts that are there | `routing`, `fastcgi` |
//! | a head, body or reader that drips | one deadline for a head, [`edge::pace`] for bodies and answers | `hostile_requests`, `limits`, `http2_limits` |
//! | very many connections or requests | [`lifecycle`], [`edge::per_address`], [`rate_limits`], and PHP's own queue, [`fastcgi::limiter`] | `limits`, `exhaustion` |
//! | another client's name | [`request::client`], [`edge::introduction`]: from trusted proxies only | `fastcgi`, `proxy_protocol` |
//! | another visitor's page | [`page_cache::key`]: PHP sees of a visitor what is in the key | `page_cache` |
//! | an answer cut, mixed or padded | [`descriptor_cache::file`]: one look at one descriptor; [`edge::failure`] cuts the connection | `file_changes`, `transfers`, `fastcgi_answers` |
//! | fields that PHP takes for its own (httpoxy) | [`fastcgi::params`] | `fastcgi` |
//! | an authority of certificates that is slow, lies or is not there | [`acme`]: all of it aside, bounded, and looked at before it is used | `acme`, `tests/nightly/acme` |
//! | the admin endpoints by way of PHP | [`admin::access`]: a socket's mode, a token, the `Host` of a request | `admin` |
//!
//! What is promised of this, and what is not, is in `.github/SECURITY.md`.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make the files they look at, and have deadlines of their own"
    )
)]

pub mod access_log;
pub mod acme;
pub mod admin;
pub mod binding;
pub mod cli;
pub mod clock;
pub mod config_watch;
pub mod descriptor_cache;
pub mod doctor;
pub mod edge;
pub mod fastcgi;
pub mod followed_file;
pub mod hot_paths;
pub mod import;
pub mod inherited;
pub mod lifecycle;
pub mod limited;
pub mod logging;
pub mod metrics;
pub mod orders;
pub mod origin;
pub mod page_cache;
pub mod per_thread;
pub mod php_socket;
pub mod rate_limits;
pub mod request;
pub mod server;
pub mod service_manager;
pub mod settings;
pub mod signals;
pub mod site;
pub mod snapshot;
pub mod timer;
pub mod tls;
pub mod token;
pub mod upgrade;
