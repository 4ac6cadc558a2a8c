//! The status of a member, on its status route.

use std::collections::BTreeMap;

use tenure_core::bully::PeerCandidate;
use tenure_core::detector::Detector;
use tenure_core::election::{ElectionMachine as _, Standing};
use tenure_core::{Instant, NodeId};

use crate::peer_transport::{PeerTransport, Status};

/// The status as it was last published, and what it is made from.
pub(super) struct StatusReport {
    pub(super) status: Status,
    /// When each of the other members was last heard.
    heard: BTreeMap<NodeId, Instant>,
}

impl StatusReport {
    pub(super) const fn new(status: Status) -> Self {
        Self {
            status,
            heard: BTreeMap::new(),
        }
    }

    /// A message has come from this member.
    pub(super) fn heard(&mut self, now: Instant, from: NodeId) {
        self.heard.insert(from, now);
    }

    /// Publishes the status, if it has changed. `standing` is that of the whole machine, of which
    /// `node` may be one half.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        standing: Standing,
        node: &PeerCandidate,
        detector: &dyn Detector,
        transport: &PeerTransport,
        metadata: BTreeMap<String, String>,
    ) {
        let role = match (standing, node.standing(now)) {
            (Standing::Leading { .. }, _) => "leading",
            (Standing::Ending, _) | (_, Standing::Ending) => "ending",
            // It leads among the peers, and does not have the lease yet.
            (_, Standing::Leading { .. }) => "elected",
            _ => node.role(),
        };
        let status = Status {
            role: role.into(),
            leader: node.leader().map(|(leader, _)| leader),
            epoch: node.leader().map(|(_, epoch)| epoch),
            election: node.election(),
            suspects: self.suspects(now, node, detector),
            quorum: node.reaches_majority(),
            metadata,
            ..self.status.clone()
        };
        if self.status != status {
            transport.publish(status.clone());
            self.status = status;
        }
    }

    /// The members that it takes for down: a leader those that have been silent for too long, another
    /// member the one that it watches.
    fn suspects(&self, now: Instant, node: &PeerCandidate, detector: &dyn Detector) -> Vec<NodeId> {
        let longest = node.longest_silence();
        let heard = |node| self.heard.get(&node);
        let silent = |node, longest| heard(node).is_none_or(|&heard| now.since(heard) > longest);
        let is_down = |&node: &NodeId| {
            detector.is_suspected(node) || longest.is_some_and(|it| silent(node, it))
        };
        let others = node.settings().members().others(node.settings().me());
        others.filter(is_down).collect()
    }
}
