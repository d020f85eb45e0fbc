//! What a file system promises: whether the kernel tells all its changes, and whether a descriptor held open disturbs it.

use std::collections::{HashMap, HashSet};

/// How a file system is to be treated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Locality {
    /// Every change is made through this kernel, which tells it.
    Told,
    /// Local, but not known to tell everything.
    Local,
    /// Others may change it without this kernel knowing, and a descriptor held open keeps them from removing files (NFS
    /// renames what is open, SMB refuses).
    Remote,
}

impl Locality {
    /// That of a file system by its magic number (`f_type` of statfs).
    pub fn of(magic: i64) -> Self {
        // The number is 32 bits wide and negative on some architectures.
        let magic = magic & 0xFFFF_FFFF;
        if TOLD.contains(&magic) {
            Self::Told
        } else if REMOTE.contains(&magic) {
            Self::Remote
        } else {
            Self::Local
        }
    }
}

/// The file systems met so far, by device number.
#[derive(Debug, Default)]
pub struct FileSystems {
    known: HashMap<u64, Locality>,
    demoted: HashSet<u64>,
}

impl FileSystems {
    /// What is known of a device.
    pub fn locality(&self, device: u64) -> Option<Locality> {
        self.known.get(&device).copied()
    }

    /// Notes what a device is.
    pub fn learn(&mut self, device: u64, locality: Locality) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(device, locality);
    }

    /// Mounts have changed: device numbers may stand for others now.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Believes no event of this device any more; whether it did until now.
    pub fn demote(&mut self, device: u64) -> bool {
        self.demoted.insert(device)
    }

    /// Whether a change went untold on this device.
    pub fn is_demoted(&self, device: u64) -> bool {
        self.demoted.contains(&device)
    }
}

/// ext2, ext3 and ext4, XFS, btrfs, F2FS, ZFS, bcachefs, tmpfs, overlayfs.
const TOLD: [i64; 8] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x0102_1994,
    0x794C_7630,
];
/// NFS, SMB, CIFS, SMB2, FUSE (sshfs, GlusterFS, s3fs, virtiofs), 9p, Ceph, AFS twice, Coda, OCFS2, GFS2, Lustre,
/// VirtualBox' and VMware's shared folders.
const REMOTE: [i64; 15] = [
    0x6969,
    0x517B,
    0xFF53_4D42,
    0xFE53_4D42,
    0x6573_5546,
    0x0102_1997,
    0x00C3_6400,
    0x5346_414F,
    0x6B41_4653,
    0x7375_7245,
    0x7461_636F,
    0x0116_1970,
    0x0BD0_0BD0,
    0x786F_4256,
    0xBACB_ACBC,
];
/// Devices remembered: one process sees a handful.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_tell_networks_do_not_and_others_are_polled() {
        assert_eq!(Locality::of(0xEF53), Locality::Told);
        assert_eq!(Locality::of(0x6969), Locality::Remote);
        assert_eq!(Locality::of(0x4D44), Locality::Local, "vfat");
        assert_eq!(
            Locality::of(i64::from(0x9123_683E_u32.cast_signed())),
            Locality::Told,
            "a number that is negative in 32 bits"
        );
    }

    #[test]
    fn a_demotion_outlives_a_change_of_mounts() {
        let mut systems = FileSystems::default();
        systems.learn(1, Locality::Told);
        assert!(systems.demote(1));
        assert!(!systems.demote(1));
        systems.forget();
        assert_eq!(systems.locality(1), None);
        assert!(systems.is_demoted(1));
    }
}
