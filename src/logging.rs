//! The program's own log: `tracing` to standard error, with Pingora's `log` records in it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for log collectors.
    Json,
}

/// Starts the log. `RUST_LOG` overrides what is written; Pingora's own remarks on every connection, and on peers that are
/// told of by ourselves, are left out by default, and so are those of TLS on what strangers send.
pub fn start(format: Format) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let log = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false);
    // An error means that a log was started before, by a test: that one stays.
    let _ = match format {
        Format::Text => log.try_init(),
        Format::Json => log.json().flatten_event(true).try_init(),
    };
}

const DEFAULT: &str = "info,pingora=warn,pingora_core=warn,pingora_proxy=warn,pingora_pool=warn,pingora_load_balancing=error,pingora_cache::meta=error,rustls=error";
