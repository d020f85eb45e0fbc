//! An HTTP/1 origin that records each request to the byte and answers as the test says.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::DEADLINE;
use super::client::find;

pub struct FakeOrigin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// One request as it stood on the wire.
#[derive(Clone)]
pub struct OriginRequest {
    pub head: String,
    pub body: Vec<u8>,
}

struct Shared {
    answer: Answer,
    tunnel: Option<Tunnel>,
    seen: Mutex<Vec<OriginRequest>>,
    stopped: AtomicBool,
}

type Tunnel = Box<dyn Fn(TcpStream, Vec<u8>) + Send + Sync>;
type Answer = Box<dyn Fn(&OriginRequest) -> Vec<u8> + Send + Sync>;

impl FakeOrigin {
    /// Answers with these raw bytes; an empty answer closes the connection.
    pub fn start(answer: impl Fn(&OriginRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::listen(any_port(), Box::new(answer), None)
    }

    /// The same where nobody was before.
    pub fn start_at(
        nobody: Nobody,
        answer: impl Fn(&OriginRequest) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        nobody.0.listen(64).unwrap();
        Self::listen(nobody.0.into(), Box::new(answer), None)
    }

    /// Answers the same; when an answer is 101, the connection is given to `tunnel` with what came behind the request.
    pub fn tunnelling(
        answer: impl Fn(&OriginRequest) -> Vec<u8> + Send + Sync + 'static,
        tunnel: impl Fn(TcpStream, Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        Self::listen(any_port(), Box::new(answer), Some(Box::new(tunnel)))
    }

    fn listen(listener: TcpListener, answer: Answer, tunnel: Option<Tunnel>) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer,
            tunnel,
            seen: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&accepting);
                thread::spawn(move || serve(&serving, stream));
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn requests(&self) -> Vec<OriginRequest> {
        self.shared.seen.lock().unwrap().clone()
    }
}

/// An address that is taken and where nobody listens.
pub struct Nobody(socket2::Socket);

impl Nobody {
    pub fn new() -> Self {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(&address.into()).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

fn any_port() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

impl Drop for FakeOrigin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl OriginRequest {
    pub fn request_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The values of this field's lines.
    pub fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let fields = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        fields
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) {
    stream.set_read_timeout(Some(DEADLINE * 2)).unwrap();
    let mut buffer = Vec::new();
    while let Some(request) = take_request(&mut stream, &mut buffer) {
        let answer = (shared.answer)(&request);
        shared.seen.lock().unwrap().push(request);
        if answer.is_empty() || stream.write_all(&answer).is_err() {
            return;
        }
        if let Some(tunnel) = &shared.tunnel
            && answer.starts_with(b"HTTP/1.1 101")
        {
            return tunnel(stream, buffer);
        }
    }
}

fn take_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<OriginRequest> {
    let end = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break end + 4;
        }
        fill(stream, buffer)?;
    };
    let rest = buffer.split_off(end);
    let head = String::from_utf8_lossy(&std::mem::replace(buffer, rest)).into_owned();
    let mut request = OriginRequest {
        head,
        body: Vec::new(),
    };
    if request
        .field("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        loop {
            let line = take_until_crlf(stream, buffer)?;
            let size = usize::from_str_radix(
                std::str::from_utf8(&line).ok()?.split(';').next()?.trim(),
                16,
            )
            .ok()?;
            request.body.extend(take_exact(stream, buffer, size)?);
            take_until_crlf(stream, buffer)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = request
        .field("content-length")
        .and_then(|value| value.parse().ok())
    {
        request.body = take_exact(stream, buffer, length)?;
    }
    Some(request)
}

fn take_until_crlf(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n") {
            let mut line = take_exact(stream, buffer, end + 2)?;
            line.truncate(end);
            return Some(line);
        }
        fill(stream, buffer)?;
    }
}

fn take_exact(stream: &mut TcpStream, buffer: &mut Vec<u8>, count: usize) -> Option<Vec<u8>> {
    while buffer.len() < count {
        fill(stream, buffer)?;
    }
    let rest = buffer.split_off(count);
    Some(std::mem::replace(buffer, rest))
}

fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 16 * 1024];
    let count = stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
    buffer.extend_from_slice(&chunk[..count]);
    Some(())
}
