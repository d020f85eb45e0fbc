//! The settings file: YAML text in, each room's own settings out, or every mistake with its place.
//!
//! The way of a file: [`text`] → [`tree`] (values, and their places by [`positions`]) → the parts, one
//! file for each key of the contract. A part reads its [`section`], leaves its mistakes in the
//! [`report`] and goes on, so that one run tells them all. No room imports this one: settings flow one
//! way, and a [`Settings`] never changes once it is made.

pub mod access_log;
pub mod acme;
pub mod admin;
pub mod auth;
pub mod compression;
pub mod hosts;
pub mod limits;
pub mod listen;
pub mod machine;
pub mod mistake;
pub mod moved;
pub mod nearest;
pub mod open_file_cache;
pub mod origin;
pub mod page_cache;
pub mod php;
pub mod positions;
pub mod rate_limits;
pub mod report;
pub mod rules;
pub mod scalar;
pub mod section;
pub mod site;
pub mod spool;
pub mod text;
pub mod tls;
pub mod tree;
pub mod trusted_proxies;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use crate::edge::Limits;
use crate::fastcgi::{self, SpoolSettings};
use crate::page_cache::StoreKind;
use crate::site::settings::{Backend, PageCache, Preset, SiteSettings};

pub use listen::Listen;
pub use machine::Checks;
pub use mistake::Mistake;
use mistake::Wrong;
use report::Report;
use section::{Keys, Node, Section};

/// Everything a settings file says: one immutable snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Addresses to accept connections on; at least one.
    pub listen: Vec<Listen>,
    /// Worker threads; `None` is one for each processor.
    pub workers: Option<usize>,
    /// The user to become after binding; `None` stays who it was started as.
    pub user: Option<String>,
    /// The group to become after binding; `None` is the user's own.
    pub group: Option<String>,
    /// The descriptor cache.
    pub cache: crate::descriptor_cache::Settings,
    /// The sites; at least one.
    pub sites: Vec<SiteSettings>,
    /// The access log.
    pub access_log: crate::access_log::Settings,
    /// Limits of connections and requests.
    pub limits: Limits,
    /// How many requests one client may make.
    pub rate_limits: Vec<crate::rate_limits::Rule>,
    /// Peers whose forwarding fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Files of further such peers, read again when they change.
    pub trusted_proxy_files: Vec<PathBuf>,
    /// Where request bodies wait until they are whole.
    pub spool: SpoolSettings,
    /// The bounds of the page cache.
    pub page_store: crate::page_cache::StoreSettings,
    /// Whether the settings file is read again when it has changed. Default: no.
    pub watch_config: bool,
    /// Where a running server is asked.
    pub admin: crate::admin::settings::Settings,
}

impl Settings {
    /// The host names that the sites answer to, wildcards too, and those that are sent on.
    pub fn hosts(&self) -> Vec<String> {
        let names = self.sites.iter().flat_map(SiteSettings::names);
        names.map(ToString::to_string).collect()
    }

    /// What is ordered, for each address where something is.
    pub fn ordered(&self) -> impl Iterator<Item = &crate::tls::settings::Acme> {
        let tls = self.listen.iter().filter_map(|it| it.tls.as_ref());
        tls.filter_map(|tls| tls.acme.as_ref())
    }

    /// The settings of `nostat serve --root`: the WordPress preset on `root`, an access log on standard
    /// output, and 127.0.0.1:8080 unless `listen` says otherwise. Without `php` only static files.
    pub fn for_root(
        root: PathBuf,
        php: Option<fastcgi::Address>,
        listen: Option<SocketAddr>,
    ) -> Self {
        let php = php.map(fastcgi::Settings::new);
        let site = SiteSettings {
            backend: php.map_or(Backend::None, Backend::Php),
            ..SiteSettings::new(root, Preset::Wordpress)
        };
        Self {
            listen: vec![Listen::on(listen.unwrap_or(LOOPBACK))],
            workers: None,
            user: None,
            group: None,
            cache: crate::descriptor_cache::Settings::default(),
            sites: vec![site],
            access_log: crate::access_log::Settings::default(),
            limits: Limits::default(),
            rate_limits: crate::rate_limits::Rule::defaults(),
            trusted_proxies: trusted_proxies::defaults(),
            trusted_proxy_files: Vec::new(),
            spool: spool::defaults(Checks::Machine),
            page_store: page_cache::store_defaults(),
            watch_config: false,
            admin: crate::admin::settings::Settings::default(),
        }
    }
}

