//! Members without a quorum, with every fault that the environment allows.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use stateright::{Model, Property};

use super::peer::{Peer, now, without_epoch};
use super::*;
use crate::bully::best_effort::Status;

/// The earliest time at which a failure detector may report a failed member as down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    /// When no message is under way between any members. This is the papers' assumption: T_o is
    /// much longer than T_m.
    WhenQuiet,
    /// When no message *of that member* is under way.
    AfterItsMessages,
}

/// The faults, and their largest numbers.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    pub(super) members: u32,
    pub(super) preempt: bool,
    pub(super) crashes: u8,
    pub(super) restarts: u8,
    /// The number of messages that may be lost. The next field is the number that may arrive twice.
    pub(super) losses: u8,
    pub(super) repeats: u8,
    /// The number of times that a detector may report a running member as down.
    pub(super) mistakes: u8,
    /// Whether the messages from one member to another stay in order.
    pub(super) fifo: bool,
    pub(super) detection: Detection,
    /// Whether a verdict may arrive long after the detector made it.
    pub(super) lag: bool,
    /// Whether timers may fire while messages sent before the last timer are still under way.
    pub(super) hasty: bool,
    /// Whether all members have just started; otherwise all follow the best one.
    pub(super) cold: bool,
}

pub(super) const CALM: Environment = Environment {
    members: 3,
    preempt: false,
    crashes: 0,
    restarts: 0,
    losses: 0,
    repeats: 0,
    mistakes: 0,
    fifo: true,
    detection: Detection::WhenQuiet,
    lag: false,
    hasty: false,
    cold: false,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    peers: Vec<Option<Peer>>,
    durable: Vec<HardState>,
    net: BTreeMap<(NodeId, NodeId), Vec<PeerMessage>>,
    /// Verdicts under way: the member that asked, and the member that is down.
    late: BTreeSet<(NodeId, NodeId)>,
    crashes: u8,
    restarts: u8,
    losses: u8,
    repeats: u8,
    mistakes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Deliver(NodeId, NodeId, usize),
    Repeat(NodeId, NodeId, usize),
    Lose(NodeId, NodeId, usize),
    Answer(NodeId, NodeId, Verdict),
    Evaluate(NodeId, NodeId),
    Late(NodeId, NodeId),
    Mistake(NodeId, NodeId),
    Look(NodeId),
    Crash(NodeId),
    Restart(NodeId),
}

impl Action {
    /// Returns whether the action is a fault; other actions happen also without faults.
    pub(super) const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Repeat(..)
                | Self::Lose(..)
                | Self::Mistake(..)
                | Self::Crash(_)
                | Self::Restart(_)
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver(from, to, _) => write!(f, "{to} receives a message of {from}"),
            Self::Repeat(from, to, _) => write!(
                f,
                "{to} receives a message of {from}, which will arrive again"
            ),
            Self::Lose(from, to, _) => write!(f, "a message from {from} to {to} is lost"),
            Self::Answer(id, of, Verdict::Down) => write!(f, "{id}'s detector says {of} is down"),
            Self::Answer(id, of, _) => write!(f, "{id}'s detector says {of} is up"),
            Self::Evaluate(id, of) => write!(
                f,
                "{id}'s detector finds {of} down, and will report it later"
            ),
            Self::Late(id, of) => write!(f, "{id}'s detector reports late that {of} is down"),
            Self::Mistake(id, of) => write!(f, "{id}'s detector wrongly says {of} is down"),
            Self::Look(id) => write!(f, "{id}'s timer fires"),
            Self::Crash(id) => write!(f, "{id} crashes"),
            Self::Restart(id) => write!(f, "{id} restarts"),
        }
    }
}

/// The largest number of messages under way from one member to another.
const CAPACITY: usize = 3;

const fn place(id: NodeId) -> usize {
    id.0 as usize - 1
}

