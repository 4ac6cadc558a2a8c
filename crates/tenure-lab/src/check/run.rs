//! One run: a contestant, a seed, a storm.

use std::time::Duration;

use super::{Course, Found, Report};
use crate::contestant::{Contestant, Troupe, Way};
use crate::fault::{Climate, Planted, Storm};
use crate::invariant::{self, Promises, Violation};
use crate::sim::{Habits, Task, World};

/// What is checked, on which ground.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Who.
    pub contestant: Contestant,
    /// With which mistake.
    pub planted: Option<Planted>,
    /// On how many machines.
    pub nodes: u32,
    /// How long a run is, in virtual time.
    pub lasts: Duration,
    /// Whether the weather is rough. By default it is for those who promise one leader at a time in it.
    pub rough: bool,
    /// Whether a better member takes a working leader's place.
    pub preempt: bool,
    /// What happens, if not a storm.
    pub course: Option<&'static Course>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first thing that was not as promised.
    pub violation: Option<Violation>,
    /// How many things have happened that are judged.
    pub events: usize,
    /// How many messages were sent.
    pub messages: u64,
    /// How many terms there were.
    pub terms: usize,
}

/// By how many millionths clocks are off at most: a hundredth. A lease tolerates five.
const DRIFT: u64 = 10_000;

/// Ten times as many as five members need in the worst of the storms.
const MOST_MESSAGES: u64 = 1_000_000;

impl Ground {
    /// Ten minutes on five machines, two of them for the settling. The lease is short, so that much
    /// happens in that time.
    #[must_use]
    pub fn new(contestant: Contestant) -> Self {
        Self {
            rough: contestant.promises_one_leader(),
            preempt: false,
            contestant: contestant.with_lease(Duration::from_secs(6)),
            planted: None,
            nodes: 5,
            lasts: Duration::from_secs(600),
            course: None,
        }
    }

    /// This course of events.
    ///
    /// # Panics
    ///
    /// If its contestant can't be.
    #[must_use]
    pub fn on(course: &'static Course) -> Self {
        let contestant = Contestant::of_name(course.contestant).expect("one that there is");
        let ground = Self::new(contestant);
        let mut contestant = ground.contestant;
        contestant.peers.message_lifetime = course.lifetime;
        let settling = Self::settling(&contestant);
        Self {
            contestant,
            nodes: course.nodes,
            lasts: course.calm + settling + Duration::from_secs(10),
            rough: course.rough,
            course: Some(course),
            ..ground
        }
    }

