//! inotify: whether there are watches for all folders, and an instance for the process.

use rustix::io::Errno;

use super::finding::{Finding, SYSCTL};
use super::machine;
use super::survey::Survey;
use crate::descriptor_cache::Watch;
use crate::descriptor_cache::inotify::Inotify;
use crate::descriptor_cache::watch::MOST_WATCHES;
use crate::settings::Settings;
use crate::settings::scalar::format_duration;

/// Folders that may be watched, of all roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    count: u64,
    is_cut: bool,
}

impl Folders {
    /// Adds those of a root.
    pub fn add(&mut self, survey: &Survey) {
        self.count += survey.folders;
        self.is_cut |= survey.is_cut;
    }
}

/// Judges the kernel's limits, which count for each user by himself.
#[must_use]
pub fn examine(settings: &Settings, folders: Folders) -> Vec<Finding> {
    if settings.cache.watch == Watch::Off {
        let found = format!(
            "open_file_cache.watch is off: a changed file is seen after {}",
            format_duration(settings.cache.valid)
        );
        return vec![Finding::note("watches", found)];
    }
    let mut findings = Vec::new();
    if let Some(most) = machine::number("/proc/sys/fs/inotify/max_user_watches") {
        findings.push(judge(most, folders, &format_duration(settings.cache.valid)));
    } else {
        let found = "fs.inotify.max_user_watches cannot be read: 65536 watches are taken to be ours (ProcSubset=pid in the unit hides it)";
        findings.push(Finding::note("watches", found));
    }
    let most = machine::number("/proc/sys/fs/inotify/max_user_instances").unwrap_or(0);
    match Inotify::new() {
        Ok(_) => {}
        Err(Errno::MFILE) => {
            let found = format!(
                "this user has all of its {most} inotify instances: nothing could be watched"
            );
            findings.push(
                Finding::warning("watches", found)
                    .put(SYSCTL, "fs.inotify.max_user_instances = 512"),
            );
        }
        Err(errno) => {
            let found = format!("inotify cannot be used ({errno}): nothing could be watched");
            findings.push(Finding::warning("watches", found));
        }
    }
    findings
}

fn judge(most: u64, folders: Folders, valid: &str) -> Finding {
    let bound = u64::try_from(MOST_WATCHES).unwrap_or(u64::MAX);
    let ours = (most / 2).min(bound);
    let count = folders.count;
    let at_least = if folders.is_cut { "at least " } else { "" };
    let found = format!(
        "{at_least}{count} folders below the roots, {ours} watches for them (half of fs.inotify.max_user_watches, which is {most}, and {bound} at most)"
    );
    if count > ours {
        let found = format!("{found}: what is used beyond that is looked at every {valid}");
        let finding = Finding::warning("watches", found);
        if ours == bound {
            return finding;
        }
        // Half of it is to be enough, with room to grow.
        let wanted = (count.saturating_mul(3)).max(2 * bound).next_power_of_two();
        return finding.put(SYSCTL, format!("fs.inotify.max_user_watches = {wanted}"));
    }
    Finding::ok("watches", found)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn folders(count: u64) -> Folders {
        Folders {
            count,
            is_cut: false,
        }
    }

    #[test]
    fn half_of_the_limit_is_for_all_folders() {
        assert_eq!(judge(16_384, folders(8192), "30s").severity, Severity::Ok);
        let short = judge(16_384, folders(8193), "30s");
        assert_eq!(short.severity, Severity::Warning);
        assert_eq!(
            short.remedy.map(|remedy| remedy.line).as_deref(),
            Some("fs.inotify.max_user_watches = 131072")
        );
        assert!(
            short.found.ends_with("looked at every 30s"),
            "{}",
            short.found
        );
    }

    #[test]
    fn what_no_setting_would_help_has_none() {
        let much = judge(1 << 20, folders(100_000), "30s");
        assert_eq!((much.severity, much.remedy), (Severity::Warning, None));
    }
}
