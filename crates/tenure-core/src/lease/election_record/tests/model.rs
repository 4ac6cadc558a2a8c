//! Every order of events for two candidates and other programs that write the same record. Requests
//! are late, answers are lost, and candidates start anew. Weaker rules are parameters, and the model
//! finds two leaders with each of them.

extern crate std;

use alloc::string::ToString;

use stateright::{Checker, Model, Property};

use super::*;

/// The lease duration of all candidates but for one limit, in seconds.
const DURATION: u64 = 2;

/// The rule by which a candidate waits for the term of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The rules of this module.
    Marks,
    /// The holder alone decides, so an empty record is free.
    HolderOnly,
    /// A term runs while the record counts the same changes of the holder as its mark.
    Transitions,
    /// A term runs until the record was seen without its holder for a duration. Renewals do not
    /// change the mark.
    Absence,
    /// A missing mark counts as ended.
    MissingHasEnded,
    /// A missing mark counts as unchanged while the rest of the record changes.
    MissingIsUnchanged,
    /// The duration is that of the record, which other programs write, and not that of the mark.
    RecordDuration,
    /// A release does not look at the number of the mark.
    AnyMarkEnds,
    /// A leader counts from the answer, and not from before the request.
    CountFromAnswer,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    rule: Rule,
    durations: [u64; 2],
    /// The last second of the model.
    end: u64,
    /// The number of writes of candidates.
    writes: u32,
    /// Whether time passes between a look and the act on its answer, and whether requests that were
    /// given up arrive later.
    is_late: bool,
    /// The number of writes of other programs, and whether these remove marks, and put back a copy.
    strangers: u32,
    removes: bool,
    restores: bool,
    restarts: u32,
    deletions: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    record: Option<ElectionRecord>,
    version: u64,
    candidates: [Peer; 2],
    /// The copy of the record that another program has.
    copy: Option<ElectionRecord>,
    writes: u32,
    strangers: u32,
    restarts: u32,
    deletions: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Peer {
    observed: ObservedRecord,
    weak: Weak,
    /// The version and the record that the last answer showed, until the candidate acts on it.
    read: Option<(u64, Option<ElectionRecord>)>,
    term: Option<Term>,
    /// The request whose answer the candidate awaits, and one that it has given up.
    pending: Option<Write>,
    late: Option<Write>,
    /// The lease id of the campaign.
    campaign: u64,
}

/// What the weaker rules observe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Weak {
    last: Option<ElectionRecord>,
    mark_seen: u64,
    /// Since when the record has not shown the holder of its mark.
    absent_since: u64,
}

/// A term whose grant was acknowledged. It leads until its own clock ends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    version: u64,
    record: ElectionRecord,
    counted_from: u64,
    /// The task has ended.
    has_ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    expected: u64,
    record: ElectionRecord,
    sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A second passes.
    Tick,
    /// The candidate reads the record; it acts on the answer later.
    Look(usize),
    /// The candidate acts on the answer: it claims the record, or renews its term.
    Act(usize),
    /// The leader renews by the version of its last write.
    Renew(usize),
    /// The task of the leader ends, and it releases the record. Its clock may have ended the term.
    Release(usize),
    /// The request arrives, and its answer, too.
    Answer(usize),
    /// The request arrives, and its answer is lost.
    LoseAnswer(usize),
    /// The candidate gives up a request that is still under way.
    GiveUp(usize),
    /// A request that was given up arrives.
    Arrive(usize),
    /// The candidate's process starts anew.
    Restart(usize),
    /// Another program writes the record.
    Stranger(Stranger),
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    Empty,
    Take,
    Remove,
    Copy,
    Restore,
}

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn second(number: u64) -> Instant {
    Instant::default() + seconds(number)
}

impl State {
    fn leads(&self, index: usize, durations: &[u64; 2]) -> bool {
        let term = self.candidates[index].term.as_ref();
        term.is_some_and(|it| !it.has_ended && self.now < it.counted_from + durations[index])
    }

    fn apply(&mut self, write: &Write) -> bool {
        let applies = write.expected == self.version;
        if applies {
            self.version += 1;
            self.record = Some(write.record.clone());
        }
        applies
    }

