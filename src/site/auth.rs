//! Paths that ask for a user and a password: HTTP Basic (RFC 7617).
//!
//! Judged are the decoded path that was asked for and the file or script that was found for it, so that no other spelling of a
//! path gets past. A password is verified off the workers, as that is slow on purpose; one that was right is remembered for a
//! while by a keyed hash.

use std::sync::Arc;

use crate::followed_file::{FileError, FollowedFile};
use crate::request::fields::Fields;
use crate::request::pattern::{Pattern, PatternError};
use crate::request::target::Target;
use crate::site::php_source;
use crate::site::response::{Answer, local_answer, unauthorized};
use crate::site::settings::AuthRule;

pub mod apr1;
pub mod credentials;
pub mod users;
pub mod verifier;

use credentials::Credentials;
use users::Users;
use verifier::Verdict;

/// The rules of one site, in order. The first that means a path counts for it.
#[derive(Debug)]
pub struct Auth {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    patterns: Vec<Pattern>,
    /// None: nobody is asked.
    users: Option<FollowedFile<Users>>,
    challenge: Answer,
}

/// A user whose password was right.
pub type User = Arc<[u8]>;

/// What was asked of a request so far: no rule is asked twice.
#[derive(Debug, Default)]
pub struct Passed {
    /// The user, where one was asked for.
    pub user: Option<User>,
    rule: Option<usize>,
}

/// Why no users can be asked for.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A pattern cannot be used.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A file of users cannot be used.
    #[error("auth: {0}")]
    File(#[from] FileError),
}

impl Auth {
    /// The rules; none: there are none.
    ///
    /// # Errors
    /// A pattern or a file of users that cannot be used.
    pub fn new(rules: &[AuthRule]) -> Result<Option<Box<Auth>>, AuthError> {
        if rules.is_empty() {
            return Ok(None);
        }
        let rule = |rule: &AuthRule| -> Result<Rule, AuthError> {
            let patterns = rule.patterns.iter().map(|text| Pattern::parse(text));
            Ok(Rule {
                patterns: patterns.collect::<Result<_, _>>()?,
                users: match &rule.users_file {
                    Some(path) => Some(FollowedFile::load(path, Users::parse)?),
                    None => None,
                },
                challenge: unauthorized(&rule.realm),
            })
        };
        let rules = rules.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Some(Box::new(Auth { rules })))
    }

    /// Asks for what the target needs. An answer: it is refused.
    pub async fn target<F: Fields + ?Sized>(
        &self,
        target: &Target<'_>,
        fields: &F,
        passed: &mut Passed,
    ) -> Option<Answer> {
        let refused = self.path(&target.path, fields, passed).await;
        if refused.is_some() || !target.separator_in_segment {
            return refused;
        }
        // An origin may take what we take for a part of a name for a separator, and find a script before it.
        let separated = separated(&target.path);
        let bare = separated.strip_prefix(b"/").unwrap_or(&separated);
        let scripts = php_source::script_ends(bare).filter_map(|end| bare.get(..end));
        for path in std::iter::once(bare).chain(scripts) {
            let refused = self.path(path, fields, passed).await;
            if refused.is_some() {
                return refused;
            }
        }
        None
    }

    /// Asks for what a path below the root needs, with or without its leading slash.
    pub async fn path<F: Fields + ?Sized>(
        &self,
        path: &[u8],
        fields: &F,
        passed: &mut Passed,
    ) -> Option<Answer> {
        let means = |rule: &Rule| rule.patterns.iter().any(|pattern| pattern.matches(path));
        let index = self.rules.iter().position(means)?;
        let rule = self.rules.get(index)?;
        let users = rule.users.as_ref()?;
        if passed.rule == Some(index) {
            return None;
        }
        // Two lines have no meaning (RFC 9110 §5.3), and whoever is behind us might read the other one.
        let credentials = fields.only("authorization").and_then(Credentials::parse);
        let verdict = match credentials {
            Some(credentials) => verifier::verify(&users.current(), credentials).await,
            None => Verdict::Wrong,
        };
        match verdict {
            Verdict::Right(user) => {
                passed.user = Some(user);
                passed.rule = Some(index);
                None
            }
            Verdict::Wrong => Some(rule.challenge.clone()),
            Verdict::Busy => Some(local_answer(503)),
        }
    }

    /// Looks at the files of users; for once a second, off the workers.
    pub fn look(&self) {
        for users in self.rules.iter().filter_map(|rule| rule.users.as_ref()) {
            users.look();
        }
    }
}

/// The path with every kind of separator as a slash, and runs of them as one.
fn separated(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        let byte = if byte == b'\\' { b'/' } else { byte };
        if byte != b'/' || out.last() != Some(&b'/') {
            out.push(byte);
        }
    }
    out
}
