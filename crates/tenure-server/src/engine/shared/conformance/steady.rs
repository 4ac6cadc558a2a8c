//! A log whose calls are repeated until their outcome is known, as a server does it. On a busy
//! machine a service answers that the time is over, and may apply the append later.

use std::thread;
use std::time::{Duration, Instant};

use super::super::log::{
    Append, Appended, LogError, LoggedBatch, Page, Place, PlaceRange, ServiceFacts, SharedLog,
    Sighting,
};

/// How long a call is repeated. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats a call until its outcome is definite.
pub(crate) fn until_definite<T>(
    mut call: impl FnMut() -> Result<T, LogError>,
) -> Result<T, LogError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match call() {
            Err(LogError::Unknown(_) | LogError::NotApplied(_)) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

/// A connection for tests that expect a definite outcome of each call.
#[derive(Debug)]
pub(crate) struct Steady(pub(crate) Box<dyn SharedLog>);

impl Steady {
    /// Returns whether the log has exactly this batch.
    fn has(&mut self, batch: &LoggedBatch) -> Result<bool, LogError> {
        Ok(self.batches(batch.sequence - 1)?.first() == Some(batch))
    }
}

impl SharedLog for Steady {
    fn head(&mut self) -> Result<Sighting, LogError> {
        until_definite(|| self.0.head())
    }

    fn append(&mut self, append: &Append<'_>) -> Result<Appended, LogError> {
        let mut is_unknown = false;
        let outcome = until_definite(|| {
            let outcome = self.0.append(append);
            is_unknown |= matches!(outcome, Err(LogError::Unknown(_)));
            outcome
        });
        // The attempt of unknown outcome was applied if its head or its batch is there.
        if let (true, Ok(Appended::Refused(shown))) = (is_unknown, &outcome) {
            let is_applied = shown.head.as_deref() == Some(append.head)
                || match &append.batch {
                    Some(batch) => self.has(batch)?,
                    None => false,
                };
            if is_applied {
                return Ok(Appended::Done);
            }
        }
        outcome
    }

    fn batches(&mut self, after: u64) -> Result<Vec<LoggedBatch>, LogError> {
        until_definite(|| self.0.batches(after))
    }

    fn places(&mut self, range: &PlaceRange) -> Result<Vec<Place>, LogError> {
        until_definite(|| self.0.places(range))
    }

    fn ranges(&self, leases: u64) -> usize {
        self.0.ranges(leases)
    }

    fn pages(&mut self, ranges: &[PlaceRange]) -> Vec<Result<Page, LogError>> {
        let pages = self.0.pages(ranges).into_iter().zip(ranges);
        let pages = pages.map(|(page, range)| match page {
            Err(LogError::Unknown(_) | LogError::NotApplied(_)) => {
                let places = self.places(range)?;
                let is_last = places.is_empty();
                Ok(Page { places, is_last })
            }
            page => page,
        });
        pages.collect()
    }

    fn maintain(&mut self) {
        self.0.maintain();
    }

    fn facts(&self) -> ServiceFacts {
        self.0.facts()
    }
}
