//! Writes an answer on HTTP/1: head and bytes in memory leave in one call, files follow without passing through this
//! process where that is cheaper, else by positional reads.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use http::HeaderValue;
use pingora_core::protocols::Stream;

use crate::edge::date::{Persistence, end_head};
use crate::edge::pace::{Exceeded, Pace, Patience};
use crate::edge::sending::Sending;
use crate::edge::socket;
use crate::site::{Answer, Body, FileSpan, Part, Sendfile};

/// Why an answer was not written whole. Either way the connection cannot be used again.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The client has gone.
    #[error("the client: {0}")]
    Client(#[source] io::Error),
    /// The client takes nothing for longer than `limits.send`, or is slower than `limits.send_rate`.
    #[error("the client is too slow")]
    Slow(Exceeded),
    /// The file could not be read, or is not what the head has promised any more.
    #[error("the file: {0}")]
    File(#[source] io::Error),
}

/// How answers are written to one client.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// The second of Unix time that the answer is dated by.
    pub seconds: i64,
    /// What becomes of the connection.
    pub persistence: Persistence,
    /// How long the client may take (`limits.send` and `limits.send_rate`).
    pub patience: Patience,
    /// What `Strict-Transport-Security` says of the host, if anything.
    pub hsts: Option<&'a HeaderValue>,
    /// Which files leave without passing through this process.
    pub sendfile: Sendfile,
    /// Whether bytes may be put into the socket itself; see [`socket::is_bare`].
    pub bare: bool,
}

impl Manner<'_> {
    /// Puts the end of a head behind it.
    fn end(&self, head: &mut Vec<u8>) {
        if let Some(hsts) = self.hsts
            && !has_field(head, HSTS)
        {
            head.extend_from_slice(HSTS);
            head.extend_from_slice(b": ");
            head.extend_from_slice(hsts.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        end_head(self.seconds, self.persistence, head);
    }
}

/// Writes `answer`. The content's bytes are added to `written` as they leave.
///
/// # Errors
/// See [`WriteError`].
pub async fn write_answer(
    stream: &mut Stream,
    answer: &Answer,
    manner: Manner<'_>,
    written: &mut u64,
) -> Result<(), WriteError> {
    let mut writer = Writer {
        stream,
        manner,
        pace: Pace::new(manner.patience),
        written,
    };
    match &answer.body {
        Body::Empty => writer.begin(&answer.head, &[], false).await,
        Body::File(span) if span.length == 0 => writer.begin(&answer.head, &[], false).await,
        Body::Memory(bytes) => writer.begin(&answer.head, bytes, false).await,
        Body::File(span) if writer.may_send(span) => {
            writer.begin(&answer.head, &[], true).await?;
            writer.send_file(span).await
        }
        Body::File(span) => {
            let head = ended(&answer.head, manner);
            writer.copy_file(head, span).await
        }
        Body::Parts(parts) => {
            let mut head = ended(&answer.head, manner);
            for part in parts {
                match part {
                    Part::Memory(bytes) => writer.send(&std::mem::take(&mut head), bytes).await?,
                    Part::File(span) => writer.copy_file(std::mem::take(&mut head), span).await?,
                }
            }
            Ok(())
        }
    }
}

struct Writer<'a> {
    stream: &'a mut Stream,
    manner: Manner<'a>,
    pace: Pace,
    written: &'a mut u64,
}

