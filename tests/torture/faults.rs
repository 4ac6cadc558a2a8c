//! Random faults of the store and its network.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::sys::signal::Signal;
use tenure_sim::sim::Rng;
use tenure_tests::flood::{Attack, Attacker};
use tenure_tests::proxy::{Proxy, ProxyMode};

use crate::disk::Disk;
use crate::history::Recorder;
use crate::rights::Rights;
use crate::server::Server;

/// The attackers of a flood, and the numbers of their connections.
const TENANT: (Attacker, usize) = (Attacker::Candidate, 64);
const STRANGERS: (Attacker, usize) = (Attacker::Stranger, 100);

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// Stop the store's process for a while (SIGSTOP).
    Stop,
    /// Kill the store and start it again (SIGKILL).
    Kill,
    /// Terminate the store and start it again (SIGTERM).
    Restart,
    /// Delay, lose and cut network traffic.
    Network,
    /// Fill the store's disk for a while.
    Disk,
    /// Cut the power of the store's disk.
    Power,
    /// Move the store's wall clock.
    Clock,
    /// Remove tokens of clients, or give them back.
    Revoke,
    /// Make the access file and the configuration wrong for a moment, with SIGHUP.
    Mistake,
    /// Let a tenant of another namespace and clients without a credential do all they can.
    Flood,
}

/// The store, its network and its disk.
pub(crate) struct Target<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) disk: &'a mut Disk,
    pub(crate) rights: &'a mut Rights,
    pub(crate) proxy: &'a Proxy,
    pub(crate) recorder: &'a Recorder,
}

/// The reason why a round cannot continue.
#[derive(Debug)]
pub(crate) enum RoundError {
    /// The store did something that no fault explains.
    Store(String),
    /// This machine failed to do its part.
    Machine(String),
}

/// How often each fault was injected.
pub(crate) type Counts = BTreeMap<Fault, u64>;

/// Injects these faults until the time is up; then all faults are over.
///
/// # Errors
///
/// If the store ends or does not start, and no fault explains it.
pub(crate) fn inject_faults(
    mut target: Target<'_>,
    faults: &[Fault],
    mut dice: Rng,
    until: Instant,
) -> Result<Counts, RoundError> {
    let mut counts = Counts::new();
    let weighted = faults.iter();
    let weighted = weighted.flat_map(|fault| std::iter::repeat_n(*fault, fault.weight()));
    let weighted: Vec<Fault> = weighted.collect();
    loop {
        let pause = Duration::from_millis(100 + dice.below(1_200));
        sleep(pause.min(until.saturating_duration_since(Instant::now())));
        if target.server.has_ended() {
            target.recorder.fault("the store has ended");
            return Err(RoundError::Store(
                "the store has ended without a fault".into(),
            ));
        }
        if Instant::now() >= until {
            break;
        }
        let fault = dice.one_of(&weighted);
        *counts.entry(fault).or_default() += 1;
        target.inject(fault, &mut dice)?;
    }
    target.disk.make_room();
    target
        .rights
        .give_back(target.server, target.recorder, &mut dice)?;
    Ok(counts)
}

