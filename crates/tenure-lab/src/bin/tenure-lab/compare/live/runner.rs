//! One run of one strategy in one scenario.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::bail;
use tenure_lab::measure::RunResult;
use tenure_lab::report::Timeline;
use tenure_sim::scenario::Scenario;
use tenure_sim::sim::{Fault, Target, Time, Traffic};

use super::contestant::LiveContestant;
use super::descendants::cpu_time;
use super::history::{MAX_PAUSE, RunTimes, figures, history};
use super::interrupt::Interrupt;
use super::network::STORE;
use super::processes::LiveProcesses;
use super::traffic_log::TrafficLog;
use super::{now, script};

/// The time that processes may need to start on a busy machine, in addition to an election.
const START: Duration = Duration::from_secs(20);

/// The time from the first leader to the measurement at rest, and the duration of that measurement.
const SETTLE: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(3);

/// The time that a busy machine may add to an election.
const SLACK: Duration = Duration::from_secs(1);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The results of one run.
#[derive(Debug)]
pub(super) struct LiveRun {
    pub(super) ran: RunResult,
    pub(super) at_rest: AtRest,
    pub(super) took: Duration,
    pub(super) timeline: Timeline,
}

/// The cost while there are no faults.
#[derive(Debug)]
pub(super) struct AtRest {
    /// Requests and responses on all links.
    pub(super) messages_per_minute: f64,
    pub(super) bytes_per_minute: f64,
    /// In percent of one processor; `None` where the system does not report it.
    pub(super) cpu_percent: Option<f64>,
}

/// A step of a scenario.
enum Step {
    Inject(Fault),
    /// Starts this process, if it does not run.
    Start(u32),
    /// Ends the freeze of this process.
    Thaw(u32),
}

/// Runs one strategy in one scenario.
pub(super) struct LiveRunner<'a> {
    contestant: &'a LiveContestant,
    candidates: u32,
    interrupt: &'a Interrupt,
    processes: LiveProcesses<'a>,
    traffic: TrafficLog,
    /// The times of the faults.
    faults: Vec<Duration>,
    is_led: bool,
}

