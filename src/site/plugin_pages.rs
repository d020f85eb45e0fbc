//! Pages that a cache plugin of WordPress has written below wp-content/cache, sent as files without a start of PHP.
//!
//! A page is taken only where the plugin itself would send it to this visitor: nobody who is known by a cookie, no query, no
//! method but GET and HEAD. Whatever is in doubt (a phone where the plugin tells phones apart in its own way, a setting that is
//! not followed here) is left to PHP, whose plugin then answers from the same cache. A page that the plugin removes or writes
//! anew is seen as any other file's change is.

pub mod layout;
pub mod setup;
pub mod visitor;

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::RwLock;

use self::layout::{Layout, Page};
use self::setup::Setup;
use self::visitor::{Device, Visitor};
use crate::clock::UnixTime;
use crate::descriptor_cache::{
    DescriptorCache, FileEntry, FileFound, Found, LookupError, Outcome, RootGeneration, Source,
    Want,
};
use crate::request::accept_encoding::{Coding, acceptable};
use crate::request::fields::Fields;
use crate::request::tree_path::TreePath;
use crate::site::decision::Request;

/// A page that a plugin has written for this visitor.
#[derive(Debug)]
pub struct PluginPage {
    /// Its file.
    pub found: FileFound,
    /// The coding that it is stored in.
    pub coding: Coding,
    /// What the cache had to do.
    pub outcome: Outcome,
}

/// The pages of one site's plugins.
#[derive(Debug)]
pub struct PluginPages {
    cache: Arc<DescriptorCache>,
    content_dirs: Vec<String>,
    setups: RwLock<LruCache<Vec<u8>, KnownSetup>>,
}

/// What was read from one state of a settings file.
#[derive(Clone, Debug)]
struct KnownSetup {
    entry: Arc<FileEntry>,
    setup: Option<Setup>,
}

impl PluginPages {
    /// The pages below these content folders.
    #[must_use]
    pub fn new(cache: Arc<DescriptorCache>, content_dirs: &[String]) -> PluginPages {
        PluginPages {
            cache,
            content_dirs: content_dirs.to_vec(),
            setups: RwLock::new(LruCache::new(SETUPS)),
        }
    }

