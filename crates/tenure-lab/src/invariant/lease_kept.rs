//! A lease that was granted or renewed is nobody else's until its duration has passed in true time, but
//! for what the clocks may be off, or it was given up or broken.

use super::Promises;
use crate::sim::{Event, Time, What};

/// How much shorter than its duration a lease may be, in parts of it: clocks that gain.
const CLOCKS: u32 = 50;

pub(super) fn check(history: &[Event], _: &Promises) -> Result<(), (Time, String)> {
    let led = super::led(history);
    let mut kept = None;
    for event in history {
        match event.what {
            What::Granted { epoch, .. } => {
                if let Some((before, until)) = kept
                    && event.at < until
                {
                    let what = format!(
                        "epoch {epoch} is granted, and epoch {before} had the lease until {until}"
                    );
                    return Err((event.at, what));
                }
            }
            What::Counts(epoch, duration) if led.contains(&epoch) => {
                kept = Some((epoch, event.at + (duration - duration / CLOCKS)));
            }
            What::GivenUp(_) => kept = None,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{PROMISES, epoch, history};
    use super::*;
    use std::time::Duration;
    use tenure_core::NodeId;

    fn granted(number: u64) -> What {
        What::Granted {
            epoch: epoch(number),
            to: NodeId(1),
            id: number,
        }
    }

    #[test]
    fn a_grant_before_the_end_of_a_lease_is_found() {
        let counts = |number| What::Counts(epoch(number), Duration::from_secs(15));
        let begin = [
            (0, 0, granted(1)),
            (0, 0, counts(1)),
            (1, 1, What::Acts(Some(epoch(1)))),
            (5, 0, counts(1)),
        ];
        let early = begin.clone().into_iter().chain([(19, 0, granted(2))]);
        assert!(check(&history(early), &PROMISES).is_err());
        let in_time = begin.clone().into_iter().chain([(20, 0, granted(2))]);
        assert_eq!(check(&history(in_time), &PROMISES), Ok(()));
        let given_up = [(6, 0, What::GivenUp(epoch(1))), (6, 0, granted(2))];
        let given_up = begin.into_iter().chain(given_up);
        assert_eq!(check(&history(given_up), &PROMISES), Ok(()));
    }
}
