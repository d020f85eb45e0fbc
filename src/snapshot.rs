//! What the process keeps for its whole life ([`State`]), and what a request needs of the settings ([`Snapshot`]), which a
//! reload swaps as one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use crate::access_log::{self, AccessLog};
use crate::acme::{Challenges, Renewals};
use crate::clock::{Clock, Tick};
use crate::descriptor_cache::DescriptorCache;
use crate::edge::Limits;
use crate::edge::held_back::HeldBack;
use crate::edge::per_address::PerAddress;
use crate::fastcgi::limiter::{Limiter, Limiters};
use crate::fastcgi::spool::Spools;
use crate::fastcgi::{self, Address, MaxChildren, pool_file};
use crate::followed_file::FileError;
use crate::hot_paths::HotPaths;
use crate::lifecycle::Lifecycle;
use crate::limited::Limited;
use crate::metrics::{BySite, Durations, Reloads, Requests};
use crate::origin::{self, Origins, Pool, Pools};
use crate::page_cache::counters::PageCounters;
use crate::page_cache::site_pages::PagesError;
use crate::page_cache::{PageStore, SitePages, StoreKind};
use crate::rate_limits::{self, RateLimits};
use crate::request::client::TrustedProxies;
use crate::request::head::HeadLimits;
use crate::request::pattern::PatternError;
use crate::settings::Settings;
use crate::site::settings::PageCache;
use crate::site::{Backend, Preset, SiteSettings, Sites, StaticSite};
use crate::tls::{TlsDoors, TlsError};

/// What outlives a reload: the cache, the limiters, the budgets.
pub struct State {
    /// The settings in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// The time.
    pub clock: Clock,
    /// The order to stop.
    pub lifecycle: Lifecycle,
    /// The descriptor cache of all sites.
    pub cache: Arc<DescriptorCache>,
    /// Slots of responders, by address.
    pub limiters: Limiters,
    /// Peers of origins.
    pub origins: Origins,
    /// The budget for request bodies.
    pub spools: Arc<Spools>,
    /// Requests counted, by site.
    pub requests: BySite<Requests>,
    /// The page cache of all sites. It is never given back, as Pingora wants it.
    pub pages: &'static PageStore,
    /// Room for answers that slow clients do not take while others wait for them.
    pub held_back: Arc<HeldBack>,
    /// Pages that may be fetched anew at a time.
    pub refreshes: tokio::sync::Semaphore,
    /// What is counted of pages, by site.
    pub page_counters: BySite<PageCounters>,
    /// How long requests took.
    pub durations: Durations,
    /// Which paths are asked for most, and which are slow.
    pub hot_paths: HotPaths,
    /// How often clients have met each limit.
    pub limited: Arc<Limited>,
    /// Where TLS ends.
    pub tls: TlsDoors,
    /// Certificates that are ordered.
    pub renewals: Arc<Renewals>,
    /// Open connections of each address, where they are limited.
    pub per_address: PerAddress,
    /// Requests of each client, as far as they are limited.
    pub rates: Arc<rate_limits::Counting>,
    /// Reloads counted.
    pub reloads: Reloads,
    /// When the process started.
    pub started: Tick,
    most_connections: AtomicUsize,
}

impl State {
    /// The state at start, with the descriptors that this process may use for connections.
    ///
    /// # Errors
    /// As [`State::reload`].
    pub fn start(
        settings: Settings,
        clock: Clock,
        connections: usize,
    ) -> Result<Arc<State>, LoadError> {
        let cache = DescriptorCache::new(settings.cache.clone(), clock.clone());
        let limiters = Limiters::new();
        let origins = Origins::new(clock.clone());
        let spools = Spools::new(settings.spool.clone());
        let requests = BySite::default();
        let pages: &PageStore = Box::leak(Box::new(PageStore::new(&settings.page_store)));
        let page_counters = BySite::default();
        let rates = Arc::new(rate_limits::Counting::new(clock.clone()));
        let limited = Arc::new(Limited::default());
        let renewals = Arc::new(Renewals::new(clock.clone()));
        let held_back = Arc::new(HeldBack::new(settings.page_store.memory / HELD_SHARE));
        let lasting = Lasting {
            cache: &cache,
            limiters: &limiters,
            origins: &origins,
            requests: &requests,
            pages,
            page_counters: &page_counters,
            rates: &rates,
            limited: &limited,
            challenges: &renewals.challenges,
        };
        let snapshot = Snapshot::load(settings, &lasting, None)?;
        let most = snapshot.settings.limits.connections.unwrap_or(connections);
        pages.reconfigure(&snapshot.settings.page_store, snapshot.wants_disk());
        Ok(Arc::new(State {
            snapshot: ArcSwap::from_pointee(snapshot),
            started: clock.now(),
            clock,
            lifecycle: Lifecycle::default(),
            cache,
            limiters,
            origins,
            spools,
            requests,
            pages,
            held_back,
            refreshes: tokio::sync::Semaphore::new(REFRESHES),
            page_counters,
            durations: Durations::default(),
            hot_paths: HotPaths::default(),
            limited,
            tls: TlsDoors::default(),
            renewals,
            per_address: PerAddress::default(),
            rates,
            reloads: Reloads::default(),
            most_connections: AtomicUsize::new(most),
        }))
    }

