//! A state of the model.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::super::ENGINE;
use crate::Instant;
use crate::ownership::*;

/// The number of a batch.
pub(super) type Batch = u8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u8,
    pub(super) servers: Vec<Server>,
    pub(super) service: Service,
    pub(super) left: Left,
    /// The batches that were acknowledged.
    pub(super) acknowledged: BTreeSet<Batch>,
    pub(super) next_batch: Batch,
    /// The event of the last step.
    pub(super) event: Option<Event>,
    /// A rule that was broken at the last step.
    pub(super) broken: Option<&'static str>,
}

/// The events that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    /// Calls that are given up.
    pub(super) losses: u8,
    /// Appends that definitely fail.
    pub(super) failures: u8,
    /// Appends with a batch.
    pub(super) batches: u8,
    pub(super) restarts: u8,
    pub(super) hand_overs: u8,
    /// Clocks that lose a tick.
    pub(super) lost_ticks: u8,
}

/// An event that a search must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    TookByTime,
    TookVacant,
    FoundApplied,
    Resumed,
    Deposed,
    Lost,
    Undone,
}

/// The service that keeps the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Service {
    pub(super) tail: Option<Tail>,
    /// All batches in the log.
    pub(super) content: Vec<Batch>,
    /// The appends that were sent, and may still be applied.
    pub(super) sent: BTreeSet<Append>,
}

/// Ordered by the numbers of the tails, because `Tail` has no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Append {
    pub(super) expected: Option<Tail>,
    pub(super) tail: Tail,
    pub(super) batch: Option<Batch>,
}

/// Generation, sequence with the number of undone appends, owner, the expected sequence and owner,
/// whether the tail is vacant, and the batch.
type Key = (
    u64,
    (u64, u64),
    OwnerId,
    Option<(u64, OwnerId)>,
    bool,
    Option<Batch>,
);

impl Append {
    fn key(&self) -> Key {
        let expected = self.expected.map(|it| (it.sequence, it.owner));
        let Tail {
            generation,
            sequence,
            undone,
            owner,
            state,
            ..
        } = self.tail;
        let is_vacant = state == TailState::Vacant;
        let number = (sequence, undone);
        (generation, number, owner, expected, is_vacant, self.batch)
    }
}

impl PartialOrd for Append {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Append {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) machine: Ownership,
    pub(super) starts: u8,
    pub(super) lost_ticks: u8,
    pub(super) call: Option<Call>,
    /// The append that is under way, which is repeated with the same batch.
    pub(super) append: Option<Append>,
    /// The content in memory, if it is loaded.
    pub(super) content: Option<Vec<Batch>>,
    /// The generation that is to be loaded.
    pub(super) loading: Option<u64>,
}

/// A call of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Look,
    Append(Append),
    Looked(Look),
    Appended(AppendOutcome),
}

pub(super) fn tick(number: u8) -> Instant {
    Instant::from_nanos(u64::from(number))
}

pub(super) const fn ticks(number: u8) -> Duration {
    Duration::from_nanos(number as u64)
}

impl Server {
    /// Returns the time on this server's clock.
    pub(super) fn clock(&self, now: u8) -> Instant {
        tick(now - self.lost_ticks)
    }

    pub(super) fn serves(&self, now: u8) -> bool {
        let clock = self.clock(now);
        self.machine
            .serves_until()
            .is_some_and(|until| clock < until)
    }

    fn generation(&self) -> Option<u64> {
        self.machine.known().map(|it| it.generation)
    }
}

impl Service {
    fn observation(&self) -> Observation {
        Observation {
            home: ENGINE,
            found: self.tail.map_or(Found::Empty, Found::Tail),
        }
    }

    pub(super) fn look(&self) -> Look {
        Look::Found(self.observation())
    }

    /// Handles an append. Without the comparison, each append is applied.
    pub(super) fn append(&mut self, append: &Append, compares: bool) -> AppendOutcome {
        if compares && append.expected != self.tail {
            return AppendOutcome::Superseded(self.observation());
        }
        self.tail = Some(append.tail);
        self.content.extend(append.batch);
        AppendOutcome::Committed
    }
}

