//! One election under the papers' assumptions.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_core::bully::{Member, Membership};
use tenure_core::{Instant, NodeId};

use crate::baseline::{Classic, Elects, Pace, PublishedMember, Ring, Textbook};
use crate::fault::{Fault, Who};
use crate::sim::{
    Cast, Claim, Habits, Here, Input, Latency, Link, Process, Sending, Stable, Time, What, World,
};

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The textbook's Bully.
    Textbook,
    /// Garcia-Molina's.
    Classic,
    /// Bully_FD as it was published.
    Published,
    /// That of Chang and Roberts.
    Ring,
}

/// What there is when the election begins. Members are numbered from 1, the best one first; member 1
/// was the leader.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// n: how many members.
    pub members: u32,
    /// Those that are down, the f.
    pub down: BTreeSet<u32>,
    /// Those of them that are on every member's down list already.
    pub listed: BTreeSet<u32>,
    /// Those that find the leader gone, all at once.
    pub starters: BTreeSet<u32>,
    /// How members send, and how long each message keeps the sender busy.
    pub sending: Sending,
    /// How long a message takes beside that.
    pub latency: Duration,
    /// T_o: how long an answer is waited for.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the beginning until the last member knew the leader; `None` if it never came to that.
    pub response: Option<Duration>,
    /// Messages of the election itself.
    pub election: u64,
    /// Messages of the failure detector.
    pub detection: u64,
    /// How many named themselves.
    pub named: u32,
}

/// When members learn who of those that are down is listed, and when the election begins.
const LISTS: Duration = Duration::from_secs(100);
const BEGINS: Duration = Duration::from_secs(1_000);

/// When all that can come of it has come.
const ENDS: Duration = Duration::from_secs(2_000);

/// Longer than any of that. It is also the longest that a detector takes.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

impl Stage {
    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Outcome {
        let habits = Habits {
            writes_every: None,
            late: Duration::ZERO,
            ..Habits::default()
        };
        let mut world = World::new(Box::new(self.clone()), habits, 0);
        for node in world.machines() {
            world.start_after(node, Duration::ZERO);
        }
        // First all are up, and have told each other so.
        for &node in &self.down {
            let crash = Fault::Crash {
                who: Who::Node(NodeId(node)),
                machine: true,
                back_after: None,
            };
            world.strike_after(LISTS / 2, crash);
        }
        world.run_until((LISTS + BEGINS) / 2);
        let before = world.traffic().clone();
        let network = world.network_mut();
        network.sending = self.sending;
        network.everywhere = Link {
            latency: Latency::Constant(self.latency),
            ..Link::default()
        };
        world.run_until(ENDS);
        let begins = Time::after(BEGINS);
        let since = world.history().iter().filter(|event| event.at >= begins);
        let mut named = BTreeSet::new();
        let mut knows = begins;
        for event in since {
            match event.what {
                What::Claims(..) => {
                    named.insert(event.node);
                }
                What::Sees(_) => knows = event.at,
                _ => {}
            }
        }
        let mut opinions = world.opinions().into_iter();
        let leader = opinions.next().and_then(|(_, leader)| leader);
        let agree = leader.is_some() && opinions.all(|(_, it)| it == leader);
        let settled = agree && knows > begins;
        let sent = world.traffic().clone() - &before;
        Outcome {
            response: settled.then(|| knows.since(begins)),
            election: sent.election,
            detection: sent.detection,
            named: u32::try_from(named.len()).unwrap_or(u32::MAX),
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            timeout: self.timeout,
            poll: NEVER,
            pings: 1,
            // The papers' list is right for ever.
            fresh: NEVER,
        }
    }
}

impl Cast for Stage {
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
        _: Option<&Stable>,
        here: &mut Here<'_>,
    ) -> Box<dyn Process> {
        let (all, pace, leader) = (self.machines(), self.pace(), NodeId(1));
        let member: Box<dyn Elects> = match self.algorithm {
            Algorithm::Textbook => Box::new(Textbook::settled(node, all, pace, leader, here)),
            Algorithm::Classic => Box::new(Classic::settled(node, all, pace, leader, here)),
            Algorithm::Ring => Box::new(Ring::settled(node, all, pace, leader, here)),
            Algorithm::Published => {
                let member = |id| Member { id, priority: 0 };
                let members = Membership::of_any_size(all.into_iter().map(member));
                let members = members.expect("one member or more");
                Box::new(PublishedMember::settled(node, members, pace, leader, here))
            }
        };
        let listed = self.listed.iter().copied().map(NodeId);
        let mut cues = Vec::new();
        if self.starters.contains(&node.0) {
            cues.push((here.now + BEGINS, Cue::Elect));
        }
        cues.push((here.now + LISTS, Cue::AskAbout(listed.collect())));
        Box::new(Actor { member, cues })
    }

    fn patience(&self) -> (Duration, Duration) {
        (Duration::ZERO, Duration::ZERO)
    }
}

/// A member that is told when to do what, the last one first.
#[derive(Debug)]
struct Actor {
    member: Box<dyn Elects>,
    cues: Vec<(Instant, Cue)>,
}

#[derive(Clone, Debug)]
enum Cue {
    AskAbout(Vec<NodeId>),
    Elect,
}

impl Process for Actor {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        self.member.handle(here, input);
        if let Some((_, cue)) = self.cues.pop_if(|(at, _)| *at <= here.now) {
            match cue {
                Cue::AskAbout(nodes) => self.member.ask_about(here, &nodes),
                Cue::Elect => self.member.elect(here),
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let cue = self.cues.last().map(|(at, _)| *at);
        [cue, self.member.due()].into_iter().flatten().min()
    }

    fn claim(&self, now: Instant) -> Option<Claim> {
        self.member.claim(now)
    }
}
