//! Replies to the requests of other members, in the responses to those requests.

use std::collections::BTreeMap;

use tenure_core::{Instant, NodeId};

use crate::peer_transport::{Payload, PeerTransport, Reply};

/// Replies that have not left, one for each member.
///
/// A request is answered at the end of the turn that handles it. The reply waits longer if the
/// machine holds an answer back until a record is on disk: a vote then leaves in the response to
/// the request for it, not in a request of its own.
#[derive(Default)]
pub(super) struct Replies(BTreeMap<NodeId, OpenReply>);

struct OpenReply {
    reply: Reply,
    payloads: Vec<Payload>,
    /// How long it may wait for the disk; `None` if the request needs no durable answer.
    wait_until: Option<Instant>,
}

impl Replies {
    /// Opens the reply to a request of this member. It takes the place of the reply to an earlier
    /// request, which the member has given up: it has one request under way at a time.
    pub(super) fn open(&mut self, to: NodeId, reply: Reply, wait_until: Option<Instant>) {
        let open = OpenReply {
            reply,
            payloads: Vec::new(),
            wait_until,
        };
        self.0.insert(to, open);
    }

    /// Sends this to a member: in the reply to it if one is open, else in a request.
    pub(super) fn send(&mut self, transport: &PeerTransport, to: NodeId, payload: Payload) {
        match self.0.get_mut(&to) {
            Some(open) => open.payloads.push(payload),
            None => transport.send(to, payload),
        }
    }

    /// Ends a turn: all replies leave, except those that wait for the disk.
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
                // The request may have been given up meanwhile: then this goes in a request.
                let unsent = open.reply.send(open.payloads).err();
                for payload in unsent.into_iter().flatten() {
                    transport.send(to, payload);
                }
            }
        }
    }

    /// When to flush at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().filter_map(|open| open.wait_until).min()
    }

    /// Drops all replies: nothing may be sent any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
