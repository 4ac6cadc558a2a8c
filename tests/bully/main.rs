//! `tenure run` among peers: five processes, with faults of the processes and of the network
//! between them. A fenced receiver checks the actions of their commands.

mod clocks;
mod cuts;
mod detectors;
mod disk;
mod ends;
mod freezes;
mod kills;
mod page;
mod relays;
mod requests;
mod rolling;
mod three;
mod unguarded;
mod view;
mod wrong;

use tenure_tests::group::Group;

/// Five members that are not running yet.
fn group() -> Group {
    Group::new(env!("CARGO_BIN_EXE_tenure-test-worker"))
}
