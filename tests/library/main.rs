//! The library against a store in this process, over real sockets.
//!
//! One file per promise. Where safety is at stake nothing is granted for slowness: what must not
//! happen must not happen at all. Where something has only to happen at last, there is patience.

mod world;

mod blocking;
mod campaigns;
mod endings;
mod ladder;
mod losses;
mod observing;
mod runtimes;
mod shutdown;
mod strangers;
mod together;
