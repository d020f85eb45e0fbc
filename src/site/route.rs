//! What a path is: a file, a script, a folder, the application's page, or nothing.
//!
//! One path, decoded once, decides everything. The order is that of DESIGN section 7: refused paths, PHP by its exact
//! suffix (with PATH_INFO only behind a script that exists), files, folders and their index, and what is left.

use std::borrow::Cow;
use std::sync::Arc;

use crate::descriptor_cache::{
    DescriptorCache, FileFound, Found, LookupError, Outcome, RootGeneration, Want,
};
use crate::request::head::Method;
use crate::request::pattern::PatternError;
use crate::request::target::Target;
use crate::request::tree_path::TreePath;
use crate::site::access::Access;
use crate::site::missing::{Instead, MissingRules};
use crate::site::settings::{Backend, Multisite, Preset, SiteSettings};
use crate::site::{php_source, wordpress};

/// What a path is.
#[derive(Debug)]
pub enum Resource<'t> {
    /// A static file, at this path below the root.
    File {
        /// The path; borrowed unless it is a folder's index.
        path: Cow<'t, [u8]>,
        /// The file.
        found: FileFound,
        /// What the cache had to do.
        outcome: Outcome,
    },
    /// A script.
    Script(ScriptPath),
    /// A page of the application, made by `/index.php`.
    FrontController,
    /// A folder named without its slash.
    Folder,
    /// Nothing.
    Missing(Option<Outcome>),
    /// Nobody may have it, whether or not it exists.
    Refused,
}

/// A script and what it is called with.
#[derive(Debug)]
pub struct ScriptPath {
    /// Its path below the root, without a leading slash.
    pub path: Vec<u8>,
    /// What follows it in the request's path; empty: nothing.
    pub path_info: Vec<u8>,
    /// The query, where it is not the request's own.
    pub query: Option<Vec<u8>>,
}

impl ScriptPath {
    /// The script at this path, called with nothing.
    #[must_use]
    pub fn of(path: &[u8]) -> ScriptPath {
        ScriptPath {
            path: path.to_vec(),
            path_info: Vec::new(),
            query: None,
        }
    }
}

/// The routing rules of one site.
#[derive(Debug)]
pub struct Router {
    cache: Arc<DescriptorCache>,
    access: Access,
    preset: Preset,
    php: Php,
    multisite: Multisite,
    missing: MissingRules,
}

/// Where PHP runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Php {
    /// Named to PHP-FPM by us: a script must exist.
    Here,
    /// Behind the HTTP origin, which knows its scripts.
    Origin,
    /// Nowhere.
    Nowhere,
}

impl Router {
    /// The rules of a site.
    ///
    /// # Errors
    /// A pattern that cannot be used.
    pub fn new(
        settings: &SiteSettings,
        cache: Arc<DescriptorCache>,
    ) -> Result<Router, PatternError> {
        Ok(Router {
            cache,
            access: Access::new(settings)?,
            preset: settings.preset,
            php: match settings.backend {
                Backend::None => Php::Nowhere,
                Backend::Php(_) => Php::Here,
                Backend::Origin(_) => Php::Origin,
            },
            multisite: settings.multisite,
            missing: MissingRules::new(settings)?,
        })
    }

