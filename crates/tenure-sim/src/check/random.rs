//! Random faults.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use super::CheckCase;
use super::run::DRIFT;
use crate::contestant::{Algorithm, SERVERS};
use crate::sim::{Fault, Latency, Link, Rng, Target};

/// The number of the random stream for the schedule.
const SCHEDULE: u64 = 3;

/// The mean time from one fault to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// The hosts of a store of several servers.
const LOG_AND_SERVERS: [NodeId; 4] = [NodeId(0), SERVERS[0], SERVERS[1], SERVERS[2]];

/// Returns the random faults of this seed, each with its time.
///
/// A contestant that guarantees one leader at a time must keep that guarantee under severe faults.
/// The others must agree on a leader when the faults are over. Without a quorum there is one leader
/// only if no message outlives the detection of its sender's crash. So without severe faults there
/// are no partitions, no losses and no frozen processes, and no message takes longer than `delay`.
pub(super) fn random_faults(
    case: &CheckCase,
    delay: Duration,
    seed: u64,
) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed, SCHEDULE);
    let mut schedule = Schedule {
        case,
        has_store: case.contestant.algorithm.uses_store(),
        is_cluster: case.contestant.algorithm == Algorithm::Cluster,
        longest: case.contestant.term.lease_duration() * 2,
        delay,
        faults: Vec::new(),
    };
    let mut kinds: Vec<FaultKind> = MILD.to_vec();
    if case.has_model_of_papers() {
        kinds = IN_PAPERS.to_vec();
    }
    if case.severe {
        kinds.extend(SEVERE);
    }
    if schedule.has_store {
        kinds.extend([FaultKind::PartStore, FaultKind::Break]);
    }
    let mut at = Duration::from_secs(3);
    while at < case.trouble() {
        let kind = rng.one_of(&kinds);
        schedule.add(at, kind, &mut rng);
        at += rng.between(Duration::ZERO, PAUSE * 2);
    }
    schedule.faults
}

struct Schedule<'a> {
    case: &'a CheckCase,
    has_store: bool,
    is_cluster: bool,
    /// The longest duration of a fault.
    longest: Duration,
    /// The longest latency if faults are not severe.
    delay: Duration,
    faults: Vec<(Duration, Fault)>,
}

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

/// The faults in the model of the papers: members crash and return, and messages are slow.
const IN_PAPERS: &[FaultKind] = &[FaultKind::Crash, FaultKind::PowerCut, FaultKind::BadLinks];

const SEVERE: &[FaultKind] = &[
    FaultKind::PowerCut,
    FaultKind::Freeze,
    FaultKind::Freeze,
    FaultKind::Suspend,
    FaultKind::Part,
    FaultKind::Part,
    FaultKind::CutOneWay,
];

impl Schedule<'_> {
    fn add(&mut self, at: Duration, kind: FaultKind, rng: &mut Rng) {
        let lasts = if rng.happens(300_000) {
            rng.between(Duration::ZERO, self.longest / 100)
        } else {
            rng.between(Duration::ZERO, self.longest)
        };
        let end = at + lasts;
        let anybody = |rng: &mut Rng| {
            if self.is_cluster && rng.happens(500_000) {
                Target::Node(rng.one_of(&LOG_AND_SERVERS))
            } else if self.has_store && rng.happens(250_000) {
                Target::Store
            } else if rng.happens(400_000) {
                Target::Leader
            } else {
                Target::Node(NodeId(1 + rng.below(self.case.nodes.into()) as u32))
            }
        };
        let who = anybody(rng);
        match kind {
            FaultKind::Crash => self.push(at, Fault::Crash(who, Some(lasts))),
            FaultKind::PowerCut => self.push(at, Fault::PowerCut(who, Some(lasts))),
            // A store has no orderly shutdown of its own, so a crash covers it.
            FaultKind::Leave | FaultKind::Resign | FaultKind::TaskEnds if who == Target::Store => {}
            FaultKind::Leave => self.push(at, Fault::Leave(who, Some(lasts))),
            FaultKind::Resign => self.push(at, Fault::Resign(who)),
            FaultKind::TaskEnds => {
                let end = rng.one_of(&[TaskEnd::Returned, TaskEnd::Failed, TaskEnd::Panicked]);
                self.push(at, Fault::TaskEnds(Target::Leader, end));
            }
            FaultKind::SlowDisk => {
                let takes = rng.between(Duration::ZERO, self.longest / 10);
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(end, Fault::SlowDisk(who, Duration::ZERO));
            }
            FaultKind::CrashWhileWriting => {
                // The leader resigns first, so that there is a change to write.
                let takes = self.longest / 4;
                let who = if self.has_store { Target::Store } else { who };
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(at, Fault::Resign(Target::Leader));
                let then = at + rng.between(Duration::ZERO, takes * 2);
                self.push(then, Fault::Crash(who, Some(lasts / 10)));
                self.push(then + takes, Fault::SlowDisk(who, Duration::ZERO));
            }
            FaultKind::WallClock => {
                let days = rng.one_of(&[-86_400_000, -3_600_000, -7_000, 7_000, 3_600_000]);
                self.push(at, Fault::WallClock(who, days));
                // Epochs depend on a wall clock that is not permanently wrong.
                self.push(end, Fault::WallClock(who, -days));
            }
            FaultKind::ClockRate => {
                let wide = 2 * DRIFT + 1;
                let ppm = rng.below(wide).cast_signed() - DRIFT.cast_signed();
                self.push(at, Fault::ClockRate(who, ppm));
            }
            FaultKind::BadLinks => {
                self.push(at, Fault::Links(self.bad_link(rng)));
                self.push(end, Fault::Links(Link::default()));
            }
            FaultKind::Repeats => {
                let link = Link {
                    repeats: 300_000,
                    ..self.bad_link(rng)
                };
                self.push(at, Fault::Links(link));
                self.push(end, Fault::Links(Link::default()));
            }
            FaultKind::Freeze => self.push(at, Fault::Freeze(who, lasts)),
            FaultKind::Suspend => self.push(at, Fault::Suspend(who, lasts)),
            FaultKind::Part => {
                let store = if self.is_cluster {
                    &LOG_AND_SERVERS[..]
                } else {
                    &[]
                };
                let all = (1..=self.case.nodes).map(NodeId);
                let all = all.chain(store.iter().copied()).map(Target::Node);
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
            // The lease must be able to expire before the break ends: with a shorter period the
            // leader could not notice the break in time.
            FaultKind::Break => self.push(at, Fault::Break(self.longest)),
        }
    }

    fn push(&mut self, at: Duration, fault: Fault) {
        self.faults.push((at, fault));
    }

    fn bad_link(&self, rng: &mut Rng) -> Link {
        let ms = Duration::from_millis;
        if self.case.has_model_of_papers() {
            // The timeout is twice the longest time of a question and its answer.
            return Link {
                latency: Latency::Uniform(ms(1), self.delay / 2),
                ..Link::default()
            };
        }
        if !self.case.severe {
            let link = Link {
                latency: Latency::Uniform(ms(1), self.delay),
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
                (50_000, self.longest),
                (200_000, self.longest * 2),
            ]),
        }
    }
}