    /// Puts other settings in force. Requests under way keep theirs; the cache and the limiters stay.
    ///
    /// # Errors
    /// A root, an origin or the access log cannot be used: nothing has changed then.
    pub fn reload(&self, settings: Settings) -> Result<(), LoadError> {
        let before = self.snapshot.load_full();
        let lasting = Lasting {
            cache: &self.cache,
            limiters: &self.limiters,
            origins: &self.origins,
            requests: &self.requests,
            pages: self.pages,
            page_counters: &self.page_counters,
            rates: &self.rates,
            limited: &self.limited,
            challenges: &self.renewals.challenges,
        };
        let listened = &settings.listen;
        let wanted = |address| {
            let listen = listened.iter().find(|listen| listen.address == address);
            listen.and_then(|listen| listen.tls.as_ref())
        };
        let doors = self.tls.prepare(wanted, &settings.hosts());
        let doors = doors.map_err(|(address, error)| LoadError::Tls(address, error))?;
        let snapshot = Snapshot::load(settings, &lasting, Some(&before))?;
        self.tls.put(doors);
        let settings = &snapshot.settings;
        // A site that has no page cache any more is told of no purge.
        for site in before.sites.all().iter().filter_map(|site| site.pages()) {
            let mut now = snapshot.sites.all().iter().filter_map(|site| site.pages());
            if !now.any(|other| other.name() == site.name()) {
                self.pages.forget_site(site.name());
            }
        }
        self.cache.reconfigure(settings.cache.clone());
        self.spools.reconfigure(settings.spool.clone());
        self.pages
            .reconfigure(&settings.page_store, snapshot.wants_disk());
        self.held_back
            .reconfigure(settings.page_store.memory / HELD_SHARE);
        if let Some(most) = settings.limits.connections {
            self.most_connections.store(most, Ordering::Relaxed);
        }
        self.snapshot.store(Arc::new(snapshot));
        Ok(())
    }

    /// Has the page cache take on its settings, and its disk if it has let go of it.
    pub fn reconfigure_pages(&self, settings: &Settings) {
        let wants_disk = self.snapshot.load().wants_disk();
        self.pages.reconfigure(&settings.page_store, wants_disk);
    }

    /// Connections accepted at most.
    pub fn most_connections(&self) -> usize {
        self.most_connections.load(Ordering::Relaxed)
    }
}

/// The settings in force, made ready for requests.
pub struct Snapshot {
    /// As they were written.
    pub settings: Settings,
    /// The limits of connections and requests.
    pub limits: Limits,
    /// The limits of a request head.
    pub head_limits: HeadLimits,
    /// The sites by host.
    pub sites: Sites,
    /// Peers that are believed about the client.
    pub trusted: TrustedProxies,
    /// The access log.
    pub access_log: AccessLog,
    /// Counts requests that are for no site.
    pub unplaced: Arc<Requests>,
    /// How many requests one client may make.
    pub rate_limits: RateLimits,
    /// Counts clients that meet a limit.
    pub limited: Arc<Limited>,
    /// What authorities of certificates ask for.
    pub challenges: Arc<Challenges>,
    /// The page cache.
    pub pages: &'static PageStore,
    responders: HashMap<Address, Upstream>,
    origins: Pools,
}

/// What outlives a reload and the settings are put upon.
struct Lasting<'a> {
    cache: &'a Arc<DescriptorCache>,
    limiters: &'a Limiters,
    origins: &'a Origins,
    requests: &'a BySite<Requests>,
    pages: &'static PageStore,
    page_counters: &'a BySite<PageCounters>,
    rates: &'a Arc<rate_limits::Counting>,
    limited: &'a Arc<Limited>,
    challenges: &'a Arc<Challenges>,
}

/// A responder as a request needs it.
pub struct Upstream {
    /// How it is reached and waited for.
    pub settings: Arc<fastcgi::Settings>,
    /// Its slots.
    pub limiter: Arc<Limiter>,
}

