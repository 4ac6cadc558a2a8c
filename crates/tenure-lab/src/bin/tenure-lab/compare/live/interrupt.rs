//! Ctrl-C and other signals that end a command with child processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_usize;

use crate::exit;

/// The last signal that asked this process to end, or 0.
#[derive(Clone, Debug)]
pub(super) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on. The processes that this one starts are in
    /// process groups of their own, so the terminal does not signal them. A second signal does not
    /// end this process while it kills the others, which is quick.
    pub(super) fn handle() -> anyhow::Result<Self> {
        let interrupt = Self(Arc::default());
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
            register_usize(signal, interrupt.0.clone(), number)?;
        }
        Ok(interrupt)
    }

    /// Fails, with the exit code of the signal, if there was one.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let signal = self.0.load(Ordering::Relaxed);
        if signal == 0 {
            return Ok(());
        }
        let code = u8::try_from(128 + signal).unwrap_or(1);
        let error = anyhow!("interrupted; all processes that were started are stopped");
        Err(exit::error(code, error))
    }
}
