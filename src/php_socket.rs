//! Finds PHP-FPM's socket on this machine, for `nostat serve --root`.
//!
//! Debian's packages name it `/run/php/php8.2-fpm.sock`; `php-fpm.sock` is a link to the preferred one.
//! A socket file says nothing about who listens: each candidate is connected to, highest version first.

#![expect(
    clippy::disallowed_methods,
    reason = "looks for sockets once, at start; the tree is opened elsewhere"
)]

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Where Debian and Ubuntu keep the sockets.
pub const DIRECTORY: &str = "/run/php";

/// What a search found. Its text is for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What came of it.
    pub outcome: Outcome,
    /// Sockets that nobody listens on, passed over.
    pub stale: Vec<PathBuf>,
    /// Where was searched.
    pub directory: PathBuf,
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// PHP-FPM listens here.
    Found {
        /// The socket.
        path: PathBuf,
        /// The version in its name, e.g. `8.2`.
        version: Option<String>,
    },
    /// The socket with the highest version may not be used by this user.
    Forbidden {
        /// The socket.
        path: PathBuf,
        /// The group that may use it, when one may.
        group: Option<String>,
    },
    /// There is none: only static files can be served.
    None,
}

/// Searches `directory`. The highest version that answers is taken; one that refuses this user ends the
/// search, for to run an older PHP instead would be a guess.
pub fn search(directory: &Path) -> Search {
    let mut search = Search {
        outcome: Outcome::None,
        stale: Vec::new(),
        directory: directory.to_owned(),
    };
    for Candidate { path, version } in candidates(directory) {
        match connect(&path) {
            // EAGAIN: the backlog is full. Somebody listens, and is busy.
            Ok(()) | Err(Errno::AGAIN) => {
                let version = (!version.is_empty()).then(|| dotted(&version));
                search.outcome = Outcome::Found { path, version };
                break;
            }
            Err(Errno::ACCESS) => {
                let group = permitted_group(&path);
                search.outcome = Outcome::Forbidden { path, group };
                break;
            }
            Err(_) => search.stale.push(path),
        }
    }
    search
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.stale {
            write!(f, "nobody listens on {}; ", path.display())?;
        }
        match &self.outcome {
            Outcome::Found { path, version } => {
                let version = version.as_deref().unwrap_or("of unknown version");
                write!(f, "PHP-FPM {version} at {}", path.display())
            }
            Outcome::Forbidden {
                path,
                group: Some(group),
            } => write!(
                f,
                "{} may not be used by this user: join group {group}: usermod -aG {group} $USER, \
                 then log in again; until then only static files",
                path.display()
            ),
            Outcome::Forbidden { path, group: None } => write!(
                f,
                "{} may not be used by this user, nor by any group: set listen.group and \
                 listen.mode = 0660 in its pool; until then only static files",
                path.display()
            ),
            Outcome::None => write!(
                f,
                "no PHP-FPM under {}: only static files; install php-fpm, or name it with --php",
                self.directory.display()
            ),
        }
    }
}

struct Candidate {
    path: PathBuf,
    /// The numbers of the version, empty for `php-fpm.sock`.
    version: Vec<u32>,
}

/// The sockets by falling version; the one without a version last.
fn candidates(directory: &Path) -> Vec<Candidate> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut candidates: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let version = version(entry.file_name().to_str()?)?;
            let path = entry.path();
            // Followed: the preferred one is a link into /etc/alternatives.
            let socket = fs::metadata(&path).ok()?.file_type().is_socket();
            socket.then_some(Candidate { path, version })
        })
        .collect();
    candidates.sort_by(|one, other| other.version.cmp(&one.version));
    candidates
}