/// Reads and checks a settings file.
///
/// # Errors
/// Every mistake of the file, in the order of its lines; or the one that it cannot be read.
pub fn load(path: &Path) -> Result<Settings, Vec<Mistake>> {
    let name = path.to_string_lossy();
    let bytes = machine::read_file(path).map_err(|error| {
        vec![Mistake {
            file: name.clone().into_owned(),
            path: String::new(),
            line: 0,
            column: 0,
            message: format!("cannot be read: {error}"),
            expected: String::new(),
        }]
    })?;
    parse(&name, &bytes, Checks::Machine)
}

/// Reads and checks the bytes of a settings file that mistakes call `name`.
///
/// # Errors
/// Every mistake of the file, in the order of its lines.
pub fn parse(name: &str, bytes: &[u8], checks: Checks) -> Result<Settings, Vec<Mistake>> {
    let text = text::read(name, bytes)?;
    let (tree, mistakes) = tree::read(name, text);
    let Some(tree) = tree else {
        return Err(mistakes);
    };
    let report = Report::new(name, tree.positions, mistakes);
    let top = Node {
        value: &tree.root,
        path: String::new(),
    };
    let settings = if top.value.is_null() {
        let expected = "expected at least sites: [{root: /var/www/wordpress, php: …}]";
        report.value("", Wrong::new("the file says nothing", expected));
        None
    } else {
        Section::open(&top, &KEYS, &report).map(|top| read(&top, &report, checks))
    };
    let mistakes = report.finish();
    match settings {
        Some(settings) if mistakes.is_empty() => Ok(settings),
        _ => Err(mistakes),
    }
}

/// Reads every part, and then what concerns more than one of them.
fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Settings {
    let name = |key, check: &dyn Fn(&str) -> Result<(), Wrong>| {
        top.read(key, |value| {
            let name = scalar::text(value)?;
            check(name).map(|()| name.to_owned())
        })
    };
    let trusted = trusted_proxies::read(top, report, checks);
    let (mut listen, paths): (Vec<_>, Vec<_>) =
        listen::read(top, report, checks).into_iter().unzip();
    let sites = site::read(top, report, checks);
    let dir = acme::store(top, report);
    acme::complete(&mut listen, &paths, &sites, &dir, report, checks);
    let settings = Settings {
        listen,
        workers: top.auto_or_count("workers", 1..=1024),
        user: name("user", &|user| checks.user(user)),
        group: name("group", &|group| checks.group(group)),
        cache: open_file_cache::read(top, report),
        sites,
        access_log: access_log::read(top, report, checks),
        limits: limits::read(top, report),
        rate_limits: rate_limits::read(top, report),
        trusted_proxies: trusted.networks,
        trusted_proxy_files: trusted.files,
        spool: spool::read(top, report, checks),
        page_store: page_cache::store(top, report),
        watch_config: top.choice("watch_config", false, &[("on", true), ("off", false)]),
        admin: admin::read(top, report, checks),
    };
    bodies_fit_the_spool(&settings, report);
    auth::users_are_not_served(&settings.sites, report);
    pages_on_disk_have_a_place(&settings, report, checks);
    settings
}

/// A body is spooled whole: one that may be larger than the spool could never be taken.
fn bodies_fit_the_spool(settings: &Settings, report: &Report) {
    let total = settings.spool.total;
    let check = |path: &str, max_body: u64| {
        if max_body > total {
            let message = format!(
                "{} is larger than spool.total ({})",
                scalar::format_size(max_body),
                scalar::format_size(total)
            );
            report.value(
                path,
                Wrong::new(message, "expected a smaller max_body or a larger spool"),
            );
        }
    };
    check("limits.max_body", settings.limits.max_body);
    for (index, site) in settings.sites.iter().enumerate() {
        check(
            &format!("sites[{index}].max_body"),
            site.max_body.unwrap_or_default(),
        );
    }
}

/// The store's folder matters only where a site keeps pages on disk.
fn pages_on_disk_have_a_place(settings: &Settings, report: &Report, checks: Checks) {
    let on_disk = |site: &SiteSettings| matches!(&site.page_cache, PageCache::Own(rules) if rules.store == StoreKind::Disk);
    if let Some(index) = settings.sites.iter().position(on_disk)
        && let Err(wrong) = page_cache::check_dir(&settings.page_store.dir, checks)
    {
        report.value(&format!("sites[{index}].page_cache"), wrong);
    }
}

const KEYS: Keys = Keys {
    known: &[
        "listen",
        "workers",
        "user",
        "group",
        "open_file_cache",
        "sites",
        "access_log",
        "limits",
        "rate_limits",
        "trusted_proxies",
        "spool",
        "page_store",
        "acme_store",
        "watch_config",
        "admin",
    ],
    later: &[],
};

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

#[cfg(test)]
mod tests;
