//! Verifying passwords off the workers, a few at a time, and remembering those that were right.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::site::auth::User;
use crate::site::auth::credentials::Credentials;
use crate::site::auth::users::Users;

/// What credentials are worth.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are this user's.
    Right(User),
    /// They are nobody's.
    Wrong,
    /// Too many are being verified.
    Busy,
}

/// Verifies credentials. Ready at the first poll when they are remembered; otherwise nothing is begun at the first poll, as whoever
/// decides may poll once and begin again.
pub async fn verify(users: &Arc<Users>, credentials: Credentials) -> Verdict {
    let mark = users.remembered.mark(&credentials);
    if let Some(user) = users.remembered.find(&mark) {
        return Verdict::Right(user);
    }
    tokio::task::yield_now().await;
    let Some(_waiting) = Waiting::begin() else {
        return Verdict::Busy;
    };
    let Ok(permit) = RUNNING.acquire().await else {
        return Verdict::Busy;
    };
    // A browser sends several requests with the same password at once: the first of them has verified it.
    if let Some(user) = users.remembered.find(&mark) {
        return Verdict::Right(user);
    }
    let users = users.clone();
    let verified = tokio::task::spawn_blocking(move || {
        // Held until it has ended, also when nobody waits for it any more.
        let _permit = permit;
        let (user, hash) = users.hash_of(&credentials.user);
        let is_right = hash.is_of(&credentials.password);
        let user = user.filter(|_| is_right)?;
        users.remembered.keep(mark, user.clone());
        Some(user)
    });
    match verified.await {
        Ok(Some(user)) => Verdict::Right(user),
        Ok(None) => Verdict::Wrong,
        Err(_) => Verdict::Busy,
    }
}

/// Credentials that were right, by a hash that cannot be computed outside of this process.
pub(super) struct Remembered {
    key: [u8; 32],
    right: Mutex<LruCache<Mark, (User, Instant)>>,
}

type Mark = [u8; 32];

impl Default for Remembered {
    fn default() -> Self {
        Remembered {
            key: rand::random(),
            right: Mutex::new(LruCache::new(MOST_REMEMBERED)),
        }
    }
}

impl Remembered {
    fn mark(&self, credentials: &Credentials) -> Mark {
        Sha256::new()
            .chain_update(self.key)
            .chain_update(credentials.user.len().to_le_bytes())
            .chain_update(&credentials.user)
            .chain_update(&credentials.password)
            .finalize()
            .into()
    }

    fn find(&self, mark: &Mark) -> Option<User> {
        let mut right = self.right.lock();
        match right.get(mark) {
            Some((user, until)) if Instant::now() < *until => Some(user.clone()),
            Some(_) => {
                right.pop(mark);
                None
            }
            None => None,
        }
    }

    fn keep(&self, mark: Mark, user: User) {
        let until = Instant::now() + REMEMBERED_FOR;
        self.right.lock().put(mark, (user, until));
    }
}

/// A request that waits for a verification.
struct Waiting;

impl Waiting {
    fn begin() -> Option<Waiting> {
        let before = WAITING.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting;
        (before < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Of the whole process: a reload gives no more room.
static RUNNING: Semaphore = Semaphore::const_new(2);
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// A page with its parts from several browsers; beyond it 503.
const MOST_WAITING: usize = 64;
const MOST_REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("invariant: above zero");
const REMEMBERED_FOR: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials {
            user: user.into(),
            password: password.into(),
        }
    }

    fn users() -> Arc<Users> {
        let line = b"anna:$2y$04$uT3abvrMVSDs41QbJiVxU.6qYTeMeY6v9w1qm87Q5VFyvpkkZJCkG";
        Arc::new(Users::parse(line).unwrap())
    }

    #[tokio::test]
    async fn what_was_right_is_known_at_once_and_only_that() {
        let users = users();
        let ready = |user, password| {
            let future = std::pin::pin!(verify(&users, credentials(user, password)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            Future::poll(future, &mut context).is_ready()
        };
        assert!(!ready("anna", "secret"));
        let right = Verdict::Right(b"anna"[..].into());
        assert_eq!(verify(&users, credentials("anna", "secret")).await, right);
        assert!(ready("anna", "secret"));
        for (user, password) in [("anna", "wrong"), ("carl", "secret"), ("annas", "ecret")] {
            assert_eq!(
                verify(&users, credentials(user, password)).await,
                Verdict::Wrong
            );
            assert!(!ready(user, password));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_forgotten_after_a_while() {
        let users = users();
        let mark = users.remembered.mark(&credentials("anna", "secret"));
        users.remembered.keep(mark, b"anna"[..].into());
        tokio::time::advance(REMEMBERED_FOR - Duration::from_secs(1)).await;
        assert!(users.remembered.find(&mark).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(users.remembered.find(&mark).is_none());
    }
}
