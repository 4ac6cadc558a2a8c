//! The two counter-examples to the figure as sequence charts, from the published machine itself.
//!
//! Messages keep their order and none is lost. The detector makes no mistake, and reports a member
//! as down only when no message is under way.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::NodeId;
use tenure_core::bully::{Member, Membership};
use tenure_core::detector::Verdict;
use tenure_sim::sim::SimMessage;

use super::chart::Chart;
use crate::baseline::{Published, PublishedInput, PublishedMessage};

/// A run of the published machine that shows an error of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterExample {
    /// Two members and one crash: no leader is ever elected again.
    Hang,
    /// Three members, one crash and one restart: they follow different leaders for ever.
    Part,
}

/// An event of such a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Crash(u32),
    Restart(u32),
    /// The timer of a member fires.
    Timer(u32),
    /// The detector of the first member answers that the second is up or down, as it is.
    Detector(u32, u32),
    /// The second member receives the oldest message of the first.
    Deliver(u32, u32),
}

const HANG: &[Step] = &[
    Step::Crash(1),
    Step::Timer(2),
    Step::Detector(2, 1),
    Step::Detector(2, 1),
];

const PART: &[Step] = &[
    Step::Crash(1),
    Step::Timer(2),
    Step::Detector(2, 1),
    Step::Detector(2, 1),
    Step::Detector(2, 3),
    Step::Restart(1),
    Step::Detector(1, 2),
    Step::Detector(1, 3),
    Step::Deliver(1, 3),
    Step::Deliver(2, 3),
    Step::Deliver(3, 1),
    Step::Deliver(3, 2),
    Step::Deliver(1, 2),
    Step::Deliver(2, 1),
    Step::Deliver(2, 3),
];

/// The messages that are under way when the members already disagree. They change nothing about it.
const PART_REST: &[Step] = &[Step::Deliver(1, 2), Step::Deliver(1, 3)];

impl CounterExample {
    /// All counter-examples, with their names.
    pub const ALL: &[(&str, Self)] = &[("hang", Self::Hang), ("part", Self::Part)];

    const fn members(self) -> u32 {
        match self {
            Self::Hang => 2,
            Self::Part => 3,
        }
    }

    fn steps(self) -> impl Iterator<Item = Step> {
        let steps: [&[Step]; 2] = match self {
            Self::Hang => [HANG, &[]],
            Self::Part => [PART, PART_REST],
        };
        steps.into_iter().flatten().copied()
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Hang => {
                "Two members and one crash: no leader is ever elected again.\n\
                 No message is lost, and the detector makes no mistake."
            }
            Self::Part => {
                "Three members, one crash and one restart: they follow different leaders for ever.\n\
                 No message is lost, messages keep their order, and the detector makes no mistake."
            }
        }
    }

    const fn end(self) -> &'static str {
        match self {
            Self::Hang => {
                "Member 2 has asked its detector about all better members, and there is no worse one. Only an Ack\n\
                 makes an organiser test whether its election is complete, and no member is left that could\n\
                 send one. No event is possible but the return of member 1."
            }
            Self::Part => {
                "Member 3 has acknowledged two elections, and each organiser relies on it. Since step 16 they\n\
                 disagree: 1 leads, and 3 follows 2. Nothing ends this. The detector tells 3 that 2 is up, and\n\
                 the question Norm? of the leader is not answered by a member in the state Norm."
            }
        }
    }

    /// Returns the run as a sequence chart of at most 100 columns.
    #[must_use]
    pub fn chart(self) -> String {
        let mut group = Group::new(self.members());
        let mut chart = Chart::new(self.members());
        chart.note(1, "start", &group.shown());
        for (number, step) in self.steps().enumerate() {
            let number = number + 2;
            let about = group.describe(step);
            let message = group.handle(step);
            let states = group.shown();
            match (step, message) {
                (Step::Deliver(from, to), Some(message)) => {
                    chart.arrow(number, (from, to), &message, &states);
                }
                _ => chart.event(number, step.member(), &about, &states),
            }
        }
        format!("{}\n\n{}\n{}\n", self.title(), chart.text(), self.end())
    }
}

impl Step {
    const fn member(self) -> u32 {
        match self {
            Self::Crash(member)
            | Self::Restart(member)
            | Self::Timer(member)
            | Self::Detector(member, _)
            | Self::Deliver(_, member) => member,
        }
    }
}

/// Some members and the messages under way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    members: Membership,
    nodes: BTreeMap<NodeId, Option<Published>>,
    /// The number of starts of each member.
    starts: BTreeMap<NodeId, u64>,
    network: BTreeMap<(NodeId, NodeId), VecDeque<PublishedMessage>>,
}

impl Group {
    /// Creates a group in which all members follow the best one.
    fn new(count: u32) -> Self {
        let ids = || (1..=count).map(NodeId);
        let member = |id| Member { id, priority: 0 };
        let members = Membership::of_any_size(ids().map(member)).expect("two members or more");
        let settled = |id| Some(Published::settled(id, members.clone(), NodeId(1)));
        Self {
            nodes: ids().map(|id| (id, settled(id))).collect(),
            starts: ids().map(|id| (id, 1)).collect(),
            network: BTreeMap::new(),
            members,
        }
    }

