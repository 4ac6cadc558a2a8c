//! Ownership of a shared log: at most one server of a cluster accepts requests at a time.
//!
//! [`Ownership`] is a pure state machine for one server. The servers don't communicate with each
//! other; each of them reads and replaces the [`Tail`] of a log that they share, for example of a
//! [`ring`](crate::ring). The service that keeps the log needs one operation that decides: an
//! **append** replaces exactly one tail by the next one, and writes a batch together with it. So an
//! append is the commit, the fence, the heartbeat and the take-over.
//!
//! ```text
//!  following --(tail unchanged for T, or vacant)--> taking --(done)--> loading --> active <-> lapsed
//!      ^                                              |                   |           |
//!      +------(refused: another server was first)-----+   (an append is refused: deposed)
//!      +--------------------------------------------------------<---------+-----------+
//! ```
//!
//! # Why two servers never accept requests at once
//!
//! T is the ownership duration, m its margin of T/6. Let `s` be the reading of the owner's clock
//! before the *first* send of its last successful append.
//!
//! 1. **One chain.** An append replaces exactly the tail that it names. The service orders the
//!    appends, so each has one predecessor. A take-over is an append. After the take-over of
//!    generation g + 1, no append of generation g is applied, however late its packets arrive.
//! 2. **Changes need no clock.** A grant, a release or an expiry is answered only after its append
//!    has succeeded. The next owner loads all of them.
//! 3. **Answers from memory need the clock.** A renewal or a read is answered only if the clock
//!    reads less than [`serves_until`](Ownership::serves_until), which is `s + T - m`. The server
//!    must read the clock *after* it has looked at the lease: a reading before the look says
//!    nothing about a pause between the two.
//! 4. **A follower counts from the arrival.** It counts T from `r`, when the first answer with this
//!    tail arrived. The owner sent the tail before that: `s <= r`. The follower's append names
//!    this tail, so if the append succeeds, the owner has not appended since.
//! 5. So while T - m on the owner's clock is not longer than T on the follower's clock (their rates
//!    differ by less than a factor of 1.2), every answer from memory was accepted before the
//!    take-over was sent, and so before it was applied.
//! 6. **Grace.** The next owner counts all leases as renewed at an instant *after* the answer to
//!    its take-over. A renewal that was ever acknowledged was sent before that instant.
//! 7. **Unknown outcomes.** After a timeout nobody knows whether an append was applied, or will be.
//!    So the machine repeats exactly this append until an attempt shows the outcome: the tail of
//!    the append itself stands in the log, or another tail does.
//! 8. **A read proves nothing.** It proves neither ownership nor that a commit is durable. A stale
//!    read can only make a take-over fail.
//! 9. **A log that went back stays refused.** The service has lost appends that this server knows.
//!    A server that was started later goes on from the older tail, and its tails grow past the one
//!    that this server knows. They are no successors of it, and positions alone can't show that. So
//!    this server refuses until it is started again, which an operator does after a recovery.
//!
//! If the rates of two clocks differ by more, or a machine is frozen for longer than T, then 1, 2
//! and 8 still hold: epochs increase, and receivers refuse stale writes.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use tenure_core::Instant;
//! use tenure_core::ownership::{
//!     HomeId, Found, Look, AppendOutcome, OwnershipOutput, OwnerId, Ownership, OwnershipTimings, OwnershipRole,
//!     Observation,
//! };
//!
//! let at = |millis| Instant::default() + Duration::from_millis(millis);
//! let timings = OwnershipTimings::new(Duration::from_secs(3))?;
//! let mut ownership = Ownership::new(timings, OwnerId(1), at(0));
//!
//! // The server reads the tail. The log is empty, so the server appends the first tail.
//! assert_eq!(ownership.poll_output(), Some(OwnershipOutput::Look));
//! let empty = Observation { home: HomeId(7), found: Found::Empty };
//! ownership.handle_tail(at(10), Look::Found(empty));
//! let Some(OwnershipOutput::Append(tail)) = ownership.poll_output() else { unreachable!() };
//! assert_eq!((tail.generation, tail.sequence), (1, 1));
//!
//! // The append is done, and the server loads the content of the log.
//! assert_eq!(ownership.handle_appended(at(30), AppendOutcome::Committed), AppendOutcome::Committed);
//! assert_eq!(ownership.poll_output(), Some(OwnershipOutput::Took { generation: 1 }));
//! assert_eq!(ownership.role(at(30)), OwnershipRole::Loading);
//!
//! // The server accepts requests until 5/6 T after it sent the append.
//! ownership.handle_loaded(at(40), 1);
//! assert_eq!(ownership.role(at(40)), OwnershipRole::Active);
//! assert_eq!(ownership.serves_until(), Some(at(10 + 2_500)));
//! # Ok::<(), tenure_core::ownership::OwnershipTimingsError>(())
//! ```

mod follow;
mod machine;
mod message;
mod own;
mod tail;
mod timings;

pub use machine::Ownership;
pub use message::{
    AppendOutcome, Found, Look, Observation, OwnershipOutput, OwnershipRole, Refusal,
};
pub use tail::{HomeId, OwnerId, Tail, TailState};
#[cfg(test)]
mod tests;

pub use timings::{OwnershipTimings, OwnershipTimingsError};
