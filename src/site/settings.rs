//! What one site is told: its hosts, its root, its preset and the rules of the preset.
//!
//! DESIGN section 2 is the contract for the names and defaults; the settings room fills these in.

use std::path::PathBuf;

use crate::descriptor_cache::{LinkPolicy, LinkTargets, RootError, Symlinks};
use crate::request::pattern::PatternError;
use crate::site::media_type::is_compressible;

/// Everything one site is told. The field's comment is its documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteSettings {
    /// Names this site answers to: exact, or `*.example.com`. Empty: any host no other site has.
    pub hosts: Vec<String>,
    /// Further names, matched as `hosts` are.
    pub aliases: Vec<String>,
    /// Names whose requests are sent to the first of `hosts`. Default: none.
    pub redirect_hosts: Vec<String>,
    /// Paths that have moved, in order. Default: none.
    pub redirects: Vec<RedirectRule>,
    /// Paths that ask for a user and a password, in order. Default: none.
    pub auth: Vec<AuthRule>,
    /// The path at which the site says that it is served. Default: none.
    pub health: Option<String>,
    /// The document root, as configured; may be a symbolic link to a release.
    pub root: PathBuf,
    /// Which kind of site it is.
    pub preset: Preset,
    /// Who answers what is no static file.
    pub backend: Backend,
    /// How entity-tags are made. Default: `mtime`.
    pub etag: EtagMode,
    /// Which symbolic links are followed.
    pub links: LinkPolicy,
    /// Names of WordPress' content folder. Default: `wp-content`, `app`.
    pub content_dir: Vec<String>,
    /// Whether the access rules of `.htaccess` files count. Default: `deny` (they do).
    pub htaccess: Htaccess,
    /// Patterns of paths that are refused with 403.
    pub deny: Vec<String>,
    /// Patterns of paths below which PHP never runs, beside the preset's own.
    pub no_php: Vec<String>,
    /// What a path with the suffix `.php` gets that is no file. Default: 404.
    pub missing_php: MissingPhp,
    /// What a missing asset below the content folder gets. Default: 404.
    pub missing_assets: MissingAssets,
    /// Patterns of missing assets that go to WordPress nevertheless.
    pub missing_assets_php: Vec<String>,
    /// Patterns of files to take into the cache before anybody asks. Default: none.
    pub warm: Vec<String>,
    /// The kind of WordPress network, if any. Default: off.
    pub multisite: Multisite,
    /// Cache-Control by pattern; the first match wins over the preset's table.
    pub cache_control: Vec<CacheControlRule>,
    /// Further fields by pattern; every match counts.
    pub headers: Vec<HeaderRule>,
    /// Where pages come from that are not made for one visitor alone. Default: off.
    pub page_cache: PageCache,
    /// Whether `.br`, `.zst` and `.gz` files are sent in place of those beside which they stand. Default: yes.
    pub precompressed: bool,
    /// What is compressed here.
    pub compression: CompressionSettings,
    /// Which files leave by sendfile. Default: `auto`.
    pub sendfile: Sendfile,
    /// Bound on a request body in bytes, where it differs from the process' own.
    pub max_body: Option<u64>,
    /// The field in which a trusted proxy names the client.
    pub client_ip_header: Option<String>,
}

impl SiteSettings {
    /// What the site is called in metrics: its first host, else its root.
    #[must_use]
    pub fn name(&self) -> String {
        let host = self.hosts.first().cloned();
        host.unwrap_or_else(|| self.root.display().to_string())
    }

    /// All names that are answered, those that are sent on included.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let own = self.hosts.iter().chain(&self.aliases);
        own.chain(&self.redirect_hosts)
    }

    /// The defaults of a site without hosts and without PHP.
    #[must_use]
    pub fn new(root: PathBuf, preset: Preset) -> SiteSettings {
        let content_dir = DEFAULT_CONTENT_DIRS.map(String::from).to_vec();
        SiteSettings {
            hosts: Vec::new(),
            aliases: Vec::new(),
            redirect_hosts: Vec::new(),
            redirects: Vec::new(),
            auth: Vec::new(),
            health: None,
            root,
            preset,
            backend: Backend::None,
            etag: EtagMode::Mtime,
            links: LinkPolicy {
                symlinks: Symlinks::Beneath,
                targets: LinkTargets::Auto {
                    content_dirs: content_dir.clone(),
                },
            },
            content_dir,
            htaccess: Htaccess::Deny,
            deny: Vec::new(),
            no_php: Vec::new(),
            missing_php: MissingPhp::NotFound,
            missing_assets: MissingAssets::NotFound,
            missing_assets_php: Vec::new(),
            warm: Vec::new(),
            multisite: Multisite::Off,
            cache_control: Vec::new(),
            headers: Vec::new(),
            page_cache: PageCache::Off,
            precompressed: true,
            compression: CompressionSettings::default(),
            sendfile: Sendfile::Auto,
            max_body: None,
            client_ip_header: None,
        }
    }
}

