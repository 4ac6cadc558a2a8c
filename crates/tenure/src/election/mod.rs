//! The thread that drives the machines.
//!
//! It has its own async runtime, so a task that blocks the application's runtime stops neither the
//! renewals nor the watchdog that ends the term. Several candidates may share the thread. They then
//! send their renewals to the store together.

pub(crate) mod error;
pub(crate) mod term;

pub mod metrics;
pub(crate) mod overrun;
mod spans;

mod channel;
mod strategy_io;

#[cfg(feature = "peers")]
pub(crate) mod peers;

mod candidate_runner;
mod event_loop;
mod requests;

#[cfg(all(test, feature = "peers"))]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::{mpsc, watch};

use candidate_runner::CandidateRunner;
#[cfg(feature = "peers")]
pub(crate) use channel::LeaseChannel;
use event_loop::{EventLoop, RuntimeMessage};
pub(crate) use strategy_io::StrategyIo;
use term::DriverHandle;

use crate::base::clock::Clock;
use crate::config::Config;
use crate::election::metrics::Recorder;
use crate::election::overrun::OverrunWatch;

/// The handle to the driver's thread. The thread ends when this handle and all of its candidates
/// are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) clock: Clock,
    #[cfg_attr(
        not(feature = "peers"),
        expect(dead_code, reason = "members listen on it")
    )]
    pub(crate) runtime: tokio::runtime::Handle,
    /// The number of candidates that have joined.
    joined: Arc<AtomicUsize>,
    messages: mpsc::UnboundedSender<RuntimeMessage>,
    /// `None` if a test moves the clock: a process must not end by such a clock.
    overrun_watch: Option<OverrunWatch>,
}

impl Driver {
    /// Starts the thread, and the one that watches its terms.
    pub(crate) fn start(clock: Clock) -> std::io::Result<Self> {
        let overrun_watch = match clock {
            Clock::System => Some(OverrunWatch::start()?),
            Clock::Manual(_) => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (messages, inbox) = mpsc::unbounded_channel();
        let of_thread = clock.clone();
        thread::Builder::new()
            .name("tenure-driver".into())
            .spawn(move || {
                let run = EventLoop::new(of_thread).run(inbox);
                // When the candidates are dropped, they end their terms and notify their callers.
                if catch_unwind(AssertUnwindSafe(|| runtime.block_on(run))).is_err() {
                    tracing::error!(
                        thread = "tenure-driver",
                        "the thread that renews has panicked: all terms of its candidates are over"
                    );
                }
            })?;
        Ok(Self {
            clock,
            runtime: handle,
            joined: Arc::default(),
            messages,
            overrun_watch,
        })
    }

    /// Adds a candidate.
    pub(crate) fn join(
        &self,
        config: Arc<Config>,
        metrics: Arc<Recorder>,
        io: StrategyIo,
    ) -> Arc<DriverHandle> {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        let (publish_term, terms) = watch::channel(None);
        let messages = self.messages.clone();
        let handle = Arc::new(DriverHandle {
            config,
            clock: self.clock.clone(),
            terms,
            send: Box::new(move |command| {
                messages.send(RuntimeMessage::To(number, command)).is_ok()
            }),
        });
        let watch = self.overrun_watch.clone();
        let slot = Box::new(CandidateRunner::new(
            &handle,
            metrics,
            io,
            publish_term,
            watch,
        ));
        // If the thread has died, the first command reports that.
        let _ = self.messages.send(RuntimeMessage::Join(number, slot));
        handle
    }
}
