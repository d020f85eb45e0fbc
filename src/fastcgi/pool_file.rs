//! `pm.max_children` from the settings of the PHP-FPM pool that listens at an address.
//!
//! Only what is on this machine can be read; a responder in another container has no limit here.

#![expect(
    clippy::disallowed_methods,
    reason = "PHP-FPM's settings lie outside the document root"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::settings::Address;

/// `pm.max_children` of the pool listening at `address`; `None` when no file on this machine
/// says so. When several do, the lowest. Reads files: not for a worker.
pub fn max_children(address: &Address) -> Option<usize> {
    max_children_in(Path::new("/"), address)
}

/// As [`max_children`], with the usual folders looked for below `root`.
pub fn max_children_in(root: &Path, address: &Address) -> Option<usize> {
    PATTERNS
        .iter()
        .flat_map(|pattern| folders(root, pattern))
        .filter_map(|folder| in_folder(&folder, address))
        .min()
}

/// The folders that a pattern with `*` segments names.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    for segment in pattern.split('/') {
        found = match segment.split_once('*') {
            None => found.iter().map(|dir| dir.join(segment)).collect(),
            Some((prefix, _)) => {
                let names = found.iter().flat_map(|dir| entries(dir));
                names
                    .filter(|path| {
                        let name = path.file_name().unwrap_or_default();
                        name.as_encoded_bytes().starts_with(prefix.as_bytes())
                    })
                    .collect()
            }
        };
    }
    found
}

/// A folder's files are read in the order of their names, as PHP-FPM's include does; a later one
/// may complete or correct a pool of an earlier one.
fn in_folder(folder: &Path, address: &Address) -> Option<usize> {
    let mut pools = Pools::new();
    for path in entries(folder) {
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
            && let Ok(text) = std::fs::read(&path)
        {
            read_pools(&String::from_utf8_lossy(&text), &mut pools);
        }
    }
    pools
        .iter()
        .filter(|(name, pool)| {
            let listen = pool.listen.as_deref().unwrap_or_default();
            is_address(&listen.replace("$pool", name), address)
        })
        .filter_map(|(_, pool)| pool.max_children)
        .min()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

type Pools = BTreeMap<String, Pool>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Pool {
    listen: Option<String>,
    max_children: Option<usize>,
}

/// Adds what a file says of its pools: sections `[name]`, lines `key = value`, comments after `;`.
fn read_pools(text: &str, pools: &mut Pools) {
    let mut name = String::new();
    for line in text.lines() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            name = section.trim().to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"');
        let pool = pools.entry(name.clone()).or_default();
        match key.trim() {
            "listen" => pool.listen = Some(value.to_owned()),
            "pm.max_children" => pool.max_children = value.parse().ok().filter(|&count| count > 0),
            _ => {}
        }
    }
}

/// Whether a pool's `listen` (a path, a port, or host and port) is this address.
fn is_address(listen: &str, address: &Address) -> bool {
    match address {
        Address::Unix(path) => {
            let listen = Path::new(listen);
            listen.is_absolute() && (listen == path || same_file(listen, path))
        }
        Address::Tcp(address) => {
            let (host, port) = listen.rsplit_once(':').unwrap_or(("", listen));
            if port.parse() != Ok(address.port()) {
                return false;
            }
            let host = host.trim_start_matches('[').trim_end_matches(']');
            match host.parse::<IpAddr>() {
                Ok(host) if !host.is_unspecified() => host == address.ip(),
                // Any address; that it is this machine's is sure for loopback only.
                Ok(_) => address.ip().is_loopback(),
                Err(_) => address.ip().is_loopback() && matches!(host, "" | "*" | "localhost"),
            }
        }
    }
}

/// Debian has /run/php/php-fpm.sock as a link to one version's socket, and /var/run as one to /run.
fn same_file(listen: &Path, path: &Path) -> bool {
    match (listen.canonicalize(), path.canonicalize()) {
        (Ok(listen), Ok(path)) => listen == path,
        _ => false,
    }
}

/// Where distributions keep pools.
const PATTERNS: [&str; 7] = [
    "etc/php/*/fpm/pool.d",
    "etc/php-fpm.d",
    "etc/php*/php-fpm.d",
    "etc/php*/fpm.d",
    "etc/opt/remi/php*/php-fpm.d",
    "usr/local/etc/php-fpm.d",
    "opt/bitnami/php/etc/php-fpm.d",
];

#[cfg(test)]
mod tests;
