//! Where a running server is asked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The doors to the admin endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The Unix socket. Default: [`Place::Auto`].
    pub socket: Place,
    /// An address to listen on as well. Default: none.
    pub listen: Option<SocketAddr>,
    /// A file whose first line is the word that clients of that address say.
    pub token_file: Option<PathBuf>,
}

/// Where the Unix socket is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// [`DEFAULT_SOCKET`], if its folder is there and may be written to.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// At this path.
    At(PathBuf),
}

impl Place {
    /// The path to bind; none: nothing is bound.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        let default = Path::new(DEFAULT_SOCKET);
        match self {
            Place::Off => None,
            Place::At(path) => Some(path.clone()),
            Place::Auto => {
                let folder = default.parent()?;
                let is_usable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
                is_usable.then(|| default.to_owned())
            }
        }
    }
}

/// Where packages have it, and where the command line looks for it.
pub const DEFAULT_SOCKET: &str = "/run/nostat/admin.sock";