/// What is compressed here, beside the pages of the page cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Whether text files are, aside. Default: yes.
    pub files: bool,
    /// Whether answers of PHP and of origins are, as they pass. Default: yes.
    pub dynamic: bool,
    /// Bytes below which nothing is. Default: 1 KiB.
    pub min_size: u64,
    /// Media types of answers that are: `text/html`, or `text/*` for all of a kind. Default: the usual ones.
    pub types: Option<Vec<String>>,
}

impl Default for CompressionSettings {
    fn default() -> CompressionSettings {
        CompressionSettings {
            files: true,
            dynamic: true,
            min_size: 1024,
            types: None,
        }
    }
}

impl CompressionSettings {
    /// Whether answers with this Content-Type are meant. Events never are: each is to be seen as it comes.
    #[must_use]
    pub fn means(&self, content_type: &[u8]) -> bool {
        let Ok(text) = str::from_utf8(content_type) else {
            return false;
        };
        let essence = text.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        if essence == "text/event-stream" {
            return false;
        }
        match &self.types {
            None => is_compressible(&essence),
            Some(types) => types.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(kind) => essence.starts_with(kind),
                None => *pattern == essence,
            }),
        }
    }
}

/// The kind of site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// WordPress: DESIGN section 7.
    Wordpress,
    /// A PHP application: files, scripts, `/index.php` for the rest.
    Php,
    /// Files only; PHP sources are refused.
    Static,
}

/// Who answers what is no static file.
#[derive(Debug, Clone, PartialEq)]
pub enum Backend {
    /// Nobody: pages are 404, scripts 403.
    None,
    /// PHP-FPM over FastCGI.
    Php(crate::fastcgi::Settings),
    /// An HTTP origin.
    Origin(crate::origin::Settings),
}

/// How entity-tags are made (DESIGN section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EtagMode {
    /// `"<mtime in ns>-<size>"`, hexadecimal.
    Mtime,
    /// A hash of the content, equal on every node.
    Content,
    /// nginx's own form, `"<mtime in s>-<size>"`, hexadecimal.
    Nginx,
}

/// Whether `.htaccess` files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Htaccess {
    /// Their access rules do.
    Deny,
    /// They are not looked at.
    Ignore,
}

/// What a path with the suffix `.php` gets that is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingPhp {
    /// 404 here.
    NotFound,
    /// WordPress' own page.
    Wordpress,
}

/// What a missing asset below the content folder gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingAssets {
    /// 404 here, without a start of WordPress.
    NotFound,
    /// WordPress' own page.
    Php,
}

/// The kind of WordPress network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multisite {
    /// One site.
    Off,
    /// Sites told apart by the first segment of the path.
    Subdirectory,
    /// Sites told apart by host.
    Subdomain,
}

/// Where pages come from that are not made for one visitor alone.
#[derive(Debug, Clone, PartialEq)]
pub enum PageCache {
    /// The application makes each of them.
    Off,
    /// A cache plugin's file, where there is one.
    Auto,
    /// The page cache.
    Own(Box<crate::page_cache::Rules>),
}

/// Which files the kernel sends by itself, over connections that nothing encrypts; bytes held in memory never are files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sendfile {
    /// Large ones.
    Auto,
    /// All.
    On,
    /// None: they are read, then written.
    Off,
}

/// One line of `cache_control`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheControlRule {
    /// Which paths; see [`Pattern`](crate::request::pattern::Pattern).
    pub pattern: String,
    /// The field value; empty: no Cache-Control.
    pub value: String,
}

/// One line of `headers`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderRule {
    /// Which paths; see [`Pattern`](crate::request::pattern::Pattern).
    pub pattern: String,
    /// Names and values; a field of the same name made here is replaced.
    pub set: Vec<(String, String)>,
}

/// One line of `redirects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRule {
    /// Which paths; see [`Pattern`](crate::request::pattern::Pattern).
    pub from: String,
    /// Where to.
    pub to: Moved,
}

/// What has become of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// It is elsewhere.
    To {
        /// An absolute path, or an http or https URL. Where both it and `from` end with a slash, what follows is carried over.
        to: String,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// It is gone (410).
    Gone,
}

/// One line of `auth`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRule {
    /// Which paths; see [`Pattern`](crate::request::pattern::Pattern).
    pub patterns: Vec<String>,
    /// The file of users. None: nobody is asked for these paths.
    pub users_file: Option<PathBuf>,
    /// What the browser shows.
    pub realm: String,
}

/// Why a site cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The document root cannot be used.
    #[error(transparent)]
    Root(#[from] RootError),
    /// A pattern cannot be used.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Users cannot be asked for.
    #[error(transparent)]
    Auth(#[from] crate::site::auth::AuthError),
    /// A field of `headers` or `cache_control` cannot be sent.
    #[error("the field `{name}` {reason}")]
    Field {
        /// The field's name as written.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// WordPress' own content folder, and Bedrock's.
pub const DEFAULT_CONTENT_DIRS: [&str; 2] = ["wp-content", "app"];
