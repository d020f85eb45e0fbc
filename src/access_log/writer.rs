//! The thread that writes the lines, and the bounded queue in front of it.
//!
//! The queue is one byte buffer: a worker holds its lock for one copy of a line, the writer for one swap of buffers. Lines
//! are gathered for a moment and written together: waking a thread for each of them would cost more than answering does.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::sink::Sink;

/// The near end of the queue. Dropping it lets the thread write what is queued and end.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn start(sink: Sink) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let far_end = Arc::clone(&shared);
        thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(&far_end, sink))?;
        Ok(Self { shared })
    }

    /// Queues one line, its newline included, written at `seconds` of Unix time; lost when the queue is full.
    pub fn push(&self, line: &[u8], seconds: i64) {
        let mut queue = self.shared.queue.lock();
        queue.seconds = seconds;
        if queue.lines.len() + line.len() > QUEUE_BYTES {
            queue.lost += 1;
            return;
        }
        let before = queue.lines.len();
        queue.lines.extend_from_slice(line);
        let is_due = before < WRITTEN_AT_ONCE && queue.lines.len() >= WRITTEN_AT_ONCE;
        drop(queue);
        if before == 0 || is_due {
            self.shared.work.notify_one();
        }
    }

    /// Asks for the file to be opened again before the next line is written.
    pub fn reopen(&self) {
        self.shared.queue.lock().reopen = true;
        self.shared.work.notify_one();
    }

    /// Waits until nothing is queued or being written; false when `patience` ran out first.
    pub fn flush(&self, patience: Duration) -> bool {
        let mut queue = self.shared.queue.lock();
        queue.hurry = true;
        self.shared.work.notify_one();
        let unwritten =
            |queue: &mut Queue| queue.writing || queue.reopen || !queue.lines.is_empty();
        !self
            .shared
            .idle
            .wait_while_for(&mut queue, unwritten, patience)
            .timed_out()
    }

    /// Lines lost so far.
    pub fn lost(&self) -> u64 {
        self.shared.queue.lock().lost
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.work.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Lines were queued, or a reopening or the end was asked for.
    work: Condvar,
    /// Everything queued is written.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// When the newest line was written: the only clock here, so that losses are told by the log's own time.
    seconds: i64,
    lost: u64,
    writing: bool,
    /// Somebody waits for what is queued.
    hurry: bool,
    reopen: bool,
    closed: bool,
}

fn run(shared: &Shared, mut sink: Sink) {
    let mut batch = Vec::new();
    let mut losses = Losses::default();
    loop {
        let mut queue = shared.queue.lock();
        queue.writing = false;
        while queue.lines.is_empty() && !queue.reopen && !queue.closed {
            queue.hurry = false;
            shared.idle.notify_all();
            shared.work.wait(&mut queue);
        }
        let gathers = |queue: &mut Queue| {
            queue.lines.len() < WRITTEN_AT_ONCE && !queue.hurry && !queue.reopen && !queue.closed
        };
        shared
            .work
            .wait_while_for(&mut queue, gathers, GATHERED_FOR);
        let ended = queue.closed && queue.lines.is_empty();
        let reopen = std::mem::take(&mut queue.reopen);
        queue.writing = !ended;
        std::mem::swap(&mut queue.lines, &mut batch);
        let (lost, seconds) = (queue.lost, queue.seconds);
        drop(queue);
        losses.tell(lost, seconds, ended);
        if ended {
            shared.idle.notify_all();
            return;
        }
        if reopen && let Err(error) = sink.reopen() {
            tracing::error!(%error, "the access log could not be opened again; the old file goes on");
        }
        if let Err(lines_lost) = sink.write_lines(&batch) {
            losses.why = Some(lines_lost.error);
            shared.queue.lock().lost += lines_lost.lines;
        }
        batch.clear();
    }
}

/// What has been said of lost lines.
#[derive(Default)]
struct Losses {
    told: u64,
    told_at: Option<i64>,
    why: Option<io::Error>,
}

impl Losses {
    /// Says how many lines were lost since the last time, at most every [`TELL_EVERY`] seconds save at the end.
    fn tell(&mut self, lost: u64, now: i64, ended: bool) {
        let lines = lost.saturating_sub(self.told);
        let early = self
            .told_at
            .is_some_and(|at| (0..TELL_EVERY).contains(&now.saturating_sub(at)));
        if lines == 0 || (early && !ended) {
            return;
        }
        match self.why.take() {
            Some(error) => tracing::error!(lines, %error, "access log lines lost"),
            None => tracing::warn!(
                lines,
                "access log lines lost: they came faster than they could be written"
            ),
        }
        self.told = lost;
        self.told_at = Some(now);
    }
}

/// Bytes that may wait: some 5,000 lines. The buffer being written is another one of this size at most.
const QUEUE_BYTES: usize = 1 << 20;

/// Lines are written when they are this many bytes, or the first of them has waited this long.
const WRITTEN_AT_ONCE: usize = 64 * 1024;
const GATHERED_FOR: Duration = Duration::from_millis(200);

/// Seconds between two words about lost lines.
const TELL_EVERY: i64 = 10;

#[cfg(test)]
mod tests;