/// The version in the name of a socket: `[8, 2]` of `php8.2-fpm.sock`, empty of `php-fpm.sock`.
fn version(name: &str) -> Option<Vec<u32>> {
    let version = name.strip_prefix("php")?.strip_suffix("-fpm.sock")?;
    if version.is_empty() {
        return Some(Vec::new());
    }
    version
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

fn dotted(version: &[u32]) -> String {
    let numbers: Vec<_> = version.iter().map(u32::to_string).collect();
    numbers.join(".")
}

/// Connects without waiting, and hangs up.
fn connect(path: &Path) -> Result<(), Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)
}

/// The group that owns the socket, when its mode lets the group write, which connecting needs.
pub fn permitted_group(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.mode() & GROUP_WRITE == 0 {
        return None;
    }
    let group = Group::from_gid(Gid::from_raw(metadata.gid())).ok()??;
    Some(group.name)
}

const GROUP_WRITE: u32 = 0o020;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_highest_version_is_found_by_number() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let _listeners = [
            "php8.2-fpm.sock",
            "php8.10-fpm.sock",
            "php7.4-fpm.sock",
            "php-fpm.sock",
        ]
        .map(|name| UnixListener::bind(at(name)).unwrap());
        let search = search(directory.path());
        let expected = Outcome::Found {
            path: at("php8.10-fpm.sock"),
            version: Some("8.10".to_owned()),
        };
        assert_eq!((search.outcome, search.stale), (expected, vec![]));
    }

    #[test]
    fn a_socket_nobody_listens_on_is_passed_over_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let stale = directory.path().join("php8.4-fpm.sock");
        drop(UnixListener::bind(&stale).unwrap());
        let live = directory.path().join("php-fpm.sock");
        let _listener = UnixListener::bind(&live).unwrap();
        let search = search(directory.path());
        assert_eq!(
            search.outcome,
            Outcome::Found {
                path: live,
                version: None
            }
        );
        assert_eq!(search.stale, [stale]);
        assert!(
            search
                .to_string()
                .contains("php8.4-fpm.sock; PHP-FPM of unknown version")
        );
    }

    #[test]
    fn other_names_and_other_files_are_no_candidates() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("php8.2-fpm.sock"), "").unwrap();
        let names = [
            "php8.2-fpm.pid",
            "phpx-fpm.sock",
            "mysql.sock",
            "php8.-fpm.sock",
        ];
        let _listeners = names.map(|name| UnixListener::bind(directory.path().join(name)).unwrap());
        assert_eq!(search(directory.path()).outcome, Outcome::None);
    }

    #[test]
    fn without_a_directory_only_static_files_are_served() {
        let search = search(Path::new("/nonexistent/php"));
        assert_eq!(search.outcome, Outcome::None);
        assert!(search.to_string().contains("only static files"));
    }

    #[test]
    fn a_forbidden_socket_says_which_group_to_join() {
        let search = Search {
            outcome: Outcome::Forbidden {
                path: PathBuf::from("/run/php/php8.2-fpm.sock"),
                group: Some("www-data".to_owned()),
            },
            stale: Vec::new(),
            directory: PathBuf::from(DIRECTORY),
        };
        assert!(
            search
                .to_string()
                .contains("join group www-data: usermod -aG www-data $USER")
        );
    }

    #[test]
    fn a_socket_that_refuses_this_user_ends_the_search() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("php8.2-fpm.sock");
        let _newer = UnixListener::bind(&path).unwrap();
        let _older = UnixListener::bind(directory.path().join("php8.1-fpm.sock")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let expected = if nix::unistd::geteuid().is_root() {
            // Modes bind everyone else.
            let version = Some("8.2".to_owned());
            Outcome::Found { path, version }
        } else {
            Outcome::Forbidden { path, group: None }
        };
        assert_eq!(search(directory.path()).outcome, expected);
    }

    #[test]
    fn only_a_group_that_may_write_is_named() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("php8.2-fpm.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(permitted_group(&path), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
        let gid = fs::metadata(&path).unwrap().gid();
        let group = Group::from_gid(Gid::from_raw(gid))
            .unwrap()
            .map(|group| group.name);
        assert_eq!(permitted_group(&path), group);
    }
}
