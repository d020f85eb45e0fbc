//! STDOUT of one request to a head and its content, by the rules for content (RFC 9110 §6.4.1, §8.6).

use bytes::Bytes;

use super::answer_buffer::AnswerBuffer;
use super::cgi_response::{CgiHead, Decoded, HeadDecoder};
use super::failure::ExchangeError;

/// A response being taken in.
///
/// The head is held back while more can be had without waiting, so that an answer that is there
/// whole gets a length, and one that turns out broken gets a 502 instead of a cut connection.
#[derive(Debug)]
pub struct Answer<'a> {
    buffer: &'a AnswerBuffer,
    to_head: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Head(HeadDecoder),
    Content {
        held_head: Option<CgiHead>,
        expected: Option<u64>,
        received: u64,
    },
    /// All that the client gets has come; what follows is dropped.
    Whole,
}

impl<'a> Answer<'a> {
    /// The answer to a request, put into `buffer`; `to_head`: the request is HEAD.
    pub fn new(buffer: &'a AnswerBuffer, to_head: bool) -> Self {
        Answer {
            buffer,
            to_head,
            stage: Stage::Head(HeadDecoder::new()),
        }
    }

    /// Takes a piece of STDOUT; waits when the client is too slow.
    ///
    /// # Errors
    /// When the head may not be passed on.
    pub async fn take(&mut self, piece: Bytes) -> Result<(), ExchangeError> {
        let content = match &mut self.stage {
            Stage::Whole => return Ok(()),
            Stage::Content { .. } => piece,
            Stage::Head(decoder) => match decoder.push(piece)? {
                None => return Ok(()),
                Some(Decoded { head, rest }) => {
                    self.begin_content(head);
                    rest
                }
            },
        };
        self.take_content(content).await;
        Ok(())
    }

    /// Lets the client have the head now, if there is one: nothing more came with it.
    pub fn release_head(&mut self) {
        if let Stage::Content { held_head, .. } = &mut self.stage
            && let Some(head) = held_head.take()
        {
            self.buffer.put_head(head);
        }
    }

    /// END_REQUEST has come.
    ///
    /// # Errors
    /// When the head is missing, or content that Content-Length promised.
    pub fn end(&mut self) -> Result<(), ExchangeError> {
        match &mut self.stage {
            Stage::Head(_) => Err(ExchangeError::NoHead),
            Stage::Content {
                expected: Some(expected),
                received,
                ..
            } if *received < *expected => Err(ExchangeError::Short {
                expected: *expected,
                received: *received,
            }),
            Stage::Content { held_head, .. } => {
                self.buffer.finish(held_head.take(), Ok(()));
                self.stage = Stage::Whole;
                Ok(())
            }
            Stage::Whole => Ok(()),
        }
    }

    fn begin_content(&mut self, head: CgiHead) {
        let replaced = head.accel_redirect.is_some() || head.sendfile.is_some();
        if self.to_head || replaced || matches!(head.status, 204 | 205 | 304) {
            self.buffer.put_head_without_content(head);
            self.stage = Stage::Whole;
            return;
        }
        let buffering = head.buffering;
        self.stage = Stage::Content {
            expected: head.content_length,
            held_head: Some(head),
            received: 0,
        };
        if !buffering {
            self.buffer.pass_as_it_comes();
            self.release_head();
        }
    }

    async fn take_content(&mut self, mut content: Bytes) {
        let Stage::Content {
            held_head,
            expected,
            received,
        } = &mut self.stage
        else {
            return;
        };
        if let Some(expected) = expected {
            // What goes beyond Content-Length would be taken for the next response.
            let left = usize::try_from(*expected - *received).unwrap_or(usize::MAX);
            content.truncate(left);
        }
        *received += content.len() as u64;
        let whole = *expected == Some(*received);
        // The client's side takes nothing before it has the head, so the head goes before the
        // buffer can fill up.
        if *received > self.buffer.memory().min(HELD_BACK)
            && let Some(head) = held_head.take()
        {
            self.buffer.put_head(head);
        }
        let held_head = if whole { held_head.take() } else { None };
        if !content.is_empty() {
            self.buffer.push(content).await;
        }
        if whole {
            self.buffer.finish(held_head, Ok(()));
            self.stage = Stage::Whole;
        }
    }
}

/// Content that may come before the head is let go.
const HELD_BACK: u64 = 256 * 1024;
