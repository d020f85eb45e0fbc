//! Where the access log goes, and in which form.

use std::path::PathBuf;

/// What the access log is told to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where the lines go. Default: standard output.
    pub path: LogPath,
    /// How a line looks. Default: combined.
    pub format: Format,
}

/// Where access log lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogPath {
    /// Standard output, written `-`.
    #[default]
    Stdout,
    /// This file, appended to; opened again on SIGUSR1.
    File(PathBuf),
}

/// The form of an access log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The combined log format of Apache httpd and nginx, followed by what the cache did.
    #[default]
    Combined,
    /// One JSON object in a line.
    Json,
    /// No line at all, at no cost.
    Off,
}
