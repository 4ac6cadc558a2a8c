//! The identity of this member, and the checks of requests to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tenure_core::{Incarnation, Instant, NodeId};
use tokio::sync::{mpsc, oneshot};

use super::inbox::{IncomingMessage, PeerEvent};
use super::replay_guard::ReplayGuard;
use super::server::Setup;
use crate::peers::group_store::GroupStore;
use crate::peers::wire::Fingerprint;
use crate::peers::wire::age::{GoodUntil, time_ms};
use crate::peers::wire::envelope::{
    Answer, Answerer, Envelope, Payload, Start, VERSION, Versioned,
};
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};
use crate::peers::wire::{Counters, PeerMetrics, PeerView, Status};

/// The parts of this member that its routes and its clients share.
#[derive(Debug)]
pub(crate) struct PeerEndpoint {
    pub(super) setup: Setup,
    pub(super) start: Start,
    /// The body of the status route.
    view: Mutex<PeerView>,
    replay_guard: Mutex<ReplayGuard>,
    events: mpsc::Sender<PeerEvent>,
}

impl PeerEndpoint {
    pub(super) fn new(setup: Setup, random: u64, events: mpsc::Sender<PeerEvent>) -> Self {
        let start = Start {
            incarnation: setup.incarnation,
            // 53 bits, which every JSON library preserves.
            instance: random >> 11,
        };
        Self {
            view: Mutex::new(PeerView {
                status: Status::of(setup.me, setup.incarnation),
                counters: Counters::default(),
                paths: BTreeMap::new(),
            }),
            setup,
            start,
            replay_guard: Mutex::default(),
            events,
        }
    }

    pub(super) fn view(&self) -> MutexGuard<'_, PeerView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of this member. The driver may wait for the lock, so this copies numbers
    /// and does nothing else under it.
    pub(crate) fn metrics(&self) -> PeerMetrics {
        let view = self.view();
        PeerMetrics {
            cluster: self.setup.cluster.clone(),
            has_quorum: view.status.quorum,
            suspects: view.status.suspects.len() as u64,
            messages: view.counters.clone(),
        }
    }

    /// Returns the store of the group, with a fallback.
    pub(crate) fn group_store(&self) -> Option<Arc<GroupStore>> {
        self.setup.store.clone()
    }

    /// Shows through which members this member reaches another one, or that it does not reach it.
    pub(super) fn show_path(&self, to: NodeId, relays: Option<&[NodeId]>) {
        let mut view = self.view();
        match relays {
            Some(relays) => drop(view.paths.insert(to, relays.to_vec())),
            None => drop(view.paths.remove(&to)),
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.view().counters);
    }

    /// Counts a request that this member refuses, or an answer that it rejects.
    pub(super) fn count_refusal(&self, code: PeerErrorCode) {
        self.count(|counters| *counters.refused.entry(code.as_str().into()).or_default() += 1);
    }

    fn replay_guard(&self) -> MutexGuard<'_, ReplayGuard> {
        let replay_guard = self.replay_guard.lock();
        replay_guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the message route for MACs. The path does not depend on the prefix under
    /// which the application mounts the route.
    pub(super) fn message_path(&self) -> String {
        format!("/v1/peers/{}/message", self.setup.cluster)
    }

    /// Returns the path of the route for requests to other members.
    pub(super) fn relay_path(&self) -> String {
        format!("/v1/peers/{}/relay", self.setup.cluster)
    }

    /// Returns the address of another member, if this member has it.
    pub(super) fn url_of(&self, node: NodeId) -> Option<&Url> {
        self.setup.peers.get(&node)?.as_ref()
    }

    /// Returns the identity of this member and its time, for an answer.
    pub(super) fn answerer(&self) -> Answerer {
        Answerer {
            node: self.setup.me,
            incarnation: self.start.incarnation,
            instance: self.start.instance,
            time_ms: time_ms(self.setup.clock.now()),
        }
    }

    /// Sends an event to the driver. If the driver is behind, the event may be lost.
    pub(super) fn notify(&self, event: PeerEvent) {
        let _ = self.events.try_send(event);
    }

