//! What needs rights and is done first: sockets are bound, then the rights are given up.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pingora_core::server::{Fds, ListenFds};
use socket2::{Domain, Protocol, Socket, Type};

use crate::admin::AdminDoors;
use crate::admin::settings::{DEFAULT_SOCKET, Place};
use crate::inherited::Inherited;
use crate::settings::Settings;
use crate::token::Token;
use crate::upgrade::Sockets;

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}{hint}", hint = listen_hint(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The user or group cannot be taken on.
    #[error("cannot become user {user}: {source}")]
    Privileges {
        /// As it was written.
        user: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The admin token cannot be read.
    #[error("admin.token_file {}: {source}", path.display())]
    Token {
        /// The path asked for.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// The admin socket cannot be bound.
    #[error("cannot bind the admin socket {}: {source}{}", path.display(), admin_hint(source))]
    Admin {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

fn admin_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another server answers there",
        io::ErrorKind::NotFound => "; its folder does not exist",
        io::ErrorKind::PermissionDenied => "; its folder must be writable for this user",
        _ => "",
    }
}

/// Sockets that are listening.
pub struct Bound {
    /// By the address as it was written.
    pub fds: ListenFds,
    /// The address of each, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
}

/// Binds every address of the settings that was not inherited, so that a port that is taken is known at once. `kept` is
/// for a successor.
///
/// # Errors
/// One of them cannot be listened on.
pub fn bind(
    settings: &Settings,
    inherited: &mut Inherited,
    kept: &mut Sockets,
) -> Result<Bound, BindError> {
    let mut fds = Fds::new();
    let mut addresses = Vec::new();
    for listen in &settings.listen {
        let failed = |source| BindError::Listen {
            address: listen.address,
            source,
        };
        let socket = match inherited.tcp(listen.address) {
            Some(socket) => socket,
            None => {
                // Both kinds of all addresses may be asked for: then one socket must not take the other's.
                let is_for_all = |other: &SocketAddr| {
                    other.is_ipv4()
                        && other.port() == listen.address.port()
                        && other.ip().is_unspecified()
                };
                let only_v6 = settings
                    .listen
                    .iter()
                    .any(|other| is_for_all(&other.address));
                bind_one(listen.address, only_v6).map_err(failed)?
            }
        };
        kept.keep(&socket).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let scheme = listen.tls.as_ref().map_or("http", |_| "https");
        tracing::info!("listening on {scheme}://{address}");
        addresses.push(address);
        fds.add(listen.address.to_string(), socket.into_raw_fd());
    }
    Ok(Bound {
        fds: Arc::new(Mutex::new(fds)),
        addresses,
    })
}

/// Binds the doors of the admin endpoints, if there are to be any.
///
/// # Errors
/// One cannot be bound, or another process answers there; the token cannot be read.
pub fn bind_admin(
    settings: &Settings,
    inherited: &mut Inherited,
    kept: &mut Sockets,
) -> Result<AdminDoors, BindError> {
    let admin = &settings.admin;
    let mut doors = AdminDoors::default();
    let kept_at_default = match admin.socket {
        Place::Auto => inherited.unix(DEFAULT_SOCKET.as_ref()),
        Place::Off | Place::At(_) => None,
    };
    if let Some(listener) = kept_at_default {
        doors.add_socket(listener, DEFAULT_SOCKET.as_ref());
        tracing::info!("admin socket {DEFAULT_SOCKET}");
    } else if let Some(path) = admin.socket.path() {
        let failed = |source| BindError::Admin {
            path: path.clone(),
            source,
        };
        let bound = match inherited.unix(&path) {
            Some(listener) => {
                doors.add_socket(listener, &path);
                Ok(())
            }
            None => doors.bind_socket(&path),
        };
        match bound {
            Ok(()) => tracing::info!("admin socket {}", path.display()),
            // Nobody has asked for it: another server of this machine may have it.
            Err(error) if admin.socket == Place::Auto => {
                tracing::info!("no admin socket at {}: {error}", path.display());
            }
            Err(source) => return Err(failed(source)),
        }
    }
    if let Some(address) = admin.listen {
        let failed = |source| BindError::Listen { address, source };
        let token = match &admin.token_file {
            None => None,
            Some(path) => Some(Token::read(path).map_err(|source| BindError::Token {
                path: path.clone(),
                source,
            })?),
        };
        let listener = match inherited.tcp(address) {
            Some(listener) => listener,
            None => bind_one(address, false).map_err(failed)?,
        };
        tracing::info!("admin on http://{}", listener.local_addr().map_err(failed)?);
        doors.add_tcp(listener, token);
    }
    doors.keep(kept).map_err(|source| BindError::Admin {
        path: admin.socket.path().unwrap_or_default(),
        source,
    })?;
    Ok(doors)
}

fn bind_one(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if only_v6 && address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has no program that this process may start ever gain rights, when it is to give up root's: to be called before there
/// is a second thread, as each has a mark of its own.
///
/// # Errors
/// The kernel does not know of that.
pub fn gain_no_rights(settings: &Settings) -> Result<(), BindError> {
    let Some(user) = &settings.user else {
        return Ok(());
    };
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| BindError::Privileges {
        user: user.clone(),
        source: error.into(),
    })
}

/// Becomes the user and group of the settings; nothing later needs more rights. PHP may be of the same user: it is not to
/// look into this process for the admin token.
///
/// # Errors
/// They are not known, or may not be taken on.
pub fn give_up_privileges(settings: &Settings, admin: &AdminDoors) -> Result<(), BindError> {
    use nix::unistd::{Group, User, initgroups, setgid, setuid};
    let Some(name) = &settings.user else {
        return Ok(());
    };
    let failed = |source: io::Error| BindError::Privileges {
        user: name.clone(),
        source,
    };
    let missing = || failed(io::ErrorKind::NotFound.into());
    let user = User::from_name(name)
        .map_err(|error| failed(error.into()))?
        .ok_or_else(missing)?;
    let group = match &settings.group {
        None => user.gid,
        Some(group) => {
            Group::from_name(group)
                .map_err(|error| failed(error.into()))?
                .ok_or_else(missing)?
                .gid
        }
    };
    if nix::unistd::geteuid() == user.uid && nix::unistd::getegid() == group {
        return hide().map_err(failed);
    }
    admin
        .give_to(user.uid.as_raw(), group.as_raw())
        .map_err(failed)?;
    for dir in settings.ordered().map(|acme| &acme.dir) {
        if let Err(error) = make_for(dir, user.uid.as_raw(), group.as_raw()) {
            tracing::warn!("{} could not be made for {name}: {error}", dir.display());
        }
    }
    let name = std::ffi::CString::new(user.name.as_bytes()).map_err(|_| missing())?;
    initgroups(&name, group).map_err(|error| failed(error.into()))?;
    setgid(group).map_err(|error| failed(error.into()))?;
    setuid(user.uid).map_err(|error| failed(error.into()))?;
    hide().map_err(failed)
}

/// Makes a folder that this user alone may use. One that is there stays as it is.
fn make_for(dir: &Path, user: u32, group: u32) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => std::os::unix::fs::chown(dir, Some(user), Some(group)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Has the kernel let root alone look into this process' memory.
fn hide() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;
