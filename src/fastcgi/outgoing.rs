//! Bytes on their way to the responder, gathered so that one system call takes as many as the socket
//! has room for.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};

use super::connection::Connection;

/// A queue of pieces to be written.
#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Bytes not yet written.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes what the socket has room for, and says how much that was.
    ///
    /// # Errors
    /// As [`Connection::try_write`].
    pub fn write(&mut self, connection: &Connection) -> io::Result<u64> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let filled = slices.iter_mut().zip(&self.pieces).map(|(slice, piece)| {
            *slice = IoSlice::new(piece);
        });
        let count = filled.count();
        let written = connection.try_write(slices.get(..count).unwrap_or_default())?;
        self.advance(written);
        Ok(written as u64)
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(piece) = self.pieces.front_mut() {
            let taken = written.min(piece.len());
            piece.advance(taken);
            written -= taken;
            if !piece.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
    }
}

/// Pieces given to one system call.
const SLICES: usize = 8;