impl<'a> LiveRunner<'a> {
    /// Starts the store, if there is one. All processes are killed at the end, also after an error,
    /// and are added to `ended`.
    pub(super) fn new(
        contestant: &'a LiveContestant,
        (tenure, candidates): (&'a Path, u32),
        interrupt: &'a Interrupt,
        ended: &'a mut usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            contestant,
            candidates,
            interrupt,
            processes: LiveProcesses::new(contestant, (tenure, candidates), ended)?,
            traffic: TrafficLog::default(),
            faults: Vec::new(),
            is_led: false,
        })
    }

    pub(super) fn run(mut self, scenario: &Scenario) -> anyhow::Result<LiveRun> {
        let begun = now();
        self.record_traffic(begun);
        for number in 1..=self.candidates {
            self.poll()?;
            self.processes.start(number)?;
        }
        let deadline = begun + self.contestant.worst_without_leader + START;
        while !self.is_led && now() < deadline {
            self.processes.ensure_all_run()?;
            self.poll()?;
        }
        let mut settled = begun;
        if script::is_about_the_best(scenario) && self.make_best_lead()? {
            settled = now();
        }
        let at_rest = self.measure_at_rest()?;
        let scale = script::scale(self.contestant.lease_duration);
        let faults = script::faults(scenario, scale).unwrap_or_default();
        if !faults.is_empty() {
            self.inject(faults)?;
        }
        let times = RunTimes {
            begun,
            settled,
            ended: now(),
        };
        let total = self.record_traffic(times.ended);
        let writes = self.processes.receiver.writes();
        let figures = figures(&writes, &times);
        let at = |time: Time| begun + time.since(Time::default());
        let elections = figures.elections.iter();
        let elections = elections.map(|&(from, until)| self.traffic.between(at(from), at(until)));
        Ok(LiveRun {
            ran: RunResult {
                elections: elections.collect(),
                traffic: total,
                figures,
                ..RunResult::default()
            },
            at_rest,
            took: times.ended - begun,
            timeline: Timeline::of(&history(
                &times,
                &writes,
                &self.processes.seen,
                &self.faults,
            )),
        })
    }

    fn record_traffic(&mut self, at: Duration) -> Traffic {
        let total = self.processes.network.traffic();
        self.traffic.record(at, total);
        total
    }

    /// Makes the best candidate the leader: stops other leaders cleanly and restarts them. Returns
    /// whether that was necessary.
    fn make_best_lead(&mut self) -> anyhow::Result<bool> {
        let best = self.processes.of_rank(1);
        // With equal priorities the next leader is random, so this may take more attempts than
        // there are other candidates.
        for stopped in 0..4 * self.candidates {
            self.wait(SETTLE)?;
            let Some(leader) = self.leader().filter(|_| self.leader() != best) else {
                return Ok(stopped > 0);
            };
            self.processes.stop(leader)?;
            let deadline = now() + START;
            while self.processes.is_running(leader)? && now() < deadline {
                self.poll()?;
            }
            self.wait(MAX_PAUSE)?;
            self.processes.start(leader)?;
        }
        Ok(true)
    }

    fn measure_at_rest(&mut self) -> anyhow::Result<AtRest> {
        self.wait(SETTLE)?;
        let (cpu, traffic, since) = (cpu_time(), self.processes.network.traffic(), now());
        self.wait(REST)?;
        let (later, traffic_later) = (cpu_time(), self.processes.network.traffic());
        let secs = (now() - since).as_secs_f64();
        let used = cpu.zip(later);
        let used = used.and_then(|(earlier, later)| later.checked_sub(earlier));
        let traffic = traffic_later - traffic;
        let per_minute = |count: u64| count as f64 * 60.0 / secs;
        Ok(AtRest {
            messages_per_minute: per_minute(traffic.messages),
            bytes_per_minute: per_minute(traffic.bytes),
            cpu_percent: used.map(|used| 100.0 * used.as_secs_f64() / secs),
        })
    }

    /// Injects all faults, and waits for the next leader for as long as an election may take.
    fn inject(&mut self, faults: Vec<(Duration, Fault)>) -> anyhow::Result<()> {
        let begun = now();
        let due = faults.into_iter();
        let mut due: Vec<_> = due
            .map(|(at, fault)| (begun + at, Step::Inject(fault)))
            .collect();
        let worst = self.contestant.worst_without_leader + SLACK;
        let mut last = begun;
        loop {
            self.poll()?;
            self.processes.collect()?;
            let at = now();
            if let Some(next) = due.iter().position(|(when, _)| *when <= at) {
                let (_, step) = due.remove(next);
                self.faults.push(at);
                self.record_traffic(at);
                let follow_up = self.execute(step)?;
                due.extend(follow_up.map(|(after, step)| (at + after, step)));
                last = at;
                continue;
            }
            let is_over = due.is_empty() && at > last + worst;
            if is_over && (self.is_led || at > last + 3 * worst) {
                return Ok(());
            }
        }
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = now() + time;
        while now() < until {
            self.poll()?;
        }
        Ok(())
    }

    /// Waits a little, and records the traffic when leadership begins or ends.
    fn poll(&mut self) -> anyhow::Result<()> {
        self.interrupt.check()?;
        sleep(POLL_INTERVAL);
        let last = self.processes.receiver.last_accepted();
        let is_led = last.is_some_and(|write| now().saturating_sub(write.at) <= MAX_PAUSE);
        if is_led != self.is_led {
            self.is_led = is_led;
            self.record_traffic(now());
        }
        Ok(())
    }

    fn leader(&self) -> Option<u32> {
        let last = self.processes.receiver.last_accepted();
        last.map(|write| write.candidate)
    }

    fn number_of(&mut self, who: Target) -> anyhow::Result<Option<u32>> {
        Ok(match who {
            Target::Node(node) => self.processes.of_rank(node.0),
            Target::Leader => self.leader(),
            Target::BestOther => self.processes.best_but(self.leader())?,
            Target::Store => self.contestant.needs_store.then_some(STORE),
        })
    }

    /// Executes a step. Returns the step that follows, and the time until then.
    fn execute(&mut self, step: Step) -> anyhow::Result<Option<(Duration, Step)>> {
        let fault = match step {
            Step::Inject(fault) => fault,
            Step::Start(number) => return self.processes.start(number).map(|()| None),
            Step::Thaw(number) => return self.processes.thaw(number).map(|()| None),
        };
        let is_power_cut = matches!(fault, Fault::PowerCut(..));
        match fault {
            Fault::Crash(who, back_after) | Fault::PowerCut(who, back_after) => {
                if let Some(number) = self.number_of(who)? {
                    if is_power_cut {
                        self.processes.network.cut_off(&[number]);
                    }
                    self.processes.kill(number);
                    return Ok(back_after.map(|after| (after, Step::Start(number))));
                }
            }
            Fault::Leave(who, back_after) => {
                if let Some(number) = self.number_of(who)? {
                    self.processes.stop(number)?;
                    return Ok(back_after.map(|after| (after, Step::Start(number))));
                }
            }
            Fault::Freeze(who, time) => {
                if let Some(number) = self.number_of(who)? {
                    self.processes.freeze(number)?;
                    return Ok(Some((time, Step::Thaw(number))));
                }
            }
            Fault::Part(side) => {
                let mut numbers = Vec::new();
                for who in side {
                    numbers.extend(self.number_of(who)?);
                }
                self.processes.network.cut_off(&numbers);
            }
            Fault::CutOneWay(from, to) => {
                if let (Some(from), Some(to)) = (self.number_of(from)?, self.number_of(to)?) {
                    self.processes.network.cut_one_way(from, to);
                }
            }
            Fault::Links(link) => self.processes.network.slow(link),
            Fault::Heal => self.processes.network.heal(),
            other => bail!("no real process can have this fault: {other}"),
        }
        Ok(None)
    }
}
