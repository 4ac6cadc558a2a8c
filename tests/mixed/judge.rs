//! The judge of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tenure::Timings;
use tenure_tests::api_server::Version;
use tenure_tests::electors::Elector;
use tenure_tests::ticks::{Overlap, Term, overlaps};

/// The field manager of all changes by hand.
pub(crate) const BY_HAND: &str = "by-hand";

/// The beginning of the names of candidates that lead by another object on purpose.
pub(crate) const PLANTED: &str = "planted";

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    /// The seat of a candidate, or one of the next three.
    pub(crate) target: String,
    pub(crate) at: Duration,
    pub(crate) until: Duration,
}

/// The target of faults of the API server and of its etcd.
pub(crate) const SERVER: &str = "server";

/// The target of changes by hand.
pub(crate) const OBJECT: &str = "object";

/// A process that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) elector: Elector,
    /// Its place in the run, where another process follows it.
    pub(crate) seat: String,
    pub(crate) candidate: String,
    pub(crate) signal: Option<Sent>,
    /// Whether its status was 0.
    pub(crate) is_success: bool,
    pub(crate) stderr: String,
}

/// The signal by which a process was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Terminate,
    Kill,
}

/// All that is known of a run.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) timings: Timings,
    pub(crate) terms: Vec<Term>,
    pub(crate) versions: Vec<Version>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) processes: Vec<Ended>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<String>,
    /// Terms of tenure that were late beside another program, with the cause.
    pub(crate) late: Vec<String>,
    /// Others that were late: `WHO beside WHOM`, how often, and the longest time.
    others: BTreeMap<String, (u64, Duration)>,
    /// The ends of terms of tenure, by their reason.
    ends: BTreeMap<String, u64>,
    /// Ends that no fault explains.
    unexplained: Vec<String>,
    /// The terms of each program.
    terms: BTreeMap<&'static str, u64>,
    faults: BTreeMap<String, u64>,
    planted: u64,
}

/// How long a request may take on a busy machine, and a process may wait for a processor.
const BUSY: Duration = Duration::from_secs(1);

/// Followers, and leaders, look at the object this often in a renew interval, with a jitter of a tenth.
const POLLS: u32 = 5;

pub(crate) fn judge(record: &Record) -> Verdict {
    let mut verdict = Verdict::default();
    for fault in &record.faults {
        let what = match &*fault.target {
            SERVER => format!("{SERVER}: {}", fault.what),
            _ => fault.what.clone(),
        };
        *verdict.faults.entry(what).or_default() += 1;
    }
    for term in &record.terms {
        let name = record.process(&term.candidate).map(|it| it.elector.name());
        *verdict.terms.entry(name.unwrap_or(PLANTED)).or_default() += 1;
    }
    for overlap in overlaps(&record.terms) {
        verdict.add_overlap(record, &overlap);
    }
    if verdict.planted == 0 {
        verdict.violate("the planted overlap was not found".into());
    }
    verdict.check_epochs(record);
    for process in &record.processes {
        if process.elector == Elector::Tenure {
            verdict.check_process(record, process);
        }
    }
    verdict
}

impl Record {
    /// The process of this candidate; `None` for a planted one.
    fn process(&self, candidate: &str) -> Option<&Ended> {
        self.processes.iter().find(|it| it.candidate == candidate)
    }

    fn is_ours(&self, candidate: &str) -> bool {
        self.process(candidate)
            .is_none_or(|it| it.elector == Elector::Tenure)
    }

    /// The faults of the way between this seat and the object, in this time.
    fn faults_of(
        &self,
        seat: &str,
        from: Duration,
        until: Duration,
    ) -> impl Iterator<Item = &Fault> {
        let faults = self.faults.iter();
        faults.filter(move |it| {
            (it.target == seat || it.target == SERVER) && it.at < until && it.until > from
        })
    }
}

impl Verdict {
    fn violate(&mut self, what: String) {
        self.violations.push(what);
    }