impl Environment {
    fn start(&self, id: NodeId, record: HardState) -> Peer {
        let second = Duration::from_secs(1);
        let timings = GroupTimings::unchecked(second * 2, second);
        let settings = GroupSettings::new(id, members(self.members), timings).unwrap();
        let settings = settings
            .with_guarantee(GroupGuarantee::BestEffort)
            .with_preempt(self.preempt);
        let started = Started {
            at: now(),
            wall: UnixMillis::new(0),
        };
        Peer(PeerCandidate::new(settings, record, started))
    }
}

impl State {
    fn begin(&mut self, environment: &Environment, id: NodeId) {
        let peer = environment.start(id, self.durable[place(id)]);
        self.peers[place(id)] = Some(peer);
        self.act(environment, id, |peer| {
            peer.0.campaign(now(), &mut Constant);
        });
    }

    /// Lets one member act, and sends its messages.
    fn act(&mut self, environment: &Environment, id: NodeId, act: impl FnOnce(&mut Peer)) {
        for (to, message) in self.act_only(id, act) {
            self.send(environment, id, to, message);
        }
    }

    fn act_only(&mut self, id: NodeId, act: impl FnOnce(&mut Peer)) -> Vec<(NodeId, PeerMessage)> {
        let Some(peer) = &mut self.peers[place(id)] else {
            return Vec::new();
        };
        act(peer);
        let mut said = Vec::new();
        if peer.0.execute(&mut self.durable[place(id)], &mut said) {
            self.late.retain(|&(asker, _)| asker != id);
        }
        said
    }

    fn send(&mut self, environment: &Environment, from: NodeId, to: NodeId, message: PeerMessage) {
        let way = self.net.entry((from, to)).or_default();
        // A copy of a message that is still under way adds nothing. A full channel loses a message,
        // and the member sends it again.
        let message = without_epoch(message);
        if !way.contains(&message) && way.len() < CAPACITY {
            way.push(message);
        }
        if !environment.fifo {
            way.sort_unstable();
        }
    }

    fn take(&mut self, from: NodeId, to: NodeId, index: usize) -> PeerMessage {
        let way = self.net.get_mut(&(from, to)).unwrap();
        let message = way.remove(index);
        if way.is_empty() {
            self.net.remove(&(from, to));
        }
        message
    }

    fn hear(&mut self, environment: &Environment, from: NodeId, to: NodeId, message: PeerMessage) {
        self.act(environment, to, |peer| peer.hear(from, message));
    }

    /// Returns whether a repeated message changes the receiver, or the answer to it changes the
    /// sender. The model omits the other repetitions, because they only add states.
    fn matters(&self, from: NodeId, to: NodeId, message: PeerMessage) -> bool {
        let mut trial = self.clone();
        let answers = trial.act_only(to, |peer| peer.hear(from, message));
        if trial.peers[place(to)] != self.peers[place(to)] {
            return true;
        }
        answers.into_iter().any(|(back, answer)| {
            let mut trial = self.clone();
            let more = trial.act_only(back, |peer| peer.hear(to, answer));
            trial.peers[place(back)] != self.peers[place(back)] || !more.is_empty()
        })
    }

    fn live(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        let peers = self.peers.iter().enumerate();
        peers.filter_map(|(i, peer)| Some((NodeId(i as u32 + 1), peer.as_ref()?)))
    }

    /// Returns whether all members that have a leader have the same one (SLE1 in the papers).
    pub(super) fn agrees(&self) -> bool {
        let mut leaders = self.live().filter_map(|(_, peer)| peer.leader());
        let first = leaders.next();
        leaders.all(|leader| Some(leader) == first)
    }

    /// Returns the number of members that lead in their own opinion.
    pub(super) fn leaders(&self) -> usize {
        self.live()
            .filter(|(id, peer)| peer.leader() == Some(*id))
            .count()
    }

    /// Returns whether all members that are up follow the same leader, which is up and leads. If no
    /// member is up, the result is true, since there is nothing to wait for.
    pub(super) fn elected(&self) -> bool {
        if self.live().next().is_none() {
            return true;
        }
        let leader = self.live().next().and_then(|(_, peer)| peer.leader());
        leader.is_some_and(|leader| {
            self.peers[place(leader)].is_some()
                && self.live().all(|(_, peer)| peer.leader() == Some(leader))
        })
    }

