//! What comes in for the driver.

use std::fmt;
use std::sync::Arc;

use tenure_core::{Incarnation, Instant, NodeId};
use tokio::sync::{mpsc, oneshot};

use super::envelope::Payload;
use super::link::Link;
use super::local::Local;
use crate::clock::Clock;

/// How many events may wait for the driver. A driver that is so far behind would refuse most of
/// them as too old.
const CAPACITY: usize = 256;

/// What the carrier has to say.
#[derive(Debug)]
pub(crate) enum Event {
    /// A member says something.
    Message(Incoming),
    /// A member's machine refuses the connection, or has closed the one that the member spoke on: most
    /// likely its process is gone. A hint and no verdict, since it may be something in between.
    Refused(NodeId),
    /// Another process has this member's number, or this one has an old state. It must not lead.
    Impostor(Impostor),
}

/// A message.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Who says it.
    pub(crate) from: NodeId,
    /// In which of its starts.
    pub(crate) incarnation: Incarnation,
    /// What it says.
    pub(crate) payload: Payload,
    /// The way back.
    pub(crate) reply: Reply,
    /// The end of its lifetime.
    pub(super) good_until: Instant,
}

/// That another process has this member's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impostor {
    /// Who has seen it.
    pub(crate) seen_by: NodeId,
    /// What it saw.
    pub(crate) detail: String,
    /// What would be right.
    pub(crate) remedy: &'static str,
}

/// For people, as an answer to "why does it not lead".
impl fmt::Display for Impostor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seen_by,
            detail,
            remedy,
        } = self;
        write!(f, "member {seen_by} says: {detail}; {remedy}")
    }
}

/// The way back to the sender of a message: in the response to its request while that waits, else
/// like any other message. Dropping it says nothing.
pub(crate) struct Reply {
    pub(super) local: Arc<Local>,
    pub(super) link: Arc<Link>,
    pub(super) response: Option<oneshot::Sender<Vec<Payload>>>,
}

impl Reply {
    /// Says this to the sender.
    pub(crate) fn send(self, payloads: Vec<Payload>) {
        let late = match self.response {
            Some(response) => response.send(payloads).err(),
            None => Some(payloads),
        };
        for payload in late.into_iter().flatten() {
            self.local.enqueue(&self.link, payload);
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

/// Where events come out.
#[derive(Debug)]
pub(crate) struct Inbox {
    clock: Clock,
    events: mpsc::Receiver<Event>,
}

pub(super) fn channel(clock: Clock) -> (mpsc::Sender<Event>, Inbox) {
    let (sender, events) = mpsc::channel(CAPACITY);
    (sender, Inbox { clock, events })
}

impl Inbox {
    /// The next event, or `None` when the carrier and all of its routers are gone. May be dropped
    /// while it waits; nothing is lost then.
    pub(crate) async fn recv(&mut self) -> Option<Event> {
        loop {
            match self.events.recv().await? {
                // This process stood still while the message lay here.
                Event::Message(message) if message.good_until < self.clock.now() => {}
                event => return Some(event),
            }
        }
    }
}
