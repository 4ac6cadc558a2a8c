//! Tokens that expire by time, and another authority of the server's certificate.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::wait_for;

use super::{Bench, terminate, wait_for_ends};

#[test]
#[ignore = "takes a minute"]
fn a_leader_outlives_its_tokens_if_they_are_replaced_and_stops_at_its_deadline_if_not() {
    const DURATION: Duration = Duration::from_secs(9);
    /// The server keeps its decision on a token for 10 s.
    const VALID: Duration = Duration::from_secs(12);
    let test = "a_leader_outlives_its_tokens_if_they_are_replaced_and_stops_at_its_deadline_if_not";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let namespace = &bench.place.namespace;
    let replace = || bench.write_token(&bench.server.sign_token(namespace, "worker", VALID));
    replace();
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    for _ in 0..3 {
        std::thread::sleep(VALID * 2 / 3);
        replace();
    }
    bench.wait_for_renewal();
    assert_eq!(bench.terms().len(), 1, "{}", leader.stderr());
    assert_eq!(wait_for_ends(&leader, 1), ["renew_deadline"]);
    assert!(leader.stderr().contains("401"), "{}", leader.stderr());
    // A candidate that has led waits for another token.
    std::thread::sleep(Duration::from_secs(5));
    replace();
    bench.wait_for_term("leader", 1);
    assert_eq!(terminate(&mut leader), ["renew_deadline", "shut_down"]);
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn a_candidate_whose_token_has_expired_before_it_starts_ends_and_says_so() {
    let test = "a_candidate_whose_token_has_expired_before_it_starts_ends_and_says_so";
    let Some(bench) = Bench::new(test, Duration::from_secs(15)).map(Bench::with_rights) else {
        return;
    };
    let valid = Duration::from_secs(1);
    let token = bench
        .server
        .sign_token(&bench.place.namespace, "worker", valid);
    bench.write_token(&token);
    std::thread::sleep(2 * valid);
    let mut candidate = bench.run("candidate");
    assert_eq!(candidate.wait().code(), Some(77));
    assert!(candidate.stderr().contains("401"), "{}", candidate.stderr());
}

#[test]
#[ignore = "takes half a minute"]
fn another_authority_ends_no_term_if_it_is_known_before_and_a_term_at_its_deadline_if_not() {
    const DURATION: Duration = Duration::from_secs(24);
    let test =
        "another_authority_ends_no_term_if_it_is_known_before_and_a_term_at_its_deadline_if_not";
    let Some(mut bench) = Bench::alone(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let file = bench.place.files.join("ca.crt");
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let restart = |bench: &mut Bench, is_known: bool| {
        let server = bench.server_mut();
        let old = fs::read_to_string(server.ca_file()).unwrap();
        server.replace_authority();
        let new = fs::read_to_string(server.ca_file()).unwrap();
        if is_known {
            fs::write(&file, old + &new).unwrap();
        }
        server.stop(Signal::SIGKILL);
        server.spawn();
        server.wait_until_ready();
        new
    };
    restart(&mut bench, true);
    bench.wait_for_renewal();
    bench.wait_for_renewal();
    assert_eq!(bench.terms().len(), 1, "{}", leader.stderr());
    let new = restart(&mut bench, false);
    assert_eq!(wait_for_ends(&leader, 1), ["renew_deadline"]);
    wait_for("the reason", || {
        leader.stderr().contains("UnknownIssuer").then_some(())
    });
    fs::write(&file, new).unwrap();
    bench.wait_for_term("leader", 1);
    assert_eq!(terminate(&mut leader), ["renew_deadline", "shut_down"]);
    bench.assert_one_at_a_time();
}
