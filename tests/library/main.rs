//! The library against a store in this process, over real sockets.
//!
//! Each file tests one promise. A safety property must hold at every instant. A liveness property
//! must hold within a generous limit.

mod world;

mod bad_answers;
mod blocking;
mod campaigns;
mod endings;
mod fallback;
mod fence;
mod losses;
mod observing;
mod overruns;
mod router;
mod runtimes;
mod shutdown;
mod step_down;
mod together;
