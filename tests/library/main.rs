//! The library against a store in this process, over real sockets.
//!
//! One file per promise. Where safety is at stake there is no tolerance for slow machines: what
//! must not happen must never happen. Where something only has to happen eventually, the limits are
//! generous.

mod world;

mod bad_answers;
mod blocking;
mod campaigns;
mod endings;
mod losses;
mod observing;
mod runtimes;
mod shutdown;
mod step_down;
mod together;