impl Fault {
    /// How often the fault is chosen, compared with the others.
    const fn weight(self) -> usize {
        match self {
            Self::Stop => 6,
            Self::Disk | Self::Power | Self::Revoke => 4,
            Self::Network => 3,
            Self::Kill | Self::Clock | Self::Mistake | Self::Flood => 2,
            Self::Restart => 1,
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Target<'_> {
    fn inject(&mut self, fault: Fault, dice: &mut Rng) -> Result<(), RoundError> {
        match fault {
            Fault::Stop => {
                self.stop(dice);
                Ok(())
            }
            Fault::Kill => self.kill(dice),
            Fault::Restart => self.restart(dice),
            Fault::Network => {
                self.network(dice);
                Ok(())
            }
            Fault::Disk => self.disk(dice),
            Fault::Power => self.power(dice),
            Fault::Clock => {
                self.clock(dice);
                Ok(())
            }
            Fault::Revoke => self.rights.change(self.server, self.recorder, dice),
            Fault::Mistake => self.rights.mistake(self.server, self.recorder, dice),
            Fault::Flood => self.flood(dice),
        }
    }

    fn stop(&mut self, dice: &mut Rng) {
        let ms = match dice.below(10) {
            0 | 1 => 50 + dice.below(150),
            2..9 => 200 + dice.below(1_800),
            _ => 2_000 + dice.below(3_000),
        };
        self.recorder
            .fault(format!("the store is stopped for {ms} ms"));
        self.server.signal(Signal::SIGSTOP);
        sleep(Duration::from_millis(ms));
        self.server.signal(Signal::SIGCONT);
        self.recorder.fault("the store resumes");
    }

    fn kill(&mut self, dice: &mut Rng) -> Result<(), RoundError> {
        if dice.below(10) < 4 {
            self.server.signal(Signal::SIGSTOP);
            sleep(Duration::from_millis(dice.below(1_000)));
        }
        self.server.kill();
        self.recorder.fault("the store is killed");
        self.start_after(dice.below(800))
    }

    fn restart(&mut self, dice: &mut Rng) -> Result<(), RoundError> {
        self.recorder.fault("the store is terminated");
        if !self.server.stop() {
            let what = "the store does not stop on SIGTERM";
            return Err(RoundError::Store(what.into()));
        }
        self.start_after(dice.below(500))
    }

    fn network(&mut self, dice: &mut Rng) {
        let ms = 50 + dice.below(1_200);
        let what = match dice.below(6) {
            0 => {
                self.proxy.set(ProxyMode::Hang);
                "hangs"
            }
            1 => {
                self.proxy.set(ProxyMode::HangReplies);
                "holds answers back"
            }
            2 => {
                self.proxy.set(ProxyMode::Refuse);
                "is cut"
            }
            3 => {
                let delay = |dice: &mut Rng| Duration::from_millis(dice.below(300));
                self.proxy.delay(delay(dice), delay(dice));
                "is slow"
            }
            4 => {
                self.proxy.lose_replies(1 + dice.below(8) as usize);
                "loses answers"
            }
            _ => {
                self.proxy.cut_replies(1 + dice.below(8) as usize);
                "cuts answers in the middle"
            }
        };
        self.recorder
            .fault(format!("the network {what} for {ms} ms"));
        sleep(Duration::from_millis(ms));
        self.heal();
        self.recorder.fault("the network is restored");
    }

    fn heal(&self) {
        self.proxy.set(ProxyMode::Pass);
        self.proxy.delay(Duration::ZERO, Duration::ZERO);
        self.proxy.lose_replies(0);
        self.proxy.cut_replies(0);
    }

    /// Fills the disk; another fault may happen meanwhile.
    fn disk(&mut self, dice: &mut Rng) -> Result<(), RoundError> {
        self.disk.fill();
        self.recorder.disk_is_full();
        self.recorder.fault("the disk is full");
        sleep(Duration::from_millis(300 + dice.below(1_500)));
        match dice.below(4) {
            0 => self.stop(dice),
            1 => self.kill(dice)?,
            _ => {}
        }
        self.disk.make_room();
        self.recorder.fault("the disk has free space again");
        Ok(())
    }

    fn power(&mut self, dice: &mut Rng) -> Result<(), RoundError> {
        let Disk::Ext4(disk) = &self.disk else {
            return Ok(());
        };
        // All threads must be stopped before the cut, and never run again. An `fsync` during the
        // shutdown of this file system may report success for data that is not on the disk, and the
        // store would rely on it; a real power cut stops the machine together with its disk.
        self.server.stop_all_threads();
        self.recorder.fault("the power is cut");
        disk.cut().map_err(RoundError::Machine)?;
        self.server.kill();
        disk.restore().map_err(RoundError::Machine)?;
        self.start_after(dice.below(300))
    }

    fn clock(&self, dice: &mut Rng) {
        let hours = dice.one_of(&[0, 1, 24, 24 * 30]);
        let ahead = dice.one_of(&[-3_600, 3_600]) * hours;
        self.server.set_clock(ahead);
        self.recorder
            .fault(format!("the wall clock is {ahead} s ahead"));
    }

    /// Floods the store; another fault may happen meanwhile.
    fn flood(&mut self, dice: &mut Rng) -> Result<(), RoundError> {
        let target = self.rights.flood_target();
        let kinds: &[(Attacker, usize)] = match dice.below(3) {
            0 => &[TENANT],
            1 => &[STRANGERS],
            _ => &[TENANT, STRANGERS],
        };
        self.recorder.fault(format!("a flood of {kinds:?} begins"));
        let start = |(attacker, connections): &_| Attack::start(&target, *attacker, *connections);
        let attacks: Vec<Attack> = kinds.iter().map(start).collect();
        sleep(Duration::from_millis(300 + dice.below(1_500)));
        let result = match dice.below(5) {
            0 => {
                self.stop(dice);
                Ok(())
            }
            1 => self.kill(dice),
            2 => self.rights.change(self.server, self.recorder, dice),
            3 => self.rights.mistake(self.server, self.recorder, dice),
            _ => Ok(()),
        };
        let requests: u64 = attacks.into_iter().map(|one| one.stop().requests()).sum();
        self.recorder
            .fault(format!("the flood ends after {requests} requests"));
        result
    }

    fn start_after(&mut self, ms: u64) -> Result<(), RoundError> {
        sleep(Duration::from_millis(ms));
        let mut started = self.server.start();
        if started.is_err() {
            // A store does not start on a full disk.
            self.disk.make_room();
            started = self.server.start();
        }
        started.map_err(|error| RoundError::Store(format!("the store does not start: {error}")))?;
        self.recorder.fault("the store has started");
        Ok(())
    }
}