    /// The next record is greater in each of its parts than all before, as the wall clock is.
    fn wall(&self) -> String {
        (self.version + 1).to_string()
    }
}

impl Weak {
    fn observe(&mut self, now: u64, record: &ElectionRecord) {
        let last = self.last.as_ref();
        if last.map(|it| &it.mark) != Some(&record.mark) {
            (self.mark_seen, self.absent_since) = (now, now);
        }
        if record
            .running()
            .is_some_and(|_| record.holding.holder.is_some())
        {
            self.absent_since = now;
        }
        self.last = Some(record.clone());
    }
}

impl Record {
    /// Returns whether the candidate may take the record that it has observed, by the weaker rule.
    fn may_take(&self, peer: &Peer, now: u64, duration: u64) -> bool {
        let Some((holding, mark, seen)) = &peer.observed.last else {
            return true;
        };
        let own = seconds(duration);
        if peer.observed.is_held_by_holder(second(now), own) {
            return false;
        }
        let passed = |since: u64| seconds(now - since);
        let longest = peer.observed.longest.max(own);
        let unmarked = second(now).since(*seen) >= longest;
        match (self.rule, mark) {
            (Rule::HolderOnly, _) | (Rule::MissingHasEnded, None) => true,
            (Rule::MissingIsUnchanged, None) => passed(peer.weak.mark_seen) >= longest,
            (_, None) => unmarked,
            (_, Some(mark)) if mark.has_ended => true,
            (Rule::Transitions, Some(mark)) if mark.transitions != holding.transitions => true,
            (Rule::Absence, Some(mark)) => passed(peer.weak.absent_since) >= mark.duration,
            (Rule::RecordDuration, Some(_)) => {
                passed(peer.weak.mark_seen) >= holding.duration.unwrap_or(own)
            }
            (_, Some(mark)) => passed(peer.weak.mark_seen) >= mark.duration,
        }
    }

    fn has_weak_claim(&self) -> bool {
        !matches!(
            self.rule,
            Rule::Marks | Rule::AnyMarkEnds | Rule::CountFromAnswer
        )
    }

    /// The candidate claims the record, or renews its term, by the answer to its look.
    fn act(&self, next: &mut State, index: usize) {
        let (now, wall) = (next.now, next.wall());
        let leads = next.leads(index, &self.durations);
        let peer = &mut next.candidates[index];
        let Some((expected, record)) = peer.read.take() else {
            return;
        };
        let duration = seconds(self.durations[index]);
        let renew = |record: &ElectionRecord, last: &TermMark| {
            let renewed = record.renewed(last, duration, &wall);
            renewed.map(|it| self.of_rule(it))
        };
        if let Some(term) = &mut peer.term {
            let renewed = record.as_ref().and_then(|it| renew(it, mark(&term.record)));
            match renewed {
                Some(record) if leads => {
                    peer.pending = Some(Write {
                        expected,
                        record,
                        sent: now,
                    });
                }
                Some(_) => {}
                None => peer.term = None,
            }
            return;
        }
        let lease_id = id(10 * index as u64 + peer.campaign);
        let claim = peer
            .observed
            .claim(second(now), record.as_ref(), lease_id, duration);
        if let Some(record) = &record {
            peer.weak.observe(now, record);
        }
        let takes = match self.has_weak_claim() {
            true => self.may_take(peer, now, self.durations[index]),
            false => claim == RecordClaim::Free,
        };
        let written = match claim {
            RecordClaim::Own(mark) => record.as_ref().and_then(|it| renew(it, &mark)),
            _ if takes => {
                let epoch = peer
                    .observed
                    .next_epoch(UnixMillis::new(expected + 1))
                    .unwrap();
                let by = (&name(["a", "b"][index]), lease_id);
                Some(ElectionRecord::granted(
                    record.as_ref(),
                    by,
                    epoch,
                    duration,
                    &wall,
                ))
            }
            _ => None,
        };
        peer.pending = written.map(|record| Write {
            expected,
            record,
            sent: now,
        });
    }

    /// The record that a renewal by this rule writes.
    fn of_rule(&self, mut record: ElectionRecord) -> ElectionRecord {
        if self.rule == Rule::Absence {
            record.mark.as_mut().unwrap().number = 0;
        }
        record
    }

