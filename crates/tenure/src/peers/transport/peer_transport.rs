//! The connection of a member to the other members, over HTTP or in memory.

use std::sync::Arc;

use tenure_core::NodeId;

use super::endpoint::PeerEndpoint;
use super::inbox::{Inbox, PeerEvent};
use super::server::PeerServer;
use crate::peers::wire::Status;
use crate::peers::wire::envelope::Payload;

#[cfg(test)]
pub(crate) use in_memory::{Mailbox, Network};

/// The connection of a member to the other members.
#[derive(Debug)]
pub(crate) enum PeerTransport {
    /// There are no other members, or this member must not send anything any more.
    Silent,
    /// Over HTTP.
    Http(Box<PeerServer>, Inbox),
    /// In memory, for tests.
    #[cfg(test)]
    InMemory(Mailbox),
}

impl PeerTransport {
    /// Sends a message. It may be lost.
    pub(crate) fn send(&self, to: NodeId, payload: Payload) {
        match self {
            Self::Silent => {}
            Self::Http(server, _) => server.send(to, payload),
            #[cfg(test)]
            Self::InMemory(mailbox) => mailbox.send(to, payload),
        }
    }

    /// Replaces the status that the member shows.
    pub(crate) fn publish(&self, status: Status) {
        if let Self::Http(server, _) = self {
            server.endpoint.view().status = status;
        }
    }

    /// Returns the shared part of a member that exchanges messages over HTTP.
    pub(crate) fn endpoint(&self) -> Option<Arc<PeerEndpoint>> {
        match self {
            Self::Http(server, _) => Some(server.endpoint.clone()),
            _ => None,
        }
    }

    /// Returns the next event. This method is cancel safe: no event is lost.
    pub(crate) async fn recv(&mut self) -> PeerEvent {
        let event = match self {
            Self::Silent => None,
            Self::Http(_, inbox) => inbox.recv().await,
            #[cfg(test)]
            Self::InMemory(mailbox) => mailbox.recv().await,
        };
        match event {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Returns whether all messages have been sent or are lost.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Http(server, _) => server.queues.values().all(|queue| queue.is_idle()),
            _ => true,
        }
    }
}

/// Members in one process, connected by a network that a test can cut.
#[cfg(test)]
mod in_memory {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex};

    use tenure_core::{Incarnation, Instant, NodeId};
    use tokio::sync::mpsc;

    use super::super::inbox::{IncomingMessage, PeerEvent};
    use super::Payload;

    /// The network.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Network(Arc<Mutex<Wires>>);

    #[derive(Debug, Default)]
    struct Wires {
        ends: BTreeMap<NodeId, mpsc::UnboundedSender<PeerEvent>>,
        cut_off: BTreeSet<NodeId>,
    }

    impl Network {
        pub(crate) fn mailbox(&self, me: NodeId, incarnation: Incarnation) -> Mailbox {
            let (sender, receiver) = mpsc::unbounded_channel();
            self.0.lock().unwrap().ends.insert(me, sender);
            Mailbox {
                me,
                incarnation,
                network: self.clone(),
                receiver,
            }
        }

        /// Cuts a member off from all others.
        pub(crate) fn cut(&self, node: NodeId) {
            self.0.lock().unwrap().cut_off.insert(node);
        }

        pub(crate) fn heal(&self) {
            self.0.lock().unwrap().cut_off.clear();
        }

        /// Delivers an event to a member.
        pub(crate) fn deliver(&self, node: NodeId, event: PeerEvent) {
            let _ = self.0.lock().unwrap().ends[&node].send(event);
        }
    }

    /// The network interface of a member.
    #[derive(Debug)]
    pub(crate) struct Mailbox {
        me: NodeId,
        incarnation: Incarnation,
        network: Network,
        receiver: mpsc::UnboundedReceiver<PeerEvent>,
    }

    impl Mailbox {
        pub(super) fn send(&self, to: NodeId, payload: Payload) {
            let wires = self.network.0.lock().unwrap();
            if wires.cut_off.contains(&self.me) || wires.cut_off.contains(&to) {
                return;
            }
            let event = PeerEvent::Message(IncomingMessage {
                from: self.me,
                incarnation: self.incarnation,
                payload,
                reply: None,
                good_until: Instant::from_nanos(u64::MAX),
            });
            if let Some(end) = wires.ends.get(&to) {
                let _ = end.send(event);
            }
        }

        pub(super) async fn recv(&mut self) -> Option<PeerEvent> {
            self.receiver.recv().await
        }
    }
}
