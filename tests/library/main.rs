//! The library against a store in this process, over real sockets.
//!
//! One file per promise. A safety property must hold at every instant. A liveness property may take
//! until a generous limit.

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
