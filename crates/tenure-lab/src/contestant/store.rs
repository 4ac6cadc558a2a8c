//! A lease store: the library's rules and queue, with one lease, a disk, and those who wait.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tenure_core::lease::keeper::{Answer, Request, Timings};
use tenure_core::lease::{
    self, Acquire, Change, LeaseDuration, LeaseId, Metadata, Operation, Queue, Record, Rejection,
    Rules, Waiting,
};
use tenure_core::wire::DEFAULT_PRIORITY;
use tenure_core::{CandidateId, Epoch, Instant, NodeId, UnixMillis};

use crate::fault::Planted;
use crate::sim::{Call, Claim, Effect, Here, Input, Payload, Process, Stable};

/// All who ask have the same one.
const PRIORITY: u32 = DEFAULT_PRIORITY;

/// With the wall clock planted: how often it looks at it.
const GLANCE: Duration = Duration::from_millis(100);

/// With the late sweep planted: how long after it looked it ends what was over.
const SWEEP: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Store {
    duration: Duration,
    planted: Option<Planted>,
    record: Record,
    queue: Queue<Waiter>,
    /// Until when each of those who wait does.
    patience: BTreeMap<LeaseId, Instant>,
    /// Records on their way to the disk, and answers that must not leave before.
    unwritten: u32,
    held: VecDeque<Effect>,
    sweep_at: Option<Instant>,
    /// When it last looked.
    looked: Instant,
    /// The last epoch of each candidate, for a store that renews for whoever asks.
    granted: BTreeMap<NodeId, Epoch>,
}

/// How one who waits is reached.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    from: NodeId,
    call: Call,
}