    fn add_overlap(&mut self, record: &Record, overlap: &Overlap) {
        let (late, next) = (&overlap.late, &overlap.next);
        if late.candidate.starts_with(PLANTED) || next.candidate.starts_with(PLANTED) {
            self.planted += 1;
            return;
        }
        let text = format!(
            "{} late by {:?} beside {}, at {:?}",
            late.candidate,
            overlap.by(),
            next.candidate,
            overlap.at()
        );
        match (
            record.is_ours(&late.candidate),
            record.is_ours(&next.candidate),
        ) {
            (true, true) => self.violate(format!("two of tenure led at once: {text}")),
            (true, false) => match cause(record, overlap) {
                Ok(cause) => self.late.push(format!("{text}: {cause}")),
                Err(why) => self.violate(format!("{text}: {why}")),
            },
            (false, _) => {
                let name = |of: &Term| record.process(&of.candidate).map(|it| it.elector.name());
                let who = [late, next].map(|it| name(it).unwrap_or_default());
                let entry = self.others.entry(who.join(" beside ")).or_default();
                *entry = (entry.0 + 1, entry.1.max(overlap.by()));
            }
        }
    }

    fn check_epochs(&mut self, record: &Record) {
        let ours = record.terms.iter().filter(|it| it.epoch > 0);
        let ours = ours.filter(|it| !it.candidate.starts_with(PLANTED));
        let ours: Vec<&Term> = ours.collect();
        for pair in ours.windows(2) {
            if pair[0].epoch >= pair[1].epoch {
                let [one, next] = [pair[0], pair[1]].map(|it| (&it.candidate, it.epoch));
                self.violate(format!("epochs do not increase: {one:?}, then {next:?}"));
            }
        }
        // The marks of the object, without those that were written by hand.
        let mut last: Option<(u64, &str)> = None;
        for index in (0..record.versions.len()).filter(|it| is_of_tenure(&record.versions, *it)) {
            let parts: Vec<&str> = record.versions[index].mark().splitn(8, '/').collect();
            let [_, epoch, _, _, _, _, lease_id, _] = parts[..] else {
                continue;
            };
            let Ok(epoch) = epoch.parse::<u64>() else {
                continue;
            };
            if let Some((before, of)) = last
                && (epoch < before || epoch == before && lease_id != of)
            {
                self.violate(format!(
                    "the epoch in the object was {before}, then {epoch}"
                ));
            }
            last = Some((epoch, lease_id));
        }
    }

    /// Checks that each term of a process has an end with a reason, and the end of the process.
    fn check_process(&mut self, record: &Record, process: &Ended) {
        let lines = process.stderr.lines();
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (mut running, mut known) = (BTreeSet::new(), BTreeSet::new());
        for line in lines {
            let epoch = line["epoch"].as_u64().unwrap_or_default();
            match line["message"].as_str() {
                Some("leadership gained") => {
                    running.insert(epoch);
                    known.insert(epoch);
                }
                Some("leadership lost") => {
                    running.remove(&epoch);
                    let reason = line["reason"].as_str().unwrap_or_default();
                    *self.ends.entry(reason.into()).or_default() += 1;
                    if let Err(why) = self.explain(record, process, epoch, reason) {
                        let candidate = &process.candidate;
                        self.violate(format!("{candidate} ended {epoch} as {reason:?}: {why}"));
                    }
                }
                _ => {}
            }
        }
        let candidate = &process.candidate;
        match process.signal {
            Some(Sent::Kill) if running.is_empty() => {}
            Some(Sent::Kill) => {
                let killed = u64::try_from(running.len()).unwrap_or_default();
                *self.ends.entry("killed".into()).or_default() += killed;
            }
            _ if !running.is_empty() => {
                self.violate(format!("the terms {running:?} of {candidate} have no end"));
            }
            None => {
                let last = process.stderr.lines().last().unwrap_or_default();
                self.violate(format!("{candidate} ended by itself: {last}"));
            }
            Some(Sent::Terminate) if !process.is_success => {
                self.violate(format!("{candidate} ended with an error after SIGTERM"));
            }
            Some(Sent::Terminate) => {}
        }
        let acted = record.terms.iter().filter(|it| it.candidate == *candidate);
        let acted = acted.filter(|it| !known.contains(&it.epoch));
        for term in acted.map(|it| it.epoch).collect::<Vec<_>>() {
            self.violate(format!("{candidate} acted in {term} without leadership"));
        }
    }