impl Writer<'_> {
    /// Sends the head and `body`. What the socket takes at once, which is nearly always all, costs no allocation: the head
    /// is put together in a buffer of the thread, and a short body with it. `more`: a file follows.
    async fn begin(&mut self, head: &[u8], body: &[u8], more: bool) -> Result<(), WriteError> {
        let first = std::future::poll_fn(|cx| Poll::Ready(self.put_first(cx, head, body, more)));
        let first = first.await.map_err(|error| self.failed(error));
        let First { head_length, sent } = first?;
        let of_body = sent.saturating_sub(head_length);
        *self.written += of_body as u64;
        if sent == head_length + body.len() {
            return Ok(());
        }
        let head = ended(head, self.manner);
        let head = head.get(sent..).unwrap_or_default();
        self.send(head, body.get(of_body..).unwrap_or_default())
            .await
    }

    /// What leaves without waiting.
    fn put_first(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
        more: bool,
    ) -> io::Result<First> {
        GATHERED.with_borrow_mut(|gathered| {
            gathered.clear();
            gathered.extend_from_slice(head);
            self.manner.end(gathered);
            let head_length = gathered.len();
            let apart = match body.len() <= COPIED {
                true => {
                    gathered.extend_from_slice(body);
                    &[]
                }
                false => body,
            };
            let sent = self.put_now(cx, gathered, apart, more)?;
            Ok(First { head_length, sent })
        })
    }

    fn put_now(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        rest: &[u8],
        more: bool,
    ) -> io::Result<usize> {
        let pieces = [IoSlice::new(first), IoSlice::new(rest)];
        if !self.manner.bare {
            let mut sending = Sending::new(self.stream, &mut self.pace);
            return match sending.poll_pieces(cx, &pieces) {
                Poll::Ready(result) => result,
                Poll::Pending => Ok(0),
            };
        }
        let put = match rest.is_empty() {
            true => socket::put(self.stream, first, more),
            false => socket::put_pieces(self.stream, &pieces),
        };
        match put {
            Err(error) if is_full(&error) => Ok(0),
            other => other,
        }
    }

    /// Sends `head`, then `body`, waiting for the client as long as it takes something.
    async fn send(&mut self, head: &[u8], body: &[u8]) -> Result<(), WriteError> {
        let mut sending = Sending::new(self.stream, &mut self.pace);
        let (mut head, mut body) = (head, body);
        let content = body.len();
        let result = std::future::poll_fn(|cx| sending.poll(cx, &mut head, &mut body)).await;
        *self.written += (content - body.len()) as u64;
        result.map_err(|error| self.failed(error))
    }

    /// Why a write has failed.
    fn failed(&self, error: io::Error) -> WriteError {
        match self.pace.exceeded() {
            Some(exceeded) => WriteError::Slow(exceeded),
            None => WriteError::Client(error),
        }
    }

    /// Whether the stretch is to be sent by [`send_file`](Self::send_file). What waits in the socket, and on loopback in the
    /// client's, are the pages of the file themselves: who changes them changes what is sent. So `auto` takes only files that
    /// have been left alone for a while.
    fn may_send(&self, span: &FileSpan) -> bool {
        self.manner.bare
            && match self.manner.sendfile {
                Sendfile::Auto => {
                    span.length >= SENT && span.file.is_at_rest(self.manner.seconds, AT_REST)
                }
                Sendfile::On => true,
                Sendfile::Off => false,
            }
    }

    /// Sends a stretch by sendfile as far as the page cache has it, so that no worker waits for a disk; the rest is read by
    /// the blocking pool and sent from there.
    async fn send_file(&mut self, span: &FileSpan) -> Result<(), WriteError> {
        let mut sent = 0;
        while sent < span.length {
            let rest = FileSpan {
                file: span.file.clone(),
                first: span.first + sent,
                length: span.length - sent,
            };
            sent += match self.put_file(&rest)? {
                Put::Taken(taken) => {
                    *self.written += taken;
                    let kept = self
                        .pace
                        .moved(usize::try_from(taken).unwrap_or(usize::MAX));
                    kept.map_err(WriteError::Slow)?;
                    // A client that takes all there is must not keep the others from their turn.
                    tokio::task::yield_now().await;
                    if !span.file.is_unchanged() {
                        // What has not left yet may be neither the old state nor the new one, and goes with the connection.
                        return Err(WriteError::File(changed()));
                    }
                    taken
                }
                // An ordinary write waits for the client.
                Put::Full => self.copy_start(rest, STEP).await?,
                Put::NotAtHand => self.copy_start(rest, FILE_CHUNK).await?,
            };
        }
        Ok(())
    }

    /// One call of sendfile.
    fn put_file(&self, span: &FileSpan) -> Result<Put, WriteError> {
        let length =
            usize::try_from(span.length).map_or(SENDFILE_CHUNK, |left| left.min(SENDFILE_CHUNK));
        if !span.file.is_cached(span.first, length) {
            return Ok(Put::NotAtHand);
        }
        match socket::put_file(self.stream, &*span.file, span.first, length) {
            Ok(0) => Err(WriteError::File(io::ErrorKind::UnexpectedEof.into())),
            Ok(taken) => Ok(Put::Taken(taken as u64)),
            Err(error) if is_full(&error) => Ok(Put::Full),
            // A file system whose files cannot be sent so, or a disk that fails: reading finds out.
            Err(error) if !is_of_socket(&error) => Ok(Put::NotAtHand),
            Err(error) => Err(WriteError::Client(error)),
        }
    }

    /// Sends the first bytes of a stretch by reading them; how many.
    async fn copy_start(&mut self, mut span: FileSpan, most: usize) -> Result<u64, WriteError> {
        span.length = span.length.min(most as u64);
        self.copy_file(Vec::new(), &span).await?;
        Ok(span.length)
    }

    /// Sends `head`, then a stretch by positional reads.
    async fn copy_file(&mut self, mut head: Vec<u8>, span: &FileSpan) -> Result<(), WriteError> {
        let mut sent = 0;
        while sent < span.length {
            let want =
                usize::try_from(span.length - sent).map_or(FILE_CHUNK, |left| left.min(FILE_CHUNK));
            let chunk = span
                .file
                .read_at(span.first + sent, want)
                .await
                .map_err(WriteError::File)?;
            if chunk.len() < want {
                // The head has promised more than there is: nothing is padded, the client sees the cut.
                return Err(WriteError::File(io::ErrorKind::UnexpectedEof.into()));
            }
            self.send(&head, &chunk).await?;
            head.clear();
            sent += want as u64;
        }
        Ok(())
    }
}

