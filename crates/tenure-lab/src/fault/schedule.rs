//! Random faults.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use super::{Fault, Target};
use crate::sim::{Latency, Link, Rng};

/// The stream of random numbers of the schedule.
const SCHEDULE: u64 = 3;

/// The kinds and limits of random faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultProfile {
    /// The number of hosts that compete.
    pub nodes: u32,
    /// Whether there is a store.
    pub store: bool,
    /// How long there are faults.
    pub trouble: Duration,
    /// The mean time from one fault to the next.
    pub pause: Duration,
    /// The longest duration of a fault.
    pub lasts: Duration,
    /// Whether there are partitions, lost and very late messages, and frozen processes: then no
    /// detector can tell a live member from a dead one. Otherwise no message takes longer than `delay`.
    pub severe: bool,
    /// The longest latency if faults are not severe.
    pub delay: Duration,
    /// The largest deviation of a clock's rate, in millionths.
    pub drift: u64,
    /// Whether tasks block their runtime.
    pub blocks: bool,
}

/// The random faults of this seed, each with its time.
#[must_use]
pub fn random_faults(profile: &FaultProfile, seed: u64) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed, SCHEDULE);
    let mut schedule = FaultSchedule(Vec::new());
    let mut kinds: Vec<FaultKind> = MILD.to_vec();
    if profile.severe {
        kinds.extend(SEVERE);
    }
    if profile.store {
        kinds.extend([FaultKind::PartStore, FaultKind::Break]);
    }
    if profile.blocks {
        kinds.extend([FaultKind::Block; 5]);
    }
    let mut at = Duration::from_secs(3);
    while at < profile.trouble {
        let kind = rng.one_of(&kinds);
        schedule.add(profile, at, kind, &mut rng);
        at += rng.between(Duration::ZERO, profile.pause * 2);
    }
    schedule.0
}

struct FaultSchedule(Vec<(Duration, Fault)>);

#[derive(Clone, Copy)]
enum FaultKind {
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
    // Severe faults.
    Freeze,
    Suspend,
    Part,
    PartStore,
    CutOneWay,
    Break,
    Block,
}

const MILD: &[FaultKind] = &[
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Crash,
    FaultKind::Leave,
    FaultKind::Resign,
    FaultKind::TaskEnds,
    FaultKind::SlowDisk,
    FaultKind::CrashWhileWriting,
    FaultKind::WallClock,
    FaultKind::ClockRate,
    FaultKind::BadLinks,
    FaultKind::Repeats,
];

const SEVERE: &[FaultKind] = &[
    FaultKind::PowerCut,
    FaultKind::Freeze,
    FaultKind::Freeze,
    FaultKind::Suspend,
    FaultKind::Part,
    FaultKind::Part,
    FaultKind::CutOneWay,
];

