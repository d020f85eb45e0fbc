//! Content in memory, piece by piece.
//!
//! Small pieces are copied together: each would otherwise keep the whole block it was read into,
//! and cost a wake-up and a write of its own.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// A queue of pieces of content.
#[derive(Debug, Default)]
pub struct Pieces {
    sealed: VecDeque<Bytes>,
    open: BytesMut,
    bytes: u64,
}

impl Pieces {
    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len() as u64;
        if piece.len() < LARGE {
            self.open.extend_from_slice(&piece);
            if self.open.len() >= LARGE {
                self.seal();
            }
        } else {
            self.seal();
            self.sealed.push_back(piece);
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            self.sealed.push_back(self.open.split().freeze());
        }
    }

    /// Takes the first piece out; several small ones come as one.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.sealed.is_empty() {
            self.seal();
        }
        let piece = self.sealed.pop_front()?;
        self.bytes -= piece.len() as u64;
        Some(piece)
    }
}

/// Pieces from this size on are kept as they came.
const LARGE: usize = 16 * 1024;
