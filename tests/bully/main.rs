//! `tenure run` among peers: processes, with faults of the processes and of the network between
//! them. A fenced receiver checks the actions of their commands.

mod clocks;
mod cuts;
mod detectors;
mod disk;
mod ends;
mod freezes;
mod kills;
mod long_form;
mod relays;
mod rolling;
mod three;
mod unguarded;
mod view;
mod wrong;

use tenure_tests::group::Group;

/// Five members that are not running yet.
fn group() -> Group {
    Group::new(WORKER)
}

/// As many members that are not running yet.
fn group_of(size: u32) -> Group {
    Group::of_size(size, WORKER)
}

const WORKER: &str = env!("CARGO_BIN_EXE_tenure-test-worker");
