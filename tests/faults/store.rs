//! Stores that are killed, frozen and cut off.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure_core::Instant;
use tenure_tests::client::compete;
use tenure_tests::history::{Answer, What};
use tenure_tests::process::Process;
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::receiver::{Link, now};
use tenure_tests::wait_for;

use super::{Bench, ELECTION, LEASE, id};

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

/// Timings of a long-lived leader: lease duration, renew interval, renew deadline, stop grace. The
/// time from the deadline to the end of the lease is shorter than the delay of answers.
const LONG: &str = "3000,600,2700,100";
const LATE: Duration = Duration::from_millis(500);

#[test]
fn a_leader_with_late_answers_counts_from_its_requests() {
    let bench = Bench::new();
    let proxy = bench
        .runtime
        .block_on(Proxy::start(bench.tap.address()))
        .unwrap();
    let mut first = bench.candidate_with("first", proxy.address(), LONG);
    let _first = Process::spawn(&mut first);
    let epoch = bench.receiver.next_leader(0).epoch;
    let mut second = bench.candidate_with("second", bench.store.address(), LONG);
    let _second = Process::spawn(&mut second);
    bench.wait_for_waiters(1);
    bench.tap.delay_answers(LATE);
    // The answer has arrived, long after the store handled the request.
    let renewals = || {
        let calls = bench.tap.calls();
        calls
            .into_iter()
            .rfind(|call| matches!(call.what, What::Renew { .. }))
    };
    let begin = renewals().map(|call| call.sent);
    wait_for("a renewal with a late answer", || {
        let renewal = renewals().filter(|call| Some(call.sent) > begin)?;
        let asked = Duration::from_nanos(renewal.sent.as_nanos());
        (now() - asked > LATE + LATE / 20).then_some(())
    });
    proxy.set(ProxyMode::Refuse);
    let next = bench.receiver.next_leader(epoch);
    let stopped = bench.receiver.note("first", "stopped");
    let early = next.at.saturating_sub(stopped.at);
    eprintln!("stopped {early:?} before the next leader acted");
    assert!(stopped.at < next.at, "the old leader stopped first");
    bench.receiver.assert_one_at_a_time();
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

#[test]
fn a_second_store_on_the_same_folder_is_refused_without_effect() {
    let bench = Bench::new();
    let client = bench.client();
    let granted = bench.runtime.block_on(client.acquire("tests/a", 1));
    let (_, granted) = granted.unwrap();
    let folder = bench.folder.path().join("store");
    let before = files(&folder);
    let text = folder.to_str().unwrap();
    let mut second = Process::start(&["serve", "--listen", "127.0.0.1:0", "--data-dir", text]);
    assert_eq!(second.wait().code(), Some(1));
    wait_for("the reason", || {
        second.stderr().contains(text).then_some(())
    });
    assert_eq!(second.stdout(), "");
    assert_eq!(files(&folder), before);
    let renewed = bench.runtime.block_on(client.renew("tests/a", 1));
    assert_eq!(renewed.unwrap().1["epoch"], granted["epoch"]);
    bench.tap.assert_possible();
}

fn files(folder: &std::path::Path) -> Vec<(String, u64)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.metadata().unwrap().len())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_restart_does_not_shorten_a_lease() {
    let mut bench = Bench::new();
    let client = bench.client();
    let ask = |number| json!({"lease_id": id(number), "holder": "c", "duration_ms": 1_000, "wait_ms": 5_000});
    let granted = bench
        .runtime
        .block_on(client.post("tests/a", "acquire", ask(1)));
    let (_, first) = granted.unwrap();
    let mut old = Link::connect(bench.receiver.address(), "old");
    let mut new = Link::connect(bench.receiver.address(), "new");
    let act = |link: &mut Link, view: &serde_json::Value| {
        let now = now();
        assert!(link.act(view["epoch"].as_u64().unwrap(), now, now));
    };
    act(&mut old, &first);
    let begin = now();
    bench.restart_store();
    act(&mut old, &first);
    let granted = bench
        .runtime
        .block_on(client.post("tests/a", "acquire", ask(2)));
    let (status, second) = granted.unwrap();
    assert_eq!(status, 200, "{second}");
    assert!(now() - begin >= Duration::from_millis(990));
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64());
    act(&mut new, &second);
    bench.verify();
}
