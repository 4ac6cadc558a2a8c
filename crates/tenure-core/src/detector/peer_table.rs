//! The part that all detectors share: the state of each peer, questions about one peer, the down
//! list.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::earliest;
use super::message::{Candidacy, DetectorInput, DetectorMessage, DetectorOutput, Group, Verdict};
use crate::{Incarnation, Instant, NodeId};

/// How questions about a node are asked, and how long a `Down` answer is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskOptions {
    /// T_o: a node counts as down if it sends nothing for this time after the question. Default 500
    /// ms. It must be well above the longest time of a message and its answer. A longer time means
    /// fewer mistakes and later answers.
    pub timeout: Duration,
    /// The number of pings within the timeout, evenly spaced. Default 2, 1 to 10. Each further ping
    /// makes a mistake by lost messages rarer by the factor of the loss, and leaves less time for
    /// the answer to the last ping: the timeout divided by this number.
    pub pings: u32,
    /// The time to answer if there is a reason to think that the node is down: it refused a
    /// connection, or it is on the down list. Default 125 ms. At most the timeout.
    pub confirm: Duration,
    /// T_fresh: for this time after a node was found down, questions about it are answered without
    /// a ping. Default 2 s. A longer time means fewer messages; but a node that is back and whose
    /// recovery notices are lost counts as down for that much longer. With zero, every question
    /// sends a ping.
    pub fresh: Duration,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(500),
            pings: 2,
            confirm: Duration::from_millis(125),
            fresh: Duration::from_secs(2),
        }
    }
}

/// The peers of a node, the open questions about them, and the outputs to poll.
#[derive(Debug)]
pub struct PeerTable {
    /// The node and its peers.
    pub group: Group,
    /// How questions are asked.
    pub options: AskOptions,
    candidacy: Candidacy,
    /// One entry for each peer of the group, and no others: this bounds the memory.
    peers: BTreeMap<NodeId, Peer>,
    rounds: u64,
    /// The number of open questions. It is mostly zero, which keeps the frequent calls of
    /// `poll_timeout` cheap.
    open: usize,
    /// The earliest time of a recovery notice. Drivers ask for it all the time, and a large group has
    /// many nodes.
    notice_at: Option<Instant>,
    outputs: VecDeque<DetectorOutput>,
}

/// Longest time between two recovery notices to one node. It limits the messages to a node that stays
/// down.
const MAX_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Peer {
    /// The time of the next recovery notice to the node, and the interval after that; `None` once the
    /// node has acknowledged one.
    ///
    /// Every detector remembers for a while that a node was down, and answers from memory. So a node
    /// that starts must notify all other nodes, even those to which it has nothing else to send.
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
    /// The number of the client's newest question; `None` if the detector itself asks.
    ask: Option<u64>,
    /// The first ping that was sent for it.
    first: u64,
    /// The number of pings that may still be sent.
    pings: u32,
    /// The time of the next ping or, after the last ping, of the verdict.
    next: Instant,
    /// There is a reason to think that the node is down.
    hinted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Trusted,
    Suspected,
}

/// The part of an input that is left for the detector's own method.
#[derive(Debug)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// The client watches this node from now on.
    Watch(NodeId),
    /// The client no longer watches it.
    Unwatch(NodeId),
    /// A peer has sent a message in its newest incarnation; `message` is `None` if it is not a
    /// detector's.
    Heard {
        /// The peer.
        from: NodeId,
        /// The peer was known in an older incarnation.
        restarted: bool,
        /// The message, if it is a detector's.
        message: Option<DetectorMessage>,
    },
}

impl PeerTable {
    /// The table of a node that has just started.
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
            // The question is not restarted: a client that asks again and again would never learn
            // that the node is down. Only its last question is answered.
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

    /// Asks about a node for the detector itself. A node that was found down recently is suspected
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

    /// A hint never decides: the node gets one more ping, with a short time to answer. A hint about
    /// a node without an open question and without a watch is ignored.
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
            return Step::Nothing; // Not a member: nothing is stored, nothing is answered.
        };
        if peer.incarnation.is_some_and(|known| incarnation < known) {
            // Sent before the node's last restart: it does not show that the node is alive now.
            return Step::Nothing;
        }
        let restarted = peer.incarnation.is_some_and(|known| incarnation > known);
        peer.incarnation = Some(incarnation);
        peer.heard = Some(now);
        // A node that sends a message is up: it leaves the down list, and any question about it is
        // settled. So a `Down` answer never follows a message of the node since the question.
        peer.listed = None;
        let question = peer.question.take();
        self.open -= usize::from(question.is_some());
        let asked = question.and_then(|question| question.ask);
        // Only the answer to this very question shows that the node is not a candidate. An older
        // answer may be out of date: the node may have become a candidate since.
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
        if let Some(ask) = asked {
            self.answer(ask, from, verdict, now);
        }
        match message {
            Some(DetectorMessage::Ping { round }) => {
                let candidacy = self.candidacy;
                self.send(from, DetectorMessage::Pong { round, candidacy });
            }
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

    /// Sends the pings and notices that are due, and returns the nodes that were found down.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<NodeId> {
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
                // The time counts from now, not from the time at which the ping was due: after a
                // pause of this process, the node still has its time to answer.
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

    /// Sends a recovery notice to each node to which one is due; its next interval is twice as long.
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

    /// The node has been silent for longer than its watch allows. That answers an open question,
    /// too: a message of the node would have settled the question.
    pub fn find_silent(&mut self, now: Instant, node: NodeId) {
        if let Some(question) = self.question(node) {
            let ask = question.ask;
            self.close_as_down(now, node, ask);
        }
        self.suspect(now, node);
    }

    /// Puts the node on the down list and notifies its watch.
    pub fn suspect(&mut self, now: Instant, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.listed = Some(now);
            self.notify(node, Watch::Suspected);
        }
    }

    /// Takes the node off the down list and notifies its watch.
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

    /// Whether the node is under watch and suspected.
    #[must_use]
    pub fn is_suspected(&self, node: NodeId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.watch == Some(Watch::Suspected))
    }

    /// Whether a question about the node is open.
    #[must_use]
    pub fn is_asked(&self, node: NodeId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.question.is_some())
    }

    /// Whether the node is on the down list, even if its entry is not fresh.
    #[must_use]
    pub fn is_listed(&self, node: NodeId) -> bool {
        self.listed(node).is_some()
    }

    /// When the node was put on the down list.
    #[must_use]
    pub fn listed(&self, node: NodeId) -> Option<Instant> {
        self.peers.get(&node)?.listed
    }

    /// When the last message of the node came.
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

    /// The next output.
    pub fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.open == 0 {
            return self.notice_at;
        }
        let questions = self.peers.values().filter_map(|peer| peer.question);
        earliest([
            questions.map(|question| question.next).min(),
            self.notice_at,
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
    /// The time at which the node was found down, if that is recent enough for an answer.
    fn fresh(&self, now: Instant, options: &AskOptions) -> Option<Instant> {
        self.listed
            .filter(|&listed| now.since(listed) < options.fresh)
    }
}
