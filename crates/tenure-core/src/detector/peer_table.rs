//! The part that all detectors share: the state of each peer, questions about one peer, the down
//! list, and the answers to the messages of other members' detectors.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{Candidacy, DetectorInput, DetectorMessage, DetectorOutput, Group, Verdict};
use super::subscriptions::Subscriptions;
use super::{AskOptions, earliest};
use crate::{Incarnation, Instant, NodeId};

/// The peers of a node, the open questions about them, and the outputs to poll.
///
/// The table answers all messages of other detectors: it answers pings, sends heartbeats to
/// subscribers, and acknowledges recovery notices. So each member of a group may run another
/// detector.
#[derive(Debug)]
pub struct PeerTable {
    /// The node and its peers.
    pub group: Group,
    /// The timing of questions.
    pub options: AskOptions,
    candidacy: Candidacy,
    /// One entry for each peer of the group, and no others: this bounds the memory.
    peers: BTreeMap<NodeId, Peer>,
    rounds: u64,
    /// The number of open questions. It is mostly zero, which makes the frequent calls of
    /// `poll_timeout` cheap.
    open: usize,
    /// The earliest time of a recovery notice. It is stored because drivers call `poll_timeout`
    /// often, and a large group has many nodes.
    notice_at: Option<Instant>,
    subscriptions: Subscriptions,
    outputs: VecDeque<DetectorOutput>,
}

/// The longest time between two recovery notices to one node. It limits the messages to a node that
/// stays down.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Peer {
    /// The time of the next recovery notice to the node, and the interval after it; `None` once the
    /// node has acknowledged a notice.
    ///
    /// Every detector remembers for a while that a node was down, and answers from that memory. So
    /// a node that starts must notify all other nodes, including those to which it sends nothing
    /// else.
    notice: Option<(Instant, Duration)>,
    /// The newest known incarnation.
    incarnation: Option<Incarnation>,
    heard: Option<Instant>,
    /// The entry in the down list: the time at which the node was found down.
    listed: Option<Instant>,
    question: Option<Question>,
    watch: Option<Watch>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    /// The number of the client's newest question; `None` if the detector itself asked.
    ask: Option<u64>,
    /// The first ping of this question.
    first: u64,
    /// The number of pings that may still be sent.
    pings: u32,
    /// The time of the next ping or, after the last ping, of the answer.
    next: Instant,
    /// Whether there is a reason to suspect the node.
    hinted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Trusted,
    Suspected,
}

/// The part of an input that the specific detector must handle.
#[derive(Debug)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// The client watches this node from now on.
    Watch(NodeId),
    /// The client no longer watches this node.
    Unwatch(NodeId),
    /// A peer has sent a message in its newest incarnation. `message` is `None` if it is not a
    /// message between detectors.
    Heard {
        /// The peer.
        from: NodeId,
        /// Whether the peer was known in an older incarnation.
        restarted: bool,
        /// The message between detectors, if it is one.
        message: Option<DetectorMessage>,
    },
}

