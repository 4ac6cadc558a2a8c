//! The candidate of lease mode: says when to send what, and whether it leads *at a given now*.
//!
//! [`Keeper`] is a pure state machine. Its methods, in the order in which a driver uses them:
//!
//! - commands: [`Keeper::campaign`], [`Keeper::resign`], [`Keeper::task_ended`];
//! - inputs: [`Keeper::handle_message`], [`Keeper::handle_timeout`];
//! - outputs, to be drained after each of the above: [`Keeper::poll_output`], then
//!   [`Keeper::poll_timeout`] for when to come back at the latest;
//! - getters, at any time: [`Keeper::standing`], [`Keeper::stop_by`].
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

mod campaign;
mod message;
mod term;
mod timings;

mod machine;

pub use machine::Keeper;
pub use message::{Answer, EndReason, Output, Request, Standing, TaskEnd};
pub use timings::{LOOK_INTERVAL, MIN_RENEW_INTERVAL, Timings, TimingsError, TimingsOptions};

#[cfg(test)]
mod tests;
