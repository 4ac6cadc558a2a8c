//! Candidates of tenure and of other programs on one object, each as published.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::electors::Elector;
use tenure_tests::wait_for;

use super::{Bench, LEASE, ends, terminate};

/// The defaults of client-go.
const DURATION: Duration = Duration::from_secs(15);

/// A leader of tenure is killed, then one of the other program, and the other side takes the object each
/// time when it has expired. Then the other program takes the object from a leader that ends, and ends
/// itself.
fn take_turns(test: &'static str, elector: Elector, releases: bool) {
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let first = bench.run("first");
    bench.wait_for_term("first", 0);
    let Some(other) = bench.start(elector, "other") else {
        return;
    };
    wait_for_look(&bench);
    first.signal(Signal::SIGKILL);
    let before = bench.wait_for_term("first", 0);
    let term = bench.wait_for_term("other", 0);
    assert!(
        term.first - before.last > DURATION / 2,
        "{before:?} {term:?}"
    );
    let mut second = bench.run("second");
    wait_for_look(&bench);
    other.signal(Signal::SIGKILL);
    let after = bench.wait_for_term("second", 0);
    let term = bench.wait_for_term("other", 0);
    assert!(after.first - term.last > DURATION / 2, "{term:?} {after:?}");
    let mut other = bench.start(elector, "another").unwrap();
    wait_for_look(&bench);
    assert_eq!(terminate(&mut second), ["shut_down"]);
    let before = bench.wait_for_term("second", 0);
    let term = bench.wait_for_term("another", 0);
    assert!(
        term.first - before.last < DURATION / 2,
        "{before:?} {term:?}"
    );
    let mut third = bench.run("third");
    wait_for_look(&bench);
    other.signal(Signal::SIGTERM);
    other.wait();
    let term = bench.wait_for_term("another", 0);
    let after = bench.wait_for_term("third", 0);
    let gap = after.first - term.last;
    assert_eq!(gap < DURATION / 2, releases, "{gap:?}");
    assert_eq!(ends(&third), [""; 0]);
    assert_eq!(terminate(&mut third), ["shut_down"]);
    bench.assert_one_at_a_time();
    let lease = bench.lease();
    assert!(
        lease["metadata"]["annotations"]["tenure/epoch"].is_string(),
        "{lease}"
    );
}

/// Waits until every candidate has surely read the object: two intervals of client-go.
fn wait_for_look(bench: &Bench) {
    std::thread::sleep(DURATION * 4 / 15);
    bench.wait_for_renewal();
}

#[test]
#[ignore = "takes a minute and a half"]
fn client_go_and_our_candidates_take_over_from_each_other() {
    let test = "client_go_and_our_candidates_take_over_from_each_other";
    take_turns(test, Elector::ClientGo, false);
}

#[test]
#[ignore = "takes a minute and a half"]
fn a_client_go_that_releases_and_our_candidates_take_over_from_each_other() {
    let test = "a_client_go_that_releases_and_our_candidates_take_over_from_each_other";
    take_turns(test, Elector::ReleasingClientGo, true);
}

#[test]
#[ignore = "takes a minute and a half"]
fn an_old_client_go_and_our_candidates_take_over_from_each_other() {
    let test = "an_old_client_go_and_our_candidates_take_over_from_each_other";
    take_turns(test, Elector::OldClientGo, true);
}

#[test]
#[ignore = "takes a minute and a half"]
fn a_manager_of_controller_runtime_and_our_candidates_take_over_from_each_other() {
    let test = "a_manager_of_controller_runtime_and_our_candidates_take_over_from_each_other";
    take_turns(test, Elector::ControllerRuntime, true);
}

#[test]
#[ignore = "takes a minute and a half"]
fn the_python_client_on_a_real_server_and_our_candidates_take_over_from_each_other() {
    let test = "the_python_client_on_a_real_server_and_our_candidates_take_over_from_each_other";
    take_turns(test, Elector::Python, false);
}

#[test]
#[ignore = "takes half a minute"]
fn after_a_deletion_on_a_real_server_epochs_increase_and_the_old_leader_stops_by_itself() {
    let test =
        "after_a_deletion_on_a_real_server_epochs_increase_and_the_old_leader_stops_by_itself";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let mut follower = bench.run("follower");
    Bench::wait_for_follower(&follower);
    bench.wait_for_renewal();
    wait_for_look(&bench);
    let path = tenure_tests::api_server::lease_path(&bench.place.namespace, LEASE);
    bench.server.must(reqwest::Method::DELETE, &path, None);
    // A candidate that starts now has not seen the object, and may take it beside the leader.
    let mut new = bench.run("new");
    let term = bench.wait_for_term("new", 0);
    assert_eq!(super::wait_for_ends(&leader, 1), ["superseded"]);
    let before = bench.wait_for_term("leader", 0);
    assert!(term.epoch > before.epoch, "{before:?} {term:?}");
    let late = before.last.saturating_sub(term.first);
    assert!(late < DURATION, "{late:?}");
    assert_eq!(terminate(&mut new), ["shut_down"]);
    for candidate in [&mut leader, &mut follower] {
        assert!(
            terminate(candidate)
                .iter()
                .all(|it| it == "superseded" || it == "shut_down")
        );
    }
    let epochs: Vec<u64> = bench.terms().iter().map(|it| it.epoch).collect();
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
}

#[test]
#[ignore = "takes half a minute"]
fn an_etcd_that_goes_back_makes_no_second_leader_among_candidates_that_saw_its_last_version() {
    let test =
        "an_etcd_that_goes_back_makes_no_second_leader_among_candidates_that_saw_its_last_version";
    let Some(mut bench) = Bench::alone(test, 4 * DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let mut follower = bench.run("follower");
    Bench::wait_for_follower(&follower);
    let server = bench.server_mut();
    server.etcd.kill(0);
    let (data, copy) = (server.etcd.data_dir(0), server.etcd.data_dir(1));
    let copied = |from, to| {
        let copied = std::process::Command::new("cp")
            .arg("-rT")
            .args([from, to])
            .status();
        assert!(copied.unwrap().success());
    };
    copied(&data, &copy);
    server.etcd.spawn(0);
    server.wait_until_ready();
    bench.wait_for_renewal();
    wait_for_look(&bench);
    let server = bench.server_mut();
    server.stop(Signal::SIGKILL);
    server.etcd.kill(0);
    std::fs::remove_dir_all(&data).unwrap();
    copied(&copy, &data);
    server.etcd.spawn(0);
    server.spawn();
    server.wait_until_ready();
    bench.wait_for_renewal();
    bench.wait_for_renewal();
    let ended = terminate(&mut leader);
    assert!(
        ended
            .iter()
            .all(|it| it == "superseded" || it == "shut_down"),
        "{ended:?}"
    );
    wait_for("a term of the follower", || {
        (bench.terms().last()?.candidate == "follower").then_some(())
    });
    assert_eq!(terminate(&mut follower), ["shut_down"]);
    bench.assert_one_at_a_time();
}
