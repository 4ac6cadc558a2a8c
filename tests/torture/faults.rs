//! What is done to the store and to the way to it, by the dice.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::sys::signal::Signal;
use tenure_lab::sim::Rng;
use tenure_tests::proxy::{Proxy, ProxyMode};

use crate::disk::Disk;
use crate::history::Recorder;
use crate::server::Server;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// The store's process is stopped for a while (SIGSTOP).
    Stop,
    /// It is killed and started again (SIGKILL).
    Kill,
    /// It is told to end and started again (SIGTERM).
    Restart,
    /// The network delays, loses and cuts what is sent.
    Network,
    /// The store's disk is full for a while.
    Disk,
    /// The power of the store's disk is cut.
    Power,
    /// The store's wall clock is moved.
    Clock,
}

/// The store, the way to it, and what it rests on.
pub(crate) struct Target<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) disk: &'a mut Disk,
    pub(crate) proxy: &'a Proxy,
    pub(crate) recorder: &'a Recorder,
}

/// Why the faults could not go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store did what no fault explains.
    Store(String),
    /// This machine did not do what it was told.
    Machine(String),
}

/// How many times each thing was done.
pub(crate) type Counts = BTreeMap<Fault, u64>;

/// Does these things to a store until the time is up; in the end all is well again.
///
/// # Errors
///
/// If the store ends or does not start, and no fault explains that.
pub(crate) fn drive(
    mut target: Target<'_>,
    faults: &[Fault],
    mut dice: Rng,
    until: Instant,
) -> Result<Counts, Trouble> {
    let mut counts = Counts::new();
    let weighted = faults.iter();
    let weighted = weighted.flat_map(|fault| std::iter::repeat_n(*fault, fault.weight()));
    let weighted: Vec<Fault> = weighted.collect();
    loop {
        let pause = Duration::from_millis(100 + dice.below(1_200));
        sleep(pause.min(until.saturating_duration_since(Instant::now())));
        if target.server.has_ended() {
            target.recorder.fault("the store has ended");
            return Err(Trouble::Store("the store has ended by itself".into()));
        }
        if Instant::now() >= until {
            break;
        }
        let fault = dice.one_of(&weighted);
        *counts.entry(fault).or_default() += 1;
        target.strike(fault, &mut dice)?;
    }
    target.disk.make_room();
    Ok(counts)
}

impl Fault {
    /// How often it is done, beside the others.
    const fn weight(self) -> usize {
        match self {
            Self::Stop => 6,
            Self::Disk | Self::Power => 4,
            Self::Network => 3,
            Self::Kill | Self::Clock => 2,
            Self::Restart => 1,
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Target<'_> {
    fn strike(&mut self, fault: Fault, dice: &mut Rng) -> Result<(), Trouble> {
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
        self.recorder.fault("the store goes on");
    }

    fn kill(&mut self, dice: &mut Rng) -> Result<(), Trouble> {
        if dice.below(10) < 4 {
            self.server.signal(Signal::SIGSTOP);
            sleep(Duration::from_millis(dice.below(1_000)));
        }
        self.server.kill();
        self.recorder.fault("the store is killed");
        self.start_after(dice.below(800))
    }

    fn restart(&mut self, dice: &mut Rng) -> Result<(), Trouble> {
        self.recorder.fault("the store is told to end");
        if !self.server.stop() {
            let what = "the store does not end when it is told to";
            return Err(Trouble::Store(what.into()));
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
                "keeps answers back"
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
        self.recorder.fault("the network is well");
    }

    fn heal(&self) {
        self.proxy.set(ProxyMode::Pass);
        self.proxy.link_at_once();
        self.proxy.lose_replies(0);
        self.proxy.cut_replies(0);
    }

    /// The disk is full, and other things may happen meanwhile.
    fn disk(&mut self, dice: &mut Rng) -> Result<(), Trouble> {
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
        self.recorder.fault("the disk has room again");
        Ok(())
    }

    fn power(&mut self, dice: &mut Rng) -> Result<(), Trouble> {
        let Disk::Ext4(disk) = &self.disk else {
            return Ok(());
        };
        // The process never runs again after the cut. An `fsync` that is under way while this file system is
        // shut down may report success for what is not on the disk, and the store would believe it; a disk
        // that loses its power takes the machine with it.
        self.server.stop_all_threads();
        self.recorder.fault("the power is cut");
        disk.cut().map_err(Trouble::Machine)?;
        self.server.kill();
        disk.restore().map_err(Trouble::Machine)?;
        self.start_after(dice.below(300))
    }

    fn clock(&self, dice: &mut Rng) {
        let hours = dice.one_of(&[0, 1, 24, 24 * 30]);
        let ahead = dice.one_of(&[-3_600, 3_600]) * hours;
        self.server.set_clock(ahead);
        self.recorder
            .fault(format!("the wall clock is {ahead} s ahead"));
    }

    fn start_after(&mut self, ms: u64) -> Result<(), Trouble> {
        sleep(Duration::from_millis(ms));
        let mut started = self.server.start();
        if started.is_err() {
            // A store does not start on a disk that is full.
            self.disk.make_room();
            started = self.server.start();
        }
        started.map_err(|said| Trouble::Store(format!("the store does not start: {said}")))?;
        self.recorder.fault("the store has started");
        Ok(())
    }
}
