//! One run of one contestant in one scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tenure_lab::fault::Who;
use tenure_lab::measure::Figures;
use tenure_lab::scenario::Scenario;

use super::contestant::Contestant;
use super::figures::{NOTICED, figures};
use super::group::Group;
use super::processor;
use super::receiver::Receiver;
use super::script::{self, Act};
use crate::processes::{Interrupted, STORE, now};

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
    /// The signal that interrupted the comparison, or 0.
    pub(super) interrupted: Arc<AtomicI32>,
}

/// What one run comes to.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) figures: Figures,
    /// Messages and bytes on all links.
    pub(super) carried: (u64, u64),
    /// The same in a minute at rest.
    pub(super) carried_at_rest: (f64, f64),
    /// In per cent of one processor.
    pub(super) cpu_at_rest: Option<f64>,
    pub(super) took: Duration,
}

impl Stage {
    /// Plays it. Its processes are ended whatever happens, and counted.
    pub(super) fn play(
        &self,
        contestant: &Contestant,
        scenario: &Scenario,
        ended: &mut usize,
    ) -> anyhow::Result<Played> {
        let receiver = Receiver::start()?;
        let mut group = Group::new(contestant, self.candidates, receiver.address, ended)?;
        let begun = now();
        for number in 1..=self.candidates {
            self.look()?;
            group.start(number)?;
        }
        let patience = begun + contestant.worst_without_leader + START;
        while receiver.last_taken().is_none() && now() < patience {
            group.ensure_all_run()?;
            self.look()?;
        }
        let (cpu_at_rest, carried_at_rest) = self.rest(&group)?;
        let scale = script::scale(contestant.lease_duration);
        let acts = script::acts(scenario, scale).unwrap_or_default();
        if !acts.is_empty() {
            self.act(&mut group, &receiver, contestant, acts)?;
        }
        let ended_at = now();
        Ok(Played {
            figures: figures(&receiver.writes(), begun, ended_at),
            carried: group.network.carried(),
            carried_at_rest,
            cpu_at_rest,
            took: ended_at - begun,
        })
    }

    /// How much of the processor is used, and how much is sent in a minute, while nothing goes wrong.
    fn rest(&self, group: &Group<'_>) -> anyhow::Result<(Option<f64>, (f64, f64))> {
        self.wait(SETTLE)?;
        let (used, carried, since) = (processor::time(), group.network.carried(), now());
        self.wait(REST)?;
        let (later, by_then) = (processor::time(), group.network.carried());
        let secs = (now() - since).as_secs_f64();
        let used = used
            .zip(later)
            .and_then(|(used, later)| later.checked_sub(used));
        let cpu = used.map(|used| 100.0 * used.as_secs_f64() / secs);
        let per_minute = |from: u64, to: u64| (to - from) as f64 * 60.0 / secs;
        let messages = per_minute(carried.0, by_then.0);
        Ok((cpu, (messages, per_minute(carried.1, by_then.1))))
    }

    /// Does it all, and waits for as long as it may take until somebody leads again.
    fn act(
        &self,
        group: &mut Group<'_>,
        receiver: &Receiver,
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
            self.look()?;
            let at = now();
            let next = due.iter().position(|(when, _)| *when <= at);
            if let Some(next) = next {
                let (_, act) = due.remove(next);
                let later = one(group, receiver, act)?;
                due.extend(later.map(|(after, act)| (at + after, act)));
                last = at;
                continue;
            }
            let led = receiver.last_taken();
            let is_led = led.is_some_and(|write| at.saturating_sub(write.at) <= NOTICED);
            if due.is_empty() && at > last + worst && (is_led || at > last + 3 * worst) {
                return Ok(());
            }
        }
    }

    fn wait(&self, time: Duration) -> anyhow::Result<()> {
        let until = now() + time;
        while now() < until {
            self.look()?;
        }
        Ok(())
    }

    fn look(&self) -> anyhow::Result<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            0 => {
                sleep(LOOK);
                Ok(())
            }
            signal => Err(Interrupted(signal).into()),
        }
    }
}

/// Does it now, and tells what is to follow after how long.
fn one(
    group: &mut Group<'_>,
    receiver: &Receiver,
    act: Act,
) -> anyhow::Result<Option<(Duration, Act)>> {
    let leader = receiver.last_taken().map(|write| write.candidate);
    let number = |group: &mut Group<'_>, who| {
        Ok::<_, anyhow::Error>(match who {
            Who::Node(node) => Some(node.0),
            Who::Leader => leader,
            Who::BestOther => group.best_but(leader)?,
            Who::Store => Some(STORE),
        })
    };
    match act {
        Act::Kill(who, back_after) => {
            let Some(number) = number(group, who)? else {
                return Ok(None);
            };
            group.kill(number);
            return Ok(back_after.map(|after| (after, Act::Start(number))));
        }
        Act::Stop(who, back_after) => {
            let Some(number) = number(group, who)? else {
                return Ok(None);
            };
            group.stop(number)?;
            return Ok(back_after.map(|after| (after, Act::Start(number))));
        }
        Act::Start(number) => group.start(number)?,
        Act::Freeze(who, time) => {
            let Some(number) = number(group, who)? else {
                return Ok(None);
            };
            group.freeze(number, true)?;
            return Ok(Some((time, Act::Thaw(number))));
        }
        Act::Thaw(number) => group.freeze(number, false)?,
        Act::Cut(side) => {
            let mut numbers = Vec::new();
            for who in side {
                numbers.extend(number(group, who)?);
            }
            group.network.cut_off(numbers);
        }
        Act::Heal => group.network.heal(),
    }
    Ok(None)
}