/// Whether a head says something of this field already: a site's `headers` may.
fn has_field(head: &[u8], name: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|before| {
        let line = head.get(before + 1..).unwrap_or_default();
        let found = line.split_at_checked(name.len());
        found.is_some_and(|(it, rest)| it.eq_ignore_ascii_case(name) && rest.starts_with(b":"))
    })
}

/// The head with its end.
fn ended(head: &[u8], manner: Manner<'_>) -> Vec<u8> {
    let mut whole = Vec::with_capacity(head.len() + HEAD_END);
    whole.extend_from_slice(head);
    manner.end(&mut whole);
    whole
}

/// What the first write has taken.
struct First {
    /// Bytes of the head with its end.
    head_length: usize,
    /// Bytes that were taken, the head's first.
    sent: usize,
}

/// What came of one call of sendfile.
enum Put {
    /// So many bytes left.
    Taken(u64),
    /// The socket takes nothing now.
    Full,
    /// The page cache does not have the bytes, or the file system cannot send them so.
    NotAtHand,
}

fn changed() -> io::Error {
    io::Error::other("it changed while it was being sent")
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn is_of_socket(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

thread_local! {
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of a file in memory at a time for one client. Below the allocator's bound of 128 KiB, from which on memory is asked of
/// the kernel, and given back, each time: a third less CPU per request at 1 MiB.
const FILE_CHUNK: usize = 96 * 1024;
/// What is read and written to learn when a client that is behind takes more: sendfile itself cannot be waited for.
const STEP: usize = 4 * 1024;
/// A body up to this length is copied behind its head: one buffer costs less to send than two.
const COPIED: usize = 4 * 1024;
/// A stretch of a file of this length or more is sent by sendfile; below it reading and writing costs no more.
const SENT: u64 = 512 * 1024;
/// Seconds for which a file must not have changed for that.
const AT_REST: i64 = 10;
const SENDFILE_CHUNK: usize = 1024 * 1024;
const HSTS: &[u8] = b"Strict-Transport-Security";
/// Room for the date and what is said of the connection.
const HEAD_END: usize = 64;
