//! The status of a member, on its status route.

use tenure_core::election::{ElectionMachine as _, Standing};
use tenure_core::{Instant, NodeId};

use super::{Peers, node};
use crate::base::clock::rfc3339;
use crate::peers::wire::{CarriedBy, Status};

impl Peers {
    /// Publishes the status if it has changed.
    pub(super) fn publish_status(&mut self, now: Instant) {
        let node = node(&self.machine);
        // The standing of the whole machine has priority, because `node` may be only one half of
        // the machine.
        let role = match (self.machine.standing(now), node.standing(now)) {
            (Standing::Leading { .. }, _) => "leading",
            (Standing::Ending, _) | (_, Standing::Ending) => "ending",
            // The member leads among the peers, and does not have the lease yet.
            (_, Standing::Leading { .. }) => "elected",
            _ => node.role(),
        };
        let status = Status {
            role: role.into(),
            leader: node.leader().map(|(leader, _)| leader),
            epoch: node.leader().map(|(_, epoch)| epoch),
            election: node.election(),
            suspects: self.suspects(now),
            quorum: node.reaches_majority(),
            metadata: self.metadata.of_leader(),
            carried_by: self.term_quorum(now).map(|quorum| CarriedBy {
                kind: quorum.kind.to_string(),
                further_losses: quorum.further_losses,
                store_silent_since: quorum.store_silent_since.map(rfc3339),
            }),
            ..self.status.clone()
        };
        if self.status != status {
            self.transport.publish(status.clone());
            self.status = status;
        }
    }

    /// Returns the members that this member suspects: a leader suspects members that have been
    /// silent for too long, and another member suspects the member that it watches.
    pub(super) fn suspects(&self, now: Instant) -> Vec<NodeId> {
        let node = node(&self.machine);
        let lifetime = node.settings().timings().message_lifetime();
        let (longest, asks_since) = (node.longest_silence(), self.asks_since());
        let silent = |node, longest| {
            let heard = self.heard.get(&node);
            let Some(asks_since) = asks_since else {
                return false;
            };
            match heard {
                // It has not answered since this leader began to ask.
                Some(&heard) if heard < asks_since => now > asks_since + lifetime,
                Some(&heard) => now.since(heard) > longest,
                None => true,
            }
        };
        let is_down = |&node: &NodeId| {
            self.detector.is_suspected(node) || longest.is_some_and(|it| silent(node, it))
        };
        let others = node.settings().members().others(self.me);
        others.filter(is_down).collect()
    }
}
