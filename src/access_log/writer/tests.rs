#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Takes bytes only while its gate is open.
#[derive(Clone, Default)]
struct Gated(Arc<(Mutex<Gate>, Condvar)>);

#[derive(Default)]
struct Gate {
    open: bool,
    reached: bool,
    written: Vec<u8>,
}

impl Gated {
    fn open(&self) {
        self.0.0.lock().open = true;
        self.0.1.notify_all();
    }

    /// Waits until the writer stands before the closed gate.
    fn until_reached(&self) {
        let mut gate = self.0.0.lock();
        let waited = self
            .0
            .1
            .wait_while_for(&mut gate, |gate| !gate.reached, PATIENCE);
        assert!(!waited.timed_out());
    }

    fn written(&self) -> String {
        String::from_utf8(self.0.0.lock().written.clone()).unwrap()
    }
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut gate = self.0.0.lock();
        gate.reached = true;
        self.0.1.notify_all();
        self.0.1.wait_while(&mut gate, |gate| !gate.open);
        gate.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_beyond_the_queue_are_lost_and_counted_while_none_waits() {
    let sink = Gated::default();
    let writer = Writer::start(Sink::to(sink.clone())).unwrap();
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    writer.push(b"first\n", 0);
    sink.until_reached();
    let pushed = QUEUE_BYTES / line.len() + 10;
    (0..pushed).for_each(|_| writer.push(&line, 0));
    assert_eq!(writer.lost(), 10);
    assert!(!writer.flush(Duration::ZERO));
    sink.open();
    assert!(writer.flush(PATIENCE));
    let written = sink.written();
    assert!(written.starts_with("first\n"));
    assert_eq!(written.lines().count(), 1 + pushed - 10);
}

#[test]
fn a_dropped_writer_still_writes_what_was_queued() {
    let sink = Gated::default();
    let writer = Writer::start(Sink::to(sink.clone())).unwrap();
    writer.push(b"first\n", 0);
    sink.until_reached();
    writer.push(b"second\n", 0);
    let shared = Arc::clone(&writer.shared);
    drop(writer);
    sink.open();
    assert!(Writer { shared }.flush(PATIENCE));
    assert_eq!(sink.written(), "first\nsecond\n");
}

#[test]
fn losses_are_told_at_most_every_ten_seconds_and_at_the_end() {
    let mut losses = Losses::default();
    losses.tell(3, 100, false);
    assert_eq!((losses.told, losses.told_at), (3, Some(100)));
    losses.tell(5, 109, false);
    assert_eq!(losses.told, 3);
    losses.tell(7, 110, false);
    assert_eq!((losses.told, losses.told_at), (7, Some(110)));
    losses.tell(8, 111, true);
    assert_eq!(losses.told, 8);
}

#[test]
fn a_clock_set_back_keeps_no_loss_from_being_told() {
    let mut losses = Losses::default();
    losses.tell(1, 1_000_000, false);
    losses.tell(2, 1_000_005, false);
    assert_eq!(losses.told, 1);
    losses.tell(3, 1_000, false);
    assert_eq!(losses.told, 3);
}