    /// Maps all states that differ only in irrelevant details to one state.
    fn normal(mut self) -> Self {
        // A member always asks about its organiser, and an organiser that is up answers, so open
        // questions about it make no difference.
        let up: Vec<bool> = self.peers.iter().map(Option::is_some).collect();
        let matters = |mistakes: u8, node: NodeId| mistakes > 0 || !up[place(node)];
        for peer in self.peers.iter_mut().flatten() {
            let machine = peer.0.best_effort();
            let organiser = machine.election.organiser;
            match machine.status {
                Status::Waiting | Status::Following { .. } => machine.asked = [organiser].into(),
                Status::Leading { .. } | Status::PersistingEpoch { .. } => machine.asked.clear(),
                Status::Asking { .. } => continue,
                Status::Halting { .. } => {}
            }
            machine.asked.retain(|&node| matters(self.mistakes, node));
        }
        self.renumber()
    }

    /// Renumbers the elections. Their numbers increase without limit, and only their order matters.
    fn renumber(mut self) -> Self {
        let mut used: BTreeMap<(NodeId, u64), BTreeSet<u64>> = BTreeMap::new();
        self.elections(&mut |election| {
            let numbers = used.entry((election.organiser, election.incarnation));
            numbers.or_default().insert(election.number);
        });
        self.elections(&mut |election| {
            let numbers = &used[&(election.organiser, election.incarnation)];
            let smaller = numbers.iter().filter(|&&n| n > 0 && n < election.number);
            if election.number > 0 {
                election.number = 1 + smaller.count() as u64;
            }
        });
        self
    }

    fn elections(&mut self, visit: &mut dyn FnMut(&mut ElectionId)) {
        for record in &mut self.durable {
            record.accepted.as_mut().into_iter().for_each(&mut *visit);
        }
        for peer in self.peers.iter_mut().flatten() {
            let accepted = peer.0.state.record.accepted.as_mut();
            accepted.into_iter().for_each(&mut *visit);
            let machine = peer.0.best_effort();
            visit(&mut machine.election);
            machine.accepted.values_mut().for_each(&mut *visit);
        }
        for way in self.net.values_mut() {
            for message in way {
                match message {
                    PeerMessage::Halt { election, .. }
                    | PeerMessage::Ack { election, .. }
                    | PeerMessage::Rej { election, .. }
                    | PeerMessage::Stale { election }
                    | PeerMessage::Ldr { election, .. }
                    | PeerMessage::Norm { election, .. } => visit(election),
                    PeerMessage::Quorum(_) => {}
                }
            }
        }
    }
}

/// The state of every member, and the messages under way.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, peer) in self.peers.iter().enumerate() {
            let words = peer.as_ref().map_or_else(|| "down".into(), Peer::in_words);
            write!(f, "{}{}: {words}", if i > 0 { ", " } else { "" }, i + 1)?;
        }
        for ((from, to), way) in &self.net {
            for message in way {
                let word = alloc::format!("{message:?}");
                let word = word.split(' ').next().unwrap_or_default();
                write!(f, " [{from} to {to}: {word}]")?;
            }
        }
        Ok(())
    }
}

