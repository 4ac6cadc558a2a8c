//! Clients that acquire a lease, hold it for a while, and end their terms in every possible way.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::lease::LeaseId;
use tenure_core::wire::Code;

use super::{QUIET, ROUGH, RequestResult, SPARSE, Session, lease_id};
use crate::history::{Answer, Ask};

/// How long a patient client waits for an answer.
const PATIENT: Duration = Duration::from_secs(12);

/// How often a client repeats an acquire with the same lease id.
const ASKS: usize = 12;

/// One attempt to hold a lease.
struct Attempt {
    client: u64,
    number: u64,
    changes: u64,
    lease: &'static str,
    holder: String,
    duration_ms: u64,
    wait_ms: u64,
    lock_delay_ms: u64,
    min_epoch: Option<u64>,
    is_impatient: bool,
    is_sparse: bool,
}

impl Attempt {
    const fn id(&self) -> LeaseId {
        lease_id(self.client, self.number, self.changes)
    }

    const fn acquire(&self) -> Ask {
        Ask::Acquire {
            id: self.id(),
            duration_ms: self.duration_ms,
            wait_ms: self.wait_ms,
            lock_delay_ms: self.lock_delay_ms,
            min_epoch: self.min_epoch,
        }
    }
}

pub(super) async fn run(mut session: Session, client: u64) {
    let is_sparse = client % 8 == 7;
    for number in 0.. {
        if session.state.is_over() {
            return;
        }
        let attempt = begin(&mut session, client, number, is_sparse);
        if acquire(&mut session, &attempt).await {
            let attempt = hold(&mut session, attempt).await;
            end(&mut session, &attempt).await;
        }
        let longest = if is_sparse { 500 } else { 60 };
        session.pause(1, longest).await;
    }
}

fn begin(session: &mut Session, client: u64, number: u64, is_sparse: bool) -> Attempt {
    let lease = if is_sparse {
        session.dice.one_of(&SPARSE)
    } else if session.happens(80) {
        session.dice.one_of(&QUIET)
    } else {
        session.dice.one_of(&ROUGH)
    };
    let holder = format!("{}-{number}", session.name);
    session.state.attempt(lease, holder.clone());
    Attempt {
        client,
        number,
        changes: 0,
        lease,
        holder,
        duration_ms: session
            .dice
            .one_of(&[1_000, 1_000, 1_000, 1_000, 1_500, 2_000, 3_000]),
        wait_ms: if is_sparse {
            0
        } else {
            session.dice.one_of(&[0, 400, 3_000, 8_000, 8_000, 8_000])
        },
        lock_delay_ms: session.dice.one_of(&[0, 0, 0, 0, 200, 900]),
        min_epoch: session.happens(3).then(|| ahead_of_clock(session)),
        is_impatient: session.happens(80),
        is_sparse,
    }
}

/// An epoch that a candidate may request: up to 20 days ahead of the clock of this machine, which
/// the store may have as well.
fn ahead_of_clock(session: &mut Session) -> u64 {
    let day = Duration::from_secs(24 * 60 * 60).as_millis() as u64;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let clock = clock.map_or(0, |clock| clock.as_millis() as u64);
    clock + session.dice.below(20 * day)
}

/// The time to wait for an answer.
fn patience(session: &mut Session, attempt: &Attempt) -> Duration {
    if attempt.is_impatient {
        session.millis(50, 500)
    } else {
        PATIENT
    }
}

/// Repeats the acquire with the same lease id until an answer comes. Returns whether the client
/// holds the lease.
async fn acquire(session: &mut Session, attempt: &Attempt) -> bool {
    session.keep_spare().await;
    for round in 0..ASKS {
        if session.state.is_over() {
            return false;
        }
        // Over an open connection or a new one.
        let connection = if session.happens(70) {
            session.connection().await
        } else {
            session.new_connection().await
        };
        let Some(connection) = connection else {
            continue;
        };
        // Some clients that give up while the store is stopped must wait over their next connection
        // until the store resumes: it then finds their first connection closed.
        let patience = match (attempt.is_impatient, round) {
            (true, 0) => session.millis(50, 500),
            (true, _) => session.millis(50, 2_000),
            (false, _) => PATIENT,
        };
        let holder = Some(attempt.holder.as_str());
        let asked = session.ask_over(
            connection,
            attempt.lease,
            holder,
            attempt.acquire(),
            patience,
        );
        match asked.await {
            RequestResult::Answered(Answer::View(_)) => return true,
            RequestResult::Answered(Answer::Refused(problem)) if problem.status >= 500 => {
                session.pause(20, 150).await;
            }
            // The time of the wait was over. Half of the clients ask again, and have their place.
            RequestResult::Answered(Answer::Refused(problem))
                if problem.code == Code::LeaseHeld && session.happens(50) =>
            {
                session.pause(1, 50).await;
            }
            RequestResult::Answered(_) => return false,
            RequestResult::Broken => session.pause(5, 50).await,
            // The client closes the connection before or after the next acquire, or only after the
            // answer.
            RequestResult::Late(late) => match session.dice.below(3) {
                0 => late.give_up(),
                1 => late.give_up_after(session.millis(0, 12)),
                _ => late.give_up_after(session.millis(500, 3_000)),
            },
        }
        // The client gives up, so no client gets the answer.
        if session.happens(4) {
            return false;
        }
    }
    false
}

