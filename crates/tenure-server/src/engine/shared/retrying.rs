//! A log whose reads are repeated, for the commands of operators.

use std::thread;
use std::time::Duration;

use super::log::{
    Append, Appended, LogError, LoggedBatch, Page, Place, PlaceRange, ServiceFacts, SharedLog,
    Sighting,
};

/// The number of attempts of a read. After each one another member of the service is asked, if there
/// are several.
const ATTEMPTS: usize = 5;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// A log whose reads are repeated if they get no answer. Servers do not use it: they read again at
/// their next look. Appends are sent once, because a caller must know whether an earlier attempt may have
/// been applied.
#[derive(Debug)]
pub(crate) struct RetryingLog(pub(crate) Box<dyn SharedLog>);

/// Repeats a read until its outcome is definite, or the attempts are used up.
fn repeat<T>(mut read: impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(LogError::Unknown(_) | LogError::NotApplied(_)) => thread::sleep(PAUSE),
            definite => return definite,
        }
    }
    read()
}

impl SharedLog for RetryingLog {
    fn head(&mut self) -> Result<Sighting, LogError> {
        repeat(|| self.0.head())
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        self.0.append(append)
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        repeat(|| self.0.batches(after))
    }

    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        repeat(|| self.0.places(range))
    }

    fn ranges(&self, leases: u64) -> usize {
        self.0.ranges(leases)
    }

    fn pages(&mut self, ranges: &[PlaceRange]) -> Vec<Result<Page, LogError>> {
        self.0.pages(ranges)
    }

    fn maintain(&mut self) {
        self.0.maintain();
    }

    fn facts(&self) -> ServiceFacts {
        self.0.facts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Connect;
    use super::super::memory::{Fault, MemoryService};
    use super::*;

    #[test]
    fn a_read_without_an_answer_is_repeated_and_a_definite_refusal_is_not() {
        let connect = MemoryService::new().connect();
        let mut log = RetryingLog(connect.connect().unwrap());
        connect.fail_reads([Some(Fault::LoseRequest), Some(Fault::NotApplied)]);
        assert!(log.head().is_ok());
        connect.fail_reads([Some(Fault::LoseRequest); ATTEMPTS]);
        assert!(matches!(log.head(), Err(LogError::Unknown(_))));
        connect.fail_reads([Some(Fault::Misconfigured)]);
        assert!(matches!(log.head(), Err(LogError::Misconfigured(_))));
    }
}
