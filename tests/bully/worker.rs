//! A leader's command, for the tests of elections among peers: it acts at the receiver every few
//! milliseconds, as long as it runs.
//!
//! Argument: the receiver.

use std::env::var;
use std::thread::sleep;
use std::time::Duration;

use tenure_tests::receiver::{Link, now};

/// The interval of its actions.
const PACE: Duration = Duration::from_millis(5);

fn main() {
    let receiver = std::env::args().nth(1).expect("a receiver");
    let member = var("TENURE_CANDIDATE").expect("a member");
    let epoch = var("TENURE_EPOCH").expect("an epoch");
    let epoch = epoch.parse().expect("a number");
    let mut link = Link::connect(receiver.parse().expect("an address"), &member);
    loop {
        // The command only knows that it is running, so it considers itself the leader at this
        // instant.
        let at = now();
        link.act(epoch, at, at);
        sleep(PACE);
    }
}
