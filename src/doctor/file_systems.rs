//! The file systems at and below a root: whether their events can be believed, and what it means where they cannot.

use std::path::{Path, PathBuf};

use super::Site;
use super::finding::{Finding, SETTINGS};
use super::machine;
use crate::descriptor_cache::filesystem::Locality;
use crate::descriptor_cache::mounts::MountTable;
use crate::descriptor_cache::{Settings, Watch};
use crate::settings::scalar::format_duration;

/// Judges the root's file system, and those mounted below it and its link targets.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path, targets: &[PathBuf], cache: &Settings) -> Vec<Finding> {
    let mut places: Vec<PathBuf> = vec![root.to_owned()];
    places.extend(targets.iter().cloned());
    if let Ok(table) = MountTable::open() {
        let mounts = table.read();
        for directory in std::iter::once(root).chain(targets.iter().map(PathBuf::as_path)) {
            places.extend(mounts.below(directory).map(|point| directory.join(point)));
        }
    }
    // The root may itself be a mount.
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut findings = Vec::new();
    for place in places {
        let place: PathBuf = place.components().collect();
        if seen.contains(&place) || seen.len() == MOST {
            continue;
        }
        if let Some(system) = machine::file_system(&place) {
            findings.push(judge(&place, system.magic, cache).of(&site.name()));
        }
        seen.push(place);
    }
    findings
}

fn judge(place: &Path, magic: i64, cache: &Settings) -> Finding {
    let locality = Locality::of(magic);
    let at = format!("{} is on {}", place.display(), name(magic));
    let valid = format_duration(cache.valid);
    match (locality, cache.watch) {
        (Locality::Told, Watch::Auto | Watch::On) => {
            let found = format!("{at}: the kernel tells every change (inotify)");
            Finding::ok("file_systems", found)
        }
        (Locality::Local, Watch::On) => Finding::note(
            "file_systems",
            format!("{at}, which is not known to tell every change; watch: on believes it"),
        ),
        (Locality::Told | Locality::Local, _) => {
            let found = format!("{at}: a changed file is seen after {valid} (valid), not at once");
            let finding = Finding::note("file_systems", found);
            match locality {
                Locality::Told => finding.put(SETTINGS, "open_file_cache: {watch: auto}"),
                _ => finding.put(SETTINGS, "open_file_cache: {valid: 5s}"),
            }
        }
        (Locality::Remote, _) => {
            let valid = format_duration(cache.valid_remote);
            let found = format!(
                "{at}: others may change files unknown to this kernel, so each is opened anew every {valid}, and no descriptor is kept"
            );
            Finding::warning("file_systems", found).put(
                SETTINGS,
                "open_file_cache: {valid: 30s}   # where 30 s late is early enough",
            )
        }
    }
}

/// What people call it.
#[must_use]
pub fn name(magic: i64) -> String {
    let magic = magic & 0xFFFF_FFFF;
    NAMES
        .iter()
        .find(|(number, _)| *number == magic)
        .map_or_else(
            || format!("a file system of type {magic:#x}"),
            |(_, name)| (*name).to_owned(),
        )
}

/// Whether files there are in memory.
#[must_use]
pub fn is_in_memory(magic: i64) -> bool {
    matches!(magic & 0xFFFF_FFFF, 0x0102_1994 | 0x8584_58F6)
}

const NAMES: [(i64, &str); 18] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "F2FS"),
    (0x2FC1_2FC1, "ZFS"),
    (0xCA45_1A4E, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlayfs"),
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "Ceph"),
    (0x786F_4256, "a VirtualBox shared folder"),
    (0x4D44, "FAT"),
];
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn severity(magic: i64) -> Severity {
        judge(Path::new("/srv"), magic, &Settings::default()).severity
    }

    #[test]
    fn a_disk_tells_a_network_does_not_and_others_are_looked_at() {
        assert_eq!(severity(0xEF53), Severity::Ok);
        assert_eq!(severity(0x6969), Severity::Warning);
        assert_eq!(severity(0x4D44), Severity::Note);
        let nfs = judge(Path::new("/srv"), 0x6969, &Settings::default());
        assert!(
            nfs.found.contains("NFS") && nfs.found.contains("every 5s"),
            "{}",
            nfs.found
        );
        let off = Settings {
            watch: Watch::Off,
            ..Settings::default()
        };
        assert_eq!(
            judge(Path::new("/srv"), 0xEF53, &off).severity,
            Severity::Note
        );
    }
}
