//! Pages that a cache plugin of WordPress has written below wp-content/cache, sent as files without a start of PHP.
//!
//! A page is taken only where the plugin itself would send it to this visitor: nobody who is known by a cookie, no query, no
//! method but GET and HEAD. Whatever is in doubt (a phone where the plugin tells phones apart in its own way, a setting that is
//! not followed here) is left to PHP, whose plugin then answers from the same cache. A page that the plugin removes or writes
//! anew is seen as any other file's change is.

pub mod layout;
pub mod php_text;
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
    DescriptorCache, FileEntry, FileFound, Found, LookupError, Outcome, RootGeneration, Want,
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
    drop_ins: Known<Layout>,
    setups: Known<Setup>,
}

impl PluginPages {
    /// The pages below these content folders.
    #[must_use]
    pub fn new(cache: Arc<DescriptorCache>, content_dirs: &[String]) -> PluginPages {
        PluginPages {
            cache,
            content_dirs: content_dirs.to_vec(),
            drop_ins: Known::default(),
            setups: Known::default(),
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
        let mut page = Page {
            host: &host,
            raw_path: request.target.raw_path,
            path: &request.target.path,
            https,
            phone: false,
        };
        for content_dir in &self.content_dirs {
            let Some((layout, setup)) = self.plugin(root, content_dir, &page).await? else {
                continue;
            };
            let Some(phone) = visitor.reads_page_of(layout, &setup, &page) else {
                continue;
            };
            page.phone = phone;
            // None of the signs that WordPress is being updated.
            for sign in MAINTENANCE {
                if self.is_there(root, sign).await? {
                    return Ok(None);
                }
            }
            let found = self
                .page(root, content_dir, layout, &setup, &page, request)
                .await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The plugin that is active in this content folder and was told what can be followed.
    async fn plugin(
        &self,
        root: &Arc<RootGeneration>,
        content_dir: &str,
        page: &Page<'_>,
    ) -> Result<Option<(Layout, Setup)>, LookupError> {
        let below = |path: &[u8]| [content_dir.as_bytes(), b"/", path].concat();
        let drop_in = below(b"advanced-cache.php");
        let layout = self
            .read(root, &drop_in, &self.drop_ins, Layout::of_drop_in)
            .await?;
        let Some(layout) = layout else {
            return Ok(None);
        };
        if !self.is_there(root, &below(layout.plugin_folder())).await? {
            return Ok(None);
        }
        // In a network each site has settings of its own, in places of the plugin's own.
        for sign in NETWORK {
            if self.is_there(root, &below(sign)).await? {
                return Ok(None);
            }
        }
        let mut segments = page.path.split(|&byte| byte == b'/').skip(1);
        if let Some(folder) = segments.next().filter(|folder| !folder.is_empty())
            && let Some(within) = layout.settings_file_within(page.host, folder)
            && self.is_there(root, &below(&within)).await?
        {
            return Ok(None);
        }
        let settings = below(&layout.settings_file(page.host));
        let setup = self
            .read(root, &settings, &self.setups, |text| {
                Setup::read(layout, text)
            })
            .await?;
        Ok(setup.map(|setup| (layout, setup)))
    }

    /// The file of a page in the coding that the client likes best.
    async fn page<F: Fields + ?Sized>(
        &self,
        root: &Arc<RootGeneration>,
        content_dir: &str,
        layout: Layout,
        setup: &Setup,
        page: &Page<'_>,
        request: &Request<'_, F>,
    ) -> Result<Option<PluginPage>, LookupError> {
        let file = async |coding| {
            let Some(path) = layout.file(page, coding) else {
                return Ok(None);
            };
            let path = [content_dir.as_bytes(), b"/", &path].concat();
            let found = self.file(root, &path, Want::Content).await?;
            Ok(found.filter(|(file, _)| is_usable(layout, setup, file, request.now)))
        };
        // The plain file says what it is; a compressed one that was left behind, or is all there is, is not trusted.
        let Some((plain, outcome)) = file(Coding::Identity).await? else {
            return Ok(None);
        };
        if !is_html(&plain).await {
            return Ok(None);
        }
        for coding in acceptable(request.fields) {
            if coding == Coding::Identity {
                return Ok(Some(PluginPage {
                    found: plain,
                    coding,
                    outcome,
                }));
            }
            if let Some((found, outcome)) = file(coding).await?
                && found.entry.modified() >= plain.entry.modified()
            {
                return Ok(Some(PluginPage {
                    found,
                    coding,
                    outcome,
                }));
            }
        }
        Ok(None)
    }

    /// What a file of the plugin's own means; read once for each state of it. One that is just being written means nothing.
    async fn read<T: Clone>(
        &self,
        root: &Arc<RootGeneration>,
        path: &[u8],
        known: &Known<T>,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, LookupError> {
        let Some((file, _)) = self.file(root, path, Want::Facts).await? else {
            return Ok(None);
        };
        if let Some(meaning) = known.of(path, &file.entry) {
            return Ok(meaning);
        }
        let Some((file, _)) = self.file(root, path, Want::Content).await? else {
            return Ok(None);
        };
        if file.entry.racy {
            return Ok(None);
        }
        let text = file.whole(LONGEST_SETTINGS).await;
        let meaning = text.and_then(|text| read(&text));
        known.note(path, file.entry, meaning.clone());
        Ok(meaning)
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

/// What was read from one state of each of a few files.
#[derive(Debug)]
struct Known<T>(RwLock<Meanings<T>>);

/// By path: the state that was read, and what it means.
type Meanings<T> = LruCache<Vec<u8>, (Arc<FileEntry>, Option<T>)>;

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known(RwLock::new(LruCache::new(FILES)))
    }
}

impl<T: Clone> Known<T> {
    /// None: this state has not been read.
    fn of(&self, path: &[u8], state: &Arc<FileEntry>) -> Option<Option<T>> {
        let known = self.0.read();
        let (read, meaning) = known.peek(path)?;
        Arc::ptr_eq(read, state).then(|| meaning.clone())
    }

    fn note(&self, path: &[u8], state: Arc<FileEntry>, meaning: Option<T>) {
        self.0.write().put(path.to_vec(), (state, meaning));
    }
}

/// Whether a page's file may be sent.
fn is_usable(layout: Layout, setup: &Setup, file: &FileFound, now: UnixTime) -> bool {
    let modified = file.entry.modified().seconds;
    let age = u64::try_from(now.seconds.saturating_sub(modified)).unwrap_or(0);
    let too_old = setup.lifetime.is_some_and(|lifetime| age >= lifetime);
    // One that is just being written may be cut; PHP waits for the plugin's lock.
    let may_be_cut = layout.writes_in_place() && file.entry.racy;
    file.entry.size() > 0 && !too_old && !may_be_cut
}

/// Whether a file begins as a page does. Plugins store feeds and JSON under the name of a page when WordPress does not call
/// them such, and what a link leads to may be anything.
async fn is_html(file: &FileFound) -> bool {
    let Some(start) = file.start(LOOKED_AT).await else {
        return false;
    };
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    let text = text.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html"].iter().any(|begin| {
        text.get(..begin.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(begin))
    })
}

impl Visitor {
    /// Whether this visitor may have a page of this plugin: the one for phones or the common one.
    fn reads_page_of(&self, layout: Layout, setup: &Setup, page: &Page<'_>) -> Option<bool> {
        let refused = (self.has_cookies && setup.any_cookie_bypasses)
            || (!setup.pages_end_in_slash && page.path != b"/")
            || setup.refused_agents.iter().any(|word| self.says(word));
        if refused {
            return None;
        }
        match (setup.phones_apart, layout, self.device) {
            (false, ..) => Some(false),
            // It goes by its words alone.
            (true, Layout::CacheEnabler, _) => Some(self.has_mobile_words),
            (true, Layout::Rocket, Device::Desktop) => Some(false),
            (true, Layout::Rocket, Device::Phone) => Some(true),
            (true, ..) => None,
        }
    }
}

/// Files that stand where WordPress is while it is being updated: in the root, or in the folder that it is often put in.
const MAINTENANCE: [&[u8]; 2] = [b".maintenance", b"wp/.maintenance"];
/// Folders of a network below the content folder.
const NETWORK: [&[u8]; 2] = [b"uploads/sites", b"blogs.dir"];
/// Files of plugins remembered.
const FILES: NonZeroUsize = NonZeroUsize::new(64).expect("invariant: not zero");
const LONGEST_SETTINGS: usize = 256 * 1024;
/// Bytes of a page that are looked at.
const LOOKED_AT: usize = 256;

#[cfg(test)]
mod tests;
