//! The process: sockets bound and privileges given up first, then Pingora run and signals heard.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::apps::HttpServerOptions;
use pingora_core::listeners::{ConnectionFilter, ListenerConfig};
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{
    ListenFds, RunArgs, Server, ShutdownSignal, ShutdownSignalWatch, ShutdownWatch,
};
use pingora_core::services::Service;
use pingora_proxy::ProxyServiceBuilder;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::admin::api::Api;
use crate::admin::socket::SocketFile;
use crate::binding::{BindError, Bound, bind, bind_admin, give_up_privileges};
use crate::clock::Clock;
use crate::config_watch::ConfigWatch;
use crate::descriptor_cache::budget::DescriptorBudget;
use crate::edge::lane;
use crate::edge::proxy::{Door, Proxy};
use crate::fastcgi::session::Responder;
use crate::inherited::{Inherited, Predecessor};
use crate::service_manager;
use crate::settings::{self, Settings};
use crate::signals::{self, Order};
use crate::site::StaticSite;
use crate::site::warm::warm;
use crate::snapshot::{LoadError, Snapshot, State};
use crate::upgrade::{self, Sockets};

/// Why the server has not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket cannot be bound, or the user not be taken on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The admin socket cannot be served.
    #[error("cannot serve the admin socket: {0}")]
    AdminThread(#[source] io::Error),
    /// Signals cannot be heard.
    #[error("cannot hear signals: {0}")]
    Signals(#[source] io::Error),
    /// The settings cannot be put in force.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Runs until it is told to stop. `file` is read again on SIGHUP.
///
/// # Errors
/// It could not start; nothing listens then.
pub fn run(settings: Settings, file: Option<PathBuf>) -> Result<(), StartError> {
    upgrade::note_binary();
    let mut inherited = Inherited::take();
    let mut sockets = Sockets::default();
    let (give_order, orders) = signals::hear().map_err(StartError::Signals)?;
    let descriptors = raise_descriptor_limit();
    let listeners = bind(&settings, &mut inherited, &mut sockets)?;
    let admin = bind_admin(&settings, &mut inherited, &mut sockets)?;
    inherited.say_unused();
    give_up_privileges(&settings, &admin)?;

    let slots = fastcgi_slots(&settings);
    let budget = DescriptorBudget::from_limit(descriptors, slots);
    let mut settings = settings;
    settings.cache.descriptors.get_or_insert(budget.cached);
    let workers = settings.workers.unwrap_or_else(processors);
    let addresses: Vec<String> = settings
        .listen
        .iter()
        .map(|listen| listen.address.to_string())
        .collect();
    let state = State::start(settings, Clock::system(), budget.connections)?;
    let (succeeded, stop_admin) = tokio::sync::watch::channel(false);
    let admin_file = admin
        .serve(Api::new(state.clone(), give_order), stop_admin)
        .map_err(StartError::AdminThread)?;

    let mut server = Server::new_with_opt_and_conf(None, pingora_conf(workers));
    server.bootstrap();
    server.add_service(listening(
        &state,
        &server.configuration,
        &addresses,
        listeners,
    ));
    let admin_file = Arc::new(Mutex::new(admin_file));
    server.run(RunArgs {
        shutdown_signal: Box::new(Signals {
            state: state.clone(),
            file,
            cached_descriptors: budget.cached,
            begin: Mutex::new(Some(Begin {
                orders,
                predecessor: inherited.predecessor.take(),
            })),
            sockets: Mutex::new(Some(Arc::new(sockets))),
            admin_file: admin_file.clone(),
            succeeded,
        }),
    });
    finish(&state);
    Ok(())
}

/// The soft limit of open descriptors becomes the hard one; returns it.
fn raise_descriptor_limit() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Requests that may be at PHP at once, over all sites: descriptors are set aside for them.
pub fn fastcgi_slots(settings: &Settings) -> usize {
    use crate::fastcgi::{MaxChildren, pool_file};
    use crate::site::Backend;
    let slots = settings.sites.iter().map(|site| match &site.backend {
        Backend::Php(php) => match php.max_children {
            MaxChildren::Limit(limit) => limit,
            MaxChildren::Auto => pool_file::max_children(&php.address).unwrap_or(UNKNOWN_SLOTS),
        },
        Backend::None | Backend::Origin(_) => 0,
    });
    slots.sum()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn pingora_conf(workers: usize) -> ServerConf {
    ServerConf {
        // Work stealing (the default) stays: without it Pingora accepts a connection on one thread and serves it on
        // another, and each request wakes a thread: a quarter more CPU per request at 64 connections. One task that
        // accepts, and a worker for each processor, cost no more than others.
        threads: workers,
        // Draining is done before Pingora is told to stop: there is nothing left to wait for.
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(0),
        ..ServerConf::default()
    }
}

/// The service that listens, following our order to stop instead of Pingora's.
fn listening(
    state: &Arc<State>,
    conf: &Arc<ServerConf>,
    addresses: &[String],
    bound: Bound,
) -> Listening<impl Service + use<>> {
    let lane_state = state.clone();
    let on_connection = move |door: Arc<Door>, stream, stop: &ShutdownWatch| {
        // A task of its own, so that what Pingora keeps of a connection goes now and nothing of it is passed through at
        // each request. It is this task that a stop waits for; see `Lifecycle`.
        tokio::spawn(lane::serve(lane_state.clone(), door, stream, stop.clone()));
        let done: futures::future::BoxFuture<'static, Option<pingora_core::protocols::Stream>> =
            Box::pin(async { None });
        done
    };
    let mut options = HttpServerOptions::default();
    options.force_custom = true;
    let mut service = ProxyServiceBuilder::new(conf, Proxy::new(state.clone()))
        .name("http")
        .custom(Responder, Arc::new(on_connection))
        .server_options(options)
        .build();
    service.set_connection_filter(Arc::new(MostConnections(state.clone())));
    for address in addresses {
        service.add_listener(
            ListenerConfig::tcp(address.clone()).l4_buffer(L4BufferSettings::unbuffered()),
        );
    }
    Listening {
        service,
        fds: bound.0,
        stop: state.lifecycle.order(),
    }
}

struct Listening<S> {
    service: S,
    fds: ListenFds,
    stop: ShutdownWatch,
}

#[async_trait]
impl<S: Service> Service for Listening<S> {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, per_fd: usize) {
        self.service
            .start_service(Some(self.fds.clone()), self.stop.clone(), per_fd)
            .await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads()
    }
}

/// Refuses connections beyond the limit where they are accepted, before anything is made for them: so accepting never
/// runs out of descriptors, which Pingora would answer by sleeping.
struct MostConnections(Arc<State>);

impl std::fmt::Debug for MostConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MostConnections")
    }
}

