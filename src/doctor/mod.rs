//! `nostat doctor`: what will limit a settings file on this machine, and what to do about it.
//!
//! Nothing is changed and nothing is bound; no server need run. Each check measures something, then judges the number by
//! a function of its own that needs no machine, and says what it found as [`finding::Finding`]s: one sentence, and the
//! line to put where.
//!
//! | file | what it answers |
//! |---|---|
//! | [`finding`] | what was found, how bad it is, what to do |
//! | [`report`] | all findings, for a terminal or as JSON |
//! | [`progress`] | what is being looked at, for who waits |
//! | [`machine`] | the only file that looks at what lies outside the document roots |
//! | [`identity`] | may the user that the server runs as? |
//! | [`survey`] | what is in a document root: folders, `.htaccess` files, links |
//! | [`limits`] | descriptors: connections, cached files |
//! | [`watches`] | inotify |
//! | [`kernel`] | openat2, the accept queue |
//! | [`file_systems`] | where events can be believed |
//! | [`calls`] | what a system call costs here |
//! | [`memory`], [`size`] | bytes, against what the process may have |
//! | [`places`] | spool, page store, access log, admin socket |
//! | [`php`], [`responder`], [`pool`] | does PHP-FPM answer, from the same tree; how many at a time |
//! | [`htaccess`], [`directive`] | what `.htaccess` files say that is not followed |
//! | [`plugins`], [`wp_config`] | what WordPress has that needs a key |
//! | [`links`] | symbolic links that are refused |
//! | [`compare`], [`fetch`], [`page_names`] | the same files from two servers |

pub mod calls;
pub mod compare;
pub mod directive;
pub mod fetch;
pub mod file_systems;
pub mod finding;
pub mod htaccess;
pub mod identity;
pub mod kernel;
pub mod limits;
pub mod links;
pub mod machine;
pub mod memory;
pub mod moved;
pub mod page_names;
pub mod php;
pub mod places;
pub mod plugins;
pub mod pool;
pub mod progress;
pub mod report;
pub mod responder;
pub mod size;
pub mod survey;
pub mod watches;
pub mod wp_config;

use std::path::PathBuf;

use self::finding::Finding;
use self::identity::Identity;
use self::report::Report;
use self::survey::Survey;
use crate::clock::Clock;
use crate::descriptor_cache::{DescriptorCache, Watch};
use crate::settings::Settings;
use crate::site::settings::SiteSettings;

/// One site, and where it stands in the settings file.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Its number in `sites`.
    pub index: usize,
    /// What it is told.
    pub settings: &'a SiteSettings,
}

impl Site<'_> {
    /// What a finding calls it.
    #[must_use]
    pub fn name(&self) -> String {
        self.settings.name()
    }

    /// Where a key of it belongs.
    #[must_use]
    pub fn place(&self) -> String {
        format!("sites[{}] of the settings file", self.index)
    }
}

/// Looks at everything. `tell` hears what is being looked at. `compare` is the address of the server in use now.
#[must_use]
pub fn examine(settings: &Settings, compare: Option<&str>, tell: &dyn Fn(&str)) -> Report {
    let clock = Clock::system();
    let identity = Identity::of(settings);
    let mut findings = Vec::new();
    findings.extend(limits::examine(settings));
    findings.extend(kernel::examine());
    findings.extend(memory::examine(settings));
    findings.extend(places::examine(settings, &identity));

    // Links are judged by the very code that serves; it watches nothing here.
    let cache = DescriptorCache::new(
        crate::descriptor_cache::Settings {
            watch: Watch::Off,
            ..settings.cache.clone()
        },
        clock.clone(),
    );
    let mut folders = watches::Folders::default();
    let mut roots: Vec<PathBuf> = Vec::new();
    for (index, settings_of_site) in settings.sites.iter().enumerate() {
        let site = Site {
            index,
            settings: settings_of_site,
        };
        tell(&format!("{}: PHP-FPM", site.name()));
        findings.extend(php::examine(site, &identity));
        let root = match cache.root(&site.settings.root, site.settings.links.clone()) {
            Ok(root) => root.current(),
            Err(error) => {
                let found = format!("the root cannot be opened: {error}");
                findings.push(Finding::problem("root", found).of(&site.name()));
                continue;
            }
        };
        findings.extend(identity.may_read(site, root.resolved()));
        if roots.iter().any(|seen| seen == root.resolved()) {
            continue;
        }
        roots.push(root.resolved().to_owned());
        tell(&format!("{}: folders", root.resolved().display()));
        let targets: Vec<PathBuf> = root.link_targets().map(PathBuf::from).collect();
        let survey = Survey::of(root.resolved(), &targets, &clock);
        folders.add(&survey);
        findings.extend(file_systems::examine(
            site,
            root.resolved(),
            &targets,
            &settings.cache,
        ));
        findings.extend(calls::examine(site, &survey));
        findings.extend(links::examine(site, root.resolved(), &targets, &survey));
        findings.extend(htaccess::examine(site, root.resolved(), &survey, &identity));
        findings.extend(plugins::examine(site, root.resolved()));
        findings.extend(wp_config::examine(site, root.resolved()));
    }
    findings.extend(watches::examine(settings, folders));
    let comparison = compare.map(|url| {
        tell(&format!("comparing with {url}"));
        compare::examine(settings, url, &mut findings)
    });
    Report::new(findings, comparison.flatten())
}
