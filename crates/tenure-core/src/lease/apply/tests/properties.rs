//! Invariants of all sequences of operations, with restarts.

use core::cmp::Ordering;

use proptest::prelude::*;
use proptest::{collection, option};

use super::*;
use crate::lease::Stored;

#[derive(Clone, Debug)]
enum Step {
    Wait(Duration),
    /// An operation under the native rules (`true`) or the Azure rules.
    Ask(Operation, bool),
    /// A resume under the last epoch, or under one near it.
    Resume(ResumeStep),
    /// The store restarts from the record on disk.
    Restart,
}

#[derive(Clone, Debug)]
struct ResumeStep {
    name: char,
    /// The requested epoch minus the last one, plus one.
    ahead: u64,
    duration: u64,
    without_store: u64,
    native: bool,
}

impl ResumeStep {
    fn operation(&self, last: Option<Epoch>) -> Operation {
        let epoch = last.map_or(0, Epoch::get) + self.ahead;
        let of_term = Resume {
            epoch: Epoch::new(epoch.saturating_sub(1)).unwrap(),
            without_store: secs(self.without_store),
        };
        let request = request(self.name, fixed(self.duration));
        Operation::Resume(request, of_term, UnixMillis::new(1_000_000))
    }
}

/// The end of the lease as the holder knows it from its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    At(Instant),
    Never,
}

impl End {
    fn of(duration: LeaseDuration, now: Instant) -> Self {
        match duration {
            LeaseDuration::Fixed(duration) => Self::At(now + duration),
            LeaseDuration::Infinite => Self::Never,
        }
    }
}

/// The lease as clients know it from their answers.
#[derive(Debug)]
struct Known {
    holder: LeaseId,
    end: End,
    lock_delay: Duration,
    duration: LeaseDuration,
    /// Whether a break has begun in this term.
    is_broken: bool,
}

/// A store that writes the changes that must be durable, and the knowledge of its clients.
struct Model {
    lease: Lease,
    disk: Stored,
    /// `None` once the holder has released the lease.
    known: Option<Known>,
    last_epoch: Option<Epoch>,
}

impl Model {
    fn new() -> Self {
        let lease = Lease::native();
        Self {
            disk: lease.record.store(lease.now),
            lease,
            known: None,
            last_epoch: None,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(duration) => self.lease.now = self.lease.now + *duration,
            Step::Restart => {
                self.lease.record = Record::restore(self.disk.clone(), self.lease.now);
            }
            Step::Ask(operation, native) => {
                self.lease.rules = if *native { Rules::NATIVE } else { Rules::AZURE };
                self.ask(operation);
            }
            Step::Resume(resume) => {
                self.lease.rules = if resume.native {
                    Rules::NATIVE
                } else {
                    Rules::AZURE
                };
                self.ask(&resume.operation(self.last_epoch));
            }
        }
        self.check_state();
    }