impl PeerTable {
    /// Creates the table of a node that has just started.
    #[must_use]
    pub fn new(group: &Group, options: AskOptions) -> Self {
        let now = Instant::default();
        let peer = |node| {
            let notice = Some((now, options.timeout.min(MAX_NOTICE_INTERVAL)));
            let rest = Peer::default();
            (node, Peer { notice, ..rest })
        };
        let peers: BTreeMap<_, _> = group.peers().map(peer).collect();
        Self {
            group: group.clone(),
            options,
            candidacy: Candidacy::default(),
            notice_at: (!peers.is_empty()).then_some(now),
            peers,
            rounds: 0,
            open: 0,
            subscriptions: Subscriptions::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Handles the part of an input that is the same for all detectors.
    pub fn handle_input(&mut self, now: Instant, input: DetectorInput) -> Step {
        match input {
            DetectorInput::Ask { node, ask } => self.ask(now, node, ask),
            DetectorInput::Watch(node) => {
                if let Some(peer) = self.peers.get_mut(&node)
                    && peer.watch.is_none()
                {
                    peer.watch = Some(Watch::Trusted);
                    return Step::Watch(node);
                }
            }
            DetectorInput::Unwatch(node) => {
                let peer = self.peers.get_mut(&node);
                if peer.is_some_and(|peer| peer.watch.take().is_some()) {
                    return Step::Unwatch(node);
                }
            }
            DetectorInput::Message {
                from,
                incarnation,
                message,
            } => return self.receive(now, from, incarnation, Some(message)),
            DetectorInput::Heard { from, incarnation } => {
                return self.receive(now, from, incarnation, None);
            }
            DetectorInput::Refused(node) => self.handle_hint(now, node),
            DetectorInput::Candidacy(candidacy) => self.candidacy = candidacy,
        }
        Step::Nothing
    }

    fn ask(&mut self, now: Instant, node: NodeId, ask: u64) {
        let Some(peer) = self.peers.get_mut(&node) else {
            let is_me = node == self.group.me;
            let verdict = if is_me {
                up(self.candidacy)
            } else {
                Verdict::Down
            };
            return self.answer(ask, node, verdict, now);
        };
        if let Some(question) = &mut peer.question {
            // The question is not restarted: otherwise a client that asks repeatedly would never
            // get the answer that the node is down. Only its last question is answered.
            question.ask = Some(ask);
        } else if let Some(listed) = peer.fresh(now, &self.options) {
            self.answer(ask, node, Verdict::Down, listed);
        } else {
            let hinted = peer.listed.is_some();
            self.open(now, node, Some(ask), hinted);
        }
    }

    fn answer(&mut self, ask: u64, node: NodeId, verdict: Verdict, at: Instant) {
        let incarnation = match self.peers.get(&node) {
            Some(peer) => peer.incarnation,
            None => (node == self.group.me).then_some(self.group.incarnation),
        };
        self.outputs.push_back(DetectorOutput::Answer {
            ask,
            node,
            verdict,
            incarnation,
            at,
        });
    }

    /// Asks about a node for the detector itself. A node that was recently found down is suspected
    /// without a ping.
    pub fn ask_about(&mut self, now: Instant, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if peer.fresh(now, &self.options).is_some() {
            self.notify(node, Watch::Suspected);
        } else if peer.question.is_none() {
            let hinted = peer.listed.is_some();
            self.open(now, node, None, hinted);
        }
    }

    /// Handles a hint. A hint alone never decides: the node gets one more ping, with a short time
    /// to answer. A hint about a node without an open question and without a watch is ignored.
    fn handle_hint(&mut self, now: Instant, node: NodeId) {
        let Some(peer) = self.peers.get(&node) else {
            return;
        };
        match peer.question {
            Some(question) if !question.hinted => self.open(now, node, question.ask, true),
            None if peer.watch.is_some() && peer.listed.is_none() => {
                self.open(now, node, None, true);
            }
            _ => {}
        }
    }

    fn open(&mut self, now: Instant, node: NodeId, ask: Option<u64>, hinted: bool) {
        let (pings, wait) = if hinted {
            (1, self.options.confirm)
        } else {
            let pings = self.options.pings;
            (pings, self.options.timeout / pings)
        };
        let first = self.ping(node);
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let before = peer.question.replace(Question {
            ask,
            first,
            pings: pings - 1,
            next: now + wait,
            hinted,
        });
        self.open += usize::from(before.is_none());
    }

    fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        incarnation: Incarnation,
        message: Option<DetectorMessage>,
    ) -> Step {
        let Some(peer) = self.peers.get_mut(&from) else {
            return Step::Nothing; // The sender is not a member, so it gets no entry and no answer.
        };
        if peer.incarnation.is_some_and(|known| incarnation < known) {
            // The node sent this message before its last restart, so it does not show that the node
            // is alive now.
            return Step::Nothing;
        }
        let restarted = peer.incarnation.is_some_and(|known| incarnation > known);
        peer.incarnation = Some(incarnation);
        peer.heard = Some(now);
        // A node that sends a message is up: it leaves the down list, and a question about it is
        // settled. So a `Down` answer never follows a message that the node sent after the
        // question.
        peer.listed = None;
        let question = peer.question.take();
        self.open -= usize::from(question.is_some());
        let asked = question.and_then(|question| question.ask);
        // Only the answer to this question shows that the node is not a candidate. An older answer
        // may be out of date, because the node may have become a candidate since.
        let verdict = match (&message, question) {
            (Some(DetectorMessage::Pong { round, candidacy }), Some(question))
                if *round >= question.first =>
            {
                up(*candidacy)
            }
            _ => Verdict::Up,
        };
        if restarted && peer.watch.is_some() {
            self.outputs
                .push_back(DetectorOutput::Restarted(from, incarnation));
        }
        if restarted {
            // The subscription was for the former start, whose detector may have been another one.
            self.subscriptions.end(from);
        }
        if let Some(ask) = asked {
            self.answer(ask, from, verdict, now);
        }
        match message {
            Some(DetectorMessage::Ping { round }) => {
                let candidacy = self.candidacy;
                self.send(from, DetectorMessage::Pong { round, candidacy });
            }
            Some(DetectorMessage::Subscribe { interval, lifetime }) => {
                self.subscriptions.renew(now, from, interval, lifetime);
            }
            Some(DetectorMessage::Unsubscribe) => self.subscriptions.end(from),
            Some(DetectorMessage::Recovered) => {
                self.send(from, DetectorMessage::RecoveredAck { incarnation })
            }
            // An acknowledgement of an earlier incarnation does not count for this one.
            Some(DetectorMessage::RecoveredAck { incarnation })
                if incarnation == self.group.incarnation =>
            {
                self.stop_notices(from)
            }
            _ => {}
        }
        Step::Heard {
            from,
            restarted,
            message,
        }
    }

    /// Sends the pings, heartbeats and notices that are due, and returns the nodes that were found
    /// down.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<NodeId> {
        self.subscriptions.handle_timeout(now, &mut self.outputs);
        if self.notice_at.is_some_and(|due| now >= due) {
            self.send_notices(now);
        }
        if self.open == 0 {
            return Vec::new();
        }
        let due = self.peers.iter().filter_map(|(node, peer)| {
            let question = peer.question.filter(|question| question.next <= now)?;
            Some((*node, question))
        });
        let mut down = Vec::new();
        for (node, question) in due.collect::<Vec<_>>() {
            if question.pings > 0 {
                self.ping(node);
                // The time counts from now, not from the time at which the ping was due. So after a
                // pause of this process, the node still has its full time to answer.
                let next = now + self.options.timeout / self.options.pings;
                if let Some(question) = self.question(node) {
                    question.pings -= 1;
                    question.next = next;
                }
            } else {
                self.close_as_down(now, node, question.ask);
                down.push(node);
            }
        }
        down
    }

