//! A member's way to the other members, whatever it is.

use std::io;

use tenure_core::{Incarnation, NodeId};

use crate::bully::{self, Carrier, Inbox, Payload, Status};

#[cfg(test)]
pub(crate) use in_memory::{Mailbox, Network};

/// A member's way to the other members.
#[derive(Debug)]
pub(crate) enum Post {
    /// There are no others, or nothing may be said to them any more.
    Silent,
    /// Over HTTP.
    Http(Box<Carrier>, Inbox),
    /// In memory, for tests.
    #[cfg(test)]
    InMemory(Mailbox),
}

/// What comes in.
#[derive(Debug)]
pub(crate) enum Event {
    /// A member says something.
    Message(Incoming),
    /// A member's machine refuses connections, or has closed one.
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
    /// In the response to the sender's request, if it comes in time.
    Http(bully::Reply),
    /// Like everything else that is sent.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "over HTTP there is a better one")
    )]
    ByPost,
}

impl Post {
    /// Sends this. It may be lost.
    pub(crate) fn send(&self, to: NodeId, payload: Payload) {
        match self {
            Self::Silent => {}
            Self::Http(carrier, _) => carrier.send(to, payload),
            #[cfg(test)]
            Self::InMemory(mailbox) => mailbox.send(to, payload),
        }
    }

    /// Answers a message of this member.
    pub(crate) fn answer(&self, to: NodeId, reply: Reply, payloads: Vec<Payload>) {
        match (self, reply) {
            (Self::Silent, _) => {}
            (_, Reply::Http(reply)) => reply.send(payloads),
            (_, Reply::ByPost) => {
                for payload in payloads {
                    self.send(to, payload);
                }
            }
        }
    }

    /// Shows this to those who look at the member.
    pub(crate) fn publish(&self, status: Status) {
        if let Self::Http(carrier, _) = self {
            carrier.publish(status);
        }
    }

    /// What comes in next. May be dropped while it waits; nothing is lost then.
    pub(crate) async fn recv(&mut self) -> Event {
        let event = match self {
            Self::Silent => None,
            Self::Http(_, inbox) => inbox.recv().await.map(Event::from),
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
        match self {
            Self::Silent => true,
            Self::Http(carrier, _) => carrier.is_idle(),
            #[cfg(test)]
            Self::InMemory(_) => true,
        }
    }
}

impl From<bully::Event> for Event {
    fn from(event: bully::Event) -> Self {
        match event {
            bully::Event::Message(message) => Self::Message(Incoming {
                from: message.from,
                incarnation: message.incarnation,
                payload: message.payload,
                reply: Reply::Http(message.reply),
            }),
            bully::Event::Refused(node) => Self::Refused(node),
            bully::Event::Impostor(impostor) => Self::Impostor(impostor.to_string()),
        }
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
