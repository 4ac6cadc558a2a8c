//! Appends of an operator, while no server owns the log.

use std::time::Duration;

use axum::body::Bytes;
use tenure_core::Random;
use tenure_core::ownership::{OwnerId, Tail};

use super::head::{ContentRecord, HeadRecord, ServerRecord};
use super::log::{Append, Appended, Edit, LogError, LoggedBatch, SharedLog, Sighting};
use super::recover::RecoverError;
use crate::clock;
use crate::random::OsRandom;

/// How often a call is repeated whose outcome is not known.
const ATTEMPTS: usize = 20;

/// The pause before each further attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// The name that stands in the head in place of a server's.
const NAME: &str = "tenure-cluster";

/// The outcome of an append that is known.
#[derive(Debug)]
pub(super) enum Written {
    /// It was applied: the head has these bytes.
    Done(Bytes),
    /// It was not applied: this is the head.
    Refused(Sighting),
}

/// Returns the id of an owner that nobody else has.
pub(super) fn new_owner() -> OwnerId {
    let half = || u128::from(OsRandom.next_u64());
    OwnerId(half() << 64 | half())
}

/// Returns the record of a head that no server wrote.
pub(super) fn record(head: Tail, content: ContentRecord) -> HeadRecord {
    let server = ServerRecord {
        name: NAME.into(),
        address: String::new(),
        since: clock::wall(),
    };
    HeadRecord {
        head,
        content,
        server,
        successor: None,
        note: None,
    }
}

/// Returns the note of an operator's change, for the audit log.
pub(super) fn note_of(change: &str, subject: &str) -> String {
    match clock::rfc3339(clock::wall()) {
        Some(at) => format!("{change} {subject} at {at}"),
        None => format!("{change} {subject}"),
    }
}

/// Appends the record after the head that was seen, which must still be the head.
pub(super) fn write(
    log: &mut dyn SharedLog,
    seen: &Sighting,
    record: &HeadRecord,
    batch: Option<LoggedBatch>,
    wait: &mut dyn FnMut(Duration),
) -> Result<(), RecoverError> {
    match try_write(log, seen.head.as_deref(), record, batch, &[], wait)? {
        Written::Done(_) => Ok(()),
        Written::Refused(now) => Err(used_by(&now)),
    }
}

/// Returns the error for a head that another program wrote meanwhile.
pub(super) fn used_by(now: &Sighting) -> RecoverError {
    let server = match now.head.as_deref().map(HeadRecord::decode) {
        Some(Ok(record)) => record.server.name,
        _ => "another program".into(),
    };
    RecoverError::InUse { server }
}

/// Appends the record, if the head has the expected bytes. If the outcome of an attempt is not
/// known, the same append is sent again until it is.
pub(super) fn try_write(
    log: &mut dyn SharedLog,
    expected: Option<&[u8]>,
    record: &HeadRecord,
    batch: Option<LoggedBatch>,
    edits: &[Edit],
    wait: &mut dyn FnMut(Duration),
) -> Result<Written, RecoverError> {
    let head = record.encode(clock::wall());
    let append = Append {
        expected,
        head: &head,
        batch,
        edits,
        keep_from: record.content.kept,
    };
    let mut failure = LogError::Unknown(String::new());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            wait(PAUSE);
        }
        match log.append(&append) {
            Ok(Appended::Done) => return Ok(Written::Done(head)),
            // An earlier attempt was applied.
            Ok(Appended::Refused(now)) if now.head.as_ref() == Some(&head) => {
                return Ok(Written::Done(head));
            }
            Ok(Appended::Refused(now)) => return Ok(Written::Refused(now)),
            Err(error @ LogError::Unknown(_)) => failure = error,
            Err(error) if attempt == 0 => return Err(error.into()),
            Err(error) => failure = error,
        }
    }
    let text = format!("{failure}; whether the log was changed is not known: run it again");
    Err(RecoverError::Service(text))
}