    /// The page for a request that WordPress' front controller would answer; none: PHP answers.
    ///
    /// # Errors
    /// The tree cannot be asked at the moment.
    pub async fn find<F: Fields + ?Sized>(
        &self,
        root: &Arc<RootGeneration>,
        request: &Request<'_, F>,
        host: &[u8],
        https: bool,
    ) -> Result<Option<PluginPage>, LookupError> {
        let Some(visitor) = Visitor::of(request) else {
            return Ok(None);
        };
        let host = host.to_ascii_lowercase();
        let maintenance = self.is_there(root, b".maintenance").await?;
        if maintenance {
            return Ok(None);
        }
        for content_dir in &self.content_dirs {
            let below = |path: &[u8]| [content_dir.as_bytes(), b"/", path].concat();
            if !self.is_there(root, &below(b"cache")).await? {
                continue;
            }
            for layout in Layout::ALL {
                let settings = below(&layout.settings_file(&host));
                let Some(setup) = self.setup(root, layout, &settings).await? else {
                    continue;
                };
                let Some(phone) = visitor.reads_page_of(layout, &setup) else {
                    continue;
                };
                let page = Page {
                    host: &host,
                    raw_path: request.target.raw_path,
                    path: &request.target.path,
                    https,
                    phone,
                };
                for coding in acceptable(request.fields) {
                    let Some(file) = layout.file(&page, coding) else {
                        continue;
                    };
                    let Some((found, outcome)) =
                        self.file(root, &below(&file), Want::Content).await?
                    else {
                        continue;
                    };
                    if is_usable(layout, &setup, &found, request.now) {
                        return Ok(Some(PluginPage {
                            found,
                            coding,
                            outcome,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// What a plugin was told; read once for each state of its file.
    async fn setup(
        &self,
        root: &Arc<RootGeneration>,
        layout: Layout,
        path: &[u8],
    ) -> Result<Option<Setup>, LookupError> {
        let Some((file, _)) = self.file(root, path, Want::Facts).await? else {
            return Ok(None);
        };
        let known = self.setups.read().peek(path).cloned();
        if let Some(known) = known
            && Arc::ptr_eq(&known.entry, &file.entry)
        {
            return Ok(known.setup);
        }
        let Some((file, _)) = self.file(root, path, Want::Content).await? else {
            return Ok(None);
        };
        let setup = match content(&file).await {
            Some(text) => Setup::read(layout, &text),
            None => None,
        };
        let known = KnownSetup {
            entry: file.entry,
            setup,
        };
        self.setups.write().put(path.to_vec(), known);
        Ok(setup)
    }

    async fn is_there(&self, root: &Arc<RootGeneration>, path: &[u8]) -> Result<bool, LookupError> {
        let Some(path) = TreePath::new(path) else {
            return Ok(false);
        };
        let looked = self.cache.lookup(root, path, Want::Script).await;
        match looked.map(|looked| looked.found) {
            Ok(found) => Ok(!matches!(found, Found::Missing)),
            Err(LookupError::Unavailable) => Err(LookupError::Unavailable),
            Err(_) => Ok(false),
        }
    }

    /// A regular file that can be read; an error that is not passing leaves the page to PHP.
    async fn file(
        &self,
        root: &Arc<RootGeneration>,
        path: &[u8],
        want: Want,
    ) -> Result<Option<(FileFound, Outcome)>, LookupError> {
        let Some(path) = TreePath::new(path) else {
            return Ok(None);
        };
        match self.cache.lookup(root, path, want).await {
            Ok(looked) => Ok(match looked.found {
                Found::File(file) => Some((file, looked.outcome)),
                Found::Directory | Found::Missing => None,
            }),
            Err(LookupError::Unavailable) => Err(LookupError::Unavailable),
            Err(_) => Ok(None),
        }
    }
}

/// The whole text of a settings file; none when it is too long or cannot be read.
async fn content(file: &FileFound) -> Option<bytes::Bytes> {
    let size = usize::try_from(file.entry.size())
        .ok()
        .filter(|&size| size <= LONGEST_SETTINGS)?;
    match &file.source {
        Source::Memory(bytes) => Some(bytes.clone()),
        Source::Descriptor(open) => open
            .read_at(0, size)
            .await
            .ok()
            .filter(|bytes| bytes.len() == size),
        Source::None => None,
    }
}

/// Whether a page's file may be sent.
fn is_usable(layout: Layout, setup: &Setup, file: &FileFound, now: UnixTime) -> bool {
    let modified = file.entry.modified().seconds;
    let age = u64::try_from(now.seconds.saturating_sub(modified)).unwrap_or(0);
    let too_old = setup.lifetime.is_some_and(|lifetime| age >= lifetime);
    // One that is just being written may be cut; PHP waits for the plugin's lock.
    let may_be_cut = layout.writes_in_place() && file.entry.racy;
    file.entry.size() > 0 && !too_old && !may_be_cut && is_html(file)
}

/// Some plugins store a feed or JSON under the name of a page when WordPress does not call it one.
fn is_html(file: &FileFound) -> bool {
    let Source::Memory(bytes) = &file.source else {
        return true;
    };
    let text = bytes.trim_ascii_start();
    !text.starts_with(b"<?xml") && !text.starts_with(b"{") && !text.starts_with(b"[")
}

impl Visitor {
    /// Whether this visitor may have a page of this plugin: the one for phones or the common one.
    fn reads_page_of(&self, layout: Layout, setup: &Setup) -> Option<bool> {
        if (self.has_cookies && setup.any_cookie_bypasses)
            || (self.is_tracked && !layout.ignores_tracking())
        {
            return None;
        }
        match (setup.phones_apart, self.device) {
            (false, _) | (true, Device::Desktop) => Some(false),
            (true, Device::Phone) => layout.names_phones().then_some(true),
            (true, Device::Handheld) => None,
        }
    }
}

/// Settings files remembered.
const SETUPS: NonZeroUsize = NonZeroUsize::new(64).expect("invariant: not zero");
const LONGEST_SETTINGS: usize = 256 * 1024;

#[cfg(test)]
mod tests;
