//! A member's way to the other members, whatever it is.

use std::io;

use tenure_core::bully;
use tenure_core::detector;
use tenure_core::{Incarnation, NodeId};

#[cfg(test)]
pub(crate) use in_memory::{Mailbox, Network};

/// What one member says to another.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Election(bully::Message),
    Detector(detector::Message),
}

/// A member's way to the other members.
#[derive(Debug)]
pub(crate) enum Post {
    /// There are no others, or nothing may be said to them any more.
    Silent,
    /// In memory, for tests.
    #[cfg(test)]
    InMemory(Mailbox),
}

/// What comes in.
#[derive(Debug)]
pub(crate) enum Event {
    /// A member says something.
    Message(Incoming),
    /// A member's machine refuses connections.
    Refused(NodeId),
    /// Another process takes part under this member's number, says who has seen it.
    Impostor(String),
    /// A record is on disk, or could not be written.
    Written(io::Result<()>),
}

/// A message.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) from: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) payload: Payload,
    pub(crate) reply: Reply,
}

/// The way back to the sender.
#[derive(Debug)]
pub(crate) enum Reply {
    /// There is none but the post.
    #[cfg(test)]
    ByPost,
}

impl Post {
    /// Sends this. It may be lost.
    pub(crate) fn send(&self, to: NodeId, payload: Payload) {
        match self {
            Self::Silent => {}
            #[cfg(test)]
            Self::InMemory(mailbox) => mailbox.send(to, payload),
        }
    }

    /// Answers a message.
    pub(crate) fn answer(&self, to: NodeId, reply: Reply, payloads: Vec<Payload>) {
        match (self, reply) {
            (Self::Silent, _) => {}
            #[cfg(test)]
            (_, Reply::ByPost) => payloads
                .into_iter()
                .for_each(|payload| self.send(to, payload)),
        }
    }

    /// What comes in next. May be dropped while it waits; nothing is lost then.
    pub(crate) async fn recv(&mut self) -> Event {
        let event = match self {
            Self::Silent => None,
            #[cfg(test)]
            Self::InMemory(mailbox) => mailbox.recv().await,
        };
        match event {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Whether everything is on its way that was to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        true
    }
}

/// Members in one process, and a network between them that a test can cut.
#[cfg(test)]
mod in_memory {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex};

    use tokio::sync::mpsc;

    use super::{Event, Incarnation, Incoming, NodeId, Payload, Reply};

    /// The network.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Network(Arc<Mutex<Wires>>);

    #[derive(Debug, Default)]
    struct Wires {
        ends: BTreeMap<NodeId, mpsc::UnboundedSender<Event>>,
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

        /// Lets a member hear this.
        pub(crate) fn tell(&self, node: NodeId, event: Event) {
            let _ = self.0.lock().unwrap().ends[&node].send(event);
        }
    }

    /// A member's end of the network.
    #[derive(Debug)]
    pub(crate) struct Mailbox {
        me: NodeId,
        incarnation: Incarnation,
        network: Network,
        receiver: mpsc::UnboundedReceiver<Event>,
    }

    impl Mailbox {
        pub(super) fn send(&self, to: NodeId, payload: Payload) {
            let wires = self.network.0.lock().unwrap();
            if wires.cut_off.contains(&self.me) || wires.cut_off.contains(&to) {
                return;
            }
            let event = Event::Message(Incoming {
                from: self.me,
                incarnation: self.incarnation,
                payload,
                reply: Reply::ByPost,
            });
            if let Some(end) = wires.ends.get(&to) {
                let _ = end.send(event);
            }
        }

        pub(super) async fn recv(&mut self) -> Option<Event> {
            self.receiver.recv().await
        }
    }
}
