//! The store as Pingora's cache sees it.

use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use pingora_cache::CacheMeta;
use pingora_cache::key::CacheKey;
use pingora_cache::storage::{
    HandleHit, HandleMiss, HitHandler, MissFinishType, MissHandler, PurgeOutcome, PurgeTarget,
    PurgeType, Storage,
};
use pingora_cache::trace::SpanHandle;
use pingora_core::{Error, ErrorType, Result};

use crate::page_cache::key::{Key, plain_path, push_host};
use crate::page_cache::page::{Page, Place};
use crate::page_cache::settings::Store as StoreKind;
use crate::page_cache::site_pages::SitePages;
use crate::page_cache::storable::Refusal;
use crate::page_cache::store::PageStore;
use crate::request::head::Method;
use crate::request::target::Target;

/// A request that fills a page.
#[derive(Debug, Clone)]
pub struct Fill {
    /// The page cache of its site.
    pub pages: Arc<SitePages>,
    /// The page's key.
    pub key: Key,
    /// Where the page will belong to.
    pub place: Place,
    /// Purges before it was begun.
    pub since: u64,
    /// Whether it is made aside, for a page that is still being sent.
    pub is_refresh: bool,
    /// The second that it was begun in.
    pub now: i64,
    /// The old page that Pingora was shown, which the application confirms or replaces.
    pub shown: Arc<OnceLock<Arc<Page>>>,
    /// Whether others may wait for the answer: it may still become a page.
    pub is_waited_for: Arc<AtomicBool>,
    /// Arguments of the query that the application does not see.
    pub left_out: Option<Box<[u8]>>,
}

impl Fill {
    /// A request for the page of `key`, which is asked for by this host.
    #[must_use]
    pub fn new(
        pages: &Arc<SitePages>,
        key: Key,
        host: &[u8],
        https: bool,
        since: u64,
        now: i64,
    ) -> Fill {
        let mut of_host = Vec::new();
        push_host(&mut of_host, host, https);
        let path = Target::parse(&Method::Get, &key.target)
            .map_or_else(|_| key.target.to_vec(), |target| plain_path(&target.path));
        Fill {
            place: Place {
                site: pages.name().clone(),
                host: of_host.into(),
                path: path.into(),
                tags: Vec::new(),
            },
            pages: pages.clone(),
            since,
            is_refresh: false,
            now,
            shown: Arc::default(),
            is_waited_for: Arc::new(AtomicBool::new(true)),
            left_out: key.left_out.clone(),
            key,
        }
    }

    /// The key by which Pingora knows it. Requests after a purge are other ones than those before, so that none of them waits
    /// for an answer that was begun before.
    #[must_use]
    pub fn cache_key(&self) -> CacheKey {
        let name = [&self.since.to_be_bytes()[..], &self.key.text].concat();
        let mut key = CacheKey::new(name, "");
        key.extensions.insert(self.clone());
        key
    }
}

fn fill_of(key: &CacheKey) -> Result<&Fill> {
    key.extensions
        .get::<Fill>()
        .ok_or_else(|| Error::explain(ErrorType::InternalError, "a key without its request"))
}

#[async_trait]
impl Storage for PageStore {
    async fn lookup(
        &'static self,
        key: &CacheKey,
        _: &SpanHandle,
    ) -> Result<Option<(CacheMeta, HitHandler)>> {
        let fill = fill_of(key)?;
        let text = &fill.key.text;
        let page = match self.get(text) {
            None if fill.pages.rules().store == StoreKind::Disk => self.get_from_disk(text).await,
            page => page,
        };
        if let Some(page) = &page {
            // The first one: after a wait it may be another one, which is not asked about.
            let _ = fill.shown.set(page.clone());
        }
        Ok(page.map(|page| {
            let hit: HitHandler = Box::new(Hit(Some(page.body.clone())));
            (page.meta(), hit)
        }))
    }

    async fn get_miss_handler(
        &'static self,
        key: &CacheKey,
        meta: &CacheMeta,
        _: &SpanHandle,
    ) -> Result<MissHandler> {
        Ok(Box::new(Miss {
            store: self,
            fill: fill_of(key)?.clone(),
            meta: copy_of(meta),
            body: BytesMut::new(),
            is_too_large: false,
        }))
    }

    async fn purge(
        &'static self,
        _: PurgeTarget<'_>,
        _: PurgeType,
        _: &SpanHandle,
    ) -> Result<PurgeOutcome> {
        // Purges do not come by Pingora.
        Ok(PurgeOutcome::NotFound)
    }

    async fn update_meta(
        &'static self,
        key: &CacheKey,
        meta: &CacheMeta,
        _: &SpanHandle,
    ) -> Result<bool> {
        let fill = fill_of(key)?;
        let Some(shown) = fill.shown.get() else {
            return Ok(false);
        };
        let body = shown.body.clone();
        let confirmed = Page::new(fill.key.text.clone(), fill.place.clone(), meta, body);
        let on_disk = fill.pages.rules().store == StoreKind::Disk;
        Ok(self.replace(shown, Arc::new(confirmed), fill.since, on_disk))
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync + 'static) {
        self
    }
}

struct Hit(Option<Bytes>);

#[async_trait]
impl HandleHit for Hit {
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        Ok(self.0.take())
    }

    async fn finish(
        self: Box<Self>,
        _: &'static (dyn Storage + Sync),
        _: &CacheKey,
        _: &SpanHandle,
    ) -> Result<()> {
        Ok(())
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}

/// A page that is being filled. Dropped before its end it leaves nothing.
struct Miss {
    store: &'static PageStore,
    fill: Fill,
    meta: CacheMeta,
    body: BytesMut,
    is_too_large: bool,
}

#[async_trait]
impl HandleMiss for Miss {
    async fn write_body(&mut self, data: Bytes, _: bool) -> Result<()> {
        let most = self.fill.pages.rules().max_page;
        if (self.body.len() + data.len()) as u64 > most {
            self.is_too_large = true;
            self.body = BytesMut::new();
        }
        if !self.is_too_large {
            self.body.extend_from_slice(&data);
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<MissFinishType> {
        let Miss {
            store,
            fill,
            meta,
            body,
            is_too_large,
        } = *self;
        let length = body.len();
        let promised = meta.headers().get(http::header::CONTENT_LENGTH);
        let promised = promised.and_then(|length| length.to_str().ok()?.parse().ok());
        if is_too_large {
            store.refuse(&fill.key.text, fill.now);
            fill.pages.counters().refusal(Refusal::Size);
        } else if promised.is_none_or(|promised: usize| promised == length) {
            // Without the room that it has grown by.
            let page = Page::new(
                fill.key.text,
                fill.place,
                &meta,
                Bytes::copy_from_slice(&body),
            );
            let on_disk = fill.pages.rules().store == StoreKind::Disk;
            if !store.admit(Arc::new(page), fill.since, on_disk) {
                fill.pages.counters().refusal(Refusal::Purged);
            }
        }
        Ok(MissFinishType::Created(length))
    }
}

fn copy_of(meta: &CacheMeta) -> CacheMeta {
    CacheMeta::new(
        meta.fresh_until(),
        meta.epoch(),
        meta.stale_while_revalidate_sec(),
        meta.stale_if_error_sec(),
        meta.response_header_copy(),
    )
}
