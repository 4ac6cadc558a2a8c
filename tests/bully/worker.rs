//! A leader's command, for tests with processes: it acts at the receiver every few milliseconds, as
//! long as it runs, or writes ticks into a file.
//!
//! Argument: the receiver, or the path of the file.

use std::env::var;
use std::fs::File;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use tenure_tests::receiver::{Link, now};
use tenure_tests::ticks::boot_time;

/// The interval of its actions. The next one is that of its ticks.
const PACE: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(10);

fn main() {
    let target = std::env::args().nth(1).expect("a receiver or a file");
    let member = var("TENURE_CANDIDATE").expect("a member");
    let epoch = var("TENURE_EPOCH").expect("an epoch");
    let epoch: u64 = epoch.parse().expect("a number");
    if target.starts_with('/') {
        let file = File::options().append(true).create(true).open(target);
        let mut file = file.expect("a file");
        loop {
            // One write, as other leaders append to the same file.
            let line = format!("{} {member} {epoch}\n", boot_time().as_millis());
            file.write_all(line.as_bytes()).expect("a tick");
            sleep(TICK);
        }
    }
    let mut link = Link::connect(target.parse().expect("an address"), &member);
    loop {
        // The command only knows that it is running, so it considers itself the leader at this
        // instant.
        let at = now();
        link.act(epoch, at, at);
        sleep(PACE);
    }
}
