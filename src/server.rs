//! The process: sockets bound and privileges given up first, then Pingora run.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::apps::HttpServerOptions;
use pingora_core::listeners::{ConnectionFilter, ListenerConfig};
use pingora_core::protocols::l4::stream::L4BufferSettings;
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{ListenFds, RunArgs, Server, ShutdownWatch};
use pingora_core::services::Service;
use pingora_proxy::ProxyServiceBuilder;

use crate::admin::api::Api;
use crate::binding::{BindError, Bound, bind, bind_admin, gain_no_rights, give_up_privileges};
use crate::clock::Clock;
use crate::config_watch::ConfigWatch;
use crate::descriptor_cache::budget::DescriptorBudget;
use crate::edge::lane;
use crate::edge::listener::{Http2, Listener, Listeners};
use crate::edge::proxy::{Door, Proxy};
use crate::fastcgi::session::Responder;
use crate::inherited::Inherited;
use crate::limited::Limit;
use crate::orders::{Begin, Orderly};
use crate::settings::{self, Settings};
use crate::signals;
use crate::snapshot::{LoadError, State};
use crate::tls::TlsDoor;
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
pub fn run(settings: Settings, file: Option<(PathBuf, ConfigWatch)>) -> Result<(), StartError> {
    upgrade::note_binary();
    gain_no_rights(&settings)?;
    let mut inherited = Inherited::take();
    let mut sockets = Sockets::default();
    let (give_order, orders) = signals::hear().map_err(StartError::Signals)?;
    let descriptors = raise_descriptor_limit();
    let listeners = bind(&settings, &mut inherited, &mut sockets)?;
    let admin = bind_admin(&settings, &mut inherited, &mut sockets)?;
    let predecessor = inherited.predecessor.take();
    inherited.close();
    // Keys are for root alone more often than not.
    let doors = tls_doors(&settings)?;
    give_up_privileges(&settings, &admin)?;
    if let (Some(user), Some((file, _))) = (&settings.user, &file) {
        say_what_cannot_be_read_again(user, file);
    }

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
    let of_address = listeners_of(&settings, &listeners, &doors);
    let state = State::start(settings, Clock::system(), budget.connections)?;
    state.tls.fill(doors);
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
        of_address,
    ));
    let (admin_file, admin_ended) = admin_file;
    let admin_file = Arc::new(Mutex::new(admin_file));
    let (file, watch) = file.unzip();
    let has_successor = succeeded.subscribe();
    server.run(RunArgs {
        shutdown_signal: Box::new(Orderly {
            state: state.clone(),
            file,
            cached_descriptors: budget.cached,
            begin: Mutex::new(Some(Begin {
                orders,
                predecessor,
                watch,
            })),
            sockets: Mutex::new(Some(Arc::new(sockets))),
            admin_file: admin_file.clone(),
            succeeded,
        }),
    });
    if *has_successor.borrow() {
        // Whoever has asked for it is told.
        let _ = admin_ended.recv_timeout(LAST_ANSWER);
    }
    finish(&state);
    Ok(())
}

/// What root could read and the user cannot would be known only when a reload or an upgrade is refused.
fn say_what_cannot_be_read_again(user: &str, file: &Path) {
    for mistake in settings::load(file).err().into_iter().flatten() {
        tracing::warn!(
            "a reload and an upgrade, which are done as {user}, will be refused: {mistake}"
        );
    }
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

/// The doors of the addresses where TLS ends.
fn tls_doors(settings: &Settings) -> Result<Vec<(SocketAddr, Arc<TlsDoor>)>, LoadError> {
    let mut doors = Vec::new();
    for listen in &settings.listen {
        if let Some(tls) = &listen.tls {
            let door = TlsDoor::open(tls, listen.http2 == Http2::On, &settings.hosts());
            let door = door.map_err(|error| LoadError::Tls(listen.address, error))?;
            doors.push((listen.address, Arc::new(door)));
        }
    }
    Ok(doors)
}

/// What is to be known of each address that was bound.
fn listeners_of(
    settings: &Settings,
    bound: &Bound,
    doors: &[(SocketAddr, Arc<TlsDoor>)],
) -> Listeners {
    let made = settings.listen.iter().zip(&bound.addresses);
    let made = made.map(|(listen, address)| {
        let door = doors.iter().find(|(address, _)| *address == listen.address);
        let listener = Listener {
            speaks_proxy: listen.proxy_protocol,
            tls: door.map(|(_, door)| door.clone()),
            http2: listen.http2,
            redirects: listen.redirects,
        };
        (*address, Arc::new(listener))
    });
    Listeners::new(made.collect())
}

/// The service that listens, following our order to stop instead of Pingora's.
fn listening(
    state: &Arc<State>,
    conf: &Arc<ServerConf>,
    addresses: &[String],
    bound: Bound,
    listeners: Listeners,
) -> Listening<impl Service + use<>> {
    let lane_state = state.clone();
    let on_connection = move |door: Arc<Door>, stream, stop: &ShutdownWatch| {
        // A task of its own, so that what Pingora keeps of a connection goes now and nothing of it is passed through at
        // each request. It is this task that a stop waits for; see `Lifecycle`.
        let (state, listener) = (lane_state.clone(), listeners.of(&stream));
        tokio::spawn(lane::serve(state, door, stream, stop.clone(), listener));
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
        fds: bound.fds,
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
        let has_room = self.0.lifecycle.expect(self.0.most_connections());
        if !has_room {
            self.0.limited.count(Limit::Connections);
        }
        has_room
    }
}

/// The last words: what the cache has done, and every access log line out.
fn finish(state: &State) {
    // A file that is left half written costs its repair at the next start.
    state.pages.wait_for_disk(LOG_PATIENCE);
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

/// Time for the answer to whoever has asked for a successor.
const LAST_ANSWER: Duration = Duration::from_secs(2);
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// Descriptors set aside for a responder whose number of children is not known.
const UNKNOWN_SLOTS: usize = 64;
