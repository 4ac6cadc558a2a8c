//! Every order of events for two candidates and other programs that write the same record. Requests
//! are late, answers are lost, and candidates start anew. Weaker rules are parameters, and the model
//! finds two leaders with each of them.
//!
//! The model has no end of time: it knows only ages, up to the lease duration. A write that names an
//! earlier version would be refused, so it disappears when the record changes. Values that are only
//! compared for equality are the first ones that nothing else in the state has.

extern crate std;

use alloc::string::ToString;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;

/// The present. When a second passes, all earlier instants move back. Those at the origin are a lease
/// duration old, or older.
const NOW: Instant = Instant::from_nanos(2_000_000_000);

/// The lease duration of both candidates.
const DURATION: Duration = Duration::from_secs(2);

const SECOND: Duration = Duration::from_secs(1);

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
    /// A mark has only its number, and not its time.
    NumberOnly,
    /// A leader counts from the answer, and not from before the request.
    CountFromAnswer,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    rule: Rule,
    /// The number of writes of candidates.
    writes: u32,
    /// Whether candidates give up requests that arrive later.
    is_late: bool,
    /// The number of writes of other programs, and whether these remove marks and raise epochs.
    strangers: u32,
    removes: bool,
    restarts: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    record: Option<ElectionRecord>,
    candidates: [Peer; 2],
    /// The epoch of the last grant, and whether a grant had no greater one than all before.
    greatest: Option<Epoch>,
    has_repeated: bool,
    writes: u32,
    strangers: u32,
    restarts: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Peer {
    observed: ObservedRecord,
    /// Since when this candidate has not seen the holder of the mark ([`Rule::Absence`]).
    absent_since: Instant,
    term: Option<Term>,
    /// The request whose answer the candidate awaits, and one that it has given up.
    pending: Option<Write>,
    late: Option<ElectionRecord>,
    /// The lease id of the campaign.
    campaign: u64,
}

/// A term whose grant was acknowledged. It leads until its own clock ends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    last: TermMark,
    counted_from: Instant,
    /// The task has ended.
    has_ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    record: ElectionRecord,
    sent: Instant,
    /// It has arrived, and its answer is under way.
    is_applied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A second passes.
    Tick,
    /// The candidate reads the record, and sends a grant or a renewal if it may.
    Look(usize),
    /// The task of the leader ends, and it releases the record. Its clock may have ended the term.
    Release(usize),
    /// The request arrives.
    Apply(usize),
    /// Its answer arrives.
    Answer(usize),
    /// The candidate gives up a request, whose answer is lost or which arrives later.
    GiveUp(usize),
    /// A request that was given up arrives.
    Arrive(usize),
    /// The candidate's process starts anew.
    Restart(usize),
    /// Another program writes the record.
    Stranger(Stranger),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    Empty,
    Take,
    Remove,
    /// Writes the greatest epoch, after which none is left.
    Raise,
}

impl Peer {
    fn leads(&self) -> bool {
        let term = self.term.as_ref();
        term.is_some_and(|it| !it.has_ended && NOW.since(it.counted_from) < DURATION)
    }

    /// A second passes.
    fn age(&mut self) {
        let observed = &mut self.observed;
        let seen = observed.last.as_mut().map(|(_, _, seen)| seen);
        let counted_from = self.term.as_mut().map(|it| &mut it.counted_from);
        let sent = self.pending.as_mut().map(|it| &mut it.sent);
        let instants = [&mut observed.mark_seen, &mut self.absent_since];
        let instants = instants.into_iter().chain(seen);
        for instant in instants.chain(counted_from).chain(sent) {
            *instant = instant.earlier_by(SECOND);
        }
    }

    /// The marks that this candidate knows or has sent.
    fn marks(&self) -> impl Iterator<Item = &TermMark> {
        let seen = self.observed.last.as_ref();
        let sent = self.pending.as_ref().map(|it| &it.record);
        let sent = sent.into_iter().chain(&self.late).map(mark);
        let term = self.term.iter().map(|it| &it.last);
        seen.and_then(|(_, mark, _)| mark.as_ref())
            .into_iter()
            .chain(sent)
            .chain(term)
    }
}

