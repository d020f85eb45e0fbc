//! Which site is meant: by Host, or by the authority of an absolute target.
//!
//! Exact names first, then the longest wildcard (`*.example.com`), then the site without hosts; nothing else is
//! answered (421).

use std::sync::Arc;

use crate::site::host_names::Names;
use crate::site::static_site::StaticSite;

/// The sites of one configuration.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Arc<StaticSite>>,
    names: Names,
}

impl Sites {
    /// Sites in the order of the settings. Where two claim one name the first has it.
    #[must_use]
    pub fn new(sites: Vec<Arc<StaticSite>>) -> Sites {
        let mut names = Names::default();
        for (index, site) in sites.iter().enumerate() {
            let settings = site.settings();
            let hosts = settings.hosts.iter().chain(&settings.aliases);
            names.add(index, hosts.chain(&settings.redirect_hosts));
        }
        Sites { sites, names }
    }

    /// The site that answers to this host (with or without a port).
    #[must_use]
    pub fn select(&self, host: Option<&[u8]>) -> Option<&Arc<StaticSite>> {
        self.sites.get(self.names.select(host)?)
    }

    /// All sites, in the order of the settings.
    #[must_use]
    pub fn all(&self) -> &[Arc<StaticSite>] {
        &self.sites
    }
}
