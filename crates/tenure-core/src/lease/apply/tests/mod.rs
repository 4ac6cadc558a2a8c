//! The effect of each operation on a lease. The test sets the clock.

mod table;

mod durability;
mod endings;
mod owners;
mod properties;
mod restart;
mod resume;
mod terms;
mod time;

use core::time::Duration;

use super::*;
use crate::lease::{Metadata, Resume, State};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn at(secs: u64) -> Instant {
    Instant::default() + Duration::from_secs(secs)
}

fn fixed(secs: u64) -> LeaseDuration {
    LeaseDuration::Fixed(Duration::from_secs(secs))
}

/// Returns the lease id with this name.
fn id(name: char) -> LeaseId {
    LeaseId::from_random_bits(0, u64::from(name))
}

/// Returns the candidate with this name.
fn candidate(name: char) -> CandidateId {
    name.encode_utf8(&mut [0; 4]).parse().unwrap()
}

fn request(name: char, duration: LeaseDuration) -> Acquire {
    Acquire {
        lease_id: id(name),
        holder: candidate(name),
        duration,
        lock_delay: Duration::ZERO,
        min_epoch: None,
        by_operator: false,
        metadata: Metadata::new(),
    }
}

fn acquire(name: char, duration: LeaseDuration) -> Operation {
    Operation::Acquire(request(name, duration), UnixMillis::new(1_000))
}

fn renew(name: char) -> Operation {
    Operation::Renew(id(name), None)
}

/// Takes the lease for 30 s, for a term under this epoch that has run without the store for 10 s.
fn resume(name: char, epoch: u64) -> Operation {
    let of_term = Resume {
        epoch: Epoch::new(epoch).unwrap(),
        without_store: secs(10),
    };
    Operation::Resume(
        request(name, fixed(30)),
        of_term,
        UnixMillis::new(1_000_000),
    )
}

fn release(name: char) -> Operation {
    Operation::Release(id(name))
}

fn change(from: char, to: char) -> Operation {
    Operation::Change {
        lease_id: id(from),
        proposed: id(to),
    }
}

fn break_within(period: u64) -> Operation {
    Operation::Break(Some(secs(period)))
}

fn hand_over(from: char, to: char, within: u64) -> Operation {
    Operation::HandOver {
        lease_id: id(from),
        to: candidate(to),
        within: secs(within),
        forced: true,
    }
}

fn switch_over(to: char, within: u64) -> Operation {
    Operation::SwitchOver {
        to: candidate(to),
        within: Some(secs(within)),
        forced: true,
    }
}

fn metadata(value: &str) -> Metadata {
    Metadata::from([("address".into(), value.into())])
}

/// A lease, its clock and its rules.
struct Lease {
    record: Record,
    now: Instant,
    rules: Rules,
}

impl Lease {
    fn with(rules: Rules) -> Self {
        Self {
            record: Record::default(),
            now: at(0),
            rules,
        }
    }

    fn native() -> Self {
        Self::with(Rules::NATIVE)
    }

    /// Creates a native lease that "a" holds since 0 s, for 60 s.
    fn held_by_a() -> Self {
        let mut lease = Self::native();
        lease.accept(&acquire('a', fixed(60)));
        lease
    }

    fn go_to(&mut self, secs: u64) -> &mut Self {
        self.now = at(secs);
        self
    }

    /// Applies `operation`, and checks that a rejection leaves the settled record unchanged.
    fn apply(&mut self, operation: &Operation) -> Result<Applied, Rejection> {
        let mut settled = self.record.clone();
        settled.settle(self.now);
        let outcome = apply(&mut self.record, operation, self.now, &self.rules);
        if outcome.is_err() {
            assert_eq!(self.record, settled, "{operation:?} was rejected");
        }
        outcome
    }

    fn accept(&mut self, operation: &Operation) -> Change {
        self.apply(operation).unwrap().change
    }

    fn reject(&mut self, operation: &Operation) -> Rejection {
        self.apply(operation).unwrap_err()
    }

    fn grant(&mut self, name: char) -> Epoch {
        match self.accept(&acquire(name, fixed(60))) {
            Change::Granted(epoch) => epoch,
            other => panic!("{name} was not granted: {other:?}"),
        }
    }

    fn state(&self) -> State {
        self.record.state(self.now)
    }

    fn left(&self) -> Duration {
        match self.record.remaining(self.now) {
            Some(LeaseDuration::Fixed(left)) => left,
            other => panic!("no time left: {other:?}"),
        }
    }
}
