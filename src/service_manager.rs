//! What systemd is told of this process (`Type=notify`); nothing where it does not ask.

use sd_notify::NotifyState;

/// It serves.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It reads its settings again; [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// It ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Another process goes on in its stead.
pub fn succeeded_by(process: u32) {
    tell(&[NotifyState::MainPid(process), NotifyState::Ready]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}
