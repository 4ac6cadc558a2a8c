//! Events for the driver.

use tenure_core::{Incarnation, Instant, NodeId};
use tokio::sync::{mpsc, oneshot};

use super::envelope::Payload;
use crate::clock::Clock;

/// How many events may wait for the driver. A driver that is so far behind would refuse most of
/// them as too old.
pub(super) const CAPACITY: usize = 256;

/// An event from the other members.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A member has sent a message.
    Message(IncomingMessage),
    /// A member's machine refuses connections, or has closed the one that the member used: most likely
    /// its process is gone. A hint and no verdict, because it may be a proxy in between.
    Refused(NodeId),
    /// Another process has this member's number, or this one has an old state. It must not lead.
    /// The text names the member that noticed, and the remedy.
    Duplicate(String),
}

/// A message.
#[derive(Debug)]
pub(crate) struct IncomingMessage {
    /// The member that sent it.
    pub(crate) from: NodeId,
    /// In which of its starts.
    pub(crate) incarnation: Incarnation,
    pub(crate) payload: Payload,
    /// The response to the request that the message came in; `None` for a message that came in a
    /// response.
    pub(crate) reply: Option<Reply>,
    /// The end of its lifetime.
    pub(crate) good_until: Instant,
}

/// Sends payloads in the response to a request; without it the response is empty. Gives them back if
/// the sender of the request no longer waits for it.
pub(crate) type Reply = oneshot::Sender<Vec<Payload>>;

/// The receiver of events.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) clock: Clock,
    pub(super) events: mpsc::Receiver<PeerEvent>,
}

impl Inbox {
    /// The next event, or `None` when the server and all of its routers are gone. May be dropped
    /// while it waits; nothing is lost then.
    pub(crate) async fn recv(&mut self) -> Option<PeerEvent> {
        loop {
            match self.events.recv().await? {
                // This process stood still while the message lay here.
                PeerEvent::Message(message) if message.good_until < self.clock.now() => {}
                event => return Some(event),
            }
        }
    }
}