/// Why settings that are right in themselves cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A site's root or rules.
    #[error("site {0}: {1}")]
    Site(String, String),
    /// What TLS needs on a listener.
    #[error("listen {0}: {1}")]
    Tls(SocketAddr, TlsError),
    /// An origin's name.
    #[error("origin: {0}")]
    Origin(#[source] std::io::Error),
    /// A rate limit.
    #[error("rate_limits: {0}")]
    RateLimit(#[source] PatternError),
    /// A file of networks.
    #[error("trusted_proxies: {0}")]
    TrustedProxies(#[source] FileError),
    /// The access log.
    #[error("access_log: {0}")]
    AccessLog(#[source] std::io::Error),
}

impl Snapshot {
    fn load(
        settings: Settings,
        lasting: &Lasting<'_>,
        before: Option<&Snapshot>,
    ) -> Result<Snapshot, LoadError> {
        let mut sites = Vec::new();
        let mut responders = HashMap::new();
        let mut origins = Pools::new();
        for site in &settings.sites {
            let named = |error: &dyn std::fmt::Display| {
                LoadError::Site(site.root.display().to_string(), error.to_string())
            };
            let pages = pages_of(site, lasting).map_err(|error| named(&error))?;
            let made = StaticSite::new(site, lasting.cache.clone())
                .map_err(|error| named(&error))?
                .counting(lasting.requests.of(&site.name()))
                .with_pages(pages);
            sites.push(Arc::new(made));
            match &site.backend {
                Backend::None => {}
                Backend::Php(php) => {
                    responders.insert(php.address.clone(), Upstream::new(php, lasting.limiters));
                }
                Backend::Origin(origin) => {
                    let wanted = &origin.pool;
                    // Two sites with the same peers share them.
                    if !origins.contains_key(wanted) {
                        let before = before.map(|before| &before.origins);
                        let pool = lasting
                            .origins
                            .pool(wanted, before)
                            .map_err(LoadError::Origin)?;
                        origins.insert(wanted.clone(), pool);
                    }
                }
            }
        }
        Ok(Snapshot {
            limits: settings.limits.clone(),
            head_limits: HeadLimits {
                head_size: settings.limits.head_size,
                url: settings.limits.url,
                fields: settings.limits.headers,
            },
            sites: Sites::new(sites),
            trusted: TrustedProxies::new(settings.trusted_proxies.clone())
                .with_files(&settings.trusted_proxy_files)
                .map_err(LoadError::TrustedProxies)?,
            access_log: open_log(&settings.access_log, before).map_err(LoadError::AccessLog)?,
            unplaced: lasting.requests.of(""),
            rate_limits: RateLimits::new(&settings.rate_limits, lasting.rates)
                .map_err(LoadError::RateLimit)?,
            limited: lasting.limited.clone(),
            challenges: lasting.challenges.clone(),
            pages: lasting.pages,
            responders,
            origins,
            settings,
        })
    }

    /// Whether files beside the settings are to be looked at.
    pub fn follows_files(&self) -> bool {
        self.trusted.follows_files() || self.sites.all().iter().any(|site| site.auth().is_some())
    }

    /// Looks at the files beside the settings, and reads those that have changed.
    pub fn look_at_files(&self) {
        self.trusted.look();
        for auth in self.sites.all().iter().filter_map(|site| site.auth()) {
            auth.look();
        }
    }

    /// Whether any site keeps pages on disk.
    fn wants_disk(&self) -> bool {
        self.settings.sites.iter().any(|site| {
            matches!(&site.page_cache, PageCache::Own(rules) if rules.store == StoreKind::Disk)
        })
    }

    /// The responder at `address`.
    pub fn responder(&self, address: &Address) -> Option<&Upstream> {
        self.responders.get(address)
    }

    /// The peers of an origin.
    pub fn origin(&self, origin: &origin::Settings) -> Option<&Arc<Pool>> {
        self.origins.get(&origin.pool)
    }
}

impl Upstream {
    fn new(php: &fastcgi::Settings, limiters: &Limiters) -> Upstream {
        let limit = match php.max_children {
            MaxChildren::Limit(limit) => Some(limit),
            MaxChildren::Auto => pool_file::max_children(&php.address),
        };
        Upstream {
            settings: Arc::new(php.clone()),
            limiter: limiters.for_address(&php.address, limit),
        }
    }
}

/// The page cache of a site; none: it has none of its own.
fn pages_of(
    site: &SiteSettings,
    lasting: &Lasting<'_>,
) -> Result<Option<Arc<SitePages>>, PagesError> {
    let PageCache::Own(rules) = &site.page_cache else {
        return Ok(None);
    };
    let name = site.name();
    let counters = lasting.page_counters.of(&name);
    let is_wordpress = site.preset == Preset::Wordpress;
    let maker = format!("{} {:?}", site.root.display(), site.backend);
    SitePages::new(&name, rules, &maker, is_wordpress, counters).map(|pages| Some(Arc::new(pages)))
}

/// The log in use stays open when nothing about it has changed.
fn open_log(
    wanted: &access_log::Settings,
    before: Option<&Snapshot>,
) -> std::io::Result<AccessLog> {
    match before {
        Some(before) if &before.settings.access_log == wanted => Ok(before.access_log.clone()),
        _ => AccessLog::open(wanted),
    }
}

/// The part of the page cache's memory that may be held back for slow clients: the first over this.
const HELD_SHARE: u64 = 4;
/// Pages fetched anew at one time. Few: visitors wait for the same workers.
pub const REFRESHES: usize = 4;
