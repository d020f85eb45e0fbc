//! What a lookup asks for and what it answers.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::FileEntry;
use super::file::OpenFile;

/// What the caller is going to do with the file.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Want {
    /// Know its facts, and perhaps send its content: as [`Want::Content`], but a file of which only the facts are held is
    /// answered without its content.
    Facts,
    /// Send its content: the file must be readable for this process.
    Content,
    /// Name it to PHP: it must exist and be a regular file. It is not opened for reading, since PHP-FPM may read what
    /// this process may not.
    Script,
}

/// The answer of a lookup.
#[derive(Clone, Debug)]
pub struct Looked {
    /// What stands at the path.
    pub found: Found,
    /// How the answer came about.
    pub outcome: Outcome,
}

/// What stands at a path.
#[derive(Clone, Debug)]
pub enum Found {
    /// A regular file.
    File(FileFound),
    /// A directory.
    Directory,
    /// Nothing.
    Missing,
}

impl Found {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// A regular file that was found.
#[derive(Clone, Debug)]
pub struct FileFound {
    /// Its facts; shared by all requests that found this state of it.
    pub entry: Arc<FileEntry>,
    /// Where its content comes from.
    pub source: Source,
}

/// Where the content of a file comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The whole content, read in one look.
    Memory(Bytes),
    /// The descriptor that the facts were taken from.
    Descriptor(Arc<OpenFile>),
    /// Nowhere: the lookup was for [`Want::Script`], or for [`Want::Facts`] and nothing more is held.
    None,
}

/// How an answer came about: for the access log and the metrics.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// From the table, without a system call.
    Hit,
    /// The file was opened: nothing was known of it, or its descriptor had been given up.
    Miss,
    /// From the table: there was nothing a moment ago.
    Negative,
    /// A known file was looked at again and is unchanged.
    Retested,
    /// A known file was looked at again and is another one now, or changed, or gone.
    Replaced,
    /// The look of another request answered this one, too.
    Waited,
}

impl Outcome {
    /// The word for logs and metrics, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Negative => "negative",
            Self::Retested => "retested",
            Self::Replaced => "replaced",
            Self::Waited => "waited",
        }
    }
}

/// Why a lookup has no answer.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum LookupError {
    /// EACCES or EPERM: a directory of the path may not be searched, or the file not be read.
    #[error("permission denied")]
    Forbidden,
    /// A symbolic link that the site's policy does not follow, or too many of them.
    #[error("symbolic link refused")]
    LinkRefused,
    /// A FIFO, socket or device; it was not opened.
    #[error("not a regular file")]
    NotRegular,
    /// Descriptors or memory ran out even after idle descriptors were given up, or the file system does not answer.
    #[error("the file system cannot be asked at the moment")]
    Unavailable,
    /// Any other error of the file system, by its errno.
    #[error("file system error {0}")]
    Io(i32),
}

impl LookupError {
    /// The status of the answer: 403, 503 (with Retry-After) or 500.
    pub fn status(self) -> u16 {
        match self {
            Self::Forbidden | Self::LinkRefused | Self::NotRegular => 403,
            Self::Unavailable => 503,
            Self::Io(_) => 500,
        }
    }

    /// The word for whoever looks into the cache.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::LinkRefused => "link_refused",
            Self::NotRegular => "not_regular",
            Self::Unavailable => "unavailable",
            Self::Io(_) => "error",
        }
    }

    /// Whether the error is a property of the tree that may be remembered for a moment.
    pub(super) fn is_cacheable(self) -> bool {
        matches!(self, Self::Forbidden | Self::LinkRefused | Self::NotRegular)
    }
}