impl State {
    /// Executes the outputs of a server.
    pub(super) fn drain(&mut self, id: usize) {
        let server = &mut self.servers[id];
        while let Some(output) = server.machine.poll_output() {
            match output {
                OwnershipOutput::Look => server.call = Some(Call::Look),
                OwnershipOutput::Append(tail) => {
                    let repeated = server.append.filter(|it| it.tail == tail);
                    let append = repeated.unwrap_or_else(|| Append {
                        expected: server.machine.known(),
                        tail,
                        batch: None,
                    });
                    let known = server.machine.known();
                    if known.is_some_and(|it| it.generation < tail.generation) {
                        let was_vacant = known.is_some_and(|it| it.state == TailState::Vacant);
                        self.event = Some(if was_vacant {
                            Event::TookVacant
                        } else {
                            Event::TookByTime
                        });
                    }
                    server.append = Some(append);
                    server.call = Some(Call::Append(append));
                    self.service.sent.insert(append);
                }
                OwnershipOutput::Took { generation } => server.loading = Some(generation),
                OwnershipOutput::Lapsed | OwnershipOutput::Refuses(_) => {}
                OwnershipOutput::Resumed => self.event = Some(Event::Resumed),
                OwnershipOutput::Deposed => {
                    self.event.get_or_insert(Event::Deposed);
                    server.content = None;
                    server.loading = None;
                }
            }
        }
    }

    /// Begins an append that the server asked for.
    pub(super) fn begin(&mut self, id: usize, tail: Tail, batch: Option<Batch>) {
        let server = &mut self.servers[id];
        let append = Append {
            expected: server.machine.known(),
            tail,
            batch,
        };
        server.append = Some(append);
        server.call = Some(Call::Append(append));
        self.service.sent.insert(append);
    }

    /// Hands the outcome of an append to its server.
    pub(super) fn appended(&mut self, id: usize, outcome: AppendOutcome) {
        let server = &mut self.servers[id];
        let clock = server.clock(self.now);
        let append = server.append;
        let batch = append.and_then(|it| it.batch);
        match server.machine.handle_appended(clock, outcome) {
            AppendOutcome::Committed => {
                if matches!(outcome, AppendOutcome::Superseded(_)) {
                    self.event = Some(Event::FoundApplied);
                }
                server.append = None;
                if let (Some(content), Some(batch)) = (&mut server.content, batch) {
                    content.push(batch);
                    self.acknowledged.insert(batch);
                }
            }
            AppendOutcome::Unknown => {}
            AppendOutcome::Refused => {
                if batch.is_some() {
                    self.event = Some(Event::Undone);
                }
                server.append = None;
            }
            AppendOutcome::Superseded(_) => {
                if batch.is_some() {
                    self.event = Some(Event::Lost);
                }
                server.append = None;
                let is_other = |tail: Tail| Some(tail.owner) != append.map(|it| it.tail.owner);
                if let AppendOutcome::Superseded(Observation {
                    found: Found::Tail(tail),
                    ..
                }) = outcome
                    && is_other(tail)
                    && server.machine.serves_until().is_some()
                {
                    self.broken = Some("a server goes on after it was shown a foreign tail");
                }
            }
        }
        self.drain(id);
    }

    /// Returns whether each server that accepts requests owns the log.
    pub(super) fn has_one_owner(&self) -> bool {
        let generation = self.service.tail.map(|it| it.generation);
        let mut serving = self.servers.iter().filter(|it| it.serves(self.now));
        serving.all(|it| it.generation() == generation)
    }

    /// Returns whether each server that accepts requests has the content of the log in memory.
    pub(super) fn has_the_content(&self) -> bool {
        let mut serving = self.servers.iter().filter(|it| it.serves(self.now));
        serving.all(|it| {
            let is_current = it.machine.known() == self.service.tail;
            !is_current || it.content.as_ref() == Some(&self.service.content)
        })
    }

    pub(super) fn keeps_what_it_acknowledged(&self) -> bool {
        let mut acknowledged = self.acknowledged.iter();
        acknowledged.all(|batch| self.service.content.contains(batch))
    }
}
