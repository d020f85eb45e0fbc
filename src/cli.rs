//! The command line: words in, a [`Command`] out. What the command does is for `main` to say.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::fastcgi::Address;
use crate::logging;
use crate::settings::listen;

/// What the user wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run, with a log of this format.
    Serve(Source, logging::Format),
    /// Validate this settings file and say every mistake.
    Check(PathBuf),
    /// Say what will limit a settings file on this machine.
    Doctor(Examination),
    /// Ask a running server.
    Ask(Asking),
    /// Make a settings file of an nginx configuration.
    Import {
        /// The configuration.
        file: PathBuf,
        /// The host or root of the only site wanted; none: all.
        site: Option<String>,
    },
}

/// What is to be looked at, and how it is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The settings file.
    pub config: PathBuf,
    /// Whether the findings are wanted as JSON.
    pub json: bool,
    /// The address of the server in use now, to compare with.
    pub compare: Option<String>,
}

/// What a running server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it is ready, and what it has counted.
    Status,
    /// To read its settings again.
    Reload,
    /// To have the binary that is at its place now take over.
    Upgrade,
    /// What its caches hold below this prefix, at most so many of each.
    List(String, usize),
    /// Why it answers this path as it does.
    Show(String),
    /// To forget files and pages.
    Purge(Forget),
    /// To take files into its cache, by a pattern.
    Warm(String),
}

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forget {
    /// All.
    All,
    /// A path.
    Path(String),
    /// All paths that begin so.
    Prefix(String),
    /// Pages with this word.
    Tag(String),
}

/// A question, and whom it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// What is asked.
    pub question: Question,
    /// The admin socket.
    pub socket: PathBuf,
    /// The site meant; none: all.
    pub site: Option<String>,
    /// Whether the answer is wanted as it comes.
    pub json: bool,
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
            (Some(Verb::Serve(serve)), None) => {
                let format = serve.log_format;
                serve.source().map(|source| Self::Serve(source, format))
            }
            (Some(Verb::Check { config }), None) => Ok(Self::Check(config)),
            (Some(Verb::Doctor(doctor)), None) => Ok(Self::Doctor(doctor.examination())),
            (Some(Verb::Status { socket }), None) => Ok(ask(Question::Status, socket)),
            (Some(Verb::Reload { socket }), None) => Ok(ask(Question::Reload, socket)),
            (Some(Verb::Upgrade { socket }), None) => Ok(ask(Question::Upgrade, socket)),
            (Some(Verb::Cache(cache)), None) => Ok(Self::Ask(cache.asking())),
            (Some(Verb::Import { file, site }), None) => Ok(Self::Import { file, site }),
            (None, Some(config)) => Ok(Self::Serve(Source::Config(config), words.log_format)),
            (Some(_), Some(_)) | (None, None) => Err(Words::command().error(
                clap::error::ErrorKind::MissingRequiredArgument,
                "expected one of: nostat serve, nostat check, nostat doctor, nostat status, nostat reload, nostat upgrade, nostat cache, nostat import, nostat --config FILE",
            )),
        }
    }
}

