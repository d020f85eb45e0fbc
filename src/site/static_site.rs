//! One site: the whole decision about a request, from top to bottom.

use std::fmt;
use std::sync::Arc;

use crate::clock::UnixTime;
use crate::descriptor_cache::{
    DescriptorCache, DocumentRoot, FileFound, Found, LookupError, PreparedHeads, RootGeneration,
    Source, Want,
};
use crate::metrics::Requests;
use crate::page_cache::SitePages;
use crate::request::accept_encoding::Coding;
use crate::request::fields::Fields;
use crate::request::head::Method;
use crate::request::pattern::Pattern;
use crate::request::tree_path::TreePath;
use crate::site::accel::{self, AccelTarget};
use crate::site::auth::{Auth, Passed, User};
use crate::site::cache_control::Version;
use crate::site::coded_files;
use crate::site::compression;
use crate::site::conditional::Selected;
use crate::site::decision::{Decision, Request, Script};
use crate::site::directory_rules::DirectoryRules;
use crate::site::plugin_pages::{PluginPage, PluginPages};
use crate::site::redirect_hosts::RedirectHosts;
use crate::site::redirects::Redirects;
use crate::site::representation::HeadRules;
use crate::site::response::{self, Answer, local_answer};
use crate::site::route::{FRONT_CONTROLLER, Resource, Router, ScriptPath};
use crate::site::settings::{Backend, Htaccess, Multisite, PageCache, SiteError, SiteSettings};

/// One configured site; built when the settings are loaded.
pub struct StaticSite {
    settings: SiteSettings,
    cache: Arc<DescriptorCache>,
    root: Arc<DocumentRoot>,
    router: Router,
    head_rules: HeadRules,
    /// Where links lead, for X-Sendfile.
    link_targets: accel::TargetRoots,
    /// None: `htaccess: ignore`.
    directory_rules: Option<DirectoryRules>,
    /// None: `page_cache: off`.
    plugin_pages: Option<PluginPages>,
    /// None: the site keeps no pages of its own.
    pages: Option<Arc<SitePages>>,
    warm: Vec<Pattern>,
    /// None: no `redirect_hosts`.
    redirect_hosts: Option<Box<RedirectHosts>>,
    /// None: no `redirects`.
    redirects: Option<Box<Redirects>>,
    /// None: nobody is asked for a password.
    auth: Option<Box<Auth>>,
    requests: Arc<Requests>,
}

impl StaticSite {
    /// A site by its settings, on the process' cache.
    ///
    /// # Errors
    /// The root cannot be used, or a rule of the settings.
    pub fn new(
        settings: &SiteSettings,
        cache: Arc<DescriptorCache>,
    ) -> Result<StaticSite, SiteError> {
        Ok(StaticSite {
            root: cache.root(&settings.root, settings.links.clone())?,
            router: Router::new(settings, cache.clone())?,
            head_rules: HeadRules::new(settings)?,
            link_targets: accel::TargetRoots::default(),
            directory_rules: (settings.htaccess == Htaccess::Deny)
                .then(|| DirectoryRules::new(cache.clone())),
            plugin_pages: (settings.page_cache == PageCache::Auto
                && settings.multisite == Multisite::Off)
                .then(|| PluginPages::new(cache.clone(), &settings.content_dir)),
            pages: None,
            warm: settings
                .warm
                .iter()
                .map(|text| Pattern::parse(text))
                .collect::<Result<_, _>>()?,
            redirect_hosts: RedirectHosts::new(settings),
            redirects: Redirects::new(&settings.redirects)?,
            auth: Auth::new(&settings.auth)?,
            settings: settings.clone(),
            cache,
            requests: Arc::default(),
        })
    }

    /// The same site, its requests counted here.
    #[must_use]
    pub fn counting(self, requests: Arc<Requests>) -> StaticSite {
        StaticSite { requests, ..self }
    }

    /// The same site with this page cache.
    #[must_use]
    pub fn with_pages(self, pages: Option<Arc<SitePages>>) -> StaticSite {
        StaticSite { pages, ..self }
    }

    /// The site's page cache.
    #[must_use]
    pub fn pages(&self) -> Option<&Arc<SitePages>> {
        self.pages.as_ref()
    }

