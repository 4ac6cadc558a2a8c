//! `tenure run` among peers: five processes, and what may happen to them and to the network between
//! them. What their commands do is judged at a fenced receiver.

mod clocks;
mod cuts;
mod disk;
mod ends;
mod freezes;
mod kills;
mod rolling;
mod three;
mod unguarded;
mod view;
mod wrong;

use tenure_tests::group::Group;

/// Five members that are not started yet.
fn group() -> Group {
    Group::new(env!("CARGO_BIN_EXE_tenure-test-worker"))
}
