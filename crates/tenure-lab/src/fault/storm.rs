//! Faults by chance.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use super::{Fault, Who};
use crate::sim::{Dice, Latency, Link, World};

/// The stream of random numbers that storms are made from.
const STORM: u64 = 3;

/// What a storm may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climate {
    /// How many machines there are that compete.
    pub nodes: u32,
    /// Whether there is a store.
    pub store: bool,
    /// For how long there are faults.
    pub trouble: Duration,
    /// How long it is from one fault to the next on average.
    pub pause: Duration,
    /// How long a fault lasts at most.
    pub lasts: Duration,
    /// Whether networks part, messages are lost or come very late, and processes stand still: then
    /// who is alive can't be told from who is dead. Without, nothing takes longer than `delay`.
    pub rough: bool,
    /// How long a message takes at most in a climate that is not rough.
    pub delay: Duration,
    /// By how much clocks may differ in rate from true time, in millionths.
    pub drift: u64,
    /// Whether tasks keep their runtime busy.
    pub blocks: bool,
}

/// Faults, each with its time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storm(Vec<(Duration, Fault)>);

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    PowerCut,
    Leave,
    Resign,
    TaskEnds,
    SlowDisk,
    CrashWhileWriting,
    WallClock,
    ClockRate,
    BadLinks,
    Repeats,
    // Only where it is rough.
    Freeze,
    Suspend,
    Part,
    PartStore,
    CutOneWay,
    Break,
    Block,
}

const GENTLE: &[Kind] = &[
    Kind::Crash,
    Kind::Crash,
    Kind::Crash,
    Kind::Leave,
    Kind::Resign,
    Kind::TaskEnds,
    Kind::SlowDisk,
    Kind::CrashWhileWriting,
    Kind::WallClock,
    Kind::ClockRate,
    Kind::BadLinks,
    Kind::Repeats,
];

const ROUGH: &[Kind] = &[
    Kind::PowerCut,
    Kind::Freeze,
    Kind::Freeze,
    Kind::Suspend,
    Kind::Part,
    Kind::Part,
    Kind::CutOneWay,
];

impl Storm {
    /// The storm of this seed.
    #[must_use]
    pub fn new(climate: &Climate, seed: u64) -> Self {
        let mut dice = Dice::new(seed, STORM);
        let mut storm = Self::default();
        let mut kinds: Vec<Kind> = GENTLE.to_vec();
        if climate.rough {
            kinds.extend(ROUGH);
        }
        if climate.store {
            kinds.extend([Kind::PartStore, Kind::Break]);
        }
        if climate.blocks {
            kinds.extend([Kind::Block; 5]);
        }
        let mut at = Duration::from_secs(3);
        while at < climate.trouble {
            let kind = dice.one_of(&kinds);
            storm.add(climate, at, kind, &mut dice);
            at += dice.between(Duration::ZERO, climate.pause * 2);
        }
        storm
    }

    /// Lets all of it come over a world that begins.
    pub fn come_over(self, world: &mut World) {
        for (at, fault) in self.0 {
            world.strike_after(at, fault);
        }
    }

