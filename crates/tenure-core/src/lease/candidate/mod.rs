//! The candidate of lease mode: says when to send what, and whether it leads *at a given now*.
//!
//! [`LeaseCandidate`] is a pure state machine. Its methods, in the order in which a driver uses them:
//!
//! - commands: [`LeaseCandidate::campaign`], [`LeaseCandidate::campaign_with`], [`LeaseCandidate::resign`],
//!   [`LeaseCandidate::hand_over`], [`LeaseCandidate::renew_early`], [`LeaseCandidate::task_ended`];
//! - inputs: [`LeaseCandidate::handle_message`], [`LeaseCandidate::handle_timeout`], [`LeaseCandidate::handle_progress`];
//! - outputs, to be drained after each of the above: [`LeaseCandidate::poll_output`], then
//!   [`LeaseCandidate::poll_timeout`] for when to come back at the latest;
//! - getters, at any time: [`LeaseCandidate::standing`], [`LeaseCandidate::stop_by`].
//!
//! ```text
//!           campaign           granted             resigned, task ended, lost
//!   idle ------------> campaigning -----> leading -----------------------> ending
//!    ^                     |    ^                                             |
//!    |    withdrawn        |    +-- cool-down is the driver's next campaign   | task gone
//!    +---------------------+<--------------------- releasing <---------------+
//! ```
//!
//! **Why two keepers never lead at once.** The store grants a lease to another id only after the
//! lease duration has passed on its clock since it accepted the last renewal. It accepted it after
//! it was sent. The keeper counts from *when it was sent*, stops leading at the renew deadline and
//! has its task aborted at the hard stop, which is before the lease duration by the margin. So as
//! long as the two clocks differ in rate by less than the margin, its task is gone before anybody
//! else is granted. Nothing in this argument needs an answer to arrive, a timer to be punctual or
//! a wall clock to be right. A task that can't be aborted, or a machine that stands still in the
//! middle of a write, is outside of it: that is what the epoch is for.
//!
//! # Examples
//!
//! A driver hands in what comes, always with the time, and does what comes out:
//!
//! ```
//! use std::time::Duration;
//! use tenure_core::election::{ElectionMachine as _, Output, Standing, TermEvent};
//! use tenure_core::lease::candidate::{Answer, LeaseCandidate, LeaseEffect, Timings};
//! use tenure_core::{Epoch, Instant, Random};
//!
//! struct Dice(u64); // Outside of examples: the operating system's random bits.
//! impl Random for Dice {
//!     fn next_u64(&mut self) -> u64 {
//!         self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
//!         self.0
//!     }
//! }
//!
//! let at = |secs| Instant::default() + Duration::from_secs(secs);
//! let (mut keeper, mut dice) = (LeaseCandidate::new(Timings::default()), Dice(1));
//!
//! keeper.campaign(at(0), &mut dice);
//! let Some(Output::Effect(LeaseEffect::Send { attempt, .. })) = keeper.poll_output() else {
//!     unreachable!()
//! };
//!
//! // The store grants the lease; what counts is that the request was sent at 0 s.
//! let epoch = Epoch::new(1_700_000_000_000).unwrap();
//! keeper.handle_message(at(1), (attempt, Answer::Held(epoch)), &mut dice);
//! assert_eq!(keeper.poll_output(), Some(TermEvent::Began(epoch).into()));
//! assert_eq!(keeper.standing(at(1)), Standing::Leading { epoch, until: at(10) });
//!
//! // No renewal succeeds: whether anybody looks at the clock or not, it leads no more.
//! assert_eq!(keeper.standing(at(10)), Standing::Ending);
//! ```

mod campaign;
mod message;
mod release;
mod term;
mod timings;

mod machine;

pub use crate::election::{EndReason, Standing, TaskEnd};
pub use machine::LeaseCandidate;
pub use message::{Answer, LeaseEffect, Request};
pub use timings::{MIN_RENEW_INTERVAL, TICK_INTERVAL, Timings, TimingsError, TimingsOptions};

#[cfg(test)]
mod tests;
