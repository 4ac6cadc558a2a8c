//! One election under the assumptions of the papers.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::{Instant, NodeId};

use crate::baseline::{self, Baseline, BaselineTimings};
use crate::contestant::Algorithm;
use crate::fault::{Fault, Target};
use crate::sim::{
    Context, DurableState, HistoryEventKind, Latency, LeadershipClaim, Link, Process,
    ProcessFactory, ProcessInput, Sending, Time, World, WorldConfig,
};

/// The situation at the beginning of an election. Members are numbered from 1, the best one first.
/// Member 1 was the leader.
#[derive(Clone, Debug)]
pub struct ElectionSetup {
    /// The algorithm, one of the [`baseline`](mod@baseline)s.
    pub algorithm: Algorithm,
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
    /// T_o: the time to wait for an answer.
    pub timeout: Duration,
}

/// The result of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionOutcome {
    /// The time from the beginning until the last member knew the leader; `None` if the members
    /// never agreed.
    pub response: Option<Duration>,
    /// Messages of the election itself.
    pub election: u64,
    /// Messages of the failure detector.
    pub detection: u64,
    /// The number of members that announced themselves as leader.
    pub named: u32,
}

/// The time at which members learn which members are listed. The next constant is the beginning of
/// the election.
const LISTS: Duration = Duration::from_secs(100);
const BEGINS: Duration = Duration::from_secs(1_000);

/// The time at which every election is over.
const ENDS: Duration = Duration::from_secs(2_000);

/// A duration that is longer than the run, and the longest one that a detector accepts.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

impl ElectionSetup {
    /// Runs the election.
    #[must_use]
    pub fn run(&self) -> ElectionOutcome {
        let config = WorldConfig {
            writes_every: None,
            late: Duration::ZERO,
            ..WorldConfig::default()
        };
        let mut world = World::new(Box::new(self.clone()), config, 0);
        for node in world.machines() {
            world.start_after(node, Duration::ZERO);
        }
        // At first all members are up, and their detectors have received messages of each other.
        for &node in &self.down {
            let power_cut = Fault::PowerCut(Target::Node(NodeId(node)), None);
            world.inject_after(LISTS / 2, power_cut);
        }
        world.run_until((LISTS + BEGINS) / 2);
        let before = world.traffic;
        let network = &mut world.network;
        network.sending = self.sending;
        network.everywhere = Link {
            latency: Latency::Constant(self.latency),
            ..Link::default()
        };
        world.run_until(ENDS);
        let begins = Time::after(BEGINS);
        let since = world.history.iter().filter(|event| event.at >= begins);
        let mut named = BTreeSet::new();
        let mut knows = begins;
        for event in since {
            match event.kind {
                HistoryEventKind::Claims(..) => {
                    named.insert(event.node);
                }
                HistoryEventKind::SeesLeader(_) => knows = event.at,
                _ => {}
            }
        }
        let mut opinions = world.seen_leaders().into_iter();
        let leader = opinions.next().and_then(|(_, leader)| leader);
        let agree = leader.is_some() && opinions.all(|(_, it)| it == leader);
        let settled = agree && knows > begins;
        let sent = world.traffic - before;
        ElectionOutcome {
            response: settled.then(|| knows.since(begins)),
            election: sent.election,
            detection: sent.detection(),
            named: u32::try_from(named.len()).unwrap_or(u32::MAX),
        }
    }

    fn timings(&self) -> BaselineTimings {
        BaselineTimings {
            timeout: self.timeout,
            poll: NEVER,
            pings: 1,
            // An entry in the papers' list never expires.
            fresh: NEVER,
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
        _: u64,
        _: Option<&DurableState>,
        context: &mut Context<'_>,
    ) -> Box<dyn Process> {
        let (members, timings) = (self.machines(), self.timings());
        let mut member = baseline::member(self.algorithm, (node, 1), members, timings, None);
        member.settle(context, NodeId(1));
        let listed = self.listed.iter().copied().map(NodeId);
        let mut commands = Vec::new();
        if self.starters.contains(&node.0) {
            commands.push((context.now + BEGINS, Command::Elect));
        }
        commands.push((context.now + LISTS, Command::AskAbout(listed.collect())));
        Box::new(ScriptedMember { member, commands })
    }

    fn stop_allowances(&self) -> (Duration, Duration) {
        (Duration::ZERO, Duration::ZERO)
    }
}

/// A member that executes commands at given times. The commands are in reverse order.
#[derive(Debug)]
struct ScriptedMember {
    member: Box<dyn Baseline>,
    commands: Vec<(Instant, Command)>,
}

#[derive(Clone, Debug)]
enum Command {
    AskAbout(Vec<NodeId>),
    Elect,
}

impl Process for ScriptedMember {
    fn handle(&mut self, context: &mut Context<'_>, input: ProcessInput) {
        self.member.handle(context, input);
        if let Some((_, command)) = self.commands.pop_if(|(at, _)| *at <= context.now) {
            match command {
                Command::AskAbout(nodes) => self.member.ask_about(context, &nodes),
                Command::Elect => self.member.elect(context),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let command = self.commands.last().map(|(at, _)| *at);
        [command, self.member.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn claim(&self, now: Instant) -> Option<LeadershipClaim> {
        self.member.claim(now)
    }
}