impl State {
    /// Replaces the record. All requests that have not arrived name an earlier version now.
    fn put(&mut self, record: ElectionRecord) {
        for peer in &mut self.candidates {
            peer.pending.take_if(|it| !it.is_applied);
            peer.late = None;
        }
        self.record = Some(record);
    }

    /// The write of a candidate arrives. It names the current version.
    fn apply(&mut self, record: &ElectionRecord) {
        let mark = mark(record);
        if mark.number == 0 {
            self.has_repeated |= Some(mark.epoch) <= self.greatest;
            self.greatest = self.greatest.max(Some(mark.epoch));
        }
        self.put(record.clone());
    }

    /// A time that differs from those of all records that are known.
    fn wall(&self) -> String {
        let current = self.record.as_ref().map(|it| &it.holding);
        let peers = self.candidates.iter();
        let seen = peers.filter_map(|it| it.observed.last.as_ref());
        let known = current.into_iter().chain(seen.map(|(it, _, _)| it));
        let known: Vec<_> = known.filter_map(|it| it.renewed.as_deref()).collect();
        let walls = (0..).map(|it: u32| it.to_string());
        let mut unknown = walls.filter(|it| !known.contains(&it.as_str()));
        unknown.next().unwrap()
    }

    /// The candidate begins another campaign, with a lease id that differs from all others.
    fn campaign(&mut self, index: usize) {
        let current = self.candidates[index].campaign;
        let marks = self.record.iter().filter_map(|it| it.mark.as_ref());
        let marks = marks.chain(self.candidates.iter().flat_map(Peer::marks));
        let known: Vec<_> = marks.map(|it| it.lease_id).collect();
        let is_new = |it: &u64| *it != current && !known.contains(&lease_id(index, *it));
        let next = (0..).find(is_new).unwrap();
        let peer = &mut self.candidates[index];
        (peer.term, peer.campaign) = (None, next);
    }
}

fn lease_id(index: usize, campaign: u64) -> LeaseId {
    id(10 * index as u64 + campaign)
}

impl Record {
    /// Returns whether the candidate may take the record that it has observed.
    fn may_take(&self, peer: &Peer, claim: &RecordClaim) -> bool {
        let is_free = *claim == RecordClaim::Free;
        let Some((holding, mark, _)) = &peer.observed.last else {
            return is_free;
        };
        if peer.observed.holder_remaining(NOW, DURATION).is_some() {
            return false;
        }
        let passed = |since| NOW.since(since);
        let mark_age = passed(peer.observed.mark_seen);
        match (self.rule, mark) {
            (Rule::HolderOnly, _) | (Rule::MissingHasEnded, None) => true,
            (Rule::MissingIsUnchanged, None) => mark_age >= DURATION,
            (Rule::Transitions, Some(mark)) if mark.transitions != holding.transitions => true,
            (Rule::Absence, Some(mark)) if !mark.has_ended => {
                passed(peer.absent_since) >= mark.duration
            }
            (Rule::RecordDuration, Some(mark)) if !mark.has_ended => {
                mark_age >= holding.duration.unwrap_or(DURATION)
            }
            _ => is_free,
        }
    }

    /// The candidate reads the record, and claims it or renews its term.
    fn look(&self, next: &mut State, index: usize) {
        let wall = next.wall();
        let record = next.record.clone();
        let peer = &mut next.candidates[index];
        let leads = peer.leads();
        let renewed = |last| record.as_ref()?.renewed(last, DURATION, &wall);
        if let Some(term) = &peer.term {
            match renewed(&term.last) {
                Some(record) if leads => self.send(next, index, record),
                Some(_) => {}
                None => next.campaign(index),
            }
            return;
        }
        let seen = peer.observed.last.as_ref();
        let before = seen.and_then(|(_, mark, _)| mark.clone());
        let lease_id = lease_id(index, peer.campaign);
        // Without the annotations, only the date of the service makes epochs increase.
        let date = UnixMillis::new(match self.removes {
            true => next.greatest.map_or(0, Epoch::get) + 1,
            false => 0,
        });
        let claim = peer
            .observed
            .claim(NOW, date, record.as_ref(), lease_id, DURATION);
        if self.rule == Rule::Absence {
            let now = record.as_ref().and_then(|it| it.mark.clone());
            let is_held =
                |it: &ElectionRecord| it.running().is_some() && it.holding.holder.is_some();
            if now != before || record.as_ref().is_some_and(is_held) {
                peer.absent_since = NOW;
            }
        }
        let takes = self.may_take(peer, &claim);
        let written = match claim {
            RecordClaim::Own(mark) => renewed(&mark),
            _ if takes => {
                let epoch = peer.observed.next_epoch(date).unwrap();
                let by = (&name(["a", "b"][index]), lease_id);
                let record = record.as_ref();
                Some(ElectionRecord::granted(record, by, epoch, DURATION, &wall))
            }
            _ => None,
        };
        if let Some(record) = written {
            self.send(next, index, record);
        }
    }