    /// Admits a request with a valid MAC, or refuses it and changes nothing. The returned receiver
    /// gets the driver's reply.
    pub(super) fn admit(
        &self,
        body: &[u8],
    ) -> Result<(NodeId, oneshot::Receiver<Vec<Payload>>), PeerProblem> {
        let envelope = self.open(body)?;
        let (from, start) = (envelope.from, envelope.start());
        let good_until = self.check_age(&envelope)?;
        // A report about an earlier start is outdated.
        if envelope.runs_twice == Some(self.start.incarnation) {
            let (me, start) = (self.setup.me, self.start.incarnation);
            let detail = format!("two processes claim to be start {start} of member {me}");
            self.report_duplicate(from, PeerErrorCode::RunsTwice, &detail);
        }
        let mut replay_guard = self.replay_guard();
        replay_guard.check(from, start, envelope.number)?;
        let permit = self.events.try_reserve().map_err(|error| {
            let detail = match error {
                mpsc::error::TrySendError::Full(()) => "too many messages wait for this member",
                mpsc::error::TrySendError::Closed(()) => "this member has stopped",
            };
            PeerProblem::new(PeerErrorCode::Unavailable, detail)
        })?;
        replay_guard.admit(from, start, envelope.number);
        let (response, answer) = oneshot::channel();
        // The lock is held here, so the driver receives messages in the order of their numbers.
        permit.send(PeerEvent::Message(IncomingMessage {
            from,
            incarnation: start.incarnation,
            payload: envelope.payload,
            reply: Some(response),
            good_until,
        }));
        self.count(|counters| counters.taken += 1);
        Ok((from, answer))
    }

    /// Parses a request from a process with the same settings to a member of this group.
    pub(super) fn parse(&self, body: &[u8]) -> Result<Envelope, PeerProblem> {
        let malformed = |error: serde_json::Error| {
            PeerProblem::new(PeerErrorCode::Malformed, error.to_string())
        };
        // Another version may have other fields, so the version is read first.
        let Versioned { version } = serde_json::from_slice(body).map_err(malformed)?;
        if version != VERSION {
            let detail =
                format!("the message has version {version} and this member speaks {VERSION}");
            return Err(PeerProblem::new(PeerErrorCode::VersionDiffers, detail));
        }
        let envelope: Envelope = serde_json::from_slice(body).map_err(malformed)?;
        self.check_cluster(&envelope.cluster)?;
        // Nothing is concluded from a message of another group, not even that another process uses
        // the node id of this member.
        let Fingerprint { hash, text } = &self.setup.fingerprint;
        if envelope.config != *hash {
            let (from, me) = (envelope.from, self.setup.me);
            let detail = format!("member {from} has other settings than member {me}: {text}");
            return Err(PeerProblem::new(PeerErrorCode::ConfigDiffers, detail));
        }
        Ok(envelope)
    }

    /// Parses a request and checks that it is for this member and from a member of its group.
    fn open(&self, body: &[u8]) -> Result<Envelope, PeerProblem> {
        let envelope = self.parse(body)?;
        let (from, to, me) = (envelope.from, envelope.to, self.setup.me);
        if from == me {
            return Err(self.refuse_own_number(&envelope));
        }
        if to != me {
            let detail = format!(
                "the message is for member {to} and this is member {me}; member {from} has a wrong address"
            );
            return Err(PeerProblem::new(PeerErrorCode::Misdirected, detail));
        }
        self.check_sender(from)?;
        if let (Some(own), Some(theirs)) = (&self.setup.store, &envelope.store) {
            own.hear(from, theirs).map_err(|detail| {
                self.compare_stores(own);
                PeerProblem::new(PeerErrorCode::StoreDiffers, detail)
            })?;
        }
        Ok(envelope)
    }

    /// Checks that another member of the list has sent a request.
    pub(super) fn check_sender(&self, from: NodeId) -> Result<(), PeerProblem> {
        if self.setup.peers.contains_key(&from) {
            return Ok(());
        }
        let detail = format!(
            "member {from} is not in the list of member {}",
            self.setup.me
        );
        Err(PeerProblem::new(PeerErrorCode::UnknownMember, detail))
    }

