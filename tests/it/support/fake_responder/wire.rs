//! FastCGI records as a responder reads and writes them (FastCGI specification 1.0 §3.3, §3.4).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

pub struct Wire {
    pub stream: UnixStream,
    pub request_id: u16,
}

pub struct Record {
    pub kind: u8,
    pub id: u16,
    pub content: Vec<u8>,
    pub padding: usize,
}

/// Record types.
pub struct Kind;

impl Kind {
    pub const BEGIN_REQUEST: u8 = 1;
    pub const END_REQUEST: u8 = 3;
    pub const PARAMS: u8 = 4;
    pub const STDIN: u8 = 5;
    pub const STDOUT: u8 = 6;
    pub const STDERR: u8 = 7;
}

impl Wire {
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            request_id: 1,
        }
    }

    pub fn read_record(&mut self) -> io::Result<Record> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header)?;
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
        self.stream.read_exact(&mut content)?;
        let padding = usize::from(header[6]);
        self.stream.read_exact(&mut vec![0; padding])?;
        Ok(Record {
            kind: header[1],
            id: u16::from_be_bytes([header[2], header[3]]),
            content,
            padding,
        })
    }

    pub fn read_some(&mut self) -> io::Result<usize> {
        self.stream.read(&mut [0; 1024])
    }

    /// Records of 32 KiB; none at all for nothing.
    pub fn write_stream(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        bytes
            .chunks(32 * 1024)
            .try_for_each(|chunk| self.write_record(kind, chunk, 0))
    }

    pub fn write_record(&mut self, kind: u8, content: &[u8], padding: u8) -> io::Result<()> {
        let mut bytes = header(self.request_id, kind, content.len(), padding).to_vec();
        bytes.extend_from_slice(content);
        bytes.extend(std::iter::repeat_n(b'#', usize::from(padding)));
        self.stream.write_all(&bytes)
    }

    pub fn write_record_of(&mut self, id: u16, kind: u8, content: &[u8]) -> io::Result<()> {
        let mut bytes = header(id, kind, content.len(), 0).to_vec();
        bytes.extend_from_slice(content);
        self.stream.write_all(&bytes)
    }

    pub fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn end_writing(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub fn drain(&mut self) {
        while matches!(self.stream.read(&mut [0; 1024]), Ok(1..)) {}
    }
}

fn header(id: u16, kind: u8, length: usize, padding: u8) -> [u8; 8] {
    let id = id.to_be_bytes();
    let length = u16::try_from(length)
        .expect("a record's content")
        .to_be_bytes();
    [1, kind, id[0], id[1], length[0], length[1], padding, 0]
}

/// The name-value pairs of one record; None when the last one is cut.
pub fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, rest) = length(bytes)?;
        let (value, rest) = length(rest)?;
        let (name, rest) = rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        pairs.push((String::from_utf8(name.to_vec()).ok()?, value.to_vec()));
        bytes = rest;
    }
    Some(pairs)
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    let (long, rest) = bytes.split_first_chunk::<4>()?;
    Some((
        usize::try_from(u32::from_be_bytes(*long) & 0x7fff_ffff).ok()?,
        rest,
    ))
}
