//! Two or three servers and a service, in every order of events within small bounds.
//!
//! A server may be paused at any time, for any time: its timers and the answers to its calls are
//! handled when the search chooses to. A call may be given up at any time, as unknown. An append
//! that was sent stays deliverable for ever, which covers lost, late and repeated appends. A server
//! may restart; it then has another owner id, and its old appends may still arrive. Servers load
//! the content at any time after their take-over.
//!
//! Time has few ticks. All clocks show the same time, except that a clock may lose a tick: the
//! margin is one tick.

extern crate std;

mod checks;
mod events;
mod planted;
mod state;
