//! The signals that the process obeys, heard from before it listens until it ends.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// What a signal orders, or an administrator.
#[derive(Debug)]
pub enum Order {
    /// SIGHUP: read the settings again, and tell whoever waits for it what came of that.
    Reload(Option<oneshot::Sender<Result<(), String>>>),
    /// Another binary is to take over; tell whoever waits for it what came of that.
    Upgrade(oneshot::Sender<Result<u32, String>>),
    /// SIGUSR1: open the access log again.
    Reopen,
    /// SIGTERM, SIGINT: stop.
    Stop,
}

/// Starts to hear. The orders wait until they are asked for; others may give some, too.
///
/// # Errors
/// No handler, or no thread, could be set up.
pub fn hear() -> io::Result<(mpsc::UnboundedSender<Order>, mpsc::UnboundedReceiver<Order>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut heard = {
        let _entered = runtime.enter();
        Heard {
            hangup: signal(SignalKind::hangup())?,
            rotated: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        }
    };
    let (sender, orders) = mpsc::unbounded_channel();
    let others = sender.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async { while sender.send(heard.next().await).is_ok() {} });
        })?;
    Ok((others, orders))
}

struct Heard {
    hangup: Signal,
    rotated: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Heard {
    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.hangup.recv() => Order::Reload(None),
            _ = self.rotated.recv() => Order::Reopen,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.interrupt.recv() => Order::Stop,
        }
    }
}