fn ask(question: Question, socket: PathBuf) -> Command {
    Command::Ask(Asking {
        question,
        socket,
        site: None,
        json: false,
    })
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
    /// How the program's own log looks
    #[arg(
        long,
        value_name = "text|json",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    log_format: logging::Format,
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
    /// Say what will limit a settings file on this machine, and what to do; exit status 0 or 1
    Doctor(Doctor),
    /// Show what a running server has counted
    Status {
        /// Its admin socket
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
        socket: PathBuf,
    },
    /// Have a newly installed binary take over from a running server, without a failed request
    Upgrade {
        /// Its admin socket
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
        socket: PathBuf,
    },
    /// List, explain, forget and take in files and pages of a running server
    Cache(Cache),
    /// Print the settings that an nginx configuration amounts to; exit status 2 when not all
    Import {
        /// The host or root of the only site wanted. Default: all
        #[arg(long, value_name = "NAME")]
        site: Option<String>,
        /// The configuration: nginx.conf, or a site's own file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Have a running server read its settings again; exit status 1 when it refuses them
    Reload {
        /// Its admin socket
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
        socket: PathBuf,
    },
}

/// Say what will limit a settings file on this machine, and what to do
///
/// No server need run, and nothing is changed. Exit status 0: nothing will hurt; 1: something will.
#[derive(Args)]
struct Doctor {
    /// The settings file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// The address of the server in use now, http only: what its front page names is fetched from both
    #[arg(long, value_name = "URL")]
    compare: Option<String>,
}

impl Doctor {
    fn examination(self) -> Examination {
        Examination {
            config: self.config,
            json: self.json,
            compare: self.compare,
        }
    }
}

/// Look into the caches of a running server, and change them
#[derive(Args)]
struct Cache {
    #[command(subcommand)]
    what: CacheVerb,
    /// Its admin socket
    #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET, global = true)]
    socket: PathBuf,
    /// The site meant, by its first host or its root. Default: all
    #[arg(long, value_name = "NAME", global = true)]
    site: Option<String>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum CacheVerb {
    /// List files and pages below a prefix: what is held, who vouches for it, how old it is
    Ls {
        /// The beginning of paths
        #[arg(value_name = "PREFIX", default_value = "/")]
        prefix: String,
        /// Files, and pages, to list at most
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
    },
    /// Explain what a path gets: which rule, which file, what is held
    Show {
        /// The path, as in a URL
        #[arg(value_name = "PATH")]
        path: String,
    },
    /// Forget files and pages, so that they are looked at, or made, anew
    Purge(PurgeWhat),
    /// Take files into the cache before anybody asks
    Warm {
        /// A pattern of paths, e.g. /wp-includes/js/ or *.css
        #[arg(value_name = "PATTERN")]
        pattern: String,
    },
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("forgotten").required(true)))]
struct PurgeWhat {
    /// This path
    #[arg(value_name = "PATH", group = "forgotten")]
    path: Option<String>,
    /// All paths that begin so
    #[arg(long, value_name = "PREFIX", group = "forgotten")]
    prefix: Option<String>,
    /// Pages with this word in Cache-Tag, Surrogate-Key or xkey
    #[arg(long, value_name = "WORD", group = "forgotten")]
    tag: Option<String>,
    /// All
    #[arg(long, group = "forgotten")]
    all: bool,
}

impl Cache {
    fn asking(self) -> Asking {
        Asking {
            question: match self.what {
                CacheVerb::Ls { prefix, limit } => Question::List(prefix, limit),
                CacheVerb::Show { path } => Question::Show(path),
                CacheVerb::Purge(what) => Question::Purge(what.forget()),
                CacheVerb::Warm { pattern } => Question::Warm(pattern),
            },
            socket: self.socket,
            site: self.site,
            json: self.json,
        }
    }
}

impl PurgeWhat {
    fn forget(self) -> Forget {
        match (self.path, self.prefix, self.tag) {
            (Some(path), ..) => Forget::Path(path),
            (None, Some(prefix), _) => Forget::Prefix(prefix),
            (None, None, Some(tag)) => Forget::Tag(tag),
            (None, None, None) => Forget::All,
        }
    }
}

const ADMIN_SOCKET: &str = crate::admin::settings::DEFAULT_SOCKET;

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
    /// How the program's own log looks
    #[arg(
        long,
        value_name = "text|json",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    log_format: logging::Format,
}

impl Serve {
    fn source(self) -> Result<Source, clap::Error> {
        let Self {
            config,
            root,
            php,
            listen,
            log_format: _,
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
  nostat doctor --config FILE [--json] [--compare URL]
  nostat status | reload | upgrade [--socket PATH]
  nostat cache ls [PREFIX] | show PATH | purge PATH | warm PATTERN [--socket PATH]
  nostat import [--site NAME] NGINX_CONF
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