#[async_trait]
impl ConnectionFilter for MostConnections {
    async fn should_accept(&self, _: Option<&SocketAddr>) -> bool {
        self.0.lifecycle.expect(self.0.most_connections())
    }
}

/// Takes in what the sites' `warm:` patterns mean, where that was not done yet for the site's present generation.
#[derive(Default)]
struct Warming {
    done: Vec<(Weak<StaticSite>, u64)>,
}

impl Warming {
    fn begin(&mut self, snapshot: &Snapshot) {
        self.done.retain(|(site, _)| site.strong_count() > 0);
        for site in snapshot.sites.all() {
            let generation = site.root().current().id();
            let is_done = self
                .done
                .iter()
                .any(|(known, of)| known.as_ptr() == Arc::as_ptr(site) && *of == generation);
            if is_done || site.warm_patterns().is_empty() {
                continue;
            }
            self.done.push((Arc::downgrade(site), generation));
            let site = site.clone();
            tokio::spawn(async move {
                let warmed = warm(&site).await;
                let root = site.settings().root.display();
                tracing::info!(files = warmed.files, cut = warmed.is_cut, "{root}: warmed");
            });
        }
    }
}

/// Once a second, off the workers as it may touch slow disks: inactive entries go, roots are looked at again. A call that
/// hangs on its disk is waited for by nobody, the process' end included: the next ones pass by it.
///
/// `give_order` is told to reload when the settings file has changed and `watch_config` is on.
async fn keep_time(state: Arc<State>, mut config: Option<ConfigWatch>, changed: Arc<Notify>) {
    let mut every = tokio::time::interval(TICK);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut warming = Warming::default();
    loop {
        every.tick().await;
        warming.begin(&state.snapshot.load());
        state.pages.tick();
        if state.snapshot.load().settings.watch_config
            && let Some(mut watch) = config.take()
        {
            // It may be on a slow disk, too.
            let looked = tokio::task::spawn_blocking(move || (watch.look(), watch)).await;
            if let Ok((is_changed, watch)) = looked {
                config = Some(watch);
                if is_changed {
                    changed.notify_one();
                }
            }
        }
        let cache = state.cache.clone();
        let ticked = std::thread::Builder::new()
            .name("cache timer".into())
            .spawn(move || cache.tick());
        if let Err(error) = ticked {
            tracing::warn!(%error, "the cache's timer could not run");
        }
    }
}

