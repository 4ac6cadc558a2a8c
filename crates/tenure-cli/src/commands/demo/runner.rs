//! The steps of the demo.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use nix::sys::signal::Signal;
use serde_json::json;

use super::fleet::{DemoStrategy, ELECTION, Fleet, Worker};
use super::interrupt::Interrupt;
use super::measure;
use super::report::Report;
use super::work_log::{Work, WorkLog};

/// The time that a busy machine may add to a failover: the start of the new leader's task, and its
/// first write.
const SLACK: Duration = Duration::from_secs(1);

/// The time of a clean handover: the last write of the old leader, the release, the first write of
/// the new leader.
const HANDOVER: Duration = Duration::from_millis(200);

/// How often to read the work log.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// Runs the demo; returns whether all guarantees were kept.
pub(super) fn run(
    strategy: DemoStrategy,
    workers: u32,
    duration: Duration,
    json: bool,
) -> anyhow::Result<bool> {
    // Two failovers wait for an expiry; all must fit into the duration.
    let lease_duration = (duration / 10).min(Duration::from_secs(3));
    let interrupt = Interrupt::handle()?;
    let report = Report::new(json);
    let fleet = Fleet::start(strategy, workers, lease_duration)?;
    let work = WorkLog::open(&fleet.database())?;
    let worst = fleet.worst_without_leader()?;
    let (bound, handover_bound) = match strategy {
        DemoStrategy::Lease => (worst + SLACK, HANDOVER + SLACK),
        // Late votes and late releases do not count, so there may be a second election.
        DemoStrategy::Bully => (worst + SLACK * 2, worst + SLACK * 2),
    };
    let steps: [Step; 3] = [
        DemoRunner::kill_leader,
        DemoRunner::freeze_leader,
        DemoRunner::stop_leader,
    ];
    let mut runner = DemoRunner {
        fleet,
        work,
        report,
        lease_duration,
        bound,
        handover_bound,
        interrupt,
        failovers: Vec::new(),
        last_epoch: 0,
    };
    runner.start(workers)?;
    let mut begin = duration.mul_f64(0.15);
    for step in steps {
        runner.wait_until(begin)?;
        step(&mut runner)?;
        begin += duration.mul_f64(0.85 / steps.len() as f64);
    }
    runner.wait_until(duration)?;
    runner.finish()
}

/// A fault that the demo injects, and its observation.
type Step = fn(&mut DemoRunner) -> anyhow::Result<()>;

struct DemoRunner {
    fleet: Fleet,
    work: WorkLog,
    report: Report,
    lease_duration: Duration,
    /// The longest time without a leader after a leader that could not release its lease.
    bound: Duration,
    /// The longest time without a leader after a leader that was asked to stop.
    handover_bound: Duration,
    interrupt: Interrupt,
    failovers: Vec<Failover>,
    /// The epoch of the last leader that was reported.
    last_epoch: u64,
}

/// The end of one leader and the beginning of the next.
struct Failover {
    after: &'static str,
    without_leader: Duration,
    bound: Duration,
}

impl DemoRunner {
    fn start(&mut self, workers: u32) -> anyhow::Result<()> {
        let lease = self.lease_duration;
        let mut fields = json!({"workers": workers, "election": ELECTION,
            "lease_duration_ms": lease.as_millis(),
            "folder": self.fleet.folder.path().to_string_lossy()});
        let setup = match self.fleet.store_url() {
            Some(url) => {
                let setup = format!("a lease store at {url} and {workers} workers");
                fields["store"] = url.into();
                setup
            }
            None => format!("{workers} workers without a store"),
        };
        self.report.event(
            "started",
            fields,
            &format!(
                "{setup} compete in {ELECTION} (lease {lease:.1?}); the leader rolls up log files into a table"
            ),
        )?;
        let patience = self.lease_duration + Duration::from_secs(10);
        self.require("a first leader", patience, |work| work.accepted)?;
        Ok(())
    }