    /// Which paths are refused.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// What the target is in this generation of the root.
    ///
    /// # Errors
    /// The tree could not be asked, or refused.
    pub async fn locate<'t>(
        &self,
        root: &Arc<RootGeneration>,
        target: &'t Target<'t>,
    ) -> Result<Resource<'t>, LookupError> {
        if self.access.denies(&target.path) {
            return Ok(Resource::Refused);
        }
        let Some(asked) = target.tree_path() else {
            // Boxed: rare, and what every request's future has room for should be small.
            return match Box::pin(self.script_of_unnamable(root, target)).await? {
                Some(resource) => Ok(resource),
                None => self.unnamable(root, &target.path).await,
            };
        };
        let path = self.of_network(root, asked).await?;
        if path != asked && self.access.denies(path.as_bytes()) {
            return Ok(Resource::Refused);
        }
        let place = Place {
            path,
            names_folder: target.trailing_slash(),
        };
        if self.preset != Preset::Static
            && let Some(resource) = self.script(root, &place).await?
        {
            return Ok(resource);
        }
        if php_source::is_source(path.file_name()) {
            return Ok(Resource::Refused);
        }
        self.file(root, place).await
    }

    /// The script that stands before the first segment with a separator, which is PATH_INFO to it:
    /// `/index.php/wp-json/a%2Fb`.
    async fn script_of_unnamable<'t>(
        &self,
        root: &Arc<RootGeneration>,
        target: &'t Target<'t>,
    ) -> Result<Option<Resource<'t>>, LookupError> {
        if self.preset == Preset::Static {
            return Ok(None);
        }
        // Read apart, since the decoded path no longer tells which of its slashes were escaped.
        let Ok(before) = Target::parse(&Method::Get, before_separator(target.raw_path)) else {
            return Ok(None);
        };
        let Some(asked) = before.tree_path() else {
            return Ok(None);
        };
        let path = self.of_network(root, asked).await?;
        if path != asked && self.access.denies(path.as_bytes()) {
            return Ok(Some(Resource::Refused));
        }
        let place = Place {
            path,
            names_folder: false,
        };
        Ok(match self.script(root, &place).await? {
            Some(Resource::Script(mut script)) => {
                let bare = before.path.strip_suffix(b"/").unwrap_or(&before.path);
                let rest = target.path.get(bare.len()..).unwrap_or_default();
                script.path_info.extend_from_slice(rest);
                Some(Resource::Script(script))
            }
            Some(Resource::FrontController) => Some(Resource::FrontController),
            Some(Resource::Missing(outcome)) => Some(Resource::Missing(outcome)),
            Some(_) => Some(Resource::Refused),
            None => None,
        })
    }

    /// A path that no file of the tree can have, since a segment of it holds a separator.
    async fn unnamable<'t>(
        &self,
        root: &Arc<RootGeneration>,
        path: &[u8],
    ) -> Result<Resource<'t>, LookupError> {
        let name = path
            .rsplit(|b| matches!(b, b'/' | b'\\'))
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        if php_source::is_source(name) {
            return Ok(Resource::Refused);
        }
        self.instead(
            root,
            self.missing.path(path.strip_prefix(b"/").unwrap_or(path)),
            None,
        )
        .await
    }

    /// The path in a network's tree, where the first segment names one of its sites.
    async fn of_network<'t>(
        &self,
        root: &Arc<RootGeneration>,
        path: TreePath<'t>,
    ) -> Result<TreePath<'t>, LookupError> {
        if self.multisite != Multisite::Subdirectory {
            return Ok(path);
        }
        let shared = wordpress::without_site(path.as_bytes()).and_then(TreePath::new);
        // A script where PHP never runs is judged as it was asked for: `files/x.php` is no script of the network.
        let asked = path.as_bytes();
        let judged_as_asked =
            php_source::script_ends(asked).next().is_some() && !self.access.php_runs(asked);
        let Some(shared) = shared.filter(|_| !judged_as_asked) else {
            return Ok(path);
        };
        if self.cannot_exist(root, path).await {
            return Ok(shared);
        }
        match self.cache.lookup(root, path, Want::Script).await?.found {
            Found::Missing => Ok(shared),
            Found::File(_) | Found::Directory => Ok(path),
        }
    }

    /// PHP by its exact suffix. None: no segment has it, or only folders do.
    async fn script<'t>(
        &self,
        root: &Arc<RootGeneration>,
        place: &Place<'t>,
    ) -> Result<Option<Resource<'t>>, LookupError> {
        let whole = place.path.as_bytes();
        for end in php_source::script_ends(whole) {
            let Some((Some(script), rest)) = whole
                .split_at_checked(end)
                .map(|(s, rest)| (TreePath::new(s), rest))
            else {
                continue;
            };
            if !self.access.php_runs(script.as_bytes()) || self.access.denies(script.as_bytes()) {
                return Ok(Some(Resource::Refused));
            }
            if self.php == Php::Here || !rest.is_empty() {
                let looked = self.look(root, script, Want::Script).await?;
                match looked.map_or((Found::Missing, None), |(found, outcome)| {
                    (found, Some(outcome))
                }) {
                    (Found::File(_), _) => {}
                    (Found::Directory, _) if !rest.is_empty() => continue,
                    (Found::Directory, outcome) | (Found::Missing, outcome) => {
                        return self
                            .instead(root, self.missing.script(), outcome)
                            .await
                            .map(Some);
                    }
                }
            }
            let mut path_info = rest.to_vec();
            if place.names_folder {
                path_info.push(b'/');
            }
            return Ok(Some(Resource::Script(ScriptPath {
                path: script.as_bytes().to_vec(),
                path_info,
                query: None,
            })));
        }
        Ok(None)
    }

    /// A file or a folder of the tree, or nothing.
    async fn file<'t>(
        &self,
        root: &Arc<RootGeneration>,
        place: Place<'t>,
    ) -> Result<Resource<'t>, LookupError> {
        let Place { path, names_folder } = place;
        if path.is_root() {
            return self.index(root, path).await;
        }
        match self.look(root, path, Want::Facts).await? {
            None => {
                self.instead(root, self.missing.path(path.as_bytes()), None)
                    .await
            }
            Some((Found::File(found), outcome)) if !names_folder => Ok(Resource::File {
                path: Cow::Borrowed(path.as_bytes()),
                found,
                outcome,
            }),
            Some((Found::Directory, _)) if names_folder => self.index(root, path).await,
            Some((Found::Directory, _)) => Ok(Resource::Folder),
            // A file is no folder: `style.css/` is not `style.css`.
            Some((Found::File(_) | Found::Missing, outcome)) => {
                self.instead(root, self.missing.path(path.as_bytes()), Some(outcome))
                    .await
            }
        }
    }

    /// What a folder shows: `index.php`, then `index.html`.
    async fn index<'t>(
        &self,
        root: &Arc<RootGeneration>,
        folder: TreePath<'t>,
    ) -> Result<Resource<'t>, LookupError> {
        let script = joined(folder, b"index.php");
        let runs = self.php != Php::Nowhere
            && self.access.php_runs(&script)
            && !self.access.denies(&script);
        if runs
            && let Some(path) = TreePath::new(&script)
            && let Found::File(_) = self.cache.lookup(root, path, Want::Script).await?.found
        {
            return Ok(Resource::Script(ScriptPath::of(&script)));
        }
        let page = joined(folder, b"index.html");
        if let Some(path) = TreePath::new(&page).filter(|_| !self.access.denies(&page)) {
            let looked = self.cache.lookup(root, path, Want::Facts).await?;
            if let Found::File(found) = looked.found {
                return Ok(Resource::File {
                    path: Cow::Owned(page),
                    found,
                    outcome: looked.outcome,
                });
            }
        }
        self.instead(root, self.missing.index(folder.as_bytes()), None)
            .await
    }

    /// What stands in for what is missing, as far as it is there.
    async fn instead<'t>(
        &self,
        root: &Arc<RootGeneration>,
        instead: Instead,
        outcome: Option<Outcome>,
    ) -> Result<Resource<'t>, LookupError> {
        Ok(match instead {
            Instead::NotFound => Resource::Missing(outcome),
            // WordPress has one; another application may be a few scripts without.
            Instead::FrontController if self.preset == Preset::Php && self.php == Php::Here => {
                let index = TreePath::new(FRONT_CONTROLLER).unwrap_or(TreePath::ROOT);
                match self.cache.lookup(root, index, Want::Script).await?.found {
                    Found::File(_) => Resource::FrontController,
                    Found::Directory | Found::Missing => Resource::Missing(outcome),
                }
            }
            Instead::FrontController => Resource::FrontController,
            Instead::NetworkFile(query) => Resource::Script(ScriptPath {
                query: Some(query),
                ..ScriptPath::of(wordpress::NETWORK_FILES_SCRIPT)
            }),
        })
    }

    /// Looks the path up; None without any look when the root has no such name.
    async fn look(
        &self,
        root: &Arc<RootGeneration>,
        path: TreePath<'_>,
        want: Want,
    ) -> Result<Option<(Found, Outcome)>, LookupError> {
        if self.cannot_exist(root, path).await {
            return Ok(None);
        }
        let looked = self.cache.lookup(root, path, want).await?;
        Ok(Some((looked.found, looked.outcome)))
    }

    /// Whether the root is known to hold no such name: permalinks cost no lookup.
    async fn cannot_exist(&self, root: &Arc<RootGeneration>, path: TreePath<'_>) -> bool {
        if self.preset == Preset::Static {
            return false;
        }
        let Some(first) = path.segments().next() else {
            return false;
        };
        self.cache.root_names(root).await.exclude(first)
    }
}

/// Where a request points.
struct Place<'t> {
    path: TreePath<'t>,
    /// Whether a slash follows.
    names_folder: bool,
}

/// The script that makes every page.
pub const FRONT_CONTROLLER: &[u8] = b"index.php";

/// The segments of a path, as sent, before the first one that holds a separator in any spelling.
fn before_separator(raw: &[u8]) -> &[u8] {
    let separator = memchr::memchr2_iter(b'%', b'\\', raw).find(|&at| {
        let found = raw.get(at..).unwrap_or_default();
        found.starts_with(b"\\")
            || found.get(..3).is_some_and(|escape| {
                escape.eq_ignore_ascii_case(b"%2f") || escape.eq_ignore_ascii_case(b"%5c")
            })
    });
    let before = raw.get(..separator.unwrap_or(raw.len())).unwrap_or(raw);
    let end = memchr::memrchr(b'/', before).map_or(0, |slash| slash + 1);
    before.get(..end).unwrap_or_default()
}

fn joined(folder: TreePath<'_>, name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if folder.is_root() { b"" } else { b"/" };
    [folder.as_bytes(), separator, name].concat()
}
