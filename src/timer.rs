//! What is done once a second, off the workers, as it may touch slow disks: inactive entries and rules go, roots are looked at again, a
//! changed settings file is seen, certificates that are due are ordered. A call that hangs on its disk is waited for by nobody, the process' end included.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::config_watch::ConfigWatch;
use crate::site::StaticSite;
use crate::site::warm::warm;
use crate::snapshot::{Snapshot, State};

/// Runs until the process ends. `changed` is told when the settings file has changed and `watch_config` is on.
pub async fn keep_time(state: Arc<State>, config: Option<ConfigWatch>, changed: Arc<Notify>) {
    let mut every = tokio::time::interval(TICK);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut warming = Warming::default();
    let mut looking = Looking {
        watch: config,
        under_way: None,
    };
    let mut following = Aside::default();
    let mut opening = Aside::default();
    let mut certificates = Aside::default();
    loop {
        every.tick().await;
        let snapshot = state.snapshot.load_full();
        warming.begin(&snapshot);
        let now = state.clock.unix();
        for site in snapshot.sites.all() {
            site.forget_unused(now);
        }
        let pages = state.pages;
        opening.begin(|| pages.tick());
        if !state.tls.all().is_empty() {
            let stop = state.lifecycle.order();
            state.renewals.begin_due(|| state.tls.ordered(), stop);
            let state = state.clone();
            certificates.begin(move || state.tls.look(state.clock.unix()));
        }
        if snapshot.follows_files() {
            let snapshot = snapshot.clone();
            following.begin(move || snapshot.look_at_files());
        }
        if snapshot.settings.watch_config && looking.sees_a_change().await {
            changed.notify_one();
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

/// Work off the workers, one after the other: what has not come back is waited for by nobody, and nothing is begun beside it.
#[derive(Default)]
struct Aside(Option<JoinHandle<()>>);

impl Aside {
    fn begin(&mut self, work: impl FnOnce() + Send + 'static) {
        if self.0.as_ref().is_none_or(JoinHandle::is_finished) {
            self.0 = Some(tokio::task::spawn_blocking(work));
        }
    }
}

/// The looks at the settings file, one after the other.
struct Looking {
    watch: Option<ConfigWatch>,
    under_way: Option<JoinHandle<(bool, ConfigWatch)>>,
}

impl Looking {
    /// What the look before has seen, if it has come back; another one is begun then.
    async fn sees_a_change(&mut self) -> bool {
        let mut changed = false;
        if let Some(looked) = self.under_way.take_if(|looked| looked.is_finished())
            && let Ok((is_changed, watch)) = looked.await
        {
            changed = is_changed;
            self.watch = Some(watch);
        }
        if let Some(mut watch) = self.watch.take() {
            self.under_way = Some(tokio::task::spawn_blocking(move || (watch.look(), watch)));
        }
        changed
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

const TICK: Duration = Duration::from_secs(1);
