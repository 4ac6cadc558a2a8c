//! Two or three servers and a home, in every order of events within small bounds.
//!
//! A server that starts, or that is behind, reads the slots one at a time, and then the files. A
//! replace that was sent stays deliverable while the version that it names stands in its slot, which
//! covers late, lost and repeated ones, and lost answers. A call may be given up at any time, as
//! unknown. A base has two chunks that are written at different moments. Servers crash, and former
//! owners delete files. The ring and the ownership are the shipped ones.
//!
//! The version of a slot is a hash of its bytes, as in a bucket. Time has few ticks, and all clocks
//! show the same time: the models of the ownership have rates and pauses.

extern crate std;

mod checks;
mod events;
mod state;