    fn release(&self, next: &mut State, index: usize) {
        let (now, wall) = (next.now, next.wall());
        let peer = &mut next.candidates[index];
        let Some(term) = &mut peer.term else { return };
        term.has_ended = true;
        let mut last = mark(&term.record).clone();
        if self.rule == Rule::AnyMarkEnds {
            last.number = 0;
        }
        let (expected, record) = match peer.read.take() {
            Some((version, Some(record))) => (version, record),
            Some((_, None)) => return,
            None => (term.version, term.record.clone()),
        };
        let released = record.released(&last, &wall);
        peer.pending = released.map(|record| Write {
            expected,
            record,
            sent: now,
        });
        if peer.pending.is_none() {
            peer.term = None;
        }
    }

    /// The answer to the request arrives: it was applied, or refused.
    fn answer(&self, next: &mut State, index: usize, write: Write, applied: bool) {
        let now = next.now;
        let version = next.version;
        let peer = &mut next.candidates[index];
        let leads = mark(&write.record);
        match (applied, leads.has_ended) {
            // The next campaign has another lease id.
            (true, true) => {
                peer.term = None;
                peer.campaign += 1;
            }
            (true, false) => {
                let counted_from = match self.rule {
                    Rule::CountFromAnswer => now,
                    _ => write.sent,
                };
                peer.observed.observe(second(now), &write.record);
                peer.term = Some(Term {
                    version,
                    record: write.record,
                    counted_from,
                    has_ended: false,
                });
            }
            (false, _) => {}
        }
    }

    fn stranger(next: &mut State, stranger: Stranger) {
        let Some(record) = &mut next.record else {
            return;
        };
        match stranger {
            Stranger::Empty => {
                record.holding.holder = None;
                record.holding.duration = Some(seconds(1));
            }
            Stranger::Take => {
                record.holding.holder = Some("stranger".into());
                record.holding.duration = Some(seconds(1));
                record.holding.transitions += 1;
            }
            Stranger::Remove => (record.mark, record.epoch) = (None, None),
            Stranger::Restore => next.record = next.copy.take(),
            Stranger::Copy => {
                next.copy = next.record.clone();
                return;
            }
        }
        next.version += 1;
        next.strangers += 1;
    }
}