impl Store {
    pub(super) fn start(
        timings: &Timings,
        planted: Option<Planted>,
        stable: Option<&Stable>,
        here: &Here<'_>,
    ) -> Self {
        let duration = if planted == Some(Planted::NoMargin) {
            timings.hard_stop()
        } else {
            timings.lease_duration()
        };
        let mut store = Self {
            duration,
            planted,
            record: Record::default(),
            queue: Queue::default(),
            patience: BTreeMap::new(),
            unwritten: 0,
            held: VecDeque::new(),
            sweep_at: None,
            looked: here.now,
            granted: BTreeMap::new(),
        };
        if let Some(Stable::Lease(stored)) = stable {
            let mut stored = (**stored).clone();
            match planted {
                Some(Planted::LeasesForgotten) => {
                    let last = stored.grant.as_ref().map(|grant| grant.epoch);
                    store.record = Record::above(last);
                    return store;
                }
                Some(Planted::EpochInMemory)
                    if !matches!(stored.state, lease::StoredState::Leased) =>
                {
                    stored.grant = None;
                }
                _ => {}
            }
            store.record = Record::restore(stored, store.now(here));
        }
        store
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// What it counts leases by.
    fn now(&self, here: &Here<'_>) -> Instant {
        if self.has(Planted::WallClockExpiry) {
            Instant::from_nanos(here.wall.get() * 1_000_000)
        } else {
            here.now
        }
    }

    fn wall(&self, here: &Here<'_>) -> UnixMillis {
        if self.has(Planted::EpochInMemory) {
            UnixMillis::new(0)
        } else {
            here.wall
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            refuse_retired_ids: !self.has(Planted::RetiredIdGranted),
            ..Rules::NATIVE
        }
    }

    fn ask(&mut self, here: &mut Here<'_>, from: NodeId, call: Call, asked: Asked) {
        self.look(here);
        let waiter = Waiter { from, call };
        let Asked { holder, request } = asked;
        let (operation, wait) = match request {
            Request::Acquire {
                lease_id,
                wait,
                min_epoch,
            } => {
                let request = Acquire {
                    lease_id,
                    min_epoch,
                    holder,
                    duration: LeaseDuration::Fixed(self.duration),
                    lock_delay: Duration::ZERO,
                    metadata: Metadata::new(),
                };
                (Operation::Acquire(request, self.wall(here)), Some(wait))
            }
            Request::Renew(lease_id) => (Operation::Renew(lease_id, None), None),
            Request::Release { lease_id, .. } => (Operation::Release(self.known(lease_id)), None),
            Request::HandOver {
                lease_id,
                to,
                within,
            } => {
                let operation = Operation::HandOver {
                    lease_id,
                    to,
                    within,
                };
                (operation, None)
            }
        };
        match (self.apply(here, &operation, from), operation) {
            (Err(rejection), Operation::Acquire(request, _)) if is_worth_waiting(&rejection) => {
                let until = here.now + wait.unwrap_or_default();
                self.patience.insert(request.lease_id, until);
                let waiting = Waiting {
                    request,
                    reply_to: waiter,
                };
                // Whoever it replaces has given that request up.
                self.queue.join(PRIORITY, waiting);
            }
            (Err(_), Operation::Renew(..)) if self.has(Planted::RenewAfterRegrant) => {
                // It looks whether there is a lease, and not whose.
                let epoch = self.granted.get(&from).copied();
                let answer = epoch.map_or(Answer::Superseded, Answer::Held);
                self.answer(here, waiter, answer);
            }
            (result, _) => self.answer(here, waiter, Answer::from(result)),
        }
        self.grant_next(here);
    }

    /// The lease id that a release is taken to mean.
    fn known(&self, lease_id: LeaseId) -> LeaseId {
        let current = self.record.last_grant().map(|grant| grant.lease_id);
        if self.has(Planted::ReleaseWithoutId) {
            current.unwrap_or(lease_id)
        } else {
            lease_id
        }
    }

    /// Does one operation, and sees to it that it gets to the disk.
    fn apply(
        &mut self,
        here: &mut Here<'_>,
        operation: &Operation,
        from: NodeId,
    ) -> Result<Change, Rejection> {
        let now = self.now(here);
        let before = self.record.last_epoch();
        let rules = self.rules();
        let applied = lease::apply(&mut self.record, operation, now, &rules)?;
        if applied.durable {
            self.persist(here);
        }
        match applied.change {
            Change::Granted(epoch) => {
                self.granted.insert(from, epoch);
                let id = self.record.last_grant().map_or(0, |grant| {
                    let bytes = grant.lease_id.to_bytes();
                    bytes
                        .iter()
                        .rev()
                        .take(7)
                        .fold(0, |id, &byte| (id << 8) | u64::from(byte))
                });
                let (to, at) = (from, here.now);
                self.tell(here, Effect::Granted { epoch, to, id, at });
                let counts = Effect::Counts(epoch, here.now, self.duration);
                self.tell(here, counts);
            }
            Change::Renewed(epoch) => {
                let counts = Effect::Counts(epoch, here.now, self.duration);
                self.tell(here, counts);
            }
            Change::Released | Change::HandedOver | Change::Breaking(_) | Change::Broken => {
                if let Some(epoch) = before {
                    // At once, be it on disk or not: nobody counts on the lease any more.
                    here.want(Effect::GivenUp(epoch));
                }
            }
            _ => {}
        }
        Ok(applied.change)
    }

    fn persist(&mut self, here: &mut Here<'_>) {
        let stored = self.record.store(self.now(here));
        here.want(Effect::Write(Stable::Lease(stored.into())));
        self.unwritten += 1;
    }

    fn answer(&mut self, here: &mut Here<'_>, waiter: Waiter, answer: Answer) {
        let Waiter { from, call } = waiter;
        self.tell(here, Effect::Send(from, Payload::Answer { call, answer }));
    }

    /// What is told is on disk.
    fn tell(&mut self, here: &mut Here<'_>, effect: Effect) {
        if self.unwritten == 0 || self.has(Planted::AnswerBeforeDisk) {
            here.want(effect);
        } else {
            self.held.push_back(effect);
        }
    }

    /// Ends what time has ended, and grants to who waits.
    fn look(&mut self, here: &mut Here<'_>) {
        let now = self.now(here);
        self.looked = here.now;
        if self.has(Planted::LateSweep) {
            match self.sweep_at {
                Some(at) if here.now >= at => {
                    self.sweep_at = None;
                    self.record = Record::above(self.record.last_epoch());
                    self.persist(here);
                }
                None if self.record.has_lapsed(now) => self.sweep_at = Some(here.now + SWEEP),
                _ => {}
            }
        }
        if self.record.settle(now).is_some() {
            self.persist(here);
        }
        self.grant_next(here);
    }

    fn grant_next(&mut self, here: &mut Here<'_>) {
        let now = self.now(here);
        if self.queue.is_empty() || self.record.held(now).is_some() {
            return;
        }
        let wall = self.wall(here);
        let rules = self.rules();
        let record = &self.record;
        let taken = self.queue.take_first(|waiting| {
            let operation = Operation::Acquire(waiting.request.clone(), wall);
            lease::apply(&mut record.clone(), &operation, now, &rules).is_ok()
        });
        if let Some(waiting) = taken {
            self.patience.remove(&waiting.request.lease_id);
            let from = waiting.reply_to.from;
            let operation = Operation::Acquire(waiting.request, wall);
            let result = self.apply(here, &operation, from);
            self.answer(here, waiting.reply_to, Answer::from(result));
        }
    }

    /// Those who have waited long enough are told who holds the lease.
    fn let_go(&mut self, here: &mut Here<'_>) {
        let over = self
            .patience
            .iter()
            .filter(|&(_, until)| here.now >= *until);
        let over: Vec<LeaseId> = over.map(|(&id, _)| id).collect();
        for lease_id in over {
            self.patience.remove(&lease_id);
            let Some(waiting) = self.queue.leave(lease_id, |_| true) else {
                continue;
            };
            let operation = Operation::Acquire(waiting.request, self.wall(here));
            let result = self.apply(here, &operation, waiting.reply_to.from);
            self.answer(here, waiting.reply_to, Answer::from(result));
        }
    }
}

/// Who asks for what.
struct Asked {
    holder: CandidateId,
    request: Request,
}

const fn is_worth_waiting(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::Held { .. } | Rejection::LockDelay { .. } | Rejection::Reserved { .. }
    )
}