    /// Whether the reason is one that a run can have.
    fn explain(
        &mut self,
        record: &Record,
        process: &Ended,
        epoch: u64,
        reason: &str,
    ) -> Result<(), String> {
        let term = record.terms.iter();
        let term = term
            .clone()
            .find(|it| it.candidate == process.candidate && it.epoch == epoch);
        // A term without a tick was too short to tell its time.
        let Some(term) = term else {
            return Ok(());
        };
        let lease = record.timings.lease_duration();
        let (from, until) = (term.last.saturating_sub(2 * lease), term.last + lease);
        let by_fault = || record.faults_of(&process.seat, from, until).count() > 0;
        let by_hand = || {
            let mut faults = record.faults.iter().filter(|it| it.target == OBJECT);
            faults.any(|it| it.at < until && it.until > from)
        };
        match reason {
            "shut_down" if process.signal != Some(Sent::Terminate) => {
                Err("it was not terminated".into())
            }
            "shut_down" => Ok(()),
            "superseded" => {
                let mut versions = record.versions.iter();
                let other = versions.any(|it| {
                    it.at > term.first && !it.holder().is_empty() && it.holder() != term.candidate
                });
                (other || by_hand())
                    .then_some(())
                    .ok_or_else(|| "nobody else held the object".into())
            }
            "renew_deadline" | "suspended" => {
                if !by_fault() && !by_hand() {
                    let candidate = &term.candidate;
                    let what = format!("{candidate} ended {epoch} as {reason}");
                    self.unexplained.push(what);
                }
                Ok(())
            }
            _ => Err("a run has no such end".into()),
        }
    }
}

/// Whether a candidate of tenure wrote this version.
fn is_of_tenure(versions: &[Version], index: usize) -> bool {
    let before = index.checked_sub(1).map(|it| &versions[it]);
    versions[index].is_of_tenure(before)
}

