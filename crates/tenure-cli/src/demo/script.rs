//! What happens in the demo, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use serde_json::json;

use super::fleet::{ELECTION, Fleet, Way, Worker};
use super::measure;
use super::passes::{Pass, Passes};
use super::report::Report;
use crate::cli::{Demo, DemoStrategy};
use crate::processes::{Interrupted, Second, notice};

/// What a machine that is busy with other things may add to a failover: starting the new leader's
/// task, and its first pass.
const SLACK: Duration = Duration::from_secs(1);

/// How long a clean hand-over may take: the old leader's last pass, the release, the new one's
/// first pass; and the same slack.
const HANDOVER: Duration = Duration::from_millis(200);

/// How often to look at the table.
const LOOK: Duration = Duration::from_millis(4);

/// Plays the demo; tells whether all that was promised was kept.
pub(super) fn play(arguments: &Demo) -> anyhow::Result<bool> {
    let seconds = Duration::from_secs(arguments.seconds);
    // The failovers that wait for an expiry fit into the time with room to look around.
    let lease_duration = (seconds / 10).min(Duration::from_secs(3));
    let (workers, slack, acts): (_, _, &[Act]) = match arguments.strategy {
        DemoStrategy::Lease => (
            arguments.workers.unwrap_or(3),
            SLACK,
            &[
                Stage::kill_the_leader,
                Stage::freeze_the_leader,
                Stage::stop_the_leader,
            ],
        ),
        DemoStrategy::Bully => (
            arguments.workers.unwrap_or(5),
            // Votes that are late count for nothing, so it may take another election.
            SLACK * 2,
            &[
                Stage::kill_the_leader,
                Stage::freeze_the_leader,
                Stage::cut_the_leader_off,
                Stage::stop_the_leader,
            ],
        ),
    };
    let interrupted = notice(Second::EndsAtOnce)?;
    let report = Report::new(arguments.json);
    let fleet = Fleet::start(arguments.strategy, workers, lease_duration)?;
    let passes = Passes::open(&fleet.database())?;
    let bound = fleet.worst_without_leader()? + slack;
    let mut stage = Stage {
        bound,
        handover: match arguments.strategy {
            DemoStrategy::Lease => HANDOVER + SLACK,
            // A release that is late counts for nothing either.
            DemoStrategy::Bully => bound,
        },
        fleet,
        passes,
        report,
        lease_duration,
        interrupted,
        failovers: Vec::new(),
        told: 0,
    };

    stage.open(workers)?;
    let mut begin = seconds.mul_f64(0.15);
    for act in acts {
        stage.idle_until(begin)?;
        act(&mut stage)?;
        begin += seconds.mul_f64(0.85 / acts.len() as f64);
    }
    stage.idle_until(seconds)?;
    stage.close()
}

/// Something that is done to the leader.
type Act = fn(&mut Stage) -> anyhow::Result<()>;

struct Stage {
    fleet: Fleet,
    passes: Passes,
    report: Report,
    lease_duration: Duration,
    /// How long nobody may lead after one that could not say good-bye.
    bound: Duration,
    /// And after one that was told to stop.
    handover: Duration,
    /// The signal that interrupted the demo, or 0.
    interrupted: Arc<AtomicI32>,
    failovers: Vec<Failover>,
    /// The epoch of the last leader that was told of.
    told: u64,
}

/// One leader's end, and the next one's beginning.
struct Failover {
    /// What was done to the old one.
    after: &'static str,
    without_leader: Duration,
    bound: Duration,
}

impl Stage {
    fn open(&mut self, workers: u32) -> anyhow::Result<()> {
        let lease = self.lease_duration;
        let mut fields = json!({"workers": workers, "election": ELECTION,
            "lease_duration_ms": lease.as_millis(),
            "folder": self.fleet.folder().to_string_lossy()});
        let who = match self.fleet.way() {
            Way::Store(_, address) => {
                fields["store"] = format!("http://{address}").into();
                format!("a lease store at http://{address} and {workers} workers compete for")
            }
            Way::Peers(_) => {
                format!("{workers} workers without a store elect among themselves for")
            }
        };
        self.report.event(
            "started",
            fields,
            &format!(
                "{who} {ELECTION} (lease {lease:.1?}); whoever leads rolls up log files into a table"
            ),
        )?;
        let patience = Instant::now() + self.lease_duration + Duration::from_secs(10);
        self.until("a first leader", patience, |pass| pass.accepted)?;
        Ok(())
    }

