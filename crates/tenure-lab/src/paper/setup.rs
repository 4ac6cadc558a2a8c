//! One election under the assumptions of the papers.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::{Instant, NodeId};
use tenure_sim::sim::{
    Context, DurableState, Fault, HistoryEventKind, Latency, LeadershipClaim, Link, Network,
    Process, ProcessFactory, ProcessInput, Sending, Target, Time, World, WorldConfig,
};

use crate::baseline::{Baseline, BaselineTimings, OlderAlgorithm};

/// The situation at the beginning of an election. Members are numbered from 1, the best one first.
/// Member 1 was the leader.
#[derive(Clone, Debug)]
pub struct ElectionSetup {
    /// The algorithm.
    pub algorithm: OlderAlgorithm,
    /// n: the number of members.
    pub members: u32,
    /// The failed members; f is their number.
    pub down: BTreeSet<u32>,
    /// The failed members that are on the down list of every member.
    pub listed: BTreeSet<u32>,
    /// The members that find the leader down at the same time.
    pub starters: BTreeSet<u32>,
    /// How members send, and how long each message keeps the sender busy.
    pub sending: Sending,
    /// The latency of a message.
    pub latency: Duration,
    /// The latency of an answer of the textbook's algorithm.
    pub answer: Duration,
    /// T_o: the time to wait for an answer.
    pub timeout: Duration,
    /// The faults during the election, each with its time after the beginning.
    pub faults: Vec<(Duration, Fault)>,
}

/// The result of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionOutcome {
    /// The time from the beginning until the last member knew the leader; `None` if the members
    /// never agreed, or their messages only caused more messages.
    pub response: Option<Duration>,
    /// The time from the beginning until a member announced itself as leader for the last time;
    /// `None` if their messages only caused more messages.
    pub won: Option<Duration>,
    /// The leader on which all running members agree at the end.
    pub leader: Option<NodeId>,
    /// Messages of the election itself.
    pub election: u64,
    /// Messages of the failure detector.
    pub detection: u64,
    /// The number of members that announced themselves as leader.
    pub named: u32,
}

/// The time at which members fail. The next constant is the beginning of the election.
const FAIL: Duration = Duration::from_secs(50);
const BEGINS: Duration = Duration::from_secs(1_000);

/// The time at which every election is over, also if an organiser waits for each of 200 members one
/// after the other.
const ENDS: Duration = Duration::from_secs(20_000);

/// The largest number of messages in a run, twenty times that of the largest election. With a timeout
/// that is too short for the textbook's algorithm, messages can cause more messages for ever.
const MOST_MESSAGES: u64 = 1_000_000;

/// A duration that is longer than the run, and the longest one that a detector accepts.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

impl ElectionSetup {
    /// Runs the election.
    #[must_use]
    pub fn run(&self) -> ElectionOutcome {
        let config = WorldConfig {
            writes_every: None,
            late: Duration::ZERO,
            most_messages: MOST_MESSAGES,
            ..WorldConfig::default()
        };
        let mut world = World::new(Box::new(self.clone()), config, 0);
        for node in world.machines() {
            world.start_after(node, Duration::ZERO);
        }
        // At first all members are up, and their detectors have received messages of each other.
        for &node in &self.down {
            let power_cut = Fault::PowerCut(Target::Node(NodeId(node)), None);
            world.inject_after(FAIL, power_cut);
        }
        for (at, fault) in &self.faults {
            world.inject_after(BEGINS + *at, fault.clone());
        }
        world.run_until((FAIL + BEGINS) / 2);
        let before = world.traffic;
        let network = &mut world.network;
        network.sending = self.sending;
        network.everywhere = Link {
            latency: Latency::Constant(self.latency),
            ..Link::default()
        };
        self.set_answers(network);
        world.run_until(ENDS);
        let begins = Time::after(BEGINS);
        let since = world.history.iter().filter(|event| event.at >= begins);
        let mut named = BTreeSet::new();
        let (mut knows, mut won) = (None, None);
        for event in since {
            match event.kind {
                HistoryEventKind::Claims(..) => {
                    named.insert(event.node);
                    won = Some(event.at.since(begins));
                }
                HistoryEventKind::SeesLeader(_) => knows = Some(event.at.since(begins)),
                _ => {}
            }
        }
        let mut opinions = world.seen_leaders().into_iter();
        let leader = opinions.next().and_then(|(_, leader)| leader);
        let agree = leader.is_some() && opinions.all(|(_, it)| it == leader);
        let ended = world.traffic.messages < MOST_MESSAGES;
        let sent = world.traffic - before;
        ElectionOutcome {
            response: knows.filter(|_| agree && ended),
            won: won.filter(|_| ended),
            leader: leader.filter(|_| agree && ended),
            election: sent.election,
            detection: sent.detection(),
            named: u32::try_from(named.len()).unwrap_or(u32::MAX),
        }
    }

