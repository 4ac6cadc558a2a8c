//! Random faults of a store, of servers over it, and of members, with pauses in which an election must
//! succeed.

use std::time::Duration;

use tenure_core::NodeId;
use tenure_core::lease::candidate::TaskEnd;

use super::CheckCase;
use super::run::DRIFT;
use crate::contestant::{Algorithm, SERVERS};
use crate::sim::{Fault, Latency, Link, Rng, Target};

/// The number of the random stream for the storm.
const STORM: u64 = 5;

/// Returns the faults of this seed, each with its time.
///
/// Every kind of fault hits the store about as often as the members. Half of the faults last for a
/// few messages or elections, and the other half for several lease durations. After half of them
/// nothing changes for longer than an election may take, so that the run shows whether a leader is
/// elected in that state of the hosts and links.
pub(super) fn storm_faults(case: &CheckCase, seed: u64) -> Vec<(Duration, Fault)> {
    let lease = case.contestant.term.lease_duration();
    let mut storm = Storm {
        members: case.nodes,
        servers: match case.contestant.algorithm {
            Algorithm::Cluster => &SERVERS,
            _ => &[],
        },
        lease,
        delay: case.longest_delay(),
        rng: Rng::new(seed, STORM),
        faults: Vec::new(),
    };
    let mut at = Duration::from_secs(3);
    while at < case.trouble() {
        storm.add(at);
        let calm = case.leads_within() + storm.rng.between(Duration::ZERO, lease * 2);
        at += match storm.rng.happens(500_000) {
            true => calm,
            false => storm.rng.between(Duration::ZERO, lease),
        };
    }
    storm.faults
}

struct Storm {
    members: u32,
    /// The servers over the store, which are hit as often as the members.
    servers: &'static [NodeId],
    lease: Duration,
    /// The longest time that a delayed message is under way.
    delay: Duration,
    rng: Rng,
    faults: Vec<(Duration, Fault)>,
}

impl Storm {
    fn push(&mut self, at: Duration, fault: Fault) {
        self.faults.push((at, fault));
    }

    fn member(&mut self) -> Target {
        if !self.servers.is_empty() && self.rng.happens(500_000) {
            return Target::Node(self.rng.one_of(self.servers));
        }
        Target::Node(NodeId(1 + self.rng.below(self.members.into()) as u32))
    }

    fn host(&mut self) -> Target {
        match self.rng.below(3) {
            0 => Target::Store,
            1 => Target::Leader,
            _ => self.member(),
        }
    }

    /// Returns a host that stays the same until the end of a fault.
    fn fixed_host(&mut self) -> Target {
        match self.rng.below(2) {
            0 => Target::Store,
            _ => self.member(),
        }
    }

    fn add(&mut self, at: Duration) {
        let longest = match self.rng.below(4) {
            0 => self.lease / 10,
            1 => self.lease,
            _ => self.lease * 8,
        };
        let lasts = self.rng.between(Duration::ZERO, longest);
        let end = at + lasts;
        let who = self.host();
        match self.rng.below(18) {
            0 | 1 => self.push(at, Fault::Crash(Target::Store, Some(lasts))),
            2 => self.push(at, Fault::PowerCut(who, Some(lasts))),
            3 => self.push(at, Fault::Crash(who, Some(lasts))),
            4 => self.push(at, Fault::Freeze(who, lasts)),
            5 => self.push(at, Fault::Suspend(who, lasts)),
            6 => {
                let who = self.fixed_host();
                let takes = self.rng.between(Duration::ZERO, self.lease / 2);
                self.push(at, Fault::SlowDisk(who, takes));
                self.push(end, Fault::SlowDisk(who, Duration::ZERO));
            }
            7 | 8 => {
                self.push(at, Fault::Part(vec![Target::Store]));
                self.push(end, Fault::Heal);
            }
            9 | 10 => {
                // The store is on one side of the partition or on the other.
                let mut side: Vec<Target> = Vec::new();
                let hosts = (0..=self.members)
                    .map(NodeId)
                    .chain(self.servers.iter().copied());
                for host in hosts {
                    if self.rng.happens(450_000) {
                        side.push(Target::Node(host));
                    }
                }
                self.push(at, Fault::Part(side));
                self.push(end, Fault::Heal);
            }
            11 => {
                // Some members do not reach the store, and all members reach each other.
                let hosts = (1..=self.members)
                    .map(NodeId)
                    .chain(self.servers.iter().copied());
                for host in hosts {
                    if self.rng.happens(500_000) {
                        let member = Target::Node(host);
                        self.push(at, Fault::CutOneWay(member, Target::Store));
                        self.push(at, Fault::CutOneWay(Target::Store, member));
                    }
                }
                self.push(end, Fault::Heal);
            }
            12 => {
                // The store answers, and no answer arrives, or no request does.
                let member = self.host();
                let (from, to) = match self.rng.happens(500_000) {
                    true => (Target::Store, member),
                    false => (member, Target::Store),
                };
                self.push(at, Fault::CutOneWay(from, to));
                self.push(end, Fault::Heal);
            }
            13 => {
                let other = self.member();
                self.push(at, Fault::CutOneWay(who, other));
                self.push(end, Fault::Heal);
            }
            14 => {
                // The store flaps.
                let period = self.rng.between(self.lease / 20, self.lease * 2);
                for time in 0..8 {
                    let crash = at + period * 2 * time;
                    self.push(crash, Fault::Crash(Target::Store, Some(period)));
                }
            }
            15 => {
                let (who, link) = (self.fixed_host(), self.bad_link());
                self.push(at, Fault::HostLinks(who, Some(link)));
                self.push(end, Fault::HostLinks(who, None));
            }
            16 => match self.rng.below(3) {
                0 => self.push(at, Fault::Resign(who)),
                1 => {
                    let member = self.member();
                    self.push(at, Fault::Leave(member, Some(lasts)));
                }
                _ => {
                    let ends = [TaskEnd::Returned, TaskEnd::Failed, TaskEnd::Panicked];
                    let how = self.rng.one_of(&ends);
                    self.push(at, Fault::TaskEnds(Target::Leader, how));
                }
            },
            _ => {
                let drift = self.rng.below(2 * DRIFT + 1).cast_signed() - DRIFT.cast_signed();
                self.push(at, Fault::ClockRate(who, drift));
            }
        }
    }

    /// Returns a link that loses, repeats or delays messages, or is slow.
    fn bad_link(&mut self) -> Link {
        let ms = Duration::from_millis;
        Link {
            latency: self.rng.one_of(&[
                Latency::Uniform(ms(1), ms(10)),
                Latency::Exponential(ms(5), ms(200)),
                Latency::Uniform(ms(100), self.delay),
            ]),
            loss: self.rng.one_of(&[0, 10_000, 300_000, 900_000]),
            repeats: self.rng.one_of(&[0, 200_000]),
            late: self
                .rng
                .one_of(&[(0, Duration::ZERO), (200_000, self.delay)]),
        }
    }
}
