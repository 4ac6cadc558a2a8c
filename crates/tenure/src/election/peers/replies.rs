//! Replies to the requests of other members, which are sent in the responses to those requests.

use std::collections::BTreeMap;

use tenure_core::{Instant, NodeId};

use crate::peers::transport::{PeerTransport, Reply};
use crate::peers::wire::Payload;

/// Replies that have not been sent, one for each member.
///
/// A request gets its reply at the end of the turn that handles it. The reply waits longer if the
/// machine delays an answer until a record is on disk. So a vote is sent in the response to its
/// request, and not in a separate request.
#[derive(Default)]
pub(super) struct Replies(BTreeMap<NodeId, OpenReply>);

struct OpenReply {
    reply: Reply,
    payloads: Vec<Payload>,
    /// The time until which the reply may wait for the disk; `None` if the request needs no durable
    /// answer.
    wait_until: Option<Instant>,
}

impl Replies {
    /// Opens the reply to a request of this member. It replaces the reply to an earlier request,
    /// which the member has given up, because a member has one request in flight at a time.
    pub(super) fn open(&mut self, to: NodeId, reply: Reply, wait_until: Option<Instant>) {
        let open = OpenReply {
            reply,
            payloads: Vec::new(),
            wait_until,
        };
        self.0.insert(to, open);
    }

    /// Sends a payload to a member, in the open reply if there is one, and otherwise in a request.
    pub(super) fn send(&mut self, transport: &PeerTransport, to: NodeId, payload: Payload) {
        match self.0.get_mut(&to) {
            Some(open) => open.payloads.push(payload),
            None => transport.send(to, payload),
        }
    }

    /// Ends a turn: sends all replies except those that wait for the disk.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        transport: &PeerTransport,
        is_held: impl Fn(NodeId) -> bool,
    ) {
        let stays = |to: NodeId, open: &OpenReply| {
            let may_wait = open.wait_until.is_some_and(|until| now < until);
            may_wait && open.payloads.is_empty() && is_held(to)
        };
        for (to, open) in std::mem::take(&mut self.0) {
            if stays(to, &open) {
                self.0.insert(to, open);
            } else {
                // If the request was given up meanwhile, the payloads are sent in a request.
                let unsent = open.reply.send(open.payloads).err();
                for payload in unsent.into_iter().flatten() {
                    transport.send(to, payload);
                }
            }
        }
    }

    /// Returns the latest time of the next flush.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().filter_map(|open| open.wait_until).min()
    }

    /// Drops all replies, because nothing may be sent any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
