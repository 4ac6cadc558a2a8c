//! Measures how many steps of group members one core executes per second. A step is a message, an
//! answer or a timer that a member handles, with all its outputs. Five members exchange messages
//! through a queue without delay.

use std::collections::VecDeque;
use std::time::{Duration, Instant as Stopwatch};

use tenure_core::bully::{
    GroupGuarantee, GroupSettings, GroupTimings, HardState, Member, Membership, PeerCandidate,
    PeerEffect, PeerInput, Started,
};
use tenure_core::detector::Verdict;
use tenure_core::election::{ElectionMachine as _, EndReason, Output, TaskEnd, TermEvent};
use tenure_core::random::SplitMix64;
use tenure_core::{Incarnation, Instant, NodeId, UnixMillis};

const MEMBERS: u32 = 5;

/// The target for one core, in steps per second.
const TARGET: f64 = 1e6;

const ROUNDS: usize = 5;

struct Group {
    nodes: Vec<PeerCandidate>,
    now: Instant,
    rng: SplitMix64,
    queue: VecDeque<(usize, PeerInput)>,
    leader: Option<usize>,
    terms: u64,
    steps: u64,
}

fn index(id: NodeId) -> usize {
    id.0 as usize - 1
}

impl Group {
    fn new(guarantee: GroupGuarantee) -> Self {
        let now = Instant::default();
        let member = |id| Member {
            id: NodeId(id),
            priority: 0,
        };
        let members = Membership::new((1..=MEMBERS).map(member)).expect("members");
        let node = |id| {
            let settings = GroupSettings::new(NodeId(id), members.clone(), GroupTimings::default());
            let settings = settings.expect("a member").with_guarantee(guarantee);
            let started = Started {
                at: now,
                wall: UnixMillis::new(0),
            };
            PeerCandidate::new(settings, HardState::default(), started)
        };
        let mut group = Self {
            nodes: (1..=MEMBERS).map(node).collect(),
            now,
            rng: SplitMix64::new(1),
            queue: VecDeque::new(),
            leader: None,
            terms: 0,
            steps: 0,
        };
        for index in 0..group.nodes.len() {
            let Self { nodes, rng, .. } = &mut group;
            nodes[index].campaign(now, rng);
            group.execute(index);
        }
        group
    }

    /// Delivers the next queued input; if there is none, advances time to the next timer.
    fn step(&mut self) {
        self.steps += 1;
        if let Some((to, input)) = self.queue.pop_front() {
            self.nodes[to].handle_message(self.now, input, &mut self.rng);
            return self.execute(to);
        }
        let due = self.nodes.iter().enumerate();
        let due = due.filter_map(|(index, node)| Some((node.poll_timeout()?, index)));
        let (at, index) = due.min().expect("there is always a timer");
        self.now = self.now.max(at);
        self.nodes[index].handle_timeout(self.now, &mut self.rng);
        self.execute(index);
    }

    fn execute(&mut self, from: usize) {
        while let Some(output) = self.nodes[from].poll_output() {
            match output {
                Output::Effect(PeerEffect::Send { to, message }) => {
                    let from = NodeId(from as u32 + 1);
                    let incarnation = Incarnation(1);
                    let input = PeerInput::Message {
                        from,
                        incarnation,
                        message,
                    };
                    self.queue.push_back((index(to), input));
                }
                Output::Effect(PeerEffect::Persist(_)) => {
                    self.queue.push_back((from, PeerInput::Persisted))
                }
                Output::Effect(PeerEffect::Ask { node, round }) => {
                    let verdict = if self.nodes[index(node)].is_candidate(self.now) {
                        Verdict::Up
                    } else {
                        Verdict::NonCandidate
                    };
                    let answer = PeerInput::Answer {
                        node,
                        round,
                        verdict,
                    };
                    self.queue.push_back((from, answer));
                }
                Output::Term(TermEvent::Began(_)) => {
                    self.leader = Some(from);
                    self.terms += 1;
                }
                Output::Term(TermEvent::Cancel(_)) => {
                    self.leader = None;
                    self.nodes[from].task_ended(self.now, TaskEnd::Aborted, &mut self.rng);
                }
                Output::Term(TermEvent::Ended(..) | TermEvent::Withdrawn) => {
                    self.nodes[from].campaign(self.now, &mut self.rng);
                }
                _ => {}
            }
        }
    }

    fn resign(&mut self) {
        if let Some(leader) = self.leader {
            self.nodes[leader].resign(self.now, EndReason::Resigned, &mut self.rng);
            self.execute(leader);
        }
    }
}

/// Returns the steps and the terms per second.
fn measure(guarantee: GroupGuarantee, elections: bool, time: Duration) -> (f64, f64) {
    let mut group = Group::new(guarantee);
    while group.leader.is_none() {
        group.step();
    }
    let (steps, terms) = (group.steps, group.terms);
    let began = Stopwatch::now();
    while began.elapsed() < time {
        for _ in 0..1_000 {
            if elections {
                group.resign();
            }
            group.step();
        }
    }
    let took = began.elapsed().as_secs_f64();
    let per_second = |count: u64| count as f64 / took;
    (
        per_second(group.steps - steps),
        per_second(group.terms - terms),
    )
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let time = Duration::from_millis(if quick { 50 } else { 1_000 });
    println!("| {MEMBERS} members | steps per second | terms per second | of {TARGET:.0e} |");
    println!("|---|---|---|---|");
    for guarantee in [GroupGuarantee::Quorum, GroupGuarantee::BestEffort] {
        for (what, elections) in [("one leader", false), ("each leader resigns at once", true)] {
            let mut rounds: Vec<(f64, f64)> = (0..ROUNDS)
                .map(|_| measure(guarantee, elections, time))
                .collect();
            rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (steps, terms) = rounds[ROUNDS / 2];
            println!(
                "| {guarantee}, {what} | {:.2} million ({:.2} to {:.2}) | {terms:.0} | {:.1} |",
                steps / 1e6,
                rounds[0].0 / 1e6,
                rounds[ROUNDS - 1].0 / 1e6,
                steps / TARGET
            );
        }
    }
}
