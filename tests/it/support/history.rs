//! The answers to one path while its file changes: each must be of a state that the file was in, and time does not run backwards.

use std::collections::HashMap;
use std::fmt;

use super::client::Connection;
use super::mode::Mode;

/// What a path answers in one state of the tree.
#[derive(Clone, PartialEq, Eq)]
pub enum State {
    /// 200 with these bytes.
    Is(Vec<u8>),
    /// This status, whatever the body.
    Status(u16),
}

pub const GONE: State = State::Status(404);
pub const FORBIDDEN: State = State::Status(403);

impl State {
    pub fn is(bytes: impl AsRef<[u8]>) -> Self {
        Self::Is(bytes.as_ref().to_vec())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(bytes) => {
                let start = &bytes[..bytes.len().min(40)];
                write!(f, "{} bytes {}", bytes.len(), start.escape_ascii())
            }
            Self::Status(status) => write!(f, "{status}"),
        }
    }
}

/// What one path has answered so far, over one connection.
pub struct History {
    connection: Connection,
    path: String,
    tags: HashMap<String, Vec<u8>>,
    state: State,
}

impl History {
    /// Of a path that is in this state, and warm after this.
    #[track_caller]
    pub fn begin(connection: Connection, path: &str, state: State) -> Self {
        let mut history = Self {
            connection,
            path: path.to_owned(),
            tags: HashMap::new(),
            state,
        };
        for _ in 0..5 {
            history.stays();
        }
        history
    }

    /// One more answer, which must be of the state that the path is in.
    #[track_caller]
    pub fn stays(&mut self) {
        let state = self.ask();
        assert_eq!(state, self.state, "{}", self.path);
    }

    /// The path comes to answer this: until then as before, and from then on this alone.
    #[track_caller]
    pub fn becomes(&mut self, mode: Mode, next: State) {
        let (old, path) = (self.state.clone(), self.path.clone());
        super::eventually(&format!("{path} is {next:?} ({mode:?})"), || {
            let state = self.ask();
            assert!(
                state == old || state == next,
                "{path}: {state:?} is neither {old:?} nor {next:?} ({mode:?})"
            );
            (state == next).then_some(())
        });
        self.state = next;
        for _ in 0..5 {
            self.stays();
        }
    }

    fn ask(&mut self) -> State {
        let response = self.connection.get(&self.path);
        if response.status != 200 {
            return State::Status(response.status);
        }
        if let Some(tag) = response.field("etag") {
            let known = self
                .tags
                .entry(tag.to_owned())
                .or_insert_with(|| response.body.clone());
            assert!(
                *known == response.body,
                "{}: {tag} stands for two contents, now {response}",
                self.path
            );
        }
        State::Is(response.body)
    }
}
