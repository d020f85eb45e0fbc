//! What a responder does with a request once its parameters are there; the constructors name the behaviour.

use std::sync::Arc;

use super::Gate;

#[derive(Clone)]
pub struct Script {
    reads_stdin: bool,
    steps: Vec<Step>,
}

#[derive(Clone)]
pub enum Step {
    /// Each byte in a STDOUT record of its own.
    Bytewise(Vec<u8>),
    /// Closes the connection.
    Close,
    /// An answer that tells method, REQUEST_URI and the body's length.
    Describe,
    /// What a script does to the files of its site.
    Do(Arc<dyn Fn() + Send + Sync>),
    /// The request's body to STDOUT.
    Echo,
    End,
    EndWith {
        protocol_status: u8,
    },
    /// STDOUT until the web server closes.
    Endless,
    /// A record about the connection (request id 0).
    ManagementRecord,
    Padded(Vec<u8>, u8),
    Raw(Vec<u8>),
    /// Nothing until the web server closes.
    Stall,
    /// At least this many bytes to STDERR.
    Stderr(usize),
    Stdout(Vec<u8>),
    Wait(Gate),
    /// STDOUT under another request id.
    WrongId(Vec<u8>),
}

impl Script {
    pub fn new(steps: Vec<Step>) -> Self {
        Self {
            reads_stdin: true,
            steps,
        }
    }

    /// The default: `php METHOD REQUEST_URI LENGTH`.
    pub fn describes() -> Self {
        Self::new(vec![Step::Describe, Step::End])
    }

    /// This CGI head and body.
    pub fn answers(text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![stdout(text), Step::End])
    }

    /// The same, once it has done something to the files of its site.
    pub fn does(action: impl Fn() + Send + Sync + 'static, text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![Step::Do(Arc::new(action)), stdout(text), Step::End])
    }

    /// The same once the gate opens.
    pub fn answers_after(gate: &Gate, text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![Step::Wait(gate.clone()), stdout(text), Step::End])
    }

    pub fn echoes_body() -> Self {
        Self::new(vec![
            stdout("Content-Type: application/octet-stream\r\n\r\n"),
            Step::Echo,
            Step::End,
        ])
    }

    /// Answers and ends without reading STDIN.
    pub fn ignores_body(text: impl AsRef<[u8]>) -> Self {
        Self {
            reads_stdin: false,
            ..Self::answers(text)
        }
    }

    pub fn splits_records(text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![Step::Bytewise(text.as_ref().to_vec()), Step::End])
    }

    pub fn pads(text: impl AsRef<[u8]>, padding: u8) -> Self {
        Self::new(vec![
            Step::Padded(text.as_ref().to_vec(), padding),
            Step::End,
        ])
    }

    /// 200 KB of STDERR before, between and after head and body.
    pub fn writes_stderr(head: &str, body: &str) -> Self {
        let noise = Step::Stderr(200_000);
        Self::new(vec![
            noise.clone(),
            stdout(head),
            noise.clone(),
            stdout(body),
            noise,
            Step::End,
        ])
    }

    pub fn stalls_before_head() -> Self {
        Self::new(vec![Step::Stall])
    }

    pub fn stalls_after(text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![stdout(text), Step::Stall])
    }

    /// Closes without END_REQUEST once this is said.
    pub fn closes_after(text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![stdout(text), Step::Close])
    }

    /// END_REQUEST with this protocol status and no answer.
    pub fn refuses(protocol_status: u8) -> Self {
        Self::new(vec![Step::EndWith { protocol_status }])
    }

    pub fn sends_raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(vec![Step::Raw(bytes.as_ref().to_vec()), Step::Close])
    }

    pub fn uses_wrong_id(text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![Step::WrongId(text.as_ref().to_vec()), Step::End])
    }

    /// The answer at once, END_REQUEST when the gate opens (`fastcgi_finish_request`, shutdown functions).
    pub fn ends_late(gate: &Gate, text: impl AsRef<[u8]>) -> Self {
        Self::new(vec![stdout(text), Step::Wait(gate.clone()), Step::End])
    }

    pub fn never_ends() -> Self {
        Self::new(vec![
            stdout("Content-Type: text/plain\r\n\r\n"),
            Step::Endless,
        ])
    }

    pub fn reads_stdin(&self) -> bool {
        self.reads_stdin
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether it leaves the connection behind.
    pub fn closes(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Close))
    }
}

/// A step that writes this.
pub fn stdout(text: impl AsRef<[u8]>) -> Step {
    Step::Stdout(text.as_ref().to_vec())
}

pub const CANT_MPX_CONN: u8 = 1;
pub const OVERLOADED: u8 = 2;
pub const UNKNOWN_ROLE: u8 = 3;
