//! Election by a lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::election::{ElectionMachine as _, Output, TermEvent};
use tenure_core::lease::candidate::LeaseCandidate;
use tenure_core::{CandidateId, Instant};

use super::channel::LeaseChannel;
use super::strategy_io::{StrategyInput, StrategyIo};
use super::term::Proclaimer;
use crate::base::random::OsRandom;
use crate::config::Config;
use crate::election::metrics::Recorder;
use crate::service::{BackendReply, SharedBackend};

/// A candidate that competes for a lease, with its channel to the lease service.
pub(crate) struct LeaseStrategy {
    machine: LeaseCandidate,
    channel: LeaseChannel,
}

impl LeaseStrategy {
    pub(crate) fn new(config: Arc<Config>, backend: SharedBackend, metrics: Arc<Recorder>) -> Self {
        Self {
            machine: LeaseCandidate::new(config.timings).with_looks(backend.has_other_writers()),
            channel: LeaseChannel::new(config, backend, metrics),
        }
    }
}

impl StrategyInput for LeaseStrategy {
    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now, &mut OsRandom);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn channel(&mut self) -> Option<&mut LeaseChannel> {
        Some(&mut self.channel)
    }

    fn handle_reply(&mut self, now: Instant, attempt: u64, reply: BackendReply) {
        self.channel.count(now, attempt, reply.outcome);
        let message = (attempt, reply.answer);
        self.machine.handle_message(now, message, &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.machine.renew_early(now, &mut OsRandom);
    }
}

impl StrategyIo for LeaseStrategy {
    type Machine = LeaseCandidate;

    fn machine(&mut self) -> &mut LeaseCandidate {
        &mut self.machine
    }

    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Effect(effect) => self.channel.execute(now, effect),
                Output::Term(event) => return Some(event),
            }
        }
        None
    }

    fn hand_over(&mut self, now: Instant, to: CandidateId) -> Result<(), &'static str> {
        if !self.channel.backend.can_hand_over() {
            return Err(
                "this strategy can't hand a lease over to a chosen candidate; the term goes on",
            );
        }
        self.machine.hand_over(now, to);
        Ok(())
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: Proclaimer) {
        self.channel
            .proclaim(self.machine.lease_id(), metadata, done);
    }
}
