//! Electing in a store and among peers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::election::ElectionMachine as _;
use tenure_core::election::joint::{self, JointMessage, JointOutput};
use tenure_core::lease::candidate::Answer;
use tenure_core::{CandidateId, Instant, NodeId};
use tokio::sync::oneshot;

use super::command::Proclaimed;
use super::elector::{Elector, NO_SUCH_MEMBER, News};
use super::lease::{AsksStore, StoreWay};
use super::peers::Peers;
use crate::backend::SharedBackend;
use crate::config::Config;
use crate::random::OsRandom;

/// A machine that is elected in both places, with its ways to both.
pub(super) struct Both {
    peers: Peers<joint::Joint>,
    way: StoreWay,
}

impl Both {
    pub(super) fn new(
        config: Arc<Config>,
        peers: Peers<joint::Joint>,
        link: SharedBackend,
    ) -> Self {
        let way = StoreWay::new(config, link);
        Self { peers, way }
    }

    pub(super) const fn peers(&mut self) -> &mut Peers<joint::Joint> {
        &mut self.peers
    }
}

impl AsksStore for Both {
    fn way(&mut self) -> &mut StoreWay {
        &mut self.way
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

impl Elector for Both {
    type Machine = joint::Joint;

    fn machine(&self) -> &joint::Joint {
        self.peers.machine()
    }

    fn machine_mut(&mut self) -> &mut joint::Joint {
        self.peers.machine_mut()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peers.handle_timeout(now);
    }

    fn poll_news(&mut self, now: Instant) -> Option<News> {
        let way = &mut self.way;
        self.peers.poll_news_by(now, |peers| {
            while let Some(output) = peers.machine_mut().poll_output() {
                let news = match output {
                    JointOutput::Store(output) => way.obey(output),
                    JointOutput::Peers(output) => peers.obey(now, output),
                };
                if news.is_some() {
                    return news;
                }
            }
            None
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
            Some(Ok(())) => self.way.proclaim(self.machine().lease_id(), metadata, done),
            other => {
                let _ = done.send(other);
            }
        }
    }
}