/// The cause of a term of tenure that was late beside another program.
fn cause(record: &Record, overlap: &Overlap) -> Result<String, String> {
    let (late, next) = (&overlap.late, &overlap.next);
    let taken = record
        .versions
        .iter()
        .position(|it| it.holder() == next.candidate);
    let before = taken.and_then(|it| it.checked_sub(1));
    let Some(before) = before.map(|it| &record.versions[..=it]) else {
        return Err("no version shows how the other program became the holder".into());
    };
    let last = before.len() - 1;
    let emptied = &before[last];
    if is_of_tenure(before, last) {
        let holder = emptied.holder();
        return Err(format!(
            "the other program took what tenure wrote, with the holder {holder:?}"
        ));
    }
    let ours = (0..last).rev().filter(|it| is_of_tenure(before, *it));
    let mut ours = ours.map(|it| &before[it]);
    let written = ours.find(|it| it.holder() == late.candidate);
    let Some(written) = written else {
        return Err("it never held the object".into());
    };
    let timings = &record.timings;
    let seat = record.process(&late.candidate).map_or("", |it| &it.seat);
    let faults = record.faults_of(seat, written.at, late.last);
    let faults: Vec<&str> = faults.map(|it| &*it.what).collect();
    let poll = timings.renew_interval() * 11 / (10 * POLLS);
    let (limit, why) = if faults.is_empty() {
        (poll + timings.abort_allowance() + BUSY, "a poll".to_owned())
    } else {
        let hard_stop = written.at + timings.hard_stop() + timings.abort_allowance() + BUSY;
        let limit = hard_stop.saturating_sub(next.first);
        (
            limit,
            format!("its hard stop, during {}", faults.join(", ")),
        )
    };
    // Several programs can write in the second that the server notes, so the changes by hand tell more.
    let by_hand = record.faults.iter().filter(|it| it.target == OBJECT);
    let mut by_hand = by_hand.filter(|it| it.at.abs_diff(emptied.at) < BUSY);
    let writer = match by_hand.next() {
        Some(fault) => format!("{BY_HAND} ({})", fault.what),
        None => emptied.writer().to_owned(),
    };
    let holder = emptied.holder();
    let cause = format!("{writer} wrote the holder {holder:?}; the limit is {limit:?}, {why}");
    if overlap.by() > limit {
        return Err(cause);
    }
    Ok(cause)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "terms {:?}", self.terms)?;
        writeln!(f, "faults {:?}", self.faults)?;
        writeln!(f, "ends of tenure {:?}", self.ends)?;
        for (who, (count, longest)) in &self.others {
            writeln!(f, "late {who}: {count} times, at most {longest:?}")?;
        }
        for end in &self.unexplained {
            writeln!(f, "no fault explains: {end}")?;
        }
        for late in &self.late {
            writeln!(f, "late with a cause: {late}")?;
        }
        writeln!(f, "the planted overlap was found {} times", self.planted)?;
        for violation in &self.violations {
            writeln!(f, "VIOLATION {violation}")?;
        }
        writeln!(f, "{} violations", self.violations.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    const S: Duration = Duration::from_secs(1);

    fn term(candidate: &str, epoch: u64, first: u32, last: u32) -> Term {
        Term {
            candidate: candidate.into(),
            epoch,
            first: S * first,
            last: S * last,
        }
    }

    fn process(elector: Elector, candidate: &str, stderr: &[(&str, u64, &str)]) -> Ended {
        let line = |(message, epoch, reason): &(&str, u64, &str)| {
            json!({ "message": message, "epoch": epoch, "reason": reason }).to_string()
        };
        Ended {
            elector,
            seat: candidate.split('-').next().unwrap().into(),
            candidate: candidate.into(),
            signal: Some(Sent::Terminate),
            is_success: true,
            stderr: stderr.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }

    fn version(at: u32, writer: &str, holder: &str, mark: &str) -> Version {
        let object = json!({
            "metadata": {
                "annotations": { "tenure/term": mark },
                "managedFields": [{ "manager": writer, "time": "2026-01-01T00:00:01Z" },
                    { "manager": "older", "time": "2026-01-01T00:00:00Z" }],
            },
            "spec": { "holderIdentity": holder },
        });
        Version { at: S * at, object }
    }

    fn mark(state: &str, epoch: u64, lease_id: &str) -> String {
        format!("{state}/{epoch}/1/0/15/0/{lease_id}/x")
    }

    /// Two terms of tenure, one of another program, and a planted overlap.
    fn record() -> Record {
        let (one, two) = (mark("running", 5, "i"), mark("running", 9, "j"));
        Record {
            timings: Timings::default(),
            terms: vec![
                term("a-1", 5, 10, 20),
                term("planted", 3, 12, 13),
                term("go-1", 0, 21, 30),
                term("b-1", 9, 31, 40),
            ],
            versions: vec![
                version(10, "tenure", "a-1", &one),
                version(20, "tenure", "", &mark("ended", 5, "i")),
                version(21, "go", "go-1", &mark("ended", 5, "i")),
                version(30, "go", "", &mark("ended", 5, "i")),
                version(31, "tenure", "b-1", &two),
            ],
            faults: Vec::new(),
            processes: vec![
                process(
                    Elector::Tenure,
                    "a-1",
                    &[
                        ("leadership gained", 5, ""),
                        ("leadership lost", 5, "shut_down"),
                    ],
                ),
                process(Elector::ReleasingClientGo, "go-1", &[]),
                process(
                    Elector::Tenure,
                    "b-1",
                    &[
                        ("leadership gained", 9, ""),
                        ("leadership lost", 9, "shut_down"),
                    ],
                ),
            ],
        }
    }

    fn violation(change: impl FnOnce(&mut Record)) -> String {
        let mut record = record();
        change(&mut record);
        judge(&record).violations.join("\n")
    }

    #[test]
    fn a_run_in_order_has_no_violation_and_its_planted_overlap_is_found() {
        let verdict = judge(&record());
        assert_eq!(verdict.violations, [""; 0], "{verdict}");
        assert_eq!(verdict.planted, 1);
        let without = violation(|it| it.terms.retain(|it| it.candidate != PLANTED));
        assert!(
            without.contains("planted overlap was not found"),
            "{without}"
        );
    }

    #[test]
    fn two_of_tenure_at_once_are_found() {
        let found = violation(|it| it.terms[0].last = S * 32);
        assert!(
            found.contains("two of tenure led at once: a-1 late by 1s"),
            "{found}"
        );
    }

    #[test]
    fn a_term_that_is_late_beside_another_program_needs_a_cause_and_has_a_limit() {
        let late_by_hand = |last: u32, fault: bool| {
            let mut record = record();
            record.terms[0].last = S * last;
            record.versions[1] = version(20, BY_HAND, "", &mark("running", 5, "i"));
            if fault {
                record.faults.push(Fault {
                    what: "cut".into(),
                    target: "a".into(),
                    at: S * 15,
                    until: S * 25,
                });
            }
            judge(&record)
        };
        let listed = late_by_hand(23, false);
        assert_eq!(listed.violations, [""; 0]);
        assert!(
            listed.late[0].contains("by-hand wrote the holder \"\""),
            "{listed}"
        );
        assert!(late_by_hand(24, false).violations[0].contains("a poll"));
        // The last renewal was at 10 s, and the hard stop is 14 s later.
        assert_eq!(late_by_hand(25, true).violations, [""; 0]);
        assert!(late_by_hand(26, true).violations[0].contains("its hard stop, during cut"));
        let released = violation(|it| it.terms[0].last = S * 22);
        assert!(released.contains("took what tenure wrote"), "{released}");
    }

    #[test]
    fn epochs_that_repeat_or_go_back_are_found() {
        let acted = violation(|it| it.terms[3].epoch = 5);
        assert!(acted.contains("epochs do not increase"), "{acted}");
        let written = |epoch, lease_id| {
            violation(|it| {
                it.versions[4] = version(31, "tenure", "b-1", &mark("running", epoch, lease_id))
            })
        };
        assert!(written(4, "j").contains("was 5, then 4"));
        assert!(written(5, "j").contains("was 5, then 5"));
        assert_eq!(written(5, "i"), "");
    }

    #[test]
    fn every_term_needs_an_end_with_a_reason_and_every_process_an_end_without_an_error() {
        let ends = |reason: &str| {
            let lost = ("leadership lost", 5, reason);
            violation(|it| {
                it.processes[0] = process(
                    Elector::Tenure,
                    "a-1",
                    &[("leadership gained", 5, ""), lost],
                );
            })
        };
        assert_eq!(ends("superseded"), "");
        assert!(ends("task_failed").contains("a run has no such end"));
        assert!(ends("").contains("a run has no such end"));
        let none = violation(|it| {
            it.processes[0] = process(Elector::Tenure, "a-1", &[("leadership gained", 5, "")]);
        });
        assert!(none.contains("have no end"), "{none}");
        let alone = violation(|it| it.processes[0].signal = None);
        assert!(alone.contains("ended by itself") && alone.contains("it was not terminated"));
        let failed = violation(|it| it.processes[0].is_success = false);
        assert!(failed.contains("with an error after SIGTERM"), "{failed}");
        let without = violation(|it| it.terms[0].epoch = 4);
        assert!(
            without.contains("acted in 4 without leadership"),
            "{without}"
        );
        let unseen = violation(|it| {
            it.processes[0] = process(
                Elector::Tenure,
                "a-1",
                &[
                    ("leadership gained", 5, ""),
                    ("leadership lost", 5, "superseded"),
                ],
            );
            it.versions.truncate(1);
        });
        assert!(unseen.contains("nobody else held the object"), "{unseen}");
    }
}