struct Signals {
    state: Arc<State>,
    file: Option<PathBuf>,
    cached_descriptors: usize,
    begin: Mutex<Option<Begin>>,
    /// For a successor; none: this process stops.
    sockets: Mutex<Option<Arc<Sockets>>>,
    admin_file: Arc<Mutex<SocketFile>>,
    /// Turns true when a successor serves.
    succeeded: tokio::sync::watch::Sender<bool>,
}

/// What is taken up once, when serving begins.
struct Begin {
    orders: UnboundedReceiver<Order>,
    predecessor: Option<Predecessor>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    /// Obeys orders; returns when everything in flight has ended after the order to stop, or at the second one.
    async fn recv(&self) -> ShutdownSignal {
        let taken = self.begin.lock().take();
        let Some(Begin {
            mut orders,
            predecessor,
        }) = taken
        else {
            return ShutdownSignal::FastShutdown;
        };
        let changed = Arc::new(Notify::new());
        let watch = self.file.clone().map(ConfigWatch::new);
        tokio::spawn(keep_time(self.state.clone(), watch, changed.clone()));
        self.say_ready();
        if let Some(predecessor) = predecessor {
            predecessor.tell_ready();
        }
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                () = changed.notified() => Some(Order::Reload(None)),
            };
            match order {
                Some(Order::Reload(told)) => {
                    service_manager::reloading();
                    let result = self.reload().await;
                    self.state.reloads.count(result.is_ok());
                    service_manager::ready("serving");
                    if let Some(told) = told {
                        // Who has asked may have gone.
                        let _ = told.send(result);
                    }
                }
                Some(Order::Upgrade(told)) => {
                    let result = self.upgrade().await;
                    let succeeded = result.is_ok();
                    let _ = told.send(result);
                    if succeeded {
                        break;
                    }
                }
                Some(Order::Reopen) => self.state.snapshot.load().access_log.reopen(),
                Some(Order::Stop) | None => {
                    service_manager::stopping();
                    break;
                }
            }
        }
        // Its file is for the next process, which may be there already.
        self.state.pages.leave_disk();
        // Connections that nobody would accept are refused from now on.
        *self.sockets.lock() = None;
        let patience = self.state.snapshot.load().limits.drain;
        tracing::info!(connections = self.state.lifecycle.connections(), "stopping");
        tokio::select! {
            left = self.state.lifecycle.drain(patience) => {
                if left > 0 {
                    tracing::warn!(connections = left, "stopped with requests still under way");
                }
            }
            () = next_stop(&mut orders) => {
                tracing::warn!("stopped at once by a second signal");
            }
        }
        ShutdownSignal::FastShutdown
    }
}

