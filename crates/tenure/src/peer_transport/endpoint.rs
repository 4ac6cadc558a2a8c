//! This member: who it is, and what it lets in.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::{Incarnation, Instant, Name, NodeId};
use tokio::sync::{mpsc, oneshot};

use super::age::{GoodUntil, time_ms};
use super::counters::Tally;
use super::envelope::{Answer, Answerer, Envelope, Payload, Start, VERSION, Versioned};
use super::fingerprint::Fingerprint;
use super::inbox::{DuplicateMember, Incoming, PeerEvent, Reply};
use super::mac::Mac;
use super::problem::{PeerErrorCode, Refusal};
use super::replay_guard::ReplayGuard;
use super::send_queue::SendQueue;
use super::server::Setup;
use crate::clock::Clock;

/// This member, as its routes and its clients know it.
#[derive(Debug)]
pub(super) struct PeerEndpoint {
    pub(super) cluster: Name,
    pub(super) me: NodeId,
    pub(super) start: Start,
    pub(super) fingerprint: Fingerprint,
    pub(super) lifetime: Duration,
    pub(super) mac: Arc<Mac>,
    pub(super) clock: Clock,
    pub(super) counters: Tally,
    peers: BTreeSet<NodeId>,
    visitors: Mutex<ReplayGuard>,
    events: mpsc::Sender<PeerEvent>,
}

impl PeerEndpoint {
    pub(super) fn new(setup: &Setup, random: u64, events: mpsc::Sender<PeerEvent>) -> Self {
        Self {
            cluster: setup.cluster.clone(),
            me: setup.me,
            start: Start {
                incarnation: setup.incarnation,
                // A number that every JSON library keeps.
                instance: random >> 11,
            },
            fingerprint: setup.fingerprint.clone(),
            lifetime: setup.message_lifetime,
            mac: setup.mac.clone(),
            clock: setup.clock.clone(),
            counters: Tally::default(),
            peers: setup.peers.keys().copied().collect(),
            visitors: Mutex::default(),
            events,
        }
    }

    /// The path of the route for messages, as it stands in seals: whatever the application put
    /// before it.
    pub(super) fn message_path(&self) -> String {
        format!("/v1/peers/{}/message", self.cluster)
    }

    /// Who answers, now.
    pub(super) fn answerer(&self) -> Answerer {
        Answerer {
            node: self.me,
            incarnation: self.start.incarnation,
            instance: self.start.instance,
            time_ms: time_ms(self.clock.now()),
        }
    }

    pub(super) fn enqueue(&self, queue: &SendQueue, payload: Payload) {
        if queue.push(payload, self.clock.now()) {
            self.counters.replaced.add();
        }
    }

    /// A hint: if the driver is behind, it does without.
    pub(super) fn tell(&self, event: PeerEvent) {
        let _ = self.events.try_send(event);
    }

    /// Lets a request in whose seal was good, or refuses it and changes nothing. What the driver says
    /// to its sender at once comes out of the receiver.
    pub(super) fn admit(
        &self,
        body: &[u8],
    ) -> Result<(NodeId, oneshot::Receiver<Vec<Payload>>), Refusal> {
        let envelope = self.open(body)?;
        let (from, start) = (envelope.from, envelope.start());
        let good_until = self.check_age(&envelope)?;
        // Of an earlier start it says nothing any more.
        if envelope.runs_twice == Some(self.start.incarnation) {
            let (me, start) = (self.me, self.start.incarnation);
            let detail = format!("two processes say that they are start {start} of member {me}");
            self.impostor(from, PeerErrorCode::RunsTwice, detail);
        }
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(refusal) = visitors.check(from, start, envelope.number) {
            if refusal.code == PeerErrorCode::RunsTwice {
                visitors.runs_twice(from);
            }
            return Err(refusal);
        }
        let permit = self.events.try_reserve().map_err(|error| {
            let detail = match error {
                mpsc::error::TrySendError::Full(()) => "too many messages wait for this member",
                mpsc::error::TrySendError::Closed(()) => "this member has stopped",
            };
            Refusal::new(PeerErrorCode::Unavailable, detail)
        })?;
        visitors.took(from, start, envelope.number);
        let (response, answer) = oneshot::channel();
        // Under the lock: messages go to the driver in the order of their numbers.
        permit.send(PeerEvent::Message(Incoming {
            from,
            incarnation: start.incarnation,
            payload: envelope.payload,
            reply: Some(Reply(response)),
            good_until,
        }));
        self.counters.taken.add();
        Ok((from, answer))
    }

