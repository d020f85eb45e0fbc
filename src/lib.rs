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
//! - [`page_cache`] pages that are kept, on Pingora's cache;
//! - [`site`] what a path means, and the answers made here;
//! - [`metrics`] what is counted of requests; [`hot_paths`] which paths are asked for most, and which are slow;
//! - [`access_log`] a line for each request;
//! - [`snapshot`] all that a request needs of the settings, swapped as one on reload;
//! - [`edge`] the doors;
//! - [`settings`] YAML to each room's own settings;
//! - [`binding`], [`inherited`], [`server`], [`signals`], [`orders`], [`timer`], [`config_watch`], [`lifecycle`], [`upgrade`] and
//!   [`service_manager`] start, reload, drain, another binary in this one's place;
//! - [`admin`] what an administrator asks a running server; [`token`] a word that lets him;
//! - [`import`] settings from an nginx configuration; [`doctor`] what will limit a settings file on this machine;
//! - [`cli`], [`php_socket`], [`logging`] the command.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make the files they look at, and have deadlines of their own"
    )
)]

pub mod access_log;
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
pub mod logging;
pub mod metrics;
pub mod orders;
pub mod origin;
pub mod page_cache;
pub mod per_thread;
pub mod php_socket;
pub mod request;
pub mod server;
pub mod service_manager;
pub mod settings;
pub mod signals;
pub mod site;
pub mod snapshot;
pub mod timer;
pub mod token;
pub mod upgrade;