impl Process for Store {
    fn handle(&mut self, here: &mut Here<'_>, input: Input) {
        match input {
            Input::Message {
                from,
                payload:
                    Payload::Ask {
                        call,
                        candidate: holder,
                        request,
                    },
                ..
            } => self.ask(here, from, call, Asked { holder, request }),
            Input::Wake => {
                self.look(here);
                self.let_go(here);
            }
            Input::Written => {
                self.unwritten = self.unwritten.saturating_sub(1);
                if self.unwritten == 0 {
                    for effect in std::mem::take(&mut self.held) {
                        here.want(effect);
                    }
                }
            }
            // Whoever waited from there has gone.
            Input::Refused(node) => {
                self.queue
                    .drop_where(|waiting| waiting.reply_to.from == node);
                let queue = &self.queue;
                self.patience.retain(|&id, _| queue.has(id));
            }
            Input::Break(period) => {
                self.look(here);
                let _ = self.apply(here, &Operation::Break(Some(period)), NodeId(0));
                self.grant_next(here);
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Instant> {
        let lapse = if self.has(Planted::WallClockExpiry) {
            // It is woken by the other clock.
            Some(self.looked + GLANCE)
        } else {
            self.record.next_lapse(self.looked)
        };
        let lapse = lapse.filter(|_| !self.queue.is_empty() || self.has(Planted::LateSweep));
        let patience = self.patience.values().min().copied();
        [lapse, patience, self.sweep_at].into_iter().flatten().min()
    }

    fn claim(&self, _now: Instant) -> Option<Claim> {
        None
    }
}
