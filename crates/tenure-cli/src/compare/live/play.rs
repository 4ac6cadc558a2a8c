//! One run of one contestant in one scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tenure_lab::fault::Target;
use tenure_lab::measure::RunResult;
use tenure_lab::report::Timeline;
use tenure_lab::scenario::Scenario;
use tenure_lab::sim::{Time, Traffic};

use super::contestant::Contestant;
use super::figures::{NOTICED, Run, figures};
use super::group::{Ended, Group};
use super::ledger::Ledger;
use super::processor;
use super::script::{self, Act};
use super::timeline;
use crate::processes::{Interrupted, NetworkKind, STORE, now};

/// How long processes may take to start on a busy machine, beside an election.
const START: Duration = Duration::from_secs(20);

/// How long after the first leader it is quiet enough to look at what is used at rest, and for how long
/// that is looked at.
const SETTLE: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(3);

/// How long the machine may take beside an election.
const SLACK: Duration = Duration::from_secs(1);

/// How often to look.
const LOOK: Duration = Duration::from_millis(5);

/// What all runs share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) candidates: u32,
    pub(super) network: NetworkKind,
    /// The signal that interrupted the comparison, or 0.
    pub(super) interrupted: Arc<AtomicI32>,
}

/// What one run comes to.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) ran: RunResult,
    /// Requests and answers on all ways in a minute at rest, and bytes.
    pub(super) carried_at_rest: (f64, f64),
    /// In per cent of one processor.
    pub(super) cpu_at_rest: Option<f64>,
    pub(super) took: Duration,
    pub(super) timeline: Timeline,
}

/// What is written down while it is played.
#[derive(Debug, Default)]
struct Notes {
    ledger: Ledger,
    /// When something was done.
    faults: Vec<Duration>,
    is_led: bool,
}

impl Stage {
    /// Plays it. Its processes are ended whatever happens, and counted.
    pub(super) fn play(
        &self,
        contestant: &Contestant,
        scenario: &Scenario,
        ended: &mut Ended,
    ) -> anyhow::Result<Played> {
        let mut group = Group::new(contestant, self.candidates, self.network, ended)?;
        let mut notes = Notes::default();
        let begun = now();
        notes.ledger.enter(begun, group.network.carried()?);
        for number in 1..=self.candidates {
            self.look(&mut group, &mut notes)?;
            group.start(number)?;
        }
        let patience = begun + contestant.worst_without_leader + START;
        while !notes.is_led && now() < patience {
            group.ensure_all_run()?;
            self.look(&mut group, &mut notes)?;
        }
        let mut settled = begun;
        if script::is_about_the_best(scenario) && self.lets_the_best_lead(&mut group, &mut notes)? {
            settled = now();
        }
        let (cpu_at_rest, carried_at_rest) = self.rest(&mut group, &mut notes)?;
        let scale = script::scale(contestant.lease_duration);
        let acts = script::acts(scenario, scale).unwrap_or_default();
        if !acts.is_empty() {
            self.act(&mut group, &mut notes, contestant, acts)?;
        }
        let run = Run {
            begun,
            settled,
            ended: now(),
        };
        let all = group.network.carried()?;
        notes.ledger.enter(run.ended, all);
        let writes = group.receiver.writes();
        let figures = figures(&writes, &run);
        let at = |time: Time| begun + time.since(Time::default());
        let elections = figures.elections.iter();
        let elections = elections.map(|&(from, until)| notes.ledger.between(at(from), at(until)));
        Ok(Played {
            ran: RunResult {
                elections: elections.collect(),
                traffic: Traffic {
                    election: all.messages,
                    bytes: all.bytes,
                    ..Traffic::default()
                },
                figures,
                ..RunResult::default()
            },
            carried_at_rest,
            cpu_at_rest,
            took: run.ended - begun,
            timeline: timeline::of(&run, &writes, &group.seen, &notes.faults),
        })
    }

    /// Sees to it that the best candidate leads: whoever else does is stopped in an orderly way, and
    /// started again. Tells whether that took anything.
    fn lets_the_best_lead(&self, group: &mut Group<'_>, notes: &mut Notes) -> anyhow::Result<bool> {
        let best = group.of_place(1);
        // Where the others have its rank, chance decides: so more often than there are others.
        for stopped in 0..4 * self.candidates {
            self.wait(group, notes, SETTLE)?;
            let leader = group.receiver.last_taken().map(|write| write.candidate);
            let Some(leader) = leader.filter(|_| leader != best) else {
                return Ok(stopped > 0);
            };
            group.stop(leader)?;
            let patience = now() + START;
            while group.is_running(leader)? && now() < patience {
                self.look(group, notes)?;
            }
            self.wait(group, notes, NOTICED)?;
            group.start(leader)?;
        }
        Ok(true)
    }