    fn add(&mut self, climate: &Climate, at: Duration, kind: Kind, dice: &mut Dice) {
        let lasts = if dice.happens(300_000) {
            dice.between(Duration::ZERO, climate.lasts / 100)
        } else {
            dice.between(Duration::ZERO, climate.lasts)
        };
        let end = at + lasts;
        let anybody = |dice: &mut Dice| {
            if climate.store && dice.happens(250_000) {
                Who::Store
            } else if dice.happens(400_000) {
                Who::Leader
            } else {
                Who::Node(NodeId(1 + dice.below(climate.nodes.into()) as u32))
            }
        };
        let who = anybody(dice);
        match kind {
            Kind::Crash | Kind::PowerCut => {
                let back_after = Some(lasts);
                let machine = matches!(kind, Kind::PowerCut);
                self.push(
                    at,
                    Fault::Crash {
                        who,
                        machine,
                        back_after,
                    },
                );
            }
            // A store that is told to stop is one that is killed.
            Kind::Leave | Kind::Resign | Kind::TaskEnds if who == Who::Store => {}
            Kind::Leave => self.push(at, Fault::Leave(who, Some(lasts))),
            Kind::Resign => self.push(at, Fault::Resign(who)),
            Kind::TaskEnds => {
                let end = dice.one_of(&[TaskEnd::Returned, TaskEnd::Failed, TaskEnd::Panicked]);
                self.push(at, Fault::TaskEnds(Who::Leader, end));
            }
            Kind::SlowDisk => {
                let takes = dice.between(Duration::ZERO, climate.lasts / 10);
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(end, Fault::SlowDisk(who, Duration::ZERO));
            }
            Kind::CrashWhileWriting => {
                // The leader goes first, so that there is something to write.
                let takes = climate.lasts / 4;
                let who = if climate.store { Who::Store } else { who };
                let crash = |who, back: Duration| Fault::Crash {
                    who,
                    machine: false,
                    back_after: Some(back),
                };
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(at, Fault::Resign(Who::Leader));
                let then = at + dice.between(Duration::ZERO, takes * 2);
                self.push(then, crash(who, lasts / 10));
                self.push(then + takes, Fault::SlowDisk(who, Duration::ZERO));
            }
            Kind::WallClock => {
                let days = dice.one_of(&[-86_400_000, -3_600_000, -7_000, 7_000, 3_600_000]);
                self.push(at, Fault::WallClock(who, days));
                // Set right again. Epochs count on a wall clock that is not wrong for good.
                self.push(end, Fault::WallClock(who, -days));
            }
            Kind::ClockRate => {
                let wide = 2 * climate.drift + 1;
                let ppm = dice.below(wide).cast_signed() - climate.drift.cast_signed();
                self.push(at, Fault::ClockRate(who, ppm));
            }
            Kind::BadLinks => {
                self.push(at, Fault::Links(bad_link(climate, dice)));
                self.push(end, Fault::Links(Link::default()));
            }
            Kind::Repeats => {
                let link = Link {
                    repeats: 300_000,
                    ..bad_link(climate, dice)
                };
                self.push(at, Fault::Links(link));
                self.push(end, Fault::Links(Link::default()));
            }
            Kind::Freeze => self.push(at, Fault::Freeze(who, lasts)),
            Kind::Suspend => self.push(at, Fault::Suspend(who, lasts)),
            Kind::Block => self.push(at, Fault::Block(Who::Leader, lasts)),
            Kind::Part => {
                let all = (1..=climate.nodes).map(|node| Who::Node(NodeId(node)));
                let side = all.filter(|_| dice.happens(400_000)).collect();
                self.push(at, Fault::Part(side));
                self.push(end, Fault::Heal);
            }
            Kind::PartStore => {
                self.push(at, Fault::Part(vec![Who::Store]));
                self.push(end, Fault::Heal);
            }
            Kind::CutOneWay => {
                self.push(at, Fault::CutOneWay(who, anybody(dice)));
                self.push(end, Fault::Heal);
            }
            // It lets the lease run out: whoever breaks it earlier than that takes it from a leader that
            // can't know yet.
            Kind::Break => self.push(at, Fault::Break(climate.lasts)),
        }
    }

    fn push(&mut self, at: Duration, fault: Fault) {
        self.0.push((at, fault));
    }
}

fn bad_link(climate: &Climate, dice: &mut Dice) -> Link {
    let ms = Duration::from_millis;
    if !climate.rough {
        let link = Link {
            latency: Latency::Uniform(ms(1), climate.delay),
            repeats: dice.below(100_000) as u32,
            ..Link::default()
        };
        return link;
    }
    Link {
        latency: dice.one_of(&[
            Latency::Uniform(ms(1), ms(100)),
            Latency::Exponential(ms(5), ms(200)),
            Latency::Uniform(ms(1), ms(2_000)),
        ]),
        loss: dice.one_of(&[0, 10_000, 100_000, 300_000]),
        repeats: dice.one_of(&[0, 20_000, 200_000]),
        late: dice.one_of(&[
            (0, Duration::ZERO),
            (50_000, climate.lasts),
            (200_000, climate.lasts * 2),
        ]),
    }
}