    fn send(&self, next: &mut State, index: usize, mut record: ElectionRecord) {
        // Nothing depends on the time of the grant.
        record.holding.acquired = None;
        let mark = record.mark.as_mut().unwrap();
        if matches!(self.rule, Rule::Absence | Rule::NumberOnly) {
            mark.written.clear();
        }
        if self.rule == Rule::Absence {
            mark.number = 0;
        }
        next.candidates[index].pending = Some(Write {
            record,
            sent: NOW,
            is_applied: false,
        });
        next.writes += 1;
    }

    fn release(&self, next: &mut State, index: usize) {
        let wall = next.wall();
        let record = next.record.clone();
        let Some(term) = &mut next.candidates[index].term else {
            return;
        };
        term.has_ended = true;
        let last = term.last.clone();
        match record.and_then(|it| it.released(&last, &wall)) {
            Some(record) => self.send(next, index, record),
            None => next.campaign(index),
        }
    }

    /// The answer to the request arrives.
    fn answer(&self, next: &mut State, index: usize, write: &Write) {
        let peer = &mut next.candidates[index];
        // The mark of the record confirms its epoch.
        peer.observed
            .observe(NOW, UnixMillis::default(), &write.record);
        let last = mark(&write.record).clone();
        if last.has_ended {
            return next.campaign(index);
        }
        let counted_from = match self.rule {
            Rule::CountFromAnswer => NOW,
            _ => write.sent,
        };
        peer.term = Some(Term {
            last,
            counted_from,
            has_ended: false,
        });
    }

    fn stranger(next: &mut State, stranger: Stranger) -> Option<()> {
        let mut record = next.record.clone()?;
        match stranger {
            Stranger::Empty => {
                record.holding.holder.take()?;
                record.holding.duration = Some(SECOND);
            }
            Stranger::Take => {
                record.holding.holder = Some("stranger".into());
                record.holding.duration = Some(SECOND);
                record.holding.transitions += 1;
            }
            Stranger::Remove => {
                record.mark.take()?;
                record.epoch = None;
            }
            Stranger::Raise => record.epoch = Some(Epoch::MAX),
        }
        next.put(record);
        next.strangers += 1;
        Some(())
    }
}