    /// How much of the processor is used, and how much is sent in a minute, while nothing goes wrong.
    fn rest(
        &self,
        group: &mut Group<'_>,
        notes: &mut Notes,
    ) -> anyhow::Result<(Option<f64>, (f64, f64))> {
        self.wait(group, notes, SETTLE)?;
        let (used, carried, since) = (processor::time(), group.network.carried()?, now());
        self.wait(group, notes, REST)?;
        let (later, by_then) = (processor::time(), group.network.carried()?);
        let secs = (now() - since).as_secs_f64();
        let used = used
            .zip(later)
            .and_then(|(used, later)| later.checked_sub(used));
        let cpu = used.map(|used| 100.0 * used.as_secs_f64() / secs);
        let per_minute = |count: u64| count as f64 * 60.0 / secs;
        let at_rest = by_then - carried;
        Ok((
            cpu,
            (per_minute(at_rest.messages), per_minute(at_rest.bytes)),
        ))
    }

    /// Does it all, and waits for as long as it may take until somebody leads again.
    fn act(
        &self,
        group: &mut Group<'_>,
        notes: &mut Notes,
        contestant: &Contestant,
        acts: Vec<(Duration, Act)>,
    ) -> anyhow::Result<()> {
        let begun = now();
        let mut due: Vec<_> = acts
            .into_iter()
            .map(|(at, act)| (begun + at, act))
            .collect();
        let worst = contestant.worst_without_leader + SLACK;
        let mut last = begun;
        loop {
            self.look(group, notes)?;
            group.collect()?;
            let at = now();
            let next = due.iter().position(|(when, _)| *when <= at);
            if let Some(next) = next {
                let (_, act) = due.remove(next);
                notes.faults.push(at);
                notes.ledger.enter(at, group.network.carried()?);
                let later = one(group, act)?;
                due.extend(later.map(|(after, act)| (at + after, act)));
                last = at;
                continue;
            }
            let is_over = due.is_empty() && at > last + worst;
            if is_over && (notes.is_led || at > last + 3 * worst) {
                return Ok(());
            }
        }
    }

    fn wait(&self, group: &mut Group<'_>, notes: &mut Notes, time: Duration) -> anyhow::Result<()> {
        let until = now() + time;
        while now() < until {
            self.look(group, notes)?;
        }
        Ok(())
    }

    /// Waits a little, and notes who begins or ceases to lead.
    fn look(&self, group: &mut Group<'_>, notes: &mut Notes) -> anyhow::Result<()> {
        let signal = self.interrupted.load(Ordering::Relaxed);
        if signal != 0 {
            return Err(Interrupted(signal).into());
        }
        sleep(LOOK);
        let last = group.receiver.last_taken();
        let is_led = last.is_some_and(|write| now().saturating_sub(write.at) <= NOTICED);
        if is_led != notes.is_led {
            notes.is_led = is_led;
            notes.ledger.enter(now(), group.network.carried()?);
        }
        Ok(())
    }
}

/// Does it now, and tells what is to follow after how long.
fn one(group: &mut Group<'_>, act: Act) -> anyhow::Result<Option<(Duration, Act)>> {
    let leader = group.receiver.last_taken().map(|write| write.candidate);
    let number = |group: &mut Group<'_>, who| {
        Ok::<_, anyhow::Error>(match who {
            Target::Node(node) => group.of_place(node.0),
            Target::Leader => leader,
            Target::BestOther => group.best_but(leader)?,
            Target::Store => Some(STORE),
        })
    };
    match act {
        Act::Kill(who, back_after) => {
            if let Some(number) = number(group, who)? {
                group.kill(number);
                return Ok(back_after.map(|after| (after, Act::Start(number))));
            }
        }
        Act::Vanish(who) => {
            if let Some(number) = number(group, who)? {
                group.network.cut_off(&[number])?;
                group.kill(number);
            }
        }
        Act::Stop(who, back_after) => {
            if let Some(number) = number(group, who)? {
                group.stop(number)?;
                return Ok(back_after.map(|after| (after, Act::Start(number))));
            }
        }
        Act::Start(number) => group.start(number)?,
        Act::Freeze(who, time) => {
            if let Some(number) = number(group, who)? {
                group.freeze(number, true)?;
                return Ok(Some((time, Act::Thaw(number))));
            }
        }
        Act::Thaw(number) => group.freeze(number, false)?,
        Act::Cut(side) => {
            let mut numbers = Vec::new();
            for who in side {
                numbers.extend(number(group, who)?);
            }
            group.network.cut_off(&numbers)?;
        }
        Act::CutOneWay(from, to) => {
            if let (Some(from), Some(to)) = (number(group, from)?, number(group, to)?) {
                group.network.cut_one_way(from, to)?;
            }
        }
        Act::Slow(link) => group.network.slow(link)?,
        Act::Heal => group.network.heal()?,
    }
    Ok(None)
}
