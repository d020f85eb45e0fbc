//! What the page cache is told: rules by site, and bounds of the one store.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

/// A site's page cache. The field's comment is its documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Where pages are kept.
    pub store: Store,
    /// How long a page is fresh when the application does not say. Default: 60 s.
    pub valid: Duration,
    /// How long "not found" (404, 410) is kept. Default: not at all.
    pub not_found: Option<Duration>,
    /// How long after that a page is still sent while a new one is fetched aside. Default: 60 s.
    pub stale_while_revalidate: Duration,
    /// How long after that a page is sent when the application fails. Default: 1 h.
    pub stale_if_error: Duration,
    /// Bytes of the largest page kept. Default: 2 MiB.
    pub max_page: u64,
    /// Request fields that pages depend on, in lower case; the application sees them. Default: none.
    pub vary: Vec<String>,
    /// Names of query arguments that pages depend on. A request with others passes by. Default: none.
    pub query: Vec<NamePattern>,
    /// Names of query arguments that pages do not depend on; the application does not see them. Beside the known ones
    /// of advertisement and statistics.
    pub ignore_query: Vec<NamePattern>,
    /// Cookies whose bearers pass by, beside the known personal ones and any that is not known.
    pub bypass_cookies: Vec<NamePattern>,
    /// Cookies that the application does not read, beside the known ones; it does not see them.
    pub ignore_cookies: Vec<NamePattern>,
    /// Patterns of paths that pass by.
    pub bypass: Vec<String>,
    /// Who may purge by address. None: this machine.
    pub purge_from: Option<Vec<IpNet>>,
    /// A file whose first line is a word that lets anybody purge who says it.
    pub purge_token: Option<PathBuf>,
}

impl Rules {
    /// The defaults.
    #[must_use]
    pub fn new(store: Store) -> Rules {
        Rules {
            store,
            valid: Duration::from_secs(60),
            not_found: None,
            stale_while_revalidate: Duration::from_secs(60),
            stale_if_error: Duration::from_secs(3600),
            max_page: 2 << 20,
            vary: Vec::new(),
            query: Vec::new(),
            ignore_query: Vec::new(),
            bypass_cookies: Vec::new(),
            ignore_cookies: Vec::new(),
            bypass: Vec::new(),
            purge_from: None,
            purge_token: None,
        }
    }
}

/// Where pages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// In memory.
    Memory,
    /// In memory, and on disk for the next start.
    Disk,
}

/// The bounds of the store that all sites share.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreSettings {
    /// Bytes of pages in memory. Default: 128 MiB.
    pub memory: u64,
    /// Bytes of pages on disk. Default: 1 GiB.
    pub disk: u64,
    /// The folder of the file that they are in.
    pub dir: PathBuf,
}

/// A name, or the beginning of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    start: String,
    is_whole: bool,
}

impl NamePattern {
    /// Reads `name` or `start*`. None: no such text.
    #[must_use]
    pub fn parse(text: &str) -> Option<NamePattern> {
        let (start, is_whole) = match text.strip_suffix('*') {
            Some(start) => (start, false),
            None => (text, true),
        };
        let usable = |byte: u8| byte.is_ascii_graphic() && !b"*;=,&".contains(&byte);
        (start.bytes().all(usable) && !(is_whole && start.is_empty())).then(|| NamePattern {
            start: start.to_owned(),
            is_whole,
        })
    }

    /// Whether `name` is meant. Case counts.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        match self.is_whole {
            true => name == self.start.as_bytes(),
            false => name.starts_with(self.start.as_bytes()),
        }
    }
}
