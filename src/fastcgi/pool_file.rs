//! `pm.max_children`, and what else is told, of the PHP-FPM pool that listens at an address.
//!
//! Only what is on this machine can be read; a responder in another container has no limit here.

#![expect(
    clippy::disallowed_methods,
    reason = "PHP-FPM's settings lie outside the document root"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::settings::Address;

/// `pm.max_children` of the pool listening at `address`; `None` when no file on this machine
/// says so. When several do, the lowest. Reads files: not for a worker.
pub fn max_children(address: &Address) -> Option<usize> {
    max_children_in(Path::new("/"), address)
}

/// As [`max_children`], with the usual folders looked for below `root`.
pub fn max_children_in(root: &Path, address: &Address) -> Option<usize> {
    pools_in(root, address)
        .iter()
        .filter_map(|pool| pool.max_children)
        .min()
}

/// The pools that listen at `address`, by the files below `root` in the usual folders. Reads files: not for a worker.
pub fn pools_in(root: &Path, address: &Address) -> Vec<Pool> {
    PATTERNS
        .iter()
        .flat_map(|pattern| folders(root, pattern))
        .flat_map(|folder| in_folder(&folder, address))
        .collect()
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
fn in_folder(folder: &Path, address: &Address) -> Vec<Pool> {
    let mut pools = Pools::new();
    for path in entries(folder) {
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
            && let Ok(text) = std::fs::read(&path)
        {
            read_pools(&path, &String::from_utf8_lossy(&text), &mut pools);
        }
    }
    let of_address = |(name, pool): &(String, Pool)| {
        let listen = pool.listen.as_deref().unwrap_or_default();
        is_address(&listen.replace("$pool", name), address)
    };
    let pools = pools.into_iter().filter(of_address);
    pools.map(|(_, pool)| pool).collect()
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

/// What the files say of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The file that says most lately something of it.
    pub file: PathBuf,
    /// `listen`, as it is written.
    pub listen: Option<String>,
    /// `pm.max_children`.
    pub max_children: Option<usize>,
    /// `pm`: static, dynamic or ondemand.
    pub mode: Option<String>,
    /// `listen.backlog`.
    pub backlog: Option<i64>,
    /// `request_terminate_timeout`, when it is on.
    pub terminate: Option<Duration>,
}

/// Adds what a file says of its pools: sections `[name]`, lines `key = value`, comments after `;`.
fn read_pools(file: &Path, text: &str, pools: &mut Pools) {
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
        pool.file = file.to_owned();
        match key.trim() {
            "listen" => pool.listen = Some(value.to_owned()),
            "pm.max_children" => pool.max_children = value.parse().ok().filter(|&count| count > 0),
            "pm" => pool.mode = Some(value.to_owned()),
            "listen.backlog" => pool.backlog = value.parse().ok(),
            "request_terminate_timeout" => pool.terminate = seconds(value),
            _ => {}
        }
    }
}

/// A time as PHP-FPM has it: seconds, or with `s`, `m`, `h` or `d`. Zero is off.
fn seconds(text: &str) -> Option<Duration> {
    let unit = |(number, factor): (&str, u64)| number.parse::<u64>().ok()?.checked_mul(factor);
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let with_unit = units
        .iter()
        .find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    unit(with_unit.unwrap_or((text, 1)))
        .filter(|&seconds| seconds > 0)
        .map(Duration::from_secs)
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
