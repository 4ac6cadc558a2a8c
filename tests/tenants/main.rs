//! One client does all it can to a store, and a hundred leaders of another namespace keep their
//! terms: a principal with the role `candidate` and 64 connections, and a client without any
//! credential, over HTTP and over TLS, against the native API and that of Azure.
//!
//! Each check has a short form, which always runs, and a long form:
//! `.ci/tenants`, or without its build
//! `cargo test -p tenure-tests --test tenants long_form -- --ignored --nocapture --test-threads 1`.
//! `TENURE_MINUTES` changes the ten minutes of each of its runs.

mod leaders;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaders::Leaders;
use store::{Scale, Store};
use tenure_tests::flood::{Attack, Attacker};
use tenure_tests::needs::{can_run, may_open};

/// The target for the slowest renewal on two processors that nothing else uses. It is printed and
/// not asserted, because other machines are slower or busy.
const TARGET: Duration = Duration::from_secs(1);

/// Lets an attacker do all it can: for some seconds, or for ten minutes in the long form.
fn run(test: &str, attacker: Attacker, over_tls: bool, scale: Scale) {
    let minutes = std::env::var("TENURE_MINUTES").ok();
    let time = match scale {
        Scale::Short => Duration::from_secs(6),
        Scale::Long => {
            let minutes = minutes.and_then(|minutes| minutes.parse().ok());
            Duration::from_secs(60 * minutes.unwrap_or(10))
        }
    };
    if !can_run(test, "4,096 open files", may_open(4_096)) {
        return;
    }
    let store = Arc::new(Store::start(over_tls));
    store.fill(scale);
    let stop = Arc::new(AtomicBool::new(false));
    let leaders = Leaders::start(Arc::clone(&store), Arc::clone(&stop), scale);
    let attack = Attack::start(&store.target(scale), attacker, scale.connections(attacker));
    std::thread::sleep(time);
    let counts = attack.stop();
    stop.store(true, Ordering::Relaxed);
    let renewals = leaders.join();
    let (peak, limit) = (store.peak_memory(), store::memory_limit());
    println!("{attacker:?}, over TLS: {over_tls}, {time:?}");
    println!("{counts}");
    println!(
        "renewals: {} of 100 leaders, slowest {:.0?}, target {TARGET:?}: {}",
        renewals.count,
        renewals.slowest,
        if renewals.slowest < TARGET {
            "met"
        } else {
            "missed"
        }
    );
    println!(
        "memory: at most {} MiB, limit {} MiB",
        peak >> 20,
        limit >> 20
    );
    assert!(counts.requests() > 100, "an attack");
    assert!(peak < limit, "{peak} bytes of memory");
}

#[test]
fn a_candidate_of_another_namespace_costs_no_leader_its_term() {
    run(
        "a_candidate_of_another_namespace_costs_no_leader_its_term",
        Attacker::Candidate,
        false,
        Scale::Short,
    );
}

#[test]
fn a_candidate_of_another_namespace_costs_no_leader_its_term_over_tls() {
    run(
        "a_candidate_of_another_namespace_costs_no_leader_its_term_over_tls",
        Attacker::Candidate,
        true,
        Scale::Short,
    );
}

#[test]
fn a_client_without_a_credential_costs_no_leader_its_term() {
    run(
        "a_client_without_a_credential_costs_no_leader_its_term",
        Attacker::Stranger,
        false,
        Scale::Short,
    );
}

#[test]
fn a_client_without_a_credential_costs_no_leader_its_term_over_tls() {
    run(
        "a_client_without_a_credential_costs_no_leader_its_term_over_tls",
        Attacker::Stranger,
        true,
        Scale::Short,
    );
}

mod long_form {
    use super::*;

    #[test]
    #[ignore = "takes ten minutes, and needs a machine of its own"]
    fn a_candidate_of_another_namespace_costs_no_leader_its_term_in_ten_minutes() {
        run(
            "a_candidate_of_another_namespace_costs_no_leader_its_term_in_ten_minutes",
            Attacker::Candidate,
            false,
            Scale::Long,
        );
    }

    #[test]
    #[ignore = "takes ten minutes, and needs a machine of its own"]
    fn a_candidate_of_another_namespace_costs_no_leader_its_term_in_ten_minutes_over_tls() {
        run(
            "a_candidate_of_another_namespace_costs_no_leader_its_term_in_ten_minutes_over_tls",
            Attacker::Candidate,
            true,
            Scale::Long,
        );
    }

    #[test]
    #[ignore = "takes ten minutes, and needs a machine of its own"]
    fn a_client_without_a_credential_costs_no_leader_its_term_in_ten_minutes() {
        run(
            "a_client_without_a_credential_costs_no_leader_its_term_in_ten_minutes",
            Attacker::Stranger,
            false,
            Scale::Long,
        );
    }

    #[test]
    #[ignore = "takes ten minutes, and needs a machine of its own"]
    fn a_client_without_a_credential_costs_no_leader_its_term_in_ten_minutes_over_tls() {
        run(
            "a_client_without_a_credential_costs_no_leader_its_term_in_ten_minutes_over_tls",
            Attacker::Stranger,
            true,
            Scale::Long,
        );
    }
}