    /// Sends a recovery notice to each node for which one is due, and doubles its interval.
    fn send_notices(&mut self, now: Instant) {
        self.notice_at = None;
        for (&to, peer) in &mut self.peers {
            let Some((next, interval)) = &mut peer.notice else {
                continue;
            };
            if *next <= now {
                *next = now + *interval;
                *interval = (*interval * 2).min(MAX_NOTICE_INTERVAL);
                let message = DetectorMessage::Recovered;
                self.outputs.push_back(DetectorOutput::Send { to, message });
            }
            self.notice_at = earliest([self.notice_at, Some(*next)]);
        }
    }

    fn stop_notices(&mut self, to: NodeId) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.notice = None;
        }
        if self.peers.values().all(|peer| peer.notice.is_none()) {
            self.notice_at = None;
        }
    }

    fn question(&mut self, node: NodeId) -> Option<&mut Question> {
        self.peers.get_mut(&node)?.question.as_mut()
    }

    fn close_as_down(&mut self, now: Instant, node: NodeId, ask: Option<u64>) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        self.open -= usize::from(peer.question.take().is_some());
        peer.listed = Some(now);
        if let Some(ask) = ask {
            self.answer(ask, node, Verdict::Down, now);
        }
    }

    /// Handles a node that has been silent for longer than its watch allows. The silence also
    /// answers an open question: a message of the node would have settled it.
    pub fn find_silent(&mut self, now: Instant, node: NodeId) {
        if let Some(question) = self.question(node) {
            let ask = question.ask;
            self.close_as_down(now, node, ask);
        }
        self.suspect(now, node);
    }

    /// Adds the node to the down list and notifies its watch.
    pub fn suspect(&mut self, now: Instant, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.listed = Some(now);
            self.notify(node, Watch::Suspected);
        }
    }

    /// Removes the node from the down list and notifies its watch.
    pub fn trust(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.listed = None;
            self.notify(node, Watch::Trusted);
        }
    }

    fn notify(&mut self, node: NodeId, watch: Watch) {
        if let Some(peer) = self.peers.get_mut(&node)
            && peer.watch.is_some_and(|before| before != watch)
        {
            peer.watch = Some(watch);
            self.outputs.push_back(match watch {
                Watch::Suspected => DetectorOutput::Suspected(node),
                Watch::Trusted => DetectorOutput::Trusted(node),
            });
        }
    }

    /// Returns whether the node is under watch and suspected.
    #[must_use]
    pub fn is_suspected(&self, node: NodeId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.watch == Some(Watch::Suspected))
    }

    /// Returns whether a question about the node is open.
    #[must_use]
    pub fn is_asked(&self, node: NodeId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.question.is_some())
    }

    /// Returns whether the node is on the down list, even if its entry is not fresh.
    #[must_use]
    pub fn is_listed(&self, node: NodeId) -> bool {
        self.listed(node).is_some()
    }

    /// Returns the time at which the node was added to the down list.
    #[must_use]
    pub fn listed(&self, node: NodeId) -> Option<Instant> {
        self.peers.get(&node)?.listed
    }

    /// Returns the time at which the last message of the node arrived.
    #[must_use]
    pub fn heard(&self, node: NodeId) -> Option<Instant> {
        self.peers.get(&node)?.heard
    }

    /// Sends a message.
    pub fn send(&mut self, to: NodeId, message: DetectorMessage) {
        self.outputs.push_back(DetectorOutput::Send { to, message });
    }

    /// Sends a ping and returns its round.
    pub fn ping(&mut self, to: NodeId) -> u64 {
        self.rounds += 1;
        let round = self.rounds;
        self.send(to, DetectorMessage::Ping { round });
        round
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.outputs.pop_front()
    }

    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let heartbeat = self.subscriptions.poll_timeout();
        if self.open == 0 {
            return earliest([self.notice_at, heartbeat]);
        }
        let questions = self.peers.values().filter_map(|peer| peer.question);
        earliest([
            questions.map(|question| question.next).min(),
            self.notice_at,
            heartbeat,
        ])
    }
}

const fn up(candidacy: Candidacy) -> Verdict {
    match candidacy {
        Candidacy::Candidate => Verdict::Up,
        Candidacy::NonCandidate => Verdict::NonCandidate,
    }
}

impl Peer {
    /// Returns the time at which the node was found down, if that is recent enough for an answer.
    fn fresh(&self, now: Instant, options: &AskOptions) -> Option<Instant> {
        self.listed
            .filter(|&listed| now.since(listed) < options.fresh)
    }
}