    fn timings(&self) -> BaselineTimings {
        BaselineTimings {
            timeout: self.timeout,
            poll: NEVER,
        }
    }

    fn set_answers(&self, network: &mut Network) {
        if self.answer == self.latency {
            return;
        }
        let link = Link {
            latency: Latency::Constant(self.answer),
            ..Link::default()
        };
        for from in self.machines() {
            for to in self.machines() {
                for kind in ["Answer", "Coordinator"] {
                    network.set_kind(kind, from, to, link);
                }
            }
        }
    }
}

impl ProcessFactory for ElectionSetup {
    fn machines(&self) -> Vec<NodeId> {
        (1..=self.members).map(NodeId).collect()
    }

    fn is_store(&self, _: NodeId) -> bool {
        false
    }

    fn start(
        &self,
        node: NodeId,
        incarnation: u64,
        durable: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process> {
        let (members, timings) = (self.machines(), self.timings());
        let this = (node, incarnation);
        let mut member = self.algorithm.member(this, members, timings, durable);
        if incarnation > 1 {
            member.start(context);
            return Box::new(member);
        }
        member.settle(context, NodeId(1));
        let listed: Vec<NodeId> = self.listed.iter().copied().map(NodeId).collect();
        member.list(&listed);
        let begins = self.starters.contains(&node.0);
        Box::new(ScriptedMember {
            member,
            begins: begins.then(|| context.now + BEGINS),
        })
    }

    fn stop_allowances(&self) -> (Duration, Duration) {
        (Duration::ZERO, Duration::ZERO)
    }
}

/// A member that begins an election at a given time, if there is one.
#[derive(Debug)]
struct ScriptedMember {
    member: Box<dyn Baseline>,
    begins: Option<Instant>,
}

impl Process for ScriptedMember {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        self.member.handle(context, input);
        if self.begins.take_if(|at| *at <= context.now).is_some() {
            self.member.elect(context);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.begins, self.member.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn claim(&self, now: Instant) -> Option<LeadershipClaim> {
        self.member.claim(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Member 2 answers, and dies before it announces itself. It is away for this time.
    fn winner_dies(away: Option<Duration>) -> Option<NodeId> {
        let ms = Duration::from_millis;
        let setup = ElectionSetup {
            algorithm: OlderAlgorithm::Textbook,
            members: 5,
            down: BTreeSet::from([1]),
            listed: BTreeSet::new(),
            starters: BTreeSet::from([5]),
            sending: Sending::AtOnce,
            latency: ms(10),
            answer: ms(10),
            timeout: ms(100),
            faults: vec![(ms(50), Fault::PowerCut(Target::Node(NodeId(2)), away))],
        };
        setup.run().leader
    }

    #[test]
    fn the_next_best_member_replaces_a_winner_that_died_after_its_answer() {
        assert_eq!(winner_dies(None), Some(NodeId(3)));
    }

    #[test]
    fn a_winner_that_returns_before_the_timeout_of_the_others_still_leads() {
        let away = Duration::from_millis(50);
        assert_eq!(winner_dies(Some(away)), Some(NodeId(2)));
    }
}