impl Model for Environment {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let count = self.members as usize;
        let mut state = State {
            peers: alloc::vec![None; count],
            durable: alloc::vec![HardState::default(); count],
            net: BTreeMap::new(),
            late: BTreeSet::new(),
            crashes: self.crashes,
            restarts: self.restarts,
            losses: self.losses,
            repeats: self.repeats,
            mistakes: self.mistakes,
        };
        for id in (1..=self.members).map(NodeId) {
            state.begin(self, id);
        }
        if !self.cold {
            state.warm_up(self);
        }
        alloc::vec![state.normal()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (&(from, to), way) in &state.net {
            let reach = if self.fifo { 1 } else { way.len() };
            for index in 0..reach.min(way.len()) {
                actions.push(Action::Deliver(from, to, index));
                if state.repeats > 0 {
                    actions.push(Action::Repeat(from, to, index));
                }
                if state.losses > 0 {
                    actions.push(Action::Lose(from, to, index));
                }
            }
        }
        for (id, peer) in state.live() {
            actions.push(Action::Look(id));
            for node in peer.asked() {
                if state.peers[place(node)].is_some() {
                    actions.push(Action::Answer(id, node, Verdict::Up));
                    if state.mistakes > 0 {
                        actions.push(Action::Mistake(id, node));
                    }
                } else if match self.detection {
                    Detection::WhenQuiet => state.net.is_empty(),
                    Detection::AfterItsMessages => !state.net.keys().any(|(from, _)| *from == node),
                } {
                    actions.push(Action::Answer(id, node, Verdict::Down));
                    if self.lag && !state.late.contains(&(id, node)) {
                        actions.push(Action::Evaluate(id, node));
                    }
                }
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(id));
            }
        }
        actions.extend(state.late.iter().map(|&(id, of)| Action::Late(id, of)));
        if state.restarts > 0 {
            let down = (1..=self.members).map(NodeId);
            let down = down.filter(|&id| state.peers[place(id)].is_none());
            actions.extend(down.map(Action::Restart));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Deliver(from, to, index) => {
                let message = next.take(from, to, index);
                next.hear(self, from, to, message);
            }
            Action::Repeat(from, to, index) => {
                next.repeats -= 1;
                let message = next.net[&(from, to)][index];
                next.hear(self, from, to, message);
            }
            Action::Lose(from, to, index) => {
                next.losses -= 1;
                next.take(from, to, index);
            }
            Action::Answer(id, of, verdict) => next.act(self, id, |peer| peer.answer(of, verdict)),
            Action::Mistake(id, of) => {
                next.mistakes -= 1;
                next.act(self, id, |peer| peer.answer(of, Verdict::Down));
            }
            Action::Evaluate(id, of) => {
                next.late.insert((id, of));
            }
            Action::Late(id, of) => {
                next.late.remove(&(id, of));
                next.act(self, id, |peer| peer.answer(of, Verdict::Down));
            }
            Action::Look(id) => {
                let said = next.act_only(id, Peer::tick);
                for (to, message) in said {
                    // A timer takes as long as a message lifetime, so earlier messages have arrived
                    // or are lost.
                    let quiet =
                        !last.net.contains_key(&(id, to)) && !last.net.contains_key(&(to, id));
                    if (quiet || self.hasty) && next.matters(id, to, message) {
                        next.send(self, id, to, message);
                    }
                }
            }
            Action::Crash(id) => {
                next.crashes -= 1;
                next.peers[place(id)] = None;
                next.late.retain(|&(asker, _)| asker != id);
            }
            Action::Restart(id) => {
                next.restarts -= 1;
                next.begin(self, id);
            }
        }
        let next = next.normal();
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        alloc::vec![
            Property::always(
                "all members that have a leader have the same one",
                |_, state: &State| { state.agrees() }
            ),
            Property::sometimes("a leader is elected", |_, state: &State| state.elected()),
        ]
    }
}

impl State {
    /// Runs until the first election has ended.
    fn warm_up(&mut self, environment: &Environment) {
        while !self.elected() {
            let mut actions = Vec::new();
            let calm = Environment {
                crashes: 0,
                restarts: 0,
                losses: 0,
                repeats: 0,
                mistakes: 0,
                lag: false,
                ..environment.clone()
            };
            let faults = (
                self.crashes,
                self.restarts,
                self.losses,
                self.repeats,
                self.mistakes,
            );
            (self.crashes, self.restarts, self.losses) = (0, 0, 0);
            (self.repeats, self.mistakes) = (0, 0);
            calm.actions(self, &mut actions);
            let step = actions
                .into_iter()
                .find_map(|action| calm.next_state(self, action));
            *self = step.expect("the first election ends");
            (
                self.crashes,
                self.restarts,
                self.losses,
                self.repeats,
                self.mistakes,
            ) = faults;
        }
    }
}
