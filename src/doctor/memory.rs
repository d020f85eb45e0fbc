//! Memory: what the settings allow to be held, against what the process may have.

use std::path::Path;

use super::finding::{Finding, SETTINGS};
use super::machine;
use super::size::rounded;
use crate::settings::Settings;
use crate::site::settings::PageCache;

/// A bound, and who sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    bytes: u64,
    by: String,
}

/// Judges the caches' budgets.
#[must_use]
pub fn examine(settings: &Settings) -> Option<Finding> {
    let bound = bound(Path::new("/"))?;
    Some(judge(settings, &bound))
}

fn judge(settings: &Settings, bound: &Bound) -> Finding {
    let keeps_pages = settings
        .sites
        .iter()
        .any(|site| matches!(site.page_cache, PageCache::Own(_)));
    let pages = match keeps_pages {
        true => settings.page_store.memory,
        false => 0,
    };
    let content = settings.cache.content;
    let entries = u64::try_from(settings.cache.max)
        .unwrap_or(u64::MAX)
        .saturating_mul(BYTES_OF_ENTRY);
    let wanted = content.saturating_add(pages).saturating_add(entries);
    let found = format!(
        "the caches may grow to {} (small files {}, pages {}, entries {}) of {}, {}",
        rounded(wanted),
        rounded(content),
        rounded(pages),
        rounded(entries),
        rounded(bound.bytes),
        bound.by
    );
    let share = |percent: u64| bound.bytes / 100 * percent;
    // What gives most is named: pages, else small files.
    let key = match pages > content {
        true => ("page_store: {memory: ", pages),
        false => ("open_file_cache: {content: ", content),
    };
    let rest = wanted - key.1;
    let fitting = share(WARNING).saturating_sub(rest).max(1 << 20) >> 20;
    let line = format!("{}{fitting}MiB}}", key.0);
    if wanted > share(PROBLEM) {
        Finding::problem("memory", found).put(SETTINGS, line)
    } else if wanted > share(WARNING) {
        Finding::warning("memory", found).put(SETTINGS, line)
    } else {
        Finding::ok("memory", found)
    }
}

/// The tightest of the control groups' limits, else the machine's memory.
fn bound(root: &Path) -> Option<Bound> {
    let groups = machine::text(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.is_empty() {
            tightest(&root.join("sys/fs/cgroup"), path, "memory.max")
        } else if controllers.split(',').any(|one| one == "memory") {
            tightest(
                &root.join("sys/fs/cgroup/memory"),
                path,
                "memory.limit_in_bytes",
            )
        } else {
            None
        }
    });
    let total = machine::text(root.join("proc/meminfo")).and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    let machine = total.map(|bytes| Bound {
        bytes,
        by: "the machine's memory, which PHP and the database need, too".to_owned(),
    });
    let group = limits.min().map(|bytes| Bound {
        bytes,
        by: "the limit of its control group (MemoryMax in the unit, or the container's)".to_owned(),
    });
    match (group, machine) {
        (Some(group), Some(machine)) if group.bytes >= machine.bytes => Some(machine),
        (Some(group), _) => Some(group),
        (None, machine) => machine,
    }
}

/// A group is bound by those that it is in as well.
fn tightest(tree: &Path, group: &str, file: &str) -> Option<u64> {
    let group = Path::new(group.trim_start_matches('/'));
    group
        .ancestors()
        .filter_map(|group| machine::number(tree.join(group).join(file)))
        .min()
}

/// Keys, facts and prepared heads of a file.
const BYTES_OF_ENTRY: u64 = 512;
const WARNING: u64 = 50;
const PROBLEM: u64 = 80;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs;

    use super::super::finding::Severity;
    use super::*;

    fn verdict(bytes: u64) -> Finding {
        let settings = Settings::for_root("/srv/w".into(), None, None);
        let bound = Bound {
            bytes,
            by: "the limit".to_owned(),
        };
        judge(&settings, &bound)
    }

    #[test]
    fn the_caches_are_to_leave_room() {
        // 64 MiB of content and 100,000 entries.
        assert_eq!(verdict(1 << 30).severity, Severity::Ok);
        assert_eq!(verdict(200 << 20).severity, Severity::Warning);
        assert_eq!(verdict(128 << 20).severity, Severity::Problem);
        let line = verdict(200 << 20).remedy.unwrap().line;
        assert_eq!(line, "open_file_cache: {content: 51MiB}");
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:  4194304 kB\n");
        assert_eq!(bound(root.path()).unwrap().bytes, 4 << 30);
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/memory.max", "1073741824\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(bound(root.path()).unwrap().bytes, 1 << 30);
        write("proc/self/cgroup", "5:cpu,memory:/c\n");
        write(
            "sys/fs/cgroup/memory/c/memory.limit_in_bytes",
            "9223372036854771712",
        );
        assert_eq!(bound(root.path()).unwrap().bytes, 4 << 30);
    }
}
