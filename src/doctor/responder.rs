//! One request to a responder, outside of any server: what it says, and how long it takes.

use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::fastcgi::Address;
use crate::fastcgi::connection::Connection;
use crate::fastcgi::params::{ParamsInput, encode};
use crate::fastcgi::record::{
    AfterRequest, Decoder, Event, Kind, ProtocolStatus, begin_request, header,
};

/// What a responder said to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The beginning of its answer: head and content.
    pub stdout: String,
    /// The beginning of what it complained of.
    pub stderr: String,
    /// How it ended the request; none: it closed instead.
    pub end: Option<ProtocolStatus>,
    /// From before the connection to the end.
    pub took: Duration,
}

impl Said {
    /// Whether the script is not where the responder looks for it, in PHP-FPM's words.
    #[must_use]
    pub fn is_without_script(&self) -> bool {
        self.stderr.contains("Primary script unknown")
            || (self.has_status("404") && self.stdout.contains("File not found."))
    }

    /// Whether it may not read the script, or not run it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.has_status("403") && self.stdout.contains("Access denied.")
    }

    fn has_status(&self, code: &str) -> bool {
        self.stdout
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.strip_prefix("Status:"))
            .any(|status| status.trim_start().starts_with(code))
    }
}

/// Asks for a script by its path as the responder sees it.
///
/// # Errors
/// Those of the connection; `TimedOut` past `patience`.
pub fn ask(
    address: &Address,
    document_root: &Path,
    script: &str,
    patience: Duration,
) -> io::Result<Said> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        timeout(patience, exchange(address, document_root, script))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    })
}

async fn exchange(address: &Address, document_root: &Path, script: &str) -> io::Result<Said> {
    let clock = Clock::system();
    let begun = clock.unix_precise();
    let connection = Connection::open(address).await?;
    let mut request = begin_request(AfterRequest::Close).to_vec();
    request.extend_from_slice(&params(document_root, script)?);
    request.extend_from_slice(&header(Kind::Stdin, 0, 0));
    let mut rest = request.as_slice();
    while !rest.is_empty() {
        connection.writable().await?;
        match connection.try_write(&[IoSlice::new(rest)]) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let mut said = Said::default();
    let mut decoder = Decoder::new();
    let mut buffer = BytesMut::with_capacity(8192);
    'reading: loop {
        while let Some(event) = decoder.next(&mut buffer).map_err(io::Error::other)? {
            match event {
                Event::Stdout(bytes) => append(&mut said.stdout, &bytes),
                Event::Stderr(bytes) => append(&mut said.stderr, &bytes),
                Event::End { protocol, .. } => {
                    said.end = Some(protocol);
                    break 'reading;
                }
            }
        }
        connection.readable().await?;
        match connection.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let took = clock.unix_precise().nanos_since(begun);
    said.took = Duration::from_nanos(u64::try_from(took).unwrap_or(0));
    Ok(said)
}

fn params(document_root: &Path, script: &str) -> io::Result<bytes::Bytes> {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let root = document_root.as_os_str().as_encoded_bytes();
    let file = [root, script.as_bytes()].concat();
    encode(&ParamsInput {
        method: "GET",
        request_uri: script.as_bytes(),
        query: b"",
        script_name: script.as_bytes(),
        script_filename: &file,
        path_info: b"",
        document_root: root,
        protocol: "HTTP/1.1",
        https: false,
        host: b"localhost",
        server_name: b"localhost",
        server_addr: SocketAddr::new(here, 80),
        server_port: 80,
        remote_addr: here,
        remote_port: 0,
        remote_user: None,
        content_length: None,
        fields: &[],
        drop: &[],
    })
    .map_err(io::Error::other)
}

fn append(text: &mut String, bytes: &[u8]) {
    if text.len() < MOST {
        text.push_str(&String::from_utf8_lossy(bytes));
    }
}

const MOST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_php_fpm_are_known() {
        let said = |stdout: &str, stderr: &str| Said {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            ..Said::default()
        };
        let missing = "Status: 404 Not Found\r\nContent-type: text/html\r\n\r\nFile not found.\n";
        assert!(said(missing, "").is_without_script());
        assert!(said("", "Primary script unknown\n").is_without_script());
        assert!(!said("Content-type: text/html\r\n\r\nStatus: 404", "").is_without_script());
        let denied = "Status: 403 Forbidden\r\n\r\nAccess denied.\n";
        assert!(said(denied, "").is_denied());
    }
}
