//! Servers whose clocks jump, or run at different rates.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::needs::preload;
use tenure_tests::process::tenure;
use tenure_tests::proxy::ProxyMode;
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::{Bench, DEFAULT, SHORT, pass, rounds};

/// Compiled into a library that is loaded before the C library.
const CLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster/clock.c");

/// The file with the seconds by which the clock of this server is ahead.
fn ahead(cluster: &Cluster, server: usize) -> PathBuf {
    cluster.folder.path().join(format!("ahead-{server}"))
}

/// Lets the clock of a server jump, in one step.
fn jump(cluster: &Cluster, server: usize, seconds: u64) {
    let next = cluster.folder.path().join("next");
    fs::write(&next, format!("{seconds}\n")).expect("a file");
    fs::rename(&next, ahead(cluster, server)).expect("a file");
}

/// Starts servers whose clocks can jump, and have these rates in thousandths.
fn start(test: &str, settings: Settings, rates: &[u32]) -> Option<Bench> {
    let mut cluster = Cluster::prepare(test, settings)?;
    let library = preload(test, CLOCK, cluster.folder.path(), &tenure())?;
    let since: Duration = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .expect("a clock")
        .into();
    for (number, rate) in rates.iter().enumerate() {
        let file = ahead(&cluster, number);
        fs::write(&file, "0\n").expect("a file");
        cluster.servers[number].environment = vec![
            ("LD_PRELOAD".into(), library.clone()),
            ("CLOCK_AHEAD".into(), file),
            ("CLOCK_SINCE".into(), since.as_nanos().to_string().into()),
            ("CLOCK_PER_MILLE".into(), rate.to_string().into()),
        ];
        cluster.servers[number].spawn();
        cluster.servers[number].wait_until_ready(&cluster.runtime);
    }
    cluster.active();
    Some(Bench::over(cluster))
}

#[test]
fn a_standby_whose_clock_jumps_takes_nothing_over_and_a_jump_silences_an_active_server() {
    let test =
        "a_standby_whose_clock_jumps_takes_nothing_over_and_a_jump_silences_an_active_server";
    let Some(bench) = start(test, Settings::short(DEFAULT), &[1_000; 3]) else {
        return;
    };
    let (active, generation) = bench.cluster.ownership();
    for (round, standby) in bench
        .standbys(active)
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        // Between two beats, and at the time of one.
        pass(SHORT / 20);
        jump(&bench.cluster, standby, 60 * (round as u64 + 1));
        pass(SHORT / 2);
    }
    assert_eq!(bench.cluster.active(), active);
    assert_eq!(bench.cluster.generation(active), generation);
    // The active server can't append any more, and its clock jumps: it answers nothing from then
    // on, though its ownership would have lasted for a while.
    bench.cluster.cut(active, ProxyMode::Hang);
    jump(&bench.cluster, active, 60);
    let client = bench.cluster.client_of(active);
    let (status, body) = wait_for("an answer", || {
        bench.cluster.runtime.block_on(client.view("probe/lease"))
    });
    assert_eq!(status, 503, "{body}");
    bench.cluster.active_beside(active);
    bench.cluster.cut(active, ProxyMode::Pass);
    bench.cluster.wait_until_deposed(active, generation);
    bench.verify();
}

/// Whether each answer waits for an append that began after the answer was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    FromMemory,
    Confirmed,
}

/// Cuts the active one of two servers off from etcd, this number of times. Their clocks have these
/// rates in thousandths. The servers never answer at the same time if the rates differ by less than
/// a fifth, or if answers are confirmed.
fn rates(test: &str, answers: Answers, rates: [u32; 2], count: usize) -> Option<Bench> {
    let settings = Settings {
        servers: 2,
        cluster: format!("confirm = {}", answers == Answers::Confirmed),
        ..Settings::short(SHORT)
    };
    let bench = start(test, settings, &rates)?;
    let (slowest, fastest) = (rates.iter().min()?, rates.iter().max()?);
    let is_assumed = fastest * 5 <= slowest * 6;
    for _ in 0..count {
        let (active, generation) = bench.cluster.ownership();
        let other = 1 - active;
        let taken_over = Arc::<AtomicBool>::default();
        let [old, new] = [active, other].map(|server| {
            let client = bench.cluster.client_of(server);
            let taken_over = taken_over.clone();
            bench.cluster.runtime.spawn(async move {
                let mut last = None;
                while !taken_over.load(Ordering::SeqCst) {
                    let sent = now();
                    if let Some((200, _)) = client.view("probe/lease").await {
                        last = Some((sent, now()));
                        if server == other {
                            // The other server may still answer for a while, if it is wrong.
                            tokio::time::sleep(SHORT / 2).await;
                            taken_over.store(true, Ordering::SeqCst);
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                // With confirmed answers, the server may have been cut off before the first one.
                last.unwrap_or_default()
            })
        });
        bench.cluster.cut(active, ProxyMode::Hang);
        let (last, _) = bench.cluster.runtime.block_on(old).expect("a client");
        let (_, first) = bench.cluster.runtime.block_on(new).expect("a client");
        eprintln!(
            "rates {rates:?}, {answers:?}: {active} was silent {:?} before {other} answered",
            first.saturating_sub(last)
        );
        if is_assumed || answers == Answers::Confirmed {
            assert!(last < first, "two servers answered at the same time");
        }
        bench.cluster.cut(active, ProxyMode::Pass);
        bench.cluster.wait_until_deposed(active, generation);
    }
    Some(bench)
}

#[test]
fn clocks_whose_rates_differ_by_less_than_a_fifth_never_let_two_servers_answer() {
    let test = "clocks_whose_rates_differ_by_less_than_a_fifth_never_let_two_servers_answer";
    if let Some(Bench { load, cluster }) = rates(test, Answers::FromMemory, [920, 1_080], 2) {
        // The history of requests is not checked: by the clocks of clients a lease may end early.
        load.verify_answers(&cluster);
        let _ = cluster.audit("c");
    }
}

#[test]
fn confirmed_answers_need_no_clocks() {
    let test = "confirmed_answers_need_no_clocks";
    let outcome = rates(test, Answers::Confirmed, [600, 1_400], 2);
    if let Some(Bench { load, cluster }) = outcome {
        load.verify_fence(&cluster);
        let _ = cluster.audit("c");
    }
}

#[test]
#[ignore = "about 2 minutes"]
fn clocks_with_different_rates_never_let_two_servers_answer_in_many_take_overs() {
    let test = "clocks_with_different_rates_never_let_two_servers_answer_in_many_take_overs";
    for pair in [[920, 1_080], [1_080, 920]] {
        if let Some(Bench { load, cluster }) = rates(test, Answers::FromMemory, pair, rounds(20)) {
            load.verify_answers(&cluster);
            let _ = cluster.audit("c");
        }
    }
}

#[test]
#[ignore = "about a minute"]
fn clocks_that_differ_by_more_than_the_assumption_keep_the_chain_and_the_fence() {
    let test = "clocks_that_differ_by_more_than_the_assumption_keep_the_chain_and_the_fence";
    if let Some(Bench { load, cluster }) = rates(test, Answers::FromMemory, [600, 1_400], rounds(6))
    {
        load.verify_fence(&cluster);
        let _ = cluster.audit("c");
    }
}
