//! Stores that are killed, frozen and cut off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use tenure_core::Instant;
use tenure_tests::client::compete;
use tenure_tests::history::{Answer, What};
use tenure_tests::process::Process;
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::{Bench, ELECTION, LEASE};

#[test]
fn a_store_that_is_killed_under_twenty_candidates_keeps_its_promises() {
    /// Every outage is shorter than the renew deadline.
    const TIMINGS: &str = "6000,500,4500,200";
    let mut bench = Bench::new();
    let mut candidates: BTreeMap<String, Process> = (1..=20)
        .map(|number| {
            let id = format!("c{number}");
            let mut command = bench.candidate_with(&id, bench.tap.address(), TIMINGS);
            (id, Process::spawn(&mut command))
        })
        .collect();
    // More clients, which acquire and release more often than a process would.
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (1..=8)
        .map(|number| {
            let name = format!("tests/contended-{}", number % 2);
            let task = compete(bench.client(), name, number, stop.clone());
            bench.runtime.spawn(task)
        })
        .collect();
    let mut epoch = 0;
    for _ in 0..4 {
        let leader = bench.receiver.next_leader(epoch);
        epoch = leader.epoch;
        bench.wait_for_waiters(candidates.len() as u64 - 1);
        bench.restart_store();
        let restarted = Instant::default() + now();
        // The leader still holds its lease: it continues, and its renewals succeed.
        wait_for("a renewal after the restart", || {
            let calls = bench.tap.calls();
            let since = calls.iter().filter(|call| {
                call.lease == ELECTION
                    && call.sent > restarted
                    && matches!(call.what, What::Renew { .. })
            });
            let answers = since.filter_map(|call| call.answer.as_ref());
            let answers = answers.map(|(_, answer)| match answer {
                Answer::Done(seen) => assert_eq!(seen.epoch, Some(epoch)),
                Answer::Refused => panic!("the holder of {epoch} was refused"),
            });
            answers.reduce(|(), ()| ())
        });
        let acts = bench.receiver.acts();
        assert_eq!(acts.last().map(|act| act.epoch), Some(epoch));
        let old = candidates.remove(&leader.candidate).unwrap();
        old.signal(Signal::SIGTERM);
        let ended = bench.receiver.note(&leader.candidate, "ended");
        assert_eq!(ended.text, format!("ended shut_down {epoch}"));
    }
    assert!(bench.receiver.next_leader(epoch).epoch > epoch);
    stop.store(true, Ordering::SeqCst);
    for other in others {
        bench.runtime.block_on(other).unwrap();
    }
    bench.verify();
}

/// Cuts a leader off from the store for longer than its lease, while another candidate stays
/// connected.
fn check_that_a_leader_stops_in_time(mode: ProxyMode) {
    let bench = Bench::new();
    let proxy = bench
        .runtime
        .block_on(Proxy::start(bench.tap.address()))
        .unwrap();
    let _first = Process::spawn(&mut bench.candidate_command("first", proxy.address()));
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = bench.candidate("second");
    bench.wait_for_waiters(1);
    let cut = now();
    proxy.set(mode);
    let ended = bench.receiver.note("first", "ended");
    assert_eq!(ended.text, format!("ended renew_deadline {epoch}"));
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    let stopped = bench.receiver.note("first", "stopped");
    eprintln!(
        "{mode:?}: stopped {:?} after the cut, {:?} before the next leader acted",
        stopped.at - cut,
        next.at.saturating_sub(stopped.at)
    );
    assert!(stopped.at < next.at, "the old leader stopped first");
    proxy.set(ProxyMode::Pass);
    bench.wait_for_waiters(1);
    bench.verify();
}

#[test]
fn a_leader_stops_in_time_when_the_store_does_not_answer() {
    check_that_a_leader_stops_in_time(ProxyMode::Hang);
}

#[test]
fn a_leader_stops_in_time_when_the_store_refuses_connections() {
    check_that_a_leader_stops_in_time(ProxyMode::Refuse);
}

#[test]
fn a_leader_stops_in_time_when_the_store_is_frozen_and_one_leads_after_the_store_resumes() {
    let bench = Bench::new();
    let _candidates = ["first", "second"].map(|id| bench.candidate(id));
    let leader = bench.receiver.next_leader(0);
    bench.wait_for_waiters(1);
    let frozen = now();
    bench.store.process.signal(Signal::SIGSTOP);
    let stopped = bench.receiver.note(&leader.candidate, "stopped");
    assert!(stopped.at - frozen < LEASE, "{:?}", stopped.at - frozen);
    std::thread::sleep(2 * LEASE);
    bench.store.process.signal(Signal::SIGCONT);
    let next = bench.receiver.next_leader(leader.epoch);
    assert!(next.before > stopped.at);
    bench.verify();
}