    fn ask(&mut self, operation: &Operation) {
        let now = self.lease.now;
        if self.lease.record.settle(now).is_some() {
            self.write();
        }
        let known = self.known.as_ref();
        let was_over = known.is_none_or(|known| known.end.cmp_to(now) != Ordering::Greater);
        let Ok(applied) = self.lease.apply(operation) else {
            return;
        };
        if applied.durable {
            self.write();
        }
        match (operation, applied.change) {
            (
                Operation::Resume(request, of_term, _),
                Change::Resumed(epoch) | Change::Renewed(epoch),
            ) => {
                assert_eq!((epoch, self.last_epoch), (of_term.epoch, Some(epoch)));
                let known = self.known_holder(request.lease_id);
                assert!(!known.is_broken, "a resume has undone a break");
                known.duration = request.duration.max(known.duration);
                known.end = End::of(known.duration, now);
            }
            (
                Operation::Acquire(request, _) | Operation::Resume(request, ..),
                Change::Granted(epoch),
            ) => {
                if let Operation::Resume(_, of_term, _) = operation {
                    assert_eq!(epoch, of_term.epoch);
                }
                self.check_that_a_grant_is_safe();
                assert!(self.last_epoch < Some(epoch), "epochs must increase");
                self.last_epoch = Some(epoch);
                self.known = Some(Known {
                    holder: request.lease_id,
                    end: End::of(request.duration, now),
                    lock_delay: request.lock_delay,
                    duration: request.duration,
                    is_broken: false,
                });
            }
            (Operation::Acquire(request, _), Change::Renewed(epoch)) => {
                assert_eq!(self.last_epoch, Some(epoch));
                let may_shorten = self.lease.rules.acquire_again_may_shorten;
                let known = self.known_holder(request.lease_id);
                known.duration = if may_shorten {
                    request.duration
                } else {
                    request.duration.max(known.duration)
                };
                known.end = End::of(known.duration, now);
            }
            (Operation::Renew(lease_id, duration), Change::Renewed(epoch)) => {
                assert_eq!(self.last_epoch, Some(epoch));
                let known = self.known_holder(*lease_id);
                known.duration = duration.unwrap_or(known.duration);
                known.end = End::of(known.duration, now);
            }
            (Operation::Change { proposed, .. }, Change::Changed) => {
                self.known.as_mut().unwrap().holder = *proposed;
            }
            (Operation::Release(lease_id), Change::Released)
            | (Operation::HandOver { lease_id, .. }, Change::HandedOver) => {
                self.known_holder(*lease_id);
                self.known = None;
            }
            (Operation::Break(_) | Operation::SwitchOver { .. }, Change::Breaking(left)) => {
                let known = self.known.as_mut().unwrap();
                known.end = End::At(now + left);
                known.is_broken = true;
            }
            // An operator lifts the reservation and the lock delay of a lease that nobody holds.
            (Operation::Break(_), Change::Broken) if was_over => {
                if let Some(known) = &mut self.known {
                    known.is_broken = true;
                    if *operation == Operation::Break(Some(Duration::ZERO)) {
                        known.lock_delay = Duration::ZERO;
                    }
                }
            }
            (Operation::Break(_) | Operation::SwitchOver { .. }, Change::Broken) => {
                let known = self.known.as_mut().unwrap();
                known.is_broken = true;
                if known.end.cmp_to(now) == Ordering::Greater {
                    known.end = End::At(now);
                }
            }
            (Operation::SetMetadata(lease_id, _), Change::MetadataSet) => {
                self.known_holder(*lease_id);
            }
            (Operation::Verify(asked), Change::Verified { current, epoch }) => {
                assert_eq!(current, epoch == Some(*asked));
                assert!(epoch.is_none() || epoch == self.last_epoch);
            }
            (operation, change) => panic!("{operation:?} did {change:?}"),
        }
    }

    fn write(&mut self) {
        self.disk = self.lease.record.store(self.lease.now);
    }

    /// Checks that the store answers as holder only the client of the last grant.
    fn known_holder(&mut self, lease_id: LeaseId) -> &mut Known {
        let known = self.known.as_mut().expect("no client holds the lease");
        assert_eq!(known.holder, lease_id, "another client holds the lease");
        known
    }

    fn check_that_a_grant_is_safe(&self) {
        let Some(known) = &self.known else { return };
        let End::At(end) = known.end else {
            panic!("granted while an infinite lease is held")
        };
        let free = end + known.lock_delay;
        assert!(self.lease.now >= free, "granted before {free:?}: {known:?}");
    }

    /// Checks the invariants that hold at any time.
    fn check_state(&self) {
        let (record, now) = (&self.lease.record, self.lease.now);
        if let Some(grant) = record.held(now) {
            let known = self
                .known
                .as_ref()
                .expect("a client that released the lease still holds it");
            assert_eq!(grant.lease_id, known.holder);
            assert_eq!(Some(grant.epoch), self.last_epoch);
        } else if let Some(known) = &self.known {
            let over = known.end.cmp_to(now) != Ordering::Greater;
            assert!(over, "the lease ended before the end that its holder knows");
        }
        assert!(record.next_lapse(now).is_none_or(|next| next > now));
        let later = Record::restore(record.store(now), now);
        assert!(
            end_of(&later, now) >= end_of(record, now),
            "a restart must not end a lease earlier"
        );
    }
}

