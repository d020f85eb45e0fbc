//! A client of raw bytes whose reader is strict about framing (RFC 9112 §6): what a lax client would forgive is an error here.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustls::ClientConnection;

mod response;

pub use self::response::Response;
use self::response::parse_head;
use super::DEADLINE;

/// One connection to the server and the bytes read from it that belong to no answer yet.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    buffer: Vec<u8>,
    /// The server reset the connection: what came before is no whole answer that ends with the connection.
    was_reset: bool,
}

/// Why there is no whole answer.
#[derive(Debug)]
pub enum Cut {
    /// The connection ended or was reset before the first byte of an answer.
    End,
    /// The connection ended within an answer.
    Short { received: Vec<u8> },
    /// Nothing came within the deadline.
    Timeout { received: Vec<u8> },
    /// The bytes are no HTTP/1 answer to this method.
    Malformed(String),
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).expect("connect to the server");
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            tls: None,
            buffer: Vec::new(),
            was_reset: false,
        }
    }

    /// The same through TLS, whose handshake is done with the first bytes.
    pub fn open_tls(address: SocketAddr, tls: ClientConnection) -> Self {
        Self {
            tls: Some(Box::new(tls)),
            ..Self::open(address)
        }
    }

    /// What was agreed upon in the handshake.
    pub fn tls(&self) -> &ClientConnection {
        self.tls.as_ref().expect("TLS is spoken")
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.stream).write_all(bytes),
        }
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(bytes),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.stream).read(bytes),
        }
    }

    /// Writes these bytes in one piece.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.write(bytes).expect("the server takes what is sent");
    }

    /// At most this many bytes of what comes next; none when the connection is over.
    pub fn take_some(&mut self, most: usize) -> Option<usize> {
        self.read_some(&mut vec![0; most]).ok()
    }

    /// Another hand on the connection, to write with while this one reads.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Writes what the server is willing to take; it may answer and close before the end.
    pub fn send_lossy(&mut self, bytes: &[u8]) {
        let _ = self.write(bytes);
    }

    /// Writes each byte in a segment of its own.
    #[track_caller]
    pub fn send_bytewise(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send(std::slice::from_ref(byte));
        }
    }

    /// Sends FIN and goes on reading.
    pub fn half_close(&mut self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
    }

    /// Closes so that the server meets a reset, not a FIN.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// A request with `Host: example.com` on this connection, and its answer.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.send(&request(method, path, fields, body));
        self.read(method)
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    #[track_caller]
    pub fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        self.request("GET", path, fields, b"")
    }

    /// The next answer, which must be whole.
    #[track_caller]
    pub fn read(&mut self, method: &str) -> Response {
        match self.try_read(method) {
            Ok(response) => response,
            Err(cut) => panic!("no whole answer to {method}: {cut}"),
        }
    }

    /// The next answer or why there is none.
    pub fn try_read(&mut self, method: &str) -> Result<Response, Cut> {
        let head = self.read_head()?;
        let mut response = parse_head(head)?;
        if response.status < 200 {
            return Err(Cut::Malformed(format!(
                "interim answer {} not asked for",
                response.status
            )));
        }
        response.body = self.read_body(method, &response)?;
        Ok(response)
    }

    /// The next head alone: an interim answer, or the beginning of one whose body the test reads itself.
    #[track_caller]
    pub fn read_head_only(&mut self) -> Response {
        match self.read_head().and_then(parse_head) {
            Ok(response) => response,
            Err(cut) => panic!("no head: {cut}"),
        }
    }

    /// At least `count` bytes that follow what has been read.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            if let Err(cut) = self.fill() {
                panic!("{count} bytes awaited: {cut}");
            }
        }
        self.take(count)
    }

    /// The server closes now, and sends nothing before it does.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let rest = self.read_to_end();
        assert!(
            rest.is_empty(),
            "bytes after the last answer: {}",
            rest.escape_ascii()
        );
    }

    /// Everything until the server closes.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(Cut::Timeout { received }) => {
                    panic!("not closed; unread: {}", received.escape_ascii())
                }
                Err(_) => return std::mem::take(&mut self.buffer),
            }
        }
    }

    /// Nothing stands unread, and the connection still answers: a stray byte would be in front of that answer.
    #[track_caller]
    pub fn expect_in_step(&mut self, path: &str, body: &[u8]) {
        assert!(
            self.buffer.is_empty(),
            "stray bytes: {}",
            self.buffer.escape_ascii()
        );
        let response = self.get(path);
        assert_eq!(
            (response.status, response.body.escape_ascii().to_string()),
            (200, body.escape_ascii().to_string())
        );
    }

    /// After an answer that may close: closed as it said, or as in [`Connection::expect_in_step`].
    #[track_caller]
    pub fn expect_in_step_after(&mut self, last: &Response, path: &str, body: &[u8]) {
        if last.closes() {
            self.expect_end();
        } else {
            self.expect_in_step(path, body);
        }
    }

    fn read_head(&mut self) -> Result<Vec<u8>, Cut> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Ok(self.take(end + 4));
            }
            if self.buffer.len() > 1 << 20 {
                return Err(Cut::Malformed("endless head".into()));
            }
            match self.fill() {
                Ok(()) => {}
                Err(Cut::End) if !self.buffer.is_empty() => {
                    return Err(Cut::Short {
                        received: std::mem::take(&mut self.buffer),
                    });
                }
                Err(cut) => return Err(cut),
            }
        }
    }

    fn read_body(&mut self, method: &str, response: &Response) -> Result<Vec<u8>, Cut> {
        let chunked = response.field("transfer-encoding");
        let length = response.field("content-length");
        if chunked.is_some() && length.is_some() {
            return Err(Cut::Malformed(
                "Content-Length beside Transfer-Encoding".into(),
            ));
        }
        if response.status == 204 && (chunked.is_some() || length.is_some()) {
            return Err(Cut::Malformed("204 with framing fields".into()));
        }
        if method == "HEAD" || response.status == 204 || response.status == 304 {
            return Ok(Vec::new());
        }
        match (chunked, length) {
            (Some("chunked"), _) => self.read_chunks(),
            (Some(other), _) => Err(Cut::Malformed(format!("Transfer-Encoding: {other}"))),
            (None, Some(length)) => {
                if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(Cut::Malformed(format!("Content-Length: {length}")));
                }
                self.read_exact(length.parse().expect("digits"))
            }
            (None, None) => {
                if !response.closes() {
                    return Err(Cut::Malformed("no length, and no Connection: close".into()));
                }
                loop {
                    match self.fill() {
                        Ok(()) => {}
                        Err(Cut::End) if !self.was_reset => {
                            return Ok(std::mem::take(&mut self.buffer));
                        }
                        Err(cut) => return Err(self.cut_within(cut)),
                    }
                }
            }
        }
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, Cut> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let size = std::str::from_utf8(&line)
                .ok()
                .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|text| usize::from_str_radix(text, 16).ok())
                .ok_or_else(|| Cut::Malformed(format!("chunk size {}", line.escape_ascii())))?;
            if size > 0 {
                let chunk = self.read_exact(size).map_err(|cut| match cut {
                    Cut::Short { received } => Cut::Short {
                        received: [body.clone(), received].concat(),
                    },
                    other => other,
                })?;
                body.extend(chunk);
            }
            let end = self.read_line()?;
            if !end.is_empty() {
                return Err(Cut::Malformed(format!(
                    "after a chunk: {}",
                    end.escape_ascii()
                )));
            }
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_line(&mut self) -> Result<Vec<u8>, Cut> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let mut line = self.take(end + 2);
                line.truncate(end);
                return Ok(line);
            }
            self.fill().map_err(|cut| self.cut_within(cut))?;
        }
    }

    fn read_exact(&mut self, length: usize) -> Result<Vec<u8>, Cut> {
        while self.buffer.len() < length {
            self.fill().map_err(|cut| self.cut_within(cut))?;
        }
        Ok(self.take(length))
    }

    fn cut_within(&mut self, cut: Cut) -> Cut {
        match cut {
            Cut::End => Cut::Short {
                received: std::mem::take(&mut self.buffer),
            },
            other => other,
        }
    }

    fn fill(&mut self) -> Result<(), Cut> {
        let mut chunk = [0; 64 * 1024];
        loop {
            return match self.read_some(&mut chunk) {
                Ok(0) => Err(Cut::End),
                Ok(count) => {
                    self.buffer.extend_from_slice(&chunk[..count]);
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    Err(Cut::Timeout {
                        received: self.buffer.clone(),
                    })
                }
                Err(_) => {
                    self.was_reset = true;
                    Err(Cut::End)
                }
            };
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("connection ended"),
            Self::Short { received } => {
                write!(f, "connection ended within: {} bytes", received.len())
            }
            Self::Timeout { received } => write!(f, "timeout with: {}", received.escape_ascii()),
            Self::Malformed(why) => f.write_str(why),
        }
    }
}

/// The bytes of a request with `Host: example.com` (unless given) and a Content-Length when there is a body.
pub fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    let given = |name: &str| fields.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if !given("host") {
        bytes.extend_from_slice(b"Host: example.com\r\n");
    }
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !body.is_empty() && !given("content-length") && !given("transfer-encoding") {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// A body in chunks of this size, with its last chunk.
pub fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 64);
    for chunk in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Where `needle` begins.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
