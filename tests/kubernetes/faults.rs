//! Faults of leaders, of the network and of the API server.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure::{Candidate, Config, EndReason, TimingsOptions};
use tenure_tests::process::Process;
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::{Limit, wait_for};

use super::api::{Api, Asked, Fate};
use super::rights::with_token;
use super::{Bench, DURATION, assert_epochs_increase, candidate, config, holder};

#[test]
fn a_killed_leader_by_a_kubernetes_lease_has_a_successor_when_its_lease_has_expired() {
    let bench = Bench::new();
    let first = bench.candidate("first");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = bench.candidate("second");
    bench.wait_for_follower("second");
    bench.wait_for_renewal();
    first.signal(Signal::SIGKILL);
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    let gap = next.at - bench.receiver.last_of("first", epoch).at;
    eprintln!("no leader for {gap:?}, with a lease of {DURATION:?}");
    assert!(gap > DURATION / 2, "{gap:?}");
    bench.verify();
}

#[test]
fn a_leader_by_a_kubernetes_lease_that_was_frozen_is_refused_and_steps_down() {
    let bench = Bench::new();
    let first = bench.candidate("first");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = bench.candidate("second");
    bench.wait_for_follower("second");
    fs::write(bench.freeze_file("first"), "").unwrap();
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    first.signal(Signal::SIGCONT);
    let ended = bench.receiver.note("first", "ended");
    assert!(ended.text.ends_with(&epoch.to_string()), "{ended:?}");
    // Only the write in flight arrived late, and the fence refused it.
    let acts = bench.receiver.acts();
    let stale: Vec<_> = acts.iter().filter(|act| !act.accepted).collect();
    assert_eq!(stale.len(), 1, "{stale:?}");
    bench.verify();
}

#[test]
fn a_leader_by_a_kubernetes_lease_that_is_cut_off_stops_before_another_leads() {
    let bench = Bench::new();
    let proxy = bench.runtime.block_on(Proxy::start(bench.api.address()));
    let proxy = proxy.unwrap();
    let through = format!("http://{}", proxy.address());
    let _first = Process::spawn(&mut bench.candidate_command("first", &through, DURATION));
    let mut epoch = 0;
    for mode in [ProxyMode::Hang, ProxyMode::HangReplies] {
        let leader = bench.receiver.next_leader(epoch);
        assert_eq!(leader.candidate, "first");
        let mut second = bench.candidate("second");
        bench.wait_for_follower("second");
        proxy.set(mode);
        let stopped = bench
            .receiver
            .note("first", &format!("stopped {}", leader.epoch));
        let next = bench.receiver.next_leader(leader.epoch);
        assert_eq!(next.candidate, "second");
        assert!(stopped.at < next.after, "{mode:?}");
        epoch = next.epoch;
        proxy.set(ProxyMode::Pass);
        second.signal(Signal::SIGTERM);
        assert!(second.wait().success());
    }
    bench.verify();
}

#[test]
fn with_an_api_server_that_fails_at_random_leaders_do_not_overlap_and_epochs_increase() {
    const RUN: Duration = Duration::from_secs(8);
    let bench = Bench::new();
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .subsec_nanos();
    eprintln!("seed {seed}");
    let mut random = u64::from(seed) | 1;
    bench.api.set_rule(move |_| {
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match random % 20 {
            0 | 1 => Fate::Lost,
            2 | 3 => Fate::LosesAnswer,
            4 => Fate::Repeated,
            5 => Fate::Refused(500, "InternalError", 0),
            6 => Fate::Refused(410, "Gone", 0),
            7 => Fate::Busy(429, 1),
            8 => Fate::Refused(409, "Conflict", 0),
            9 => Fate::Page(502),
            _ => Fate::Passes,
        }
    });
    let start = Instant::now();
    let mut candidates: Vec<_> = ["first", "second", "third"]
        .map(|id| (id, bench.candidate(id)))
        .into();
    let epochs = || -> std::collections::BTreeSet<u64> {
        bench.receiver.acts().iter().map(|act| act.epoch).collect()
    };
    while start.elapsed() < RUN || epochs().len() < 3 {
        std::thread::sleep(Duration::from_millis(1_500));
        let acts = bench.receiver.acts();
        let Some(leader) = acts.last().map(|act| act.candidate.clone()) else {
            continue;
        };
        let index = candidates.iter().position(|(id, _)| **id == *leader);
        let index = index.expect("a candidate");
        let (id, process) = candidates.swap_remove(index);
        process.signal(Signal::SIGKILL);
        drop(process);
        candidates.push((id, bench.candidate(id)));
    }
    eprintln!("{} terms", epochs().len());
    bench.verify();
}

