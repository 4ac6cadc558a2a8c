//! The machine of a strategy with its input and output.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tenure_core::election::joint::{JointEffect, JointMessage};
use tenure_core::election::{AnyMachine, ElectionMachine as _, Output, TaskEnd, TermEvent};
use tenure_core::lease::candidate::LeaseCandidate;
use tenure_core::{CandidateId, Instant};
use tracing::Span;

use super::channel::LeaseChannel;
#[cfg(feature = "peers")]
use super::peers::Peers;
use super::term::Proclaimer;
use crate::base::random::OsRandom;
use crate::config::Config;
use crate::election::metrics::Recorder;
use crate::service::{BackendReply, SharedBackend};

/// A machine with its input and output. It executes the machine's effects, and returns the events
/// of the campaign and the term.
pub(crate) enum StrategyIo {
    /// Election by a lease alone.
    Lease {
        machine: AnyMachine,
        channel: LeaseChannel,
    },
    /// Election among peers, also together with a lease.
    #[cfg(feature = "peers")]
    Peers(Box<Peers>),
}

impl StrategyIo {
    /// Creates a candidate that competes for a lease.
    pub(crate) fn lease(
        config: Arc<Config>,
        backend: SharedBackend,
        metrics: Arc<Recorder>,
    ) -> Self {
        let lease = LeaseCandidate::new(config.timings).with_looks(backend.has_other_writers());
        Self::Lease {
            machine: AnyMachine::Lease(Box::new(lease)),
            channel: LeaseChannel::new(config, backend, metrics),
        }
    }

    pub(super) fn machine(&mut self) -> &mut AnyMachine {
        match self {
            Self::Lease { machine, .. } => machine,
            #[cfg(feature = "peers")]
            Self::Peers(peers) => &mut peers.machine,
        }
    }

    /// Returns its channel to a lease service, if it has one.
    pub(super) fn channel(&mut self) -> Option<&mut LeaseChannel> {
        match self {
            Self::Lease { channel, .. } => Some(channel),
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.lease.as_mut(),
        }
    }

    /// Sets the span of requests to the lease service and of their failures, and returns the last
    /// one.
    pub(super) fn set_span(&mut self, span: Span) -> Span {
        match self.channel() {
            Some(channel) => std::mem::replace(&mut channel.span, span),
            None => Span::none(),
        }
    }

    /// Handles the current time.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Lease { machine, .. } => machine.handle_timeout(now, &mut OsRandom),
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.handle_timeout(now),
        }
    }

    /// Returns the latest time of the next call of [`StrategyIo::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Lease { machine, .. } => machine.poll_timeout(),
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.poll_timeout(),
        }
    }

    /// Handles a reply of the lease service.
    pub(super) fn handle_reply(&mut self, now: Instant, attempt: u64, reply: BackendReply) {
        if let Some(channel) = self.channel() {
            channel.count(now, attempt, reply.outcome);
        }
        let message = JointMessage::Store(attempt, reply.answer);
        self.machine().handle_message(now, message, &mut OsRandom);
    }

    /// Waits for other input and handles it. Returns `None` if there never is any. The future is
    /// cancel safe: no input is lost.
    pub(super) fn receive(&mut self) -> Option<BoxFuture<'_, ()>> {
        match self {
            Self::Lease { .. } => None,
            #[cfg(feature = "peers")]
            Self::Peers(peers) => Some(Box::pin(peers.receive())),
        }
    }

    /// Tells the machine that the task of the term is gone.
    pub(super) fn task_ended(&mut self, now: Instant, end: TaskEnd) {
        #[cfg(feature = "peers")]
        if let Self::Peers(peers) = self {
            peers.stopped = now;
        }
        self.machine().task_ended(now, end, &mut OsRandom);
    }

    /// Executes the machine's effects until the next term event.
    pub(super) fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        match self {
            Self::Lease { machine, channel } => loop {
                match machine.poll_output()? {
                    Output::Effect(JointEffect::Store(effect)) => channel.execute(now, effect),
                    // A candidate by a lease alone has no peers.
                    Output::Effect(JointEffect::Peers(_)) => {}
                    Output::Term(event) => return Some(event),
                }
            },
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.poll_term_event(now),
        }
    }

    /// Hands the term over to this candidate, or returns why that is impossible.
    pub(super) fn hand_over(&mut self, now: Instant, to: CandidateId) -> Result<(), &'static str> {
        match self {
            Self::Lease { channel, .. } if !channel.backend.can_hand_over() => {
                return Err(
                    "this strategy can't hand a lease over to a chosen candidate; the term goes on",
                );
            }
            Self::Lease { .. } => {}
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.check_successor(&to)?,
        }
        self.machine().hand_over(now, to);
        Ok(())
    }

    /// Publishes these metadata of the leader.
    pub(super) fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer) {
        match self {
            Self::Lease { machine, channel } => {
                channel.proclaim(machine.lease_id(), metadata, done);
            }
            #[cfg(feature = "peers")]
            Self::Peers(peers) => peers.proclaim(metadata, done),
        }
    }
}
