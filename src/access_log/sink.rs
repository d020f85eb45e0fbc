//! Where log lines go: standard output or a file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// An open destination that remembers a line cut short by an error.
pub struct Sink {
    out: Box<dyn Write + Send>,
    path: Option<PathBuf>,
    torn: bool,
}

impl Sink {
    /// Standard output.
    pub fn stdout() -> Self {
        Self::to(io::stdout())
    }

    /// A file, made when it is missing (mode 0640) and appended to.
    ///
    /// # Errors
    /// The file could not be opened.
    pub fn file(path: &Path) -> io::Result<Self> {
        let out = Box::new(open_append(path)?);
        Ok(Self {
            out,
            path: Some(path.to_path_buf()),
            torn: false,
        })
    }

    /// Any other writer.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self {
            out: Box::new(out),
            path: None,
            torn: false,
        }
    }

    /// Opens the file again by its path; what is no file stays as it is.
    ///
    /// # Errors
    /// The path could not be opened; the old file goes on being written.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.out = Box::new(open_append(path)?);
            self.torn = false;
        }
        Ok(())
    }

    /// Writes whole lines. After an error in the middle of a line, the next lines begin on a line of their own.
    ///
    /// # Errors
    /// How many of the lines were not written whole, and why.
    pub fn write_lines(&mut self, lines: &[u8]) -> Result<(), LinesLost> {
        if self.torn {
            self.out
                .write_all(b"\n")
                .map_err(|error| LinesLost::among(lines, error))?;
            self.torn = false;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(LinesLost::among(rest, io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    let (done, left) = rest.split_at_checked(written).unwrap_or((rest, &[]));
                    self.torn = done.last() != Some(&b'\n');
                    rest = left;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LinesLost::among(rest, error)),
            }
        }
        self.out
            .flush()
            .map_err(|error| LinesLost { lines: 0, error })
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("path", &self.path)
            .field("torn", &self.torn)
            .finish_non_exhaustive()
    }
}

/// Lines that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{lines} lines not written: {error}")]
pub struct LinesLost {
    /// How many, the one cut short among them.
    pub lines: u64,
    /// Why.
    #[source]
    pub error: io::Error,
}

impl LinesLost {
    fn among(unwritten: &[u8], error: io::Error) -> Self {
        let lines = memchr::memchr_iter(b'\n', unwritten).count();
        Self {
            lines: u64::try_from(lines).unwrap_or(u64::MAX),
            error,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a log is no part of a document root"
)]
fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use parking_lot::Mutex;

    /// A disk with room for so many bytes; more room can be made.
    #[derive(Clone)]
    struct FullDisk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (written, room) = &mut *self.0.lock();
            let taken = bytes.len().min(*room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.extend(bytes.iter().take(taken));
            *room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_cut_by_a_full_disk_does_not_join_the_next_one() {
        let disk = FullDisk(Arc::new(Mutex::new((Vec::new(), 8))));
        let mut sink = Sink::to(disk.clone());
        let lost = sink
            .write_lines(b"first\nsecond\nthird\n")
            .expect_err("the disk is full");
        assert_eq!(
            (lost.lines, lost.error.kind()),
            (2, io::ErrorKind::StorageFull)
        );
        disk.0.lock().1 = 100;
        assert!(sink.write_lines(b"fourth\n").is_ok());
        assert_eq!(disk.0.lock().0, b"first\nse\nfourth\n");
    }
}
