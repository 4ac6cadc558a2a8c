//! The metadata of the leader, and the state that observers see.

use std::collections::BTreeMap;

use tenure_core::{Epoch, NodeId};
use tokio::sync::watch;

use crate::base::observed::Observed;
use crate::peers::wire::LeaderMetadata;

/// The metadata of this member and of the leader that it follows.
pub(super) struct Metadata {
    me: NodeId,
    configured: BTreeMap<String, String>,
    /// The metadata that this member has proclaimed in its term. They replace the configured
    /// metadata.
    pub(super) proclaimed: Option<BTreeMap<String, String>>,
    /// The last metadata that another member has sent.
    pub(super) received: Option<(NodeId, LeaderMetadata)>,
    pub(super) observed: watch::Sender<Observed>,
}

impl Metadata {
    pub(super) fn new(me: NodeId, configured: BTreeMap<String, String>) -> Self {
        let unknown = Observed::Unknown("no leader is known yet".into());
        Self {
            me,
            configured,
            proclaimed: None,
            received: None,
            observed: watch::Sender::new(unknown),
        }
    }

    /// Returns the metadata of this member while it leads.
    fn own(&self) -> &BTreeMap<String, String> {
        self.proclaimed.as_ref().unwrap_or(&self.configured)
    }

    /// Returns the message with this leader's metadata for its followers, or `None` if it has
    /// neither configured nor proclaimed metadata.
    pub(super) fn message(&self, epoch: Epoch) -> Option<LeaderMetadata> {
        let metadata = self.own().clone();
        (!metadata.is_empty() || self.proclaimed.is_some())
            .then_some(LeaderMetadata { epoch, metadata })
    }

    /// Returns the metadata of the leader, as observers see them.
    pub(super) fn of_leader(&self) -> BTreeMap<String, String> {
        match &*self.observed.borrow() {
            Observed::Leader { metadata, .. } => metadata.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Publishes the leader to observers.
    pub(super) fn show(&self, leader: Option<(NodeId, Epoch)>) {
        let observed = leader.map_or(Observed::NoLeader, |(leader, epoch)| Observed::Leader {
            candidate: leader.into(),
            epoch,
            metadata: match &self.received {
                _ if leader == self.me => self.own().clone(),
                Some((from, received)) if (*from, received.epoch) == (leader, epoch) => {
                    received.metadata.clone()
                }
                _ => BTreeMap::new(),
            },
        });
        self.observed.send_if_modified(|seen| {
            let is_new = *seen != observed;
            *seen = observed;
            is_new
        });
    }
}
