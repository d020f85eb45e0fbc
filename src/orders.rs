//! The orders that a running process obeys: read the settings again, hand over to another binary, reopen the log, stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::admin::socket::SocketFile;
use crate::config_watch::ConfigWatch;
use crate::inherited::Predecessor;
use crate::service_manager;
use crate::settings::{self, Listen, Settings};
use crate::signals::Order;
use crate::snapshot::{REFRESHES, State};
use crate::timer::keep_time;
use crate::tls;
use crate::upgrade::Sockets;

/// Who obeys, until the last connection has gone after the order to stop.
pub struct Orderly {
    /// What is served.
    pub state: Arc<State>,
    /// The settings file, if there is one.
    pub file: Option<PathBuf>,
    /// Descriptors for the cache where the settings do not say.
    pub cached_descriptors: usize,
    /// Taken up when serving begins.
    pub begin: Mutex<Option<Begin>>,
    /// For a successor; none: this process stops.
    pub sockets: Mutex<Option<Arc<Sockets>>>,
    /// The admin socket's file.
    pub admin_file: Arc<Mutex<SocketFile>>,
    /// Turns true when a successor serves.
    pub succeeded: tokio::sync::watch::Sender<bool>,
}

/// What is taken up once, when serving begins.
pub struct Begin {
    /// The orders as they come.
    pub orders: UnboundedReceiver<Order>,
    /// Who is to be told that this process serves.
    pub predecessor: Option<Predecessor>,
    /// The watch on the settings file.
    pub watch: Option<ConfigWatch>,
}

#[async_trait]
impl ShutdownSignalWatch for Orderly {
    /// Obeys orders; returns when everything in flight has ended after the order to stop, or at the second one.
    async fn recv(&self) -> ShutdownSignal {
        let taken = self.begin.lock().take();
        let Some(Begin {
            mut orders,
            predecessor,
            watch,
        }) = taken
        else {
            return ShutdownSignal::FastShutdown;
        };
        let changed = Arc::new(Notify::new());
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
                    let now = self.state.clock.unix();
                    self.state.reloads.count(&result, now);
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
            left = self.drain(patience) => {
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

impl Orderly {
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
            watch = settings.cache.watch.as_str(),
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

    /// Waits until connections and then pages that are fetched anew have ended, at most `patience`. Returns the number of
    /// connections left.
    async fn drain(&self, patience: Duration) -> usize {
        let began = tokio::time::Instant::now();
        let left = self.state.lifecycle.drain(patience).await;
        let fetched = self.state.refreshes.available_permits();
        if left == 0 && fetched < REFRESHES {
            // Nobody waits for them, but a script is not to be cut off in its midst.
            tracing::info!(
                pages = REFRESHES - fetched,
                "waiting for pages that are fetched anew"
            );
            let all = u32::try_from(REFRESHES).unwrap_or(u32::MAX);
            let ended = self.state.refreshes.acquire_many(all);
            let _ = tokio::time::timeout_at(began + patience, ended).await;
        }
        left
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
        ("listen", !listens_alike(before, after)),
        ("workers", before.workers != after.workers),
        ("user", before.user != after.user),
        ("group", before.group != after.group),
        ("admin", before.admin != after.admin),
    ];
    for (key, _) in changed.iter().filter(|(_, changed)| *changed) {
        tracing::warn!("{key}: the change takes a restart, the old value stays in force");
    }
}

/// Whether the same is listened on in the same ways. What TLS shows there is taken on at once.
fn listens_alike(before: &Settings, after: &Settings) -> bool {
    let ways = |settings: &Settings| -> Vec<Listen> {
        let without = |listen: &Listen| Listen {
            tls: listen.tls.as_ref().map(|_| tls::Settings::default()),
            ..listen.clone()
        };
        settings.listen.iter().map(without).collect()
    };
    ways(before) == ways(after)
}

async fn next_stop(orders: &mut UnboundedReceiver<Order>) {
    while orders
        .recv()
        .await
        .is_some_and(|order| !matches!(order, Order::Stop))
    {}
}