impl Model for Record {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        Vec::from([State::default()])
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for (index, peer) in state.candidates.iter().enumerate() {
            // Both candidates are the same, so the first one writes first.
            if state.writes == 0 && index > 0 {
                continue;
            }
            if let Some(write) = &peer.pending {
                actions.push(match write.is_applied {
                    true => Action::Answer(index),
                    false => Action::Apply(index),
                });
                if write.is_applied || self.is_late {
                    actions.push(Action::GiveUp(index));
                }
            } else if state.writes < self.writes {
                actions.push(Action::Look(index));
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
        // Nobody sees what other programs write after the last request.
        let is_over = state.writes == self.writes
            && state
                .candidates
                .iter()
                .all(|it| it.pending.is_none() && it.late.is_none());
        if state.strangers < self.strangers && !is_over {
            actions.extend([Stranger::Empty, Stranger::Take].map(Action::Stranger));
            if self.removes {
                let annotations = [Stranger::Remove, Stranger::Raise];
                actions.extend(annotations.map(Action::Stranger));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => next.candidates.iter_mut().for_each(Peer::age),
            Action::Look(index) => self.look(&mut next, index),
            Action::Release(index) => self.release(&mut next, index),
            Action::Apply(index) => {
                let mut write = next.candidates[index].pending.take()?;
                next.apply(&write.record);
                write.is_applied = true;
                next.candidates[index].pending = Some(write);
            }
            Action::Answer(index) => {
                let write = next.candidates[index].pending.take()?;
                self.answer(&mut next, index, &write);
            }
            Action::GiveUp(index) => {
                let peer = &mut next.candidates[index];
                let write = peer.pending.take_if(|it| !it.is_applied);
                peer.pending = None;
                peer.late = write.map(|it| it.record).or_else(|| peer.late.take());
                // A candidate does not repeat a release for ever.
                if peer.term.as_ref().is_some_and(|it| it.has_ended) {
                    next.campaign(index);
                }
            }
            Action::Arrive(index) => {
                let record = next.candidates[index].late.take()?;
                next.apply(&record);
            }
            Action::Restart(index) => {
                next.campaign(index);
                next.restarts += 1;
                let peer = &mut next.candidates[index];
                let pending = peer.pending.take_if(|it| !it.is_applied);
                let pending = pending.map(|it| it.record);
                *peer = Peer {
                    late: pending.or_else(|| peer.late.take()),
                    campaign: peer.campaign,
                    ..Peer::default()
                };
            }
            Action::Stranger(stranger) => Self::stranger(&mut next, stranger)?,
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Vec::from([
            Property::always(ONE_LEADER, |_, state: &State| {
                !state.candidates.iter().all(Peer::leads)
            }),
            Property::always(INCREASE, |_, state: &State| !state.has_repeated),
        ])
    }
}

const ONE_LEADER: &str = "at most one candidate leads";
const INCREASE: &str = "epochs increase";

const ALONE: Record = Record {
    rule: Rule::Marks,
    writes: 4,
    is_late: false,
    strangers: 0,
    removes: false,
    restarts: 0,
};

/// Explores all states.
fn verify(models: &[Record]) {
    for model in models {
        let checker = model.checker().threads(2).spawn_dfs().join();
        std::println!("{} states: {model:?}", checker.unique_state_count());
        let found = checker.discoveries().into_iter().next();
        let found = found.map(|(property, path)| (property, path.into_actions()));
        assert_eq!(found, None, "{model:?}");
        assert!(checker.is_done());
    }
}

#[test]
fn candidates_that_judge_a_record_never_hold_it_together_and_epochs_increase() {
    let strangers = Record {
        strangers: 2,
        ..ALONE
    };
    verify(&[
        Record {
            is_late: true,
            restarts: 1,
            ..ALONE
        },
        Record {
            writes: 3,
            ..strangers
        },
        Record {
            removes: true,
            ..strangers
        },
    ]);
}

#[test]
#[ignore = "takes half a minute"]
fn late_writes_and_restarts_beside_other_programs_make_no_second_leader() {
    let strangers = Record {
        is_late: true,
        strangers: 2,
        removes: true,
        ..ALONE
    };
    verify(&[
        Record {
            is_late: true,
            restarts: 1,
            writes: 5,
            ..ALONE
        },
        Record {
            restarts: 1,
            writes: 3,
            ..strangers
        },
        strangers,
    ]);
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
    let models = [
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
            strangers: 2,
            ..removed
        },
        Record {
            rule: Rule::MissingIsUnchanged,
            strangers: 3,
            ..removed
        },
        Record {
            rule: Rule::RecordDuration,
            ..one
        },
        Record {
            rule: Rule::NumberOnly,
            strangers: 2,
            ..removed
        },
        Record {
            rule: Rule::CountFromAnswer,
            ..ALONE
        },
    ];
    for model in models {
        let until = HasDiscoveries::AnyOf([ONE_LEADER].into());
        let checker = model
            .checker()
            .threads(2)
            .finish_when(until)
            .spawn_bfs()
            .join();
        let found = checker
            .discovery(ONE_LEADER)
            .map(|path| path.into_actions());
        std::println!(
            "{} states: {:?}: {found:?}",
            checker.unique_state_count(),
            model.rule
        );
        assert!(found.is_some(), "{model:?}");
    }
}