    fn kill_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        let old = leader.worker;
        let text = "is killed (SIGKILL): it can't release its lease, which must expire";
        self.report_fault("sigkill", old, text)?;
        self.fleet.signal(old.0, Signal::SIGKILL)?;
        self.await_failover(("sigkill", "the kill"), &leader, self.bound)?;
        self.fleet.start_worker(old)?;
        self.report_worker("restarted", old, "is restarted, and follows")
    }

    fn freeze_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.freeze_during_work()?;
        let old = leader.worker;
        let text =
            "is frozen (SIGSTOP) in the middle of its work, and still considers itself the leader";
        self.report_fault("sigstop", old, text)?;
        self.await_failover(("sigstop", "the freeze"), &leader, self.bound)?;
        self.wait_until(self.report.elapsed() + self.lease_duration / 4)?;

        let text = "continues (SIGCONT), and is about to write its result";
        self.report_fault("sigcont", old, text)?;
        self.fleet.signal(old.0, Signal::SIGCONT)?;
        let is_stale = |work: &Work| work.epoch == leader.epoch && !work.accepted;
        match self.await_work(Duration::from_secs(3), is_stale)? {
            Some(refused) => {
                let epoch = refused.epoch;
                self.report.event(
                    "refused",
                    json!({"worker": old.to_string(), "epoch": epoch}),
                    &format!("the table refused the write of {old}: epoch {epoch} is stale"),
                )
            }
            None => {
                let text = "noticed the end of its term, and wrote nothing";
                self.report_worker("stepped_down", old, text)
            }
        }
    }

    fn stop_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.leader()?;
        let old = leader.worker;
        let text = "is stopped (SIGTERM): it ends its task, then releases the lease";
        self.report_fault("sigterm", old, text)?;
        self.fleet.signal(old.0, Signal::SIGTERM)?;
        self.await_failover(("sigterm", "the stop"), &leader, self.handover_bound)?;
        self.fleet.wait_for_end(old.0)
    }

    /// Stops all processes, and reports the result of the table.
    fn finish(mut self) -> anyhow::Result<bool> {
        self.fleet.stop()?;
        self.work.read()?;
        let work = &self.work.all;
        let terms = measure::terms(work);
        let overlap = measure::overlap(&terms);
        let refused = measure::refused(work);
        let in_time = self
            .failovers
            .iter()
            .all(|failover| failover.without_leader <= failover.bound);
        let kept = in_time && overlap.is_zero() && measure::fence_held(work);
        let gap = |failover: &Failover| failover.without_leader.as_millis();
        let gaps: Vec<u128> = self.failovers.iter().map(gap).collect();
        let told = |failover: &Failover| format!("{} ms after {}", gap(failover), failover.after);
        let told: Vec<String> = self.failovers.iter().map(told).collect();
        let (terms, writes, overlap) = (terms.len(), work.len() - refused, overlap.as_millis());

        self.report.text_only("")?;
        self.report.event(
            "summary",
            json!({"terms": terms, "failovers_ms": gaps, "overlap_ms": overlap,
                   "refused_writes": refused, "writes": writes, "kept": kept}),
            &format!(
                "{terms} terms, {writes} writes; no leader for {}; overlap: {overlap} ms; stale writes refused: \
                 {refused}",
                told.join(", "),
            ),
        )?;
        if !kept {
            let text = "A guarantee was VIOLATED: see the figures above.";
            self.report.text_only(text)?;
        }
        Ok(kept)
    }

    fn report_fault(&self, kind: &str, worker: Worker, text: &str) -> anyhow::Result<()> {
        let fields = json!({"kind": kind, "worker": worker.to_string()});
        self.report
            .event("fault", fields, &format!("{worker} {text}"))
    }

    fn report_worker(&self, event: &str, worker: Worker, text: &str) -> anyhow::Result<()> {
        let fields = json!({"worker": worker.to_string()});
        self.report
            .event(event, fields, &format!("{worker} {text}"))
    }

    /// Waits for the leader after `old`, and reports how long there was no leader.
    fn await_failover(
        &mut self,
        (fault, after): (&str, &'static str),
        old: &Work,
        bound: Duration,
    ) -> anyhow::Result<()> {
        let patience = bound + 2 * self.lease_duration + Duration::from_secs(5);
        let next = self.require("the next leader", patience, |work| {
            work.accepted && work.epoch > old.epoch
        })?;
        let terms = measure::terms(&self.work.all);
        let old_term = terms.iter().find(|term| term.epoch == old.epoch);
        let last = old_term.context("the old leader wrote nothing")?.last;
        let without_leader = next.at.saturating_sub(last);
        let overlap = measure::overlap(&terms);
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
                "{} took over: no leader for {:.2} s (bound {:.1} s); {}",
                next.worker,
                without_leader.as_secs_f64(),
                bound.as_secs_f64(),
                if overlap.is_zero() {
                    "no overlap".into()
                } else {
                    format!("OVERLAP of {} ms", overlap.as_millis())
                },
            ),
        )
    }

    /// Freezes the leader between its check and its write: right after a write, because it begins
    /// the next work at once. The leader must not hold the lock of the table at that time; see
    /// [`WorkLog::is_unlocked`].
    fn freeze_during_work(&mut self) -> anyhow::Result<Work> {
        for _ in 0..20 {
            let known = self.work.all.len();
            let mut leader =
                self.require("a write", Duration::from_secs(5), |work| work.accepted)?;
            if let Some(newest) = self.work.all[known..].iter().rfind(|work| work.accepted) {
                leader = newest.clone();
            }
            std::thread::sleep(POLL_INTERVAL);
            self.fleet.signal(leader.worker.0, Signal::SIGSTOP)?;
            if self.work.is_unlocked() {
                return Ok(leader);
            }
            self.fleet.signal(leader.worker.0, Signal::SIGCONT)?;
        }
        bail!("the leader held the table's lock each time it was frozen")
    }

    /// The last accepted work.
    fn leader(&self) -> anyhow::Result<Work> {
        let accepted = self.work.all.iter().rfind(|work| work.accepted);
        Ok(accepted.context("there was no leader yet")?.clone())
    }

    fn wait_until(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        while self.report.elapsed() < elapsed {
            self.poll()?;
        }
        Ok(())
    }

    /// Waits for new work that is `wanted`, and fails if there is none in time.
    fn require(
        &mut self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&Work) -> bool,
    ) -> anyhow::Result<Work> {
        let found = self.await_work(patience, wanted)?;
        found.ok_or_else(|| anyhow!("timed out after {patience:?} waiting for {what}"))
    }

    /// Waits for new work that is `wanted`.
    fn await_work(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&Work) -> bool,
    ) -> anyhow::Result<Option<Work>> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            let known = self.work.all.len();
            self.poll()?;
            if let Some(found) = self.work.all[known..].iter().find(|work| wanted(work)) {
                return Ok(Some(found.clone()));
            }
        }
        Ok(None)
    }

    /// Writes log lines for the workers, reads new work, and reports a new leader.
    fn poll(&mut self) -> anyhow::Result<()> {
        self.interrupt.check()?;
        std::thread::sleep(POLL_INTERVAL);
        let tick = u64::try_from(self.report.elapsed().as_millis() / 20).unwrap_or_default();
        self.fleet.write_logs(tick)?;
        let newest = self
            .work
            .read()?
            .iter()
            .rfind(|work| work.accepted && work.epoch > self.last_epoch);
        if let Some(Work { worker, epoch, .. }) = newest {
            self.last_epoch = *epoch;
            self.report.event(
                "leader",
                json!({"worker": worker.to_string(), "epoch": epoch}),
                &format!("{worker} leads with epoch {epoch}"),
            )?;
        }
        Ok(())
    }
}