impl Model for Record {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        Vec::from([State {
            now: 0,
            record: None,
            version: 0,
            candidates: Default::default(),
            copy: None,
            writes: 0,
            strangers: 0,
            restarts: 0,
            deletions: 0,
        }])
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.end {
            actions.push(Action::Tick);
        }
        for (index, peer) in state.candidates.iter().enumerate() {
            if peer.pending.is_some() {
                actions.extend([Action::Answer(index), Action::LoseAnswer(index)]);
                if self.is_late {
                    actions.push(Action::GiveUp(index));
                }
            } else if state.writes < self.writes {
                actions.push(Action::Look(index));
                if peer.read.is_some() {
                    actions.push(Action::Act(index));
                }
                if state.leads(index, &self.durations) {
                    actions.push(Action::Renew(index));
                }
                if peer.term.is_some() {
                    actions.push(Action::Release(index));
                }
            }
            if peer.late.is_some() {
                actions.push(Action::Arrive(index));
            }
            if state.restarts < self.restarts {
                actions.push(Action::Restart(index));
            }
        }
        if state.strangers < self.strangers && state.record.is_some() {
            actions.extend([Stranger::Empty, Stranger::Take].map(Action::Stranger));
            if self.removes {
                actions.push(Action::Stranger(Stranger::Remove));
            }
            if self.restores {
                let has_copy = state.copy.is_some();
                let next = if has_copy {
                    Stranger::Restore
                } else {
                    Stranger::Copy
                };
                actions.push(Action::Stranger(next));
            }
        }
        if state.deletions < self.deletions && state.record.is_some() {
            actions.push(Action::Delete);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => next.now += 1,
            Action::Look(index) => {
                next.candidates[index].read = Some((next.version, next.record.clone()));
                // A leader may use the answer for a release, too.
                if !self.is_late && next.candidates[index].term.is_none() {
                    self.act(&mut next, index);
                }
            }
            Action::Act(index) => {
                self.act(&mut next, index);
            }
            Action::Renew(index) => {
                let (now, wall) = (next.now, next.wall());
                let peer = &mut next.candidates[index];
                let term = peer.term.as_ref()?;
                let duration = seconds(self.durations[index]);
                let record = term.record.renewed(mark(&term.record), duration, &wall)?;
                let (expected, record) = (term.version, self.of_rule(record));
                peer.pending = Some(Write {
                    expected,
                    record,
                    sent: now,
                });
                next.writes += 1;
            }
            Action::Release(index) => {
                self.release(&mut next, index);
                next.writes += 1;
            }
            Action::Answer(index) => {
                let write = next.candidates[index].pending.take()?;
                let applied = next.apply(&write);
                self.answer(&mut next, index, write, applied);
            }
            Action::LoseAnswer(index) => {
                let write = next.candidates[index].pending.take()?;
                next.apply(&write);
            }
            Action::GiveUp(index) => {
                let peer = &mut next.candidates[index];
                peer.late = peer.pending.take();
            }
            Action::Arrive(index) => {
                let write = next.candidates[index].late.take()?;
                next.apply(&write);
            }
            Action::Restart(index) => {
                next.restarts += 1;
                let peer = &mut next.candidates[index];
                let (late, campaign) =
                    (peer.pending.take().or(peer.late.take()), peer.campaign + 1);
                *peer = Peer {
                    late,
                    campaign,
                    ..Peer::default()
                };
            }
            Action::Stranger(stranger) => Self::stranger(&mut next, stranger),
            Action::Delete => {
                next.record = None;
                next.version += 1;
                next.deletions += 1;
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Vec::from([Property::always(
            "at most one candidate leads",
            |model: &Self, state: &State| {
                !(state.leads(0, &model.durations) && state.leads(1, &model.durations))
            },
        )])
    }
}

const ALONE: Record = Record {
    rule: Rule::Marks,
    durations: [DURATION; 2],
    end: 4,
    writes: 4,
    is_late: false,
    strangers: 0,
    removes: false,
    restores: false,
    restarts: 0,
    deletions: 0,
};

/// Returns the number of states, and the steps to two leaders if the model found them.
fn explored(model: Record) -> (usize, Option<Vec<Action>>) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discovery("at most one candidate leads");
    (
        checker.unique_state_count(),
        found.map(|path| path.into_actions()),
    )
}

#[test]
fn candidates_that_judge_a_record_never_hold_it_together_whatever_other_programs_write() {
    for model in [
        ALONE,
        Record {
            restarts: 1,
            writes: 3,
            ..ALONE
        },
        Record {
            strangers: 2,
            writes: 3,
            ..ALONE
        },
        Record {
            strangers: 1,
            removes: true,
            writes: 3,
            ..ALONE
        },
    ] {
        let (states, found) = explored(model);
        std::println!("{states} states: {model:?}");
        assert_eq!(found, None, "{model:?}");
    }
}

#[test]
fn two_candidates_lead_with_each_weaker_rule() {
    let one = Record {
        strangers: 1,
        ..ALONE
    };
    let removed = Record {
        removes: true,
        ..one
    };
    for model in [
        Record {
            rule: Rule::HolderOnly,
            ..one
        },
        Record {
            rule: Rule::Transitions,
            strangers: 2,
            ..ALONE
        },
        Record {
            rule: Rule::Absence,
            strangers: 3,
            ..ALONE
        },
        Record {
            rule: Rule::MissingHasEnded,
            ..removed
        },
        Record {
            rule: Rule::MissingIsUnchanged,
            ..removed
        },
        Record {
            rule: Rule::RecordDuration,
            ..one
        },
        Record {
            rule: Rule::AnyMarkEnds,
            restores: true,
            ..one
        },
        Record {
            rule: Rule::CountFromAnswer,
            ..ALONE
        },
    ] {
        let (states, found) = explored(model);
        std::println!("{states} states: {:?}: {found:?}", model.rule);
        assert!(found.is_some(), "{model:?}");
    }
}