    fn kill_the_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        let old = leader.worker;
        self.fault(
            "sigkill",
            old,
            "is killed (SIGKILL): it can't say good-bye, so its lease must expire",
        )?;
        self.fleet.signal(old, Signal::SIGKILL)?;
        self.failover(("sigkill", "the kill"), &leader, self.bound)?;
        self.fleet.start_worker(old)?;
        self.tell("restarted", old, "is started again, and follows")
    }

    fn freeze_the_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.freeze_in_mid_pass()?;
        let old = leader.worker;
        self.fault(
            "sigstop",
            old,
            "is frozen (SIGSTOP) in the middle of a pass, and still believes that it leads",
        )?;
        self.failover(("sigstop", "the freeze"), &leader, self.bound)?;
        self.idle_until(self.report.elapsed() + self.lease_duration / 4)?;

        self.fault(
            "sigcont",
            old,
            "goes on (SIGCONT), and its pass wants to be written",
        )?;
        self.fleet.signal(old, Signal::SIGCONT)?;
        let patience = Instant::now() + Duration::from_secs(3);
        let stale = |pass: &Pass| pass.epoch == leader.epoch && !pass.accepted;
        match self.until("the stale write", patience, stale) {
            Ok(refused) => self.report.event(
                "refused",
                json!({"worker": old.to_string(), "epoch": refused.epoch}),
                &format!(
                    "{old}'s write was refused by its old epoch {}",
                    refused.epoch
                ),
            ),
            Err(Waiting::InVain(_)) => self.tell(
                "stepped_down",
                old,
                "noticed that its term had passed, and wrote nothing",
            ),
            Err(Waiting::Failed(error)) => Err(error),
        }
    }

    /// Parts the leader, and as many as are no majority with it, from the others.
    fn cut_the_leader_off(&mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        let old = leader.worker;
        let Way::Peers(network) = self.fleet.way() else {
            bail!("there is no network between the workers to cut");
        };
        let all: Vec<Worker> = self.fleet.workers().collect();
        let others = all.iter().copied().filter(|&worker| worker != old);
        let with_it = others.take((all.len() - 1) / 2 - 1);
        let some: Vec<Worker> = std::iter::once(old).chain(with_it).collect();
        let numbers: Vec<u32> = some.iter().map(|worker| worker.0).collect();
        network.cut_off(&numbers)?;
        let text = format!(
            "is cut off from the majority: {} of {} workers are on its side",
            some.len(),
            all.len()
        );
        self.fault("cut", old, &text)?;
        self.failover(("cut", "the cut"), &leader, self.bound)?;
        self.idle_until(self.report.elapsed() + self.lease_duration / 4)?;
        if let Way::Peers(network) = self.fleet.way() {
            network.heal()?;
        }
        self.tell("healed", old, "is reached again, and follows")
    }

    fn stop_the_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        let old = leader.worker;
        self.fault(
            "sigterm",
            old,
            "is stopped (SIGTERM): it ends its task, then releases the lease",
        )?;
        self.fleet.signal(old, Signal::SIGTERM)?;
        self.failover(("sigterm", "the stop"), &leader, self.handover)?;
        self.fleet.wait_for_end(old)
    }

    /// Stops everything, and says what the table proves.
    fn close(mut self) -> anyhow::Result<bool> {
        self.fleet.stop()?;
        self.passes.read()?;
        let passes = &self.passes.all;
        let reigns = measure::reigns(passes);
        let overlap = measure::overlap(&reigns);
        let refused = measure::refused(passes);
        let in_time = self
            .failovers
            .iter()
            .all(|failover| failover.without_leader <= failover.bound);
        let kept = in_time && overlap.is_zero() && measure::fence_held(passes);
        let failovers: Vec<u128> = self
            .failovers
            .iter()
            .map(|failover| failover.without_leader.as_millis())
            .collect();
        let gap = |failover: &Failover| {
            let gap = failover.without_leader.as_millis();
            format!("{gap} ms after {}", failover.after)
        };
        let gaps: Vec<String> = self.failovers.iter().map(gap).collect();

        self.report.say("")?;
        self.report.event(
            "summary",
            json!({"terms": reigns.len(), "failovers_ms": failovers,
                   "overlap_ms": overlap.as_millis(), "refused_writes": refused,
                   "writes": passes.len() - refused, "kept": kept}),
            &format!(
                "{} terms, {} writes; without a leader for {}; two leaders at once for {} ms; stale \
                 writes refused: {refused}",
                reigns.len(),
                passes.len() - refused,
                gaps.join(", "),
                overlap.as_millis(),
            ),
        )?;
        if !kept {
            self.report
                .say("A promise was NOT kept: see the figures above.")?;
        }
        Ok(kept)
    }

    fn fault(&self, kind: &str, worker: Worker, text: &str) -> anyhow::Result<()> {
        let fields = json!({"kind": kind, "worker": worker.to_string()});
        self.report
            .event("fault", fields, &format!("{worker} {text}"))
    }

    fn tell(&self, event: &str, worker: Worker, text: &str) -> anyhow::Result<()> {
        let fields = json!({"worker": worker.to_string()});
        self.report
            .event(event, fields, &format!("{worker} {text}"))
    }

    /// Waits for the next leader after `old`'s reign and tells how long nobody led.
    fn failover(
        &mut self,
        (fault, after): (&str, &'static str),
        old: &Pass,
        bound: Duration,
    ) -> anyhow::Result<()> {
        let patience = Instant::now() + bound + 2 * self.lease_duration + Duration::from_secs(5);
        let next = self.until("the next leader", patience, |pass| {
            pass.accepted && pass.epoch > old.epoch
        })?;
        let reigns = measure::reigns(&self.passes.all);
        let last = reigns
            .iter()
            .find(|reign| reign.epoch == old.epoch)
            .context("no old reign")?
            .last;
        let without_leader = next.at.saturating_sub(last);
        let overlap = measure::overlap(&reigns);
        self.failovers.push(Failover {
            after,
            without_leader,
            bound,
        });
        self.report.event(
            "failover",
            json!({"fault": fault, "from": old.worker.to_string(),
                   "to": next.worker.to_string(), "epoch": next.epoch,
                   "without_leader_ms": without_leader.as_millis(), "bound_ms": bound.as_millis(),
                   "overlap_ms": overlap.as_millis()}),
            &format!(
                "{} took over: nobody led for {:.2} s (bound {:.1} s), {}",
                next.worker,
                without_leader.as_secs_f64(),
                bound.as_secs_f64(),
                if overlap.is_zero() {
                    "two never acted"
                } else {
                    "TWO ACTED"
                },
            ),
        )
    }

    /// Freezes the leader between its check and its write: right after a pass, because it begins
    /// the next one at once. Not while it has the table locked; see [`Passes::is_unlocked`].
    fn freeze_in_mid_pass(&mut self) -> anyhow::Result<Pass> {
        for _ in 0..20 {
            let known = self.passes.all.len();
            let patience = Instant::now() + Duration::from_secs(5);
            let mut leader = self.until("a pass", patience, |pass| pass.accepted)?;
            if let Some(newest) = self.passes.all[known..].iter().rfind(|pass| pass.accepted) {
                leader = newest.clone();
            }
            std::thread::sleep(LOOK);
            self.fleet.signal(leader.worker, Signal::SIGSTOP)?;
            if self.passes.is_unlocked() {
                return Ok(leader);
            }
            self.fleet.signal(leader.worker, Signal::SIGCONT)?;
        }
        bail!("the leader held the table's lock each time it was frozen")
    }

    /// The last pass that was accepted.
    fn leader(&self) -> anyhow::Result<Pass> {
        let accepted = self.passes.all.iter().rfind(|pass| pass.accepted);
        Ok(accepted.context("nobody has led yet")?.clone())
    }

    fn idle_until(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        while self.report.elapsed() < elapsed {
            self.look()?;
        }
        Ok(())
    }

    /// Waits for a new pass of which `wanted` holds.
    fn until(
        &mut self,
        what: &'static str,
        patience: Instant,
        wanted: impl Fn(&Pass) -> bool,
    ) -> Result<Pass, Waiting> {
        while Instant::now() < patience {
            let known = self.passes.all.len();
            self.look()?;
            if let Some(found) = self.passes.all[known..].iter().find(|pass| wanted(pass)) {
                return Ok(found.clone());
            }
        }
        Err(Waiting::InVain(what))
    }

    /// Writes some log lines, reads the new passes, and tells of a new leader.
    fn look(&mut self) -> anyhow::Result<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            0 => {}
            signal => return Err(Interrupted(signal).into()),
        }
        std::thread::sleep(LOOK);
        let tick = u64::try_from(self.report.elapsed().as_millis() / 20).unwrap_or_default();
        self.fleet.write_logs(tick)?;
        let passes = self.passes.read()?;
        let newest = passes
            .iter()
            .rfind(|pass| pass.accepted && pass.epoch > self.told)
            .cloned();
        if let Some(pass) = newest {
            self.told = pass.epoch;
            self.report.event(
                "leader",
                json!({"worker": pass.worker.to_string(), "epoch": pass.epoch}),
                &format!("{} leads with epoch {}", pass.worker, pass.epoch),
            )?;
        }
        Ok(())
    }
}

/// Why waiting has ended without what was waited for.
enum Waiting {
    InVain(&'static str),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Waiting {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Waiting> for anyhow::Error {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::InVain(what) => Self::msg(format!("waited for {what} in vain")),
            Waiting::Failed(error) => error,
        }
    }
}
