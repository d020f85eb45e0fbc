//! The static site: a request head in, a decision out. It knows nothing of sockets.
//!
//! The files in the order in which a request meets them:
//!
//! | file | what it answers |
//! |---|---|
//! | [`settings`] | what is one site told? |
//! | [`hosts`], [`host_names`] | which site is meant? |
//! | [`redirect_hosts`], [`redirects`] | is it elsewhere? |
//! | [`auth`] | who may have it? |
//! | [`static_site`] | the whole decision, top to bottom |
//! | [`decision`] | what goes in and what comes out |
//! | [`access`] | is the path refused to everybody, may PHP run there? |
//! | [`php_source`] | is a name PHP source? |
//! | [`wordpress`] | what is known of every WordPress tree? |
//! | [`route`] | what is the path: file, script, folder, page, nothing? |
//! | [`missing`] | what does a path get that is nothing in the tree? |
//! | [`htaccess`], [`directory_rules`] | do the folders' own rules deny it? |
//! | [`media_type`], [`validator`], [`cache_control`] | what goes into a file's head? |
//! | [`representation`] | the prepared heads of a file |
//! | [`coded_files`] | is there one in a coding that the client takes? |
//! | [`compression`] | has one been made here? |
//! | [`conditional`], [`partial`] | whole, 304, 412, 206 or 416? |
//! | [`response`] | the answer itself, and those without a file |
//! | [`plugin_pages`] | has a cache plugin written the page? |
//! | [`explain`] | why is a path answered as it is? |
//! | [`warm`] | what is taken into the cache before anybody asks? |
//! | [`accel`] | a file named by PHP (X-Accel-Redirect, X-Sendfile) |

pub mod accel;
pub mod access;
pub mod auth;
pub mod cache_control;
pub mod coded_files;
pub mod compression;
pub mod conditional;
pub mod decision;
pub mod directory_rules;
pub mod explain;
pub mod host_names;
pub mod hosts;
pub mod htaccess;
pub mod media_type;
pub mod missing;
pub mod partial;
pub mod php_source;
pub mod plugin_pages;
pub mod redirect_hosts;
pub mod redirects;
pub mod representation;
pub mod response;
pub mod route;
pub mod settings;
pub mod static_site;
pub mod validator;
pub mod warm;
pub mod wordpress;

#[cfg(test)]
mod fixture;

pub use accel::AccelTarget;
pub use decision::{Decision, Request, Script};
pub use hosts::Sites;
pub use response::{Answer, Body, Cached, FileSpan, Part, local_answer, too_many_requests};
pub use settings::{Backend, Preset, Sendfile, SiteError, SiteSettings};
pub use static_site::StaticSite;
