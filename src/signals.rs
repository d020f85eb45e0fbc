//! The signals that the process obeys, heard from before it listens until it ends.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// What a signal orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// SIGHUP: read the settings again.
    Reload,
    /// SIGUSR1: open the access log again.
    Reopen,
    /// SIGTERM, SIGINT: stop.
    Stop,
}

/// Starts to hear. The orders wait until they are asked for.
///
/// # Errors
/// No handler, or no thread, could be set up.
pub fn hear() -> io::Result<mpsc::UnboundedReceiver<Order>> {
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
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async { while sender.send(heard.next().await).is_ok() {} });
        })?;
    Ok(orders)
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
            _ = self.hangup.recv() => Order::Reload,
            _ = self.rotated.recv() => Order::Reopen,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.interrupt.recv() => Order::Stop,
        }
    }
}
