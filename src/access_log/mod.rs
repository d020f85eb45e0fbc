//! The access log: one line a request, formatted where the request ends and written by a thread of its own.
//!
//! A worker appends its finished line to a bounded queue and goes on; it never waits for a disk or a terminal. When the
//! queue is full the line is lost, the loss is counted, and the writer says so in the program's log once in a while.

pub mod date;
pub mod format;
pub mod record;
pub mod settings;
pub mod sink;
pub mod writer;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use record::Record;
pub use settings::{Format, LogPath, Settings};
use sink::Sink;
use writer::Writer;

/// A handle on the access log; cloning it shares the queue and the file.
///
/// The writer's thread ends by itself, with everything written, when the last clone is gone.
#[derive(Clone, Debug)]
pub struct AccessLog {
    open: Option<Arc<Open>>,
}

impl AccessLog {
    /// No log: [`AccessLog::write`] costs one branch.
    pub const fn off() -> Self {
        Self { open: None }
    }

    /// Opens the log that the settings name and starts its writer; `format: off` opens nothing.
    ///
    /// # Errors
    /// The file could not be opened for appending, or the thread could not be started.
    pub fn open(settings: &Settings) -> io::Result<Self> {
        let render: Render = match settings.format {
            Format::Off => return Ok(Self::off()),
            Format::Combined => format::combined,
            Format::Json => format::json,
        };
        let sink = match &settings.path {
            LogPath::Stdout => Sink::stdout(),
            LogPath::File(path) => Sink::file(path)?,
        };
        Self::started(render, sink)
    }

    /// Whether lines are written at all; a caller need not gather a record otherwise.
    #[inline]
    pub fn enabled(&self) -> bool {
        self.open.is_some()
    }

    /// Writes one line. Never blocks and, once a thread has written its first lines, never allocates.
    pub fn write(&self, record: &Record<'_>) {
        let Some(open) = &self.open else { return };
        LINE.with_borrow_mut(|line| {
            (open.render)(line, record);
            open.writer.push(line, record.time.seconds);
            line.clear();
            line.shrink_to(LINE_KEPT);
        });
    }

    /// Opens the file again by its path, before the next line is written: for log rotation.
    pub fn reopen(&self) {
        if let Some(open) = &self.open {
            open.writer.reopen();
        }
    }

    /// Waits until every line handed over so far is written, at most `patience`; false when it was not enough.
    /// For the end of the process: it blocks.
    pub fn flush(&self, patience: Duration) -> bool {
        self.open
            .as_ref()
            .is_none_or(|open| open.writer.flush(patience))
    }

    /// Lines lost since the log was opened, to a full queue or a failed write.
    pub fn lost(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.writer.lost())
    }

    fn started(render: Render, sink: Sink) -> io::Result<Self> {
        let writer = Writer::start(sink)?;
        Ok(Self {
            open: Some(Arc::new(Open { render, writer })),
        })
    }
}

/// Appends one record as one line, its newline included.
type Render = fn(&mut Vec<u8>, &Record<'_>);

#[derive(Debug)]
struct Open {
    render: Render,
    writer: Writer,
}

thread_local! {
    /// The line being formatted, so that a worker allocates once and not once a request.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that a thread keeps for its next line; a hostile request's long line gives the rest back.
const LINE_KEPT: usize = 4096;

#[cfg(test)]
mod tests;
