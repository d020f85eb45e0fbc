//! `sites[]`: one document root, what answers for what is not in it, and its rules.

use std::path::PathBuf;

use serde_yaml::Value;

use crate::descriptor_cache::{LinkPolicy, LinkTargets, Symlinks};
use crate::request::head::Method;
use crate::request::target::Target;
use crate::site::settings::{
    Backend, EtagMode, Htaccess, MissingAssets, MissingPhp, Multisite, Preset, Sendfile,
    SiteSettings,
};

use super::hosts::Taken;
use super::limits::MAX_BODY;
use super::machine::Checks;
use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::section::{Keys, Node, Section, list_items};
use super::{auth, compression, moved, origin, page_cache, php, rules, scalar};

/// All sites; there must be one.
pub fn read(top: &Section<'_, '_>, report: &Report, checks: Checks) -> Vec<SiteSettings> {
    let expected = "expected e.g. sites: [{root: /var/www/wordpress, php: \"127.0.0.1:9000\"}]";
    let Some(node) = top.required("sites", expected) else {
        return Vec::new();
    };
    let items = match node.value {
        Value::Sequence(items) if !items.is_empty() => list_items(items, &node.path),
        other => {
            let message = match other {
                Value::Sequence(_) => "the list is empty".to_owned(),
                other => format!("{} is not a list", scalar::shown(other)),
            };
            report.value(&node.path, Wrong::new(message, expected));
            return Vec::new();
        }
    };
    let mut taken = Taken::default();
    items
        .iter()
        .filter_map(|node| read_one(node, &mut taken, report, checks))
        .collect()
}

fn read_one(
    node: &Node<'_>,
    taken: &mut Taken,
    report: &Report,
    checks: Checks,
) -> Option<SiteSettings> {
    let site = Section::open(node, &KEYS, report)?;
    let hosts = taken.read(&site, "hosts", report);
    let aliases = taken.read(&site, "aliases", report);
    let redirect_hosts = taken.read(&site, "redirect_hosts", report);
    moved::hosts_lead_to_one(&site, &hosts, report);
    if site.node("hosts").is_none() {
        taken.any_host(&node.path, report);
        if site.node("aliases").is_some() {
            let message = "aliases without hosts: the site answers to any host already";
            report.key(
                &site.path("aliases"),
                Wrong::new(message, "expected hosts too"),
            );
        }
    }
    let root = site
        .required("root", "expected e.g. root: /var/www/wordpress")
        .and_then(|node| report.accept(&node.path, directory(node.value, checks)))
        .unwrap_or_default();
    let preset = site.choice("preset", Preset::Wordpress, PRESETS);
    let default = SiteSettings::new(root, preset);
    let content_dir = site
        .texts("content_dir", segment)
        .unwrap_or(default.content_dir);
    let paths = |key| site.texts(key, rules::pattern).unwrap_or_default();
    Some(SiteSettings {
        redirects: moved::redirects(&site, hosts.iter().chain(&aliases), report),
        redirect_hosts,
        auth: auth::read(&site, report, checks),
        health: site.node("health").and_then(|node| health(&node, report)),
        hosts,
        aliases,
        root: default.root,
        preset,
        backend: backend(&site, preset, &node.path, report),
        etag: site.choice("etag", default.etag, ETAGS),
        links: LinkPolicy {
            symlinks: site.choice("symlinks", default.links.symlinks, SYMLINKS),
            targets: link_targets(&site, &content_dir, report, checks),
        },
        content_dir,
        htaccess: site.choice("htaccess", default.htaccess, HTACCESS),
        deny: paths("deny"),
        no_php: paths("no_php"),
        missing_php: site.choice("missing_php", default.missing_php, MISSING_PHP),
        missing_assets: site.choice("missing_assets", default.missing_assets, MISSING_ASSETS),
        missing_assets_php: paths("missing_assets_php"),
        warm: paths("warm"),
        multisite: site.choice("multisite", default.multisite, MULTISITE),
        cache_control: rules::cache_control(&site, report),
        headers: rules::headers(&site, report),
        page_cache: page_cache::read(&site, preset, report, checks),
        precompressed: site.choice(
            "precompressed",
            default.precompressed,
            &[("on", true), ("off", false)],
        ),
        compression: compression::read(&site, report),
        sendfile: site.choice("sendfile", default.sendfile, SENDFILE),
        max_body: site.read("max_body", |value| scalar::size(value, MAX_BODY)),
        client_ip_header: site.read("client_ip_header", |value| {
            scalar::text(value).and_then(rules::field_name)
        }),
    })
}

/// The path of `health: {path}`.
fn health(node: &Node<'_>, report: &Report) -> Option<String> {
    if scalar::word(node.value) == Some("off") {
        return None;
    }
    let health = Section::open(node, &HEALTH_KEYS, report)?;
    let path = health.required("path", "expected e.g. path: /healthz")?;
    let wrong = |text: &str| {
        let message = format!("{} is not a path", quoted(text));
        Err(Wrong::new(message, "expected e.g. /healthz"))
    };
    let read = scalar::text(path.value).and_then(|text| {
        match Target::parse(&Method::Get, text.as_bytes()) {
            // As it is decoded, so that it can be compared.
            Ok(target) if *target.path == *text.as_bytes() && target.query.is_none() => {
                Ok(text.to_owned())
            }
            _ => wrong(text),
        }
    });
    report.accept(&path.path, read)
}

