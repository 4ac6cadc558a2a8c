//! The end of a log whose content is moved elsewhere: after it, no server takes the log over.

use std::time::Duration;

use tenure_core::ownership::{Tail, TailState};

use super::change::{Written, new_owner, record, try_write};
use super::head::{Closed, HeadRecord};
use super::leftover::without_head;
use super::log::SharedLog;
use super::recover::RecoverError;

/// How often the retirement is tried again because a server appended first. An append takes
/// milliseconds, so a server that is not much quicker than this one loses the race before.
const RACES: usize = 10_000;

/// Replaces the head by a retired one. It is a take-over: everything that the owner committed is
/// before it, and no append of the owner is applied after it. A log that is retired already stays
/// as it is.
///
/// The owner may answer renewals from memory for the duration that the returned head has as its
/// ownership, counted from the end of this call.
pub(super) fn retire(
    log: &mut dyn SharedLog,
    wait: &mut dyn FnMut(Duration),
) -> Result<HeadRecord, RecoverError> {
    let mut seen = log.head()?;
    for _ in 0..RACES {
        let Some(bytes) = &seen.head else {
            return Err(without_head(log));
        };
        let before = HeadRecord::decode(bytes)?;
        let ownership = match before.head.state {
            TailState::Owned => before.head.ownership,
            // The owner answered its last request before it gave the log up.
            TailState::Vacant => Duration::ZERO,
            TailState::Retired => return Ok(before),
            TailState::Restoring => return Err(Closed::Restoring.into()),
        };
        if before.head.engine != seen.engine {
            return Err(RecoverError::OtherEngine {
                written: before.head.engine,
                answering: seen.engine,
            });
        }
        let head = Tail {
            generation: before.head.generation + 1,
            sequence: before.head.sequence + 1,
            undone: 0,
            state: TailState::Retired,
            owner: new_owner(),
            ownership,
            ..before.head
        };
        let retired = record(head, before.content);
        match try_write(log, seen.head.as_deref(), &retired, None, &[], wait)? {
            Written::Done(_) => return Ok(retired),
            Written::Refused(now) => seen = now,
        }
    }
    let text = "a server appends without a pause: stop all servers of the cluster first";
    Err(RecoverError::Service(text.into()))
}