#[tokio::test]
async fn a_leader_keeps_its_term_while_other_programs_change_its_object_all_the_time() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let storm = api.clone();
    let storm = tokio::spawn(async move {
        for number in 0_u32.. {
            storm.edit(|lease| {
                lease["metadata"]["annotations"]["storm"] = number.to_string().into();
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let follower = candidate("follower", &api).await;
    let waits = tokio::time::timeout(3 * DURATION, follower.campaign()).await;
    assert!(
        waits.is_err(),
        "changes of annotations are no end of the term"
    );
    assert!(leadership.is_valid());
    let conflicts = api.asked().iter().filter(|it| it.status == 409).count();
    assert!(conflicts > 0, "each renewal meets another version");
    // The storm does not keep a successor from leading, either.
    let epoch = leadership.epoch();
    leadership.resign().await;
    let next = follower.campaign().await.unwrap();
    assert!(next.epoch() > epoch);
    next.resign().await;
    storm.abort();
    assert_epochs_increase(&api);
}

#[tokio::test]
async fn a_waiting_candidate_asks_no_earlier_than_the_api_server_wants_and_a_leader_renews() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    // In plain text as by priority and fairness, and in JSON.
    for (name, fate) in [
        ("one", Fate::Busy(429, 30)),
        ("two", Fate::Refused(429, "TooManyRequests", 30)),
    ] {
        api.set_rule(move |asked: &Asked| match asked.method.as_str() {
            "GET" => fate,
            _ => Fate::Passes,
        });
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        let follower = with_token(config("follower", &api), &api, &path);
        let follower = Candidate::start(follower).await.unwrap();
        let before = api.asked().len();
        let waits = tokio::time::timeout(DURATION, follower.campaign()).await;
        assert!(waits.is_err());
        let asked = api.asked().split_off(before);
        let reads = asked
            .iter()
            .filter(|it| it.method == "GET" && it.user == name);
        // The release of the campaign that is given up reads once more.
        let reads = reads.count();
        assert!((1..=2).contains(&reads), "{reads} reads in a pause of 30 s");
        assert!(
            asked
                .iter()
                .any(|it| it.method == "PUT" && it.status == 200)
        );
        assert!(leadership.is_valid());
    }
    leadership.resign().await;
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_found_and_not_repeated_as_another_term() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let mut writes = 0;
    api.set_rule(move |asked: &Asked| {
        writes += u32::from(asked.method != "GET" && !asked.is_review());
        match (asked.method.as_str(), writes) {
            ("POST", 1) => Fate::LosesAnswer,
            _ => Fate::Passes,
        }
    });
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let lease = api.lease().unwrap();
    assert_eq!(holder(&lease), "leader");
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    let first = &api.events()[0].object["metadata"]["annotations"]["tenure/epoch"];
    assert_eq!(*first, leadership.epoch().to_string());
    leadership.resign().await;
}

#[tokio::test]
async fn a_server_that_is_no_api_server_elects_no_leader() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    for status in [200, 201, 404, 409] {
        api.set_rule(move |_| Fate::Page(status));
        let campaign = tokio::time::timeout(Duration::from_millis(600), leader.campaign()).await;
        assert!(campaign.is_err(), "{status}");
    }
    assert!(api.lease().is_none());
    // A server that answers each write with success and executes none is no better.
    api.set_rule(|_| Fate::Passes);
    leader.campaign().await.unwrap().resign().await;
    api.set_rule(|asked: &Asked| match asked.method.as_str() {
        "PUT" => Fate::Ignored,
        _ => Fate::Passes,
    });
    let campaign = tokio::time::timeout(Duration::from_millis(600), leader.campaign()).await;
    assert!(campaign.is_err());
}

#[test]
fn a_frozen_run_by_a_kubernetes_lease_has_ended_its_program_before_another_leads() {
    let bench = Bench::new();
    let lines = || bench.log();
    let first = bench.run("first", DURATION);
    wait_for("the first leader", || {
        lines().contains(" first ").then_some(())
    });
    let _second = bench.run("second", DURATION);
    wait_for("a waiting candidate", || {
        (bench.api.asked().len() > 10).then_some(())
    });
    first.signal(Signal::SIGSTOP);
    wait_for("the second leader", || {
        lines().contains(" second ").then_some(())
    });
    first.signal(Signal::SIGCONT);
    std::thread::sleep(Duration::from_millis(300));
    // One line of the first program after one of the second would be an overlap.
    let text = lines();
    let after = text.lines().skip_while(|line| !line.contains(" second "));
    let late: Vec<_> = after.filter(|line| line.contains(" first ")).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn a_second_stop_signal_kills_the_program_and_leaves_the_object_to_its_holder() {
    let bench = Bench::new();
    let mut run = bench.run_after("trap '' TERM", "impatient", Duration::from_secs(60));
    wait_for("a leader", || {
        bench.log().contains(" impatient ").then_some(())
    });
    run.begin_to_stop(Signal::SIGTERM);
    run.end_by_second(Signal::SIGTERM);
    assert_eq!(holder(&bench.api.lease().unwrap()), "impatient");
}

/// The configuration of a candidate whose object would be held for ten minutes after an outage.
fn patient(id: &str, api: &Api) -> Config {
    let long = |timings: &mut TimingsOptions| {
        timings.lease_duration = Some(Duration::from_secs(600));
        timings.renew_interval = Some(Duration::from_millis(300));
        timings.renew_deadline = Some(Duration::from_secs(2));
    };
    config(id, api).with_adjusted_timings(long).unwrap()
}

#[tokio::test]
async fn after_an_outage_of_the_api_server_a_candidate_leads_at_once_under_another_id_and_epoch() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = Candidate::start(patient("leader", &api)).await.unwrap();
    let first = leader.campaign().await.unwrap();
    let epoch = first.epoch();
    let term = |api: &Api| api.lease().unwrap()["metadata"]["annotations"]["tenure/term"].clone();
    let before = term(&api);
    api.set_rule(|_| Fate::Lost);
    assert_eq!(first.lost().await, EndReason::RenewDeadline);
    drop(first);
    let campaign = tokio::spawn(async move { leader.campaign().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The object still names the old term.
    assert_eq!(term(&api), before);
    api.set_rule(|_| Fate::Passes);
    let next = tokio::time::timeout(Duration::from_secs(30), campaign).await;
    let next = next.expect("no wait for the old term").unwrap();
    assert!(next.epoch() > epoch);
    assert_ne!(term(&api), before);
    assert_epochs_increase(&api);
    next.resign().await;
}