/// What answers for everything that is no static file.
fn backend(site: &Section<'_, '_>, preset: Preset, path: &str, report: &Report) -> Backend {
    match (site.node("php"), site.node("origin")) {
        (Some(php), Some(origin)) => {
            let message = "php and origin exclude each other";
            report.key(&origin.path, Wrong::new(message, "keep one of them"));
            // Both are still checked.
            origin::read(&origin, report);
            php::read(&php, report).map_or(Backend::None, Backend::Php)
        }
        (Some(php), None) => {
            if preset == Preset::Static {
                let message = "the preset static runs no PHP";
                let expected = "expected preset: wordpress or php, or no php";
                report.key(&php.path, Wrong::new(message, expected));
            }
            php::read(&php, report).map_or(Backend::None, Backend::Php)
        }
        (None, Some(node)) => origin::read(&node, report).map_or(Backend::None, Backend::Origin),
        (None, None) => {
            if preset != Preset::Static {
                let message = "neither php nor origin is given, and the preset needs one";
                let expected = "expected e.g. php: \"unix:/run/php/php8.2-fpm.sock\", \
                                or preset: static";
                report.value(path, Wrong::new(message, expected));
            }
            Backend::None
        }
    }
}

fn link_targets(
    site: &Section<'_, '_>,
    content_dirs: &[String],
    report: &Report,
    checks: Checks,
) -> LinkTargets {
    let auto = || LinkTargets::Auto {
        content_dirs: content_dirs.to_vec(),
    };
    let Some(node) = site.node("link_targets") else {
        return auto();
    };
    let Value::Sequence(items) = node.value else {
        report.accept(
            &node.path,
            scalar::choice(node.value, &[("auto", ())]).map_err(|wrong| Wrong {
                expected: "expected auto, or a list of directories".to_owned(),
                ..wrong
            }),
        );
        return auto();
    };
    let target = |node: &Node<'_>| report.accept(&node.path, directory(node.value, checks));
    LinkTargets::Listed(
        list_items(items, &node.path)
            .iter()
            .filter_map(target)
            .collect(),
    )
}

/// An absolute directory below `/`.
fn directory(value: &Value, checks: Checks) -> Result<PathBuf, Wrong> {
    let path = scalar::absolute_path(value)?;
    if path.parent().is_none() {
        let message = "/ is the whole machine";
        return Err(Wrong::new(message, "expected the directory of the site"));
    }
    checks.directory(path)?;
    Ok(path.to_owned())
}

/// One segment of a path.
fn segment(text: &str) -> Result<String, Wrong> {
    let text = text.trim_matches('/');
    if text.is_empty() || matches!(text, "." | "..") || text.contains(['/', '\\']) {
        let message = format!("{} is not the name of a folder", quoted(text));
        return Err(Wrong::new(message, "expected e.g. [wp-content, app]"));
    }
    Ok(text.to_owned())
}

const PRESETS: &[(&str, Preset)] = &[
    ("wordpress", Preset::Wordpress),
    ("php", Preset::Php),
    ("static", Preset::Static),
];

const ETAGS: &[(&str, EtagMode)] = &[
    ("mtime", EtagMode::Mtime),
    ("content", EtagMode::Content),
    ("nginx", EtagMode::Nginx),
];

const SYMLINKS: &[(&str, Symlinks)] = &[
    ("beneath", Symlinks::Beneath),
    ("follow", Symlinks::Follow),
    ("off", Symlinks::Off),
];

const HTACCESS: &[(&str, Htaccess)] = &[("deny", Htaccess::Deny), ("ignore", Htaccess::Ignore)];

const MISSING_PHP: &[(&str, MissingPhp)] = &[
    ("not_found", MissingPhp::NotFound),
    ("wordpress", MissingPhp::Wordpress),
];

const MISSING_ASSETS: &[(&str, MissingAssets)] = &[
    ("not_found", MissingAssets::NotFound),
    ("php", MissingAssets::Php),
];

const MULTISITE: &[(&str, Multisite)] = &[
    ("off", Multisite::Off),
    ("subdirectory", Multisite::Subdirectory),
    ("subdomain", Multisite::Subdomain),
];

const SENDFILE: &[(&str, Sendfile)] = &[
    ("auto", Sendfile::Auto),
    ("on", Sendfile::On),
    ("off", Sendfile::Off),
];

const HEALTH_KEYS: Keys = Keys {
    known: &["path"],
    later: &[],
};

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "hosts",
        "aliases",
        "redirect_hosts",
        "redirects",
        "auth",
        "health",
        "root",
        "preset",
        "php",
        "origin",
        "etag",
        "symlinks",
        "link_targets",
        "content_dir",
        "htaccess",
        "deny",
        "no_php",
        "missing_php",
        "missing_assets",
        "missing_assets_php",
        "warm",
        "multisite",
        "cache_control",
        "headers",
        "page_cache",
        "precompressed",
        "compression",
        "sendfile",
        "max_body",
        "client_ip_header",
    ],
    later: &[],
};
