//! Another binary in place of this one, without a connection refused: it is started by this process, given the listening
//! sockets, and only when it says that it serves does this one stop accepting.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::inherited::{READY, SOCKETS};

/// Notes which binary runs, before it may be replaced: afterwards the kernel only tells that it was.
pub fn note_binary() {
    let _ = BINARY.set(std::env::current_exe().ok());
}

/// The listening sockets of this process, to be given on.
#[derive(Debug, Default)]
pub struct Sockets(Vec<OwnedFd>);

impl Sockets {
    /// Keeps another descriptor of a socket.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn keep(&mut self, socket: &impl AsFd) -> io::Result<()> {
        self.0.push(socket.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// Starts the binary that is at this one's place now, with the same words, and waits until it serves. Blocks.
    ///
    /// # Errors
    /// It could not be started, has ended, or was not ready in time: it is ended then, and this process goes on.
    pub fn hand_over(&self) -> io::Result<u32> {
        let binary = BINARY.get().cloned().flatten();
        let binary: PathBuf = binary.ok_or_else(|| io::Error::other("its binary is not known"))?;
        let (ready, tell) = io::pipe()?;
        // Descriptors that outlive exec, for the time of the start only.
        let lent: Vec<OwnedFd> = self
            .0
            .iter()
            .map(|socket| socket.as_fd().try_clone_to_owned())
            .collect::<Result<_, _>>()?;
        for socket in &lent {
            fcntl_setfd(socket, FdFlags::empty())?;
        }
        fcntl_setfd(&tell, FdFlags::empty())?;
        let numbers: Vec<String> = lent
            .iter()
            .map(|socket| socket.as_raw_fd().to_string())
            .collect();
        let started = Command::new(&binary)
            .args(std::env::args_os().skip(1))
            .env(SOCKETS, numbers.join(","))
            .env(READY, tell.as_raw_fd().to_string())
            .env_remove("LISTEN_FDS")
            .env_remove("LISTEN_PID")
            .spawn();
        drop((lent, tell));
        let child = started.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", binary.display()))
        })?;
        wait(child, ready)
    }
}

/// Waits for the word, or for the end of whoever is to say it.
fn wait(mut child: Child, mut ready: PipeReader) -> io::Result<u32> {
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("successor".into())
        .spawn(move || {
            let mut word = [0; 5];
            let _ = said.send(ready.read_exact(&mut word).is_ok());
        })?;
    match heard.recv_timeout(PATIENCE) {
        Ok(true) => Ok(child.id()),
        Ok(false) => {
            let ended = child.wait()?;
            Err(io::Error::other(format!(
                "the new process has ended at its start ({ended}); its log says why"
            )))
        }
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = PATIENCE.as_secs();
            Err(io::Error::other(format!(
                "the new process did not serve within {seconds} s and was ended"
            )))
        }
    }
}

static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
/// Time for a start: settings are read and roots looked at, perhaps over a network. Other orders wait as long, so that it is
/// shorter than service managers are patient.
const PATIENCE: Duration = Duration::from_secs(25);