    /// Describes an event that is about to happen.
    fn describe(&self, step: Step) -> String {
        match step {
            Step::Crash(_) => "crashes".into(),
            Step::Restart(_) => "restarts".into(),
            Step::Timer(_) => "timer: asks about leader".into(),
            Step::Detector(_, about) => {
                let is_up = self.nodes[&NodeId(about)].is_some();
                let verdict = if is_up { "up" } else { "down" };
                format!("detector: {about} is {verdict}")
            }
            Step::Deliver(from, _) => format!("message of {from}"),
        }
    }

    /// Handles an event, and returns the message of a delivery.
    fn handle(&mut self, step: Step) -> Option<String> {
        match step {
            Step::Crash(member) => {
                self.nodes.insert(NodeId(member), None);
            }
            Step::Restart(member) => {
                let id = NodeId(member);
                let starts = self.starts.entry(id).or_default();
                let node = Published::recovered(id, self.members.clone(), *starts);
                *starts += 1;
                self.nodes.insert(id, Some(node));
            }
            Step::Timer(member) => self.input(member, PublishedInput::Poll),
            Step::Detector(member, about) => {
                let is_up = self.nodes[&NodeId(about)].is_some();
                let verdict = if is_up { Verdict::Up } else { Verdict::Down };
                self.input(member, PublishedInput::Answer(NodeId(about), verdict));
            }
            Step::Deliver(from, to) => {
                let link = (NodeId(from), NodeId(to));
                let message = self.network.get_mut(&link)?.pop_front()?;
                self.network.retain(|_, link| !link.is_empty());
                self.input(to, PublishedInput::Message(NodeId(from), message));
                return Some(message.kind().into());
            }
        }
        None
    }

    fn input(&mut self, member: u32, input: PublishedInput) {
        let id = NodeId(member);
        if let Some(Some(node)) = self.nodes.get_mut(&id) {
            for (to, message) in node.handle(input) {
                self.network.entry((id, to)).or_default().push_back(message);
            }
        }
    }

    /// The state of each member.
    fn shown(&self) -> Vec<String> {
        let shown = |node: &Option<Published>| {
            let Some(node) = node else {
                return "down".into();
            };
            let election = node.election();
            let (organiser, incarnation) = (election.organiser, election.incarnation);
            let leader = node.leader().map(|it| format!(" {it}")).unwrap_or_default();
            let number = election.number;
            format!(
                "{:?}{leader} <{organiser},{incarnation},{number}>",
                node.status()
            )
        };
        self.nodes.values().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Returns all events that are possible without a further fault.
    fn possible(group: &Group) -> Vec<Step> {
        let deliveries = group.network.keys();
        let mut all: Vec<Step> = deliveries
            .map(|(from, to)| Step::Deliver(from.0, to.0))
            .collect();
        for (id, node) in &group.nodes {
            let Some(node) = node else { continue };
            all.push(Step::Timer(id.0));
            let asked = node.asked().filter(|about| {
                // The detector reports a member as down only when no message is under way.
                group.nodes[about].is_some() || group.network.is_empty()
            });
            all.extend(asked.map(|about| Step::Detector(id.0, about.0)));
        }
        all
    }

    /// Returns whether all members that are up follow the same one, which is up.
    fn elected(group: &Group) -> bool {
        let up = group.nodes.values().flatten();
        let leaders: Vec<_> = up.map(Published::leader).collect();
        let leader = leaders[0];
        leader.is_some_and(|it| group.nodes[&it].is_some())
            && leaders.iter().all(|it| *it == leader)
    }

    /// The crashes and restarts are the only faults of the runs, so every other step must be
    /// possible when it happens, and at the end no further step may lead to a leader.
    #[test]
    fn the_counter_examples_are_runs_of_the_model_and_end_without_a_leader_for_ever() {
        for &(name, example) in CounterExample::ALL {
            let mut group = Group::new(example.members());
            for step in example.steps() {
                let is_fault = matches!(step, Step::Crash(_) | Step::Restart(_));
                assert!(
                    is_fault || possible(&group).contains(&step),
                    "{name}: {step:?}"
                );
                group.handle(step);
            }
            let mut known = vec![group.clone()];
            let mut open = VecDeque::from([group]);
            while let Some(group) = open.pop_front() {
                assert!(!elected(&group), "{name}");
                for step in possible(&group) {
                    let mut next = group.clone();
                    next.handle(step);
                    // The questions and answers of timers repeat; one of each is enough.
                    next.network.values_mut().for_each(|link| {
                        link.truncate(1);
                    });
                    if !known.contains(&next) {
                        known.push(next.clone());
                        open.push_back(next);
                    }
                }
            }
        }
    }

    #[test]
    fn the_members_disagree_at_step_16() {
        let mut group = Group::new(3);
        for step in PART {
            group.handle(*step);
        }
        assert_eq!(PART.len() + 1, 16);
        assert_eq!(
            group.shown(),
            ["Norm 1 <1,1,0>", "Wait <1,1,0>", "Norm 2 <2,0,0>"]
        );
    }

    #[test]
    fn a_chart_fits_a_hundred_columns() {
        for &(name, example) in CounterExample::ALL {
            let chart = example.chart();
            println!("{chart}");
            let widest = chart.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(100), "{name}: {widest:?}");
        }
        let part = CounterExample::Part.chart();
        for text in ["Halt", "Ack", "Ldr", "18 ", "Wait <2,0,0>"] {
            assert!(part.contains(text), "{text}: {part}");
        }
    }
}
