//! Fault scripts: faults in a certain order that random faults hardly ever produce.

use std::time::Duration;

use tenure_core::NodeId;

use super::scripts::ALL;
use crate::names::{self, UnknownName};
use crate::sim::{Fault, Latency, Link, Rng, Target, TaskStop};

/// The number of the random stream that varies the times of a script.
const SCRIPT: u64 = 4;

/// Faults in a certain order; each seed varies their times.
#[derive(Clone, Copy, Debug)]
pub struct FaultScript {
    /// Its name on the command line.
    pub name: &'static str,
    /// The name of the contestant.
    pub contestant: &'static str,
    /// The number of hosts.
    pub nodes: u32,
    /// The hosts that do not start with the others.
    pub(super) starts_later: &'static [u32],
    /// Whether a member may suspect a running member. Then only some contestants guarantee one
    /// leader at a time.
    pub(super) severe: bool,
    /// Whether no fault affects the leader.
    pub(super) steady: bool,
    pub(super) task: TaskStop,
    /// The message lifetime, if it differs from the default.
    pub(super) lifetime: Option<Duration>,
    /// The time at which all faults end.
    pub(super) faults_end: Duration,
    pub(super) script: fn(&mut ScriptBuilder<'_>),
}

impl FaultScript {
    /// All fault scripts.
    pub const ALL: &[Self] = ALL;

    /// Returns the faults of this seed with their times.
    #[must_use]
    pub fn faults(&self, seed: u64) -> Vec<(Duration, Fault)> {
        let mut script = ScriptBuilder {
            rng: &mut Rng::new(seed, SCRIPT),
            faults: Vec::new(),
        };
        (self.script)(&mut script);
        script.faults
    }

    /// Returns the script with this name.
    ///
    /// # Errors
    ///
    /// [`UnknownName`], which contains the most similar known name.
    pub fn of_name(name: &str) -> Result<&'static Self, UnknownName> {
        names::find("fault script", name, ALL, |script| script.name)
    }
}

/// Collects the faults of a script, with times in milliseconds.
#[derive(Debug)]
pub(super) struct ScriptBuilder<'a> {
    rng: &'a mut Rng,
    faults: Vec<(Duration, Fault)>,
}

impl ScriptBuilder<'_> {
    pub(super) fn at(&mut self, at: u64, fault: Fault) {
        self.faults.push((ms(at), fault));
    }

    /// Returns a random time between the two times.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.rng.below(to - from)
    }

    /// Cuts both links between two hosts.
    pub(super) fn cut(&mut self, one: u32, other: u32) {
        self.at(0, Fault::CutOneWay(node(one), node(other)));
        self.at(0, Fault::CutOneWay(node(other), node(one)));
    }

    /// Delays messages of this kind by this time.
    pub(super) fn slow(&mut self, kind: &'static str, from: u32, to: u32, takes: u64) {
        let link = Link {
            latency: Latency::Constant(ms(takes)),
            ..Link::default()
        };
        self.kind(kind, from, to, link);
    }

    /// Drops messages of this kind.
    pub(super) fn lose(&mut self, kind: &'static str, from: u32, to: u32) {
        let link = Link {
            loss: 1_000_000,
            ..Link::default()
        };
        self.kind(kind, from, to, link);
    }

    fn kind(&mut self, kind: &'static str, from: u32, to: u32, link: Link) {
        let (from, to) = (node(from), node(to));
        let fault = Fault::Kind {
            kind,
            from,
            to,
            link,
        };
        self.at(0, fault);
    }

    /// Cuts the power of the machine, so that it refuses no connections. It starts again at `back`,
    /// or never.
    pub(super) fn power_cut(&mut self, at: u64, who: u32, back: Option<u64>) {
        let back_after = back.map(|back| ms(back - at));
        self.at(at, Fault::PowerCut(node(who), back_after));
    }

    pub(super) fn start(&mut self, at: u64, who: u32) {
        self.at(at, Fault::Start(node(who)));
    }
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) const fn node(number: u32) -> Target {
    Target::Node(NodeId(number))
}
