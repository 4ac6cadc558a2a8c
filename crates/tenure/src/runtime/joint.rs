//! Electing by a lease and among peers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tenure_core::election::joint::{Joint, JointEffect, JointMessage};
use tenure_core::election::{ElectionMachine as _, TermEvent};
use tenure_core::lease::candidate::Answer;
use tenure_core::{CandidateId, Instant, NodeId};
use tokio::sync::oneshot;

use super::command::Proclaimed;
use super::lease::LeaseChannel;
use super::peers::{Peers, PeersInput};
use super::strategy_io::{LeaseIo, NO_SUCH_MEMBER, StrategyIo};
use crate::backend::SharedBackend;
use crate::config::Config;
use crate::random::OsRandom;

/// A machine that needs the lease and the peers, with its channels to both.
pub(super) struct JointStrategy {
    peers: Peers<Joint>,
    channel: LeaseChannel,
}

impl JointStrategy {
    pub(super) fn new(config: Arc<Config>, peers: Peers<Joint>, link: SharedBackend) -> Self {
        let channel = LeaseChannel::new(config, link);
        Self { peers, channel }
    }
}

impl LeaseIo for JointStrategy {
    fn channel(&mut self) -> &mut LeaseChannel {
        &mut self.channel
    }

    fn handle_answer(&mut self, now: Instant, attempt: u64, answer: Answer) {
        let message = JointMessage::Store(attempt, answer);
        self.machine_mut()
            .handle_message(now, message, &mut OsRandom);
    }

    fn renew_early(&mut self, now: Instant) {
        self.machine_mut().renew_early(now, &mut OsRandom);
    }
}

impl StrategyIo for JointStrategy {
    type Machine = Joint;
    type Input = PeersInput;

    fn machine(&self) -> &Joint {
        self.peers.machine()
    }

    fn machine_mut(&mut self) -> &mut Joint {
        self.peers.machine_mut()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peers.handle_timeout(now);
    }

    fn poll_term_event(&mut self, now: Instant) -> Option<TermEvent> {
        let channel = &mut self.channel;
        self.peers.poll(now, |peers, effect| match effect {
            JointEffect::Store(effect) => channel.execute(effect),
            JointEffect::Peers(effect) => peers.execute(now, effect),
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.poll_timeout()
    }

    fn peer(&self, to: &CandidateId) -> Result<(NodeId, CandidateId), &'static str> {
        let node = self.peers.peer(to).ok_or(NO_SUCH_MEMBER)?;
        Ok((node, to.clone()))
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>) {
        match self.peers.proclaim(metadata.clone()) {
            Some(Ok(())) => {
                let lease_id = self.machine().lease_id();
                self.channel.proclaim(lease_id, metadata, done);
            }
            other => {
                let _ = done.send(other);
            }
        }
    }

    fn lease(&mut self) -> Option<&mut dyn LeaseIo> {
        Some(self)
    }

    fn next_input(&mut self) -> Option<BoxFuture<'_, PeersInput>> {
        Some(Box::pin(self.peers.next_input()))
    }

    fn handle_input(&mut self, now: Instant, input: PeersInput) {
        self.peers.handle_input(now, input);
    }
}
