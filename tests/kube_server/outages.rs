//! An API server that is away, frozen or starting, and its etcd.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_tests::api_server::ApiServer;

use super::{Bench, terminate, wait_for_ends};

/// A leader gives its term up after two thirds of this time, and renews after a third.
const DURATION: Duration = Duration::from_secs(9);

/// An outage that no term outlives.
const LONG: Duration = Duration::from_secs(10);

/// Ends a term by an outage: the leader stops at its deadline, another term follows, and no process
/// ends.
fn expect_end_by(test: &'static str, begin: fn(&mut ApiServer), end: fn(&mut ApiServer)) {
    let Some(mut bench) = Bench::alone(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut first = bench.run("first");
    bench.wait_for_term("first", 0);
    let mut second = bench.run("second");
    Bench::wait_for_follower(&second);
    begin(bench.server_mut());
    let begun = Instant::now();
    assert_eq!(
        wait_for_ends(&first, 1),
        ["renew_deadline"],
        "{}",
        first.stderr()
    );
    std::thread::sleep(LONG.saturating_sub(begun.elapsed()));
    end(bench.server_mut());
    bench.server.wait_until_ready();
    tenure_tests::wait_for("another term", || (bench.terms().len() > 1).then_some(()));
    let next = bench.terms()[1].candidate.clone();
    let (ended, other) = match next == "first" {
        true => (terminate(&mut first), terminate(&mut second)),
        false => (terminate(&mut second), terminate(&mut first)),
    };
    assert_eq!(ended.last().unwrap(), "shut_down");
    assert!(
        other
            .iter()
            .all(|it| it == "renew_deadline" || it == "shut_down"),
        "{other:?}"
    );
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_term_ends_at_its_deadline_while_the_api_server_is_frozen() {
    expect_end_by(
        "a_term_ends_at_its_deadline_while_the_api_server_is_frozen",
        |server| server.signal(Signal::SIGSTOP),
        |server| server.signal(Signal::SIGCONT),
    );
}

#[test]
#[ignore = "takes half a minute"]
fn a_term_ends_at_its_deadline_while_the_api_server_is_away() {
    expect_end_by(
        "a_term_ends_at_its_deadline_while_the_api_server_is_away",
        |server| server.stop(Signal::SIGTERM),
        ApiServer::spawn,
    );
}

#[test]
#[ignore = "takes half a minute"]
fn a_term_ends_at_its_deadline_while_etcd_is_frozen() {
    expect_end_by(
        "a_term_ends_at_its_deadline_while_etcd_is_frozen",
        |server| server.etcd.signal(0, Signal::SIGSTOP),
        |server| server.etcd.signal(0, Signal::SIGCONT),
    );
}

#[test]
#[ignore = "takes half a minute"]
fn a_term_ends_at_its_deadline_while_etcd_is_away() {
    expect_end_by(
        "a_term_ends_at_its_deadline_while_etcd_is_away",
        |server| server.etcd.kill(0),
        |server| {
            server.etcd.spawn(0);
            server.etcd.wait_until_ready(0);
        },
    );
}

#[test]
#[ignore = "takes half a minute"]
fn a_term_outlives_a_restart_that_is_shorter_than_its_deadline_less_a_renew_interval() {
    let test = "a_term_outlives_a_restart_that_is_shorter_than_its_deadline_less_a_renew_interval";
    // A start takes some seconds, and more on a busy machine.
    let Some(mut bench) = Bench::alone(test, 10 * DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let server = bench.server_mut();
        server.stop(signal);
        server.spawn();
        server.wait_until_ready();
        bench.wait_for_renewal();
    }
    assert_eq!(bench.terms().len(), 1, "{}", leader.stderr());
    assert_eq!(terminate(&mut leader), ["shut_down"]);
}

#[test]
#[ignore = "takes a minute"]
fn candidates_that_start_together_with_the_api_server_do_not_end() {
    let test = "candidates_that_start_together_with_the_api_server_do_not_end";
    let Some(mut bench) = Bench::alone(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    for turn in 0..3 {
        bench.server_mut().stop(Signal::SIGKILL);
        bench.server_mut().spawn();
        // One of them is among the first requests of the server, which refuses some with 403.
        let mut candidates: Vec<_> = (0..4)
            .map(|number| {
                std::thread::sleep(Duration::from_millis(300));
                bench.run(&format!("candidate-{turn}-{number}"))
            })
            .collect();
        tenure_tests::wait_for("a term", || (bench.terms().len() > turn).then_some(()));
        for candidate in &mut candidates {
            assert!(!candidate.has_ended(), "{}", candidate.stderr());
        }
        for candidate in &mut candidates {
            terminate(candidate);
        }
    }
    bench.assert_one_at_a_time();
}