    /// Excludes this member if more members use another store: two of them may lead already.
    fn compare_stores(&self, own: &Arc<GroupStore>) {
        let (own, events) = (Arc::clone(own), self.events.clone());
        tokio::spawn(async move {
            if let Some(why) = own.outvoted().await {
                let _ = events.send(PeerEvent::Duplicate(why)).await;
            }
        });
    }

    /// Refuses a message with this member's own node id. Either it is this member's own message, or
    /// another process uses the node id.
    fn refuse_own_number(&self, envelope: &Envelope) -> PeerProblem {
        let (me, to) = (self.setup.me, envelope.to);
        // A message with an older start may be a late message of this member's previous process.
        if envelope.instance == self.start.instance || envelope.incarnation < self.start.incarnation
        {
            let detail = format!("the address of member {to} leads back to member {me}");
            return PeerProblem::new(PeerErrorCode::Misdirected, detail);
        }
        let detail = format!("another process is member {me}, too");
        self.report_duplicate(me, PeerErrorCode::RunsTwice, &detail);
        PeerProblem::new(PeerErrorCode::RunsTwice, detail)
    }

    /// Returns the start of this member that two processes claim. Every request contains it,
    /// because a process that only answers requests would not learn it otherwise.
    pub(super) fn duplicate_start(&self, node: NodeId) -> Option<Incarnation> {
        self.replay_guard().duplicate_start(node)
    }

    /// Reports that another member has seen another process with this member's number.
    pub(super) fn report_duplicate(&self, seen_by: NodeId, code: PeerErrorCode, detail: &str) {
        let remedy = match code {
            PeerErrorCode::OlderStart => {
                "stop the older process; if there is only one, its state directory is an old copy: give it \
                 the right one, or a new node id"
            }
            _ => "stop one of the two; each member needs its own node id and state directory",
        };
        let report = format!("member {seen_by} says: {detail}; {remedy}");
        self.notify(PeerEvent::Duplicate(report));
    }

    fn check_age(&self, envelope: &Envelope) -> Result<Instant, PeerProblem> {
        let from = envelope.from;
        let late = |detail| Err(PeerProblem::new(PeerErrorCode::Late, detail));
        let Some(GoodUntil { instance, time_ms }) = envelope.good_until else {
            return late(format!("member {from} does not say how old its message is"));
        };
        if instance != self.start.instance {
            return late(format!(
                "the message of member {from} was for another start of this member"
            ));
        }
        let now = self.setup.clock.now();
        let now_ms = crate::peers::wire::age::time_ms(now);
        if now_ms > time_ms {
            let over = now_ms - time_ms;
            return late(format!("the message of member {from} is {over} ms too old"));
        }
        // No sender can extend a message's life beyond one lifetime.
        let left = Duration::from_millis(time_ms - now_ms).min(self.setup.message_lifetime);
        Ok(now + left)
    }

    /// Handles an answer that belongs to a request of this member. Ignores it unless the newest
    /// process of the other member sent it.
    pub(super) fn handle_answer(&self, answer: Answer, asked: Instant) {
        let Answer { member, payloads } = answer;
        let start = member.start();
        let mut replay_guard = self.replay_guard();
        if let Err(refusal) = replay_guard.check_start(member.node, start) {
            return self.count_refusal(refusal.code);
        }
        replay_guard.handle_answer(member.node, start);
        for payload in payloads {
            // If the driver is too far behind, the message is lost, like a message on the network.
            self.notify(PeerEvent::Message(IncomingMessage {
                from: member.node,
                incarnation: start.incarnation,
                payload,
                reply: None,
                good_until: asked + self.setup.message_lifetime,
            }));
        }
    }

    /// Refuses requests to another group.
    pub(super) fn check_cluster(&self, cluster: &str) -> Result<(), PeerProblem> {
        let own = &self.setup.cluster;
        if cluster == own.as_str() {
            return Ok(());
        }
        let detail = format!("this is a member of {own}, not of {cluster:?}");
        Err(PeerProblem::new(PeerErrorCode::UnknownCluster, detail))
    }
}