/// Holds the lease for a while, with random requests of a holder.
async fn hold(session: &mut Session, mut attempt: Attempt) -> Attempt {
    let steps = if attempt.is_sparse {
        session.dice.one_of(&[0, 0, 1])
    } else {
        session.dice.one_of(&[0, 1, 1, 1, 2, 4, 7])
    };
    for _ in 0..steps {
        if attempt.is_sparse || session.happens(60) {
            session.pause(1, 50).await;
        } else {
            session
                .pause(attempt.duration_ms / 8, attempt.duration_ms / 2)
                .await;
        }
        let id = attempt.id();
        let ask = match session.dice.below(100) {
            0..60 => Ask::Renew {
                id,
                duration_ms: None,
            },
            60..68 => Ask::Renew {
                id,
                duration_ms: Some(1_000 + session.dice.below(2_000)),
            },
            68..80 => attempt.acquire(),
            80..88 => Ask::Metadata { id },
            _ => Ask::Change {
                id,
                proposed: lease_id(attempt.client, attempt.number, attempt.changes + 1),
            },
        };
        let is_change = matches!(ask, Ask::Change { .. });
        match ask_until_answered(session, &attempt, ask).await {
            Some(Answer::View(_)) => attempt.changes += u64::from(is_change),
            Some(Answer::Refused(problem)) if problem.code != Code::DiskFull => break,
            // It is unknown which of the two ids holds the lease, so the client uses neither.
            None if is_change => break,
            _ => {}
        }
    }
    attempt
}

/// Repeats the request until an answer comes.
async fn ask_until_answered(session: &mut Session, attempt: &Attempt, ask: Ask) -> Option<Answer> {
    for _ in 0..4 {
        let patience = patience(session, attempt);
        let holder = Some(attempt.holder.as_str());
        let answer = session.ask(attempt.lease, holder, ask.clone(), patience);
        if let Some(answer) = answer.await {
            return Some(answer);
        }
        if matches!(ask, Ask::Change { .. }) {
            break;
        }
    }
    None
}

/// Ends the term, or lets the lease expire.
async fn end(session: &mut Session, attempt: &Attempt) {
    let id = attempt.id();
    let last = match session.dice.below(100) {
        // The client disappears, and the lease expires.
        0..15 if !attempt.is_sparse => None,
        15..25 => {
            let to = session
                .state
                .recent_holder(attempt.lease, &mut session.dice)
                .unwrap_or_else(|| "nobody".into());
            Some(Ask::HandOver {
                id: Some(id),
                to,
                within_ms: 100 + session.dice.below(700),
                force: session.happens(50),
            })
        }
        _ => Some(Ask::Release { id }),
    };
    if let Some(last) = &last {
        ask_until_answered(session, attempt, last.clone()).await;
    }
    // An old request arrives again.
    if session.happens(if attempt.is_sparse { 90 } else { 35 }) {
        let first = lease_id(attempt.client, attempt.number, 0);
        let again = match session.dice.below(4) {
            0 => Ask::Renew {
                id: first,
                duration_ms: None,
            },
            1 => last.unwrap_or(Ask::Release { id: first }),
            _ => Ask::Acquire {
                id: first,
                duration_ms: attempt.duration_ms,
                wait_ms: attempt.wait_ms.min(1_000),
                lock_delay_ms: attempt.lock_delay_ms,
                min_epoch: attempt.min_epoch,
            },
        };
        session.repeat_later(attempt.lease, &attempt.holder, again);
    }
}
