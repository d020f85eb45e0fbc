//! The validators of a file: entity-tag and modification date (RFC 9110 §8.8).
//!
//! A date that archives and build tools write everywhere tells nothing about the file: then there is no Last-Modified,
//! and the entity-tag is a hash of the content; so it is when a file was seen with other content and the same times. A
//! racy file, which may change once more without its times telling, has
//! a weak entity-tag that no settled state has, and is never confirmed by it.

use crate::clock::UnixTime;
use crate::descriptor_cache::FileEntry;
use crate::site::settings::EtagMode;

/// The modification date to send, in Unix seconds. None when the file's own says nothing, or may not tell the next
/// change from this one.
#[must_use]
pub fn last_modified(entry: &FileEntry, now: UnixTime) -> Option<i64> {
    let modified = entry.modified();
    let same_second_may_come = entry.racy && now.nanos_since(modified) < RACY_NANOS;
    (is_meaningful(modified, now) && !same_second_may_come && !entry.lookalike)
        .then_some(modified.seconds)
}

/// Whether the entity-tag has to be made from the content.
#[must_use]
pub fn needs_hash(mode: EtagMode, entry: &FileEntry, now: UnixTime) -> bool {
    let told_by_times = is_meaningful(entry.modified(), now) && !entry.lookalike;
    !entry.racy && (mode == EtagMode::Content || !told_by_times)
}

/// The entity-tag as sent, with quotes and `W/`.
#[must_use]
pub fn entity_tag(mode: EtagMode, entry: &FileEntry, now: UnixTime) -> Box<[u8]> {
    let (modified, changed, size) = (
        nanos(entry.modified()),
        nanos(entry.changed()),
        entry.size(),
    );
    let tag = if entry.racy {
        format!("W/\"{modified:x}-{size:x}-r{changed:x}\"")
    } else if needs_hash(mode, entry, now) {
        match entry.known_content_hash() {
            Some(hash) => format!("\"{hash:032x}\""),
            // The content could not be read just now; the times say as much as they can.
            None => format!("W/\"{modified:x}-{size:x}-c{changed:x}\""),
        }
    } else if mode == EtagMode::Nginx {
        format!("\"{:x}-{size:x}\"", entry.modified().seconds)
    } else {
        format!("\"{modified:x}-{size:x}\"")
    };
    tag.into_bytes().into_boxed_slice()
}

/// Whether a modification time says when the file was modified.
fn is_meaningful(modified: UnixTime, now: UnixTime) -> bool {
    let UnixTime { seconds, .. } = modified;
    seconds > 1
        && modified <= now
        && seconds != NPM_EPOCH
        && !is_zip_epoch(seconds)
        && seconds <= LAST_DATE
}

/// 1980-01-01, the first date an archive can hold, in any zone: zip has local time.
fn is_zip_epoch(seconds: i64) -> bool {
    let apart = seconds - ZIP_EPOCH;
    apart.abs() <= WIDEST_ZONE && apart % ZONE_STEP == 0
}

fn nanos(time: UnixTime) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// 1985-10-26T08:15:00Z, what npm writes.
const NPM_EPOCH: i64 = 499_162_500;
/// 1980-01-01T00:00:00Z.
const ZIP_EPOCH: i64 = 315_532_800;
const WIDEST_ZONE: i64 = 14 * 3600;
const ZONE_STEP: i64 = 15 * 60;
/// 9999-12-31T23:59:59Z, the last that IMF-fixdate can write.
const LAST_DATE: i64 = 253_402_300_799;
const RACY_NANOS: i128 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor_cache::Identity;

    const NOW: UnixTime = UnixTime {
        seconds: 1_700_000_000,
        nanos: 0,
    };

    fn entry(seconds: i64, nanos: u32, racy: bool) -> FileEntry {
        let modified = UnixTime { seconds, nanos };
        let changed = UnixTime {
            seconds: 1_600_000_000,
            nanos: 1,
        };
        let identity = Identity {
            device: 1,
            inode: 2,
            size: 10,
            modified,
            changed,
            links: 1,
            mode: 0o100_644,
        };
        FileEntry::new(identity, racy)
    }

    fn tag(mode: EtagMode, entry: &FileEntry) -> String {
        String::from_utf8_lossy(&entity_tag(mode, entry, NOW)).into_owned()
    }

    #[test]
    fn the_three_forms() {
        let file = entry(1_704_164_645 - 10_000_000, 500_000_000, false);
        assert_eq!(
            tag(EtagMode::Mtime, &file),
            format!("\"{:x}-a\"", 1_694_164_645_500_000_000_u64)
        );
        assert_eq!(
            tag(EtagMode::Nginx, &file),
            format!("\"{:x}-a\"", 1_694_164_645)
        );
        assert_eq!(last_modified(&file, NOW), Some(1_694_164_645));
        assert!(needs_hash(EtagMode::Content, &file, NOW));
        assert!(!needs_hash(EtagMode::Mtime, &file, NOW));
    }

    #[test]
    fn dates_that_say_nothing() {
        for seconds in [
            0,
            1,
            -5,
            i64::MIN / 2,
            ZIP_EPOCH,
            ZIP_EPOCH + 3600,
            ZIP_EPOCH - 5 * 3600 - 1800,
            NPM_EPOCH,
            NOW.seconds + 1,
            i64::MAX,
        ] {
            let file = entry(seconds, 0, false);
            assert_eq!(last_modified(&file, NOW), None, "{seconds}");
            for mode in [EtagMode::Mtime, EtagMode::Nginx, EtagMode::Content] {
                assert!(needs_hash(mode, &file, NOW), "{seconds}");
                assert!(
                    tag(mode, &file).starts_with("W/"),
                    "no content was read yet"
                );
            }
        }
        for seconds in [
            2,
            ZIP_EPOCH + 1,
            ZIP_EPOCH + 86_400,
            NPM_EPOCH + 1,
            NOW.seconds,
        ] {
            assert_eq!(last_modified(&entry(seconds, 0, false), NOW), Some(seconds));
        }
    }

    #[test]
    fn a_racy_file_has_a_tag_that_no_settled_one_has() {
        for mode in [EtagMode::Mtime, EtagMode::Nginx, EtagMode::Content] {
            let racy = tag(mode, &entry(NOW.seconds, 0, true));
            assert!(racy.starts_with("W/\"") && racy.contains("-r"), "{racy}");
            assert_ne!(racy, tag(mode, &entry(NOW.seconds, 0, false)));
            assert!(!needs_hash(mode, &entry(NOW.seconds, 0, true), NOW));
        }
    }

    #[test]
    fn the_date_of_a_racy_file_is_sent_only_when_a_change_would_alter_it() {
        assert_eq!(last_modified(&entry(NOW.seconds - 1, 0, true), NOW), None);
        assert_eq!(
            last_modified(&entry(NOW.seconds - 100, 0, true), NOW),
            Some(NOW.seconds - 100)
        );
    }
}