    /// What it is called in lists: its contestant, or its course.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.course {
            Some(course) => course.name,
            None => &self.contestant.name,
        }
    }

    /// Whether its mistake was found, and how, for people.
    #[must_use]
    pub fn told(&self, report: &Report) -> String {
        let planted = self.planted.map(Planted::name).unwrap_or_default();
        let name = self.name();
        let what = match self.course {
            Some(_) => format!("course {name}"),
            None => format!("storms over {name}"),
        };
        let Some(Found { seed, violation }) = report.found.first() else {
            let seeds = report.seeds;
            return format!("{planted}: NOT caught by {seeds} seeds, {what}");
        };
        let command = self.command(*seed);
        format!("{planted}: caught, {what}, seed {seed}: {violation}\n  {command}")
    }

    /// The command that shows this seed again.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let next = seed + 1;
        let mut command = match self.planted {
            Some(_) => "cargo run --features planted --bin tenure --",
            None => "tenure",
        }
        .to_owned();
        command += &format!(" compare check --seeds {seed}..{next}");
        match self.course {
            Some(course) => command += &format!(" --course {}", course.name),
            None => {
                let (name, nodes) = (&self.contestant.name, self.nodes);
                command += &format!(" --contestant {name} --members {nodes}");
            }
        }
        if let Some(planted) = self.planted {
            command += &format!(" --planted {planted}");
        }
        command + " --trace"
    }

    fn settling(contestant: &Contestant) -> Duration {
        contestant.term.lease_duration() * 8
    }

    /// The same with a mistake.
    #[must_use]
    pub fn with_planted(self, planted: Planted) -> Self {
        Self {
            planted: Some(planted),
            ..self
        }
    }

    fn trouble(&self) -> Duration {
        self.course.map_or(self.lasts * 4 / 5, |course| course.calm)
    }

    /// What goes wrong. Who promises one leader at a time promises it in rough weather; the others
    /// promise to agree when it is over, and those without a quorum one leader where no message
    /// outlives the detection of its sender's end.
    fn climate(&self, troupe: &Troupe) -> Climate {
        Climate {
            nodes: self.nodes,
            store: self.contestant.way == Way::Lease,
            trouble: self.trouble(),
            pause: Duration::from_secs(5),
            lasts: self.contestant.term.lease_duration() * 2,
            rough: self.rough,
            delay: troupe.message_lifetime() / 2,
            drift: DRIFT,
            blocks: self.planted == Some(Planted::RenewerOnTaskRuntime),
        }
    }

    fn promises(&self) -> Promises {
        let rests = self.contestant.has_epochs() && !self.rough && !self.preempt;
        Promises {
            // Without a quorum it rests on the weather, and a better member that takes over does not
            // wait for the task of the one before.
            one_leader: self.contestant.promises_one_leader() || rests,
            // With a quorum an opinion may be late. And in a storm there are members that stand aside
            // after a term: a worse one leads without asking them whom they still follow.
            one_opinion: rests && !self.contestant.promises_one_leader() && self.course.is_some(),
            steady: self.course.is_some_and(|course| course.steady),
            // Without a quorum nobody need be there who knows the last one.
            epochs: self.contestant.promises_one_leader(),
            settles_within: Self::settling(&self.contestant),
        }
    }

    fn world(&self, seed: u64) -> World {
        let contestant = Contestant {
            preempt: self.preempt,
            ..self.contestant.clone()
        };
        let troupe = Troupe::new(contestant, self.nodes).with_planted(self.planted);
        let climate = self.climate(&troupe);
        let habits = Habits {
            task: self.course.map_or(Task::Any, |course| course.task),
            drift: DRIFT,
            most_messages: MOST_MESSAGES,
            ..Habits::default()
        };
        let mut world = World::new(Box::new(troupe), habits, seed);
        let late = self.course.map_or(&[][..], |course| course.late);
        for node in world.machines() {
            // In a course all start at once, so that it is known who leads.
            let apart = Duration::from_millis(if self.course.is_some() { 0 } else { 200 });
            let pause = apart * node.0;
            if !late.contains(&node.0) {
                world.start_after(node, pause);
            }
        }
        match self.course {
            Some(course) => {
                for (at, fault) in course.faults(seed) {
                    world.strike_after(at, fault);
                }
            }
            None => Storm::new(&climate, seed).come_over(&mut world),
        }
        world.calm_after(self.trouble());
        world
    }
}

/// Runs one seed.
#[must_use]
pub fn run(ground: &Ground, seed: u64) -> Outcome {
    let mut world = ground.world(seed);
    world.run_until(ground.lasts);
    world.finish();
    let history = world.history();
    let terms = history
        .iter()
        .filter(|event| matches!(event.what, crate::sim::What::Acts(_)));
    Outcome {
        violation: invariant::check(history, &ground.promises()).err(),
        events: history.len(),
        messages: world.traffic().messages(),
        terms: terms.count(),
    }
}

/// The same, with a line for everything that happens.
#[must_use]
pub fn trace(ground: &Ground, seed: u64) -> (Vec<String>, Option<Violation>) {
    let mut world = ground.world(seed).with_trace();
    world.run_until(ground.lasts);
    world.finish();
    let violation = invariant::check(world.history(), &ground.promises()).err();
    (world.trace().to_vec(), violation)
}
