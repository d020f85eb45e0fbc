//! The knobs of the descriptor cache, by nginx's names where nginx has them.

use std::time::Duration;

/// What `open_file_cache` of the settings file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Files and directories remembered at most (default 100,000). Each shard of the table keeps its part of it, and
    /// at least one.
    pub max: usize,
    /// Descriptors kept open at most; `None` (default) takes half of what the process' limit leaves, see
    /// [`DescriptorBudget`](super::budget::DescriptorBudget).
    pub descriptors: Option<usize>,
    /// Bytes of small files held in memory at most (default 64 MiB). Bytes of running transfers count, too.
    pub content: u64,
    /// The largest file whose bytes are held, in bytes (default 64 KiB).
    pub content_max_file: u64,
    /// An entry unused for this long is released (default 60 s).
    pub inactive: Duration,
    /// How long a file or directory is used without another look (default 30 s). Zero looks at each use.
    pub valid: Duration,
    /// The same where others may change files without this machine's knowing: on network file systems (default 5 s).
    pub valid_remote: Duration,
    /// Where changes are told by the kernel instead (default: where it can tell all of them).
    pub watch: Watch,
    /// Uses within `inactive` before a path may hold a descriptor or bytes (default 2).
    pub min_uses: u32,
    /// Whether failed lookups are remembered (default yes).
    pub errors: bool,
    /// How long a missing file stays missing without another look (default 2 s).
    pub errors_valid: Duration,
    /// Failed lookups remembered at most (default 10,000). They never displace files.
    pub errors_max: usize,
}

/// Which file systems are watched (inotify).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Those that are known to tell every change.
    Auto,
    /// All but network file systems.
    On,
    /// None.
    Off,
}

impl Watch {
    /// The word of the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max: 100_000,
            descriptors: None,
            content: 64 << 20,
            content_max_file: 64 << 10,
            inactive: Duration::from_secs(60),
            valid: Duration::from_secs(30),
            valid_remote: Duration::from_secs(5),
            watch: Watch::Auto,
            min_uses: 2,
            errors: true,
            errors_valid: Duration::from_secs(2),
            errors_max: 10_000,
        }
    }
}