impl Signals {
    /// One line with what a new administrator wants to know first.
    fn say_ready(&self) {
        let snapshot = self.state.snapshot.load();
        let settings = &snapshot.settings;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            sites = settings.sites.len(),
            entries = settings.cache.max,
            descriptors = settings.cache.descriptors,
            connections = self.state.most_connections(),
            watch = ?settings.cache.watch,
            "serving"
        );
        service_manager::ready("serving");
    }

    /// Has another process take over. This one goes on when that one does not serve.
    async fn upgrade(&self) -> Result<u32, String> {
        // The successor wants to have it.
        self.state.pages.leave_disk();
        let Some(sockets) = self.sockets.lock().clone() else {
            return Err("stopping".to_owned());
        };
        let handed = tokio::task::spawn_blocking(move || sockets.hand_over()).await;
        match handed
            .map_err(|error| error.to_string())
            .and_then(|result| result.map_err(|error| error.to_string()))
        {
            Ok(process) => {
                tracing::info!(process, "another process serves, this one ends");
                self.admin_file.lock().leave();
                self.succeeded.send_replace(true);
                service_manager::succeeded_by(process);
                Ok(process)
            }
            Err(why) => {
                tracing::error!("not upgraded, this process goes on: {why}");
                let settings = &self.state.snapshot.load().settings;
                self.state.reconfigure_pages(settings);
                Err(why)
            }
        }
    }

    async fn reload(&self) -> Result<(), String> {
        let Some(file) = self.file.clone() else {
            let why = "nothing to reload: there is no settings file";
            tracing::warn!("{why}");
            return Err(why.to_owned());
        };
        let state = self.state.clone();
        let cached = self.cached_descriptors;
        let reloaded = tokio::task::spawn_blocking(move || {
            let mut settings = settings::load(&file).map_err(|mistakes| {
                let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                lines.join("\n")
            })?;
            settings.cache.descriptors.get_or_insert(cached);
            say_what_needs_a_restart(&state.snapshot.load().settings, &settings);
            state.reload(settings).map_err(|error| error.to_string())
        });
        let result = reloaded
            .await
            .unwrap_or_else(|_| Err("the reload has failed".to_owned()));
        match &result {
            Ok(()) => tracing::info!("reloaded"),
            Err(why) => tracing::error!("not reloaded, the old settings stay in force: {why}"),
        }
        result
    }
}

fn say_what_needs_a_restart(before: &Settings, after: &Settings) {
    let changed = [
        ("listen", before.listen != after.listen),
        ("workers", before.workers != after.workers),
        ("user", before.user != after.user),
        ("group", before.group != after.group),
        ("admin", before.admin != after.admin),
    ];
    for (key, _) in changed.iter().filter(|(_, changed)| *changed) {
        tracing::warn!("{key}: the change takes a restart, the old value stays in force");
    }
}

async fn next_stop(orders: &mut UnboundedReceiver<Order>) {
    while orders
        .recv()
        .await
        .is_some_and(|order| !matches!(order, Order::Stop))
    {}
}

/// The last words: what the cache has done, and every access log line out.
fn finish(state: &State) {
    let counted = state.cache.counters().snapshot();
    tracing::info!(
        opens = counted.calls.opens,
        fstats = counted.calls.fstats,
        closes = counted.calls.closes,
        reads = counted.calls.reads,
        hits = counted.hits,
        misses = counted.events.misses,
        negatives = counted.negatives,
        "stopped"
    );
    if !state.snapshot.load().access_log.flush(LOG_PATIENCE) {
        tracing::warn!("access log lines were lost: their writer did not keep up");
    }
}

const TICK: Duration = Duration::from_secs(1);
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// Descriptors set aside for a responder whose number of children is not known.
const UNKNOWN_SLOTS: usize = 64;