    /// The site's requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What the site was told.
    #[must_use]
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }

    /// The document root.
    #[must_use]
    pub fn root(&self) -> &Arc<DocumentRoot> {
        &self.root
    }

    /// Patterns of files to take into the cache before anybody asks.
    #[must_use]
    pub fn warm_patterns(&self) -> &[Pattern] {
        &self.warm
    }

    /// The names that are sent on to the site's first host.
    #[must_use]
    pub fn redirect_hosts(&self) -> Option<&RedirectHosts> {
        self.redirect_hosts.as_deref()
    }

    /// Who may have which paths.
    #[must_use]
    pub fn auth(&self) -> Option<&Auth> {
        self.auth.as_deref()
    }

    /// The routing rules.
    pub(super) fn router(&self) -> &Router {
        &self.router
    }

    /// The cache it looks its files up in.
    #[must_use]
    pub fn cache(&self) -> &Arc<DescriptorCache> {
        &self.cache
    }

    /// What is to be done with a request.
    ///
    /// Ready at the first poll when the cache knows everything. It may be polled once, dropped and begun again: looks at
    /// the tree run in tasks of their own. A file that the cache knows allocates nothing here; a folder's index joins
    /// its path, a script's names are copied, and a range renders its head.
    pub async fn decide<F: Fields + ?Sized>(&self, request: &Request<'_, F>) -> Decision {
        self.decide_for(request, &mut None).await
    }

    /// The same; `user` becomes who has proved to be one, where a rule of `auth` asks for that.
    pub async fn decide_for<F: Fields + ?Sized>(
        &self,
        request: &Request<'_, F>,
        user: &mut Option<User>,
    ) -> Decision {
        match request.method {
            Method::Trace | Method::Connect => return Decision::Answer(local_answer(405)),
            Method::Options if request.target.is_asterisk() => {
                return Decision::Answer(response::options());
            }
            _ => {}
        }
        let decision = match (&self.redirects, &self.auth) {
            (None, None) => self.route(request, None).await,
            // Boxed: what every request's future has room for should be small.
            _ => Box::pin(self.guarded(request, user)).await,
        };
        match decision.unwrap_or_else(|error| Decision::Answer(local_answer(error.status()))) {
            Decision::Answer(answer) if request.method == Method::Head => {
                Decision::Answer(answer.without_body())
            }
            decision => decision,
        }
    }

    /// The page that a cache plugin has written for a request that this script would answer; none: the script answers.
    /// `host` is what was asked for, `https` how.
    pub async fn page<F: Fields + ?Sized>(
        &self,
        request: &Request<'_, F>,
        script: &Script,
        host: &[u8],
        https: bool,
    ) -> Option<Answer> {
        let pages = self.plugin_pages.as_ref()?;
        if script.script_name.strip_prefix(b"/") != Some(FRONT_CONTROLLER)
            || !script.path_info.is_empty()
            || script.query.is_some()
        {
            return None;
        }
        let found = pages.find(&script.generation, request, host, https).await;
        // What the disk does not tell now, PHP's plugin may.
        let PluginPage {
            found,
            coding,
            outcome,
        } = found.ok()??;
        let path = request.target.tree_path().unwrap_or(TreePath::ROOT);
        let (rules, now) = (&self.head_rules, request.now);
        self.take_hash(&found, now).await;
        let render = || rules.render_page(path, &found.entry, now, coding);
        let heads = match rules.has_headers() {
            // One file may be the page of several paths, and rules are by path.
            true => Arc::new(render()),
            false => found.entry.heads(rules.page_id(coding), render),
        };
        let selected = Selected {
            found: &found,
            heads: &heads,
            pair: &heads.plain,
            media_type: &heads.media_type,
        };
        let answer = selected.answer(request).after(Some(outcome));
        Some(match request.method {
            Method::Head => answer.without_body(),
            _ => answer,
        })
    }

    /// The answer to a request that PHP has answered with the name of a file; see [`accel`].
    pub async fn accel<F: Fields + ?Sized>(
        &self,
        request: &Request<'_, F>,
        generation: &Arc<RootGeneration>,
        target: AccelTarget<'_>,
        kept: &[(Vec<u8>, Vec<u8>)],
    ) -> Answer {
        let located = accel::locate(
            &self.cache,
            &self.settings,
            generation,
            &self.link_targets,
            target,
        );
        let answer = match located.await {
            Ok(file) => {
                let path = TreePath::new(&file.path).unwrap_or(TreePath::ROOT);
                let heads = self
                    .heads(path, Coding::Identity, &file.found, request)
                    .await;
                accel::answer(request, &file.found, &heads, kept).after(Some(file.outcome))
            }
            Err(status) => local_answer(status),
        };
        match request.method {
            Method::Head => answer.without_body(),
            _ => answer,
        }
    }

    /// What is refused to everybody comes first, then what has moved, then who may have it.
    async fn guarded<F: Fields + ?Sized>(
        &self,
        request: &Request<'_, F>,
        user: &mut Option<User>,
    ) -> Result<Decision, LookupError> {
        if self.router.access().denies(&request.target.path) {
            return Ok(Decision::Answer(local_answer(403)));
        }
        let moved = self.redirects.as_ref();
        if let Some(answer) = moved.and_then(|moved| moved.answer(request.target)) {
            return Ok(Decision::Answer(answer));
        }
        let mut passed = Passed::default();
        if let Some(auth) = &self.auth
            && let Some(refused) = auth
                .target(request.target, request.fields, &mut passed)
                .await
        {
            return Ok(Decision::Answer(refused));
        }
        let decision = self.route(request, Some(&mut passed)).await;
        *user = passed.user;
        decision
    }

    async fn route<F: Fields + ?Sized>(
        &self,
        request: &Request<'_, F>,
        passed: Option<&mut Passed>,
    ) -> Result<Decision, LookupError> {
        // One resolution of the root for the whole request: DESIGN section 3.
        let generation = self.root.lend_current();
        let resource = self.router.locate(&generation, request.target).await?;
        if let (Some(auth), Some(passed)) = (&self.auth, passed) {
            // The name that was asked for has passed; what it leads to may be meant by a rule of its own.
            let path = match &resource {
                Resource::File { path, .. } => Some(&path[..]),
                Resource::Script(script) => Some(&script.path[..]),
                Resource::FrontController => Some(FRONT_CONTROLLER),
                Resource::Folder | Resource::Missing(_) | Resource::Refused => None,
            };
            if let Some(path) = path
                && let Some(refused) = Box::pin(auth.path(path, request.fields, passed)).await
            {
                return Ok(Decision::Answer(refused));
            }
        }
        let decision = match resource {
            Resource::Refused => Decision::Answer(local_answer(403)),
            Resource::File {
                path,
                found,
                outcome,
            } => {
                let path = TreePath::new(&path).unwrap_or(TreePath::ROOT);
                let answer = if self.is_allowed(&generation, path, request).await? {
                    self.file(&generation, path, found, request).await?
                } else {
                    local_answer(403)
                };
                Decision::Answer(answer.after(Some(outcome)))
            }
            Resource::Script(script) => self.script(&generation, script, request, 403).await?,
            Resource::FrontController => {
                self.script(&generation, ScriptPath::of(FRONT_CONTROLLER), request, 404)
                    .await?
            }
            Resource::Folder => self.unless_origin(|| {
                let status = if request.reads() { 301 } else { 308 };
                response::add_slash(&request.target.path, request.target.query, status)
            }),
            Resource::Missing(outcome) => self.unless_origin(|| local_answer(404).after(outcome)),
        };
        Ok(decision)
    }

    /// The answer of a file. Its content is asked for only when it is sent: HEAD, 304, 412 and 416 need none.
    async fn file<F: Fields + ?Sized>(
        &self,
        generation: &Arc<RootGeneration>,
        path: TreePath<'_>,
        mut found: FileFound,
        request: &Request<'_, F>,
    ) -> Result<Answer, LookupError> {
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => return Ok(response::options()),
            _ => return Ok(response::method_not_allowed()),
        }
        let coded = match self.settings.precompressed {
            true => {
                let (cache, entry) = (&self.cache, &found.entry);
                coded_files::choose(cache, generation, path, entry, request.fields).await
            }
            false => None,
        };
        if coded.is_none()
            && self.settings.compression.files
            && let Some((coding, form)) = compression::form(
                path,
                &found,
                request.fields,
                self.settings.compression.min_size,
            )
        {
            return Ok(self.form(path, &found, coding, &form, request).await);
        }
        let mut coding = Coding::Identity;
        // Where a coded file stands that is sent in place of its original, and that.
        let mut instead = coded.map(|file| {
            coding = file.coding;
            (file.path, std::mem::replace(&mut found, file.found))
        });
        loop {
            let has_content = !matches!(found.source, Source::None);
            let tag_needs_content = self.head_rules.needs_hash(&found.entry, request.now)
                && found.entry.known_content_hash().is_none();
            if has_content || !tag_needs_content {
                let heads = self.heads(path, coding, &found, request).await;
                let answer = answer_of(&found, &heads, request);
                let sends_content = request.method == Method::Get
                    && matches!(answer.status, 200 | 206)
                    && found.entry.size() > 0;
                if has_content || !sends_content {
                    return Ok(answer);
                }
            }
            // Another state of the file, perhaps: then all is decided anew.
            let stands = instead.as_ref().and_then(|(path, _)| TreePath::new(path));
            let looked = self
                .cache
                .lookup(generation, stands.unwrap_or(path), Want::Content)
                .await;
            found = match (looked.map(|looked| looked.found), instead.take()) {
                (Ok(Found::File(found)), still) => {
                    instead = still;
                    found
                }
                // It has gone, or cannot be read: its original is there for all.
                (_, Some((_, original))) => {
                    coding = Coding::Identity;
                    original
                }
                (Ok(Found::Directory | Found::Missing), None) => return Ok(local_answer(404)),
                (Err(error), None) => return Err(error),
            };
        }
    }

    /// The answer of a form of the file that was made here.
    async fn form<F: Fields + ?Sized>(
        &self,
        path: TreePath<'_>,
        original: &FileFound,
        coding: Coding,
        form: &FileFound,
        request: &Request<'_, F>,
    ) -> Answer {
        let (rules, now) = (&self.head_rules, request.now);
        self.take_hash(original, now).await;
        let heads = form.entry.heads(rules.file_id(coding), || {
            rules.render_form(path, &original.entry, &form.entry, now, coding)
        });
        answer_of(form, &heads, request)
    }

    /// A script for whoever runs it; `status` where nobody does.
    async fn script<F: Fields + ?Sized>(
        &self,
        generation: &Arc<RootGeneration>,
        script: ScriptPath,
        request: &Request<'_, F>,
        status: u16,
    ) -> Result<Decision, LookupError> {
        match self.settings.backend {
            Backend::None => return Ok(Decision::Answer(local_answer(status))),
            Backend::Origin(_) => return Ok(Decision::Origin),
            Backend::Php(_) => {}
        }
        let path = TreePath::new(&script.path).unwrap_or(TreePath::ROOT);
        if !self.is_allowed(generation, path, request).await? {
            return Ok(Decision::Answer(local_answer(403)));
        }
        let query = script.query.map(|query| match request.target.query {
            Some(own) if !own.is_empty() => [&query, &b"&"[..], own].concat(),
            _ => query,
        });
        Ok(Decision::Script(Script {
            script_name: [b"/", &script.path[..]].concat(),
            path_info: script.path_info,
            query,
            generation: generation.clone(),
        }))
    }

    /// The folders' own rules.
    pub(super) async fn is_allowed<F: Fields + ?Sized>(
        &self,
        generation: &Arc<RootGeneration>,
        path: TreePath<'_>,
        request: &Request<'_, F>,
    ) -> Result<bool, LookupError> {
        match &self.directory_rules {
            Some(rules) => rules.allow(generation, path, request.now).await,
            None => Ok(true),
        }
    }

    /// Lets go of what nobody asks for; to be called once a second.
    pub fn forget_unused(&self, now: UnixTime) {
        if let Some(rules) = &self.directory_rules {
            rules.forget_unused(now);
        }
    }

    /// What is not in the tree may be at the origin.
    fn unless_origin(&self, answer: impl FnOnce() -> Answer) -> Decision {
        match self.settings.backend {
            Backend::Origin(_) => Decision::Origin,
            Backend::None | Backend::Php(_) => Decision::Answer(answer()),
        }
    }

    async fn heads<F: ?Sized>(
        &self,
        path: TreePath<'_>,
        coding: Coding,
        found: &FileFound,
        request: &Request<'_, F>,
    ) -> Arc<PreparedHeads> {
        let entry = &found.entry;
        self.take_hash(found, request.now).await;
        entry.heads(self.head_rules.file_id(coding), || {
            self.head_rules.render(path, entry, request.now, coding)
        })
    }

    /// Takes the hash of the content where the heads need it.
    async fn take_hash(&self, found: &FileFound, now: UnixTime) {
        let entry = &found.entry;
        if self.head_rules.needs_hash(entry, now) && entry.known_content_hash().is_none() {
            // Without it the entity-tag is a weak one.
            let _ = found.content_hash().await;
        }
    }
}

/// What a file with these heads answers to a request.
fn answer_of<F: Fields + ?Sized>(
    found: &FileFound,
    heads: &PreparedHeads,
    request: &Request<'_, F>,
) -> Answer {
    let pair = match Version::of_query(request.target.query) {
        Version::InQuery => &heads.versioned,
        Version::None => &heads.plain,
    };
    let selected = Selected {
        found,
        heads,
        pair,
        media_type: &heads.media_type,
    };
    selected.answer(request)
}

impl fmt::Debug for StaticSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticSite")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