impl End {
    fn cmp_to(self, now: Instant) -> Ordering {
        match self {
            Self::At(end) => end.cmp(&now),
            Self::Never => Ordering::Greater,
        }
    }
}

fn end_of(record: &Record, now: Instant) -> Instant {
    match record.remaining(now) {
        None => now,
        Some(LeaseDuration::Fixed(left)) => now + left,
        Some(LeaseDuration::Infinite) => Instant::from_nanos(u64::MAX),
    }
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![0..20_u64, 0..100_u64, 0..2_000_u64].prop_map(|wait| Step::Wait(secs(wait))),
        8 => (an_operation(), any::<bool>()).prop_map(|(asked, native)| Step::Ask(asked, native)),
        2 => a_resume().prop_map(Step::Resume),
        1 => Just(Step::Restart),
    ]
}

fn a_resume() -> impl Strategy<Value = ResumeStep> {
    let name = prop::char::range('a', 'e');
    let step = (name, 0..4_u64, 15..=60_u64, 0..3_u64, any::<bool>());
    step.prop_map(
        |(name, ahead, duration, without_store, native)| ResumeStep {
            name,
            ahead,
            duration,
            without_store,
            native,
        },
    )
}

fn an_operation() -> impl Strategy<Value = Operation> {
    let name = || prop::char::range('a', 'e');
    let duration = || {
        prop_oneof![
            8 => (15..=60_u64).prop_map(fixed),
            1 => Just(LeaseDuration::Infinite),
        ]
    };
    let asked = (name(), duration(), 0..4_u64, 0..10_000_u64, 0..3_u32);
    prop_oneof![
        6 => asked.prop_map(|(name, duration, delay, wall, value)| {
            let request = Acquire {
                lock_delay: secs(delay * 5),
                // One acquire in five requests a least epoch.
                min_epoch: Epoch::new(wall / 2).filter(|_| wall % 5 == 0),
                metadata: if value == 0 { Metadata::new() } else { metadata("x") },
                ..request(name, duration)
            };
            Operation::Acquire(request, UnixMillis::new(wall))
        }),
        4 => (name(), option::of(duration()))
            .prop_map(|(name, duration)| Operation::Renew(id(name), duration)),
        2 => (name(), name()).prop_map(|(from, to)| change(from, to)),
        2 => name().prop_map(release),
        1 => option::of((0..70_u64).prop_map(secs)).prop_map(Operation::Break),
        1 => (name(), name(), 0..30_u64).prop_map(|(from, to, within)| hand_over(from, to, within)),
        1 => (name(), 0..30_u64).prop_map(|(to, within)| switch_over(to, within)),
        1 => name().prop_map(|name| Operation::SetMetadata(id(name), metadata("y"))),
        1 => (0..10_000_u64).prop_map(|epoch| Operation::Verify(Epoch::new(epoch).unwrap())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_grant_comes_before_the_end_that_the_last_holder_knows(
        steps in collection::vec(a_step(), 1..60),
    ) {
        let mut model = Model::new();
        for step in &steps {
            model.step(step);
        }
    }

    #[test]
    fn by_native_rules_a_lease_id_holds_in_one_term_only(steps in collection::vec(a_step(), 1..60)) {
        let mut model = Model::new();
        let mut terms = alloc::collections::BTreeMap::new();
        for step in &steps {
            // A change may restore an id that the holder had before, and the store may forget a
            // retired id after ten minutes.
            let step = match step.clone() {
                Step::Ask(Operation::Change { .. }, _) => continue,
                Step::Ask(operation, _) => Step::Ask(operation, true),
                Step::Resume(resume) => Step::Resume(ResumeStep {
                    native: true,
                    ..resume
                }),
                Step::Wait(wait) => Step::Wait(wait.min(secs(10))),
                Step::Restart => Step::Restart,
            };
            model.step(&step);
            if let Some(grant) = model.lease.record.held(model.lease.now) {
                let epoch = *terms.entry(grant.lease_id).or_insert(grant.epoch);
                prop_assert_eq!(epoch, grant.epoch);
            }
        }
    }
}
