//! The doors of all listeners that speak TLS, and the watch on their files.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::clock::UnixTime;
use crate::config_watch::ConfigWatch;

use super::door::{Prepared, TlsDoor, TlsError};
use super::settings::{Acme, Settings};
use super::validity::{self, Trouble};

/// The doors by address. Which there are is known at start and does not change.
#[derive(Default)]
pub struct TlsDoors {
    doors: OnceLock<Vec<(SocketAddr, Arc<TlsDoor>)>>,
    watches: Mutex<Vec<FilesWatch>>,
    /// Apart from the watches, which are held while disks are read.
    troubles: Mutex<Vec<Trouble>>,
}

/// What a reload is going to change.
pub struct Reopening(Vec<(Arc<TlsDoor>, Prepared)>);

/// The watch on the files of one door.
struct FilesWatch {
    door: Arc<TlsDoor>,
    settings: Settings,
    files: Vec<ConfigWatch>,
    /// Why the files that are there now cannot be used.
    failed: Option<String>,
    troubles: Vec<Trouble>,
    /// The second of Unix time when they were looked for.
    judged: Option<i64>,
}

impl TlsDoors {
    /// Takes the doors in, once.
    pub fn fill(&self, doors: Vec<(SocketAddr, Arc<TlsDoor>)>) {
        *self.watches.lock() = doors.iter().map(|(_, door)| FilesWatch::on(door)).collect();
        let _ = self.doors.set(doors);
    }

    /// All of them, by address.
    pub fn all(&self) -> &[(SocketAddr, Arc<TlsDoor>)] {
        self.doors.get().map_or(&[], Vec::as_slice)
    }

    /// What is to be ordered for them, each only once.
    pub fn ordered(&self) -> Vec<Acme> {
        let mut ordered: Vec<Acme> = Vec::new();
        for acme in self
            .all()
            .iter()
            .filter_map(|(_, door)| door.settings().acme)
        {
            if !ordered.contains(&acme) {
                ordered.push(acme);
            }
        }
        ordered
    }

    /// Reads what other settings want of the doors that there are; `wanted` has them by address.
    ///
    /// # Errors
    /// The first that cannot be had, with its address. Nothing has changed either way.
    pub fn prepare<'s>(
        &self,
        wanted: impl Fn(SocketAddr) -> Option<&'s Settings>,
        hosts: &[String],
    ) -> Result<Reopening, (SocketAddr, TlsError)> {
        let mut all = Vec::new();
        for (address, door) in self.all() {
            if let Some(settings) = wanted(*address) {
                let prepared = door.prepare(settings, hosts);
                all.push((door.clone(), prepared.map_err(|error| (*address, error))?));
            }
        }
        Ok(Reopening(all))
    }

    /// Puts in force what was prepared.
    pub fn put(&self, reopening: Reopening) {
        for (door, prepared) in reopening.0 {
            door.put(prepared);
        }
        let mut watches = self.watches.lock();
        *watches = self
            .all()
            .iter()
            .map(|(_, door)| FilesWatch::on(door))
            .collect();
    }

    /// Looks at the files; those that have changed are read. Touches disks: not for a worker.
    pub fn look(&self, now: UnixTime) {
        let mut watches = self.watches.lock();
        for watch in watches.iter_mut() {
            watch.look();
            watch.judge(now);
        }
        let found = watches.iter().flat_map(|watch| watch.troubles.clone());
        *self.troubles.lock() = found.collect();
    }

    /// What was found to be the matter with certificates.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().clone()
    }
}

impl FilesWatch {
    fn on(door: &Arc<TlsDoor>) -> FilesWatch {
        let settings = door.settings();
        let files = settings.certificates.iter();
        let files = files.flat_map(|files| [files.certificate.clone(), files.key.clone()]);
        let ordered = settings.acme.iter().flat_map(|acme| {
            let files = acme.hosts.iter();
            files.map(|host| acme.file(host)).collect::<Vec<_>>()
        });
        let files = files.chain(settings.client_ca.clone()).chain(ordered);
        FilesWatch {
            files: files.map(ConfigWatch::new).collect(),
            door: door.clone(),
            settings,
            failed: None,
            troubles: Vec::new(),
            judged: None,
        }
    }

    /// Finds certificates that clients refuse, or will soon, now and then, and says so once.
    fn judge(&mut self, now: UnixTime) {
        let is_fresh = |at: i64| (0..JUDGED_EVERY).contains(&now.seconds.saturating_sub(at));
        if self.judged.is_some_and(is_fresh) {
            return;
        }
        let found = validity::troubles(&self.settings, now);
        for trouble in found.iter().filter(|it| !self.troubles.contains(it)) {
            tracing::warn!("{trouble}");
        }
        self.troubles = found;
        self.judged = Some(now.seconds);
    }

    fn look(&mut self) {
        // All are looked at, each for itself.
        let changed = self
            .files
            .iter_mut()
            .fold(false, |any, file| file.look() | any);
        if !changed && self.failed.is_none() {
            return;
        }
        self.judged = None;
        match self.door.prepare(&self.settings, &[]) {
            Ok(prepared) => {
                self.door.put(prepared);
                self.failed = None;
                tracing::info!("certificates have changed and are in use");
            }
            // A certificate and its key change one after the other: the next look may find both.
            Err(error) => {
                let why = error.to_string();
                if self.failed.as_ref() != Some(&why) {
                    tracing::warn!(
                        "certificates have changed and cannot be used, the old ones stay: {why}"
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

/// Seconds between two looks at the time that certificates are valid for.
const JUDGED_EVERY: i64 = 3600;