impl FaultSchedule {
    fn add(&mut self, profile: &FaultProfile, at: Duration, kind: FaultKind, rng: &mut Rng) {
        let lasts = if rng.happens(300_000) {
            rng.between(Duration::ZERO, profile.lasts / 100)
        } else {
            rng.between(Duration::ZERO, profile.lasts)
        };
        let end = at + lasts;
        let anybody = |rng: &mut Rng| {
            if profile.store && rng.happens(250_000) {
                Target::Store
            } else if rng.happens(400_000) {
                Target::Leader
            } else {
                Target::Node(NodeId(1 + rng.below(profile.nodes.into()) as u32))
            }
        };
        let who = anybody(rng);
        match kind {
            FaultKind::Crash | FaultKind::PowerCut => {
                let back_after = Some(lasts);
                let machine = matches!(kind, FaultKind::PowerCut);
                self.push(
                    at,
                    Fault::Crash {
                        who,
                        machine,
                        back_after,
                    },
                );
            }
            // The store has no orderly shutdown of its own: a crash covers it.
            FaultKind::Leave | FaultKind::Resign | FaultKind::TaskEnds if who == Target::Store => {}
            FaultKind::Leave => self.push(at, Fault::Leave(who, Some(lasts))),
            FaultKind::Resign => self.push(at, Fault::Resign(who)),
            FaultKind::TaskEnds => {
                let end = rng.one_of(&[TaskEnd::Returned, TaskEnd::Failed, TaskEnd::Panicked]);
                self.push(at, Fault::TaskEnds(Target::Leader, end));
            }
            FaultKind::SlowDisk => {
                let takes = rng.between(Duration::ZERO, profile.lasts / 10);
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(end, Fault::SlowDisk(who, Duration::ZERO));
            }
            FaultKind::CrashWhileWriting => {
                // The leader resigns first, so that there is something to write.
                let takes = profile.lasts / 4;
                let who = if profile.store { Target::Store } else { who };
                let crash = |who, back: Duration| Fault::Crash {
                    who,
                    machine: false,
                    back_after: Some(back),
                };
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(at, Fault::Resign(Target::Leader));
                let then = at + rng.between(Duration::ZERO, takes * 2);
                self.push(then, crash(who, lasts / 10));
                self.push(then + takes, Fault::SlowDisk(who, Duration::ZERO));
            }
            FaultKind::WallClock => {
                let days = rng.one_of(&[-86_400_000, -3_600_000, -7_000, 7_000, 3_600_000]);
                self.push(at, Fault::WallClock(who, days));
                // Epochs rely on a wall clock that is not wrong for good.
                self.push(end, Fault::WallClock(who, -days));
            }
            FaultKind::ClockRate => {
                let wide = 2 * profile.drift + 1;
                let ppm = rng.below(wide).cast_signed() - profile.drift.cast_signed();
                self.push(at, Fault::ClockRate(who, ppm));
            }
            FaultKind::BadLinks => {
                self.push(at, Fault::Links(bad_link(profile, rng)));
                self.push(end, Fault::Links(Link::default()));
            }
            FaultKind::Repeats => {
                let link = Link {
                    repeats: 300_000,
                    ..bad_link(profile, rng)
                };
                self.push(at, Fault::Links(link));
                self.push(end, Fault::Links(Link::default()));
            }
            FaultKind::Freeze => self.push(at, Fault::Freeze(who, lasts)),
            FaultKind::Suspend => self.push(at, Fault::Suspend(who, lasts)),
            FaultKind::Block => self.push(at, Fault::Block(Target::Leader, lasts)),
            FaultKind::Part => {
                let all = (1..=profile.nodes).map(|node| Target::Node(NodeId(node)));
                let side = all.filter(|_| rng.happens(400_000)).collect();
                self.push(at, Fault::Part(side));
                self.push(end, Fault::Heal);
            }
            FaultKind::PartStore => {
                self.push(at, Fault::Part(vec![Target::Store]));
                self.push(end, Fault::Heal);
            }
            FaultKind::CutOneWay => {
                self.push(at, Fault::CutOneWay(who, anybody(rng)));
                self.push(end, Fault::Heal);
            }
            // The period lets the lease expire: with a shorter one the leader could not know yet.
            FaultKind::Break => self.push(at, Fault::Break(profile.lasts)),
        }
    }

    fn push(&mut self, at: Duration, fault: Fault) {
        self.0.push((at, fault));
    }
}

fn bad_link(profile: &FaultProfile, rng: &mut Rng) -> Link {
    let ms = Duration::from_millis;
    if !profile.severe {
        let link = Link {
            latency: Latency::Uniform(ms(1), profile.delay),
            repeats: rng.below(100_000) as u32,
            ..Link::default()
        };
        return link;
    }
    Link {
        latency: rng.one_of(&[
            Latency::Uniform(ms(1), ms(100)),
            Latency::Exponential(ms(5), ms(200)),
            Latency::Uniform(ms(1), ms(2_000)),
        ]),
        loss: rng.one_of(&[0, 10_000, 100_000, 300_000]),
        repeats: rng.one_of(&[0, 20_000, 200_000]),
        late: rng.one_of(&[
            (0, Duration::ZERO),
            (50_000, profile.lasts),
            (200_000, profile.lasts * 2),
        ]),
    }
}
