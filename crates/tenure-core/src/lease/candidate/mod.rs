//! A candidate that competes for a lease. It decides when to send requests, and whether it leads
//! *at a given time*.
//!
//! [`LeaseCandidate`] is a pure state machine (see [`ElectionMachine`](crate::ElectionMachine) for
//! the order of calls). In addition to the calls of all machines, it has the commands
//! [`LeaseCandidate::campaign_with`] and [`LeaseCandidate::renew_early`].
//!
//! ```text
//!           campaign           granted             resigned, task ended, lost
//!   idle ------------> campaigning -----> leading -----------------------> ending
//!    ^                     |    ^                                             |
//!    |    withdrawn        |    +-- cool-down is the driver's next campaign   | task gone
//!    +---------------------+<--------------------- releasing <---------------+
//! ```
//!
//! **Why two candidates never lead at once.** The store grants a lease to another id only after the
//! lease duration has passed on the store's clock since it accepted the last renewal. It accepted
//! the renewal after the candidate sent it. The candidate counts from *when it sent the renewal*.
//! It stops leading at the renew deadline, and has its task aborted at the hard stop, which is
//! earlier than the end of the lease by the margin. So if the drift between the two clocks is less
//! than the margin, the task is gone before the store grants the lease to another candidate. This
//! argument does not require that an answer arrives, that a timer is punctual, or that a wall clock
//! is right. It does not cover a task that can't be aborted, or a machine that is suspended in the
//! middle of a write: the epoch protects against those.
//!
//! # Examples
//!
//! A driver hands in inputs, always with the time, and executes the outputs:
//!
//! ```
//! use std::time::Duration;
//! use tenure_core::election::{ElectionMachine as _, Output, Standing, TermEvent};
//! use tenure_core::lease::candidate::{Answer, LeaseCandidate, LeaseEffect, Timings};
//! use tenure_core::{Epoch, Instant, Random};
//!
//! struct Numbers(u64); // Outside of examples: the operating system's random bits.
//! impl Random for Numbers {
//!     fn next_u64(&mut self) -> u64 {
//!         self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
//!         self.0
//!     }
//! }
//!
//! let at = |secs| Instant::default() + Duration::from_secs(secs);
//! let (mut candidate, mut random) = (LeaseCandidate::new(Timings::default()), Numbers(1));
//!
//! candidate.campaign(at(0), &mut random);
//! let Some(Output::Effect(LeaseEffect::Send { attempt, .. })) = candidate.poll_output() else {
//!     unreachable!()
//! };
//!
//! // The store grants the lease; the term counts from the request, which was sent at 0 s.
//! let epoch = Epoch::new(1_700_000_000_000).unwrap();
//! candidate.handle_message(at(1), (attempt, Answer::Held(epoch)), &mut random);
//! assert_eq!(candidate.poll_output(), Some(Output::Term(TermEvent::Began(epoch))));
//! assert_eq!(candidate.standing(at(1)), Standing::Leading { epoch, until: at(10) });
//!
//! // No renewal succeeds, so it leads no more, even if nothing reads the clock.
//! assert_eq!(candidate.standing(at(10)), Standing::Ending);
//! ```

mod campaign;
mod message;
mod release;
mod term;
mod timings;
mod voter;

mod machine;

pub use crate::election::{EndReason, Standing, TaskEnd};
pub use machine::LeaseCandidate;
pub use message::{Answer, LeaseEffect, Request};
pub use release::{RELEASE_LIMIT, WITHDRAWAL_LIMIT};
pub use timings::{MIN_RENEW_INTERVAL, TICK_INTERVAL, Timings, TimingsError, TimingsOptions};
pub use voter::{HoldState, StoreVoter};

#[cfg(test)]
mod tests;
