//! The command line: words in, a [`Command`] out. What the command does is for `main` to say.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::fastcgi::Address;
use crate::settings::listen;

/// What the user wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run.
    Serve(Source),
    /// Validate this settings file and say every mistake.
    Check(PathBuf),
    /// Ask the running server behind this admin socket.
    Ask(Question, PathBuf),
}

/// What a running server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it is ready, and what it has counted.
    Status,
    /// To read its settings again.
    Reload,
}

/// Where the settings of a run come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A settings file.
    Config(PathBuf),
    /// The WordPress preset on one document root, without a file.
    Root {
        /// The document root.
        root: PathBuf,
        /// PHP-FPM; nothing: to be searched for on this machine.
        php: Option<Address>,
        /// The address to listen on; nothing: the default of
        /// [`Settings::for_root`](crate::settings::Settings::for_root).
        listen: Option<SocketAddr>,
    },
}

impl Command {
    /// The command of this process. Prints help, version or what is wrong, and exits, where there
    /// is none.
    pub fn from_process() -> Self {
        Self::from_words(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// The command that these words are, the program's name first.
    ///
    /// # Errors
    /// Help, version, or what is wrong with the words, as clap prints them.
    pub fn from_words<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let matches = Words::command().try_get_matches_from(words)?;
        let words = Words::from_arg_matches(&matches)?;
        match (words.verb, words.config) {
            (Some(Verb::Serve(serve)), None) => serve.source().map(Self::Serve),
            (Some(Verb::Check { config }), None) => Ok(Self::Check(config)),
            (Some(Verb::Status { socket }), None) => Ok(Self::Ask(Question::Status, socket)),
            (Some(Verb::Reload { socket }), None) => Ok(Self::Ask(Question::Reload, socket)),
            (None, Some(config)) => Ok(Self::Serve(Source::Config(config))),
            (Some(_), Some(_)) | (None, None) => Err(Words::command().error(
                clap::error::ErrorKind::MissingRequiredArgument,
                "expected one of: nostat serve, nostat check, nostat status, nostat reload, nostat --config FILE",
            )),
        }
    }
}

#[derive(Parser)]
#[command(
    name = "nostat",
    version,
    about = "A reverse-proxy sidecar for WordPress",
    long_about = None,
    help_template = HELP_TEMPLATE,
    override_usage = USAGE,
    after_help = AFTER_HELP,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true
)]
struct Words {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Run with this settings file, as serve --config does
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Verb {
    /// Run in the foreground, with a settings file or on one document root
    Serve(Serve),
    /// Validate a settings file: every mistake with its line and column; exit status 0 or 1
    Check {
        /// The settings file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show what a running server has counted
    Status {
        /// Its admin socket
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
        socket: PathBuf,
    },
    /// Have a running server read its settings again; exit status 1 when it refuses them
    Reload {
        /// Its admin socket
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
        socket: PathBuf,
    },
}

/// Where `admin: {socket: …}` puts it in the examples.
const ADMIN_SOCKET: &str = "/run/nostat/admin.sock";

#[derive(Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["config", "root"])))]
struct Serve {
    /// The settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve the WordPress in this directory, without a settings file
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// PHP-FPM, unix:PATH or IP:PORT. Default: the highest version under /run/php
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    php: Option<Address>,
    /// The address to listen on. Default: 127.0.0.1:8080
    #[arg(long, value_name = "ADDR", conflicts_with = "config", value_parser = listen_address)]
    listen: Option<SocketAddr>,
}

impl Serve {
    fn source(self) -> Result<Source, clap::Error> {
        let Self {
            config,
            root,
            php,
            listen,
        } = self;
        match (config, root) {
            (Some(config), None) => Ok(Source::Config(config)),
            (None, Some(root)) => Ok(Source::Root { root, php, listen }),
            // The group lets neither of these pass.
            (Some(_), Some(_)) | (None, None) => {
                Err(clap::Error::new(clap::error::ErrorKind::ArgumentConflict))
            }
        }
    }
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    listen::address(text).map_err(|wrong| format!("{}; {}", wrong.message, wrong.expected))
}

const HELP_TEMPLATE: &str = "\
{name} {version} - {about}

Nostat answers the static tree of a WordPress (themes, scripts, uploads, fonts) from open files and
prepared answers that it keeps in memory, and gives everything else to PHP-FPM or an HTTP origin.

Usage:{usage}

Commands:
{subcommands}

Options:
{options}{after-help}
";

const USAGE: &str = "
  nostat serve --config FILE
  nostat serve --root DIR [--php ADDR] [--listen ADDR]
  nostat check --config FILE
  nostat status | reload [--socket PATH]
  nostat --config FILE";

const AFTER_HELP: &str = concat!(
    "Example of a settings file:\n",
    include_str!("../conf/wordpress.yaml"),
    "
Signals:
  SIGHUP           read the settings file again; one with a mistake is refused, the old one stays
  SIGUSR1          open the access log again
  SIGTERM, SIGINT  stop: running requests end first; a second one stops at once

Files:
  conf/nostat.yaml        every key, its default and what it means
  conf/wordpress.yaml     what most sites need: the example above
  /run/php                where serve --root looks for PHP-FPM
  /var/lib/nostat/spool   request bodies until they are whole; the system's directory for temporary
                          files where it does not exist"
);

#[cfg(test)]
mod tests;
