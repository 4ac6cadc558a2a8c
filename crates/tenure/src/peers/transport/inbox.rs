//! Events for the driver.

use tenure_core::{Incarnation, Instant, NodeId};
use tokio::sync::{mpsc, oneshot};

use crate::base::clock::Clock;
use crate::peers::wire::envelope::Payload;

/// The capacity of the queue of events for the driver. A driver that is further behind would refuse
/// most of the events as too old.
pub(super) const CAPACITY: usize = 256;

/// An event from the other members.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A member has sent a message.
    Message(IncomingMessage),
    /// A member's machine refuses connections, or has closed the one that the member used. Its
    /// process has probably ended. This is only a hint, because a proxy between the members may be
    /// the cause.
    Refused(NodeId),
    /// Another process has this member's number, this process uses an old state, or it uses another
    /// store than more of the members. This process must not lead. The text names the member that
    /// detected it, and the remedy.
    Duplicate(String),
}

/// A message.
#[derive(Debug)]
pub(crate) struct IncomingMessage {
    /// The member that sent it.
    pub(crate) from: NodeId,
    /// The incarnation of the sender.
    pub(crate) incarnation: Incarnation,
    pub(crate) payload: Payload,
    /// The channel for the response to the request that contained the message; `None` for a message
    /// from a response.
    pub(crate) reply: Option<Reply>,
    /// The end of its lifetime.
    pub(crate) good_until: Instant,
}

/// The channel for the payloads of the response to a request. If it is dropped, the response is
/// empty. A send fails and returns the payloads if the sender of the request no longer waits.
pub(crate) type Reply = oneshot::Sender<Vec<Payload>>;

/// The receiver of events.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) clock: Clock,
    pub(super) events: mpsc::Receiver<PeerEvent>,
}

impl Inbox {
    /// Returns the next event, or `None` when the server and all of its routers are gone. This
    /// method is cancel safe: no event is lost.
    pub(crate) async fn recv(&mut self) -> Option<PeerEvent> {
        loop {
            match self.events.recv().await? {
                // This process was frozen while the message waited in the queue.
                PeerEvent::Message(message) if message.good_until < self.clock.now() => {}
                event => return Some(event),
            }
        }
    }
}