    /// Reads a request that is for this member, from one that may write to it.
    fn open(&self, body: &[u8]) -> Result<Envelope, Refusal> {
        let malformed =
            |error: serde_json::Error| Refusal::new(PeerErrorCode::Malformed, error.to_string());
        // Another version may have other fields.
        let Versioned { version } = serde_json::from_slice(body).map_err(malformed)?;
        if version != VERSION {
            let detail =
                format!("the message has version {version} and this member speaks {VERSION}");
            return Err(Refusal::new(PeerErrorCode::VersionDiffers, detail));
        }
        let envelope: Envelope = serde_json::from_slice(body).map_err(malformed)?;
        let (from, to) = (envelope.from, envelope.to);
        if envelope.cluster != self.cluster.as_str() {
            return Err(self.unknown_cluster(&envelope.cluster));
        }
        if from == self.me {
            return Err(self.meet_myself(&envelope));
        }
        if to != self.me {
            let detail = format!(
                "the message is for member {to} and this is member {}; member {from} has a wrong address",
                self.me
            );
            return Err(Refusal::new(PeerErrorCode::Misdirected, detail));
        }
        if !self.peers.contains(&from) {
            return Err(self.unknown(from));
        }
        if envelope.config != self.fingerprint.hash() {
            let detail = format!(
                "member {from} is set up in another way than member {}: {}",
                self.me, self.fingerprint
            );
            return Err(Refusal::new(PeerErrorCode::ConfigDiffers, detail));
        }
        Ok(envelope)
    }

    /// A message with this member's own number: its own, which came back, or of another process.
    fn meet_myself(&self, envelope: &Envelope) -> Refusal {
        let (me, to) = (self.me, envelope.to);
        // An older start may be this member's last life, of which something was still under way.
        if envelope.instance == self.start.instance || envelope.incarnation < self.start.incarnation
        {
            let detail = format!("the address of member {to} leads back to member {me}");
            return Refusal::new(PeerErrorCode::Misdirected, detail);
        }
        let detail = format!("another process is member {me}, too");
        self.impostor(me, PeerErrorCode::RunsTwice, detail.clone());
        Refusal::new(PeerErrorCode::RunsTwice, detail)
    }

    /// The start as which two processes of this member were heard. They are told with every request:
    /// one that only answers would not learn of it.
    pub(super) fn heard_twice(&self, node: NodeId) -> Option<Incarnation> {
        let visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        visitors.heard_twice(node)
    }

    /// Somebody has seen another process with this member's number.
    pub(super) fn impostor(&self, seen_by: NodeId, code: PeerErrorCode, detail: String) {
        let remedy = match code {
            PeerErrorCode::OlderStart => {
                "stop the older process; if there is only one, its state folder is an old copy: give it \
                 the right one, or a new number"
            }
            _ => "stop one of the two; each member needs a number and a state folder of its own",
        };
        self.tell(PeerEvent::Duplicate(DuplicateMember {
            seen_by,
            detail,
            remedy,
        }));
    }

    fn check_age(&self, envelope: &Envelope) -> Result<Instant, Refusal> {
        let from = envelope.from;
        let late = |detail| Err(Refusal::new(PeerErrorCode::Late, detail));
        let Some(GoodUntil { instance, time_ms }) = envelope.good_until else {
            return late(format!("member {from} does not say how old its message is"));
        };
        if instance != self.start.instance {
            return late(format!(
                "the message of member {from} was for another start of this member"
            ));
        }
        let now = self.clock.now();
        let now_ms = super::age::time_ms(now);
        if now_ms > time_ms {
            let over = now_ms - time_ms;
            return late(format!("the message of member {from} is {over} ms too old"));
        }
        // Nobody can make a message good for longer than a lifetime, whatever it says.
        let left = Duration::from_millis(time_ms - now_ms).min(self.lifetime);
        Ok(now + left)
    }

    /// Takes an answer that was checked to be one to this member's request, if it is the newest
    /// process of the other member that gives it.
    pub(super) fn take_answer(&self, answer: Answer, asked: Instant) {
        let Answer { member, payloads } = answer;
        let start = member.start();
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(refusal) = visitors.check_start(member.node, start) {
            if refusal.code == PeerErrorCode::RunsTwice {
                visitors.runs_twice(member.node);
            }
            return self.counters.refused(refusal.code);
        }
        visitors.answered(member.node, start);
        for payload in payloads {
            // As if it were lost, if the driver is too far behind.
            self.tell(PeerEvent::Message(Incoming {
                from: member.node,
                incarnation: start.incarnation,
                payload,
                reply: None,
                good_until: asked + self.lifetime,
            }));
        }
    }

    fn unknown(&self, from: NodeId) -> Refusal {
        let detail = format!(
            "{from} is none of the members that member {} knows",
            self.me
        );
        Refusal::new(PeerErrorCode::UnknownMember, detail)
    }

    pub(super) fn unknown_cluster(&self, cluster: &str) -> Refusal {
        let detail = format!("this is a member of {}, not of {cluster:?}", self.cluster);
        Refusal::new(PeerErrorCode::UnknownCluster, detail)
    }
}
